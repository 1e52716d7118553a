//! From elements to the few types in which convolutions compute, and back.

use crate::Pool;
use crate::kernels::matmul::{Arithmetic, Same, Scalar};
use crate::kernels::strided::{dense, par_units, unreachable_memory};
use crate::math::Half;
use rustorch_core::{C64, C128, Element, Fault, Layout, View, bf16, f16};

/// An operand: borrowed where it lies, or converted to a packed copy.
pub(super) struct Operand<E> {
    base: *const E,
    converted: Option<Vec<E>>,
    pub(super) layout: Layout,
}

impl<E> Operand<E> {
    /// The address of the first element.
    pub(super) fn base(&self) -> *const E {
        self.converted.as_ref().map_or(self.base, |copy| copy.as_ptr())
    }
}

/// An element that convolutions take.
pub(super) trait Number: Element {
    /// What is multiplied and summed: `f32` for 16-bit floats, others themselves.
    type Sum: Scalar;
    /// How sums are packed for the kernels of matrix products.
    type Packed: Arithmetic<X = Self::Sum, W = Self::Sum, E = Self::Sum>;

    /// What stands in memory before results do.
    const BLANK: Self;

    /// A view as an operand.
    fn lend(pool: &Pool, x: &View<'_>) -> Result<Operand<Self::Sum>, Fault>;

    /// `a + b`
    fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum;

    /// Sums as elements, for slices of equal length.
    fn round(sums: &[Self::Sum], out: &mut [Self]);
}

/// The elements of a view with one dimension.
pub(super) fn list<T: Number>(pool: &Pool, x: &View<'_>) -> Result<Vec<T::Sum>, Fault> {
    let list = T::lend(pool, x)?;
    let (base, stride) = (list.base(), list.layout.strides()[0]);
    // SAFETY: elements of the view.
    Ok((0..list.layout.elements()).map(|i| unsafe { *base.add(i * stride) }).collect())
}

macro_rules! itself {
    ($($t:ty: $zero:expr;)*) => {$(
        impl Number for $t {
            type Sum = $t;
            type Packed = Same<$t>;

            const BLANK: $t = $zero;

            fn lend(_: &Pool, x: &View<'_>) -> Result<Operand<$t>, Fault> {
                let base = x.address::<$t>().ok_or_else(unreachable_memory)?;
                Ok(Operand { base, converted: None, layout: x.layout().clone() })
            }

            #[inline(always)]
            fn add(a: $t, b: $t) -> $t {
                a + b
            }

            #[inline(always)]
            fn round(sums: &[$t], out: &mut [$t]) {
                out.copy_from_slice(sums);
            }
        }
    )*};
}

itself! {
    f32: 0.0;
    f64: 0.0;
    C64: C64::new(0.0, 0.0);
    C128: C128::new(0.0, 0.0);
}

macro_rules! through_f32 {
    ($($t:ty),*) => {$(
        impl Number for $t {
            type Sum = f32;
            type Packed = Same<f32>;

            const BLANK: $t = <$t>::ZERO;

            fn lend(pool: &Pool, x: &View<'_>) -> Result<Operand<f32>, Fault> {
                let packed = dense::<$t>(x)?;
                let mut wide = vec![0.0; packed.len()];
                par_units(pool, &mut wide, 1, 1 << 15, |start, wide| {
                    <$t as Half>::widen_all(&packed[start..start + wide.len()], wide);
                });
                let layout = Layout::contiguous(x.layout().shape().clone());
                Ok(Operand { base: std::ptr::null(), converted: Some(wide), layout })
            }

            #[inline(always)]
            fn add(a: f32, b: f32) -> f32 {
                a + b
            }

            #[inline(always)]
            fn round(sums: &[f32], out: &mut [$t]) {
                <$t as Half>::narrow_all(sums, out);
            }
        }
    )*};
}

through_f32!(f16, bf16);
