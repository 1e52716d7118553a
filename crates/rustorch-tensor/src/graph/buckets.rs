//! Buckets of a compiled function: numbers of rows to which arguments are padded, so that few programs serve all.

use super::Program;
use crate::Tensor;
use rustorch_core::{DType, DTypeKind, Error, Result};

/// Numbers of rows, in order.
#[derive(Debug)]
pub(super) struct Buckets(Vec<usize>);

/// Arguments that were padded.
pub(super) struct Padded {
    pub(super) inputs: Vec<Tensor>,
    rows: usize,
    bucket: usize,
}

fn refused(message: String) -> Error {
    Error::argument("compile", message)
}

impl Buckets {
    pub(super) fn new(sizes: &[usize]) -> Result<Buckets> {
        let is_ordered = sizes.windows(2).all(|pair| pair[0] < pair[1]);
        match sizes.first() {
            Some(&first) if first > 0 && is_ordered => Ok(Buckets(sizes.to_vec())),
            _ => Err(refused(format!(
                "buckets are numbers of rows from 1 on in ascending order, not {sizes:?}"
            ))),
        }
    }

    /// Arguments of as many rows as a bucket has; `None` where they have these, none, or more than the largest.
    pub(super) fn pad(&self, inputs: &[&Tensor]) -> Result<Option<Padded>> {
        let of = |x: &Tensor| x.dims().first().copied();
        let Some(rows) = inputs.first().and_then(|x| of(x)) else {
            return Err(refused(
                "a function with buckets takes tensors whose first dimension are rows".to_owned(),
            ));
        };
        if let Some(i) = inputs.iter().position(|x| of(x) != Some(rows)) {
            let dims = inputs[i].dims();
            return Err(refused(format!(
                "a function with buckets takes tensors with as many rows each: input 0 has {rows}, input {i} is of shape {dims:?}"
            )));
        }
        let Some(&bucket) = self.0.iter().find(|&&bucket| bucket >= rows) else { return Ok(None) };
        if rows == 0 || rows == bucket {
            return Ok(None);
        }
        // The last row is one that the function takes, which zeros need not be.
        let pad = |x: &&Tensor| -> Result<Tensor> {
            let mut dims = x.dims().to_vec();
            dims[0] = bucket - rows;
            let last = x.detach().narrow(0, rows - 1, 1)?.expand(dims)?;
            Tensor::cat(&[x.detach(), last], 0)
        };
        Ok(Some(Padded { inputs: inputs.iter().map(pad).collect::<Result<_>>()?, rows, bucket }))
    }
}

impl Padded {
    /// How many rows were added.
    pub(super) fn padding(&self) -> usize {
        self.bucket - self.rows
    }

    /// Refuses programs that do more than to compute results: a run of more rows would do it otherwise.
    pub(super) fn check_program(&self, program: &Program) -> Result<()> {
        let more = [
            (!program.graph().draws.is_empty(), "draws random numbers"),
            (!program.graph().states.is_empty(), "writes tensors in place"),
            (program.changes_gradients(), "changes gradients"),
            (program.uses_host_state(), "uses numbers in Rust"),
        ];
        match more.into_iter().find(|(does, _)| *does) {
            Some((_, what)) => Err(refused(format!(
                "the function {what}, which it would do otherwise for padded rows: compile it without buckets"
            ))),
            None => Ok(()),
        }
    }

    /// The results without the rows that were added.
    pub(super) fn cut(&self, results: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let cut = |(i, result): (usize, Tensor)| {
            if result.dims().first() != Some(&self.bucket) {
                let (bucket, dims) = (self.bucket, result.dims());
                return Err(refused(format!(
                    "result {i} is of shape {dims:?} for {bucket} rows: it has no row for each of the arguments', so that the \
                     function cannot have buckets"
                )));
            }
            result.narrow(0, 0, self.rows)
        };
        results.into_iter().enumerate().map(cut).collect()
    }

    /// Refuses results that differ from those without padding.
    pub(super) fn check(&self, results: &[Tensor], expected: &[Tensor]) -> Result<()> {
        for (i, (got, want)) in results.iter().zip(expected).enumerate() {
            if got.dims() != want.dims() || !agrees(got, want)? {
                return Err(refused(format!(
                    "result {i} of {} rows differs when they are padded to {}: rows are not independent of each other, so that the \
                     function cannot have buckets",
                    self.rows, self.bucket
                )));
            }
        }
        Ok(())
    }
}

/// Whether results are equal but for the order of sums, which may depend on the number of rows.
fn agrees(got: &Tensor, want: &Tensor) -> Result<bool> {
    let unit = match want.dtype() {
        DType::F16 | DType::BF16 => 2e-2,
        DType::F32 | DType::C64 => 1e-4,
        _ => 1e-9,
    };
    let largest = match want.dtype().kind() {
        DTypeKind::Float | DTypeKind::Complex => {
            let sizes = want.abs()?.to_dtype(DType::F64)?.to_vec::<f64>()?;
            sizes.into_iter().filter(|x| x.is_finite()).fold(0.0, f64::max)
        }
        _ => 0.0,
    };
    got.allclose(want, unit, unit * largest, true)
}
