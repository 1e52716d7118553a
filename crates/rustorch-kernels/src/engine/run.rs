//! Running an operation: plan, scratch memory, launches.

use super::Engine;
use super::memory::{Memory, SizedMemory};
use super::prepared::Kept;
use super::scratch_cache::Key;
use super::stream_sync::{Submission, Use};
use crate::family::Plan;
use crate::library::strided::byte_range;
use crate::plan::{Binding, Operand, Place, Request};
use crate::{BufferBinding, Driver, Launch, family, splitting};
use rustorch_core::{CopyOp, Decline, Fault, Layout, Op, TensorMeta, View, ViewMut, packed_bytes};
use smallvec::SmallVec;
use std::sync::Arc;

/// An operation whose launches are planned.
pub(super) struct Planned<'a, D: Driver> {
    pub(super) op: &'a Op,
    pub(super) plan: &'a Plan,
    /// What is kept of earlier runs, if it was prepared.
    pub(super) kept: Option<&'a Kept<D>>,
}

/// A result that kernels cannot write in place: it is computed in scratch memory and copied.
struct StagedOutput<D: Driver> {
    size: usize,
    memory: Memory<D>,
    layout: Layout,
}

/// A scratch buffer of a plan.
struct Scratch<D: Driver> {
    piece: SizedMemory<D>,
    /// The cache key of the steps that write it, if their result is cached.
    key: Option<Key>,
    /// Whether it was found in the cache.
    made: bool,
}

