//! Codes of each type in AVX2 registers.

use crate::kernels::matmul::weight::chunk::{CHUNK, Chunk, small, unpack_scales};
use crate::kernels::matmul::weight::portable;
use crate::kernels::matmul::weight::types::{Kind, Weight};
use crate::kernels::matmul::weight::x86::paired;
use rustorch_quant::{
    BlockIq4Nl, BlockIq4Xs, BlockMxfp4, BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0,
    BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0, BlockQ8_1, KVALUES_IQ4NL,
};
use std::arch::x86_64::*;

/// A block type whose codes can be unpacked in registers.
pub(crate) trait Vectored: Weight {
    /// Codes `32 * i..32 * i + 32` plus the offset, in order.
    ///
    /// # Safety
    /// The CPU has AVX2, and the block that many codes.
    unsafe fn codes(&self, i: usize) -> __m256i;

    /// The groups of 32 codes that [`pair`](Self::pair) gives (types of 256 values only): those that unpack together.
    const PAIRS: [(usize, usize); 4] = [(0, 1), (2, 3), (4, 5), (6, 7)];

    /// The codes plus the offset of two groups of 32, in order.
    ///
    /// # Safety
    /// The CPU has AVX-512 F, BW and VL; the type is of 256 values.
    #[inline(always)]
    unsafe fn pair(&self, i: usize) -> __m512i {
        let (low, high) = Self::PAIRS[i];
        // SAFETY: this function's contract.
        unsafe { _mm512_inserti64x4(_mm512_castsi256_si512(self.codes(low)), self.codes(high), 1) }
    }

    /// The codes plus the offset of two blocks of 32 values, in order.
    ///
    /// # Safety
    /// The CPU has AVX-512 F, BW and VL; the type is of 32 values.
    #[inline(always)]
    unsafe fn two(a: &Self, b: &Self) -> __m512i {
        // SAFETY: this function's contract.
        unsafe { _mm512_inserti64x4(_mm512_castsi256_si512(a.codes(0)), b.codes(0), 1) }
    }

    /// Whether [`four`](Self::four) and [`scales_of_fours`](Self::scales_of_fours) are there.
    const FOURS: bool = false;

    /// Of four blocks of 32 values, one after the other: the codes plus the offset of the first halves and of the second halves, a quarter of
    /// a register each; and what [`scales_of_fours`](Self::scales_of_fours) takes.
    ///
    /// # Safety
    /// The CPU has AVX-512 F and BW; the four blocks can be read.
    #[inline(always)]
    unsafe fn four(_blocks: *const Self) -> ([__m512i; 2], __m512i) {
        unreachable!("only for types that say so")
    }

    /// The scales of four blocks of four rows, a quarter of the register for each place in the rows.
    ///
    /// # Safety
    /// The CPU has AVX-512 F and BW.
    #[inline(always)]
    unsafe fn scales_of_fours(_heads: [__m512i; 4]) -> __m512 {
        unreachable!("only for types that say so")
    }

    /// Scales and minima of four blocks, as [`Weight::factors`].
    ///
    /// # Safety
    /// The CPU has AVX2 and F16C.
    #[inline(always)]
    unsafe fn factors4(blocks: [&Self; 4]) -> (__m128, __m128) {
        let [a, b, c, d] = [blocks[0].halves(), blocks[1].halves(), blocks[2].halves(), blocks[3].halves()];
        // SAFETY: this function's contract.
        unsafe {
            (
                _mm_cvtph_ps(_mm_cvtsi64_si128(join([a.0, b.0, c.0, d.0]))),
                _mm_cvtph_ps(_mm_cvtsi64_si128(join([a.1, b.1, c.1, d.1]))),
            )
        }
    }

    /// What four blocks of 256 values with a scale for each 32 have besides codes.
    ///
    /// # Safety
    /// The CPU has AVX-512 F and BW, AVX2 and F16C.
    #[inline(always)]
    unsafe fn scales4(blocks: [&Self; 4]) -> Scales4 {
        let [a, b, c, d] = [blocks[0].scales(), blocks[1].scales(), blocks[2].scales(), blocks[3].scales()];
        let (mut scales, mut mins) = ([[0i16; 8]; 4], [[0i16; 8]; 4]);
        for (r, (all, low)) in [a, b, c, d].iter().enumerate() {
            for i in 0..8 {
                (scales[r][i], mins[r][i]) = (i16::from(all[i]), i16::from(low[i]));
            }
        }
        // SAFETY: this function's contract; 32 numbers fill a register.
        unsafe {
            let (d, dmin) = Self::factors4(blocks);
            let (scales, mins) = (load512(scales.as_ptr().cast()), load512(mins.as_ptr().cast()));
            Scales4 { scales, mins, d, dmin }
        }
    }

