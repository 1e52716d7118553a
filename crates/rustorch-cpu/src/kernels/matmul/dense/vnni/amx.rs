//! Groups that AMX multiplies ([`amx`]).

use super::x86::is_large;
use super::{Bf16Pairs, COLUMNS, Group, I8Quads, Tile};
use crate::kernels::matmul::amx::{self, Config};
use crate::kernels::matmul::gemm_args::GemmArgs;
use std::arch::asm;
use std::marker::PhantomData;

/// The group `G` by AMX. Pairs of `bf16` are added to the `f32` sum by one instruction that takes subnormal numbers for zeros, as by AVX-512.
pub(in super::super) struct Amx<G>(PhantomData<G>);

impl<G: Matrix> Amx<G> {
    /// Whether the CPU has the instructions, and the system lets programs use them.
    pub(in super::super) fn exists() -> bool {
        amx::exists()
    }

    /// Whether it has, and a matmul is large enough for them.
    pub(in super::super) fn fit(gemm: &GemmArgs) -> bool {
        is_large::<G>(gemm) && Self::exists()
    }
}

/// All registers are full.
static CONFIG: Config = Config::new(64);

/// Words of a row of a register.
const WORDS: usize = 16;

/// Rows of a tile: two registers.
const ROWS: usize = 32;

/// A group that AMX has an instruction for.
pub(in super::super) trait Matrix: Group {
    /// The tile of [`ROWS`] rows. Sums begin with zero, as [`Group::begin`] says by default.
    const TILE: Tile<Amx<Self>>;
    /// That whose sums begin with those that are where it writes them.
    const ACCUMULATING: Tile<Amx<Self>>;
}

/// A tile, of the instruction that multiplies and those that make the first sums.
macro_rules! tile {
    ($instruction:literal, $($begin:literal),*) => {
        |words, x, w, _, to| {
            let second = x.first.wrapping_add(x.row * WORDS);
            // SAFETY: the contract of `Tile`: the words, a multiple of sixteen that is not zero, are there, and room for the sums, which are
            // in tmm0 to tmm3. The caller has configured the registers; the compiler uses none of them.
            unsafe {
                asm!(
                    $($begin,)*
                    "2:",
                    "tileloadd tmm4, [{x} + {row}*1]",
                    "tileloadd tmm6, [{w} + {line}*1]",
                    concat!($instruction, " tmm0, tmm4, tmm6"),
                    "tileloadd tmm7, [{w} + {line}*1 + 64]",
                    concat!($instruction, " tmm1, tmm4, tmm7"),
                    "tileloadd tmm5, [{second} + {row}*1]",
                    concat!($instruction, " tmm2, tmm5, tmm6"),
                    concat!($instruction, " tmm3, tmm5, tmm7"),
                    "add {x}, {step}",
                    "add {second}, {step}",
                    "add {w}, 2048",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{to} + {pitch}*1], tmm0",
                    "tilestored [{to} + {pitch}*1 + 64], tmm1",
                    "tilestored [{lower} + {pitch}*1], tmm2",
                    "tilestored [{lower} + {pitch}*1 + 64], tmm3",
                    x = inout(reg) x.first => _,
                    second = inout(reg) second => _,
                    w = inout(reg) w => _,
                    row = in(reg) 4 * x.row,
                    step = in(reg) 4 * x.step,
                    line = in(reg) 4 * COLUMNS,
                    steps = inout(reg) words / WORDS => _,
                    to = in(reg) to.first,
                    lower = in(reg) to.first.wrapping_add(to.pitch * WORDS),
                    pitch = in(reg) 4 * to.pitch,
                    options(nostack),
                );
            }
        }
    };
}

macro_rules! matrix {
    ($instruction:literal: $group:ty $(, $($of:ident: $bound:path),*)?) => {
        impl $(<$($of: $bound),*>)? Matrix for $group {
            const TILE: Tile<Amx<Self>> =
                tile!($instruction, "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3");
            const ACCUMULATING: Tile<Amx<Self>> = tile!(
                $instruction,
                "tileloadd tmm0, [{to} + {pitch}*1]",
                "tileloadd tmm1, [{to} + {pitch}*1 + 64]",
                "tileloadd tmm2, [{lower} + {pitch}*1]",
                "tileloadd tmm3, [{lower} + {pitch}*1 + 64]"
            );
        }
    };
}

matrix!("tdpbf16ps": Bf16Pairs);
// The bytes of either sign, of which only the low bits of sums are kept where they are unsigned.
matrix!("tdpbssd": I8Quads<X, T>, X: super::x86::LowBits, T: super::x86::LowBits);

impl<G: Matrix> Group for Amx<G> {
    type X = G::X;
    type Out = G::Out;
    type Sum = G::Sum;
    const LEN: usize = G::LEN;
    const IS_PLAIN: bool = G::IS_PLAIN;
    const TILES: &'static [(usize, Tile<Self>)] = &[(ROWS, G::TILE)];
    const ACCUMULATE: Option<Tile<Self>> = Some(G::ACCUMULATING);
    const DEPTH: usize = WORDS;

    #[inline(always)]
    fn word(values: &[G::X]) -> u32 {
        G::word(values)
    }

    #[inline(always)]
    unsafe fn join(first: *const G::X, step: usize, to: *mut u32) -> bool {
        // SAFETY: this function's contract; who has AMX has the instructions of the group.
        unsafe { G::join(first, step, to) }
    }

    #[inline(always)]
    unsafe fn enter() {
        // SAFETY: who has the group's instructions has AMX.
        unsafe { CONFIG.enter() };
    }

    #[inline(always)]
    unsafe fn leave() {
        // SAFETY: as above.
        unsafe { amx::leave() };
    }

    #[inline(always)]
    fn out(sum: G::Sum, bias: Option<G::Out>) -> G::Out {
        G::out(sum, bias)
    }
}