impl<D: Driver> Engine<D> {
    pub(super) fn run_planned(
        &self,
        op: &Op,
        args: &[View<'_>],
        outs: &mut [ViewMut<'_>],
    ) -> Result<(), Fault> {
        if outs.iter().all(|out| out.layout().numel() == 0) {
            return Ok(());
        }
        let device = self.hardware.device;
        let submission = self.shared.sync.submission();
        let metas: SmallVec<[TensorMeta<'_>; 4]> =
            args.iter().map(|x| TensorMeta { dtype: x.dtype(), layout: x.layout(), device }).collect();
        let memories: SmallVec<[&Memory<D>; 4]> =
            args.iter().map(|x| self.memory(x.buffer())).collect::<Result<_, Fault>>()?;
        let staged_outputs: SmallVec<[Option<StagedOutput<D>>; 2]> = outs
            .iter()
            .map(|out| self.staged_output(&submission, op, out, args))
            .collect::<Result<_, Fault>>()?;
        let out_metas: SmallVec<[TensorMeta<'_>; 2]> = outs
            .iter()
            .zip(&staged_outputs)
            .map(|(out, staged_output)| TensorMeta {
                dtype: out.dtype(),
                layout: staged_output.as_ref().map_or(out.layout(), |staged_output| &staged_output.layout),
                device,
            })
            .collect();
        let out_memories: SmallVec<[&Memory<D>; 2]> = outs
            .iter()
            .zip(&staged_outputs)
            .map(|(out, staged_output)| match staged_output {
                Some(staged_output) => Ok(&staged_output.memory),
                None => self.memory(out.buffer()),
            })
            .collect::<Result<_, Fault>>()?;

        // Arguments are aliased by results that are written where they belong.
        let aliased = |i: usize| {
            staged_outputs[i].is_none()
                && (0..args.len()).any(|arg| args[arg].is_aliased() && op.may_overwrite(arg, i))
        };
        let in_place: SmallVec<[bool; 4]> = match args.iter().any(View::is_aliased) {
            true => (0..outs.len()).map(aliased).collect(),
            false => SmallVec::new(),
        };
        let request = Request { in_place: &in_place, ..Request::new(op, &metas, &out_metas, &self.hardware) };
        if !self.multiply(&submission, &request, &memories, &out_memories)? {
            let plan = family::plan(&request).map_err(|decline| self.surprise(op, &decline))?;
            let planned = Planned { op, plan: &plan, kept: None };
            self.launch(&submission, &planned, &memories, &out_memories)?;
        }

        for (out, staged_output) in outs.iter().zip(&staged_outputs) {
            if let Some(staged_output) = staged_output {
                self.copy_staged_output(&submission, op, staged_output, out)?;
            }
        }
        drop((out_memories, out_metas));
        let pieces = staged_outputs
            .into_iter()
            .flatten()
            .map(|staged_output| (staged_output.size, staged_output.memory));
        self.give_scratch(&submission, pieces);
        Ok(())
    }

    /// Scratch memory for a result that shares words with other data, has gaps, or lies in an argument's buffer, unless it overwrites
    /// the argument.
    fn staged_output(
        &self,
        submission: &Submission<'_>,
        op: &Op,
        out: &ViewMut<'_>,
        args: &[View<'_>],
    ) -> Result<Option<StagedOutput<D>>, Fault> {
        let meta = TensorMeta { dtype: out.dtype(), layout: out.layout(), device: self.hardware.device };
        let direct = self.is_direct(op, &meta, out.buffer().bytes())
            && !args.iter().any(|arg| !arg.is_aliased() && std::ptr::eq(arg.buffer(), out.buffer()));
        if direct {
            return Ok(None);
        }
        let bytes = packed_bytes(out.dtype(), out.layout().numel());
        let (size, memory) = self.take_scratch(submission, bytes)?;
        Ok(Some(StagedOutput { size, memory, layout: Layout::contiguous(out.layout().shape().clone()) }))
    }

    /// Copies a staged result to its place.
    fn copy_staged_output(
        &self,
        submission: &Submission<'_>,
        op: &Op,
        staged_output: &StagedOutput<D>,
        out: &ViewMut<'_>,
    ) -> Result<(), Fault> {
        let source = Operand { place: Place::Arg(0), dtype: out.dtype(), layout: &staged_output.layout };
        let target = Operand { place: Place::Out(0), dtype: out.dtype(), layout: out.layout() };
        let mut plan = Plan::default();
        splitting::copy::plan(&mut plan, &self.hardware, &source, &target)
            .map_err(|decline| self.surprise(op, &decline))?;
        let planned = Planned { op, plan: &plan, kept: None };
        self.launch(submission, &planned, &[&staged_output.memory], &[self.memory(out.buffer())?])
    }

    /// Whether kernels write a result where it belongs, in a buffer of so many bytes.
    pub(super) fn is_direct(&self, op: &Op, out: &TensorMeta<'_>, bytes: usize) -> bool {
        // Copies write anywhere. An empty result is bound, too, where the other one has elements.
        let place = Operand { place: Place::Out(0), dtype: out.dtype, layout: out.layout };
        out.layout.numel() == 0
            || *op == Op::Copy(CopyOp)
            || writes_directly(out, bytes)
            || family::writes_rows(op, &place, &self.hardware)
    }

    /// A plan that fails although `supports` accepted the operation: a bug here, after which the executor falls back.
    fn surprise(&self, op: &Op, decline: &Decline) -> Fault {
        Fault::Backend {
            device: self.hardware.device,
            message: format!("{}: {decline}, which planning did not foresee", op.name()),
        }
    }

    /// Submits a plan's kernels to this thread's stream, after what they depend on in other streams.
    pub(super) fn launch(
        &self,
        submission: &Submission<'_>,
        planned: &Planned<'_, D>,
        args: &[&Memory<D>],
        outs: &[&Memory<D>],
    ) -> Result<(), Fault> {
        let plan = planned.plan;
        let scratch = self.scratch(submission, plan, args)?;
        let mut bindings = plan.steps.iter().flat_map(|step| &step.bindings);
        let assert_log = bindings
            .any(|binding| binding.place == Place::AssertLog)
            .then(|| self.assert_log.memory(submission));
        let history = || -> _ {
            let written =
                outs.iter().copied().chain(scratch.iter().map(|scratch| &scratch.piece.1)).chain(assert_log);
            let written = written.map(|memory| -> Use<'_> { (&memory.history, true) });
            args.iter().map(|memory| -> Use<'_> { (&memory.history, false) }).chain(written)
        };
        submission.before(history(), |stream, other| self.driver().wait(stream, other))?;
        let result = self.launch_steps(planned, args, outs, &scratch, assert_log);
        // Of a plan that has failed half, some kernels may be on their way.
        let point = submission.after(history());
        if assert_log.is_some() {
            self.assert_log.suspect(submission, point);
        }
        let whole = result.is_ok();
        let spare = scratch.into_iter().filter_map(|Scratch { piece, key, .. }| match key {
            Some(key) if whole => self.scratch_cache.put(submission, key, piece),
            _ => Some(piece),
        });
        self.give_scratch(submission, spare);
        result
    }

    /// Scratch memory of a plan, taken from the cache where possible.
    fn scratch(
        &self,
        submission: &Submission<'_>,
        plan: &Plan,
        args: &[&Memory<D>],
    ) -> Result<SmallVec<[Scratch<D>; 2]>, Fault> {
        let take = |(&bytes, key): (&usize, Option<Key>)| {
            let found = key.as_ref().and_then(|key| self.scratch_cache.take(submission, key));
            let made = found.is_some();
            let piece = found.map_or_else(|| self.take_scratch(submission, bytes), Ok)?;
            Ok(Scratch { piece, key, made })
        };
        plan.scratch.iter().zip(Key::of_plan(plan, args)).map(take).collect()
    }

    fn launch_steps(
        &self,
        &Planned { op, plan, kept }: &Planned<'_, D>,
        args: &[&Memory<D>],
        outs: &[&Memory<D>],
        scratch: &[Scratch<D>],
        assert_log: Option<&Memory<D>>,
    ) -> Result<(), Fault> {
        let made = |binding: &Binding| {
            binding.writes && matches!(binding.place, Place::Scratch(i) if scratch[i].made)
        };
        for (i, step) in plan.steps.iter().enumerate() {
            if step.bindings.iter().any(made) {
                continue;
            }
            let memory = |binding: &Binding| match binding.place {
                Place::Arg(i) => args[i],
                Place::Out(i) => outs[i],
                Place::Scratch(i) => &scratch[i].piece.1,
                Place::AssertLog => assert_log.expect("asked for where a step has them"),
            };
            let kernel = match kept {
                Some(kept) => Arc::clone(&kept.kernels(self, plan)?[i]),
                None => self.kernel(&step.kernel)?,
            };
            let cache = kept.and_then(|kept| kept.cache(i, step.bindings.iter().map(memory)));
            let window = |binding: &Binding| {
                let &Binding { start, end, writes, .. } = binding;
                BufferBinding { memory: memory(binding).raw(), start, bytes: end - start, writes }
            };
            let buffers: SmallVec<[BufferBinding<'_, D::Memory>; 6]> =
                step.bindings.iter().map(window).collect();
            let launch = Launch {
                kernel: &*kernel,
                buffers: &buffers,
                parameters: &step.parameters,
                groups: step.groups,
                label: op.name(),
                cache: cache.as_deref(),
            };
            // SAFETY: the plan was made for these operands, and with it the lengths and strides by which the kernel stays inside
            // its windows; `before` has ordered it after whoever else uses the memory.
            unsafe { self.driver().launch(&launch)? };
        }
        Ok(())
    }
}

/// Whether kernels, which write whole words, may write a result where it belongs.
fn writes_directly(out: &TensorMeta<'_>, bytes: usize) -> bool {
    let Some(range) = byte_range(out.dtype, out.layout) else { return false };
    range.start.is_multiple_of(4) && (range.end.is_multiple_of(4) || range.end == bytes)
}
