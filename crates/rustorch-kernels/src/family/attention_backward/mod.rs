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

use super::attention::{DROPOUT, takes_tiles};
use crate::Hardware;
use crate::family::{Kernels, Plan};
use crate::library::strided::MAX_RANK;
use crate::plan::Request;
use crate::table::{DTypes, Row, row};
use reference::{Grids, Whose};
use rustorch_core::{
    AttentionBackward as Parameters, DType, Decline, Layout, Op, OpKind, OpType, TensorMeta,
};

/// The widest queries and values.
const WIDTH: usize = 512;

/// Supported operations and their dtypes.
pub const ROWS: &[Row] =
    &[row(OpType::Attention, &[OpKind::AttentionBackward], DTypes::always(&[DType::F32]))
        .beside(&[DType::F32, DType::Bool])
        .check(check)
        .remark("`f32` throughout; heads of up to 512 columns, without dropout")];

fn check(op: &Op, args: &[TensorMeta<'_>], _: &Hardware) -> Result<(), Decline> {
    let Op::AttentionBackward(backward) = op else { return Err(Decline::Op(op.name())) };
    if backward.attention.dropout.is_some() {
        return Err(DROPOUT);
    }
    if args.iter().any(|x| x.layout.numel() == 0) {
        return Err(Decline::Layout("an operand is empty"));
    }
    if args[2].dtype != DType::F32 {
        return Err(Decline::DType(args[2].dtype));
    }
    let width = |x: &TensorMeta<'_>| x.dims()[x.dims().len() - 1];
    if width(&args[1]) > WIDTH || width(&args[3]) > WIDTH {
        return Err(Decline::Attr("heads wider than 512"));
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
        match tiled::Operands::new(request, self)?.filter(|_| takes_tiles(request.hardware)) {
            Some(operands) => tiled::plan(plan, request, self, &operands),
            None => reference::plan(plan, request, self),
        }
    }
}
