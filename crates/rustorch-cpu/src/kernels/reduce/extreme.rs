//! Minimum, maximum, argmin, argmax.

use super::{COLUMNS, Reducer};
use crate::kernels::lanes::{fold, lanes};
use crate::simd::Level;
use rustorch_core::Element;

/// Elements with an order in which NaN, where there is one, comes before everything in either direction.
pub(super) trait Order: Element {
    /// Not preferred to anything when looking for the largest, or smallest.
    fn worst(largest: bool) -> Self;
    /// Whether it is a NaN.
    fn is_nan(self) -> bool;
    fn above(self, b: Self) -> bool;
}

impl Order for i64 {
    #[inline(always)]
    fn worst(largest: bool) -> i64 {
        if largest { i64::MIN } else { i64::MAX }
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
    #[inline(always)]
    fn above(self, b: i64) -> bool {
        self > b
    }
}

macro_rules! float {
    ($($t:ty),*) => {$(
        impl Order for $t {
            #[inline(always)]
            fn worst(largest: bool) -> $t {
                if largest { <$t>::NEG_INFINITY } else { <$t>::INFINITY }
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                <$t>::is_nan(self)
            }
            #[inline(always)]
            fn above(self, b: $t) -> bool {
                self > b
            }
        }
    )*};
}

float!(f32, f64);

/// Whether `b` is to replace `a`, which comes before it.
#[inline(always)]
fn better<C: Order>(largest: bool, a: C, b: C) -> bool {
    let beyond = if largest { b.above(a) } else { a.above(b) };
    // A NaN is beyond nothing, and nothing is beyond a NaN.
    beyond | (b.is_nan() & !a.is_nan())
}

#[inline(always)]
fn best<C: Order>(largest: bool, a: C, b: C) -> C {
    if better(largest, a, b) { b } else { a }
}

/// The largest or smallest element.
#[derive(Clone, Copy)]
pub(super) struct Extreme {
    pub(super) largest: bool,
}

impl<C: Order> Reducer<C> for Extreme {
    type State = C;

    fn empty(self) -> C {
        C::worst(self.largest)
    }

    #[inline(always)]
    fn chunk<L: Level>(self, _: L, x: &[C], _: usize) -> C {
        // The direction is fixed outside the loops.
        if self.largest { extreme::<C, true>(x) } else { extreme::<C, false>(x) }
    }

    #[inline(always)]
    fn rows<L: Level>(self, _: L, rows: &[&[C]], _: usize, states: &mut [C]) {
        for row in rows {
            if self.largest {
                for (state, &x) in states.iter_mut().zip(*row) {
                    *state = best(true, *state, x);
                }
            } else {
                for (state, &x) in states.iter_mut().zip(*row) {
                    *state = best(false, *state, x);
                }
            }
        }
    }

    #[inline(always)]
    fn merge(self, a: C, b: C) -> C {
        best(self.largest, a, b)
    }
}

#[inline(always)]
fn extreme<C: Order, const LARGEST: bool>(x: &[C]) -> C {
    let farther = |a: C, b: C| {
        let is_beyond = if LARGEST { b.above(a) } else { a.above(b) };
        if is_beyond { b } else { a }
    };
    let last_nan = |a: C, b: C| if b.is_nan() { b } else { a };
    // NaNs are beyond nothing and are noted apart, which keeps the chains of dependent operations short.
    let [extremes, nans] =
        lanes([x], [C::worst(LARGEST); 2], |[extreme, nan], [x]| [farther(extreme, x), last_nan(nan, x)]);
    let nan = fold(nans, last_nan);
    if nan.is_nan() { nan } else { fold(extremes, farther) }
}

/// Where the largest or smallest element is; the first of equals.
#[derive(Clone, Copy)]
pub(super) struct ArgExtreme {
    pub(super) largest: bool,
}

/// An element and its number.
#[derive(Clone, Copy)]
pub(super) struct Extremum<C> {
    value: C,
    pub(super) index: usize,
}

impl<C: Order> Reducer<C> for ArgExtreme {
    type State = Extremum<C>;

    fn empty(self) -> Extremum<C> {
        Extremum { value: C::worst(self.largest), index: usize::MAX }
    }

    #[inline(always)]
    fn chunk<L: Level>(self, l: L, x: &[C], start: usize) -> Extremum<C> {
        let value = Extreme { largest: self.largest }.chunk(l, x, start);
        let here = x.iter().position(|&x| if value.is_nan() { x.is_nan() } else { x == value });
        Extremum { value, index: start + here.unwrap_or(0) }
    }

    #[inline(always)]
    fn rows<L: Level>(self, _: L, rows: &[&[C]], start: usize, states: &mut [Extremum<C>]) {
        let n = states.len();
        let (mut values, mut indices) = ([C::worst(self.largest); COLUMNS], [0u32; COLUMNS]);
        let (values, indices) = (&mut values[..n], &mut indices[..n]);
        values.copy_from_slice(&rows[0][..n]);
        for (i, row) in (0u32..).zip(rows).skip(1) {
            for ((value, index), &x) in values.iter_mut().zip(indices.iter_mut()).zip(&row[..n]) {
                let take = better(self.largest, *value, x);
                *value = if take { x } else { *value };
                *index = if take { i } else { *index };
            }
        }
        for ((state, &value), &index) in states.iter_mut().zip(values.iter()).zip(indices.iter()) {
            *state = Reducer::<C>::merge(self, *state, Extremum { value, index: start + index as usize });
        }
    }

    #[inline(always)]
    fn merge(self, a: Extremum<C>, b: Extremum<C>) -> Extremum<C> {
        // The worst value itself may be all there is: an index that is none gives way to any.
        if a.index == usize::MAX || better(self.largest, a.value, b.value) && b.index != usize::MAX {
            b
        } else {
            a
        }
    }
}
