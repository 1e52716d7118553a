//! Layouts become the BLAS library's descriptors: leading dimensions and strided batches.

use crate::common::lazy::{Lazy, Memory};
use rustorch_core::{
    Backend, Buffer, DType, Device, Fault, Layout, MatMul, Op, Remarks, Shape, TensorMeta, View, ViewMut,
    run_checked,
};
use rustorch_kernels::driver::{BatchedGemm, BlasLibrary, DriverLayer, GemmOutcome, MatrixBatch};
use rustorch_kernels::{Driver, Engine};
use std::sync::Mutex;

/// A GEMM, and the bytes at which its operands and its result begin.
type Call = (BatchedGemm, [usize; 3]);

/// A device with a library that takes every GEMM of `f32`, computes it on the host, and remembers it.
struct WithLibrary {
    driver: Lazy,
    calls: Mutex<Vec<Call>>,
}

impl DriverLayer for WithLibrary {
    type Inner = Lazy;

    fn inner(&self) -> &Lazy {
        &self.driver
    }

    fn blas(&self) -> Option<Result<&dyn BlasLibrary<Memory>, &str>> {
        Some(Ok(self))
    }
}

impl BlasLibrary<Memory> for WithLibrary {
    fn name(&self) -> &str {
        "a library of the host"
    }

    fn takes(&self, _: &BatchedGemm) -> bool {
        true
    }

    fn multiply(
        &self,
        gemm: &BatchedGemm,
        a: (&Memory, usize),
        b: (&Memory, usize),
        out: (&Memory, usize),
    ) -> Result<GemmOutcome, Fault> {
        if gemm.dtype != DType::F32 {
            return Ok(GemmOutcome::Refused);
        }
        self.calls.lock().unwrap().push((*gemm, [a.1, b.1, out.1]));
        let &BatchedGemm { m, n, k, batch, .. } = gemm;
        let (left, right) = (
            read(&self.driver, a, gemm.a.extent(m, k, batch)),
            read(&self.driver, b, gemm.b.extent(k, n, batch)),
        );
        let mut sums = read(&self.driver, out, gemm.out.extent(m, n, batch));
        for matrix in 0..batch {
            for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
                let sum = &mut sums[gemm.out.at(matrix, row, column)];
                let start = if gemm.accumulate { f64::from(*sum) } else { 0.0 };
                *sum = (0..k).fold(start, |sum, i| {
                    let (x, y) = (left[gemm.a.at(matrix, row, i)], right[gemm.b.at(matrix, i, column)]);
                    f64::from(x).mul_add(y.into(), sum)
                }) as f32;
            }
        }
        let bytes: Vec<u8> = sums.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.driver.write(out.0, out.1, &bytes)?;
        Ok(GemmOutcome::Given)
    }
}

