//! Scalar functions: [`Real`] is what pointwise kernels, norms and attention are written in.
//!
//! The `f32` functions, and exponentials and logarithms of `f64`, are branch-free, so that the compiler turns loops over them into vector code at every [`Level`].

pub(crate) mod complex;
mod double;
mod fraction;
mod gamma;
pub(crate) mod glibc;
mod log_add_exp;
mod pair;
mod precise;
mod single;
mod wide;

pub(crate) use wide::{Half, Wide};

use crate::simd::Level;
use rustorch_core::Element;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// Where the reduction of an `f32` by π/2 stops being precise.
const FAR: f32 = 1e6;

/// `f32` or `f64`.
pub(crate) trait Real:
    Element
    + PartialOrd
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// +∞
    const INFINITY: Self;
    /// −∞
    const NEG_INFINITY: Self;

    /// Rounds a constant.
    fn of(x: f64) -> Self;
    /// Exact for both.
    fn to_f64(self) -> f64;

    fn abs(self) -> Self;
    fn copysign(self, sign: Self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn round(self) -> Self;
    fn trunc(self) -> Self;
    fn sqrt(self) -> Self;
    /// The remainder of truncated division.
    fn fmod(self, b: Self) -> Self;

    /// `self·a + b`: of `f32` rounded once, of `f64` twice.
    fn fma<L: Level>(self, l: L, a: Self, b: Self) -> Self;
    /// `self·a + b`, rounded once. Slow for `f64` on a CPU without such an instruction.
    #[inline(always)]
    fn fused<L: Level>(self, l: L, a: Self, b: Self) -> Self {
        self.fma(l, a, b)
    }
    /// Sine and cosine by the system's library, which others use, too: for results that have to equal theirs.
    fn system_sin_cos(self) -> (Self, Self);
    /// `self^b` by the system's library.
    fn system_pow(self, b: Self) -> Self;

    fn exp<L: Level>(self, l: L) -> Self;
    /// eˣ for x up to 88, quicker than `exp`: 0 where that is below the normal range.
    #[inline(always)]
    fn exp_normal<L: Level>(self, l: L) -> Self {
        self.exp(l)
    }
    /// eˣ where [that is normal](Self::exp_is_normal), with the bits of `exp`.
    fn exp_within<L: Level>(self, l: L) -> Self;
    /// Whether `exp_within` takes it.
    fn exp_is_normal(self) -> bool;
    fn expm1<L: Level>(self, l: L) -> Self;
    fn ln<L: Level>(self, l: L) -> Self;
    /// The logarithm of [positive normal numbers](Self::is_positive_normal), with the bits of `ln`.
    fn ln_normal<L: Level>(self, l: L) -> Self;
    /// Whether `ln_normal` takes it.
    fn is_positive_normal(self) -> bool;
    fn log2<L: Level>(self, l: L) -> Self;
    fn log10<L: Level>(self, l: L) -> Self;
    fn log1p<L: Level>(self, l: L) -> Self;
    fn sin<L: Level>(self, l: L) -> Self;
    fn cos<L: Level>(self, l: L) -> Self;
    fn tan<L: Level>(self, l: L) -> Self;
    fn asin<L: Level>(self, l: L) -> Self;
    fn acos<L: Level>(self, l: L) -> Self;
    fn atan<L: Level>(self, l: L) -> Self;
    fn sinh<L: Level>(self, l: L) -> Self;
    fn cosh<L: Level>(self, l: L) -> Self;
    fn tanh<L: Level>(self, l: L) -> Self;
    fn asinh<L: Level>(self, l: L) -> Self;
    fn acosh<L: Level>(self, l: L) -> Self;
    fn atanh<L: Level>(self, l: L) -> Self;
    fn erf<L: Level>(self, l: L) -> Self;
    /// The inverse of the error function.
    #[inline(always)]
    fn erfinv(self) -> Self {
        Self::of(erfinv(self.to_f64()))
    }
    /// 1 − erf(x).
    #[inline(always)]
    fn erfc(self) -> Self {
        Self::of(libm::erfc(self.to_f64()))
    }
    /// log|Γ(x)|.
    #[inline(always)]
    fn lgamma(self) -> Self {
        Self::of(gamma::lgamma(self.to_f64()))
    }
    /// The derivative of `lgamma`.
    #[inline(always)]
    fn digamma(self) -> Self {
        Self::of(gamma::digamma(self.to_f64()))
    }
    /// The derivative of `digamma`.
    #[inline(always)]
    fn trigamma(self) -> Self {
        Self::of(gamma::trigamma(self.to_f64()))
    }
    fn pow<L: Level>(self, l: L, b: Self) -> Self;
    fn atan2<L: Level>(self, l: L, x: Self) -> Self;
    /// log(eᵃ + eᵇ) for slices of equal length.
    fn log_add_exp<L: Level>(l: L, a: &[Self], b: &[Self], out: &mut [Self]);

    /// Whether the argument is too large for `sin`, `cos` and `tan`: use their `far` twins.
    #[inline(always)]
    fn is_far(self) -> bool {
        false
    }
    fn far_sin(self) -> Self {
        self
    }
    fn far_cos(self) -> Self {
        self
    }
    fn far_tan(self) -> Self {
        self
    }

    #[inline(always)]
    #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
    fn is_nan(self) -> bool {
        self != self
    }

    /// The larger; NaN if either is.
    #[inline(always)]
    fn larger(self, b: Self) -> Self {
        // A NaN on the left fails the first test and is its own sum; one on the right is the second value.
        let larger = if self > b { self } else { b };
        if self.is_nan() { self } else { larger }
    }

    /// The smaller; NaN if either is.
    #[inline(always)]
    fn smaller(self, b: Self) -> Self {
        let smaller = if self < b { self } else { b };
        if self.is_nan() { self } else { smaller }
    }

    /// 1/(1 + e⁻ˣ)
    #[inline(always)]
    fn sigmoid<L: Level>(self, l: L) -> Self {
        let e = (-self.abs()).exp(l);
        over_one_plus(if self < Self::ZERO { e } else { Self::ONE }, Self::ZERO, e)
    }

    /// x·sigmoid(x)
    #[inline(always)]
    fn silu<L: Level>(self, l: L) -> Self {
        let e = (-self.abs()).exp(l);
        if self < Self::ZERO {
            // What rounding the product lost counts, too.
            let product = self * e;
            over_one_plus(product, self.fma(l, e, -product), e)
        } else if self > Self::ZERO && self < Self::INFINITY {
            over_one_plus(self, Self::ZERO, e)
        } else {
            // Mending a rounding of infinity would make it NaN, and that of −0 another zero.
            self
        }
    }

    /// x·sigmoid(x), rounded as ggml does: the gate of language models.
    #[inline(always)]
    fn swish<L: Level>(self, l: L) -> Self {
        self.silu(l)
    }

    /// x·Φ(x)
    #[inline(always)]
    fn gelu<L: Level>(self, l: L) -> Self {
        Self::of(0.5) * self * (Self::ONE + (self * Self::of(std::f64::consts::FRAC_1_SQRT_2)).erf(l))
    }

    /// GELU by its tanh approximation.
    #[inline(always)]
    fn gelu_tanh<L: Level>(self, l: L) -> Self {
        let inner = Self::of(0.797_884_560_802_865_4) * self * (Self::ONE + Self::of(0.044715) * self * self);
        Self::of(0.5) * self * (Self::ONE + inner.tanh(l))
    }

    /// log(1 + eˣ), x itself above 20.
    #[inline(always)]
    fn softplus<L: Level>(self, l: L) -> Self {
        if self > Self::of(20.0) { self } else { self.exp(l).log1p(l) }
    }

    /// a/b rounded down, from the exact remainder, as Python and PyTorch do.
    #[inline(always)]
    fn floor_div(self, b: Self) -> Self {
        if b == Self::ZERO {
            return self / b;
        }
        let rest = self.fmod(b);
        let mut quotient = (self - rest) / b;
        if rest != Self::ZERO && (b < Self::ZERO) != (rest < Self::ZERO) {
            quotient = quotient - Self::ONE;
        }
        if quotient == Self::ZERO {
            return Self::ZERO.copysign(self / b);
        }
        let floor = quotient.floor();
        if quotient - floor > Self::of(0.5) { floor + Self::ONE } else { floor }
    }

    /// a − b·⌊a/b⌋, with the sign of b.
    #[inline(always)]
    fn remainder(self, b: Self) -> Self {
        let rest = self.fmod(b);
        if rest != Self::ZERO && (b < Self::ZERO) != (rest < Self::ZERO) { rest + b } else { rest }
    }
}

