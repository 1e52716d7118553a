//! Matmuls with weights whose activations are not rounded.

use super::weight::{activations, random_blocks, weight};
use super::{Random, Tensor, bits, invariant, matmul, run};
use rustorch_core::{MatMul, MulMatId, Numerics, Op, QuantType, bf16, f16};
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

/// Of any number of rows and threads, the bits of the matmul of the same values in `f32`: those of the weights, and of activations as they
/// are or rounded to the weights' dtype.
#[test]
fn sixteen_bit_weights_are_multiplied_by_their_values() {
    let random = &mut Random::new(33);
    macro_rules! check {
        ($ty:ident) => {
            // Few values, columns beyond whole blocks of them, values beyond whole cache lines.
            for (n, k) in [(1, 5), (21, 70), (32, 16), (67, 256), (33, 611), (128, 1024)] {
                let weights: Vec<$ty> = random.floats(n * k).iter().map(|&v| $ty::from_f32(v)).collect();
                let wide: Vec<f32> = weights.iter().map(|v| v.to_f32()).collect();
                let w = Tensor::of(&[n, k], &weights).transposed();
                let wide = Tensor::of(&[n, k], &wide).transposed();
                let bias = Tensor::of(&[n], &random.floats(n));
                for m in [1, 2, 3, 9] {
                    let x = activations(m * k, random);
                    let rounded: Vec<f32> = x.iter().map(|&v| $ty::from_f32(v).to_f32()).collect();
                    let (x, rounded) = (Tensor::of(&[m, k], &x), Tensor::of(&[m, k], &rounded));
                    for (op, factor) in [(unrounded(), &x), (matmul(), &rounded)] {
                        let want: Vec<f32> = run(1, &invariant(), &[factor, &wide, &bias]).values();
                        for threads in [1, 3] {
                            let got = run(threads, &op, &[&x, &w, &bias]).values();
                            assert_eq!(bits(&got), bits(&want), "{} {m} {n} {k} {threads} {op:?}", w.dtype);
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
    let floats = values(quant, &bytes, experts * n * k);
    let halves: Vec<bf16> = floats.iter().map(|&v| bf16::from_f32(v)).collect();
    let wide: Vec<f32> = halves.iter().map(|v| v.to_f32()).collect();
    let x = Tensor::of(&[t, 1, k], &activations(t * k, random));
    let ids: Vec<i32> = (0..t * chosen).map(|_| (random.bits() % experts as u64) as i32).collect();
    let ids = Tensor::of(&[t, chosen], &ids);
    let pairs = [
        (weight(quant, &[experts, n, k], &bytes), Tensor::of(&[experts, n, k], &floats)),
        (Tensor::of(&[experts, n, k], &halves), Tensor::of(&[experts, n, k], &wide)),
    ];
    for (w, dense) in &pairs {
        let got = run(2, &Op::MulMatId(MulMatId { numerics: Numerics::F32 }), &[&x, w, &ids]).values();
        let want = run(1, &Op::MulMatId(MulMatId { numerics: Numerics::Ggml }), &[&x, dense, &ids]).values();
        assert_eq!(bits(&got), bits(&want), "{}", w.dtype);
    }
}
