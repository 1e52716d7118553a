//! The element types of linear algebra, real and complex.

use crate::kernels::matmul::Field;
use rustorch_core::{C64, C128};
use std::ops::{Add, Mul, Sub};

/// Real or complex floating-point numbers.
pub(super) trait Number: Field + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {
    /// What moduli are.
    type Real: Real;
    /// One.
    const ONE: Self;

    /// A real number.
    fn from_real(x: Self::Real) -> Self;
    /// A number by its parts; of a real one the second is left out.
    fn from_parts(re: f64, im: f64) -> Self;
    /// The real part.
    fn re(self) -> Self::Real;
    /// Both parts, exactly.
    fn parts(self) -> (f64, f64);
    /// Divided by another number, whose square need not be representable.
    fn over(self, by: Self) -> Self;
    /// Divided by a real number.
    fn over_real(self, by: Self::Real) -> Self;

    /// The measure by which pivots are chosen: LAPACK's |re| + |im|.
    fn size(self) -> Self::Real;

    /// The absolute value.
    #[inline(always)]
    fn modulus(self) -> f64 {
        let (re, im) = self.parts();
        re.hypot(im)
    }
}

/// Real floating-point numbers.
pub(super) trait Real: Number<Real = Self> + PartialOrd {
    /// The least positive number of full precision.
    const LEAST: Self;
    /// The largest relative error of a rounding.
    #[cfg(feature = "linalg")]
    const ROUNDING: f64;

    /// The root.
    fn sqrt(self) -> Self;
}

macro_rules! real {
    ($($ty:ty),*) => {$(
        impl Number for $ty {
            type Real = $ty;
            const ONE: $ty = 1.0;

            #[inline(always)]
            fn from_real(x: $ty) -> $ty {
                x
            }

            #[inline(always)]
            fn from_parts(re: f64, _im: f64) -> $ty {
                re as $ty
            }

            #[inline(always)]
            fn re(self) -> $ty {
                self
            }

            #[inline(always)]
            fn parts(self) -> (f64, f64) {
                (self.into(), 0.0)
            }

            #[inline(always)]
            fn over(self, by: $ty) -> $ty {
                self / by
            }

            #[inline(always)]
            fn over_real(self, by: $ty) -> $ty {
                self / by
            }

            #[inline(always)]
            fn size(self) -> $ty {
                self.abs()
            }
        }

        impl Real for $ty {
            const LEAST: $ty = <$ty>::MIN_POSITIVE;
            #[cfg(feature = "linalg")]
            const ROUNDING: f64 = <$ty>::EPSILON as f64 / 2.0;

            #[inline(always)]
            fn sqrt(self) -> $ty {
                self.sqrt()
            }
        }
    )*};
}

real!(f32, f64);

macro_rules! complex {
    ($($ty:ty, $real:ty;)*) => {$(
        impl Number for $ty {
            type Real = $real;
            const ONE: $ty = <$ty>::new(1.0, 0.0);

            #[inline(always)]
            fn from_real(x: $real) -> $ty {
                <$ty>::new(x, 0.0)
            }

            #[inline(always)]
            fn from_parts(re: f64, im: f64) -> $ty {
                <$ty>::new(re as $real, im as $real)
            }

            #[inline(always)]
            fn re(self) -> $real {
                self.re
            }

            #[inline(always)]
            fn parts(self) -> (f64, f64) {
                (self.re.into(), self.im.into())
            }

            #[inline(always)]
            fn over(self, by: $ty) -> $ty {
                // Smith's algorithm: scaled by the larger part of the divisor.
                if by.re.abs() >= by.im.abs() {
                    let ratio = by.im / by.re;
                    let scale = by.re + by.im * ratio;
                    <$ty>::new((self.re + self.im * ratio) / scale, (self.im - self.re * ratio) / scale)
                } else {
                    let ratio = by.re / by.im;
                    let scale = by.re * ratio + by.im;
                    <$ty>::new((self.re * ratio + self.im) / scale, (self.im * ratio - self.re) / scale)
                }
            }

            #[inline(always)]
            fn over_real(self, by: $real) -> $ty {
                <$ty>::new(self.re / by, self.im / by)
            }

            #[inline(always)]
            fn size(self) -> $real {
                self.re.abs() + self.im.abs()
            }
        }
    )*};
}

complex! {
    C64, f32;
    C128, f64;
}

/// Division of many numbers by one: by multiplication where its inverse is representable, as LAPACK does.
#[derive(Clone, Copy)]
pub(super) struct Divisor<T> {
    by: T,
    inverse: Option<T>,
}

impl<T: Number> Divisor<T> {
    #[inline(always)]
    pub(super) fn new(by: T) -> Divisor<T> {
        let fits = by.size() >= T::Real::LEAST;
        Divisor { by, inverse: fits.then(|| T::ONE.over(by)) }
    }

    #[inline(always)]
    pub(super) fn divide(self, x: T) -> T {
        match self.inverse {
            Some(inverse) => x * inverse,
            None => x.over(self.by),
        }
    }
}
