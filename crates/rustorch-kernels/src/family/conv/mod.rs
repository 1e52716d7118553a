//! Convolutions and their two gradients, as sums of products: see [`sum`].
//!
//! Where a group has many channels, tiles of kernel and source meet in the memory of a workgroup ([`tiled`]); where it has
//! one or two, as in depthwise convolutions, each result is summed where its operands lie ([`direct`]).

mod direct;
mod sum;
mod tiled;

pub use direct::Direct;
pub use tiled::Tiled;

use super::pointwise;
use crate::Hardware;
use crate::plan::{Plan, Request};
use rustorch_core::{Conv, DType, Decline, Op, TensorMeta};
use sum::{Function, Sum};

/// The most rows of a group that are summed without tiles.
const FEW_ROWS: usize = 2;

/// The dtype in which sums of a dtype are computed.
fn accumulator(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Whether there is a kernel.
pub fn supports(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    let dtype = args[0].dtype;
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 => {}
        DType::F64 if hardware.f64 => {}
        other => return Err(Decline::DType(other)),
    }
    // Of nothing but padding: there is no memory to show to a kernel.
    if args.iter().any(|x| x.layout.elements() == 0) {
        return Err(Decline::Layout("an operand is empty"));
    }
    match op {
        Op::Conv(Conv { activation: Some(activation), .. }) => {
            let dtype = accumulator(dtype);
            pointwise::formula(pointwise::Function::Unary(*activation), &[dtype], dtype, hardware).map(drop)
        }
        _ => Ok(()),
    }
}

/// Adds the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let sum = Sum::of(request)?;
    if request.out(0).layout.elements() == 0 {
        return Ok(());
    }
    if sum.rows <= FEW_ROWS { direct::plan(plan, request, &sum) } else { tiled::plan(plan, request, &sum) }
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
