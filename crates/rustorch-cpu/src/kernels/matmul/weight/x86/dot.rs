//! Products of pairs of 16-bit integers.

use std::arch::asm;
use std::arch::x86_64::__m512i;

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
