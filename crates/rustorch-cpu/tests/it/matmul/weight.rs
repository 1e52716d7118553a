//! Matmuls with block-quantized weights.

use super::{Random, Tensor, bits, matmul, matmul_with, run, run_into, run_together};
use bytemuck::Zeroable;
use rustorch_core::{DType, Layout, Numerics, QuantType, Shape};
use rustorch_quant::{
    BlockQ8_0, BlockQ8_1, BlockQ8K, Codes, dequantize, expand, quantize_q8_0, quantize_q8_1, quantize_q8_k,
};

/// Random blocks with values of moderate size.
pub(crate) fn random_blocks(quant: QuantType, values: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut dequantized = vec![0.0; quant.block_len()];
    while bytes.len() < quant.bytes_for(values).unwrap() {
        let block: Vec<u8> = (0..quant.block_bytes()).map(|_| random.bits() as u8).collect();
        dequantize(quant, &block, &mut dequantized).unwrap();
        let largest = dequantized.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        if dequantized.iter().all(|v| v.is_finite()) && (1e-3..1e3).contains(&largest) {
            bytes.extend(block);
        }
    }
    bytes
}

/// Those that round activations.
pub(crate) const ROUNDING: [Numerics; 2] = [Numerics::Ggml, Numerics::Fast];

pub(crate) fn weight(quant: QuantType, dims: &[usize], bytes: &[u8]) -> Tensor {
    Tensor::new(DType::Quant(quant), Layout::contiguous(Shape::new(dims).unwrap()), bytes)
}

/// Numbers of very different size in one row, as activations have them.
pub(crate) fn activations(n: usize, random: &mut Random) -> Vec<f32> {
    (0..n).map(|i| random.float() * if i % 37 == 5 { 8.0 } else { 1.0 }).collect()
}

/// Inner sizes to test: odd numbers of blocks.
pub(crate) fn sizes(quant: QuantType) -> [usize; 3] {
    let len = quant.block_len().max(32);
    [len, 3 * len, 11 * len]
}

/// What ggml computes, in `f64`, and the sum of the magnitudes that go into it. Knows nothing of kernels: it rounds
/// activations by `rustorch-quant` and dequantizes blocks.
fn reference(quant: QuantType, w: &[u8], x: &[f32]) -> (f64, f64) {
    let (mut sum, mut magnitude) = (0.0, 0.0);
    let mut codes = Codes::new();
    let affine = matches!(quant, QuantType::Q4_1 | QuantType::Q5_1);
    let small = matches!(
        quant,
        QuantType::Q4_0
            | QuantType::Q5_0
            | QuantType::Q8_0
            | QuantType::Q8_1
            | QuantType::IQ4_NL
            | QuantType::MXFP4
            | QuantType::NVFP4
            | QuantType::Q1_0
            | QuantType::Q2_0
    );
    for (block, x) in w.chunks(quant.block_bytes()).zip(x.chunks(quant.block_len())) {
        expand(quant, block, &mut codes).unwrap();
        let mut rounded = vec![0.0f64; x.len()];
        let mut add = 0.0;
        if affine {
            let mut q = [BlockQ8_1::zeroed()];
            quantize_q8_1(x, &mut q);
            for (r, &code) in rounded.iter_mut().zip(&q[0].qs) {
                *r = f64::from(q[0].d.get()) * f64::from(code);
            }
            add = f64::from(-codes.min[0]) * f64::from(q[0].s.get());
            codes.min = [0.0; 16];
        } else if small {
            for (x, r) in x.chunks(32).zip(rounded.chunks_mut(32)) {
                let mut q = [BlockQ8_0::zeroed()];
                quantize_q8_0(x, &mut q);
                for (r, &code) in r.iter_mut().zip(&q[0].qs) {
                    *r = f64::from(q[0].d.get()) * f64::from(code);
                }
            }
        } else {
            let mut q = [BlockQ8K::zeroed()];
            quantize_q8_k(x, &mut q);
            for (r, &code) in rounded.iter_mut().zip(&q[0].qs) {
                *r = f64::from(q[0].d.get()) * f64::from(code);
            }
        }
        for (i, &r) in rounded.iter().enumerate() {
            let (scale, min) = (f64::from(codes.scale[i / 16]), f64::from(codes.min[i / 16]));
            sum += (scale * f64::from(codes.q[i]) - min) * r;
            magnitude += ((scale * f64::from(codes.q[i])).abs() + min.abs()) * r.abs();
        }
        sum += add;
        magnitude += add.abs();
    }
    (sum, magnitude)
}