    /// Scale and minimum, as [`Weight::factors`].
    ///
    /// # Safety
    /// The CPU has AVX2 and F16C.
    #[inline(always)]
    unsafe fn factors1(&self) -> (__m128, __m128) {
        let (d, m) = self.halves();
        // SAFETY: this function's contract.
        unsafe { (_mm_cvtph_ps(_mm_cvtsi32_si128(d.into())), _mm_cvtph_ps(_mm_cvtsi32_si128(m.into()))) }
    }

    /// The bits of scale and minimum as f16.
    fn halves(&self) -> (u16, u16);
}

/// Scales of four blocks, each of which has eight.
pub(crate) struct Scales4 {
    /// Of 16 bits, a quarter of the register for each block.
    pub(super) scales: __m512i,
    /// Likewise.
    pub(super) mins: __m512i,
    /// As [`Weight::factors`].
    pub(super) d: __m128,
    pub(super) dmin: __m128,
}

/// [`Vectored::scales4`] of Q4_K and Q5_K, whose blocks begin with a scale and a minimum of 16 bits, and twelve bytes with eight
/// scales and eight minima of six bits.
///
/// # Safety
/// The CPU has AVX-512 F and BW, and F16C; sixteen bytes can be read at each place.
#[inline(always)]
unsafe fn affine_scales4([a, b, c, d]: [*const u8; 4]) -> Scales4 {
    // SAFETY: this function's contract.
    unsafe {
        let heads = _mm512_castsi128_si512(_mm_loadu_si128(a.cast()));
        let heads = _mm512_inserti32x4(heads, _mm_loadu_si128(b.cast()), 1);
        let heads = _mm512_inserti32x4(heads, _mm_loadu_si128(c.cast()), 2);
        let heads = _mm512_inserti32x4(heads, _mm_loadu_si128(d.cast()), 3);
        // The first four have their low bits in one word and the last four their high ones; the last word has the rest.
        let words =
            _mm512_srlv_epi32(_mm512_shuffle_epi32::<0b10_10_01_01>(heads), _mm512_set4_epi32(2, 0, 2, 0));
        let last = _mm512_srlv_epi32(_mm512_shuffle_epi32::<0xff>(heads), _mm512_set4_epi32(4, 0, 0, 0));
        let words =
            _mm512_and_si512(words, _mm512_set4_epi32(0x3030_3030, 0x3f3f_3f3f, 0x3030_3030, 0x3f3f_3f3f));
        let last = _mm512_and_si512(last, _mm512_set4_epi32(0x0f0f_0f0f, 0, 0x0f0f_0f0f, 0));
        let (bytes, zero) = (_mm512_or_si512(words, last), _mm512_setzero_si512());
        let factors = _mm512_setr_epi64(0x0018_0010_0008_0000, 0x0019_0011_0009_0001, 0, 0, 0, 0, 0, 0);
        let factors = _mm512_castsi512_si128(_mm512_permutexvar_epi16(factors, heads));
        Scales4 {
            scales: _mm512_unpacklo_epi8(bytes, zero),
            mins: _mm512_unpackhi_epi8(bytes, zero),
            d: _mm_cvtph_ps(factors),
            dmin: _mm_cvtph_ps(_mm_unpackhi_epi64(factors, factors)),
        }
    }
}

#[inline(always)]
fn join(halves: [u16; 4]) -> i64 {
    let [a, b, c, d] =
        [u64::from(halves[0]), u64::from(halves[1]), u64::from(halves[2]), u64::from(halves[3])];
    (a | b << 16 | c << 32 | d << 48) as i64
}

