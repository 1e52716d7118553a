//! Where the operands of each operation may be cut.

use super::extent::granule;
use super::{Aside, Axis, Extent, Move, Piece, elementwise, spatial};
use crate::family::reduce;
use crate::family::rms_norm::rows;
use crate::family::strided::Grid;
use crate::plan::Request;
use rustorch_core::{Attention, Decline, Dims, Layout, Op, Reduce, Shape, TensorMeta, Triangle};
use smallvec::SmallVec;
use std::borrow::Cow;

/// How an operation may be cut.
pub(super) struct Cut {
    /// Arguments, then results, as the pieces' kernels get them.
    pub(super) operands: Vec<Extent>,
    /// One for each dimension of the first result; where indices choose along a dimension of an argument, that one is
    /// behind them.
    pub(super) axes: Vec<Axis>,
    /// Whether there is one of indices.
    pub(super) chooses: bool,
}

/// What of each argument goes with a dimension of the result.
pub(super) type Partners = SmallVec<[Option<Move>; 4]>;

/// Where a request may be cut; none if nowhere, or if its family does so itself.
pub(super) fn of(request: &Request<'_>) -> Result<Option<Cut>, Decline> {
    let (op, args) = (request.op, request.args);
    let out = request.outs[0].layout;
    let rank = out.rank();
    Ok(Some(match op {
        Op::Unary(_)
        | Op::Binary(_)
        | Op::Compare(_)
        | Op::Where
        | Op::Clamp { .. }
        | Op::Gate(_)
        | Op::Chain(_)
        | Op::Cast(_) => {
            let layouts: Vec<Layout> = args
                .iter()
                .map(|x| x.layout.broadcast_to(out.shape(), op.name()))
                .collect::<Result<_, _>>()
                .map_err(|_| Decline::Layout("operands do not broadcast"))?;
            let mut operands: Vec<_> =
                args.iter().zip(&layouts).map(|(x, layout)| (x.dtype, layout)).collect();
            operands.push((request.outs[0].dtype, out));
            let (mut operands, axes) = elementwise(&operands)?;
            operands.iter_mut().skip(args.len()).for_each(|out| out.aside = Aside::Result);
            Cut { operands, axes, chooses: false }
        }
        // Numbers of their own places: random ones come four at a time.
        Op::Arange(_) | Op::Random(_) => {
            let (operands, mut axes) = elementwise(&[(request.outs[0].dtype, out)])?;
            axes.iter_mut().for_each(|axis| axis.granule = 4);
            Cut { operands, axes, chooses: false }
        }
        Op::MatMul(_) => beside(request, |d| {
            let (x, w) = (args[0].dims().len(), args[1].dims().len());
            match d {
                d if d == rank - 1 => Some([None, one(w - 1), one(0)].into_iter().collect()),
                d if d == rank - 2 => Some([one(x - 2)].into_iter().collect()),
                d => Some(args[..2].iter().map(|x| broadcast(x, rank, d)).collect()),
            }
        }),
        Op::ExpertMatMul { .. } => {
            let shared = args[0].dims()[1] == 1;
            let cut = beside(request, |d| {
                Some(match d {
                    0 => [one(0), None, one(0)].into_iter().collect(),
                    1 => [if shared { None } else { one(1) }, None, one(1)].into_iter().collect(),
                    _ => [None, one(1)].into_iter().collect(),
                })
            });
            choosing(cut, 1, 0)
        }
        Op::Embedding => embedding(request)?,
        Op::IndexSelect { axis } => choosing(
            beside(request, |d| {
                Some(if d == *axis { [None, one(0)] } else { [one(d), None] }.into_iter().collect())
            }),
            0,
            *axis,
        ),
        Op::Gather { axis } => choosing(
            beside(request, |d| Some([if d == *axis { None } else { one(d) }, one(d)].into_iter().collect())),
            0,
            *axis,
        ),
        Op::Scatter { axis, .. } => beside(request, |d| {
            let covers = args[1].dims()[d] == out.dims()[d];
            (d != *axis && covers).then(|| (0..3).map(|_| one(d)).collect())
        }),
        Op::Softmax(softmax) => beside(request, |d| (d != softmax.axis).then(|| first(d))),
        Op::Scan { axis, .. } => beside(request, |d| (d != *axis).then(|| first(d))),
        Op::Sort(sort) => beside(request, |d| (d != sort.axis).then(|| first(d))),
        Op::TopK(top) => beside(request, |d| (d != top.axis).then(|| first(d))),
        Op::LayerNorm(norm) => beside(request, |d| (d < rank - norm.dims).then(|| first(d))),
        Op::RmsNorm(_) => beside(request, |d| (d + 1 < rank).then(|| first(d))),
        Op::AddRmsNorm(_) => {
            beside(request, |d| (d + 1 < rank).then(|| [one(d), one(d)].into_iter().collect()))
        }
        Op::Triangle(_) => beside(request, |d| Some(first(d))),
        Op::Rope { .. } => beside(request, |d| match d {
            d if d == rank - 1 => None,
            d if d == rank - 2 => Some([one(d), one(0)].into_iter().collect()),
            d => Some(first(d)),
        }),
        Op::Reduce(reduce) => self::reduced(request, reduce)?,
        Op::Attention(attention) => self::attention(request, attention),
        Op::Conv(conv) => spatial::conv(request, &conv.params),
        Op::ConvBackwardData(conv) => spatial::conv(request, &conv.params),
        Op::ConvBackwardWeight(conv) => spatial::conv(request, &conv.params),
        Op::BatchNorm(_) | Op::GroupNorm(_) => spatial::channel_norm(request),
        _ => return Ok(spatial::planes(request)),
    }))
}

