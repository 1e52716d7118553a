//! A BLAS library for a driver that has none: it computes on the CPU, in an order of its own.

#![allow(dead_code, unreachable_pub, reason = "shared by test programs")]

use rustorch_core::{DType, Fault, bf16, f16};
use rustorch_kernels::Driver;
use rustorch_kernels::driver::{BatchedGemm, BlasLibrary, DriverLayer, GemmOutcome, MatrixBatch};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What it does with a matmul.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Computes it.
    Works,
    /// Computes the first so many, and then none.
    Stops(usize),
    /// Computes those of a dtype with an error in one element.
    Errs(DType),
    /// Forgets what it is to add to.
    Forgets,
}

/// A driver with a library.
pub struct WithLibrary<D> {
    driver: D,
    library: Library,
    calls: AtomicUsize,
}

impl<D: Driver> WithLibrary<D> {
    pub fn new(driver: D, library: Library) -> WithLibrary<D> {
        WithLibrary { driver, library, calls: AtomicUsize::new(0) }
    }

    /// How many matmuls it was given.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// The elements of a range of a memory, and the bytes of the words that hold them.
    fn read(&self, dtype: DType, memory: &D::Memory, range: Range<usize>) -> Result<(Vec<u8>, usize), Fault> {
        let (first, last) = (range.start / 4 * 4, range.end.next_multiple_of(4));
        let mut bytes = vec![0; last - first];
        self.driver.read(memory, first, &mut bytes)?;
        assert!((range.start - first).is_multiple_of(dtype.block_bytes()));
        Ok((bytes, range.start - first))
    }
}

impl<D: Driver> BlasLibrary<D::Memory> for WithLibrary<D> {
    fn name(&self) -> &str {
        "a library"
    }

    fn takes(&self, product: &BatchedGemm) -> bool {
        product.m * product.n > 1
    }

    fn multiply(
        &self,
        product: &BatchedGemm,
        a: (&D::Memory, usize),
        b: (&D::Memory, usize),
        out: (&D::Memory, usize),
    ) -> Result<GemmOutcome, Fault> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if matches!(self.library, Library::Stops(after) if call >= after) {
            return Ok(GemmOutcome::Refused);
        }
        let &BatchedGemm { dtype, out_dtype, m, n, k, batch, accumulate, .. } = product;
        let (size, out_size) = (dtype.block_bytes(), out_dtype.block_bytes());
        let range = |start: usize, size: usize, matrices: MatrixBatch, rows, columns| {
            start..start + size * matrices.extent(rows, columns, batch)
        };
        let multiply = || {
            let (left, left_at) = self.read(dtype, a.0, range(a.1, size, product.a, m, k))?;
            let (right, right_at) = self.read(dtype, b.0, range(b.1, size, product.b, k, n))?;
            let (mut result, at) = self.read(out_dtype, out.0, range(out.1, out_size, product.out, m, n))?;
            for matrix in 0..batch {
                for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
                    let place = at + out_size * product.out.at(matrix, row, column);
                    let old = match accumulate && self.library != Library::Forgets {
                        true => decoded(out_dtype, &result[place..]),
                        false => 0.0,
                    };
                    // From the last to the first, and what was there at the end.
                    let mut sum = 0.0;
                    for i in (0..k).rev() {
                        let x = decoded(dtype, &left[left_at + size * product.a.at(matrix, row, i)..]);
                        let y = decoded(dtype, &right[right_at + size * product.b.at(matrix, i, column)..]);
                        sum = match dtype {
                            DType::F64 => sum + x * y,
                            _ => f64::from((sum as f32) + (x as f32) * (y as f32)),
                        };
                    }
                    let mut value = sum + old;
                    if matrix + row + column == 0 && self.library == Library::Errs(dtype) {
                        value += 0.01;
                    }
                    encode(out_dtype, value, &mut result[place..]);
                }
            }
            self.driver.write(out.0, out.1 - at, &result)
        };
        multiply().map(|()| GemmOutcome::Given)
    }
}

fn decoded(dtype: DType, bytes: &[u8]) -> f64 {
    match dtype {
        DType::F16 => f16::from_le_bytes(*bytes.first_chunk().unwrap()).to_f64(),
        DType::BF16 => bf16::from_le_bytes(*bytes.first_chunk().unwrap()).to_f64(),
        DType::F32 => f32::from_le_bytes(*bytes.first_chunk().unwrap()).into(),
        DType::F64 => f64::from_le_bytes(*bytes.first_chunk().unwrap()),
        other => panic!("a matmul of {other} matrices is the engine's"),
    }
}

fn encode(dtype: DType, x: f64, bytes: &mut [u8]) {
    match dtype {
        DType::F16 => bytes[..2].copy_from_slice(&f16::from_f32(x as f32).to_le_bytes()),
        DType::BF16 => bytes[..2].copy_from_slice(&bf16::from_f32(x as f32).to_le_bytes()),
        DType::F32 => bytes[..4].copy_from_slice(&(x as f32).to_le_bytes()),
        _ => bytes[..8].copy_from_slice(&x.to_le_bytes()),
    }
}

impl<D: Driver> DriverLayer for WithLibrary<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.driver
    }

    fn blas(&self) -> Option<Result<&dyn BlasLibrary<D::Memory>, &str>> {
        Some(Ok(self))
    }
}
