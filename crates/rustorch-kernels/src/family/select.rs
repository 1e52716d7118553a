//! Indexing: `index_select`, `gather`, `embedding`.
//!
//! All three copy `x[.. + index · stride]`; they differ in which dimensions of the result address `x` and which the index.

use super::weight;
use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::{self, Grid, rows};
use crate::plan::parameters::parameters;
use crate::plan::{Chosen, Place, Request, line};
use crate::splitting::{self, Extent, SplitPlan, axes, axes::one};
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl, per_word};
use rustorch_core::{
    DType, Decline, Dims, Embedding, Gather, IndexSelect, Layout, Op, OpKind, OpType, Shape,
};

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Select {
    dtype: DType,
    index: DType,
    rank: usize,
    op: OpKind,
    /// Whether only some of what is chosen from is here: each thread has an element, which it may leave alone.
    part: bool,
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] =
    &[row(OpType::Indexing, &[OpKind::Embedding, OpKind::IndexSelect, OpKind::Gather], sets::MOVED)
        .beside(&[DType::I32, DType::I64])];

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize, part: Option<()>) {
        n: usize,
        x_start: u32,
        ids_start: u32,
        y_start: u32,
        stride: usize,
        len: usize,
        /// The range of indices in this chunk: first and count.
        here: Option<[usize; 2]> = part,
        grid: Grid = (rank, 2),
    }
}

impl Kernels for Embedding {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        match request.args[0].dtype.is_quant() {
            true => weight::plan_rows(plan, request),
            false => self::plan(plan, request),
        }
    }

    /// Ids as one run, if they are.
    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let [table, ids] = [&request.args[0], &request.args[1]];
        let out = &request.outs[0];
        let (mut operands, _) =
            splitting::elementwise(&[(ids.dtype, ids.layout), (out.dtype, &rows(out.layout)?)])?;
        let mut result = operands.remove(1);
        let (dims, strides) = (result.layout.dims(), result.layout.strides());
        let with = |values: &[usize], last: usize| values.iter().copied().chain([last]).collect::<Dims>();
        let width = table.dims()[1];
        let large = |_| Decline::Attr("too large");
        let shape = Shape::new(with(dims, width)).map_err(large)?;
        result.layout = Layout::new(shape, with(strides, 1), out.layout.offset()).map_err(large)?;
        let last = result.layout.ndim() - 1;
        operands.insert(0, Extent::of(table));
        operands.push(result);
        let cut = axes::along(operands, 2, |d| match d == last {
            // Rows of blocks stay whole.
            true => (!table.dtype.is_quant()).then(|| axes::first(1)),
            false => Some([None, one(d)].into_iter().collect()),
        });
        Ok(Some(axes::choosing(cut, 0, 0)))
    }
}

impl Kernels for IndexSelect {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let axis = self.axis;
        let cut = axes::beside(request, |d| {
            Some(if d == axis { [None, one(0)] } else { [one(d), None] }.into_iter().collect())
        });
        Ok(Some(axes::choosing(cut, 0, axis)))
    }
}

impl Kernels for Gather {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::plan(plan, request)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let axis = self.axis;
        let cut = axes::beside(request, |d| {
            Some([if d == axis { None } else { one(d) }, one(d)].into_iter().collect())
        });
        Ok(Some(axes::choosing(cut, 0, axis)))
    }
}

/// Plans the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let (x, index, out) = (request.arg(0), request.arg(1), request.out(0));
    let at = |values: &[usize], axis: usize, none: usize| values.get(axis).copied().unwrap_or(none);
    let (dims, strides) = (x.layout.dims(), x.layout.strides());
    let without = |axis: usize| -> Dims {
        strides.iter().enumerate().map(|(d, &stride)| if d == axis { 0 } else { stride }).collect()
    };
    let (moves, chooses, axis): (Dims, Dims, usize) = match *request.op {
        Op::Gather(Gather { axis }) => (without(axis), index.layout.strides().into(), axis),
        Op::IndexSelect(IndexSelect { axis }) => {
            let step = index.layout.strides()[0];
            let chooses = (0..dims.len()).map(|d| if d == axis { step } else { 0 }).collect();
            (without(axis), chooses, axis)
        }
        _ => {
            let mut moves: Dims = index.layout.dims().iter().map(|_| 0).collect();
            moves.push(strides[1]);
            let mut chooses: Dims = index.layout.strides().into();
            chooses.push(0);
            (moves, chooses, 0)
        }
    };
    let layout = |strides: Dims| {
        Layout::new(out.layout.shape().clone(), strides, 0).map_err(|_| Decline::Attr("too large"))
    };
    let grid = Grid::new(&[&layout(moves)?, &layout(chooses)?]);
    let part = request.part.chosen;
    let kernel = Select {
        dtype: x.dtype,
        index: index.dtype,
        rank: grid.ndim(),
        op: request.op.kind(),
        part: part.is_some(),
    };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let (x_start, ids_start) = (launch.read(&x)?, launch.read(&index)?);
    let y_start = launch.write(&out)?;
    launch.bytes(Place::AssertLog, 0..4 * crate::device_assert::WORDS as u64, true)?;
    let elements = out.layout.numel();
    launch.parameters(&Params {
        n: elements,
        x_start,
        ids_start,
        y_start,
        stride: at(strides, axis, 0),
        len: part.map_or(at(dims, axis, 1), |chosen| chosen.whole),
        here: part.map(|Chosen { first, len, .. }| [first, len]),
        grid,
    })?;
    let threads = if part.is_some() { elements } else { elements.div_ceil(per_word(x.dtype)) };
    plan.step(launch, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl Select {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Select { dtype, index, rank, op, part } = *self;
        let mut module = Module::new();
        let x = module.bits("x", dtype, false);
        let ids = module.elements("ids", index, false, hardware);
        let y = if part { module.bit_places("y", dtype) } else { module.bits("y", dtype, true) };
        module.asserts();
        let Params { n, x_start, ids_start, y_start, stride, len, here, grid } =
            module.parameters::<Params>((rank, part.then_some(())));
        if let Some(here) = &here {
            let body = format!(
                "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
                if t >= {n} {{ return; }}
                var at = {x_start};
                var id_at = {ids_start};
                {}{}
                {}
                at += id * {stride};
                {}",
                grid.positions("t", &["at", "id_at"]),
                ids.load_index("id", "id_at", &len.to_string(), op),
                strided::chosen("id", here),
                y.store_one(&format!("{y_start} + t"), &x.load("at")),
            );
            return module.finish([WORKGROUP, 1, 1], &body);
        }
        let body = strided::each_word(&y, &n, &y_start, |k, i| {
            let (at, id_at, id) = (format!("at{k}"), format!("id_at{k}"), format!("id{k}"));
            let text = format!(
                "var {at} = {x_start};\nvar {id_at} = {ids_start};\n{}{}\n{at} = select({at} + {id} * {stride}, {x_start}, {len} == 0u);",
                grid.positions(i, &[&at, &id_at]),
                ids.load_index(&id, &id_at, &len.to_string(), op),
            );
            (text, x.load(&at))
        });
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
