//! Products with weights against the dot products of ggml's CPU backend.
//!
//! `fixtures/dots.bin` was made by `tools/oracle/matmul_ggml.py` from llama.cpp of llama-cpp-python 0.3.36 on a processor
//! with AVX-512: ggml rounds the activations and multiplies, from the same blocks and the same `f32`. Only the order in
//! which block sums are added differs.

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

fn decoded(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let halves = bytes.chunks(2).map(|b| u16::from_le_bytes(b.try_into().unwrap()));
    match dtype {
        DType::Quant(quant) => {
            let mut out = vec![0.0; bytes.len() / quant.block_bytes() * quant.block_len()];
            rustorch_quant::decode(quant, bytes, &mut out).unwrap();
            out
        }
        DType::F16 => halves.map(|h| rustorch_core::f16::from_bits(h).to_f32()).collect(),
        _ => halves.map(|h| rustorch_core::bf16::from_bits(h).to_f32()).collect(),
    }
}

#[test]
fn products_with_weights_are_those_of_ggml() {
    let cpu = CpuBackend::new(2);
    let mut file = Reader(include_bytes!("fixtures/dots.bin"));
    let (k, m) = (file.u32(), file.u32());
    let x = file.floats(m * k);
    let input = buffer(&cpu, &x.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>());
    let mut types = 0;
    while !file.0.is_empty() {
        let (dtype, n) = (DType::from_ggml_id(file.u32() as u32).unwrap(), file.u32());
        let blocks = file.bytes(dtype.bytes_for(n * k).unwrap());
        let want = file.floats(m * n);
        let weights = buffer(&cpu, blocks);
        let (a, b, y) = (layout([m, k]), layout([n, k]).transpose(0, 1).unwrap(), layout([m, n]));
        let mut out = cpu.alloc(4 * m * n).unwrap();
        // SAFETY: buffers were made for these layouts, and written.
        let got = unsafe {
            let args = [View::new(&input, DType::F32, &a), View::new(&weights, dtype, &b)];
            let to = ViewMut::new(&mut out, DType::F32, &y);
            cpu.run(&Op::MatMul(MatMul::default()), &args, &mut [to]).unwrap();
            View::new(&out, DType::F32, &y).as_slice::<f32>().unwrap()
        };
        let w = decoded(dtype, blocks);
        for i in 0..m {
            for j in 0..n {
                let magnitude: f32 = (0..k).map(|p| (w[j * k + p] * x[i * k + p]).abs()).sum();
                let (got, want) = (got[i * n + j], want[i * n + j]);
                assert!((got - want).abs() <= 1e-6 * magnitude, "{dtype} [{i}, {j}]: {got}, ggml {want}");
            }
        }
        types += 1;
    }
    // All but the two that only activations have, and two floats.
    assert_eq!(types, QuantType::ALL.len() - 2 + 2);
}
