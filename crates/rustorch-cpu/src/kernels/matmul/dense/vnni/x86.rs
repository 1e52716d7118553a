//! Groups that AVX-512 multiplies.

use super::{COLUMNS, Group, Pitched, Tile, Words};
use crate::Isa;
use crate::kernels::matmul::gemm_args::GemmArgs;
use crate::kernels::pointwise::Pointwise;
use crate::simd;
use rustorch_core::bf16;
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// Rows and columns from which on it pays to pack both operands.
const FEWEST_ROWS: usize = 24;
const FEWEST_COLUMNS: usize = 32;

/// Whether a matmul is large enough for both operands to be packed.
pub(super) fn is_large<G: Group>(gemm: &GemmArgs) -> bool {
    gemm.m >= FEWEST_ROWS && gemm.n >= FEWEST_COLUMNS && gemm.k >= G::LEN
}

/// Pairs of `bf16`. Both products of a pair are added to the `f32` sum by one instruction, which takes subnormal numbers for zeros: results
/// are not the bits of other ways, so that only matmuls whose order of sums is free go this way.
pub(in super::super) struct Bf16Pairs;

impl Bf16Pairs {
    /// Whether the CPU has the instructions.
    pub(super) fn exist() -> bool {
        Isa::detect() == Isa::Avx512 && is_x86_feature_detected!("avx512bf16")
    }

    /// Whether it has, and a matmul is large enough for them.
    pub(in super::super) fn fit(gemm: &GemmArgs) -> bool {
        is_large::<Bf16Pairs>(gemm) && Self::exist()
    }

    /// See [`Tile`].
    ///
    /// # Safety
    /// As there.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn tile<const H: usize>(
        words: usize,
        x: Words,
        w: *const u32,
        start: *const f32,
        to: Pitched<*mut f32>,
    ) {
        // SAFETY: this function's contract.
        unsafe {
            match x {
                // As they are packed, a loop of its own.
                Words { first, row: 1, step } if step == H => {
                    Self::sums::<H>(words, first, [1, H], w, start, to)
                }
                Words { first, row, step } => Self::sums::<H>(words, first, [row, step], w, start, to),
            }
        }
    }

    /// # Safety
    /// As [`tile`](Self::tile).
    #[inline(always)]
    unsafe fn sums<const H: usize>(
        words: usize,
        x: *const u32,
        [row, step]: [usize; 2],
        w: *const u32,
        start: *const f32,
        to: Pitched<*mut f32>,
    ) {
        // SAFETY: this function's contract; registers of one size are made of each other.
        unsafe {
            let halves = |words: __m512i| std::mem::transmute::<__m512i, __m512bh>(words);
            let mut sums = [[_mm512_loadu_ps(start), _mm512_loadu_ps(start.add(16))]; H];
            for p in 0..words {
                let right = [
                    halves(_mm512_loadu_si512(w.add(p * COLUMNS).cast())),
                    halves(_mm512_loadu_si512(w.add(p * COLUMNS + 16).cast())),
                ];
                for i in 0..H {
                    let left = halves(_mm512_set1_epi32(x.add(p * step + i * row).cast::<i32>().read()));
                    for v in 0..2 {
                        sums[i][v] = _mm512_dpbf16_ps(sums[i][v], left, right[v]);
                    }
                }
            }
            for i in 0..H {
                for v in 0..2 {
                    _mm512_storeu_ps(to.first.add(i * to.pitch + v * 16), sums[i][v]);
                }
            }
        }
    }
}

impl Group for Bf16Pairs {
    type X = bf16;
    type Out = bf16;
    type Sum = f32;
    const LEN: usize = 2;
    const IS_PLAIN: bool = true;
    const TILES: &'static [(usize, Tile<Self>)] =
        &[(4, Self::tile::<4>), (8, Self::tile::<8>), (12, Self::tile::<12>)];

    #[inline(always)]
    fn word(values: &[bf16]) -> u32 {
        let second = values.get(1).map_or(0, |value| value.to_bits());
        u32::from(values[0].to_bits()) | u32::from(second) << 16
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn join(first: *const bf16, step: usize, to: *mut u32) -> bool {
        for half in 0..2 {
            // SAFETY: this function's contract; sixteen values at a time.
            unsafe {
                let first = first.add(16 * half);
                let low = _mm512_cvtepu16_epi32(_mm256_loadu_si256(first.cast()));
                let high = _mm512_cvtepu16_epi32(_mm256_loadu_si256(first.add(step).cast()));
                let words = _mm512_or_si512(low, _mm512_slli_epi32::<16>(high));
                _mm512_storeu_si512(to.add(16 * half).cast(), words);
            }
        }
        true
    }

    #[inline(always)]
    fn out(sum: f32, bias: Option<bf16>) -> bf16 {
        simd::to_bf16(bias.map_or(sum, |bias| sum + simd::from_bf16(bias)))
    }
}

/// Quads of bytes, whose results are the low bits of the sums that `T` has: those of `u8` are the ones of the `i8` that have their bits. The
/// instruction multiplies bytes of which the left ones are unsigned: 128 is added to the left operand, and sums begin with −128 times the sum
/// of the column.
pub(in super::super) struct I8Quads<X, T>(PhantomData<(X, T)>);

/// Integers whose low bits are those of an `i32`.
pub(in super::super) trait LowBits: Pointwise {
    /// The low bits.
    fn of(x: i32) -> Self;
    /// An integer with these low bits.
    fn wide(self) -> i32;
}

macro_rules! low_bits {
    ($($t:ty)*) => {$(
        impl LowBits for $t {
            #[inline(always)]
            fn of(x: i32) -> $t {
                x as $t
            }

            #[inline(always)]
            fn wide(self) -> i32 {
                self as i32
            }
        }
    )*};
}

low_bits!(i8 u8 i32);

impl<X: LowBits, T: LowBits> I8Quads<X, T> {
    /// Whether the CPU has the instructions.
    pub(in super::super) fn exist() -> bool {
        Isa::detect() == Isa::Avx512
    }

