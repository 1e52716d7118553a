//! Pairs of `i8` as halves of words, for CPUs that do not multiply bytes.

use super::{COLUMNS, Group, Pitched, Tile, Words};
#[cfg(target_arch = "x86_64")]
use crate::Isa;

/// Pairs of `i8`, summed in `i32`.
pub(in super::super) struct I8Pairs;

impl I8Pairs {
    /// See [`Tile`].
    ///
    /// # Safety
    /// As there.
    unsafe fn tile<const H: usize>(
        words: usize,
        x: Words,
        w: *const u32,
        start: *const i32,
        to: Pitched<*mut i32>,
    ) {
        // SAFETY: this function's contract.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if Isa::detect() >= Isa::Avx2 {
                return avx2_tile::<H>(words, x, w, start, to);
            }
            let start = start.cast::<[i32; COLUMNS]>().read();
            for i in 0..H {
                let mut sums = start;
                for p in 0..words {
                    let halves = |word: u32| [word as i16, (word >> 16) as i16].map(i32::from);
                    let left = halves(*x.first.add(p * x.step + i * x.row));
                    for j in 0..COLUMNS {
                        let right = halves(*w.add(p * COLUMNS + j));
                        // Wrapping, as the vector instructions do.
                        let product = left[0] * right[0] + left[1] * right[1];
                        sums[j] = sums[j].wrapping_add(product);
                    }
                }
                to.first.add(i * to.pitch).cast::<[i32; COLUMNS]>().write(sums);
            }
        }
    }
}

impl Group for I8Pairs {
    type X = i8;
    type Out = i32;
    type Sum = i32;
    const LEN: usize = 2;
    const IS_PLAIN: bool = false;
    const TILES: &'static [(usize, Tile<Self>)] =
        &[(4, Self::tile::<4>), (8, Self::tile::<8>), (12, Self::tile::<12>)];

    #[inline(always)]
    fn word(values: &[i8]) -> u32 {
        let half = |value: i8| u32::from(i16::from(value) as u16);
        half(values[0]) | half(values.get(1).copied().unwrap_or(0)) << 16
    }

    #[inline(always)]
    fn out(sum: i32, bias: Option<i32>) -> i32 {
        sum.wrapping_add(bias.unwrap_or(0))
    }
}

/// # Safety
/// As [`Tile`], for an even height; the CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2_tile<const H: usize>(
    words: usize,
    x: Words,
    w: *const u32,
    start: *const i32,
    to: Pitched<*mut i32>,
) {
    use std::arch::x86_64::*;
    // SAFETY: this function's contract.
    unsafe {
        // Two rows at a time: eight registers of sums and four of columns.
        for i in (0..H).step_by(2) {
            let mut sums = [[0, 8, 16, 24].map(|v| _mm256_loadu_si256(start.add(v).cast())); 2];
            for p in 0..words {
                let at = x.first.add(p * x.step + i * x.row);
                let left = [0, 1].map(|row| _mm256_set1_epi32(at.add(row * x.row).cast::<i32>().read()));
                for v in 0..4 {
                    let right = _mm256_loadu_si256(w.add(p * COLUMNS + 8 * v).cast());
                    for row in 0..2 {
                        let products = _mm256_madd_epi16(left[row], right);
                        sums[row][v] = _mm256_add_epi32(sums[row][v], products);
                    }
                }
            }
            for row in 0..2 {
                for v in 0..4 {
                    _mm256_storeu_si256(to.first.add((i + row) * to.pitch + 8 * v).cast(), sums[row][v]);
                }
            }
        }
    }
}
