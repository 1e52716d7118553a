//! Vector kernels and conversions for x86-64.

mod vector;

use super::kernel::{Pitched, Scalar, Tiles, Vector, tile};
use crate::Isa;
use rustorch_core::{C64, C128, bf16, f16};
use std::arch::x86_64::*;
use vector::{C64x4, C64x8, C128x2, C128x4, I16x16, I16x32, I32x8, I32x16, I64x8};

/// Tiles for an instruction set, of packed left operands and of those that are read where they stand.
macro_rules! tiles {
    ($($(#[$doc:meta])* $features:literal: $packed:ident, $strided:ident;)*) => {$(
        /// # Safety
        /// As [`crate::kernels::matmul::dense::kernel::Tile`].
        $(#[$doc])*
        #[target_feature(enable = $features)]
        unsafe fn $packed<T: Vector, const H: usize, const V: usize>(
            k: usize,
            x: *const T::E,
            w: *const T::E,
            from: Option<Pitched<*const T::E>>,
            to: Pitched<*mut T::E>,
        ) {
            // SAFETY: this function's contract.
            unsafe { tile::<T, H, V>(k, x, [1, H], w, from, to) }
        }

        /// # Safety
        /// As [`crate::kernels::matmul::dense::kernel::StridedTile`].
        $(#[$doc])*
        #[target_feature(enable = $features)]
        unsafe fn $strided<T: Vector, const H: usize, const V: usize>(
            k: usize,
            x: Pitched<*const T::E>,
            w: *const T::E,
            from: Option<Pitched<*const T::E>>,
            to: Pitched<*mut T::E>,
        ) {
            // SAFETY: this function's contract.
            unsafe { tile::<T, H, V>(k, x.first, [x.pitch, 1], w, from, to) }
        }
    )*};
}

tiles! {
    /// The CPU has AVX-512 F, BW and DQ.
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma": tile512, strided512;
    /// The CPU has AVX2 and FMA.
    "avx2,fma": tile256, strided256;
}

/// Types with kernels by hand.
pub(super) trait ByHand: Scalar {
    fn tiles(isa: Isa) -> Option<&'static Tiles<Self>>;
    fn narrow_tiles(isa: Isa) -> Option<&'static Tiles<Self>>;
}

macro_rules! by_hand {
    ($($e:ty: $v512:ty, rows $($h512:literal)* $(strided $($s512:literal)*)?; $($v256:ty, rows $($h256:literal)* $(strided $($s256:literal)*)?)?;)*) => {$(
        impl ByHand for $e {
            fn tiles(isa: Isa) -> Option<&'static Tiles<$e>> {
                by_hand!(isa, 2, $e: $v512, $($h512)* $(strided $($s512)*)?; $($v256, $($h256)* $(strided $($s256)*)?)?)
            }

            fn narrow_tiles(isa: Isa) -> Option<&'static Tiles<$e>> {
                by_hand!(isa, 1, $e: $v512, $($h512)* $(strided $($s512)*)?; $($v256, $($h256)* $(strided $($s256)*)?)?)
            }
        }
    )*};
    // The tables of tiles of so many vectors.
    ($isa:ident, $vectors:literal, $e:ty: $v512:ty, $($h512:literal)* $(strided $($s512:literal)*)?; $($v256:ty, $($h256:literal)* $(strided $($s256:literal)*)?)?) => {{
        static AVX512: Tiles<$e> = Tiles {
            columns: $vectors * <$v512 as Vector>::LANES,
            by_rows: &[$(($h512, tile512::<$v512, $h512, $vectors>)),*],
            strided: &[$($(strided512::<$v512, $s512, $vectors>),*)?],
        };
        $(
            static AVX2: Tiles<$e> = Tiles {
                columns: $vectors * <$v256 as Vector>::LANES,
                by_rows: &[$(($h256, tile256::<$v256, $h256, $vectors>)),*],
                strided: &[$($(strided256::<$v256, $s256, $vectors>),*)?],
            };
        )?
        match $isa {
            Isa::Avx512 => Some(&AVX512),
            $(Isa::Avx2 | Isa::AvxVnni => avx2::<$v256>(&AVX2),)?
            _ => None,
        }
    }};
}

/// Lets the table of a vector type be found.
fn avx2<V: Vector>(tiles: &'static Tiles<V::E>) -> Option<&'static Tiles<V::E>> {
    Some(tiles)
}

by_hand! {
    f32: __m512, rows 1 2 4 8 12 strided 1 2 4 8 12; __m256, rows 1 2 4 6 strided 1 2 4 6;
    f64: __m512d, rows 1 2 4 8 12 strided 1 2 4 8 12; __m256d, rows 1 2 4 6 strided 1 2 4 6;
    C64: C64x8, rows 1 2 4 6; C64x4, rows 1 2 3;
    C128: C128x4, rows 1 2 4 6; C128x2, rows 1 2 3;
    i16: I16x32, rows 1 2 4 8; I16x16, rows 1 2 4;
    i32: I32x16, rows 1 2 4 8; I32x8, rows 1 2 4;
    i64: I64x8, rows 1 2 4 8; ;
}

/// # Safety
/// The CPU has AVX; eight elements can be read.
#[inline(always)]
pub(super) unsafe fn load_f32(w: *const f32) -> __m256 {
    // SAFETY: this function's contract.
    unsafe { _mm256_loadu_ps(w) }
}

/// # Safety
/// The CPU has F16C; eight elements can be read.
#[inline(always)]
pub(super) unsafe fn load_f16(w: *const f16) -> __m256 {
    // SAFETY: this function's contract.
    unsafe { _mm256_cvtph_ps(_mm_loadu_si128(w.cast())) }
}

/// # Safety
/// The CPU has AVX2; eight elements can be read.
#[inline(always)]
pub(super) unsafe fn load_bf16(w: *const bf16) -> __m256 {
    // SAFETY: this function's contract.
    unsafe {
        let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(w.cast()));
        _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))
    }
}

/// `k` elements, a multiple of eight, of `H` rows, a multiple of four, as `[k][H]`.
///
/// # Safety
/// The CPU has AVX2. The rows have so many elements, and `k * H` elements of `out` can be written.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn interleave<const H: usize>(rows: [*const f32; H], k: usize, out: *mut f32) {
    let (fours, _) = rows.as_chunks::<4>();
    // SAFETY: this function's contract.
    unsafe {
        for p in (0..k).step_by(8) {
            for (r, four) in fours.iter().enumerate() {
                let [a, b, c, d] = four.map(|row| _mm256_loadu_ps(row.add(p)));
                let (low, low2) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
                let (high, high2) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
                // Each has the elements of one `p` in its lower half, and those of the fourth after it in the upper one.
                let quads = [
                    _mm256_shuffle_ps(low, low2, 0x44),
                    _mm256_shuffle_ps(low, low2, 0xee),
                    _mm256_shuffle_ps(high, high2, 0x44),
                    _mm256_shuffle_ps(high, high2, 0xee),
                ];
                for (i, quad) in quads.into_iter().enumerate() {
                    let to = out.add((p + i) * H + 4 * r);
                    _mm_storeu_ps(to, _mm256_castps256_ps128(quad));
                    _mm_storeu_ps(to.add(4 * H), _mm256_extractf128_ps(quad, 1));
                }
            }
        }
    }
}

/// Rows and columns of eight registers swapped.
///
/// # Safety
/// The CPU has AVX.
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