#[test]
fn every_type_gives_what_ggml_gives() {
    let random = &mut Random::new(1);
    for &quant in QuantType::ALL {
        for k in sizes(quant) {
            let (n, m) = (19, 7);
            let w = random_blocks(quant, n * k, random);
            let x = activations(m * k, random);
            let b = weight(quant, &[n, k], &w).transposed();
            let a = Tensor::of(&[m, k], &x);
            let got = ROUNDING.map(|numerics| run(2, &matmul_with(numerics), &[&a, &b]).values::<f32>());
            let row = w.len() / n;
            for i in 0..m {
                for j in 0..n {
                    let (want, magnitude) = reference(quant, &w[row * j..][..row], &x[k * i..][..k]);
                    for got in got.each_ref().map(|got| got[n * i + j]) {
                        let off = (f64::from(got) - want).abs();
                        assert!(off <= 1e-6 * magnitude, "{quant} k {k} [{i}, {j}]: {got} not {want}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_alone_gives_the_same_bits_as_among_others_on_any_number_of_threads() {
    let random = &mut Random::new(2);
    for (&quant, numerics) in
        QuantType::ALL.iter().flat_map(|quant| ROUNDING.map(|numerics| (quant, numerics)))
    {
        let matmul = matmul_with(numerics);
        let k = sizes(quant)[1];
        // More than four panels of sixteen, and a part of one.
        let (n, m) = (50, 70);
        let b = weight(quant, &[n, k], &random_blocks(quant, n * k, random)).transposed();
        let x = activations(m * k, random);
        let alone: Vec<u32> = x
            .chunks(k)
            .flat_map(|row| bits(&run(1, &matmul, &[&Tensor::of(&[1, k], row), &b]).values()))
            .collect();
        for rows in [2, 5, 6, 17, 41, m] {
            for threads in [1, 2, 3] {
                let a = Tensor::of(&[rows, k], &x[..rows * k]);
                let got = run(threads, &matmul, &[&a, &b]).values();
                assert_eq!(
                    bits(&got),
                    alone[..rows * n],
                    "{quant} {numerics:?} {rows} rows {threads} threads"
                );
            }
        }
    }
}

#[test]
fn weights_of_different_types_may_have_their_rows_in_common() {
    let random = &mut Random::new(3);
    let (k, m) = (768, 21);
    let a = Tensor::of(&[m, k], &activations(m * k, random));
    // Types that want activations in different orders, with sums of groups of 16 and of 32, or rounded to other blocks.
    use QuantType::{Q2_K, Q3_K, Q4_K, Q5_0, Q5_K, Q6_K, Q8_0};
    for types in [[Q4_K, Q5_K, Q4_K], [Q5_K, Q4_K, Q6_K], [Q3_K, Q6_K, Q2_K], [Q8_0, Q5_0, Q5_K]] {
        let sizes = types.iter().zip([24, 40, 8]);
        let weights: Vec<Tensor> = sizes
            .map(|(&quant, n)| weight(quant, &[n, k], &random_blocks(quant, n * k, random)).transposed())
            .collect();
        for (op, threads) in
            ROUNDING.map(matmul_with).iter().flat_map(|op| [1, 3].map(|threads| (op, threads)))
        {
            let got = run_together(threads, op, &a, &weights);
            for ((quant, b), got) in types.iter().zip(&weights).zip(got) {
                let want = run(1, op, &[&a, b]).values();
                assert_eq!(bits(&got.values()), bits(&want), "{quant} of {types:?}, {threads} threads");
            }
        }
    }
}

#[test]
fn operands_may_be_strided_offset_and_batched() {
    let random = &mut Random::new(4);
    let quant = QuantType::Q4_K;
    let (k, n, m) = (512, 10, 3);
    let bytes = random_blocks(quant, 4 * n * k, random);
    let all = weight(quant, &[4, n, k], &bytes);
    let x = activations(2 * m * k, random);
    // Two batches of activations, stored inner dimension first, with two of four matrices, and a bias.
    let mut inner_first = vec![0.0; x.len()];
    for b in 0..2 {
        for i in 0..m {
            for p in 0..k {
                inner_first[(b * k + p) * m + i] = x[(b * m + i) * k + p];
            }
        }
    }
    let a = Tensor::of(&[2, k, m], &inner_first).transposed();
    let b = all.with(|l| l.slice(0, 1, 2, 2).unwrap()).transposed();
    let bias = random.floats(n);
    let got = run(2, &matmul(), &[&a, &b, &Tensor::of(&[n], &bias)]).values::<f32>();
    let matrix = bytes.len() / 4;
    for batch in 0..2 {
        let w = weight(quant, &[n, k], &bytes[matrix * (1 + 2 * batch)..][..matrix]).transposed();
        let plain = Tensor::of(&[m, k], &x[batch * m * k..][..m * k]);
        let mut want = run(1, &matmul(), &[&plain, &w]).values::<f32>();
        want.iter_mut().zip(bias.iter().cycle()).for_each(|(sum, bias)| *sum += bias);
        assert_eq!(bits(&got[batch * m * n..][..m * n]), bits(&want));
    }
    // The same into a place with gaps.
    let place =
        Layout::new(Shape::new([2, m, n].as_slice()).unwrap(), [1000, 1, 2 * m].as_slice(), 5).unwrap();
    let mut out = Tensor::new(DType::F32, place, &vec![0; 4 * 2100]);
    run_into(2, &matmul(), &[&a, &b, &Tensor::of(&[n], &bias)], &mut out).unwrap();
    assert_eq!(bits(&out.values()), bits(&got));
}

#[test]
fn empty_matmuls_are_zero_and_the_bias() {
    let bias = Tensor::of(&[3], &[1.0f32, 2.0, 3.0]);
    for dtype in [DType::Quant(QuantType::Q8_0), DType::F32, DType::BF16] {
        let empty = |dims: &[usize]| {
            Tensor::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()), &[]).transposed()
        };
        let a = Tensor::of::<f32>(&[2, 0], &[]);
        assert_eq!(run(1, &matmul(), &[&a, &empty(&[3, 0])]).values::<f32>(), [0.0; 6]);
        let got = run(1, &matmul(), &[&a, &empty(&[3, 0]), &bias]).values::<f32>();
        assert_eq!(got, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        let a = Tensor::of::<f32>(&[2, 32], &[0.0; 64]);
        assert!(run(1, &matmul(), &[&a, &empty(&[0, 32])]).values::<f32>().is_empty());
    }
}

#[test]
fn a_row_with_nan_or_infinity_does_not_touch_others() {
    let random = &mut Random::new(5);
    let quants = [QuantType::Q4_0, QuantType::Q4_1, QuantType::Q4_K, QuantType::Q6_K, QuantType::IQ2_S];
    for (quant, numerics) in quants.iter().flat_map(|&quant| ROUNDING.map(|numerics| (quant, numerics))) {
        let matmul = || matmul_with(numerics);
        let (k, n, m) = (512, 4, 9);
        let b = weight(quant, &[n, k], &random_blocks(quant, n * k, random)).transposed();
        let mut x = activations(m * k, random);
        let clean = run(1, &matmul(), &[&Tensor::of(&[m, k], &x), &b]).values::<f32>();
        x[2 * k + 7] = f32::NAN;
        x[5 * k + 300] = f32::INFINITY;
        let got = run(1, &matmul(), &[&Tensor::of(&[m, k], &x), &b]).values::<f32>();
        for i in 0..m {
            let row = i * n..(i + 1) * n;
            if i == 2 || i == 5 {
                assert!(got[row].iter().all(|v| v.is_nan()), "{quant} row {i}");
            } else {
                assert_eq!(bits(&got[row.clone()]), bits(&clean[row]), "{quant} row {i}");
            }
        }
    }
}
