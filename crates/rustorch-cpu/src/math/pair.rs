//! Arithmetic of pairs of `f64`, for functions whose terms cancel.

/// The unevaluated sum of two numbers, of which the second is at most half a unit of the first one's last place: about 106 bits.
///
/// Dekker: *A floating-point technique for extending the available precision*, 1971.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) high: f64,
    pub(super) low: f64,
}

impl Pair {
    pub(super) const ONE: Pair = Pair { high: 1.0, low: 0.0 };
    pub(super) const PI: Pair = Pair { high: std::f64::consts::PI, low: 1.224_646_799_147_353_2e-16 };
    pub(super) const LN_2: Pair = Pair { high: std::f64::consts::LN_2, low: 2.319_046_813_846_299_6e-17 };

    #[inline(always)]
    pub(super) fn of(x: f64) -> Pair {
        Pair { high: x, low: 0.0 }
    }

    #[inline(always)]
    pub(super) fn value(self) -> f64 {
        self.high + self.low
    }

    /// Exact.
    #[inline(always)]
    pub(super) fn sum(a: f64, b: f64) -> Pair {
        let high = a + b;
        let part = high - a;
        Pair { high, low: (a - (high - part)) + (b - part) }
    }

    #[inline(always)]
    pub(super) fn plus(self, other: Pair) -> Pair {
        let (high, low) = (Pair::sum(self.high, other.high), Pair::sum(self.low, other.low));
        let first = Pair::sum(high.high, high.low + low.high);
        Pair::sum(first.high, first.low + low.low)
    }

    #[inline(always)]
    pub(super) fn negated(self) -> Pair {
        Pair { high: -self.high, low: -self.low }
    }

    pub(super) fn magnitude(self) -> Pair {
        if self.high < 0.0 { self.negated() } else { self }
    }

    #[inline(always)]
    pub(super) fn times(self, other: Pair) -> Pair {
        let high = self.high * other.high;
        let low = self.high.mul_add(other.high, -high);
        Pair::sum(high, low + (self.high * other.low + self.low * other.high))
    }

    pub(super) fn divided(self, by: Pair) -> Pair {
        let first = self.high / by.high;
        let rest = self.plus(by.times(Pair::of(-first)));
        let second = rest.high / by.high;
        let rest = rest.plus(by.times(Pair::of(-second)));
        let sum = Pair::sum(first, second);
        Pair::sum(sum.high, sum.low + rest.high / by.high)
    }

    /// The natural logarithm of a positive number: `2·artanh((m − 1)/(m + 1))` of its mantissa.
    pub(super) fn ln(self) -> Pair {
        let (_, exponent) = libm::frexp(self.high);
        let scaled = |exponent: i32| {
            let factor = 2f64.powi(-exponent);
            Pair { high: self.high * factor, low: self.low * factor }
        };
        let mut exponent = exponent;
        if scaled(exponent).high < std::f64::consts::FRAC_1_SQRT_2 {
            exponent -= 1;
        }
        let m = scaled(exponent);
        let ratio = m.plus(Pair::of(-1.0)).divided(m.plus(Pair::ONE));
        let square = ratio.times(ratio);
        let mut series = Pair::of(0.0);
        for n in (1..=43).rev().step_by(2) {
            series = series.times(square).plus(Pair::ONE.divided(Pair::of(f64::from(n))));
        }
        let of_mantissa = ratio.times(series).times(Pair::of(2.0));
        of_mantissa.plus(Pair::LN_2.times(Pair::of(f64::from(exponent))))
    }
}