/// The blocks of a row as chunks, `step` apart.
///
/// # Safety
/// The CPU has AVX2; `w` has `k` values in blocks of `W`, and there is room for their chunks.
#[inline(always)]
pub(super) unsafe fn unpack_row<W: Vectored>(w: *const u8, k: usize, out: *mut Chunk, step: usize) {
    // SAFETY: this function's contract; blocks have alignment 1.
    let blocks = unsafe { std::slice::from_raw_parts(w.cast::<W>(), k / W::LEN) };
    for (c, blocks) in blocks.chunks(CHUNK / W::LEN).enumerate() {
        // SAFETY: this function's contract; a chunk is aligned and holds 256 codes.
        unsafe {
            let chunk = &mut *out.add(c * step);
            let to = chunk.codes.as_mut_ptr().cast::<__m256i>();
            for (b, block) in blocks.iter().enumerate() {
                if matches!(W::KIND, Kind::Lanes) && !small::<W>() {
                    super::lanes::unpack_scaled(block, chunk);
                    continue;
                }
                if const { paired::<W>() } {
                    for i in (0..CHUNK / 32).step_by(2) {
                        let [first, second] = pair(block.codes(i), block.codes(i + 1));
                        _mm256_store_si256(to.add(i), first);
                        _mm256_store_si256(to.add(i + 1), second);
                    }
                    continue;
                }
                for i in 0..W::LEN / 32 {
                    _mm256_store_si256(to.add(b * (W::LEN / 32) + i), block.codes(i));
                }
            }
            unpack_scales(blocks, chunk);
        }
    }
}

/// The blocks of a row as chunks, `step` apart, unpacked by portable code.
///
/// # Safety
/// As [`unpack_row`].
#[inline(always)]
pub(super) unsafe fn plain_unpack_row<W: Weight>(w: *const u8, k: usize, out: *mut Chunk, step: usize) {
    // SAFETY: this function's contract; a chunk is aligned and holds 256 codes.
    unsafe {
        portable::unpack_row::<W>(w, k, out, step);
        if const { paired::<W>() } {
            for c in 0..k / CHUNK {
                let codes = (*out.add(c * step)).codes.as_mut_ptr().cast::<__m256i>();
                for i in (0..CHUNK / 32).step_by(2) {
                    let both = pair(_mm256_load_si256(codes.add(i)), _mm256_load_si256(codes.add(i + 1)));
                    _mm256_store_si256(codes.add(i), both[0]);
                    _mm256_store_si256(codes.add(i + 1), both[1]);
                }
            }
        }
    }
}

/// As [`unpack_row`], with signed codes in [`Chunk::tiles`], too.
///
/// # Safety
/// As [`unpack_row`].
#[inline(always)]
pub(super) unsafe fn unpack_signed_row<W: Vectored>(w: *const u8, k: usize, out: *mut Chunk, step: usize) {
    // SAFETY: this function's contract.
    unsafe {
        unpack_row::<W>(w, k, out, step);
        split_signs(k, out, step);
    }
}

/// As [`plain_unpack_row`], with signed codes in [`Chunk::tiles`], too.
///
/// # Safety
/// As [`unpack_row`].
#[inline(always)]
pub(super) unsafe fn plain_unpack_signed_row<W: Weight>(
    w: *const u8,
    k: usize,
    out: *mut Chunk,
    step: usize,
) {
    // SAFETY: this function's contract.
    unsafe {
        plain_unpack_row::<W>(w, k, out, step);
        split_signs(k, out, step);
    }
}

/// Writes codes of all eight bits without their offset, and their absolute values, to [`Chunk::tiles`].
///
/// # Safety
/// The CPU has AVX2; `out` are the chunks of a row of `k` values, `step` apart.
#[inline(always)]
unsafe fn split_signs(k: usize, out: *mut Chunk, step: usize) {
    for c in 0..k.div_ceil(CHUNK) {
        // SAFETY: this function's contract; a chunk has three times 256 aligned bytes.
        unsafe {
            let chunk = &mut *out.add(c * step);
            let [codes, sizes] = chunk.tiles.each_mut().map(|tile| tile.as_mut_ptr().cast::<__m256i>());
            for i in 0..CHUNK / 32 {
                let u = _mm256_load_si256(chunk.codes.as_ptr().cast::<__m256i>().add(i));
                let code = _mm256_xor_si256(u, _mm256_set1_epi8(-128));
                _mm256_store_si256(codes.add(i), code);
                _mm256_store_si256(sizes.add(i), _mm256_abs_epi8(code));
            }
        }
    }
}

