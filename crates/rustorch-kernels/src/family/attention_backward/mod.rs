//! Gradients of scaled dot-product attention. Weights come again from the log-sum-exp.
//!
//! GPUs compute tiles ([`tiled`]), software devices a row at a time ([`reference`](mod@reference)).

mod delta;
pub mod reference;
mod source;
pub mod tiled;

pub use delta::Delta;
pub use reference::AttentionBackward;
pub use tiled::TiledBackward;

use super::attention::{DROPOUT, DTYPES};
use crate::Hardware;
use crate::family::{Kernels, Plan};
use crate::library::strided::MAX_RANK;
use crate::plan::Request;
use crate::table::{Row, row};
use reference::{Grids, Whose};
use rustorch_core::{
    AttentionBackward as Parameters, DType, Decline, Layout, Op, OpKind, OpType, TensorMeta,
};

/// The widest queries and values.
const WIDTH: usize = 512;

/// Supported operations and their dtypes.
pub const ROWS: &[Row] =
    &[row(OpType::Attention, &[OpKind::AttentionBackward], DTYPES)
        .beside(&[DType::F32, DType::F16, DType::BF16, DType::Bool])
        .check(check)
        .remark("of one dtype throughout; heads of up to 512 columns, without dropout; of 16 bits on GPUs only, with an even number of columns")];

fn check(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    let Op::AttentionBackward(backward) = op else { return Err(Decline::Op(op.name())) };
    if backward.attention.dropout.is_some() {
        return Err(DROPOUT);
    }
    if args.iter().any(|x| x.layout.numel() == 0) {
        return Err(Decline::Layout("an operand is empty"));
    }
    let dtype = args[1].dtype;
    if args[2].dtype != dtype {
        return Err(Decline::DType(args[2].dtype));
    }
    let widths = [1, 3].map(|i| *args[i].dims().last().expect("operands have three dimensions at least"));
    if widths.iter().any(|&width| width > WIDTH) {
        return Err(Decline::Attr("heads wider than 512"));
    }
    if dtype != DType::F32 {
        let words = widths.iter().all(|width| width.is_multiple_of(2));
        let tiled =
            words && !hardware.keeps_order() && tiled::Operands::new(args, hardware, backward)?.is_some();
        return if tiled { Ok(()) } else { Err(Decline::DType(dtype)) };
    }
    let layouts: Vec<&Layout> = args.iter().map(|x| x.layout).collect();
    let grids = Grids::new(&layouts, Whose::of(backward))?;
    match grids.rows.ndim().max(grids.heads.ndim()) {
        rank if rank > MAX_RANK => Err(Decline::Rank { ndim: rank, limit: MAX_RANK }),
        _ => Ok(()),
    }
}

impl Kernels for Parameters {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        match tiled::Operands::new(request.args, request.hardware, self)?
            .filter(|_| !request.hardware.keeps_order())
        {
            Some(operands) => tiled::plan(plan, request, self, &operands),
            None => reference::plan(plan, request, self),
        }
    }
}