/// The operation of a piece; of its axes, so many are dimensions of the result.
pub(super) fn narrowed<'a>(op: &'a Op, piece: &Piece, axes: usize) -> Cow<'a, Op> {
    let starts = &piece.starts[..axes];
    match op {
        Op::Triangle(triangle) => {
            let [.., row, column] = starts else { return Cow::Borrowed(op) };
            let diagonal = triangle.diagonal.saturating_add(*row as i64).saturating_sub(*column as i64);
            Cow::Owned(Op::Triangle(Triangle { diagonal, ..triangle.clone() }))
        }
        Op::Attention(attention) => {
            let [.., query, _] = starts else { return Cow::Borrowed(op) };
            let causal = attention.causal.map(|offset| offset.saturating_add(*query));
            Cow::Owned(Op::Attention(Attention { causal, ..attention.clone() }))
        }
        op => spatial::narrowed(op, &piece.lens),
    }
}

/// The elements from one row of a result to the next, if that is one number; rows themselves lie together. Products write
/// so, and nothing else does.
pub(crate) fn row_pitch(layout: &Layout) -> Option<usize> {
    let (&len, &step) = (layout.dims().last()?, layout.strides().last()?);
    if len != 1 && step != 1 {
        return None;
    }
    let grid = Grid::new(&[&rows(layout).ok()?]);
    match &grid.strides[0][..] {
        [] => Some(len),
        [pitch] => Some(*pitch),
        _ => None,
    }
}

/// One element of a dimension for each unit.
pub(super) fn one(dim: usize) -> Option<Move> {
    Some(Move::Each(dim, 1))
}

fn first(dim: usize) -> Partners {
    [one(dim)].into_iter().collect()
}

/// The dimension of an argument that goes with dimension `d` of a result of rank `rank`, unless it is repeated.
fn broadcast(x: &TensorMeta<'_>, rank: usize, d: usize) -> Option<Move> {
    let dim = (d + x.dims().len()).checked_sub(rank)?;
    (x.dims()[dim] != 1).then_some(Move::Each(dim, 1))
}

/// Arguments and results. Blocks stay where they lie: only whole rows of them could be brought elsewhere, and the rows that
/// meet them are told apart by where they lie. So do results of products, which may have any distance between rows.
pub(super) fn operands(request: &Request<'_>) -> Vec<Extent> {
    let product = matches!(request.op, Op::MatMul(_) | Op::ExpertMatMul { .. });
    let blocks = request.args.iter().any(|x| x.dtype.is_quant());
    let args = request
        .args
        .iter()
        .map(|x| Extent { aside: if blocks { Aside::Never } else { Aside::Argument }, ..Extent::of(x) });
    let outs = request
        .outs
        .iter()
        .map(|x| Extent { aside: if product { Aside::Never } else { Aside::Result }, ..Extent::of(x) });
    args.chain(outs).collect()
}

