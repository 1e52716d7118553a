//! Functions of single numbers: [`Real`] is what pointwise kernels, norms and attention are written in.
//!
//! The `f32` functions are branch-free, so that the compiler turns loops over them into vector code at every [`Level`].

pub(crate) mod complex;
mod double;
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

    /// `self·a + b`, fused where the processor can.
    fn fma<L: Level>(self, l: L, a: Self, b: Self) -> Self;
    /// Sine and cosine by the system's library, which others use, too: for results that have to equal theirs.
    fn system_sin_cos(self) -> (Self, Self);
    /// `self^b` by the system's library.
    fn system_pow(self, b: Self) -> Self;

    fn exp<L: Level>(self, l: L) -> Self;
    /// More precise where `exp` is quick.
    fn fine_exp<L: Level>(self, l: L) -> Self;
    fn expm1<L: Level>(self, l: L) -> Self;
    fn ln<L: Level>(self, l: L) -> Self;
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
    fn pow<L: Level>(self, l: L, b: Self) -> Self;
    fn atan2<L: Level>(self, l: L, x: Self) -> Self;

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
        let e = (-self.abs()).fine_exp(l);
        over_one_plus(if self < Self::ZERO { e } else { Self::ONE }, Self::ZERO, e)
    }

    /// x·sigmoid(x)
    #[inline(always)]
    fn silu<L: Level>(self, l: L) -> Self {
        let e = (-self.abs()).fine_exp(l);
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

real!(f32 {
    by_single!(exp, fine_exp, expm1, ln, log2, log10, log1p, sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, asinh, acosh,
        atanh, erf);
    #[inline(always)]
    fn fma<L: Level>(self, l: L, a: f32, b: f32) -> f32 {
        l.fma(self, a, b)
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
    by_std!(f64: exp = exp, fine_exp = exp, expm1 = exp_m1, ln = ln, log2 = log2, log10 = log10, log1p = ln_1p, sin = sin, cos = cos,
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
});

#[cfg(test)]
mod tests;
