//! Planning an operation chunk by chunk.

use super::axes::SplitPlan;
use super::copy::{self, Copy};
use super::extent::{in_order, packed};
use super::{Chunk, Extent, MOST, fit, row_pitch, split_operands, too_many};
use crate::plan::{Chosen, Operand, Part, Place, Plan, Request};
use rustorch_core::{Decline, Layout, Op, TensorMeta};
use smallvec::SmallVec;

/// Plans the launches of one chunk after the other.
type Launches<K> = fn(&mut Plan<K>, &Request<'_>) -> Result<(), Decline>;

/// Whether every operand of a request fits a binding.
pub(crate) fn is_seen(request: &Request<'_>) -> bool {
    let operands: SmallVec<[Extent; 6]> = request.args.iter().chain(request.outs).map(Extent::of).collect();
    fit(&operands, request.hardware)
}

/// The operation of a chunk, if it is another than that of the whole; the first so many axes are dimensions of the result.
type Narrowed = fn(&Op, &Chunk, usize) -> Option<Op>;

/// Plans an operation that does not [fit](is_seen), calling `whole` for each chunk. Without a `way` its family splits it.
pub(crate) fn plan<K: From<Copy>>(
    plan: &mut Plan<K>,
    request: &Request<'_>,
    way: Option<SplitPlan>,
    narrowed: Narrowed,
    whole: Launches<K>,
) -> Result<(), Decline> {
    let Some(way) = way else {
        return whole(plan, request);
    };
    let mut chunks = Chunks {
        request,
        way: &way,
        narrowed,
        collected: request.args.iter().map(|_| None).collect(),
        scratch: SmallVec::new(),
        staged_outputs: request.outs.iter().map(|_| None).collect(),
    };
    for chunk in split_operands(&way.operands, &way.axes, request.hardware)? {
        chunks.add(plan, &chunk, whole)?;
        if plan.steps.len() > MOST {
            return Err(too_many());
        }
    }
    Ok(())
}

/// The chunks of a request.
struct Chunks<'a> {
    request: &'a Request<'a>,
    way: &'a SplitPlan,
    narrowed: Narrowed,
    /// Scratch buffers for staged arguments, and which part they hold.
    collected: SmallVec<[Option<(usize, Layout)>; 4]>,
    /// Scratch buffers of the family, shared by all chunks.
    scratch: SmallVec<[usize; 2]>,
    /// Scratch buffers for staged results.
    staged_outputs: SmallVec<[Option<usize>; 2]>,
}

