//! Vector kernels and conversions for x86-64.

use super::kernel::{Plain, Scalar, Tiles, Vector, tile};
use crate::Isa;
use rustorch_core::{bf16, f16};
use std::arch::x86_64::*;

macro_rules! vectors {
    ($($vector:ty: $lanes:literal of $e:ty, $splat:ident, $load:ident, $store:ident, $fma:ident;)*) => {$(
        impl Vector for $vector {
            type E = $e;
            const LANES: usize = $lanes;

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
            unsafe fn add_product(acc: Self, a: Self, b: Self) -> Self {
                // SAFETY: this function's contract.
                unsafe { $fma(a, b, acc) }
            }
        }
    )*};
}

vectors! {
    __m512: 16 of f32, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps;
    __m512d: 8 of f64, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_fmadd_pd;
    __m256: 8 of f32, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps;
    __m256d: 4 of f64, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_fmadd_pd;
}

/// # Safety
/// As [`super::kernel::Tile`], on a processor with AVX-512 F.
#[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
unsafe fn tile512<T: Vector, const H: usize>(k: usize, x: *const T::E, w: *const T::E, acc: *mut T::E) {
    // SAFETY: this function's contract.
    unsafe { tile::<T, H, 2>(k, x, w, acc) }
}

/// # Safety
/// As [`super::kernel::Tile`], on a processor with AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
unsafe fn tile256<T: Vector, const H: usize>(k: usize, x: *const T::E, w: *const T::E, acc: *mut T::E) {
    // SAFETY: this function's contract.
    unsafe { tile::<T, H, 2>(k, x, w, acc) }
}

/// The portable tile for wider vectors.
///
/// # Safety
/// As [`super::kernel::Tile`], on a processor with AVX2.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn wide256<E: Scalar, const N: usize, const H: usize>(
    k: usize,
    x: *const E,
    w: *const E,
    acc: *mut E,
) {
    // SAFETY: this function's contract.
    unsafe { tile::<Plain<E, N>, H, 1>(k, x, w, acc) }
}

/// The portable tile for wider vectors.
///
/// # Safety
/// As [`super::kernel::Tile`], on a processor with AVX-512 F, BW, DQ and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(super) unsafe fn wide512<E: Scalar, const N: usize, const H: usize>(
    k: usize,
    x: *const E,
    w: *const E,
    acc: *mut E,
) {
    // SAFETY: this function's contract.
    unsafe { tile::<Plain<E, N>, H, 1>(k, x, w, acc) }
}

/// Types with kernels by hand.
pub(super) trait ByHand: Scalar {
    fn tiles(isa: Isa) -> Option<&'static Tiles<Self>>;
}

macro_rules! by_hand {
    ($($e:ty: $v512:ty, $v256:ty, columns $c512:literal, $c256:literal;)*) => {$(
        impl ByHand for $e {
            fn tiles(isa: Isa) -> Option<&'static Tiles<$e>> {
                static AVX512: Tiles<$e> = Tiles {
                    columns: $c512,
                    by_rows: &[
                        (1, tile512::<$v512, 1>),
                        (2, tile512::<$v512, 2>),
                        (4, tile512::<$v512, 4>),
                        (8, tile512::<$v512, 8>),
                        (12, tile512::<$v512, 12>),
                    ],
                };
                static AVX2: Tiles<$e> = Tiles {
                    columns: $c256,
                    by_rows: &[
                        (1, tile256::<$v256, 1>),
                        (2, tile256::<$v256, 2>),
                        (4, tile256::<$v256, 4>),
                        (6, tile256::<$v256, 6>),
                    ],
                };
                match isa {
                    Isa::Avx512 => Some(&AVX512),
                    Isa::Avx2 => Some(&AVX2),
                    _ => None,
                }
            }
        }
    )*};
}

by_hand! {
    f32: __m512, __m256, columns 32, 16;
    f64: __m512d, __m256d, columns 16, 8;
}

/// # Safety
/// The processor has AVX; eight elements can be read.
#[inline(always)]
pub(super) unsafe fn load_f32(w: *const f32) -> __m256 {
    // SAFETY: this function's contract.
    unsafe { _mm256_loadu_ps(w) }
}

/// # Safety
/// The processor has F16C; eight elements can be read.
#[inline(always)]
pub(super) unsafe fn load_f16(w: *const f16) -> __m256 {
    // SAFETY: this function's contract.
    unsafe { _mm256_cvtph_ps(_mm_loadu_si128(w.cast())) }
}

/// # Safety
/// The processor has AVX2; eight elements can be read.
#[inline(always)]
pub(super) unsafe fn load_bf16(w: *const bf16) -> __m256 {
    // SAFETY: this function's contract.
    unsafe {
        let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(w.cast()));
        _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))
    }
}

/// Rows and columns of eight registers swapped.
///
/// # Safety
/// The processor has AVX.
#[inline(always)]
pub(super) unsafe fn transpose(rows: [__m256; 8]) -> [__m256; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    // SAFETY: this function's contract.
    unsafe {
        let pairs = [
            _mm256_unpacklo_ps(a, b),
            _mm256_unpackhi_ps(a, b),
            _mm256_unpacklo_ps(c, d),
            _mm256_unpackhi_ps(c, d),
            _mm256_unpacklo_ps(e, f),
            _mm256_unpackhi_ps(e, f),
            _mm256_unpacklo_ps(g, h),
            _mm256_unpackhi_ps(g, h),
        ];
        let [a, b, c, d, e, f, g, h] = pairs;
        let quads = [
            _mm256_shuffle_ps(a, c, 0x44),
            _mm256_shuffle_ps(a, c, 0xee),
            _mm256_shuffle_ps(b, d, 0x44),
            _mm256_shuffle_ps(b, d, 0xee),
            _mm256_shuffle_ps(e, g, 0x44),
            _mm256_shuffle_ps(e, g, 0xee),
            _mm256_shuffle_ps(f, h, 0x44),
            _mm256_shuffle_ps(f, h, 0xee),
        ];
        let [a, b, c, d, e, f, g, h] = quads;
        [
            _mm256_permute2f128_ps(a, e, 0x20),
            _mm256_permute2f128_ps(b, f, 0x20),
            _mm256_permute2f128_ps(c, g, 0x20),
            _mm256_permute2f128_ps(d, h, 0x20),
            _mm256_permute2f128_ps(a, e, 0x31),
            _mm256_permute2f128_ps(b, f, 0x31),
            _mm256_permute2f128_ps(c, g, 0x31),
            _mm256_permute2f128_ps(d, h, 0x31),
        ]
    }
}
