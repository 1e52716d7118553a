//! Conversion between tensor dtypes and the accumulation types of convolutions.

use super::lines::Lanes;
use crate::ThreadPool;
use crate::kernels::matmul::{Arithmetic, Same, Scalar};
use crate::kernels::strided::{dense, par_units, unreachable_memory};
use crate::math::{Half, Real};
use crate::simd::Level;
use rustorch_core::{Buffer, C64, C128, Element, Fault, Layout, View, bf16, f16};
use std::marker::PhantomData;

/// Memory for the time of an operation: large chunks of it by huge pages.
pub(super) struct Room<E> {
    buffer: Buffer,
    len: usize,
    element: PhantomData<E>,
}

impl<E: Scalar> Room<E> {
    /// Room for `len` elements, of unspecified contents.
    pub(super) fn new(len: usize) -> Result<Room<E>, Fault> {
        let bytes = len.saturating_mul(size_of::<E>());
        Ok(Room { buffer: crate::memory::alloc(bytes)?, len, element: PhantomData })
    }

    /// The elements, to be written before they are read.
    pub(super) fn elements(&mut self) -> Result<&mut [E], Fault> {
        let base = self.buffer.host_address().ok_or_else(unreachable_memory)?.as_ptr().cast::<E>();
        // SAFETY: allocated for them, aligned for any element, ours alone, and plain data.
        Ok(unsafe { std::slice::from_raw_parts_mut(base, self.len) })
    }
}

/// An operand: borrowed where it lies, or converted to a packed copy.
pub(super) struct Operand<E> {
    base: *const E,
    /// Keeps the copy, if it is one.
    _copy: Option<Room<E>>,
    pub(super) layout: Layout,
}

impl<E> Operand<E> {
    /// The address of the first element.
    pub(super) fn base(&self) -> *const E {
        self.base
    }
}

/// An element that convolutions take.
pub(super) trait Number: Element {
    /// What is multiplied and summed: `f32` for 16-bit floats, others themselves.
    type Sum: Scalar + Lanes;
    /// How sums are packed for the GEMM kernels.
    type Packed: Arithmetic<X = Self::Sum, W = Self::Sum, E = Self::Sum>;

    /// Whether sums are results as they are: of [`Sum`](Self::Sum)'s type.
    const IS_SUM: bool;

    /// What stands in memory before results do.
    const BLANK: Self;

    /// A view as an operand.
    fn lend(pool: &ThreadPool, x: &View<'_>) -> Result<Operand<Self::Sum>, Fault>;

    /// `a + b`
    fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum;

    /// `acc + a·b`, fused where the CPU can.
    fn multiply_add<L: Level>(l: L, acc: Self::Sum, a: Self::Sum, b: Self::Sum) -> Self::Sum;

    /// Sums as elements, for slices of equal length.
    fn round(sums: &[Self::Sum], out: &mut [Self]);
}

/// The elements of a view with one dimension.
pub(super) fn list<T: Number>(pool: &ThreadPool, x: &View<'_>) -> Result<Vec<T::Sum>, Fault> {
    let list = T::lend(pool, x)?;
    let (base, stride) = (list.base(), list.layout.strides()[0]);
    // SAFETY: elements of the view.
    Ok((0..list.layout.numel()).map(|i| unsafe { *base.add(i * stride) }).collect())
}

macro_rules! itself {
    ($($t:ty: $zero:expr, |$l:ident, $acc:ident, $a:ident, $b:ident| $multiply_add:expr;)*) => {$(
        impl Number for $t {
            type Sum = $t;
            type Packed = Same<$t>;

            const IS_SUM: bool = true;
            const BLANK: $t = $zero;

            fn lend(_: &ThreadPool, x: &View<'_>) -> Result<Operand<$t>, Fault> {
                let base = x.address::<$t>().ok_or_else(unreachable_memory)?;
                Ok(Operand { base, _copy: None, layout: x.layout().clone() })
            }

            #[inline(always)]
            fn add(a: $t, b: $t) -> $t {
                a + b
            }

            #[inline(always)]
            fn multiply_add<L: Level>($l: L, $acc: $t, $a: $t, $b: $t) -> $t {
                $multiply_add
            }

            #[inline(always)]
            fn round(sums: &[$t], out: &mut [$t]) {
                out.copy_from_slice(sums);
            }
        }
    )*};
}

itself! {
    f32: 0.0, |l, acc, a, b| l.fma(a, b, acc);
    f64: 0.0, |l, acc, a, b| a.fma(l, b, acc);
    C64: C64::new(0.0, 0.0), |_l, acc, a, b| acc + a * b;
    C128: C128::new(0.0, 0.0), |_l, acc, a, b| acc + a * b;
}

macro_rules! through_f32 {
    ($($t:ty),*) => {$(
        impl Number for $t {
            type Sum = f32;
            type Packed = Same<f32>;

            const IS_SUM: bool = false;
            const BLANK: $t = <$t>::ZERO;

            fn lend(pool: &ThreadPool, x: &View<'_>) -> Result<Operand<f32>, Fault> {
                let packed = dense::<$t>(x)?;
                let mut copy = Room::new(packed.len())?;
                let wide = copy.elements()?;
                par_units(pool, wide, 1, 1 << 15, |start, wide| {
                    <$t as Half>::widen_all(&packed[start..start + wide.len()], wide);
                });
                let base = wide.as_ptr();
                let layout = Layout::contiguous(x.layout().shape().clone());
                Ok(Operand { base, _copy: Some(copy), layout })
            }

            #[inline(always)]
            fn add(a: f32, b: f32) -> f32 {
                a + b
            }

            #[inline(always)]
            fn multiply_add<L: Level>(l: L, acc: f32, a: f32, b: f32) -> f32 {
                l.fma(a, b, acc)
            }

            #[inline(always)]
            fn round(sums: &[f32], out: &mut [$t]) {
                <$t as Half>::narrow_all(sums, out);
            }
        }
    )*};
}

through_f32!(f16, bf16);
