//! GEMMs by the vendor's BLAS library, if the driver has one.
//!
//! A library accumulates in its own order, so it only gets GEMMs whose order is unspecified: dense matrices of one dtype that
//! need not be batch-invariant. A bias is broadcast into the result first, and the library accumulates onto it before it
//! rounds; an activation is a launch of its own. Where the library does not support a GEMM, or lacks workspace, the engine's
//! kernels are used.

mod parts;
mod proof;

use super::Engine;
use super::memory::Memory;
use super::stream_sync::{Submission, Use};
use crate::driver::{BlasLibrary, GemmOutcome};
use crate::plan::Request;
use crate::{Driver, family};
use parts::Parts;
use rustorch_core::{CopyOp, DType, Fault, Layout, MatMul, Op, TensorMeta, UnaryOp, packed_bytes};
use std::sync::OnceLock;

/// The dtypes that go to a library. Complex numbers stay: libraries save multiplications of them at the price of the smaller
/// part's last places.
const DTYPES: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

/// What was found of each of [`DTYPES`]: nothing yet, that it is right, or what is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Proofs([OnceLock<Result<(), String>>; DTYPES.len()]);

/// What takes memory that the engine's kernels do without; `None` where there is too little.
fn if_it_fits<T>(result: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match result {
        Err(Fault::OutOfMemory { .. }) => Ok(None),
        other => other.map(Some),
    }
}

