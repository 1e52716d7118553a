//! What the kernels of attention share: bindings and parameters of queries, keys, values and mask.

use crate::Hardware;
use crate::family::matmul::leading;
use crate::family::{StepBuilder, slice_update};
use crate::library::strided::{Grid, rows};
use crate::plan::parameters::{Names, parameters};
use crate::plan::{Operand, Request};
use crate::wgsl::{Elements, Module};
use rustorch_core::{Attention, DType, Decline, Layout};

parameters! {
    /// Parameters of the operands.
    pub(super) struct Params(ranks: [usize; 3], mask: Option<usize>) {
        queries: usize,
        m: usize,
        group: usize,
        n: usize,
        d: usize,
        e: usize,
        q_start: u32,
        q_stride: usize,
        k_start: u32,
        k_row: usize,
        k_stride: usize,
        v_start: u32,
        v_row: usize,
        v_stride: usize,
        mask_start: u32,
        mask_stride: usize,
        /// The last key that query 0 sees, where that is no data.
        offset: u32,
        /// Where it is data.
        position_start: u32,
        /// How far back it sees.
        window: u32,
        causal: u32,
        scale: f32,
        cap: f32,
        q_grid: Grid = (ranks[0], 1),
        k_grid: Grid = (ranks[1], 1),
        v_grid: Grid = (ranks[2], 1),
        mask_grid: Option<Grid> = mask.map(|rank| (rank, 1)),
    }
}

/// What of the operands a kernel's source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    pub(super) queries: DType,
    pub(super) keys: DType,
    /// The dtype of the mask, and its dimensions.
    pub(super) mask: Option<(DType, usize)>,
    pub(super) softcap: bool,
    /// Whether queries and running sums are rounded to `F16`.
    pub(super) half: bool,
    /// Whether the log-sum-exp is made, too.
    pub(super) lse: bool,
    /// The dtype of the position of query 0, if it is data.
    pub(super) position: Option<DType>,
    /// Dimensions of the rows of queries, of the heads of keys and of values.
    pub(super) ranks: [usize; 3],
}

/// The operands of a request.
pub(super) struct Operands<'r, 'a> {
    request: &'r Request<'a>,
    attention: &'r Attention,
    /// Whether the fourth argument is the position of query 0, and no mask.
    has_position: bool,
    grids: [Grid; 3],
    /// The mask as wide as the scores, and its rows.
    mask: Option<(Layout, Grid)>,
}

impl<'r, 'a> Operands<'r, 'a> {
    pub(super) fn new(
        request: &'r Request<'a>,
        attention: &'r Attention,
        has_position: bool,
    ) -> Result<Self, Decline> {
        let (q, k, v) = (request.arg(0), request.arg(1), request.arg(2));
        let grids = [
            Grid::new(&[&rows(q.layout)?]),
            Grid::new(&[&leading(k.layout, 2)?]),
            Grid::new(&[&leading(v.layout, 2)?]),
        ];
        let rank = q.layout.ndim();
        let mask = match request.args.get(3).filter(|_| !has_position) {
            None => None,
            Some(mask) => {
                let shape = q.layout.shape().with_dim(rank - 1, k.layout.dims()[rank - 2]);
                let shape = shape.map_err(|_| Decline::Attr("too large"))?;
                let layout =
                    mask.layout.broadcast_to(&shape, "attention").map_err(|_| Decline::Layout("the mask"))?;
                let grid = Grid::new(&[&rows(&layout)?]);
                Some((layout, grid))
            }
        };
        Ok(Operands { request, attention, has_position, grids, mask })
    }

    pub(super) fn kind(&self) -> Kind {
        let Operands { request, attention, has_position, grids, mask } = self;
        let [q, k] = [0, 1].map(|i| request.args[i].dtype);
        Kind {
            queries: q,
            keys: k,
            mask: mask.as_ref().map(|(_, grid)| (request.args[3].dtype, grid.ndim())),
            softcap: attention.softcap.is_some(),
            half: attention.rounds_to_f16(q, k),
            lse: attention.lse,
            position: has_position.then(|| request.args[3].dtype),
            ranks: [grids[0].ndim(), grids[1].ndim(), grids[2].ndim()],
        }
    }

    /// Binds queries, keys, values, the mask and the position, in this order.
    pub(super) fn bind(self, launch: &mut StepBuilder<'_>) -> Result<Params, Decline> {
        let Operands { request, attention, has_position, grids, mask } = self;
        let (q, k, v) = (request.arg(0), request.arg(1), request.arg(2));
        let rank = q.layout.ndim();
        let (qd, kd, vd) = (q.layout.dims(), k.layout.dims(), v.layout.dims());
        let [q_start, k_start, v_start] = [launch.read(&q)?, launch.read(&k)?, launch.read(&v)?];
        let mask_start = match &mask {
            Some((layout, _)) => launch.read(&Operand { layout, ..request.arg(3) })?,
            None => 0,
        };
        let position_start = if has_position { launch.read(&request.arg(3))? } else { 0 };
        let strides = |x: &Operand<'_>| [x.layout.strides()[rank - 2], x.layout.strides()[rank - 1]];
        let ([k_row, k_stride], [v_row, v_stride]) = (strides(&k), strides(&v));
        let limit =
            |x: Option<usize>| x.map_or(Ok(u32::MAX / 2), |x| u32::try_from(x.min(u32::MAX as usize / 2)));
        let small = |_| Decline::Attr("too large");
        let [q_grid, k_grid, v_grid] = grids;
        Ok(Params {
            queries: qd[..rank - 1].iter().product(),
            m: qd[rank - 2],
            group: qd[rank - 3] / kd[rank - 3].max(1),
            n: kd[rank - 2],
            d: qd[rank - 1],
            e: vd[rank - 1],
            q_start,
            q_stride: strides(&q)[1],
            k_start,
            k_row,
            k_stride,
            v_start,
            v_row,
            v_stride,
            mask_start,
            mask_stride: mask.as_ref().map_or(0, |(layout, _)| layout.strides()[rank - 1]),
            offset: limit(attention.causal).map_err(small)?,
            window: limit(attention.window).map_err(small)?,
            position_start,
            causal: (has_position || attention.causal.is_some()).into(),
            scale: attention.scale,
            cap: attention.softcap.unwrap_or(1.0),
            q_grid,
            k_grid,
            v_grid,
            mask_grid: mask.map(|(_, grid)| grid),
        })
    }
}

/// The buffer of the position, where that is data.
pub(super) fn declare_position(module: &mut Module, kind: &Kind, hardware: &Hardware) -> Option<Elements> {
    kind.position.map(|dtype| module.elements("positions", dtype, false, hardware))
}

/// Statements that declare `more`, how many keys query 0 sees if there are so many.
pub(super) fn more(position: Option<&Elements>, params: &Params<Names>) -> String {
    let Params { offset, position_start, causal, .. } = params;
    match position {
        None => format!("let more = select(0u, {offset}, {causal} != 0u) + 1u;"),
        Some(values) => {
            let most = format!("{}u", u32::MAX / 2);
            let from = slice_update::clamped(values, "before", &position_start.to_string(), &most);
            format!("{from}\nlet more = before + 1u;")
        }
    }
}
