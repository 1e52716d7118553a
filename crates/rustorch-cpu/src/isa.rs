//! Detection of the CPU's vector instruction set.

use std::sync::OnceLock;

/// An instruction set that kernels are written for.
///
/// Those of one architecture stand from the least to the most able, and each implies all of them below it, with one exception: CPUs with
/// AVX-512 may lack [`AvxVnni`](Isa::AvxVnni).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Whatever the compiler assumes for the target (SSE2 on x86-64).
    Portable,
    /// x86-64: AVX2, FMA and F16C, which is x86-64-v3.
    Avx2,
    /// x86-64: that with AVX-VNNI, dot products of 8 and 16 bits in 256-bit registers: Intel desktops since 2021, AMD since Zen 5.
    AvxVnni,
    /// x86-64: AVX-512 F, BW, DQ, VL with VNNI: servers since 2019, AMD since Zen 4. AMX, of Intel's servers since 2023, is used beside it.
    Avx512,
    /// 64-bit Arm: NEON, which every such CPU has.
    Neon,
    /// 64-bit Arm: NEON with `sdot` (Armv8.2 dotprod): Apple M1, Neoverse N1, Raspberry Pi 5.
    NeonDotprod,
    /// 64-bit Arm: that with `smmla`, too (Armv8.6 i8mm): Apple M2, Neoverse V1 and N2.
    NeonI8mm,
}

/// The instruction sets of this architecture, ascending, by their names in `RUSTORCH_ISA`.
const LEVELS: &[(&str, Isa)] = if cfg!(target_arch = "x86_64") {
    &[("portable", Isa::Portable), ("avx2", Isa::Avx2), ("avxvnni", Isa::AvxVnni), ("avx512", Isa::Avx512)]
} else if cfg!(target_arch = "aarch64") {
    &[
        ("portable", Isa::Portable),
        ("neon", Isa::Neon),
        ("dotprod", Isa::NeonDotprod),
        ("i8mm", Isa::NeonI8mm),
    ]
} else {
    &[("portable", Isa::Portable)]
};

/// The variable that lowers it.
const VARIABLE: &str = "RUSTORCH_ISA";

impl Isa {
    /// Whether it is the best of all, and nothing lowers it: what has no name there may be used.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn is_unlimited() -> bool {
        Isa::detect() == Isa::Avx512 && std::env::var_os(VARIABLE).is_none()
    }

    /// The best of this CPU, found once. `RUSTORCH_ISA=portable|avx2|avxvnni|avx512|neon|dotprod` lowers it, for testing: to the best one that
    /// the CPU has up to the named one; `avx512` leaves out AMX. Names of other architectures are ignored.
    pub fn detect() -> Isa {
        static ISA: OnceLock<Isa> = OnceLock::new();
        *ISA.get_or_init(|| {
            let wanted = std::env::var(VARIABLE).unwrap_or_default();
            let named = LEVELS.iter().position(|(name, _)| *name == wanted);
            let up_to = &LEVELS[..named.map_or(LEVELS.len(), |at| at + 1)];
            up_to.iter().rev().map(|&(_, isa)| isa).find(|&isa| has(isa)).unwrap_or(Isa::Portable)
        })
    }
}

/// Whether this CPU has an instruction set.
#[cfg(target_arch = "x86_64")]
fn has(isa: Isa) -> bool {
    use std::arch::is_x86_feature_detected as has;
    let avx2 = has!("avx2") && has!("fma") && has!("f16c") && has!("bmi2");
    match isa {
        Isa::Portable => true,
        Isa::Avx2 => avx2,
        Isa::AvxVnni => avx2 && has!("avxvnni"),
        Isa::Avx512 => {
            avx2 && has!("avx512f")
                && has!("avx512bw")
                && has!("avx512dq")
                && has!("avx512vl")
                && has!("avx512vnni")
        }
        Isa::Neon | Isa::NeonDotprod | Isa::NeonI8mm => false,
    }
}

/// Whether this CPU has an instruction set.
#[cfg(target_arch = "aarch64")]
fn has(isa: Isa) -> bool {
    use std::arch::is_aarch64_feature_detected as has;
    match isa {
        Isa::Portable => true,
        Isa::Neon => has!("neon"),
        Isa::NeonDotprod => has!("neon") && has!("dotprod"),
        Isa::NeonI8mm => has!("neon") && has!("dotprod") && has!("i8mm"),
        Isa::Avx2 | Isa::AvxVnni | Isa::Avx512 => false,
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has(isa: Isa) -> bool {
    isa == Isa::Portable
}
