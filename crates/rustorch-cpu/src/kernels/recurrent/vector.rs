//! Vectors of [`LANES`] elements of either dtype.

use crate::math::Real;
use crate::simd::{LANES, Level};

/// `f32`, in the vectors of a level, or `f64`, in arrays that the compiler makes vectors of.
pub(super) trait Vector: Real {
    /// [`LANES`] elements.
    type V<L: Level>: Copy;

    fn splat<L: Level>(l: L, x: Self) -> Self::V<L>;
    fn load<L: Level>(l: L, x: &[Self; LANES]) -> Self::V<L>;
    fn store<L: Level>(l: L, v: Self::V<L>, out: &mut [Self; LANES]);
    fn plus<L: Level>(l: L, a: Self::V<L>, b: Self::V<L>) -> Self::V<L>;
    /// `a·b + c` in each lane; of `f32`, rounded once.
    fn mul_add<L: Level>(l: L, a: Self::V<L>, b: Self::V<L>, c: Self::V<L>) -> Self::V<L>;
    #[inline(always)]
    fn times<L: Level>(l: L, a: Self::V<L>, b: Self::V<L>) -> Self::V<L> {
        Self::mul_add(l, a, b, Self::splat(l, Self::ZERO))
    }
    /// The sums of the lanes of four vectors: lanes 8 apart first, then 4, 2 and 1 apart.
    fn sum4<L: Level>(l: L, v: [Self::V<L>; 4]) -> [Self; 4];
}

impl Vector for f32 {
    type V<L: Level> = L::F;

    #[inline(always)]
    fn splat<L: Level>(l: L, x: f32) -> L::F {
        l.splat(x)
    }
    #[inline(always)]
    fn load<L: Level>(l: L, x: &[f32; LANES]) -> L::F {
        l.load(x)
    }
    #[inline(always)]
    fn store<L: Level>(l: L, v: L::F, out: &mut [f32; LANES]) {
        l.store(v, out);
    }
    #[inline(always)]
    fn plus<L: Level>(l: L, a: L::F, b: L::F) -> L::F {
        l.add(a, b)
    }
    #[inline(always)]
    fn mul_add<L: Level>(l: L, a: L::F, b: L::F, c: L::F) -> L::F {
        l.mul_add(a, b, c)
    }
    #[inline(always)]
    fn sum4<L: Level>(l: L, v: [L::F; 4]) -> [f32; 4] {
        l.sum4(v)
    }
}

impl Vector for f64 {
    type V<L: Level> = [f64; LANES];

    #[inline(always)]
    fn splat<L: Level>(_: L, x: f64) -> [f64; LANES] {
        [x; LANES]
    }
    #[inline(always)]
    fn load<L: Level>(_: L, x: &[f64; LANES]) -> [f64; LANES] {
        *x
    }
    #[inline(always)]
    fn store<L: Level>(_: L, v: [f64; LANES], out: &mut [f64; LANES]) {
        *out = v;
    }
    #[inline(always)]
    fn plus<L: Level>(_: L, mut a: [f64; LANES], b: [f64; LANES]) -> [f64; LANES] {
        for i in 0..LANES {
            a[i] += b[i];
        }
        a
    }
    #[inline(always)]
    fn mul_add<L: Level>(l: L, a: [f64; LANES], b: [f64; LANES], mut c: [f64; LANES]) -> [f64; LANES] {
        for i in 0..LANES {
            c[i] = a[i].fma(l, b[i], c[i]);
        }
        c
    }
    #[inline(always)]
    fn sum4<L: Level>(_: L, mut v: [[f64; LANES]; 4]) -> [f64; 4] {
        let mut half = LANES / 2;
        while half != 0 {
            for v in &mut v {
                for i in 0..half {
                    v[i] += v[i + half];
                }
            }
            half /= 2;
        }
        [v[0][0], v[1][0], v[2][0], v[3][0]]
    }
}

/// Copies up to [`LANES`] elements, without a call where it is so many.
#[inline(always)]
pub(super) fn copy<T: Vector, L: Level>(l: L, from: &[T], to: &mut [T]) {
    match (<&[T; LANES]>::try_from(from), <&mut [T; LANES]>::try_from(&mut *to)) {
        (Ok(from), Ok(to)) => T::store(l, T::load(l, from), to),
        _ => to.copy_from_slice(from),
    }
}