    /// Whether it has, and a matmul is large enough for them.
    pub(in super::super) fn fit(gemm: &GemmArgs) -> bool {
        is_large::<Self>(gemm) && Self::exist()
    }

    /// See [`Tile`].
    ///
    /// # Safety
    /// As there.
    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn tile<const H: usize>(
        words: usize,
        x: Words,
        w: *const u32,
        start: *const i32,
        to: Pitched<*mut i32>,
    ) {
        // SAFETY: this function's contract.
        unsafe {
            match x {
                // As they are packed, a loop of its own.
                Words { first, row: 1, step } if step == H => {
                    Self::sums::<H>(words, first, [1, H], w, start, to)
                }
                Words { first, row, step } => Self::sums::<H>(words, first, [row, step], w, start, to),
            }
        }
    }

    /// # Safety
    /// As [`tile`](Self::tile).
    #[inline(always)]
    unsafe fn sums<const H: usize>(
        words: usize,
        x: *const u32,
        [row, step]: [usize; 2],
        w: *const u32,
        start: *const i32,
        to: Pitched<*mut i32>,
    ) {
        // SAFETY: this function's contract.
        unsafe {
            let load = |from: *const i32| _mm512_loadu_si512(from.cast());
            let mut sums = [[load(start), load(start.add(16))]; H];
            for p in 0..words {
                let right = [0, 16].map(|v| _mm512_loadu_si512(w.add(p * COLUMNS + v).cast()));
                for i in 0..H {
                    let left = _mm512_set1_epi32(x.add(p * step + i * row).cast::<i32>().read());
                    for v in 0..2 {
                        sums[i][v] = _mm512_dpbusd_epi32(sums[i][v], left, right[v]);
                    }
                }
            }
            for i in 0..H {
                for v in 0..2 {
                    _mm512_storeu_si512(to.first.add(i * to.pitch + v * 16).cast(), sums[i][v]);
                }
            }
        }
    }
}

/// The sign bits of four bytes.
const SIGNS: u32 = 0x8080_8080;

impl<X: LowBits, T: LowBits> Group for I8Quads<X, T> {
    type X = X;
    type Out = T;
    type Sum = i32;
    const LEN: usize = 4;
    const IS_PLAIN: bool = true;
    const TILES: &'static [(usize, Tile<Self>)] =
        &[(4, Self::tile::<4>), (8, Self::tile::<8>), (12, Self::tile::<12>)];

    #[inline(always)]
    fn word(values: &[X]) -> u32 {
        values.iter().rev().fold(0, |word, &value| word << 8 | u32::from(value.wide() as u8))
    }

    #[target_feature(enable = "avx512f")]
    unsafe fn join(first: *const X, step: usize, to: *mut u32) -> bool {
        for half in 0..2 {
            // SAFETY: this function's contract; sixteen values at a time.
            unsafe {
                let bytes = |row: usize| {
                    _mm512_cvtepu8_epi32(_mm_loadu_si128(first.add(row * step + 16 * half).cast()))
                };
                let low = _mm512_or_si512(bytes(0), _mm512_slli_epi32::<8>(bytes(1)));
                let high = _mm512_or_si512(bytes(2), _mm512_slli_epi32::<8>(bytes(3)));
                let words = _mm512_or_si512(low, _mm512_slli_epi32::<16>(high));
                _mm512_storeu_si512(to.add(16 * half).cast(), words);
            }
        }
        true
    }

    /// −128 times the sum of the values of each column.
    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn begin(words: usize, columns: *const u32, to: *mut i32) {
        // SAFETY: this function's contract.
        unsafe {
            let ones = _mm512_set1_epi8(1);
            let mut sums = [_mm512_setzero_si512(); 2];
            for p in 0..words {
                for v in 0..2 {
                    let values = _mm512_loadu_si512(columns.add(p * COLUMNS + 16 * v).cast());
                    sums[v] = _mm512_dpbusd_epi32(sums[v], ones, values);
                }
            }
            for v in 0..2 {
                let start = _mm512_slli_epi32::<7>(_mm512_sub_epi32(_mm512_setzero_si512(), sums[v]));
                _mm512_storeu_si512(to.add(16 * v).cast(), start);
            }
        }
    }

    fn rows(words: &mut [u32]) {
        words.iter_mut().for_each(|word| *word ^= SIGNS);
    }

    #[inline(always)]
    fn out(sum: i32, bias: Option<T>) -> T {
        T::of(sum.wrapping_add(bias.map_or(0, T::wide)))
    }
}
