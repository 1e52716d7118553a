//! Convolutions and their two gradients, as sums of products: see `sum`.
//!
//! Where a group has many channels, tiles of kernel and source meet in the memory of a workgroup (`tiled`); where it has
//! one or two, as in depthwise convolutions, each result is summed where its operands lie (`direct`).

mod direct;
mod images;
mod sum;
mod tiled;

pub use direct::Direct;
pub(crate) use images::at_once;
pub use tiled::Tiled;

use super::pointwise;
use crate::Hardware;
use crate::plan::{Place, Plan, Request};
use crate::table::{Row, row, sets};
use rustorch_core::{Conv, DType, Decline, Op, OpType, TensorMeta};
use sum::{Carry, Function, Sum};

/// The most rows of a group that are summed without tiles.
const FEW_ROWS: usize = 2;

/// The dtype in which sums of a dtype are computed.
fn accumulator(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// The rows of the table.
pub const ROWS: &[Row] =
    &[row(OpType::Convolution, &["conv", "conv_backward_data", "conv_backward_weight"], sets::FLOAT)
        .check(check)];

fn check(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    // Of nothing but padding: there is no memory to show to a kernel.
    if args.iter().any(|x| x.layout.elements() == 0) {
        return Err(Decline::Layout("an operand is empty"));
    }
    match op {
        Op::Conv(Conv { activation: Some(activation), .. })
            if pointwise::activation(*activation, accumulator(args[0].dtype), hardware).is_err() =>
        {
            Err(Decline::Attr("an activation that has no kernel in this dtype"))
        }
        _ => Ok(()),
    }
}

/// Adds the launches.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    if request.out(0).layout.elements() == 0 {
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