/// `(a + rest)/(1 + e)` for a small rest and e from 0 to 1, mending the rounding of the divisor.
#[inline(always)]
fn over_one_plus<T: Real>(a: T, rest: T, e: T) -> T {
    let divisor = T::ONE + e;
    let lost = e - (divisor - T::ONE);
    let quotient = a / divisor;
    quotient + (rest - quotient * lost) / divisor
}

macro_rules! real {
    ($t:ty { $($single:item)* }) => {
        impl Real for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const INFINITY: $t = <$t>::INFINITY;
            const NEG_INFINITY: $t = <$t>::NEG_INFINITY;

            #[inline(always)]
            fn of(x: f64) -> $t {
                x as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn system_sin_cos(self) -> ($t, $t) {
                <$t>::sin_cos(self)
            }
            fn system_pow(self, b: $t) -> $t {
                <$t>::powf(self, b)
            }
            #[inline(always)]
            fn abs(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn copysign(self, sign: $t) -> $t {
                self.copysign(sign)
            }
            #[inline(always)]
            fn floor(self) -> $t {
                self.floor()
            }
            #[inline(always)]
            fn ceil(self) -> $t {
                self.ceil()
            }
            #[inline(always)]
            fn round(self) -> $t {
                self.round_ties_even()
            }
            #[inline(always)]
            fn trunc(self) -> $t {
                self.trunc()
            }
            #[inline(always)]
            fn sqrt(self) -> $t {
                self.sqrt()
            }
            #[inline(always)]
            fn fmod(self, b: $t) -> $t {
                self % b
            }
            $($single)*
        }
    };
}

macro_rules! by_std {
    ($t:ty: $($name:ident = $std:ident),*) => {$(
        #[inline(always)]
        fn $name<L: Level>(self, _: L) -> $t {
            <$t>::$std(self)
        }
    )*};
}

macro_rules! by_single {
    ($($name:ident),*) => {$(
        #[inline(always)]
        fn $name<L: Level>(self, l: L) -> f32 {
            single::$name(l, self)
        }
    )*};
}

/// The inverse of the error function, to a few units in the last place.
///
/// Giles: *Approximating the erfinv function*, 2012.
#[allow(clippy::excessive_precision, reason = "coefficients as published")]
fn erfinv(x: f64) -> f64 {
    if x.abs() >= 1.0 {
        return if x.abs() == 1.0 { f64::INFINITY.copysign(x) } else { f64::NAN };
    }
    let series = |t: f64, coefficients: &[f64]| coefficients.iter().fold(0.0, |p, c| p * t + c);
    let w = -((1.0 - x) * (1.0 + x)).ln();
    let factor = if w < 6.25 {
        series(
            w - 3.125,
            &[
                -3.644_412_064_017_819_699_6e-21,
                -1.685_059_138_182_016_589e-19,
                1.285_848_071_525_640_016_7e-18,
                1.115_787_767_802_518_096e-17,
                -1.333_171_662_854_620_906e-16,
                2.097_276_787_596_856_163_7e-17,
                6.637_638_134_358_323_832_5e-15,
                -4.054_566_272_975_206_863_9e-14,
                -8.151_934_197_605_472_152_2e-14,
                2.633_509_315_308_232_297_7e-12,
                -1.297_513_325_345_353_249_8e-11,
                -5.415_412_054_294_627_931_7e-11,
                1.051_212_273_321_532_285e-9,
                -4.112_633_980_346_983_697_6e-9,
                -2.907_036_995_788_200_508_6e-8,
                4.234_787_782_793_240_351_8e-7,
                -1.365_469_200_083_467_864_5e-6,
                -1.388_252_336_278_646_871_9e-5,
                1.867_342_080_340_571_352e-4,
                -7.407_025_341_662_669_751_2e-4,
                -6.033_670_871_430_149_053_3e-3,
                0.240_158_182_425_589_616_93,
                1.653_654_562_683_102_735_6,
            ],
        )
    } else if w < 16.0 {
        series(
            w.sqrt() - 3.25,
            &[
                2.213_737_692_177_578_704_9e-9,
                9.075_656_193_888_539_097_9e-8,
                -2.751_740_629_706_454_542_8e-7,
                1.823_962_921_438_922_775_5e-8,
                1.502_740_396_890_982_762_7e-6,
                -4.013_867_526_981_545_969e-6,
                2.923_444_908_995_544_604_4e-6,
                1.247_530_448_167_177_872_3e-5,
                -4.731_822_900_905_573_398_1e-5,
                6.828_485_145_957_317_544_8e-5,
                2.403_111_038_709_789_399_9e-5,
                -3.550_375_203_628_474_796e-4,
                9.532_893_797_373_804_970_3e-4,
                -1.688_275_556_023_504_731_3e-3,
                2.491_442_096_107_850_806_6e-3,
                -3.751_208_507_569_241_210_7e-3,
                5.370_914_553_590_063_617e-3,
                1.005_258_967_694_159_233_4,
                3.083_885_610_492_220_763_5,
            ],
        )
    } else {
        series(
            w.sqrt() - 5.0,
            &[
                -2.710_992_061_643_857_324_3e-11,
                -2.555_641_816_996_525_205_5e-10,
                1.507_657_269_350_054_808_3e-9,
                -3.789_465_440_126_736_993_7e-9,
                7.615_701_208_078_339_480_4e-9,
                -1.496_002_662_714_924_047_8e-8,
                2.914_795_345_090_108_082_6e-8,
                -6.771_199_775_845_233_949_8e-8,
                2.290_048_222_802_665_471_7e-7,
                -9.929_827_294_231_700_253_9e-7,
                4.526_062_597_223_153_703_9e-6,
                -1.968_177_810_553_167_056_7e-5,
                7.599_527_703_001_776_113_9e-5,
                -2.150_301_193_004_447_734_7e-4,
                -1.387_193_183_362_312_203_1e-4,
                1.010_300_464_864_534_397_7,
                4.849_906_401_408_584_422_1,
            ],
        )
    };
    factor * x
}

real!(f32 {
    by_single!(sigmoid, silu, gelu, exp, expm1, ln, log2, log10, log1p, sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, asinh, acosh,
        atanh, erf);
    #[inline(always)]
    fn fma<L: Level>(self, l: L, a: f32, b: f32) -> f32 {
        l.fma(self, a, b)
    }
    #[inline(always)]
    fn exp_normal<L: Level>(self, l: L) -> f32 {
        single::exp_normal(l, self)
    }
    #[inline(always)]
    fn exp_within<L: Level>(self, l: L) -> f32 {
        single::exp_within(l, self)
    }
    #[inline(always)]
    fn exp_is_normal(self) -> bool {
        self.abs() <= 87.0
    }
    #[inline(always)]
    fn ln_normal<L: Level>(self, l: L) -> f32 {
        single::ln_normal(l, self)
    }
    #[inline(always)]
    fn is_positive_normal(self) -> bool {
        (f32::MIN_POSITIVE..f32::INFINITY).contains(&self)
    }
    #[inline(always)]
    fn swish<L: Level>(self, l: L) -> f32 {
        self / (1.0 + single::quick_exp(l, -self))
    }
    #[inline(always)]
    fn pow<L: Level>(self, l: L, b: f32) -> f32 {
        single::pow(l, self, b)
    }
    #[inline(always)]
    fn atan2<L: Level>(self, l: L, x: f32) -> f32 {
        single::atan2(l, self, x)
    }
    #[inline(always)]
    fn log_add_exp<L: Level>(l: L, a: &[f32], b: &[f32], out: &mut [f32]) {
        log_add_exp::singles(l, a, b, out);
    }
    #[inline(always)]
    fn is_far(self) -> bool {
        self.abs() > FAR
    }
    fn far_sin(self) -> f32 {
        f32::sin(self)
    }
    fn far_cos(self) -> f32 {
        f32::cos(self)
    }
    fn far_tan(self) -> f32 {
        f32::tan(self)
    }
});

real!(f64 {
    #[inline(always)]
    fn exp<L: Level>(self, l: L) -> f64 {
        precise::exp(l, self)
    }
    #[inline(always)]
    fn exp_within<L: Level>(self, l: L) -> f64 {
        precise::exp_within(l, self)
    }
    #[inline(always)]
    fn exp_is_normal(self) -> bool {
        self.abs() <= 708.0
    }
    #[inline(always)]
    fn ln<L: Level>(self, l: L) -> f64 {
        precise::ln(l, self)
    }
    #[inline(always)]
    fn ln_normal<L: Level>(self, l: L) -> f64 {
        precise::ln_normal(l, self)
    }
    #[inline(always)]
    fn is_positive_normal(self) -> bool {
        (f64::MIN_POSITIVE..f64::INFINITY).contains(&self)
    }
    by_std!(f64: expm1 = exp_m1, log2 = log2, log10 = log10, log1p = ln_1p, sin = sin, cos = cos,
        tan = tan, asin = asin, acos = acos, atan = atan, sinh = sinh, cosh = cosh, tanh = tanh);
    // The standard library's overflow before their results do, and lose digits near 1 and −1.
    #[inline(always)]
    fn asinh<L: Level>(self, _: L) -> f64 {
        libm::asinh(self)
    }
    #[inline(always)]
    fn acosh<L: Level>(self, _: L) -> f64 {
        // Of large negative numbers libm's is a number.
        if self < 1.0 { f64::NAN } else { libm::acosh(self) }
    }
    #[inline(always)]
    fn atanh<L: Level>(self, _: L) -> f64 {
        libm::atanh(self)
    }
    #[inline(always)]
    fn fma<L: Level>(self, _: L, a: f64, b: f64) -> f64 {
        self * a + b
    }
    #[inline(always)]
    fn fused<L: Level>(self, _: L, a: f64, b: f64) -> f64 {
        self.mul_add(a, b)
    }
    #[inline(always)]
    fn erf<L: Level>(self, _: L) -> f64 {
        libm::erf(self)
    }
    #[inline(always)]
    fn pow<L: Level>(self, _: L, b: f64) -> f64 {
        self.powf(b)
    }
    #[inline(always)]
    fn atan2<L: Level>(self, _: L, x: f64) -> f64 {
        f64::atan2(self, x)
    }
    #[inline(always)]
    fn log_add_exp<L: Level>(l: L, a: &[f64], b: &[f64], out: &mut [f64]) {
        log_add_exp::doubles(l, a, b, out);
    }
});

#[cfg(test)]
mod tests;
