//! The axes along which each operation may be split.

use super::extent::alignment;
use super::{Axis, Extent, Move, StagedOperand, elementwise};
use crate::library::strided::{Grid, rows};
use crate::plan::Request;
use rustorch_core::{Decline, Layout, Op, TensorMeta};
use smallvec::SmallVec;

/// How an operation may be split.
pub(crate) struct SplitPlan {
    /// Arguments, then results, as the chunks' kernels get them.
    pub(crate) operands: Vec<Extent>,
    /// One axis per dimension of the first result, followed by the indexed dimension of an argument, if there is one.
    pub(crate) axes: Vec<Axis>,
    /// Whether there is an indexed dimension.
    pub(crate) chooses: bool,
}

/// For each argument the elements that correspond to a dimension of the result.
pub(crate) type Partners = SmallVec<[Option<Move>; 4]>;

impl SplitPlan {
    /// The same, but that the family splits lines of arguments itself, if it says so.
    pub(crate) fn with_own_lines(mut self, lines: Option<OwnLines>) -> SplitPlan {
        if let Some(OwnLines { arguments, reach }) = lines {
            self.operands[..arguments].iter_mut().for_each(|x| x.staging = StagedOperand::Lines(reach));
        }
        self
    }
}

/// The family of an operation splits lines of its first arguments itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnLines {
    /// Of how many arguments.
    pub(crate) arguments: usize,
    /// The maximum span of a line that the family splits in place.
    pub(crate) reach: Option<usize>,
}

/// Every dimension of operands that broadcast to the result.
pub(crate) fn broadcasting(request: &Request<'_>) -> Result<SplitPlan, Decline> {
    let (args, out) = (request.args, request.outs[0].layout);
    let layouts: Vec<Layout> = args
        .iter()
        .map(|x| x.layout.broadcast_to(out.shape(), request.op.name()))
        .collect::<Result<_, _>>()
        .map_err(|_| Decline::Layout("operands do not broadcast"))?;
    let mut operands: Vec<_> = args.iter().zip(&layouts).map(|(x, layout)| (x.dtype, layout)).collect();
    operands.push((request.outs[0].dtype, out));
    let (mut operands, axes) = elementwise(&operands)?;
    operands.iter_mut().skip(args.len()).for_each(|out| out.staging = StagedOperand::Result);
    Ok(SplitPlan { operands, axes, chooses: false })
}

/// Every dimension of a result whose elements follow from their places. Random numbers come four at a time.
pub(crate) fn places(request: &Request<'_>) -> Result<SplitPlan, Decline> {
    let out = &request.outs[0];
    let (operands, mut axes) = elementwise(&[(out.dtype, out.layout)])?;
    axes.iter_mut().for_each(|axis| axis.alignment = 4);
    Ok(SplitPlan { operands, axes, chooses: false })
}

/// Dimensions of the only argument, which has those of the result.
pub(crate) fn dimensions(request: &Request<'_>, splits: impl Fn(usize) -> bool) -> SplitPlan {
    beside(request, |d| splits(d).then(|| first(d)))
}

/// The row pitch of a result, if it is constant and rows are contiguous: what matmul kernels can write.
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
pub(crate) fn one(dim: usize) -> Option<Move> {
    Some(Move::Each(dim, 1))
}

pub(crate) fn first(dim: usize) -> Partners {
    [one(dim)].into_iter().collect()
}

/// The dimension of an argument that goes with dimension `d` of a result of rank `rank`, unless it is repeated.
pub(crate) fn broadcast(x: &TensorMeta<'_>, rank: usize, d: usize) -> Option<Move> {
    let dim = (d + x.dims().len()).checked_sub(rank)?;
    (x.dims()[dim] != 1).then_some(Move::Each(dim, 1))
}

/// Arguments and results. Block-quantized operands are never staged: only whole rows could be, and activations are matched to
/// rows by position. Neither are results of matmul, whose rows may have any pitch.
pub(crate) fn operands(request: &Request<'_>) -> Vec<Extent> {
    let product = matches!(request.op, Op::MatMul(_) | Op::MulMatId(_));
    let blocks = request.args.iter().any(|x| x.dtype.is_quant());
    let args = request.args.iter().map(|x| Extent {
        staging: if blocks { StagedOperand::Never } else { StagedOperand::Argument },
        ..Extent::of(x)
    });
    let outs = request.outs.iter().map(|x| Extent {
        staging: if product { StagedOperand::Never } else { StagedOperand::Result },
        ..Extent::of(x)
    });
    args.chain(outs).collect()
}

/// An operation whose results are cut in the dimensions for which `partners` tells what goes with them.
pub(crate) fn beside(request: &Request<'_>, partners: impl Fn(usize) -> Option<Partners>) -> SplitPlan {
    along(operands(request), request.args.len(), partners)
}

/// See [`beside`]; of the operands, so many are arguments.
pub(crate) fn along(
    operands: Vec<Extent>,
    args: usize,
    partners: impl Fn(usize) -> Option<Partners>,
) -> SplitPlan {
    let axis = |d: usize| {
        let Some(partners) = partners(d) else {
            return Axis {
                len: 1,
                moves: operands.iter().map(|_| None).collect(),
                alignment: 1,
                within: None,
            };
        };
        let moves = (0..operands.len())
            .map(|i| if i < args { partners.get(i).cloned().flatten() } else { one(d) })
            .collect();
        let alignment = operands[args..].iter().map(|out| alignment(out, d, 1)).max().unwrap_or(1);
        Axis { len: operands[args].layout.dims()[d].max(1), moves, alignment, within: None }
    };
    let axes = (0..operands[args].layout.ndim()).map(axis).collect();
    SplitPlan { operands, axes, chooses: false }
}

/// The same, and an argument's dimension along which indices choose.
pub(crate) fn choosing(mut cut: SplitPlan, arg: usize, dim: usize) -> SplitPlan {
    let moves = (0..cut.operands.len()).map(|i| if i == arg { one(dim) } else { None }).collect();
    let len = cut.operands[arg].layout.dims().get(dim).map_or(1, |&len| len.max(1));
    if cut.operands[arg].layout.ndim() == 0 {
        return cut;
    }
    cut.axes.push(Axis { len, moves, alignment: 1, within: None });
    cut.chooses = true;
    // Chunks leave elements to each other, which only those that lie where they belong can.
    cut.operands.iter_mut().for_each(|x| x.staging = StagedOperand::Never);
    cut
}
