//! Vector kernels for 64-bit Arm, whose 32 registers of NEON hold tiles of six rows.

use super::kernel::{Pitched, Scalar, Tiles, Vector, tile};
use crate::Isa;
use rustorch_core::{C64, C128};
use std::arch::aarch64::*;

/// Types that may have kernels by hand.
pub(super) trait ByHand: Scalar {
    fn tiles(_isa: Isa) -> Option<&'static Tiles<Self>> {
        None
    }

    fn narrow_tiles(_isa: Isa) -> Option<&'static Tiles<Self>> {
        None
    }
}

// These have their portable kernels: NEON multiplies no 64-bit integers.
impl ByHand for i64 {}
impl ByHand for C64 {}
impl ByHand for C128 {}

/// # Safety
/// As [`crate::kernels::matmul::dense::kernel::Tile`].
unsafe fn packed<T: Vector, const H: usize, const V: usize>(
    k: usize,
    x: *const T::E,
    w: *const T::E,
    from: Option<Pitched<*const T::E>>,
    to: Pitched<*mut T::E>,
) {
    // SAFETY: this function's contract; every 64-bit Arm CPU has NEON.
    unsafe { tile::<T, H, V>(k, x, [1, H], w, from, to) }
}

/// # Safety
/// As [`crate::kernels::matmul::dense::kernel::StridedTile`].
unsafe fn strided<T: Vector, const H: usize, const V: usize>(
    k: usize,
    x: Pitched<*const T::E>,
    w: *const T::E,
    from: Option<Pitched<*const T::E>>,
    to: Pitched<*mut T::E>,
) {
    // SAFETY: this function's contract; every 64-bit Arm CPU has NEON.
    unsafe { tile::<T, H, V>(k, x.first, [x.pitch, 1], w, from, to) }
}

macro_rules! by_hand {
    ($($e:ty: $v:ty, $splat:ident $load:ident $store:ident $fma:ident;)*) => {$(
        impl Vector for $v {
            type E = $e;
            const LANES: usize = size_of::<$v>() / size_of::<$e>();

            #[inline(always)]
            unsafe fn splat(value: $e) -> Self {
                // SAFETY: this function's contract.
                unsafe { $splat(value) }
            }

            #[inline(always)]
            unsafe fn load(from: *const $e) -> Self {
                // SAFETY: this function's contract.
                unsafe { $load(from) }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $e) {
                // SAFETY: this function's contract.
                unsafe { $store(to, self) }
            }

            #[inline(always)]
            unsafe fn multiply_add(acc: Self, a: Self, b: Self) -> Self {
                // SAFETY: this function's contract.
                unsafe { $fma(acc, a, b) }
            }
        }

        impl ByHand for $e {
            fn tiles(isa: Isa) -> Option<&'static Tiles<$e>> {
                by_hand!(isa, 4, $e, $v)
            }

            fn narrow_tiles(isa: Isa) -> Option<&'static Tiles<$e>> {
                by_hand!(isa, 2, $e, $v)
            }
        }
    )*};
    // The table of tiles of so many vectors.
    ($isa:ident, $vectors:literal, $e:ty, $v:ty) => {{
        static NEON: Tiles<$e> = Tiles {
            columns: $vectors * <$v as Vector>::LANES,
            by_rows: &[
                (1, packed::<$v, 1, $vectors>),
                (2, packed::<$v, 2, $vectors>),
                (4, packed::<$v, 4, $vectors>),
                (6, packed::<$v, 6, $vectors>),
            ],
            strided: &[
                strided::<$v, 1, $vectors>,
                strided::<$v, 2, $vectors>,
                strided::<$v, 4, $vectors>,
                strided::<$v, 6, $vectors>,
            ],
        };
        ($isa >= Isa::Neon).then_some(&NEON)
    }};
}

by_hand! {
    f32: float32x4_t, vdupq_n_f32 vld1q_f32 vst1q_f32 vfmaq_f32;
    f64: float64x2_t, vdupq_n_f64 vld1q_f64 vst1q_f64 vfmaq_f64;
    i16: int16x8_t, vdupq_n_s16 vld1q_s16 vst1q_s16 vmlaq_s16;
    i32: int32x4_t, vdupq_n_s32 vld1q_s32 vst1q_s32 vmlaq_s32;
}