/// An operation whose results are cut in the dimensions for which `partners` tells what goes with them.
pub(super) fn beside(request: &Request<'_>, partners: impl Fn(usize) -> Option<Partners>) -> Cut {
    along(operands(request), request.args.len(), partners)
}

/// See [`beside`]; of the operands, so many are arguments.
fn along(operands: Vec<Extent>, args: usize, partners: impl Fn(usize) -> Option<Partners>) -> Cut {
    let axis = |d: usize| {
        let Some(partners) = partners(d) else {
            return Axis { len: 1, moves: operands.iter().map(|_| None).collect(), granule: 1, within: None };
        };
        let moves = (0..operands.len())
            .map(|i| if i < args { partners.get(i).cloned().flatten() } else { one(d) })
            .collect();
        let granule = operands[args..].iter().map(|out| granule(out, d, 1)).max().unwrap_or(1);
        Axis { len: operands[args].layout.dims()[d].max(1), moves, granule, within: None }
    };
    let axes = (0..operands[args].layout.rank()).map(axis).collect();
    Cut { operands, axes, chooses: false }
}

/// The same, and an argument's dimension along which indices choose.
fn choosing(mut cut: Cut, arg: usize, dim: usize) -> Cut {
    let moves = (0..cut.operands.len()).map(|i| if i == arg { one(dim) } else { None }).collect();
    let len = cut.operands[arg].layout.dims().get(dim).map_or(1, |&len| len.max(1));
    if cut.operands[arg].layout.rank() == 0 {
        return cut;
    }
    cut.axes.push(Axis { len, moves, granule: 1, within: None });
    cut.chooses = true;
    // Pieces leave elements to each other, which only those that lie where they belong can.
    cut.operands.iter_mut().for_each(|x| x.aside = Aside::Never);
    cut
}

/// Ids as one run, if they are.
fn embedding(request: &Request<'_>) -> Result<Cut, Decline> {
    let [table, ids] = [&request.args[0], &request.args[1]];
    let out = &request.outs[0];
    let (mut operands, _) = elementwise(&[(ids.dtype, ids.layout), (out.dtype, &rows(out.layout)?)])?;
    let mut result = operands.remove(1);
    let (dims, strides) = (result.layout.dims(), result.layout.strides());
    let with = |values: &[usize], last: usize| values.iter().copied().chain([last]).collect::<Dims>();
    let width = table.dims()[1];
    let large = |_| Decline::Attr("too large");
    let shape = Shape::new(with(dims, width)).map_err(large)?;
    result.layout = Layout::new(shape, with(strides, 1), out.layout.offset()).map_err(large)?;
    let last = result.layout.rank() - 1;
    operands.insert(0, Extent::of(table));
    operands.push(result);
    let cut = along(operands, 2, |d| match d == last {
        // Rows of blocks stay whole.
        true => (!table.dtype.is_quant()).then(|| first(1)),
        false => Some([None, one(d)].into_iter().collect()),
    });
    Ok(choosing(cut, 0, 0))
}

/// Batches, heads of keys with the heads of queries that share them, and queries.
fn attention(request: &Request<'_>, attention: &Attention) -> Cut {
    let args = request.args;
    let rank = request.outs[0].layout.rank();
    let heads = args[1].dims()[rank - 3];
    let group = args[0].dims()[rank - 3] / heads.max(1);
    // Without an offset there is no telling a later query how far back it sees.
    let queries = attention.causal.is_some() || attention.window.is_none();
    let mask = |d: usize| args.get(3).and_then(|mask| broadcast(mask, rank, d));
    let mut cut = beside(request, |d| match d {
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
    cut
}

/// Kept dimensions; and lines, where the family cuts them.
fn reduced(request: &Request<'_>, reduce: &Reduce) -> Result<Cut, Decline> {
    let (x, rank) = (&request.args[0], request.outs[0].layout.rank());
    let kept: Dims = match reduce.keepdim {
        true => (0..rank).collect(),
        false => (0..x.dims().len()).filter(|d| !reduce.axes.contains(d)).collect(),
    };
    let mut cut = beside(request, |d| (!reduce.axes.contains(&kept[d])).then(|| first(kept[d])));
    if let Some(reach) = reduce::cuts_lines(request, reduce)? {
        cut.operands[0].aside = Aside::Lines(reach);
    }
    Ok(cut)
}
