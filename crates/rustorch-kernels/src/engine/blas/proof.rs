//! Verification of a vendor's BLAS library, once for each of the dtypes of factors and results, before its results are used.
//!
//! A small GEMM is compared with `f64` on the CPU, within the tolerances of the conformance suite. Its factors use every digit
//! of their dtype, so a library that rounds them further (TF32 tensor cores), reads another layout, accumulates onto what it
//! should overwrite, or writes between rows is detected.

use super::GemmDTypes;
use crate::Driver;
use crate::driver::{BatchedGemm, BlasLibrary, GemmOutcome, MatrixBatch};
use rustorch_core::{DType, Fault, bf16, f16};

const BATCH: usize = 2;
const M: usize = 40;
const N: usize = 24;
const K: usize = 64;
/// Elements between the rows of a result.
const GAP: usize = 8;

/// Both ways in which factors may lie, and both in which results are made.
fn gemms(dtypes: GemmDTypes) -> [BatchedGemm; 2] {
    let matrices = |rows: usize, columns: usize, transposed: bool, gap: usize| {
        let (lines, len) = if transposed { (columns, rows) } else { (rows, columns) };
        MatrixBatch { pitch: len + gap, transposed, step: lines * (len + gap) }
    };
    [(false, true, true), (true, false, false)].map(|(left, right, accumulate)| BatchedGemm {
        dtype: dtypes.factors,
        out_dtype: dtypes.result,
        m: M,
        n: N,
        k: K,
        batch: BATCH,
        a: matrices(M, K, left, 0),
        b: matrices(K, N, right, 0),
        out: matrices(M, N, false, GAP),
        accumulate,
    })
}

/// What is wrong with the library's GEMMs of these dtypes, if anything is; `None` if that cannot be found out now.
///
/// # Errors
/// Those of the driver's memory and of the device: they tell nothing of the library.
pub(super) fn of<D: Driver>(
    driver: &D,
    library: &dyn BlasLibrary<D::Memory>,
    dtypes: GemmDTypes,
) -> Result<Option<Result<(), String>>, Fault> {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    for product in gemms(dtypes) {
        let BatchedGemm { a, b, out, dtype, out_dtype, .. } = product;
        let mut fill =
            |dtype, len: usize| (0..len).map(|_| rounded(dtype, numbers.next())).collect::<Vec<f64>>();
        let (left, right) = (fill(dtype, a.extent(M, K, BATCH)), fill(dtype, b.extent(K, N, BATCH)));
        let before = match product.accumulate {
            true => fill(out_dtype, BATCH * out.step),
            // Whoever adds to this is found out.
            false => vec![f64::NAN; BATCH * out.step],
        };
        let left_memory = memory(driver, dtype, &left)?;
        let right_memory = memory(driver, dtype, &right)?;
        let out_memory = memory(driver, out_dtype, &before)?;
        match library.multiply(&product, (&left_memory, 0), (&right_memory, 0), (&out_memory, 0))? {
            GemmOutcome::Given => {}
            GemmOutcome::Refused => return Ok(Some(Err("it has none".to_owned()))),
            GemmOutcome::NotNow => return Ok(None),
        }
        let size = out_dtype.block_bytes();
        let mut bytes = vec![0; (before.len() * size).next_multiple_of(4)];
        driver.read(&out_memory, 0, &mut bytes)?;
        let after: Vec<f64> = bytes.chunks_exact(size).map(|bytes| decoded(out_dtype, bytes)).collect();
        if let Some(why) = difference(&product, [&left, &right, &before], &after) {
            return Ok(Some(Err(why)));
        }
    }
    Ok(Some(Ok(())))
}

/// How results differ from what they should be, if they do.
fn difference(product: &BatchedGemm, [left, right, before]: [&[f64]; 3], after: &[f64]) -> Option<String> {
    let BatchedGemm { out_dtype, a, b, out, .. } = product;
    let unit = match out_dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        DType::F32 => 2f64.powi(-24),
        _ => 2f64.powi(-53),
    };
    let same = |x: f64, y: f64| x == y || x.is_nan() && y.is_nan();
    for matrix in 0..BATCH {
        for row in 0..M {
            for column in 0..N {
                let at = out.at(matrix, row, column);
                let start = if product.accumulate { before[at] } else { 0.0 };
                let want = (0..K).fold(start, |sum, i| {
                    left[a.at(matrix, row, i)].mul_add(right[b.at(matrix, i, column)], sum)
                });
                // Not the other way round, since a NaN is near nothing.
                let near = (after[at] - want).abs() <= 32.0 * unit + 64.0 * unit * want.abs();
                if !near {
                    return Some(format!("it gives {:e} where {want:e} is right", after[at]));
                }
            }
            let between = out.at(matrix, row, N);
            if (between..between + GAP).any(|at| !same(before[at], after[at])) {
                return Some("it writes between the rows of a result".to_owned());
            }
        }
    }
    None
}

/// Irregular numbers between −1 and 1.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // 53 bits, as many as the widest dtype keeps.
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

fn rounded(dtype: DType, x: f64) -> f64 {
    decoded(dtype, &encoded(dtype, x))
}

fn encoded(dtype: DType, x: f64) -> Vec<u8> {
    match dtype {
        DType::F16 => f16::from_f64(x).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f64(x).to_le_bytes().to_vec(),
        DType::F32 => (x as f32).to_le_bytes().to_vec(),
        _ => x.to_le_bytes().to_vec(),
    }
}

fn decoded(dtype: DType, bytes: &[u8]) -> f64 {
    match (dtype, bytes) {
        (DType::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f64(),
        (DType::BF16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f64(),
        (DType::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]).into(),
        (_, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => f64::NAN,
    }
}

/// New memory with these numbers.
fn memory<D: Driver>(driver: &D, dtype: DType, values: &[f64]) -> Result<D::Memory, Fault> {
    let mut bytes: Vec<u8> = values.iter().flat_map(|&x| encoded(dtype, x)).collect();
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    let memory = driver.allocate(bytes.len())?;
    driver.write(&memory, 0, &bytes)?;
    Ok(memory)
}
