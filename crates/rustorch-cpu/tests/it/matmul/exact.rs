//! Matmuls with weights whose activations are not rounded.

use super::weight::{activations, random_blocks, weight};
use super::{Random, Tensor, bits, invariant, matmul, multiply_add, run};
use rustorch_core::{DType, Element, MatMul, MulMatId, Numerics, Op, QuantType, bf16, f16};
use rustorch_cpu::Isa;
use rustorch_quant::dequantize;

fn unrounded() -> Op {
    Op::MatMul(MatMul { numerics: Numerics::F32, ..MatMul::default() })
}

fn values(quant: QuantType, bytes: &[u8], count: usize) -> Vec<f32> {
    let mut out = vec![0.0; count];
    dequantize(quant, bytes, &mut out).unwrap();
    out
}

#[test]
fn every_block_type_is_multiplied_by_its_values() {
    let random = &mut Random::new(31);
    for &quant in QuantType::ALL {
        // A last chunk that is shorter, where blocks allow.
        let (n, k) = (37, 512 + quant.block_len());
        let bytes = random_blocks(quant, n * k, random);
        let w = weight(quant, &[n, k], &bytes).transposed();
        let dense = Tensor::of(&[n, k], &values(quant, &bytes, n * k)).transposed();
        for m in [1, 3, 40] {
            let x = Tensor::of(&[m, k], &activations(m * k, random));
            let want: Vec<f32> = run(1, &invariant(), &[&x, &dense]).values();
            for threads in [1, 3] {
                let got = run(threads, &unrounded(), &[&x, &w]).values();
                assert_eq!(bits(&got), bits(&want), "{quant:?} {m} {threads}");
            }
        }
    }
}

#[test]
fn unrounded_activations_differ_from_rounded_ones() {
    let random = &mut Random::new(32);
    let (n, k) = (8, 256);
    let bytes = random_blocks(QuantType::Q8_0, n * k, random);
    let w = weight(QuantType::Q8_0, &[n, k], &bytes).transposed();
    let x = Tensor::of(&[1, k], &activations(k, random));
    let (rounded, whole) = (run(1, &matmul(), &[&x, &w]).values(), run(1, &unrounded(), &[&x, &w]).values());
    assert_ne!(bits(&rounded), bits(&whole));
    // Against sums in f64.
    let dequantized = values(QuantType::Q8_0, &bytes, n * k);
    let x: Vec<f32> = x.values();
    for (j, &got) in whole.iter().enumerate() {
        let terms = x.iter().zip(&dequantized[j * k..]).map(|(&a, &b)| f64::from(a) * f64::from(b));
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
        assert!((f64::from(got) - sum).abs() <= 1e-6 * size, "{got} {sum}");
    }
}

/// The sums of a row and a column of 16 bits: on x86-64 in sixteen lanes that are added as a tree, elsewhere in one chain.
fn sum_in_order(x: &[f32], w: &[f32]) -> f32 {
    let count = if cfg!(target_arch = "x86_64") && Isa::detect() >= Isa::Avx2 { 16 } else { 1 };
    let mut lanes = [0.0f32; 16];
    for (p, (&x, &w)) in x.iter().zip(w).enumerate() {
        lanes[p % count] = multiply_add(x, w, lanes[p % count]);
    }
    for half in [8, 4, 2, 1].into_iter().filter(|half| half * 2 <= count) {
        (0..half).for_each(|i| lanes[i] += lanes[i + half]);
    }
    lanes[0]
}

