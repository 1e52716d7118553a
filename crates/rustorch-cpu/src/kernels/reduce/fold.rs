//! Sum, sum of squares, product, any, all.

use super::{COLUMNS, Reducer};
use crate::simd::Level;
use rustorch_core::{C64, C128, Element};

/// Sequences of which parts are folded together.
const LANES: usize = 64;

/// A way of taking in elements.
pub(super) trait Fold<C>: Copy + Sync {
    /// What is known of a short part.
    type Short: Copy;
    /// What is known of a long part.
    type Long: Copy + Send + Sync;
    fn empty(self) -> Self::Short;
    fn take(self, short: Self::Short, x: C) -> Self::Short;
    fn join(self, a: Self::Short, b: Self::Short) -> Self::Short;
    fn lengthen(self, short: Self::Short) -> Self::Long;
    fn merge(self, a: Self::Long, b: Self::Long) -> Self::Long;
}

/// A fold as a reducer.
#[derive(Clone, Copy)]
pub(super) struct Folded<F>(pub(super) F);

impl<C: Element, F: Fold<C>> Reducer<C> for Folded<F> {
    type State = F::Long;

    #[inline(always)]
    fn empty(self) -> F::Long {
        self.0.lengthen(self.0.empty())
    }

    #[inline(always)]
    fn chunk<L: Level>(self, _: L, x: &[C], _: usize) -> F::Long {
        let (chunks, tail) = x.as_chunks::<LANES>();
        let mut whole = [self.0.empty(); LANES];
        for chunk in chunks {
            for i in 0..LANES {
                whole[i] = self.0.take(whole[i], chunk[i]);
            }
        }
        // Others, since lanes that are indexed by a number that is not known before would be kept in memory.
        let mut lanes = whole;
        for (lane, &x) in lanes.iter_mut().zip(tail) {
            *lane = self.0.take(*lane, x);
        }
        let mut width = LANES / 2;
        while width != 0 {
            for i in 0..width {
                lanes[i] = self.0.join(lanes[i], lanes[i + width]);
            }
            width /= 2;
        }
        self.0.lengthen(lanes[0])
    }

    #[inline(always)]
    fn rows<L: Level>(self, _: L, rows: &[&[C]], _: usize, states: &mut [F::Long]) {
        let n = states.len();
        let mut lanes = [self.0.empty(); COLUMNS];
        let lanes = &mut lanes[..n];
        for row in rows {
            for (lane, &x) in lanes.iter_mut().zip(&row[..n]) {
                *lane = self.0.take(*lane, x);
            }
        }
        for (state, &lane) in states.iter_mut().zip(lanes.iter()) {
            *state = self.0.merge(*state, self.0.lengthen(lane));
        }
    }

    #[inline(always)]
    fn merge(self, a: F::Long, b: F::Long) -> F::Long {
        self.0.merge(a, b)
    }
}

/// Σx
#[derive(Clone, Copy)]
pub(super) struct Sum;

/// Σx²
#[derive(Clone, Copy)]
pub(super) struct Squares;

/// Πx
#[derive(Clone, Copy)]
pub(super) struct Product;

macro_rules! sums {
    ($($fold:ty, $t:ty: $short:ty, $long:ty, $zero:expr, |$s:ident, $x:ident| $sum:expr, |$y:ident| $long_of:expr;)*) => {$(
        impl Fold<$t> for $fold {
            type Short = $short;
            type Long = $long;
            #[inline(always)]
            fn empty(self) -> $short {
                $zero
            }
            #[inline(always)]
            fn take(self, $s: $short, $x: $t) -> $short {
                $sum
            }
            #[inline(always)]
            fn join(self, a: $short, b: $short) -> $short {
                add(a, b)
            }
            #[inline(always)]
            fn lengthen(self, $y: $short) -> $long {
                $long_of
            }
            #[inline(always)]
            fn merge(self, a: $long, b: $long) -> $long {
                add(a, b)
            }
        }
    )*};
}

