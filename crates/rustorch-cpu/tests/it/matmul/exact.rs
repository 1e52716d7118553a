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

#[test]
fn sixteen_bit_weights_meet_activations_as_they_are() {
    let random = &mut Random::new(33);
    let (m, n, k) = (9, 21, 70);
    let x = Tensor::of(&[m, k], &activations(m * k, random));
    let floats = random.floats(n * k);
    let bias = Tensor::of(&[n], &random.floats(n));
    let halves: Vec<f16> = floats.iter().map(|&v| f16::from_f32(v)).collect();
    let brains: Vec<bf16> = floats.iter().map(|&v| bf16::from_f32(v)).collect();
    let wide = [
        halves.iter().map(|v| v.to_f32()).collect::<Vec<f32>>(),
        brains.iter().map(|v| v.to_f32()).collect(),
    ];
    let weights = [Tensor::of(&[n, k], &halves), Tensor::of(&[n, k], &brains)];
    for (w, wide) in weights.into_iter().zip(&wide) {
        let (w, wide) = (w.transposed(), Tensor::of(&[n, k], wide).transposed());
        let want: Vec<f32> = run(2, &matmul(), &[&x, &wide, &bias]).values();
        assert_eq!(bits(&run(2, &unrounded(), &[&x, &w, &bias]).values()), bits(&want), "{}", w.dtype);
        assert_ne!(bits(&run(2, &matmul(), &[&x, &w, &bias]).values()), bits(&want), "{}", w.dtype);
    }
}

#[test]
fn experts_take_unrounded_activations_too() {
    let random = &mut Random::new(34);
    let (experts, n, k, t, chosen) = (3, 17, 256, 11, 2);
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
