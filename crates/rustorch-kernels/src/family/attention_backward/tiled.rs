//! Gradients in tiles: a workgroup has a tile of queries and goes over the keys that they see, or has a tile of keys and goes over
//! the queries that see them, of all heads that share them.
//!
//! Scores and their gradients are blocks in registers, as in the forward kernel; weights go through workgroup memory to where they
//! are multiplied with chunks of rows. Rows of queries are counted query by query, as there.
//!
//! Dao: *FlashAttention-2*, 2023.

use super::{delta, source};
use crate::Hardware;
use crate::family::attention::chunks::{ACROSS, DEPTH, DOWN, KEY_PITCH, KEYS, THREADS, loads_quads};
use crate::family::matmul::leading;
use crate::family::{Plan, StepBuilder};
use crate::library::strided::{Grid, MAX_RANK};
use crate::plan::parameters::parameters;
use crate::plan::{Operand, Place, Request, line};
use crate::wgsl::Wgsl;
use rustorch_core::{AttentionBackward as Parameters, DType, Decline, Layout, Shape, TensorMeta};

/// The most rows of a thread.
const MOST_ROWS: usize = 4;
/// A launch of fewer workgroups than this has smaller tiles.
const FEW: usize = 128;

/// What the rows of a workgroup are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    /// Queries, whose gradients it makes.
    Queries,
    /// Keys and values, of which it makes one gradient or both.
    Keys { keys: bool, values: bool },
}

impl Side {
    /// Whether gradients of scores are needed, and with them values and `delta.rs`'s sums.
    pub(super) fn needs_score_gradients(self) -> bool {
        self != Side::Keys { keys: false, values: true }
    }

    pub(super) fn makes_values(self) -> bool {
        matches!(self, Side::Keys { values: true, .. })
    }
}

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TiledBackward {
    pub(super) side: Side,
    pub(super) dtype: DType,
    /// The dtype of the mask.
    pub(super) mask: Option<DType>,
    pub(super) softcap: bool,
    /// Rows of a thread.
    pub(super) rows: usize,
    /// Widths of queries and values.
    pub(super) widths: [usize; 2],
    /// Whether four neighbours are loaded at once: of queries, keys, values, gradients.
    pub(super) quads: [bool; 4],
    /// Dimensions of heads.
    pub(super) rank: usize,
}

parameters! {
    /// Where rows of the queries of a head are: from one head of those that share keys to the next, from one query to the next, and
    /// from one element to the next.
    pub(super) struct Rows() {
        start: u32,
        head: usize,
        row: usize,
        stride: usize,
    }
}

parameters! {
    /// Kernel parameters.
    pub(super) struct Params(rank: usize, tensors: usize) {
        m: usize,
        group: usize,
        n: usize,
        d: usize,
        e: usize,
        q: Rows = (),
        k: Rows = (),
        v: Rows = (),
        grad: Rows = (),
        lse: Rows = (),
        mask: Rows = (),
        /// The gradient of queries or of keys.
        y_start: u32,
        /// That of values.
        z_start: u32,
        /// One past the last key that query 0 sees.
        offset: u32,
        /// How far back it sees.
        window: u32,
        causal: u32,
        scale: f32,
        cap: f32,
        /// Of keys, in all batches.
        heads: usize,
        /// Of a head.
        tiles: usize,
        groups: usize,
        grid: Grid = (rank, tensors),
    }
}

/// The operands of a request, as these kernels see them.
pub(super) struct Operands {
    m: usize,
    group: usize,
    n: usize,
    d: usize,
    e: usize,
    heads: usize,
    /// Heads of keys: those of queries, keys, values, gradients, log-sum-exps and the mask.
    grid: Grid,
    /// The mask as wide as the scores.
    mask: Option<Layout>,
    /// The widths of rows in workgroup memory.
    widths: [usize; 2],
}

