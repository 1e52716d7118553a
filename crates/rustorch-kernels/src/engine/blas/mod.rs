//! GEMMs by the vendor's BLAS library, if the driver has one.
//!
//! A library accumulates in its own order, so it only gets GEMMs whose order is unspecified: dense matrices that need not be
//! batch-invariant, of one dtype; or many rows of `f32` activations with a weight of 16 bits, to whose dtype they are rounded
//! first, as [`Numerics::Ggml`] says. A bias is broadcast into the result first, and the library accumulates onto it before it
//! rounds; an activation is a launch of its own. Where the library does not support a GEMM, or lacks workspace, the engine's
//! kernels are used.

mod parts;
mod proof;

use super::Engine;
use super::memory::Memory;
use super::run::Planned;
use super::stream_sync::{Submission, Use};
use crate::driver::{BlasLibrary, GemmOutcome};
use crate::plan::Request;
use crate::{Driver, family};
use parts::Parts;
use rustorch_core::{Cast, CopyOp, DType, Fault, Layout, MatMul, Op, TensorMeta, UnaryOp, packed_bytes};
use smallvec::SmallVec;
use std::sync::OnceLock;

/// The dtypes of a GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GemmDTypes {
    factors: DType,
    result: DType,
}

impl GemmDTypes {
    const fn of(factors: DType, result: DType) -> GemmDTypes {
        GemmDTypes { factors, result }
    }

    /// In words for people: those of the operands.
    fn label(self) -> String {
        match self {
            GemmDTypes { factors, result } if factors == result => factors.to_string(),
            GemmDTypes { factors, result } => format!("{result} by {factors}"),
        }
    }
}

/// The dtypes that go to a library. Complex numbers stay: libraries save multiplications of them at the price of the smaller
/// part's last places.
const DTYPES: [GemmDTypes; 6] = [
    GemmDTypes::of(DType::F16, DType::F16),
    GemmDTypes::of(DType::BF16, DType::BF16),
    GemmDTypes::of(DType::F32, DType::F32),
    GemmDTypes::of(DType::F64, DType::F64),
    GemmDTypes::of(DType::F16, DType::F32),
    GemmDTypes::of(DType::BF16, DType::F32),
];

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

