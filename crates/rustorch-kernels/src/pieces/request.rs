//! Planning an operation piece by piece.

use super::axes::{self, Cut};
use super::extent::{in_order, packed};
use super::{Extent, MOST, Piece, cut, fit, row_pitch, too_many};
use crate::Hardware;
use crate::family::{self, copy};
use crate::plan::{Chosen, Operand, Part, Place, Plan, Request};
use rustorch_core::{Decline, Layout, Op, OutputMeta, TensorMeta};
use smallvec::SmallVec;

/// Adds the launches of an operation, by way of `whole`, which plans what kernels see at once.
pub(crate) fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    whole: fn(&mut Plan, &Request<'_>) -> Result<(), Decline>,
) -> Result<(), Decline> {
    let operands: SmallVec<[Extent; 6]> = request.args.iter().chain(request.outs).map(Extent::of).collect();
    let Some(way) = (if fit(&operands, request.hardware) { None } else { axes::of(request)? }) else {
        return whole(plan, request);
    };
    let mut pieces = Pieces {
        request,
        way: &way,
        collected: request.args.iter().map(|_| None).collect(),
        scratch: SmallVec::new(),
        detours: request.outs.iter().map(|_| None).collect(),
    };
    for piece in cut(&way.operands, &way.axes, request.hardware)? {
        pieces.add(plan, &piece, whole)?;
        if plan.steps.len() > MOST {
            return Err(too_many());
        }
    }
    Ok(())
}

/// Whether an operation on large operands will find a plan; small ones do.
pub(crate) fn foresee(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    // Temporary memory takes less than four times what an operand does.
    let near = |elements: usize, len: usize, size: usize| {
        (elements as u64).div_ceil(len as u64).saturating_mul(4 * size as u64) > hardware.max_binding
    };
    let outs = op.infer(args).map_err(|_| Decline::Attr("arguments that do not fit the operation"))?;
    let large = args.iter().any(|x| near(x.layout.end(), x.dtype.block_len(), x.dtype.block_bytes()))
        || outs.iter().any(|x| near(x.shape.elements(), x.dtype.block_len(), x.dtype.block_bytes()));
    if !large || outs.iter().all(|out| out.shape.elements() == 0) {
        return Ok(());
    }
    let fresh = |out: &OutputMeta| Layout::contiguous(out.shape.clone());
    let layouts: SmallVec<[Layout; 2]> = outs.iter().map(fresh).collect();
    let metas: SmallVec<[TensorMeta<'_>; 2]> = outs
        .iter()
        .zip(&layouts)
        .map(|(out, layout)| TensorMeta { dtype: out.dtype, layout, device: hardware.device })
        .collect();
    family::plan(&Request::new(op, args, &metas, hardware)).map(|_| ())
}

/// The pieces of a request.
struct Pieces<'a> {
    request: &'a Request<'a>,
    way: &'a Cut,
    /// Temporary memory for parts of each argument that lie scattered, and which part is there.
    collected: SmallVec<[Option<(usize, Layout)>; 4]>,
    /// Temporary memory that the family asks for, for one piece after the other.
    scratch: SmallVec<[usize; 2]>,
    /// Temporary memory for parts of each result that cannot be written where they belong: one at a time.
    detours: SmallVec<[Option<usize>; 2]>,
}

impl Pieces<'_> {
    fn add(
        &mut self,
        plan: &mut Plan,
        piece: &Piece,
        whole: fn(&mut Plan, &Request<'_>) -> Result<(), Decline>,
    ) -> Result<(), Decline> {
        let (request, way) = (self.request, self.way);
        let (args, outs) = piece.layouts.split_at(request.args.len());
        let chosen = self.chosen(piece);
        let direct =
            outs.iter().zip(request.outs).zip(&piece.apart[args.len()..]).all(|((out, all), &apart)| {
                !apart && writes_directly(request.op, out, all, chosen.is_some())
            });
        if !direct && chosen.is_some() {
            return Err(Decline::Layout(
                "chosen rows of a table larger than what kernels see at once would have gaps",
            ));
        }
        let mut places: SmallVec<[Option<Place>; 4]> = SmallVec::new();
        let mut sources: SmallVec<[Layout; 4]> = SmallVec::new();
        for (i, layout) in args.iter().enumerate() {
            if piece.apart[i] {
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
        let op = axes::narrowed(request.op, piece, self.result_axes());
        let part = Part {
            first: outs[0].offset() - request.outs[0].layout.offset(),
            whole: Some(request),
            chosen,
            corner: piece.corner(&way.axes, 0),
        };
        let own = Request { op: &op, args: &arg_metas, outs: &out_metas, hardware: request.hardware, part };
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
            let place = self.detour(plan, i, packed);
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

    /// What a piece has of the dimension along which indices choose, if not all.
    fn chosen(&self, piece: &Piece) -> Option<Chosen> {
        let axis = self.way.axes.get(self.result_axes())?;
        let (first, len) = (piece.starts[self.result_axes()], piece.lens[self.result_axes()]);
        (len < axis.len).then_some(Chosen { first, len, whole: axis.len })
    }

    /// Gives the steps from `begun` on the same temporary memory as those of the piece before, instead of that from number
    /// `first` on.
    fn share_scratch(&mut self, plan: &mut Plan, begun: usize, first: usize) {
        // Later pieces may need these of this one.
        if !plan.rounded.is_empty() {
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

    /// Brings a part of argument `i` together in temporary memory, if it is not there yet.
    fn collect(&mut self, plan: &mut Plan, i: usize, part: &Layout) -> Result<(Place, Layout), Decline> {
        let large = || Decline::Attr("too large");
        let layout = packed(part).ok_or_else(large)?;
        let dtype = self.way.operands[i].dtype;
        let source = in_order(part).ok_or_else(large)?;
        let target = Layout::contiguous(source.shape().clone());
        let bytes = target.elements() * dtype.block_bytes();
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
    fn detour(&mut self, plan: &mut Plan, i: usize, part: &Layout) -> Place {
        let dtype = self.request.outs[i].dtype;
        let bytes = part.elements() * dtype.block_bytes();
        match self.detours[i] {
            Some(at) => {
                plan.scratch[at] = plan.scratch[at].max(bytes);
                Place::Scratch(at)
            }
            None => {
                self.detours[i] = Some(plan.scratch.len());
                plan.scratch(bytes)
            }
        }
    }
}

/// Whether kernels write a part of a result where it belongs: rows that are evenly apart those of products; elements one
/// after the other those that leave some to other pieces; and a run of whole words the rest.
fn writes_directly(op: &Op, part: &Layout, all: &TensorMeta<'_>, leaves: bool) -> bool {
    if matches!(op, Op::MatMul(_) | Op::ExpertMatMul { .. }) {
        return row_pitch(part).is_some();
    }
    let size = all.dtype.block_bytes();
    let (start, end) = (part.offset() * size, part.end() * size);
    let words = start.is_multiple_of(4) && (end.is_multiple_of(4) || part.end() == all.layout.end());
    part.is_contiguous() && (leaves || words)
}
