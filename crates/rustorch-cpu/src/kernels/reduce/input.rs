//! The types in which reductions compute.

use crate::math::Wide;
use rustorch_core::{C64, C128, Element, bf16, f16};

/// An element, and the type in which it is reduced: 16-bit floats as `f32`, others as themselves.
pub(super) trait Input: Element {
    /// The type in which comparisons and the like are made.
    type Computed: Element;
    /// The dtype of sums and products.
    type Sum: Output;
    fn compute<'s>(x: &'s [Self], scratch: &'s mut Vec<Self::Computed>) -> &'s [Self::Computed];
    /// Back from the computed type, for values that were elements.
    fn restore(x: Self::Computed) -> Self;
}

/// A type of sums.
pub(super) trait Output: Element {
    /// The type of totals.
    type Total: Copy;
    /// Scales and rounds a total.
    fn scaled(total: Self::Total, factor: f64) -> Self;
}

macro_rules! itself {
    ($($t:ty => $sum:ty),*) => {$(
        impl Input for $t {
            type Computed = $t;
            type Sum = $sum;
            #[inline]
            fn compute<'s>(x: &'s [$t], _: &'s mut Vec<$t>) -> &'s [$t] {
                x
            }
            #[inline]
            fn restore(x: $t) -> $t {
                x
            }
        }
    )*};
}

itself!(bool => i64, u8 => i64, i8 => i64, i16 => i64, i32 => i64, u32 => i64, i64 => i64, f32 => f32, f64 => f64,
    C64 => C64, C128 => C128);

macro_rules! half {
    ($($t:ty),*) => {$(
        impl Input for $t {
            type Computed = f32;
            type Sum = $t;
            #[inline]
            fn compute<'s>(x: &'s [$t], scratch: &'s mut Vec<f32>) -> &'s [f32] {
                <$t as Wide>::widen(x, scratch)
            }
            #[inline]
            fn restore(x: f32) -> $t {
                <$t>::from_f32(x)
            }
        }
    )*};
}

half!(f16, bf16);

macro_rules! outputs {
    ($($t:ty: $total:ty, $x:ident, $factor:ident => $value:expr;)*) => {$(
        impl Output for $t {
            type Total = $total;
            #[inline]
            fn scaled($x: $total, $factor: f64) -> $t {
                $value
            }
        }
    )*};
}

outputs! {
    i64: i64, x, _factor => x;
    f16: f64, x, factor => f16::from_f64(x * factor);
    bf16: f64, x, factor => bf16::from_f64(x * factor);
    f32: f64, x, factor => (x * factor) as f32;
    f64: f64, x, factor => x * factor;
    C64: C128, x, factor => C64::new((x.re * factor) as f32, (x.im * factor) as f32);
    C128: C128, x, factor => x * factor;
}