/// So many elements from a byte of a memory on.
fn read(driver: &Lazy, (memory, start): (&Memory, usize), len: usize) -> Vec<f32> {
    let mut bytes = vec![0; 4 * len];
    driver.read(memory, start, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
}

fn layout(dims: &[usize], strides: &[usize], offset: usize) -> Layout {
    Layout::new(Shape::new(dims).unwrap(), strides, offset).unwrap()
}

/// A memory of whole numbers, of which a layout is a view, and these numbers.
fn numbers(engine: &dyn Backend, layout: &Layout) -> (Buffer, Vec<f32>) {
    let all = Layout::contiguous(Shape::new([layout.end().max(1)].as_slice()).unwrap());
    let values: Vec<f32> = (0..all.numel()).map(|i| (i % 17) as f32 - 8.0).collect();
    let buffer = engine.alloc(4 * values.len()).unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    // SAFETY: the layout is that of the whole memory, which nobody else uses.
    engine.copy_in(&bytes, &mut unsafe { ViewMut::from_shared(&buffer, DType::F32, &all) }).unwrap();
    (buffer, values)
}

/// The calls of the library for `a · b`, of which the result is contiguous; checks that they compute it.
fn calls(a: &Layout, b: &Layout) -> Vec<Call> {
    let engine = Engine::new(WithLibrary { driver: Lazy::new(), calls: Mutex::default() }).unwrap();
    // The library is verified by GEMMs of its own.
    engine.remarks();
    engine.driver().calls.lock().unwrap().clear();
    let meta = |layout| TensorMeta { dtype: DType::F32, layout, device: Device::CPU };
    let op = Op::MatMul(MatMul::default());
    let out = Layout::contiguous(op.infer(&[meta(a), meta(b)]).unwrap()[0].shape.clone());
    let ((left, x), (right, y), (result, _)) =
        (numbers(&engine, a), numbers(&engine, b), numbers(&engine, &out));
    // SAFETY: every memory has been written, the layouts are inside, and nobody else uses them.
    unsafe {
        let args = [View::new(&left, DType::F32, a), View::new(&right, DType::F32, b)];
        run_checked(&engine, &op, &args, &mut [ViewMut::from_shared(&result, DType::F32, &out)]).unwrap();
    }
    let calls = std::mem::take(&mut *engine.driver().calls.lock().unwrap());
    if !calls.is_empty() {
        let mut bytes = vec![0; 4 * out.numel()];
        // SAFETY: the operation has written the result.
        engine.copy_out(&unsafe { View::new(&result, DType::F32, &out) }, &mut bytes).unwrap();
        let got: Vec<f32> =
            bytes.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect();
        assert_eq!(got, matmul((a, &x), (b, &y), &out), "{a:?} by {b:?}");
    }
    calls
}

/// The matmul element by element.
fn matmul((a, x): (&Layout, &[f32]), (b, y): (&Layout, &[f32]), out: &Layout) -> Vec<f32> {
    let of = |layout: &Layout| {
        let rank = out.ndim();
        let inner = &layout.dims()[layout.ndim() - 2..];
        let dims = [&out.dims()[..rank - 2], inner].concat();
        let places = layout.broadcast_to(&Shape::new(dims.as_slice()).unwrap(), "matmul").unwrap();
        (places.indices().collect::<Vec<usize>>(), [inner[0], inner[1]])
    };
    let ((left, [m, k]), (right, [_, n])) = (of(a), of(b));
    let element = |i: usize| {
        let (matrix, row, column) = (i / (m * n), i / n % m, i % n);
        let place = |j: usize| (left[(matrix * m + row) * k + j], right[(matrix * k + j) * n + column]);
        (0..k).map(place).map(|(i, j)| x[i] * y[j]).sum()
    };
    (0..out.numel()).map(element).collect()
}

#[test]
fn rows_or_columns_are_contiguous() {
    // The pitch of a matrix, and whether it is transposed.
    let lines = |rows: usize, columns: usize, strides: [usize; 2]| {
        let calls = calls(&layout(&[rows, columns], &strides, 0), &layout(&[columns, 2], &[2, 1], 0));
        assert!(calls.len() < 2);
        calls.first().map(|(gemm, _)| (gemm.a.pitch, gemm.a.transposed))
    };
    assert_eq!(lines(3, 5, [5, 1]), Some((5, false)));
    assert_eq!(lines(3, 5, [9, 1]), Some((9, false)));
    assert_eq!(lines(3, 5, [1, 4]), Some((4, true)));
    // One row or column: steps that are never made do not matter.
    assert_eq!(lines(1, 5, [0, 1]), Some((5, false)));
    assert_eq!(lines(1, 5, [7, 2]), Some((2, true)));
    assert_eq!(lines(3, 1, [2, 77]), Some((2, false)));
    assert_eq!(lines(1, 1, [0, 0]), Some((1, false)));
    // Repeated, overlapping and stepped ones.
    assert_eq!(lines(3, 5, [0, 1]), None);
    assert_eq!(lines(3, 5, [1, 0]), None);
    assert_eq!(lines(3, 5, [2, 1]), None);
    assert_eq!(lines(3, 5, [10, 2]), None);
    assert_eq!(lines(3, 1, [0, 1]), None);
}

#[test]
fn batches_become_steps_and_calls() {
    // [6, 4] batches, of which those of b are repeated over the first dimension.
    let a = layout(&[6, 4, 3, 5], &[60, 15, 5, 1], 2);
    let b = layout(&[4, 5, 7], &[35, 1, 5], 0);
    let calls = calls(&a, &b);
    let gemm = BatchedGemm {
        dtype: DType::F32,
        out_dtype: DType::F32,
        m: 3,
        n: 7,
        k: 5,
        batch: 6,
        a: MatrixBatch { pitch: 5, transposed: false, step: 60 },
        b: MatrixBatch { pitch: 5, transposed: true, step: 0 },
        out: MatrixBatch { pitch: 7, transposed: false, step: 84 },
        accumulate: false,
    };
    let bytes = |call: usize| [4 * (2 + 15 * call), 4 * 35 * call, 4 * 21 * call];
    assert_eq!(calls, [0, 1, 2, 3].map(|call| (gemm, bytes(call))));
}

#[test]
fn what_libraries_do_not_know_stays() {
    let none = |a: &Layout, b: &Layout| calls(a, b).is_empty();
    let b = layout(&[5, 7], &[7, 1], 0);
    assert!(none(&layout(&[3, 5], &[10, 2], 0), &b), "stepped");
    assert!(none(&layout(&[3, 5], &[0, 1], 0), &b), "repeated");
    assert!(none(&layout(&[3, 0], &[1, 1], 0), &layout(&[0, 7], &[7, 1], 0)), "empty");
    // 65 times 66 matrices that merge into no even step.
    let a = layout(&[65, 66, 2, 2], &[1000, 4, 2, 1], 0);
    assert!(none(&a, &layout(&[2, 2], &[2, 1], 0)), "too many calls");
}
