//! Dot products of integers, which are added to sums of 32 bits.

use std::arch::asm;
use std::arch::x86_64::*;

/// The dot products of an instruction set in 256-bit registers.
pub(super) trait Dots {
    /// Whether [`quads`](Self::quads) is one instruction, exact for all bytes.
    const VNNI: bool;

    /// `acc` plus the sums of four products of unsigned and signed bytes each. Without VNNI, sums of two products have to fit into 16 bits.
    ///
    /// # Safety
    /// The CPU has AVX2 and what the type names.
    unsafe fn quads(acc: __m256i, unsigned: __m256i, signed: __m256i) -> __m256i;

    /// `acc` plus the sums of two products of 16-bit integers each.
    ///
    /// # Safety
    /// The CPU has AVX2 and what the type names.
    unsafe fn pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i;
}

/// AVX2.
pub(super) struct Avx2;

impl Dots for Avx2 {
    const VNNI: bool = false;

    #[inline(always)]
    unsafe fn quads(acc: __m256i, unsigned: __m256i, signed: __m256i) -> __m256i {
        // SAFETY: this function's contract.
        unsafe { Self::pairs(acc, _mm256_maddubs_epi16(unsigned, signed), _mm256_set1_epi16(1)) }
    }

    #[inline(always)]
    unsafe fn pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: this function's contract.
        unsafe { _mm256_add_epi32(acc, _mm256_madd_epi16(a, b)) }
    }
}

/// AVX-VNNI.
pub(super) struct AvxVnni;

impl Dots for AvxVnni {
    const VNNI: bool = true;

    #[inline(always)]
    unsafe fn quads(acc: __m256i, unsigned: __m256i, signed: __m256i) -> __m256i {
        // SAFETY: this function's contract.
        unsafe { _mm256_dpbusd_avx_epi32(acc, unsigned, signed) }
    }

    #[inline(always)]
    unsafe fn pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: this function's contract.
        unsafe { _mm256_dpwssd_avx_epi32(acc, a, b) }
    }
}

/// AVX-512 VL and VNNI.
pub(super) struct Avx512;

impl Dots for Avx512 {
    const VNNI: bool = true;

    #[inline(always)]
    unsafe fn quads(acc: __m256i, unsigned: __m256i, signed: __m256i) -> __m256i {
        // SAFETY: this function's contract.
        unsafe { _mm256_dpbusd_epi32(acc, unsigned, signed) }
    }

    #[inline(always)]
    unsafe fn pairs(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: this function's contract.
        unsafe { _mm256_dpwssd_epi32(acc, a, b) }
    }
}

/// `acc` plus the sums of the products of pairs: `_mm512_dpwssd_epi32`, which LLVM would take apart into a product and an addition
/// where it believes that its result is waited for. Kernels whose rate is that of these instructions lose a third by that.
///
/// # Safety
/// The CPU has AVX-512 F and VNNI.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) unsafe fn dpwssd(acc: __m512i, a: __m512i, b: __m512i) -> __m512i {
    let mut sum = acc;
    // SAFETY: the instruction, which this function's contract says the CPU has, changes nothing but the register that is named.
    unsafe {
        asm!(
            "vpdpwssd {sum}, {a}, {b}",
            sum = inout(zmm_reg) sum,
            a = in(zmm_reg) a,
            b = in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}