/// 32 codes and the next 32 in the order of [`chunk::paired`](crate::kernels::matmul::weight::chunk::paired).
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn pair(first: __m256i, second: __m256i) -> [__m256i; 2] {
    // SAFETY: this function's contract.
    unsafe {
        [
            _mm256_blend_epi16(first, _mm256_slli_epi32(second, 16), 0xaa),
            _mm256_blend_epi16(_mm256_srli_epi32(first, 16), second, 0xaa),
        ]
    }
}

/// Sixteen bytes as 32 nibbles: the low ones, then the high ones.
///
/// # Safety
/// The CPU has AVX2; sixteen bytes can be read.
#[inline(always)]
unsafe fn nibbles(qs: *const u8) -> __m256i {
    // SAFETY: this function's contract.
    unsafe {
        let both = _mm_loadu_si128(qs.cast());
        _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(both, 4), both), _mm256_set1_epi8(15))
    }
}

/// Twice sixteen bytes as 64 nibbles: the low ones and the high ones of the first, then those of the second.
///
/// # Safety
/// The CPU has AVX-512 F and BW; sixteen bytes can be read at each place.
#[inline(always)]
unsafe fn nibbles512(a: *const u8, b: *const u8) -> __m512i {
    // SAFETY: this function's contract.
    unsafe {
        let both = _mm256_set_m128i(_mm_loadu_si128(b.cast()), _mm_loadu_si128(a.cast()));
        let twice =
            _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3), _mm512_castsi256_si512(both));
        let codes = _mm512_srlv_epi64(twice, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4));
        _mm512_and_si512(codes, _mm512_set1_epi8(15))
    }
}

/// The 16 bytes behind the scale of each of four blocks of 18 bytes, and the first 64 of their bytes, in which all scales are.
///
/// # Safety
/// The CPU has AVX-512 F and BW; the 72 bytes can be read.
#[inline(always)]
unsafe fn four_of_18(blocks: *const u8) -> (__m512i, __m512i) {
    /// Words of the codes. From 32 on they are those of the second register, which begins four words later.
    static CODES: [u16; 32] = {
        let mut words = [0; 32];
        let mut i = 0;
        while i < 32 {
            let word = 9 * (i / 8) + 1 + i % 8;
            words[i] = if word < 32 { word } else { 32 + word - 4 } as u16;
            i += 1;
        }
        words
    };
    // SAFETY: this function's contract.
    unsafe {
        let (head, tail) = (load512(blocks), load512(blocks.add(8)));
        (_mm512_permutex2var_epi16(head, load512(CODES.as_ptr().cast()), tail), head)
    }
}

/// The scales of four blocks of 18 bytes of four rows, of which these are the first 64 bytes.
///
/// # Safety
/// The CPU has AVX-512 F and BW.
#[inline(always)]
unsafe fn scales_of_four_18(heads: [__m512i; 4]) -> __m512 {
    /// Where the scales of two rows are: each second pair of words is those of the four blocks.
    static SCALES: [u16; 32] = {
        let mut words = [0; 32];
        let mut i = 0;
        while i < 16 {
            words[i] = (9 * (i / 4) + 32 * (i % 2)) as u16;
            i += 1;
        }
        words
    };
    // SAFETY: this function's contract.
    unsafe {
        let places = load512(SCALES.as_ptr().cast());
        let first = _mm512_permutex2var_epi16(heads[0], places, heads[1]);
        let second = _mm512_permutex2var_epi16(heads[2], places, heads[3]);
        let halves = _mm512_mask_blend_epi16(0xcccc, first, second);
        _mm512_cvtph_ps(_mm512_castsi512_si256(halves))
    }
}

/// Codes with 16 in each byte whose bit is set in `a` and `b`, 32 bits each.
///
/// # Safety
/// The CPU has AVX-512 F and BW.
#[inline(always)]
unsafe fn with_fifth_bits(low: __m512i, a: [u8; 4], b: [u8; 4]) -> __m512i {
    let set = u64::from(u32::from_le_bytes(a)) | u64::from(u32::from_le_bytes(b)) << 32;
    // SAFETY: this function's contract.
    unsafe { _mm512_mask_add_epi8(low, set, low, _mm512_set1_epi8(16)) }
}

/// Thirty-two bytes.
///
/// # Safety
/// The CPU has AVX2; they can be read.
#[inline(always)]
unsafe fn load(qs: *const u8) -> __m256i {
    // SAFETY: this function's contract.
    unsafe { _mm256_loadu_si256(qs.cast()) }
}

