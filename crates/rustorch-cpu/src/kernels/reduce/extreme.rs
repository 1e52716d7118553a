//! Minimum, maximum, argmin, argmax.

use super::{COLUMNS, Reducer};
use crate::simd::Level;
use rustorch_core::Element;

/// Lanes of a chunk.
const LANES: usize = 64;

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
    let (chunks, tail) = x.as_chunks::<LANES>();
    // NaNs are beyond nothing and are noted apart, which keeps the chains of dependent operations short.
    let (mut whole, mut nans) = ([C::worst(LARGEST); LANES], [C::worst(LARGEST); LANES]);
    for chunk in chunks {
        keep_beyond::<C, LARGEST>(&mut whole, chunk);
        keep_nan(&mut nans, chunk);
    }
    // Others, since lanes that are indexed by a number that is not known before would be kept in memory.
    let (mut lanes, mut nan) = (whole, nans);
    keep_beyond::<C, LARGEST>(&mut lanes, tail);
    keep_nan(&mut nan, tail);
    let mut width = LANES / 2;
    while width != 0 {
        let (low, high) = lanes.split_at_mut(width);
        keep_beyond::<C, LARGEST>(low, &high[..width]);
        let (low, high) = nan.split_at_mut(width);
        keep_nan(low, &high[..width]);
        width /= 2;
    }
    if nan[0].is_nan() { nan[0] } else { lanes[0] }
}

#[inline(always)]
fn keep_beyond<C: Order, const LARGEST: bool>(lanes: &mut [C], xs: &[C]) {
    for (lane, &x) in lanes.iter_mut().zip(xs) {
        let beyond = if LARGEST { x.above(*lane) } else { lane.above(x) };
        *lane = if beyond { x } else { *lane };
    }
}

#[inline(always)]
fn keep_nan<C: Order>(lanes: &mut [C], xs: &[C]) {
    for (lane, &x) in lanes.iter_mut().zip(xs) {
        *lane = if x.is_nan() { x } else { *lane };
    }
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