/// The dtypes in which a library may do an operation; `None` if it may not.
fn allowed(op: &MatMul, args: &[TensorMeta<'_>]) -> Option<GemmDTypes> {
    let [x, w] = [args[0].dtype, args[1].dtype];
    let dtypes = if x == DType::F32 && matches!(w, DType::F16 | DType::BF16) {
        // Few rows have a kernel, which rounds them as it reads the weight.
        let rows = args[0].dims()[args[0].dims().len() - 2];
        let free = op.numerics.rounds_activations() && !op.batch_invariant && rows > family::matvec::FEW;
        free.then_some(GemmDTypes::of(w, x))
    } else {
        // A function of a sum that is rounded to 16 bits before may be far from one of the sum.
        let function = match op.activation {
            None | Some(UnaryOp::Relu) => true,
            Some(_) => matches!(x, DType::F32 | DType::F64),
        };
        (op.allows_reassociation(x, w) && function).then_some(GemmDTypes::of(x, x))
    };
    dtypes.filter(|dtypes| DTYPES.contains(dtypes))
}

impl<D: Driver> Engine<D> {
    /// Whether the library might do an operation.
    pub(super) fn may_multiply(&self, request: &Request<'_>) -> bool {
        matches!(request.op, Op::MatMul(op) if allowed(op, request.args).is_some())
            && matches!(self.driver().blas(), Some(Ok(_)))
    }

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
        let Some(dtypes) = allowed(op, request.args) else { return Ok(false) };
        let Some(Ok(library)) = self.driver().blas() else { return Ok(false) };
        let rounds = request.args[0].dtype != dtypes.factors;
        let packed = Layout::contiguous(request.args[0].layout.shape().clone());
        let a = if rounds { &packed } else { request.args[0].layout };
        let [b, out] = [request.args[1].layout, request.outs[0].layout];
        let Some(parts) = Parts::of(dtypes, [a, b, out]) else { return Ok(false) };
        if !library.takes(&parts.product) || !self.proven(library, dtypes)? {
            return Ok(false);
        }
        let target = (&request.outs[0], outs[0]);
        if !rounds {
            return self.multiply_and_apply(
                submission,
                op,
                (request.args, args),
                (dtypes, parts),
                library,
                target,
            );
        }
        let scratch = self.take_scratch(submission, packed_bytes(dtypes.factors, packed.numel()));
        // The engine's kernels need none.
        let Some((size, memory)) = if_it_fits(scratch)? else { return Ok(false) };
        let rounded = TensorMeta { dtype: dtypes.factors, layout: &packed, ..request.args[0] };
        let mut metas = SmallVec::<[TensorMeta<'_>; 3]>::from_slice(request.args);
        let mut memories = SmallVec::<[&Memory<D>; 3]>::from_slice(args);
        let cast = Op::Cast(Cast { to: dtypes.factors });
        let mut result = self.follow(submission, &cast, (&request.args[0], args[0]), (&rounded, &memory));
        if matches!(result, Ok(true)) {
            (metas[0], memories[0]) = (rounded, &memory);
            result = self.multiply_and_apply(
                submission,
                op,
                (&metas, &memories),
                (dtypes, parts),
                library,
                target,
            );
        }
        drop(memories);
        self.give_scratch(submission, [(size, memory)]);
        result
    }

    /// Matmuls of factors of the library's dtypes, bias, and the operation's activation.
    fn multiply_and_apply(
        &self,
        submission: &Submission<'_>,
        op: &MatMul,
        (metas, args): (&[TensorMeta<'_>], &[&Memory<D>]),
        (dtypes, parts): (GemmDTypes, Parts),
        library: &dyn BlasLibrary<D::Memory>,
        target: (&TensorMeta<'_>, &Memory<D>),
    ) -> Result<bool, Fault> {
        let Some(activation) = op.activation else {
            return self.multiply_into(submission, metas, args, parts, library, target);
        };
        let [a, b, out] = [metas[0].layout, metas[1].layout, target.0.layout];
        let contiguous = Layout::contiguous(out.shape().clone());
        let Some(parts) = Parts::of(dtypes, [a, b, &contiguous]) else { return Ok(false) };
        let scratch = self.take_scratch(submission, packed_bytes(dtypes.result, contiguous.numel()));
        let Some((size, memory)) = if_it_fits(scratch)? else { return Ok(false) };
        let sums = (&TensorMeta { layout: &contiguous, ..*target.0 }, &memory);
        let result = self.multiply_into(submission, metas, args, parts, library, sums);
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
        self.launch(submission, &Planned { op, plan: &plan, kept: None }, &[source], &[target])?;
        Ok(true)
    }

    /// Whether the library computes GEMMs of a dtype as it should on this device. Found out at the first one for which there
    /// is the memory to.
    fn proven(&self, library: &dyn BlasLibrary<D::Memory>, dtypes: GemmDTypes) -> Result<bool, Fault> {
        let Some(i) = DTYPES.iter().position(|&known| known == dtypes) else { return Ok(false) };
        let proof = &self.proofs.0[i];
        if let Some(found) = proof.get() {
            return Ok(found.is_ok());
        }
        // Two threads may find out at once, and will find the same.
        let Some(found) = if_it_fits(proof::of(self.driver(), library, dtypes))?.flatten() else {
            return Ok(false);
        };
        let (device, name, dtypes) = (self.hardware.device, library.name(), dtypes.label());
        match &found {
            Ok(()) => tracing::debug!(%device, %dtypes, "matmuls by {name}"),
            Err(why) => tracing::warn!(%device, %dtypes, "matmuls not by {name}: {why}"),
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
        for (&dtypes, proof) in DTYPES.iter().zip(&self.proofs.0) {
            let label = dtypes.label();
            match self.proven(library, dtypes) {
                Ok(true) => used.push(label),
                Ok(false) => {
                    let wrong = proof.get().and_then(|found| found.as_ref().err());
                    let why = wrong.map_or("there is no memory to try it at present", String::as_str);
                    remarks.push(format!("matmuls of {label} matrices are not by {}: {why}", library.name()));
                }
                Err(fault) => {
                    remarks.push(format!("matmuls of {label} matrices cannot be tried: {fault}"));
                }
            }
        }
        if !used.is_empty() {
            remarks.insert(0, format!("matmuls of {} matrices by {}", used.join(", "), library.name()));
        }
        remarks
    }
}
