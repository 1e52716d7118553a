//! Attention in tiles (FlashAttention): a workgroup has a tile of queries of the heads that share keys, and goes over the keys a
//! tile at a time, with running maximum and sum of each query (online softmax).
//!
//! Keys and values come through workgroup memory as `f32`, a chunk at a time; the next chunk is loaded to registers while one is
//! computed with. Each thread has a block of the tile's scores and of its results. Rows of a tile are queries of all heads
//! that share the keys, query by query, so that the few queries of decoding fill tiles, too. Few queries over many keys are split
//! over workgroups by keys, see `combine.rs`.
//!
//! What a row's result is depends on its keys only: neither on its tile's size nor on the other rows.
//!
//! Dao: *FlashAttention-2*, 2023.

mod shape;
mod source;

pub(super) use shape::Shape;

use super::chunks::loads_quads;
use super::combine;
use super::operands::{Kind, Operands, Params as OperandParams};
use crate::Hardware;
use crate::family::{Plan, StepBuilder};
use crate::plan::parameters::parameters;
use crate::plan::{Request, line};
use rustorch_core::Decline;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiled {
    kind: Kind,
    shape: Shape,
    /// Whether four neighbours are loaded at once: of keys, of values.
    quads: [bool; 2],
    /// Whether it writes what `combine.rs` combines.
    split: bool,
}

parameters! {
    /// Kernel parameters.
    struct Params(ranks: [usize; 3], mask: Option<usize>) {
        operands: OperandParams = (ranks, mask),
        y_start: u32,
        /// The log-sum-exp, or maxima and sums of splits.
        lse_start: usize,
        /// Of keys, in all batches.
        heads: usize,
        /// Of the queries of a head of keys.
        tiles: usize,
        splits: usize,
        /// Keys of a split.
        each: usize,
        groups: usize,
    }
}

/// Plans the launch, and that which combines splits.
pub(super) fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    operands: Operands<'_, '_>,
    shape: Shape,
) -> Result<(), Decline> {
    let kind = operands.kind();
    let [k, v] = [1, 2].map(|i| request.arg(i));
    let rank = k.layout.ndim();
    let heads: usize = k.layout.dims()[..rank - 2].iter().product();
    let (splits, each) = shape::splits(request);
    let split = splits > 1;
    let quads = [&k, &v].map(|x| loads_quads(x, request.hardware));
    let mut launch = StepBuilder::new(request.hardware, Tiled { kind, shape, quads, split });
    let operands = operands.bind(&mut launch)?;
    let (queries, e) = (operands.queries, operands.e);
    let tiles = (operands.group * operands.m).div_ceil(shape.tile_rows());
    let groups = heads * tiles * splits;
    let mut scratch = None;
    let (y_start, lse_start) = match split {
        true => {
            let partial = combine::Partial { rows: queries, splits, e };
            let place = plan.scratch(partial.bytes());
            launch.bytes(place, 0..partial.bytes() as u64, true)?;
            scratch = Some((place, partial));
            (0, partial.stats())
        }
        false => {
            let y_start = launch.write(&request.out(0))?;
            (y_start, if kind.lse { launch.write(&request.out(1))? as usize } else { 0 })
        }
    };
    launch.parameters(&Params { operands, y_start, lse_start, heads, tiles, splits, each, groups })?;
    plan.step(launch, line(groups, request.hardware)?);
    match scratch {
        Some((place, partial)) => combine::plan(plan, request, place, partial, kind.lse),
        None => Ok(()),
    }
}

impl Tiled {
    pub(crate) fn wgsl(&self, hardware: &Hardware) -> crate::wgsl::Wgsl {
        source::wgsl(self, hardware)
    }
}
