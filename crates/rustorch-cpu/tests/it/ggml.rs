//! Matmuls with weights against those of ggml's CPU backend, bit for bit.
//!
//! `fixtures/dots.bin` was made by `tools/oracle/matmul_ggml.py` from llama.cpp of llama-cpp-python 0.3.36 on a CPU
//! with AVX-512: ggml rounds the activations and multiplies, from the same blocks and the same `f32`.

#![allow(clippy::unwrap_used, reason = "a test")]

use rustorch_core::{Backend, Buffer, DType, Layout, MatMul, Op, QuantType, Shape, View, ViewMut};
use rustorch_cpu::CpuBackend;

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(n);
        self.0 = tail;
        head
    }

    fn u32(&mut self) -> usize {
        u32::from_le_bytes(self.bytes(4).try_into().unwrap()) as usize
    }

    fn floats(&mut self, n: usize) -> Vec<f32> {
        self.bytes(4 * n).chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }
}

fn layout(dims: [usize; 2]) -> Layout {
    Layout::contiguous(Shape::new(dims.as_slice()).unwrap())
}

fn buffer(cpu: &CpuBackend, bytes: &[u8]) -> Buffer {
    let mut buffer = cpu.alloc(bytes.len()).unwrap();
    let all = layout([1, bytes.len()]);
    // SAFETY: as many bytes as were allocated.
    cpu.copy_in(bytes, &mut unsafe { ViewMut::new(&mut buffer, DType::U8, &all) }).unwrap();
    buffer
}

fn dequantized(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let halves = bytes.chunks(2).map(|b| u16::from_le_bytes(b.try_into().unwrap()));
    match dtype {
        DType::Quant(quant) => {
            let mut out = vec![0.0; bytes.len() / quant.block_bytes() * quant.block_len()];
            rustorch_quant::dequantize(quant, bytes, &mut out).unwrap();
            out
        }
        DType::F16 => halves.map(|h| rustorch_core::f16::from_bits(h).to_f32()).collect(),
        _ => halves.map(|h| rustorch_core::bf16::from_bits(h).to_f32()).collect(),
    }
}

/// Types whose sums are added in another order than ggml's.
fn reordered(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::F16 | DType::BF16 | DType::Quant(QuantType::NVFP4 | QuantType::Q1_0 | QuantType::Q2_0)
    )
}

/// Types that ggml adds in another order where four or more rows of activations are multiplied at once.
fn grouped_by_ggml(dtype: DType) -> bool {
    matches!(dtype, DType::Quant(QuantType::Q2_K | QuantType::Q4_K))
}

#[test]
fn matmuls_with_weights_equal_ggml() {
    let cpu = CpuBackend::new(2);
    let mut file = Reader(include_bytes!("../fixtures/dots.bin"));
    let (k, m) = (file.u32(), file.u32());
    let x = file.floats(m * k);
    let (mut types, mut wrong) = (0, Vec::new());
    while !file.0.is_empty() {
        let (dtype, n) = (DType::from_ggml_id(file.u32() as u32).unwrap(), file.u32());
        let blocks = file.bytes(dtype.bytes_for(n * k).unwrap());
        let (alone, together) = (file.floats(m * n), file.floats(m * n));
        let w = dequantized(dtype, blocks);
        let weights = buffer(&cpu, blocks);
        let b = layout([n, k]).transpose(0, 1).unwrap();
        let product = |x: &[f32]| {
            let input = buffer(&cpu, &x.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>());
            let rows = x.len() / k;
            let (a, y) = (layout([rows, k]), layout([rows, n]));
            let mut out = cpu.alloc(4 * rows * n).unwrap();
            // SAFETY: buffers were made for these layouts, and written.
            unsafe {
                let args = [View::new(&input, DType::F32, &a), View::new(&weights, dtype, &b)];
                let to = ViewMut::new(&mut out, DType::F32, &y);
                cpu.run(&Op::MatMul(MatMul::default()), &args, &mut [to]).unwrap();
                View::new(&out, DType::F32, &y).as_slice::<f32>().unwrap().to_vec()
            }
        };
        let got_alone: Vec<f32> = x.chunks(k).flat_map(product).collect();
        // Rows again and again: enough for another kernel.
        let got_together = product(&x.repeat(4))[..m * n].to_vec();
        let exact = |got: &[f32], want: &[f32]| got.iter().zip(want).all(|(a, b)| a.to_bits() == b.to_bits());
        let close = |got: &[f32], want: &[f32]| {
            (0..m * n).all(|at| {
                let (i, j) = (at / n, at % n);
                let magnitude: f32 = (0..k).map(|p| (w[j * k + p] * x[i * k + p]).abs()).sum();
                (got[at] - want[at]).abs() <= 1e-6 * magnitude
            })
        };
        let (first, second) = (exact(&got_alone, &alone), exact(&got_together, &together));
        if !(first || reordered(dtype) && close(&got_alone, &alone))
            || !(second || (reordered(dtype) || grouped_by_ggml(dtype)) && close(&got_together, &together))
        {
            wrong.push(format!("{dtype} alone {first} together {second}"));
        }
        types += 1;
    }
    assert!(wrong.is_empty(), "not what ggml computes: {wrong:#?}");
    // All but the two that only activations have, and two floats.
    assert_eq!(types, QuantType::ALL.len() - 2 + 2);
}