macro_rules! products {
    ($($t:ty: $long:ty, $one:expr, |$s:ident, $x:ident| $product:expr;)*) => {$(
        impl Fold<$t> for Product {
            // Wide from the start: a part of a product may leave the range that the whole stays in.
            type Short = $long;
            type Long = $long;
            #[inline(always)]
            fn empty(self) -> $long {
                $one
            }
            #[inline(always)]
            fn take(self, $s: $long, $x: $t) -> $long {
                $product
            }
            #[inline(always)]
            fn join(self, a: $long, b: $long) -> $long {
                multiply(a, b)
            }
            #[inline(always)]
            fn lengthen(self, x: $long) -> $long {
                x
            }
            #[inline(always)]
            fn merge(self, a: $long, b: $long) -> $long {
                multiply(a, b)
            }
        }
    )*};
}

/// Addition and multiplication; integers wrap.
trait Ring: Copy {
    fn plus(self, b: Self) -> Self;
    fn times(self, b: Self) -> Self;
}

macro_rules! ring {
    ($($t:ty),*) => {$(
        impl Ring for $t {
            #[inline(always)]
            fn plus(self, b: $t) -> $t {
                self + b
            }
            #[inline(always)]
            fn times(self, b: $t) -> $t {
                self * b
            }
        }
    )*};
}

ring!(f32, f64, C64, C128);

impl Ring for i64 {
    #[inline(always)]
    fn plus(self, b: i64) -> i64 {
        self.wrapping_add(b)
    }
    #[inline(always)]
    fn times(self, b: i64) -> i64 {
        self.wrapping_mul(b)
    }
}

#[inline(always)]
fn add<R: Ring>(a: R, b: R) -> R {
    a.plus(b)
}

#[inline(always)]
fn multiply<R: Ring>(a: R, b: R) -> R {
    a.times(b)
}

sums! {
    Sum, i64: i64, i64, 0, |s, x| s.wrapping_add(x), |y| y;
    Sum, f32: f32, f64, 0.0, |s, x| s + x, |y| f64::from(y);
    Sum, f64: f64, f64, 0.0, |s, x| s + x, |y| y;
    Squares, f32: f32, f64, 0.0, |s, x| s + x * x, |y| f64::from(y);
    Squares, f64: f64, f64, 0.0, |s, x| s + x * x, |y| y;
    Sum, C64: C64, C128, C64::new(0.0, 0.0), |s, x| s + x, |y| C128::new(y.re.into(), y.im.into());
    Sum, C128: C128, C128, C128::new(0.0, 0.0), |s, x| s + x, |y| y;
}

products! {
    i64: i64, 1, |s, x| s.wrapping_mul(x);
    f32: f64, 1.0, |s, x| s * f64::from(x);
    f64: f64, 1.0, |s, x| s * x;
    C64: C128, C128::new(1.0, 0.0), |s, x| s * C128::new(x.re.into(), x.im.into());
    C128: C128, C128::new(1.0, 0.0), |s, x| s * x;
}

/// Whether any or all are non-zero.
#[derive(Clone, Copy)]
pub(super) struct NonZero {
    pub(super) any: bool,
}

impl NonZero {
    #[inline(always)]
    fn either(self, a: bool, b: bool) -> bool {
        if self.any { a | b } else { a & b }
    }
}

impl Fold<bool> for NonZero {
    type Short = bool;
    type Long = bool;
    #[inline(always)]
    fn empty(self) -> bool {
        !self.any
    }
    #[inline(always)]
    fn take(self, s: bool, x: bool) -> bool {
        self.either(s, x)
    }
    #[inline(always)]
    fn join(self, a: bool, b: bool) -> bool {
        self.either(a, b)
    }
    #[inline(always)]
    fn lengthen(self, s: bool) -> bool {
        s
    }
    #[inline(always)]
    fn merge(self, a: bool, b: bool) -> bool {
        self.either(a, b)
    }
}