/// Bits `at..` of each byte, as many as `mask` has.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn bits(v: __m256i, at: usize, mask: i8) -> __m256i {
    // SAFETY: this function's contract.
    unsafe { _mm256_and_si256(_mm256_srl_epi16(v, _mm_cvtsi32_si128(at as i32)), _mm256_set1_epi8(mask)) }
}

/// Sixty-four bytes.
///
/// # Safety
/// The CPU has AVX-512 F; they can be read.
#[inline(always)]
unsafe fn load512(qs: *const u8) -> __m512i {
    // SAFETY: this function's contract.
    unsafe { _mm512_loadu_si512(qs.cast()) }
}

/// Bits `at..` of each byte, as many as `mask` has.
///
/// # Safety
/// The CPU has AVX-512 F and BW.
#[inline(always)]
unsafe fn bits512(v: __m512i, at: usize, mask: i8) -> __m512i {
    // SAFETY: this function's contract.
    unsafe { _mm512_and_si512(_mm512_srl_epi16(v, _mm_cvtsi32_si128(at as i32)), _mm512_set1_epi8(mask)) }
}

/// Adds `weight` to each byte whose bit is set in 32 bytes of `planes`: one bit for each half of the register.
///
/// # Safety
/// The CPU has AVX-512 F, BW and DQ; the bytes can be read.
#[inline(always)]
unsafe fn with_bit(low: __m512i, planes: *const u8, bits: (usize, usize), weight: i8) -> __m512i {
    // SAFETY: this function's contract.
    unsafe {
        let planes = _mm512_broadcast_i64x4(load(planes));
        let [first, second] =
            [_mm256_set1_epi8((1u8 << bits.0) as i8), _mm256_set1_epi8((1u8 << bits.1) as i8)];
        let select = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
        let set = _mm512_test_epi8_mask(planes, select);
        _mm512_mask_add_epi8(low, set, low, _mm512_set1_epi8(weight))
    }
}

/// 16 in each byte whose bit in `qh` is set.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn fifth_bits(qh: [u8; 4]) -> __m256i {
    const ONES: i64 = 0x0101_0101_0101_0101;
    // SAFETY: this function's contract.
    unsafe {
        let spread = _mm256_setr_epi64x(0, ONES, 2 * ONES, 3 * ONES);
        let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(i32::from_le_bytes(qh)), spread);
        let select = _mm256_set1_epi64x(0x8040_2010_0804_0201u64 as i64);
        let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, select), select);
        _mm256_and_si256(set, _mm256_set1_epi8(16))
    }
}

/// The entries of a table of sixteen bytes.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn lookup(table: &[u8; 16], codes: __m256i) -> __m256i {
    // SAFETY: this function's contract.
    unsafe { _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())), codes) }
}

const fn raised(codes: [i8; 16]) -> [u8; 16] {
    let mut out = [0; 16];
    let mut i = 0;
    while i < 16 {
        out[i] = (codes[i] as u8).wrapping_add(128);
        i += 1;
    }
    out
}

static IQ4: [u8; 16] = raised(KVALUES_IQ4NL);
static E2M1: [u8; 16] = raised([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]);

