//! Conversion between tensor dtypes and the accumulation types of reductions.

use crate::kernels::strided::Grid;
use crate::math::Wide;
use rustorch_core::{C64, C128, Element, bf16, f16};

/// An element that reductions compute as a `C`: integers as `i64`, 16-bit floats as `f32`, booleans of elements as
/// `bool`, others as themselves.
pub(super) trait As<C>: Element {
    /// `len` elements of sequence `i` from `start` on: as they lie, or gathered and converted into `scratch`.
    fn fetch<'s>(
        grid: &'s Grid<'_, Self>,
        i: usize,
        start: usize,
        len: usize,
        scratch: &'s mut Vec<C>,
    ) -> &'s [C];
}

/// Sequences of numbers of type `C`, whatever the elements are.
pub(super) trait Source<C>: Sync {
    /// See [`As::fetch`].
    fn fetch<'s>(&'s self, i: usize, start: usize, len: usize, scratch: &'s mut Vec<C>) -> &'s [C];
}

impl<C, T: As<C>> Source<C> for Grid<'_, T> {
    fn fetch<'s>(&'s self, i: usize, start: usize, len: usize, scratch: &'s mut Vec<C>) -> &'s [C] {
        T::fetch(self, i, start, len, scratch)
    }
}

macro_rules! itself {
    ($($t:ty),*) => {$(
        impl As<$t> for $t {
            fn fetch<'s>(
                grid: &'s Grid<'_, $t>,
                i: usize,
                start: usize,
                len: usize,
                scratch: &'s mut Vec<$t>,
            ) -> &'s [$t] {
                grid.chunk(i, start, len, scratch)
            }
        }
    )*};
}

macro_rules! converted {
    ($($t:ty as $c:ty: |$x:ident, $scratch:ident| $convert:expr;)*) => {$(
        impl As<$c> for $t {
            fn fetch<'s>(
                grid: &'s Grid<'_, $t>,
                i: usize,
                start: usize,
                len: usize,
                $scratch: &'s mut Vec<$c>,
            ) -> &'s [$c] {
                let mut gathered = Vec::new();
                let $x = grid.chunk(i, start, len, &mut gathered);
                $convert;
                $scratch
            }
        }
    )*};
}

itself!(i64, f32, f64, C64, C128, bool);

converted! {
    bool as i64: |x, scratch| fill(x, scratch, i64::from);
    u8 as i64: |x, scratch| fill(x, scratch, i64::from);
    i8 as i64: |x, scratch| fill(x, scratch, i64::from);
    i16 as i64: |x, scratch| fill(x, scratch, i64::from);
    i32 as i64: |x, scratch| fill(x, scratch, i64::from);
    u32 as i64: |x, scratch| fill(x, scratch, i64::from);
    f16 as f32: |x, scratch| { <f16 as Wide>::widen(x, scratch); };
    bf16 as f32: |x, scratch| { <bf16 as Wide>::widen(x, scratch); };
    u8 as bool: |x, scratch| fill(x, scratch, |x| x != 0);
    i8 as bool: |x, scratch| fill(x, scratch, |x| x != 0);
    i16 as bool: |x, scratch| fill(x, scratch, |x| x != 0);
    i32 as bool: |x, scratch| fill(x, scratch, |x| x != 0);
    u32 as bool: |x, scratch| fill(x, scratch, |x| x != 0);
    i64 as bool: |x, scratch| fill(x, scratch, |x| x != 0);
    f16 as bool: |x, scratch| fill(x, scratch, |x| x != f16::ZERO);
    bf16 as bool: |x, scratch| fill(x, scratch, |x| x != bf16::ZERO);
    f32 as bool: |x, scratch| fill(x, scratch, |x| x != 0.0);
    f64 as bool: |x, scratch| fill(x, scratch, |x| x != 0.0);
    C64 as bool: |x, scratch| fill(x, scratch, |x| x != C64::new(0.0, 0.0));
    C128 as bool: |x, scratch| fill(x, scratch, |x| x != C128::new(0.0, 0.0));
}

fn fill<T: Copy, C>(x: &[T], scratch: &mut Vec<C>, convert: impl Fn(T) -> C) {
    scratch.clear();
    scratch.extend(x.iter().map(|&x| convert(x)));
}

/// A dtype of results, made from the values of type `V` that reductions end with.
pub(super) trait Rounded<V>: Element {
    /// Scales and rounds.
    fn rounded(value: V, factor: f64) -> Self;
}

macro_rules! results {
    ($($t:ty, $v:ty: $x:ident, $factor:ident => $value:expr;)*) => {$(
        impl Rounded<$v> for $t {
            #[inline]
            fn rounded($x: $v, $factor: f64) -> $t {
                $value
            }
        }
    )*};
}

results! {
    bool, i64: x, _factor => x != 0;
    u8, i64: x, _factor => x as u8;
    i8, i64: x, _factor => x as i8;
    i16, i64: x, _factor => x as i16;
    i32, i64: x, _factor => x as i32;
    u32, i64: x, _factor => x as u32;
    i64, i64: x, _factor => x;
    f16, f64: x, factor => f16::from_f64(x * factor);
    bf16, f64: x, factor => bf16::from_f64(x * factor);
    f32, f64: x, factor => (x * factor) as f32;
    f64, f64: x, factor => x * factor;
    f16, f32: x, _factor => f16::from_f32(x);
    bf16, f32: x, _factor => bf16::from_f32(x);
    f32, f32: x, _factor => x;
    C64, C128: x, factor => C64::new((x.re * factor) as f32, (x.im * factor) as f32);
    C128, C128: x, factor => x * factor;
}
