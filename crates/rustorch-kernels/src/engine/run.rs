//! Running an operation: plan, memory for the plan, launches.

use super::Engine;
use super::kept::Key;
use super::memory::{Memory, Piece};
use super::order::{Turn, Use};
use crate::plan::{Binding, Operand, Place, Plan, Request};
use crate::{Driver, Launch, Window, family};
use rustorch_core::{Decline, Fault, Layout, Op, TensorMeta, View, ViewMut, packed_bytes};
use smallvec::SmallVec;

/// A result that kernels cannot write where it belongs: it is made in temporary memory and copied.
struct Detour<D: Driver> {
    size: usize,
    memory: Memory<D>,
    layout: Layout,
}

/// Temporary memory of a plan.
struct Scratch<D: Driver> {
    piece: Piece<D>,
    /// Of all steps that write it, where what they make is kept.
    key: Option<Key>,
    /// Whether the steps are done already.
    made: bool,
}

impl<D: Driver> Engine<D> {
    pub(super) fn run_planned(
        &self,
        op: &Op,
        args: &[View<'_>],
        outs: &mut [ViewMut<'_>],
    ) -> Result<(), Fault> {
        if outs.iter().all(|out| out.layout().elements() == 0) {
            return Ok(());
        }
        let device = self.hardware.device;
        let turn = self.shared.order.turn();
        let metas: SmallVec<[TensorMeta<'_>; 4]> =
            args.iter().map(|x| TensorMeta { dtype: x.dtype(), layout: x.layout(), device }).collect();
        let memories: SmallVec<[&Memory<D>; 4]> =
            args.iter().map(|x| self.memory(x.buffer())).collect::<Result<_, Fault>>()?;
        let detours: SmallVec<[Option<Detour<D>>; 2]> =
            outs.iter().map(|out| self.detour(&turn, op, out, args)).collect::<Result<_, Fault>>()?;
        let out_metas: SmallVec<[TensorMeta<'_>; 2]> = outs
            .iter()
            .zip(&detours)
            .map(|(out, detour)| TensorMeta {
                dtype: out.dtype(),
                layout: detour.as_ref().map_or(out.layout(), |detour| &detour.layout),
                device,
            })
            .collect();
        let out_memories: SmallVec<[&Memory<D>; 2]> = outs
            .iter()
            .zip(&detours)
            .map(|(out, detour)| match detour {
                Some(detour) => Ok(&detour.memory),
                None => self.memory(out.buffer()),
            })
            .collect::<Result<_, Fault>>()?;

        let request = Request::new(op, &metas, &out_metas, &self.hardware);
        if !self.multiply(&turn, &request, &memories, &out_memories)? {
            let plan = family::plan(&request).map_err(|decline| self.surprise(op, &decline))?;
            self.launch(&turn, op, &plan, &memories, &out_memories)?;
        }

        for (out, detour) in outs.iter().zip(&detours) {
            if let Some(detour) = detour {
                self.leave_detour(&turn, op, detour, out)?;
            }
        }
        drop((out_memories, out_metas));
        let pieces = detours.into_iter().flatten().map(|detour| (detour.size, detour.memory));
        self.give_scratch(&turn, pieces);
        Ok(())
    }

    /// Temporary memory for a result that shares words with other data, has gaps, or lies in an argument's buffer.
    fn detour(
        &self,
        turn: &Turn<'_>,
        op: &Op,
        out: &ViewMut<'_>,
        args: &[View<'_>],
    ) -> Result<Option<Detour<D>>, Fault> {
        // Copies write anywhere.
        let direct = out.layout().elements() == 0
            || (*op == Op::Copy || writes_directly(out) || self.writes_rows(op, out))
                && !args.iter().any(|arg| std::ptr::eq(arg.buffer(), out.buffer()));
        if direct {
            return Ok(None);
        }
        let bytes = packed_bytes(out.dtype(), out.layout().elements());
        let (size, memory) = self.take_scratch(turn, bytes)?;
        Ok(Some(Detour { size, memory, layout: Layout::contiguous(out.layout().shape().clone()) }))
    }

    /// Whether kernels of an operation write rows with gaps between them where they belong.
    fn writes_rows(&self, op: &Op, out: &ViewMut<'_>) -> bool {
        let place = Operand { place: Place::Out(0), dtype: out.dtype(), layout: out.layout() };
        family::writes_rows(op, &place, &self.hardware)
    }

    /// Brings a result from where it was made to where it belongs.
    fn leave_detour(
        &self,
        turn: &Turn<'_>,
        op: &Op,
        detour: &Detour<D>,
        out: &ViewMut<'_>,
    ) -> Result<(), Fault> {
        let source = Operand { place: Place::Arg(0), dtype: out.dtype(), layout: &detour.layout };
        let target = Operand { place: Place::Out(0), dtype: out.dtype(), layout: out.layout() };
        let mut plan = Plan::default();
        family::copy::plan(&mut plan, &self.hardware, &source, &target)
            .map_err(|decline| self.surprise(op, &decline))?;
        self.launch(turn, op, &plan, &[&detour.memory], &[self.memory(out.buffer())?])
    }

    /// A plan that `supports` promised and that fails all the same: an error of this crate, which the executor can live
    /// with.
    fn surprise(&self, op: &Op, decline: &Decline) -> Fault {
        Fault::Backend {
            device: self.hardware.device,
            message: format!("{}: {decline}, which planning did not foresee", op.name()),
        }
    }

    /// Gives a plan's kernels to this thread's stream, after what must come before them on others.
    pub(super) fn launch(
        &self,
        turn: &Turn<'_>,
        op: &Op,
        plan: &Plan,
        args: &[&Memory<D>],
        outs: &[&Memory<D>],
    ) -> Result<(), Fault> {
        let scratch = self.scratch(turn, plan, args)?;
        let mut bindings = plan.steps.iter().flat_map(|step| &step.bindings);
        let notes = bindings.any(|binding| binding.place == Place::Mistakes).then(|| self.notes.memory(turn));
        let uses = || -> _ {
            let written =
                outs.iter().copied().chain(scratch.iter().map(|scratch| &scratch.piece.1)).chain(notes);
            let written = written.map(|memory| -> Use<'_> { (&memory.uses, true) });
            args.iter().map(|memory| -> Use<'_> { (&memory.uses, false) }).chain(written)
        };
        turn.before(uses(), |stream, other| self.driver().wait(stream, other))?;
        let result = self.launch_steps(op, plan, args, outs, &scratch, notes);
        // Of a plan that has failed half, some kernels may be on their way.
        let point = turn.after(uses());
        if notes.is_some() {
            self.notes.suspect(turn, point);
        }
        let whole = result.is_ok();
        let spare = scratch.into_iter().filter_map(|Scratch { piece, key, .. }| match key {
            Some(key) if whole => self.kept.put(turn, key, piece),
            _ => Some(piece),
        });
        self.give_scratch(turn, spare);
        result
    }

    /// Memory for a plan, some of which may hold what it is to hold.
    fn scratch(
        &self,
        turn: &Turn<'_>,
        plan: &Plan,
        args: &[&Memory<D>],
    ) -> Result<SmallVec<[Scratch<D>; 2]>, Fault> {
        let take = |(&bytes, key): (&usize, Option<Key>)| {
            let found = key.as_ref().and_then(|key| self.kept.take(turn, key));
            let made = found.is_some();
            let piece = found.map_or_else(|| self.take_scratch(turn, bytes), Ok)?;
            Ok(Scratch { piece, key, made })
        };
        plan.scratch.iter().zip(Key::of_plan(plan, args)).map(take).collect()
    }

    fn launch_steps(
        &self,
        op: &Op,
        plan: &Plan,
        args: &[&Memory<D>],
        outs: &[&Memory<D>],
        scratch: &[Scratch<D>],
        notes: Option<&Memory<D>>,
    ) -> Result<(), Fault> {
        let made = |binding: &Binding| {
            binding.writes && matches!(binding.place, Place::Scratch(i) if scratch[i].made)
        };
        for step in &plan.steps {
            if step.bindings.iter().any(made) {
                continue;
            }
            let kernel = self.kernel(&step.kernel)?;
            let window = |binding: &Binding| {
                let memory = match binding.place {
                    Place::Arg(i) => args[i],
                    Place::Out(i) => outs[i],
                    Place::Scratch(i) => &scratch[i].piece.1,
                    Place::Mistakes => notes.expect("asked for where a step has them"),
                };
                let &Binding { start, end, writes, .. } = binding;
                Window { memory: memory.raw(), start, bytes: end - start, writes }
            };
            let buffers: SmallVec<[Window<'_, D::Memory>; 6]> = step.bindings.iter().map(window).collect();
            self.driver().launch(&Launch {
                kernel: &*kernel,
                buffers: &buffers,
                parameters: &step.parameters,
                groups: step.groups,
                label: op.name(),
            })?;
        }
        Ok(())
    }
}

/// Whether kernels, which write whole words, may write a result where it belongs.
fn writes_directly(out: &ViewMut<'_>) -> bool {
    let Some(range) = super::byte_range(out.dtype(), out.layout()) else { return false };
    range.start.is_multiple_of(4) && (range.end.is_multiple_of(4) || range.end == out.buffer().bytes())
}