macro_rules! vectored {
    ($($block:ty: halves $halves:expr, |$b:ident, $i:ident| $codes:expr
       $(, two |$first:ident, $second:ident| $two:expr)?
       $(, fours of 18 bytes |$low:ident, $high:ident| $fours:expr)?
       $(, pairs $pairs:expr, |$pb:ident, $pi:ident| $pair:expr)? $(, scales by $scales4:path)?;)*) => {$(
        impl Vectored for $block {
            #[inline(always)]
            unsafe fn codes(&self, $i: usize) -> __m256i {
                let $b = self;
                // SAFETY: the contract of the trait; fields have the bytes that are read.
                unsafe { $codes }
            }

            $(
                #[inline(always)]
                unsafe fn two($first: &Self, $second: &Self) -> __m512i {
                    // SAFETY: the contract of the trait; fields have the bytes that are read.
                    unsafe { $two }
                }
            )?

            $(
                const FOURS: bool = true;

                #[inline(always)]
                unsafe fn four(blocks: *const Self) -> ([__m512i; 2], __m512i) {
                    const { assert!(size_of::<Self>() == 18) };
                    // SAFETY: the contract of the trait.
                    unsafe {
                        let (codes, head) = four_of_18(blocks.cast());
                        let nibbles = _mm512_set1_epi8(15);
                        let $low = _mm512_and_si512(codes, nibbles);
                        let $high = _mm512_and_si512(_mm512_srli_epi16(codes, 4), nibbles);
                        ($fours, head)
                    }
                }

                #[inline(always)]
                unsafe fn scales_of_fours(heads: [__m512i; 4]) -> __m512 {
                    // SAFETY: the contract of the trait.
                    unsafe { scales_of_four_18(heads) }
                }
            )?

            $(
                const PAIRS: [(usize, usize); 4] = $pairs;

                #[inline(always)]
                unsafe fn pair(&self, $pi: usize) -> __m512i {
                    let $pb = self;
                    // SAFETY: the contract of the trait; fields have the bytes that are read.
                    unsafe { $pair }
                }
            )?

            $(
                #[inline(always)]
                unsafe fn scales4([a, b, c, d]: [&Self; 4]) -> Scales4 {
                    // SAFETY: the contract of the trait; blocks are larger than what is read of them.
                    unsafe {
                        $scales4([
                            std::ptr::from_ref(a).cast(),
                            std::ptr::from_ref(b).cast(),
                            std::ptr::from_ref(c).cast(),
                            std::ptr::from_ref(d).cast(),
                        ])
                    }
                }
            )?

            #[inline(always)]
            fn halves(&self) -> (u16, u16) {
                let halves: fn(&Self) -> (u16, u16) = $halves;
                halves(self)
            }
        }
    )*};
}

