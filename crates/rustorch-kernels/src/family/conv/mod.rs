//! Convolution and its two gradients as one kind of GEMM: see `sum`.
//!
//! Groups with many channels use tiles in workgroup memory (`tiled`); groups with one or two channels (depthwise convolution)
//! sum directly from global memory (`direct`).

mod direct;
mod images;
mod sum;
mod tiled;

pub use direct::Direct;
use images::at_once;
pub use tiled::Tiled;

use super::pointwise;
use crate::Hardware;
use crate::family::{Kernels, Plan};
use crate::plan::{Place, Request};
use crate::splitting::{Chunk, OwnLines, SplitPlan, spatial};
use crate::table::{Row, row, sets};
use rustorch_core::{
    Conv, ConvBackwardData, ConvBackwardWeight, DType, Decline, Op, OpKind, OpType, TensorMeta,
};
use sum::{Carry, Function, Sum};

/// The most rows of a group that are summed without tiles.
const FEW_ROWS: usize = 2;

/// The dtype in which sums of a dtype are computed.
fn accumulator(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[row(
    OpType::Convolution,
    &[OpKind::Conv, OpKind::ConvBackwardData, OpKind::ConvBackwardWeight],
    sets::FLOAT,
)
.check(check)];

fn check(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    // Of nothing but padding: there is no memory to show to a kernel.
    if args.iter().any(|x| x.layout.numel() == 0) {
        return Err(Decline::Layout("an operand is empty"));
    }
    if let Op::Conv(conv) = op
        && let Some(activation) = conv.activation
        && pointwise::activation(activation, accumulator(args[0].dtype), hardware).is_err()
    {
        return Err(Decline::Attr("an activation that has no kernel in this dtype"));
    }
    Ok(())
}

/// Whether images are split here: those of both arguments.
fn own_lines(request: &Request<'_>) -> Option<OwnLines> {
    at_once(request).map(|_| OwnLines { arguments: 2, reach: Some(usize::MAX) })
}

impl Kernels for Conv {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(spatial::conv(request, &self.params)))
    }

    fn narrowed(&self, chunk: &Chunk, _: usize) -> Option<Op> {
        let params = spatial::narrowed(&self.params, chunk.lens[1]);
        Some(Op::from(Conv { params, ..self.clone() }))
    }
}

impl Kernels for ConvBackwardData {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(spatial::conv(request, &self.params)))
    }

    fn narrowed(&self, chunk: &Chunk, _: usize) -> Option<Op> {
        let params = spatial::narrowed(&self.params, chunk.lens[1]);
        Some(Op::from(ConvBackwardData { params, ..self.clone() }))
    }
}

impl Kernels for ConvBackwardWeight {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(spatial::conv(request, &self.params).with_own_lines(own_lines(request))))
    }

    fn narrowed(&self, chunk: &Chunk, _: usize) -> Option<Op> {
        let params = spatial::narrowed(&self.params, chunk.lens[0]);
        Some(Op::from(ConvBackwardWeight { params, ..self.clone() }))
    }
}

/// Plans the launches.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    if request.out(0).layout.numel() == 0 {
        return Ok(());
    }
    match at_once(request) {
        Some(images) => images::plan(plan, request, images),
        None => launch(plan, request, Carry::default(), None),
    }
}

/// Adds a launch, whose sums may be carried in temporary memory.
fn launch(plan: &mut Plan, request: &Request<'_>, carry: Carry, sums: Option<Place>) -> Result<(), Decline> {
    let sum = Sum::of(request)?;
    match direct(request)? {
        true => direct::plan(plan, request, &sum, carry, sums),
        false => tiled::plan(plan, request, &sum, carry, sums),
    }
}

/// Whether sums are made without tiles. The two ways do not round alike: a part goes that of its whole.
fn direct(request: &Request<'_>) -> Result<bool, Decline> {
    Ok(Sum::of(request.whole())?.rows <= FEW_ROWS)
}

impl Function {
    /// What a request asks of each sum.
    fn of(request: &Request<'_>) -> Function {
        let activation = match request.op {
            Op::Conv(conv) => conv.activation,
            _ => None,
        };
        Function { dtype: request.args[0].dtype, bias: request.args.len() == 3, activation }
    }
}