impl Operands {
    /// None if the device has too little workgroup memory, or heads too many dimensions.
    pub(super) fn new(
        args: &[TensorMeta<'_>],
        hardware: &Hardware,
        backward: &Parameters,
    ) -> Result<Option<Operands>, Decline> {
        let [grad, q, k, v, lse] = [0, 1, 2, 3, 5].map(|i| args[i].layout);
        let rank = q.ndim();
        let (qd, kd) = (q.dims(), k.dims());
        let group = qd[rank - 3] / kd[rank - 3].max(1);
        let large = |_| Decline::Attr("too large");
        let mask = match args.get(6) {
            None => None,
            Some(mask) => {
                let shape = q.shape().with_dim(rank - 1, kd[rank - 2]).map_err(large)?;
                let layout = mask.layout.broadcast_to(&shape, "attention");
                Some(layout.map_err(|_| Decline::Layout("the mask"))?)
            }
        };
        // Heads of queries by those that share keys.
        let shared = |x: &Layout| {
            let mut strides = x.strides()[..rank - 2].to_vec();
            strides[rank - 3] *= group;
            let shape = Shape::new(&kd[..rank - 2]).map_err(large)?;
            Layout::new(shape, &*strides, 0).map_err(large)
        };
        let mut heads = vec![shared(q)?, leading(k, 2)?, leading(v, 2)?, shared(grad)?, shared(lse)?];
        heads.extend(mask.as_ref().map(shared).transpose()?);
        let grid = Grid::new(&heads.iter().collect::<Vec<_>>());
        let (d, e) = (qd[rank - 1], v.dims()[rank - 1]);
        let operands = Operands {
            m: qd[rank - 2],
            group,
            n: kd[rank - 2],
            d,
            e,
            heads: kd[..rank - 2].iter().product(),
            grid,
            mask,
            widths: [d, e].map(|width| width.next_power_of_two().max(4 * ACROSS)),
        };
        let fits = operands.memory(1) <= hardware.workgroup_memory as usize
            && THREADS <= hardware.workgroup as usize
            && operands.grid.ndim() <= MAX_RANK
            && backward.attention.dropout.is_none();
        Ok(fits.then_some(operands))
    }

    /// How many queries there are.
    pub(super) fn queries(&self) -> usize {
        self.heads * self.group * self.m
    }

    /// Rows of a side in a head.
    fn count(&self, side: Side) -> usize {
        if side == Side::Queries { self.group * self.m } else { self.n }
    }

    /// Bytes of workgroup memory for so many rows of a thread: two rows and weights, and a chunk.
    fn memory(&self, rows: usize) -> usize {
        let row = self.d.next_multiple_of(DEPTH) + self.e.next_multiple_of(DEPTH) + KEYS;
        4 * (DOWN * rows * row + 4 * KEYS * KEY_PITCH)
    }

    /// Rows of a thread.
    fn rows(&self, side: Side, hardware: &Hardware) -> usize {
        let mut rows = MOST_ROWS;
        let count = self.count(side);
        while rows > 1
            && (DOWN * rows / 2 >= count
                || self.heads * count.div_ceil(DOWN * rows) < FEW
                || self.memory(rows) > hardware.workgroup_memory as usize)
        {
            rows /= 2;
        }
        rows
    }
}

/// Plans the launches.
pub(super) fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    backward: &Parameters,
    operands: &Operands,
) -> Result<(), Decline> {
    let &Parameters { q, k, v, .. } = backward;
    let delta = if q || k { Some(delta::plan(plan, request, operands)?) } else { None };
    if q {
        launch(plan, request, backward, operands, Side::Queries, delta)?;
    }
    if k || v {
        launch(plan, request, backward, operands, Side::Keys { keys: k, values: v }, delta.filter(|_| k))?;
    }
    Ok(())
}

fn launch(
    plan: &mut Plan,
    request: &Request<'_>,
    backward: &Parameters,
    operands: &Operands,
    side: Side,
    delta: Option<Place>,
) -> Result<(), Decline> {
    let attention = &backward.attention;
    let [grad, q, k, v, lse] = [0, 1, 2, 3, 5].map(|i| request.arg(i));
    let &Operands { m, group, n, d, e, heads, .. } = operands;
    let rows = operands.rows(side, request.hardware);
    let kernel = TiledBackward {
        side,
        dtype: q.dtype,
        mask: operands.mask.is_some().then(|| request.args[6].dtype),
        softcap: attention.softcap.is_some(),
        rows,
        widths: operands.widths,
        quads: [&q, &k, &v, &grad].map(|x| loads_quads(x, request.hardware)),
        rank: operands.grid.ndim(),
    };
    let rank = q.layout.ndim();
    let rows_of = |start: u32, layout: &Layout| {
        let stride = |from_last: usize| layout.strides()[rank - from_last];
        Rows {
            start,
            head: stride(3),
            row: stride(2),
            stride: if layout.ndim() == rank { stride(1) } else { 0 },
        }
    };
    let mut step = StepBuilder::new(request.hardware, kernel);
    let (q_rows, k_rows) = (rows_of(step.read(&q)?, q.layout), rows_of(step.read(&k)?, k.layout));
    let (grad_rows, lse_rows) =
        (rows_of(step.read(&grad)?, grad.layout), rows_of(step.read(&lse)?, lse.layout));
    // A kernel has no buffer that it does not read.
    let mut v_rows = rows_of(0, v.layout);
    if let Some(delta) = delta {
        v_rows.start = step.read(&v)?;
        step.bytes(delta, 0..4 * operands.queries() as u64, false)?;
    }
    let mask = match &operands.mask {
        Some(layout) => rows_of(step.read(&Operand { layout, ..request.arg(6) })?, layout),
        None => Rows { start: 0, head: 0, row: 0, stride: 0 },
    };
    let mut result = usize::from(backward.q && side != Side::Queries);
    let mut write = |step: &mut StepBuilder<'_>, wanted: bool| {
        if !wanted {
            return Ok(0);
        }
        result += 1;
        step.write(&request.out(result - 1))
    };
    let y_start = write(&mut step, side.needs_score_gradients())?;
    let z_start = write(&mut step, side.makes_values())?;
    let limit =
        |x: Option<usize>| x.map_or(Ok(u32::MAX / 2), |x| u32::try_from(x.min(u32::MAX as usize / 2)));
    let small = |_| Decline::Attr("too large");
    let tiles = operands.count(side).div_ceil(DOWN * rows);
    let groups = heads * tiles;
    step.parameters(&Params {
        m,
        group,
        n,
        d,
        e,
        q: q_rows,
        k: k_rows,
        v: v_rows,
        grad: grad_rows,
        lse: lse_rows,
        mask,
        y_start,
        z_start,
        offset: limit(attention.causal).map_err(small)?,
        window: limit(attention.window).map_err(small)?,
        causal: attention.causal.is_some().into(),
        scale: attention.scale,
        cap: attention.softcap.unwrap_or(1.0),
        heads,
        tiles,
        groups,
        grid: operands.grid.clone(),
    })?;
    plan.step(step, line(groups, request.hardware)?);
    Ok(())
}

impl TiledBackward {
    pub(crate) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        source::wgsl(self, hardware)
    }
}