/// Whether a library may do an operation.
fn allowed(op: &MatMul, args: &[TensorMeta<'_>]) -> bool {
    let [dtype, other] = [args[0].dtype, args[1].dtype];
    // A function of a sum that is rounded to 16 bits before may be far from one of the sum.
    let function = match op.activation {
        None | Some(UnaryOp::Relu) => true,
        Some(_) => matches!(dtype, DType::F32 | DType::F64),
    };
    op.allows_reassociation(dtype, other) && function && DTYPES.contains(&dtype)
}

impl<D: Driver> Engine<D> {
    /// Has the library do an operation, if it is a matmul and the library takes it. Whatever stands in the results otherwise
    /// is of no use.
    pub(super) fn multiply(
        &self,
        submission: &Submission<'_>,
        request: &Request<'_>,
        args: &[&Memory<D>],
        outs: &[&Memory<D>],
    ) -> Result<bool, Fault> {
        let Op::MatMul(op) = request.op else { return Ok(false) };
        if !allowed(op, request.args) {
            return Ok(false);
        }
        let Some(Ok(library)) = self.driver().blas() else { return Ok(false) };
        let [a, b, out] = [request.args[0].layout, request.args[1].layout, request.outs[0].layout];
        let dtype = request.outs[0].dtype;
        let Some(parts) = Parts::of(dtype, [a, b, out]) else { return Ok(false) };
        if !library.takes(&parts.product) || !self.proven(library, dtype)? {
            return Ok(false);
        }
        let target = (&request.outs[0], outs[0]);
        let Some(activation) = op.activation else {
            return self.multiply_into(submission, request.args, args, parts, library, target);
        };
        let contiguous = Layout::contiguous(out.shape().clone());
        let Some(parts) = Parts::of(dtype, [a, b, &contiguous]) else { return Ok(false) };
        let scratch = self.take_scratch(submission, packed_bytes(dtype, contiguous.numel()));
        // The engine's kernels need none.
        let Some((size, memory)) = if_it_fits(scratch)? else { return Ok(false) };
        let sums = (&TensorMeta { layout: &contiguous, ..request.outs[0] }, &memory);
        let result = self.multiply_into(submission, request.args, args, parts, library, sums);
        let result = match result {
            Ok(true) => self.follow(submission, &Op::Unary(activation), sums, target),
            other => other,
        };
        self.give_scratch(submission, [(size, memory)]);
        result
    }

    /// Matmuls and bias into a result's memory.
    fn multiply_into(
        &self,
        submission: &Submission<'_>,
        metas: &[TensorMeta<'_>],
        args: &[&Memory<D>],
        mut parts: Parts,
        library: &dyn BlasLibrary<D::Memory>,
        (to, out): (&TensorMeta<'_>, &Memory<D>),
    ) -> Result<bool, Fault> {
        if let Some(bias) = metas.get(2) {
            let Ok(layout) = bias.layout.broadcast_to(to.layout.shape(), "matmul") else { return Ok(false) };
            let repeated = TensorMeta { layout: &layout, ..*bias };
            if !self.follow(submission, &Op::Copy(CopyOp), (&repeated, args[2]), (to, out))? {
                return Ok(false);
            }
            parts.product.accumulate = true;
        }
        let history = || {
            let read = args[..2].iter().map(|memory| -> Use<'_> { (&memory.history, false) });
            read.chain([(&out.history, true)])
        };
        submission.before(history(), |stream, other| self.driver().wait(stream, other))?;
        let mut calls = parts.starts.iter().map(|&[a, b, to]| {
            let [a, b] = [(args[0].raw(), a), (args[1].raw(), b)];
            library.multiply(&parts.product, a, b, (out.raw(), to))
        });
        let result = calls.try_fold(true, |all, call| Ok(all && call? == GemmOutcome::Given));
        // Of several calls, some may be on their way.
        submission.after(history());
        result
    }

    /// One operation of one argument, by the engine's kernels. Whether there are any.
    fn follow(
        &self,
        submission: &Submission<'_>,
        op: &Op,
        (from, source): (&TensorMeta<'_>, &Memory<D>),
        (to, target): (&TensorMeta<'_>, &Memory<D>),
    ) -> Result<bool, Fault> {
        let (args, outs) = (std::slice::from_ref(from), std::slice::from_ref(to));
        let Ok(plan) = family::plan(&Request::new(op, args, outs, &self.hardware)) else { return Ok(false) };
        self.launch(submission, op, &plan, &[source], &[target])?;
        Ok(true)
    }

    /// Whether the library computes GEMMs of a dtype as it should on this device. Found out at the first one for which there
    /// is the memory to.
    fn proven(&self, library: &dyn BlasLibrary<D::Memory>, dtype: DType) -> Result<bool, Fault> {
        let Some(i) = DTYPES.iter().position(|&known| known == dtype) else { return Ok(false) };
        let proof = &self.proofs.0[i];
        if let Some(found) = proof.get() {
            return Ok(found.is_ok());
        }
        // Two threads may find out at once, and will find the same.
        let Some(found) = if_it_fits(proof::of(self.driver(), library, dtype))?.flatten() else {
            return Ok(false);
        };
        let (device, name) = (self.hardware.device, library.name());
        match &found {
            Ok(()) => tracing::debug!(%device, %dtype, "matmuls by {name}"),
            Err(why) => tracing::warn!(%device, %dtype, "matmuls not by {name}: {why}"),
        }
        Ok(proof.get_or_init(|| found).is_ok())
    }

    /// What became of the library, in sentences for people. Proves what was not used yet.
    pub(super) fn remarks_on_blas(&self) -> Vec<String> {
        // The proof is work, and needs streams that stay.
        let _turn = self.shared.sync.submission();
        let library = match self.driver().blas() {
            None => return Vec::new(),
            Some(Err(why)) => return vec![why.to_owned()],
            Some(Ok(library)) => library,
        };
        let mut used = Vec::new();
        let mut remarks = Vec::new();
        for (dtype, proof) in DTYPES.iter().zip(&self.proofs.0) {
            match self.proven(library, *dtype) {
                Ok(true) => used.push(dtype.to_string()),
                Ok(false) => {
                    let wrong = proof.get().and_then(|found| found.as_ref().err());
                    let why = wrong.map_or("there is no memory to try it at present", String::as_str);
                    remarks.push(format!("matmuls of {dtype} matrices are not by {}: {why}", library.name()));
                }
                Err(fault) => {
                    remarks.push(format!("matmuls of {dtype} matrices cannot be tried: {fault}"));
                }
            }
        }
        if !used.is_empty() {
            remarks.insert(0, format!("matmuls of {} matrices by {}", used.join(", "), library.name()));
        }
        remarks
    }
}