impl Chunks<'_> {
    fn add<K: From<Copy>>(
        &mut self,
        plan: &mut Plan<K>,
        chunk: &Chunk,
        whole: Launches<K>,
    ) -> Result<(), Decline> {
        let (request, way) = (self.request, self.way);
        let (args, outs) = chunk.layouts.split_at(request.args.len());
        let chosen = self.chosen(chunk);
        let direct =
            outs.iter().zip(request.outs).zip(&chunk.staged[args.len()..]).all(|((out, all), &staged)| {
                !staged && writes_directly(request.op, out, all, chosen.is_some())
            });
        if !direct && chosen.is_some() {
            return Err(Decline::Layout(
                "chosen rows of a table larger than what kernels see at once would have gaps",
            ));
        }
        let mut places: SmallVec<[Option<Place>; 4]> = SmallVec::new();
        let mut sources: SmallVec<[Layout; 4]> = SmallVec::new();
        for (i, layout) in args.iter().enumerate() {
            if chunk.staged[i] {
                let (place, layout) = self.collect(plan, i, layout)?;
                places.push(Some(place));
                sources.push(layout);
            } else {
                places.push(None);
                sources.push(layout.clone());
            }
        }
        let packed: SmallVec<[Layout; 2]> = match direct {
            true => outs.iter().cloned().collect(),
            false => outs.iter().map(|out| Layout::contiguous(out.shape().clone())).collect(),
        };
        let device = request.hardware.device;
        let extents = way.operands.split_at(args.len());
        let arg_metas: SmallVec<[TensorMeta<'_>; 4]> = sources
            .iter()
            .zip(extents.0)
            .map(|(layout, x)| TensorMeta { dtype: x.dtype, layout, device })
            .collect();
        let out_metas: SmallVec<[TensorMeta<'_>; 2]> = packed
            .iter()
            .zip(extents.1)
            .map(|(layout, x)| TensorMeta { dtype: x.dtype, layout, device })
            .collect();
        let narrowed = (self.narrowed)(request.op, chunk, self.result_axes());
        let part = Part {
            first: outs[0].offset() - request.outs[0].layout.offset(),
            whole: Some(request),
            chosen,
            corner: chunk.corner(&way.axes, 0),
        };
        let own = Request {
            op: narrowed.as_ref().unwrap_or(request.op),
            args: &arg_metas,
            outs: &out_metas,
            hardware: request.hardware,
            in_place: &[],
            part,
        };
        let (begun, scratch) = (plan.steps.len(), plan.scratch.len());
        whole(plan, &own)?;
        self.share_scratch(plan, begun, scratch);
        for binding in plan.steps[begun..].iter_mut().flat_map(|step| &mut step.bindings) {
            if let Place::Arg(i) = binding.place
                && let Some(place) = places[i]
            {
                binding.place = place;
            }
        }
        if direct {
            return Ok(());
        }
        for (i, (out, packed)) in outs.iter().zip(&packed).enumerate() {
            let place = self.staged_output(plan, i, packed);
            let made = plan.steps[begun..].iter_mut().flat_map(|step| &mut step.bindings);
            made.filter(|binding| binding.place == Place::Out(i)).for_each(|binding| binding.place = place);
            let dtype = request.outs[i].dtype;
            let source = Operand { place, dtype, layout: packed };
            copy::plan(
                plan,
                request.hardware,
                &source,
                &Operand { place: Place::Out(i), dtype, layout: out },
            )?;
        }
        Ok(())
    }

    fn result_axes(&self) -> usize {
        self.way.axes.len() - usize::from(self.way.chooses)
    }

    /// What a chunk has of the dimension along which indices choose, if not all.
    fn chosen(&self, chunk: &Chunk) -> Option<Chosen> {
        let axis = self.way.axes.get(self.result_axes())?;
        let (first, len) = (chunk.starts[self.result_axes()], chunk.lens[self.result_axes()]);
        (len < axis.len).then_some(Chosen { first, len, whole: axis.len })
    }

    /// Gives the steps from `begun` on the same temporary memory as those of the chunk before, instead of that from number
    /// `first` on.
    fn share_scratch<K>(&mut self, plan: &mut Plan<K>, begun: usize, first: usize) {
        // Later chunks may need these of this one.
        if !plan.quantized.is_empty() {
            return;
        }
        let sizes: SmallVec<[usize; 2]> = plan.scratch.drain(first..).collect();
        for (i, &bytes) in sizes.iter().enumerate() {
            match self.scratch.get(i) {
                Some(&at) => plan.scratch[at] = plan.scratch[at].max(bytes),
                None => {
                    self.scratch.push(plan.scratch.len());
                    plan.scratch.push(bytes);
                }
            }
        }
        for binding in plan.steps[begun..].iter_mut().flat_map(|step| &mut step.bindings) {
            if let Place::Scratch(at) = &mut binding.place
                && *at >= first
            {
                *at = self.scratch[*at - first];
            }
        }
    }

    /// gathers a part of argument `i` in temporary memory, if it is not there yet.
    fn collect<K: From<Copy>>(
        &mut self,
        plan: &mut Plan<K>,
        i: usize,
        part: &Layout,
    ) -> Result<(Place, Layout), Decline> {
        let large = || Decline::Attr("too large");
        let layout = packed(part).ok_or_else(large)?;
        let dtype = self.way.operands[i].dtype;
        let source = in_order(part).ok_or_else(large)?;
        let target = Layout::contiguous(source.shape().clone());
        let bytes = target.numel() * dtype.block_bytes();
        let at = match &mut self.collected[i] {
            Some((at, there)) if there == part => return Ok((Place::Scratch(*at), layout)),
            Some((at, there)) => {
                *there = part.clone();
                *at
            }
            none => {
                plan.scratch(0);
                let at = plan.scratch.len() - 1;
                *none = Some((at, part.clone()));
                at
            }
        };
        plan.scratch[at] = plan.scratch[at].max(bytes);
        let place = Place::Scratch(at);
        let source = Operand { place: Place::Arg(i), dtype, layout: &source };
        copy::plan(plan, self.request.hardware, &source, &Operand { place, dtype, layout: &target })?;
        Ok((place, layout))
    }

    /// Temporary memory for a part of result `i`: the same for all parts, which are made one after the other.
    fn staged_output<K>(&mut self, plan: &mut Plan<K>, i: usize, part: &Layout) -> Place {
        let dtype = self.request.outs[i].dtype;
        let bytes = part.numel() * dtype.block_bytes();
        match self.staged_outputs[i] {
            Some(at) => {
                plan.scratch[at] = plan.scratch[at].max(bytes);
                Place::Scratch(at)
            }
            None => {
                self.staged_outputs[i] = Some(plan.scratch.len());
                plan.scratch(bytes)
            }
        }
    }
}

/// Whether kernels write a part of a result where it belongs: rows that are evenly apart those of matmuls; elements one
/// after the other those that leave some to other chunks; and a run of whole words the rest.
fn writes_directly(op: &Op, part: &Layout, all: &TensorMeta<'_>, leaves: bool) -> bool {
    if matches!(op, Op::MatMul(_) | Op::MulMatId(_)) {
        return row_pitch(part).is_some();
    }
    let size = all.dtype.block_bytes();
    let (start, end) = (part.offset() * size, part.end() * size);
    let words = start.is_multiple_of(4) && (end.is_multiple_of(4) || part.end() == all.layout.end());
    part.is_contiguous() && (leaves || words)
}