/// Those of the weights, and of activations as they are or rounded to the weights' dtype; for any number of rows and threads with the same
/// bits.
#[test]
fn sixteen_bit_weights_are_multiplied_by_their_values() {
    let random = &mut Random::new(33);
    macro_rules! check {
        ($ty:ident) => {
            // Few values, columns beyond whole groups of them, values beyond whole cache lines.
            for (n, k) in [(1, 5), (21, 70), (32, 16), (67, 256), (33, 611), (128, 1024)] {
                let weights: Vec<$ty> = random.floats(n * k).iter().map(|&v| $ty::from_f32(v)).collect();
                let wide: Vec<f32> = weights.iter().map(|v| v.to_f32()).collect();
                let w = Tensor::of(&[n, k], &weights).transposed();
                let biases = random.floats(n);
                let bias = Tensor::of(&[n], &biases);
                let all = activations(13 * k, random);
                let rounded: Vec<f32> = all.iter().map(|&v| $ty::from_f32(v).to_f32()).collect();
                for (op, factors) in [(unrounded(), &all), (matmul(), &rounded)] {
                    // Pairs of bf16 are added by an instruction that rounds otherwise.
                    let pairs = $ty::DTYPE == DType::BF16 && op == matmul();
                    let mut want = Vec::new();
                    for (i, x) in factors.chunks(k).enumerate() {
                        let one = Tensor::of(&[1, k], &all[i * k..][..k]);
                        let got: Vec<f32> = run(1, &op, &[&one, &w, &bias]).values();
                        for (j, &got) in got.iter().enumerate() {
                            let column = &wide[j * k..][..k];
                            if !pairs {
                                assert_eq!(got, sum_in_order(x, column) + biases[j], "{i} {j} {k}");
                            }
                            let terms = x.iter().zip(column).map(|(&a, &b)| f64::from(a) * f64::from(b));
                            let bias = f64::from(biases[j]);
                            let (sum, size) =
                                terms.fold((bias, bias.abs()), |(sum, size), t| (sum + t, size + t.abs()));
                            assert!((f64::from(got) - sum).abs() <= 1e-6 * size, "{got} {sum} {k}");
                        }
                        want.extend(got);
                    }
                    for m in [1, 2, 3, 5, 6, 7, 13] {
                        let x = Tensor::of(&[m, k], &all[..m * k]);
                        for threads in [1, 3] {
                            let got = run(threads, &op, &[&x, &w, &bias]).values();
                            assert_eq!(bits(&got), bits(&want[..m * n]), "{} {m} {n} {k} {threads}", w.dtype);
                        }
                    }
                }
            }
        };
    }
    check!(f16);
    check!(bf16);
}

#[test]
fn experts_take_unrounded_activations_too() {
    // Of one row, too, of which each chosen expert gets one.
    for t in [1, 11] {
        experts_of(t);
    }
}

fn experts_of(t: usize) {
    let random = &mut Random::new(34);
    let (experts, n, k, chosen) = (3, 17, 256, 2);
    let quant = QuantType::Q4_K;
    let bytes = random_blocks(quant, experts * n * k, random);
    let halves: Vec<bf16> =
        values(quant, &bytes, experts * n * k).iter().map(|&v| bf16::from_f32(v)).collect();
    let x = activations(t * k, random);
    let ids: Vec<i32> = (0..t * chosen).map(|_| (random.bits() % experts as u64) as i32).collect();
    // A row's product with the matrix that it chose.
    let expert_bytes = bytes.len() / experts;
    let of_blocks = |e: usize| weight(quant, &[n, k], &bytes[e * expert_bytes..][..expert_bytes]);
    let of_halves = |e: usize| Tensor::of(&[n, k], &halves[e * n * k..][..n * k]);
    let pairs: [(Tensor, &dyn Fn(usize) -> Tensor); 2] = [
        (weight(quant, &[experts, n, k], &bytes), &of_blocks),
        (Tensor::of(&[experts, n, k], &halves), &of_halves),
    ];
    for (w, of_expert) in &pairs {
        let args = [&Tensor::of(&[t, 1, k], &x), w, &Tensor::of(&[t, chosen], &ids)];
        let got = run(2, &Op::MulMatId(MulMatId { numerics: Numerics::F32 }), &args).values();
        let want: Vec<f32> = ids.iter().enumerate().fold(Vec::new(), |mut want, (i, &id)| {
            let row = Tensor::of(&[1, k], &x[i / chosen * k..][..k]);
            want.extend(run(1, &unrounded(), &[&row, &of_expert(id as usize).transposed()]).values::<f32>());
            want
        });
        assert_eq!(bits(&got), bits(&want), "{}", w.dtype);
    }
}
