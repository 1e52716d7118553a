//! Matmuls that are subtracted from what stands in the result: the update of a trailing block, from which decompositions
//! of matrices are made.

use super::kernel::Scalar;
use super::{Arithmetic, gemm};
use crate::kernels::matmul::rows::{GemmOutput, GroupedGemm, RowOffsets, StridedRows};
use crate::kernels::pointwise::Pointwise;
use crate::{Isa, ThreadPool};
use rustorch_core::{C64, C128};
use std::marker::PhantomData;
use std::ops::Neg;

/// Numbers of a field, in which matrices have inverses.
pub(crate) trait Field: Scalar + Pointwise + Neg<Output = Self> {
    /// Whether conjugates differ from the numbers.
    const IS_COMPLEX: bool;
    /// The complex conjugate.
    fn conj(self) -> Self;
}

macro_rules! fields {
    ($($ty:ty: $is_complex:literal, |$z:ident| $conj:expr;)*) => {$(
        impl Field for $ty {
            const IS_COMPLEX: bool = $is_complex;

            #[inline(always)]
            fn conj(self) -> $ty {
                let $z = self;
                $conj
            }
        }
    )*};
}

fields! {
    f32: false, |x| x;
    f64: false, |x| x;
    C64: true, |z| num_complex::Complex::conj(&z);
    C128: true, |z| num_complex::Complex::conj(&z);
}

/// The left factor counts negated, conjugated or not, and sums begin with what stands in the result.
struct Minus<T, const CONJ: bool>(PhantomData<T>);

impl<T: Field, const CONJ: bool> Arithmetic for Minus<T, CONJ> {
    type X = T;
    type W = T;
    type E = T;
    const ADDS: bool = true;
    const SUMS_ARE_RESULTS: bool = true;

    #[inline(always)]
    fn x(x: T) -> T {
        -if CONJ { x.conj() } else { x }
    }

    #[inline(always)]
    fn w(w: T) -> T {
        w
    }

    #[inline(always)]
    fn start(there: T) -> T {
        there
    }

    #[inline(always)]
    fn out(sum: T, _bias: Option<T>) -> T {
        sum
    }
}

/// The left factor of a matmul: element `(i, p)` is `i · strides[0] + p · strides[1]` from its first.
#[derive(Clone, Copy)]
pub(crate) struct Left<T> {
    /// The first element.
    pub(crate) at: *const T,
    /// Elements from one row to the next, and from one column to the next.
    pub(crate) strides: [usize; 2],
    /// Whether the conjugates count.
    pub(crate) conj: bool,
}

/// `c −= a·b` for `a: [m, k]`, `b: [k, n]`; rows of `b` and `c` are contiguous, `b.1` and `c.1` elements apart.
///
/// Each result is one chain of multiply-adds over the inner dimension, in order, whatever the sizes and the threads.
///
/// # Safety
/// The elements exist; those of `c` are the caller's alone, and none of `a` or `b` is among them.
pub(crate) unsafe fn subtract_matmul<T: Field>(
    pool: &ThreadPool,
    [m, n, k]: [usize; 3],
    a: Left<T>,
    b: (*const T, usize),
    c: (*mut T, usize),
) {
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    // SAFETY: this function's contract.
    unsafe {
        // Behind a constant that is false nothing is compiled.
        if const { T::IS_COMPLEX } && a.conj {
            run::<Minus<T, true>>(pool, [m, n, k], a, b, c)
        } else {
            run::<Minus<T, false>>(pool, [m, n, k], a, b, c)
        }
    }
}

/// # Safety
/// As [`subtract_matmul`].
unsafe fn run<A: Arithmetic<W = <A as Arithmetic>::X>>(
    pool: &ThreadPool,
    [m, n, k]: [usize; 3],
    a: Left<A::X>,
    b: (*const A::X, usize),
    c: (*mut A::X, usize),
) {
    let w = gemm::Strided { n, k, k_stride: b.1, n_stride: 1 };
    let out =
        GemmOutput { base: c.0, offsets: RowOffsets::Strided(c.1), stride: 1, bias: None, activation: None };
    // SAFETY: this function's contract; the instruction set was detected.
    unsafe {
        let x = StridedRows::new(a.at, RowOffsets::Strided(a.strides[0]), m, (k, a.strides[1]));
        gemm::run::<A>(pool, Isa::detect(), w, &[GroupedGemm { w: b.0.cast(), x, out }]);
    }
}
