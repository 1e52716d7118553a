//! Tests of matmuls.

mod dense;
mod exact;
mod mul_mat_id;
pub(crate) mod weight;

use crate::testing::cpu;
use rustorch_core::{
    Backend, Buffer, Call, DType, Layout, MatMul, Numerics, Op, Shape, TensorMeta, View, ViewMut,
};
use rustorch_cpu::Isa;

/// Numbers from a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// In -1..1.
    pub(crate) fn float(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(crate) fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }
}

/// `x · w + sum` as kernels compute it: portable code rounds the product, too, where the target has no instruction that does not.
fn multiply_add(x: f32, w: f32, sum: f32) -> f32 {
    let is_fused = Isa::detect() != Isa::Portable || crate::fused::INSTRUCTION;
    if is_fused { x.mul_add(w, sum) } else { x * w + sum }
}

/// Bytes with a dtype and a layout.
pub(crate) struct Tensor {
    pub(crate) buffer: Buffer,
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
}

impl Tensor {
    pub(crate) fn new(dtype: DType, layout: Layout, bytes: &[u8]) -> Tensor {
        let mut buffer = Buffer::host(bytes.len()).unwrap();
        let all = Layout::contiguous(Shape::new([bytes.len()].as_slice()).unwrap());
        // SAFETY: as many bytes as were allocated.
        assert!(unsafe { ViewMut::new(&mut buffer, DType::U8, &all) }.write_bytes(bytes));
        Tensor { buffer, dtype, layout }
    }

    pub(crate) fn of<T: rustorch_core::Element + bytemuck::NoUninit>(dims: &[usize], values: &[T]) -> Tensor {
        let layout = Layout::contiguous(Shape::new(dims).unwrap());
        assert_eq!(layout.numel(), values.len());
        Tensor::new(T::DTYPE, layout, bytemuck::cast_slice(values))
    }

    /// The same bytes by another layout.
    pub(crate) fn with(mut self, layout: impl FnOnce(&Layout) -> Layout) -> Tensor {
        self.layout = layout(&self.layout);
        self
    }

    pub(crate) fn transposed(self) -> Tensor {
        self.with(|l| l.transpose(l.ndim() - 2, l.ndim() - 1).unwrap())
    }

    fn view(&self) -> View<'_> {
        // SAFETY: made by `new` for this layout, and written.
        unsafe { View::new(&self.buffer, self.dtype, &self.layout) }
    }

    pub(crate) fn values<T: rustorch_core::Element>(&self) -> Vec<T> {
        let base = self.view().address::<T>().unwrap();
        // SAFETY: indices of the layout.
        self.layout.indices().map(|i| unsafe { *base.add(i - self.layout.offset()) }).collect()
    }
}

/// Runs an operation; the result is contiguous.
pub(crate) fn run(threads: usize, op: &Op, args: &[&Tensor]) -> Tensor {
    let mut out = room(op, args);
    run_into(threads, op, args, &mut out).unwrap();
    out
}

/// Runs an operation on one left operand and each of these, all together.
pub(crate) fn run_together(threads: usize, op: &Op, left: &Tensor, right: &[Tensor]) -> Vec<Tensor> {
    let mut outs: Vec<Tensor> = right.iter().map(|right| room(op, &[left, right])).collect();
    let args: Vec<[View<'_>; 2]> = right.iter().map(|right| [left.view(), right.view()]).collect();
    let mut to: Vec<[ViewMut<'_>; 1]> = outs
        .iter_mut()
        // SAFETY: made by `new` for this layout.
        .map(|out| [unsafe { ViewMut::new(&mut out.buffer, out.dtype, &out.layout) }])
        .collect();
    let mut calls: Vec<Call<'_, '_>> =
        args.iter().zip(&mut to).map(|(args, outs)| Call { op, args, outs }).collect();
    // SAFETY: the outputs are what the operation infers, and have memory of their own; the left operand is one.
    unsafe { cpu(threads).run_together(&mut calls) }.unwrap();
    drop(calls);
    outs
}

/// A place for the result of an operation.
fn room(op: &Op, args: &[&Tensor]) -> Tensor {
    let metas: Vec<TensorMeta<'_>> = args
        .iter()
        .map(|x| TensorMeta { dtype: x.dtype, layout: &x.layout, device: rustorch_core::Device::CPU })
        .collect();
    let outs = op.infer(&metas).unwrap();
    let layout = Layout::contiguous(outs[0].shape.clone());
    let bytes = outs[0].dtype.bytes_for(layout.numel()).unwrap();
    // What is not written shows.
    Tensor::new(outs[0].dtype, layout, &vec![0xa5; bytes])
}

pub(crate) fn run_into(
    threads: usize,
    op: &Op,
    args: &[&Tensor],
    out: &mut Tensor,
) -> Result<(), rustorch_core::Fault> {
    let views: Vec<View<'_>> = args.iter().map(|x| x.view()).collect();
    // SAFETY: made by `new` for this layout.
    let mut to = unsafe { ViewMut::new(&mut out.buffer, out.dtype, &out.layout) };
    cpu(threads).run(op, &views, std::slice::from_mut(&mut to))
}

pub(crate) fn matmul_with(numerics: Numerics) -> Op {
    Op::MatMul(MatMul { numerics, ..MatMul::default() })
}

pub(crate) fn matmul() -> Op {
    Op::MatMul(MatMul::default())
}

/// A matmul whose rows do not depend on their number.
pub(crate) fn invariant() -> Op {
    Op::MatMul(MatMul { batch_invariant: true, ..MatMul::default() })
}

pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}
