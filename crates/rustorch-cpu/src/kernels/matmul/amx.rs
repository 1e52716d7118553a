//! AMX: registers for whole tiles of a matrix, and the unit that multiplies them (Intel's servers since 2023).
//!
//! Intel: *Architecture Instruction Set Extensions Programming Reference*, chapter on AMX. Its intrinsics are not stable in Rust, so that loops are
//! assembler. The registers are divided alike everywhere: `tmm0` to `tmm3` are sixteen rows of sixteen sums, `tmm4` and `tmm5` rows of a left
//! operand, `tmm6` and `tmm7` a right one, of which a row has four bytes of each of sixteen columns.

use crate::Isa;
use std::arch::asm;
use std::sync::OnceLock;

/// Whether the CPU has the instructions, and the system lets programs use them.
pub(super) fn exists() -> bool {
    static EXISTS: OnceLock<bool> = OnceLock::new();
    *EXISTS.get_or_init(|| Isa::is_unlimited() && has_amx() && is_permitted())
}

/// The features `amx-bf16`, `amx-tile` and `amx-int8`.
#[allow(unused_unsafe, reason = "newer versions of Rust call the function safe")]
fn has_amx() -> bool {
    const ALL: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    // SAFETY: every CPU of this architecture has the instruction, and those with AVX-512 have this leaf.
    !cfg!(miri) && unsafe { std::arch::x86_64::__cpuid_count(7, 0) }.edx & ALL == ALL
}

/// Asks Linux for tiles, which it keeps for a process's threads from then on.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
    const TILE_DATA: libc::c_ulong = 18;
    // SAFETY: the call takes two numbers, and allows this process to use registers.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0 }
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// How registers are divided: palette 1, in which each has up to sixteen rows of up to 64 bytes.
#[repr(C, align(64))]
pub(super) struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Config {
    /// Left operands of `depth` bytes in a row, at most 64.
    pub(super) const fn new(depth: u8) -> Config {
        let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
        let mut register = 0;
        while register < 8 {
            row_bytes[register] = if register == 4 || register == 5 { depth as u16 } else { 64 };
            rows[register] = if register < 6 { 16 } else { depth / 4 };
            register += 1;
        }
        Config { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows }
    }

    /// Divides the registers of this thread.
    ///
    /// # Safety
    /// AMX [`exists`]; [`leave`] follows.
    #[inline(always)]
    pub(super) unsafe fn enter(&'static self) {
        // SAFETY: this function's contract; the compiler uses none of the registers.
        unsafe { asm!("ldtilecfg [{}]", in(reg) self, options(nostack)) };
    }
}

/// Gives the registers back, so that the system need not save them.
///
/// # Safety
/// AMX [`exists`].
#[inline(always)]
pub(super) unsafe fn leave() {
    // SAFETY: this function's contract.
    unsafe { asm!("tilerelease", options(nostack)) };
}
