//! Detection of the CPU's vector instruction set.

use std::sync::OnceLock;

/// An instruction set that kernels are written for, from the least to the most able.
///
/// On x86-64, a level implies all below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Whatever the compiler assumes for the target (SSE2 on x86-64, 128-bit vectors on 64-bit Arm).
    Portable,
    /// AVX2, FMA and F16C: x86-64-v3.
    Avx2,
    /// AVX-512 F, BW, DQ, VL with VNNI: servers since 2019, AMD since Zen 4.
    Avx512,
}

impl Isa {
    /// The best of this CPU, found once. `RUSTORCH_ISA=portable|avx2` lowers it, for testing.
    pub fn detect() -> Isa {
        static ISA: OnceLock<Isa> = OnceLock::new();
        *ISA.get_or_init(|| {
            let best = probe();
            match std::env::var("RUSTORCH_ISA").as_deref() {
                Ok("portable") => Isa::Portable,
                Ok("avx2") => best.min(Isa::Avx2),
                _ => best,
            }
        })
    }
}

#[cfg(target_arch = "x86_64")]
fn probe() -> Isa {
    use std::arch::is_x86_feature_detected as has;
    let avx2 = has!("avx2") && has!("fma") && has!("f16c") && has!("bmi2");
    let avx512 =
        has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") && has!("avx512vnni");
    match (avx2, avx512) {
        (true, true) => Isa::Avx512,
        (true, false) => Isa::Avx2,
        _ => Isa::Portable,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn probe() -> Isa {
    Isa::Portable
}