vectored! {
    BlockQ4_0: halves |b| (b.d.to_bits(), 0), |b, _i| nibbles(b.qs.as_ptr()), two |a, b| {
        nibbles512(a.qs.as_ptr(), b.qs.as_ptr())
    }, fours of 18 bytes |low, high| [low, high];
    BlockQ4_1: halves |b| (b.d.to_bits(), b.m.to_bits()), |b, _i| nibbles(b.qs.as_ptr()), two |a, b| {
        nibbles512(a.qs.as_ptr(), b.qs.as_ptr())
    };
    BlockQ5_0: halves |b| (b.d.to_bits(), 0), |b, _i| _mm256_or_si256(nibbles(b.qs.as_ptr()), fifth_bits(b.qh)), two |a, b| {
        with_fifth_bits(nibbles512(a.qs.as_ptr(), b.qs.as_ptr()), a.qh, b.qh)
    };
    BlockQ5_1: halves |b| (b.d.to_bits(), b.m.to_bits()), |b, _i| {
        _mm256_or_si256(nibbles(b.qs.as_ptr()), fifth_bits(b.qh))
    }, two |a, b| with_fifth_bits(nibbles512(a.qs.as_ptr(), b.qs.as_ptr()), a.qh, b.qh);
    BlockQ8_0: halves |b| (b.d.to_bits(), 0), |b, _i| {
        _mm256_xor_si256(load(b.qs.as_ptr().cast()), _mm256_set1_epi8(-128))
    };
    BlockQ8_1: halves |b| (b.d.to_bits(), 0), |b, _i| {
        _mm256_xor_si256(load(b.qs.as_ptr().cast()), _mm256_set1_epi8(-128))
    };
    BlockIq4Nl: halves |b| (b.d.to_bits(), 0), |b, _i| lookup(&IQ4, nibbles(b.qs.as_ptr())), fours of 18 bytes |low, high| {
        let table = _mm512_broadcast_i32x4(_mm_loadu_si128(IQ4.as_ptr().cast()));
        [_mm512_shuffle_epi8(table, low), _mm512_shuffle_epi8(table, high)]
    };
    BlockIq4Xs: halves |b| (b.d.to_bits(), 0), |b, i| lookup(&IQ4, nibbles(b.qs.as_ptr().add(16 * i))), pairs [(0, 1), (2, 3), (4, 5), (6, 7)], |b, i| {
        // Each sixteen bytes twice, for their low and their high nibbles.
        let codes = _mm512_castsi256_si512(load(b.qs.as_ptr().add(32 * i)));
        let twice = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3), codes);
        let codes = _mm512_srlv_epi64(twice, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4));
        let table = _mm512_broadcast_i32x4(_mm_loadu_si128(IQ4.as_ptr().cast()));
        _mm512_shuffle_epi8(table, _mm512_and_si512(codes, _mm512_set1_epi8(15)))
    };
    BlockQ2K: halves |b| (b.d.to_bits(), b.dmin.to_bits()), |b, i| {
        bits(load(b.qs.as_ptr().add(32 * (i / 4))), 2 * (i % 4), 3)
    }, pairs [(0, 4), (1, 5), (2, 6), (3, 7)], |b, i| bits512(load512(b.qs.as_ptr()), 2 * i, 3);
    BlockQ3K: halves |b| (b.d.to_bits(), 0), |b, i| {
        let low = bits(load(b.qs.as_ptr().add(32 * (i / 4))), 2 * (i % 4), 3);
        let high = bits(load(b.hmask.as_ptr()), i, 1);
        _mm256_or_si256(low, _mm256_slli_epi16(high, 2))
    }, pairs [(0, 4), (1, 5), (2, 6), (3, 7)], |b, i| {
        let low = bits512(load512(b.qs.as_ptr()), 2 * i, 3);
        with_bit(low, b.hmask.as_ptr(), (i, 4 + i), 4)
    };
    BlockQ4K: halves |b| (b.d.to_bits(), b.dmin.to_bits()), |b, i| {
        bits(load(b.qs.as_ptr().add(32 * (i / 2))), 4 * (i % 2), 15)
    }, pairs [(0, 2), (1, 3), (4, 6), (5, 7)], |b, i| {
        bits512(load512(b.qs.as_ptr().add(64 * (i / 2))), 4 * (i % 2), 15)
    }, scales by affine_scales4;
    BlockQ5K: halves |b| (b.d.to_bits(), b.dmin.to_bits()), |b, i| {
        let low = bits(load(b.qs.as_ptr().add(32 * (i / 2))), 4 * (i % 2), 15);
        let high = bits(load(b.qh.as_ptr()), i, 1);
        _mm256_or_si256(low, _mm256_slli_epi16(high, 4))
    }, pairs [(0, 2), (1, 3), (4, 6), (5, 7)], |b, i| {
        let low = bits512(load512(b.qs.as_ptr().add(64 * (i / 2))), 4 * (i % 2), 15);
        with_bit(low, b.qh.as_ptr(), Self::PAIRS[i], 16)
    }, scales by affine_scales4;
    BlockQ6K: halves |b| (b.d.to_bits(), 0), |b, i| {
        let low = bits(load(b.ql.as_ptr().add(64 * (i / 4) + 32 * (i % 2))), 4 * (i % 4 / 2), 15);
        let high = bits(load(b.qh.as_ptr().add(32 * (i / 4))), 2 * (i % 4), 3);
        _mm256_or_si256(low, _mm256_slli_epi16(high, 4))
    }, pairs [(0, 1), (2, 3), (4, 5), (6, 7)], |b, i| {
        let low = bits512(load512(b.ql.as_ptr().add(64 * (i / 2))), 4 * (i % 2), 15);
        let high = _mm512_broadcast_i64x4(load(b.qh.as_ptr().add(32 * (i / 2))));
        // Bits 4i and 4i + 2, by half, moved to bit 4.
        let at = 4 * (i % 2) as i64;
        let high = if i.is_multiple_of(2) {
            _mm512_sllv_epi64(high, _mm512_setr_epi64(4, 4, 4, 4, 2, 2, 2, 2))
        } else {
            _mm512_srlv_epi64(high, _mm512_setr_epi64(at - 4, at - 4, at - 4, at - 4, at - 2, at - 2, at - 2, at - 2))
        };
        _mm512_or_si512(low, _mm512_and_si512(high, _mm512_set1_epi8(0x30)))
    };
}

impl Vectored for BlockMxfp4 {
    #[inline(always)]
    unsafe fn codes(&self, _i: usize) -> __m256i {
        // SAFETY: the contract of the trait; the field has sixteen bytes.
        unsafe { lookup(&E2M1, nibbles(self.qs.as_ptr())) }
    }

    #[inline(always)]
    unsafe fn factors4(blocks: [&Self; 4]) -> (__m128, __m128) {
        let [a, b, c, d] =
            [blocks[0].factors().0, blocks[1].factors().0, blocks[2].factors().0, blocks[3].factors().0];
        // SAFETY: the contract of the trait.
        unsafe { (_mm_setr_ps(a, b, c, d), _mm_setzero_ps()) }
    }

    fn halves(&self) -> (u16, u16) {
        (0, 0)
    }
}
