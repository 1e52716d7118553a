//! Each instruction set gives the same results. A process has one, so this program starts itself with the others.

use crate::matmul::weight::{ROUNDING, activations, random_blocks, sizes, weight};
use crate::matmul::{Random, Tensor, matmul, matmul_with, run};
use rustorch_core::{Attention, C64, IntMm, Op, QuantType, bf16};
use rustorch_cpu::Isa;
use std::path::Path;
use std::process::Command;

/// The file that a started process writes its results to.
const RESULTS: &str = "RUSTORCH_CPU_TEST_RESULTS";

/// Matmuls with weights of every block type, whose bits are ggml's; then the bits of dense ones that round alike on all
/// instruction sets with fused multiply-adds (integers on all).
fn results() -> (Vec<u8>, Vec<f32>) {
    let mut random = Random::new(3);
    let mut exact = Vec::new();
    for &quant in QuantType::ALL {
        for k in sizes(quant) {
            let n = 21;
            let w = weight(quant, &[n, k], &random_blocks(quant, n * k, &mut random)).transposed();
            for m in [1, 35] {
                let x = Tensor::of(&[m, k], &activations(m * k, &mut random));
                for numerics in ROUNDING {
                    let out = run(1, &matmul_with(numerics), &[&x, &w]).values::<f32>();
                    exact.extend_from_slice(bytemuck::cast_slice(&out));
                }
            }
        }
    }
    let (m, n, k) = (23, 41, 600);
    let (a, b) = (random.floats(m * k), random.floats(n * k));
    let complex = |v: &[f32]| v.iter().map(|&v| C64::new(v, 0.5 - v)).collect::<Vec<_>>();
    let whole = |v: &[f32]| v.iter().map(|&v| (f64::from(v) * 1e18) as i64).collect::<Vec<_>>();
    let integers = [Tensor::of(&[m, k], &whole(&a)), Tensor::of(&[n, k], &whole(&b)).transposed()];
    let integers = run(1, &matmul(), &[&integers[0], &integers[1]]);
    exact.extend_from_slice(bytemuck::cast_slice(&integers.values::<i64>()));
    let bytes = |v: &[f32]| v.iter().map(|&v| (v * 128.0) as i8).collect::<Vec<_>>();
    let bytes = [Tensor::of(&[m, k], &bytes(&a)), Tensor::of(&[n, k], &bytes(&b)).transposed()];
    let sums = run(1, &Op::IntMm(IntMm), &[&bytes[0], &bytes[1]]);
    exact.extend_from_slice(bytemuck::cast_slice(&sums.values::<i32>()));
    // Small integers, whose sums are exact by instructions for pairs and tiles, too.
    let (m, k) = (35, 501);
    let small = |n: usize| (0..n).map(|i| bf16::from_f32((i * 7 % 9) as f32 - 4.0)).collect::<Vec<_>>();
    let halves = [Tensor::of(&[m, k], &small(m * k)), Tensor::of(&[n, k], &small(n * k)).transposed()];
    let halves = run(1, &matmul(), &[&halves[0], &halves[1]]).values::<bf16>();
    exact.extend(halves.iter().flat_map(|x| x.to_bits().to_ne_bytes()));
    let (m, k) = (23, 600);
    let real = [Tensor::of(&[m, k], &a), Tensor::of(&[n, k], &b).transposed()];
    let mut rounded = run(1, &matmul(), &[&real[0], &real[1]]).values::<f32>();
    let complex = [Tensor::of(&[m, k], &complex(&a)), Tensor::of(&[n, k], &complex(&b)).transposed()];
    let complex = run(1, &matmul(), &[&complex[0], &complex[1]]);
    rounded.extend(complex.values::<C64>().iter().flat_map(|z| [z.re, z.im]));
    let [heads, m, n, d] = [3, 50, 200, 24];
    let [q, k, v] = [m, n, n].map(|rows| Tensor::of(&[heads, rows, d], &random.floats(heads * rows * d)));
    let attention = Attention { causal: Some(120), ..Attention::new(0.3) };
    rounded.extend(run(1, &Op::Attention(attention), &[&q, &k, &v]).values::<f32>());
    crate::attention::check_16_bits();
    (exact, rounded)
}

/// This program, in the emulator that Cargo runs it in, if there is one.
fn this_program() -> Command {
    let program = std::env::current_exe().unwrap();
    let emulator = std::env::var("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER").unwrap_or_default();
    let mut words = emulator.split_whitespace();
    match words.next() {
        Some(emulator) if cfg!(target_arch = "aarch64") => {
            let mut command = Command::new(emulator);
            command.args(words).arg(program);
            command
        }
        _ => Command::new(program),
    }
}

/// The results of a process that uses at most this instruction set.
fn results_of(isa: &str) -> (Vec<u8>, Vec<f32>) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("instruction-sets-{isa}"));
    let status = this_program()
        .args(["--exact", "instruction_sets::instruction_sets_agree"])
        .env("RUSTORCH_ISA", isa)
        .env(RESULTS, &file)
        .output()
        .unwrap()
        .status;
    assert!(status.success(), "{isa}: {status}");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let (length, rest) = bytes.split_at(8);
    let (exact, rounded) = rest.split_at(u64::from_le_bytes(length.try_into().unwrap()) as usize);
    let rounded = rounded.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect();
    (exact.to_vec(), rounded)
}

#[test]
fn instruction_sets_agree() {
    let (exact, rounded) = results();
    if let Some(file) = std::env::var_os(RESULTS) {
        let length = (exact.len() as u64).to_le_bytes();
        std::fs::write(file, [&length, &exact[..], bytemuck::cast_slice(&rounded)].concat()).unwrap();
        return;
    }
    let portable = results_of("portable");
    assert!(portable.0 == exact, "bits of the portable kernels");
    assert!(rounded.iter().zip(&portable.1).all(|(a, b)| (a - b).abs() < 1e-3));
    // Those between. A name of one that the CPU lacks gives the next one below it.
    let between: &[&str] = match Isa::detect() {
        // With AMX, which no name has.
        Isa::Avx512 => &["avx2", "avxvnni", "avx512"],
        Isa::AvxVnni => &["avx2"],
        Isa::NeonDotprod => &["neon"],
        Isa::NeonI8mm => &["neon", "dotprod"],
        Isa::Portable | Isa::Avx2 | Isa::Neon => &[],
    };
    for isa in between {
        let (bytes, floats) = results_of(isa);
        assert!(bytes == exact && floats == rounded, "bits of {isa} and {:?}", Isa::detect());
    }
}
