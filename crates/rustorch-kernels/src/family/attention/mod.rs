//! Scaled dot-product attention.
//!
//! GPUs compute tiles of queries ([`tiled`]), within the tolerance of the conformance suite. Software devices compute one query at
//! a time in the CPU's order of roundings ([`reference`](mod@reference)), to the last bit.

pub(super) mod chunks;
mod combine;
mod operands;
pub mod reference;
pub mod tiled;

pub use combine::Combine;
pub use reference::Attention;
pub use tiled::Tiled;

use crate::Hardware;
use crate::family::{Kernels, Plan};
use crate::plan::Request;
use crate::splitting::{Chunk, Move, SplitPlan, axes, axes::one};
use crate::table::{DTypes, Row, row};
use operands::Operands;
use rustorch_core::{
    Attention as Parameters, CachedAttention, DType, Decline, Op, OpKind, OpType, TensorMeta,
};

/// The widest queries and values.
const WIDTH: usize = 512;

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[
    row(OpType::Attention, &[OpKind::Attention], DTYPES)
        .beside(&[DType::F16, DType::BF16, DType::F32, DType::Bool])
        .check(check)
        .remark(REMARK),
    row(OpType::Attention, &[OpKind::CachedAttention], DTYPES)
        .beside(&[DType::F16, DType::BF16, DType::F32, DType::I32, DType::I64])
        .check(check)
        .remark(REMARK),
];

const REMARK: &str = "heads of up to 512 columns, without dropout; 16-bit queries on GPUs only, with an even number of columns";

/// Of queries, and of gradients.
pub(super) const DTYPES: DTypes = DTypes::always(&[DType::F16, DType::BF16, DType::F32]);

fn check(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    if let Op::Attention(Parameters { dropout: Some(_), .. }) = op {
        return Err(DROPOUT);
    }
    let [d, e] = [0, 2].map(|i| *args[i].dims().last().expect("operands have three dimensions at least"));
    if d > WIDTH || e > WIDTH {
        return Err(Decline::Attr("heads wider than 512"));
    }
    let computes = args[0].dtype == DType::F32
        || e.is_multiple_of(2) && !hardware.keeps_order() && tiled::Shape::choose(args, hardware).is_some();
    if computes { Ok(()) } else { Err(Decline::DType(args[0].dtype)) }
}

/// `smooth_tanh(x)`, which caps scores.
pub(super) const CAP: &str = include_str!("cap.wgsl");

/// Kernels draw no masks of weights.
pub(super) const DROPOUT: Decline = Decline::Attr("dropout inside attention");

/// The most queries and keys that are computed in the CPU's order on all devices, where that rounds to 16 bits: it takes no longer
/// than tiles, and a language model goes on from a short prompt as it does on the CPU.
const SHORT: [usize; 2] = [8, 256];

/// Whether an operation is computed in the CPU's order though the device computes in tiles.
fn is_short(request: &Request<'_>, op: &Parameters) -> bool {
    let args = request.whole().args;
    let rows = |x: &TensorMeta<'_>| x.dims()[x.dims().len() - 2];
    op.rounds_to_f16(args[0].dtype, args[1].dtype) && rows(&args[0]) <= SHORT[0] && rows(&args[1]) <= SHORT[1]
}

/// Plans an attention, of whose arguments the fourth may be the position of query 0 and no mask.
fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    attention: &Parameters,
    has_position: bool,
) -> Result<(), Decline> {
    let operands = Operands::new(request, attention, has_position)?;
    let in_order = request.hardware.keeps_order() || is_short(request, attention);
    match tiled::Shape::choose(request.args, request.hardware).filter(|_| !in_order) {
        Some(shape) => tiled::plan(plan, request, operands, shape),
        None => reference::plan(plan, request, operands),
    }
}

impl Kernels for CachedAttention {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, &self.attention, true)
    }
}

impl Kernels for Parameters {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request, self, false)
    }

    /// Batches, heads of keys with the heads of queries that share them, and queries.
    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let args = request.args;
        if self.lse {
            return Ok(None);
        }
        let rank = request.outs[0].layout.ndim();
        let heads = args[1].dims()[rank - 3];
        let group = args[0].dims()[rank - 3] / heads.max(1);
        // Without an offset there is no telling a later query how far back it sees.
        let queries = self.causal.is_some() || self.window.is_none();
        let mask = |d: usize| args.get(3).and_then(|mask| axes::broadcast(mask, rank, d));
        let mut cut = axes::beside(request, |d| match d {
            d if d == rank - 1 => None,
            d if d == rank - 2 => queries.then(|| [one(d), None, None, mask(d)].into_iter().collect()),
            d => Some([one(d), one(d), one(d), mask(d)].into_iter().collect()),
        });
        let axis = &mut cut.axes[rank - 3];
        axis.len = heads.max(1);
        for i in [0, 3, cut.operands.len() - 1] {
            if let Some(Some(Move::Each(_, unit))) = axis.moves.get_mut(i) {
                *unit = group;
            }
        }
        Ok(Some(cut))
    }

    fn narrowed(&self, chunk: &Chunk, axes: usize) -> Option<Op> {
        let [.., query, _] = chunk.starts[..axes] else { return None };
        let causal = self.causal.map(|offset| offset.saturating_add(query));
        Some(Op::Attention(Parameters { causal, ..self.clone() }))
    }
}
