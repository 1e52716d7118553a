//! Weight gradients over batches larger than the maximum binding size: several images per launch, each continuing the sums of
//! the previous launch. The order of accumulation is that of a single launch.

use super::sum::Carry;
use super::{accumulator, direct, launch, tiled};
use crate::family::Plan;
use crate::plan::{Part, Request};
use crate::splitting::{self, Extent};
use crate::wgsl::WORKGROUP;
use rustorch_core::{Decline, Op, TensorMeta};

/// How many images at a time, where a binding cannot hold all of them but see enough for their sums to be parted between
/// images: whole steps of every thread.
pub(super) fn at_once(request: &Request<'_>) -> Option<usize> {
    if !matches!(request.op, Op::ConvBackwardWeight(_)) {
        return None;
    }
    let extents = [0, 1].map(|i| Extent::of(&request.args[i]));
    if splitting::fit(&extents, request.hardware) {
        return None;
    }
    let positions: usize = request.args[1].dims()[2..].iter().product();
    let step = if direct(request).ok()? { WORKGROUP as usize } else { tiled::DEPTH };
    // As many images as have whole steps in all; the first is a power of two.
    let alignment = step >> positions.trailing_zeros().min(step.trailing_zeros());
    let room = extents.iter().map(|x| x.room(&x.layout, 0, false, request.hardware)).min()?;
    let fits = sums(request).ok()? as u64 <= request.hardware.max_binding;
    Some(room / alignment * alignment).filter(|&images| images > 0 && fits)
}

/// Bytes of the sums that launches leave to each other: of each result, or of each thread that makes one.
fn sums(request: &Request<'_>) -> Result<usize, Decline> {
    let each = if direct(request)? { WORKGROUP as usize } else { 1 };
    Ok(request.outs[0].layout.numel() * each * accumulator(request.args[0].dtype).block_bytes())
}

/// Plans the launches.
pub(super) fn plan(plan: &mut Plan, request: &Request<'_>, at_once: usize) -> Result<(), Decline> {
    let sums = plan.scratch(sums(request)?);
    let images = request.args[0].dims()[0];
    for first in (0..images).step_by(at_once) {
        let len = at_once.min(images - first);
        let some = |i: usize| request.args[i].layout.slice(0, first, len, 1);
        let [x, dy] = [some(0), some(1)].map(|layout| layout.map_err(|_| Decline::Attr("too large")));
        let (x, dy) = (x?, dy?);
        let args =
            [TensorMeta { layout: &x, ..request.args[0] }, TensorMeta { layout: &dy, ..request.args[1] }];
        let part = Part { whole: Some(request.whole()), ..request.part };
        let own = Request { args: &args, part, ..*request };
        let carry = Carry { from: first > 0, on: first + len < images };
        launch(plan, &own, carry, Some(sums))?;
    }
    Ok(())
}
