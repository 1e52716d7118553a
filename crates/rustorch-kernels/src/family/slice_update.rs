//! Elements over a part of an axis of others, from an index on that is data.

use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::Grid;
use crate::plan::parameters::parameters;
use crate::plan::{Operand, Request, line};
use crate::splitting::copy;
use crate::table::{Row, row, sets};
use crate::wgsl::{Elements, LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, Decline, Layout, OpKind, OpType, Shape, SliceUpdate as Parameters, TensorMeta};

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[row(OpType::Indexing, &[OpKind::SliceUpdate], sets::ALL)
    .beside(&[DType::I32, DType::I64])
    .check(|_, args, _| match rounds_from(args) {
        Some(from @ (DType::F64 | DType::Quant(_))) => Err(Decline::DType(from)),
        Some(_) if args[0].dtype == DType::F64 => Err(Decline::DType(DType::F64)),
        _ => Ok(()),
    })];

/// The update's dtype, where it is not that of what it becomes a part of.
fn rounds_from(args: &[TensorMeta<'_>]) -> Option<DType> {
    let from = args.get(1)?.dtype;
    (from != args[0].dtype).then_some(from)
}

/// Kernel key: everything its source depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SliceUpdate {
    /// Of what is moved; `U32` where rows are whole words.
    dtype: DType,
    /// Of what is written; another one where floats are rounded.
    to: DType,
    rank: usize,
    start: DType,
}

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize) {
        n: usize,
        x_start: u32,
        y_start: u32,
        start: u32,
        /// The largest start.
        most: usize,
        /// Elements of the result between neighbours along the axis.
        stride: usize,
        grid: Grid = (rank, 2),
    }
}

impl Kernels for Parameters {
    fn overwrites(&self) -> bool {
        true
    }

    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        if !request.is_in_place(0) {
            copy::plan(plan, request.hardware, &request.arg(0), &request.out(0))?;
        }
        let (update, start, out) = (request.arg(1), request.arg(2), request.out(0));
        let len = update.layout.dims()[self.axis];
        let most = out.layout.dims()[self.axis] - len;
        if update.layout.numel() == 0 {
            return Ok(());
        }
        let large = |_| Decline::Attr("too large");
        let place = out.layout.slice(self.axis, 0, len, 1).map_err(large)?;
        let stride = out.layout.strides()[self.axis];
        // Rows of words are moved as words, whatever they hold.
        let target = Operand { layout: &place, ..out };
        let is_last = self.axis + 1 == place.ndim();
        let moves = !is_last && update.dtype == out.dtype;
        let words = copy::rows_of_words(&update).zip(copy::rows_of_words(&target)).filter(|_| moves);
        match words {
            Some((from, to)) => {
                let from = Operand { place: update.place, dtype: DType::U32, layout: &from };
                let to = Operand { place: out.place, dtype: DType::U32, layout: &to };
                launch(plan, request, [&from, &to, &start], (most, stride * out.dtype.block_bytes() / 4))
            }
            None => launch(plan, request, [&update, &target, &start], (most, stride)),
        }
    }
}

/// Plans the launch that writes `from` to `to`, `stride` elements further for each unit of `start`, which is `most` at most.
fn launch(
    plan: &mut Plan,
    request: &Request<'_>,
    [from, to, start]: [&Operand<'_>; 3],
    (most, stride): (usize, usize),
) -> Result<(), Decline> {
    let grid = Grid::new(&[from.layout, to.layout]);
    let kernel = SliceUpdate { dtype: from.dtype, to: to.dtype, rank: grid.ndim(), start: start.dtype };
    let mut step = StepBuilder::new(request.hardware, kernel);
    let n = from.layout.numel();
    let (x_start, start) = (step.read(from)?, step.read(start)?);
    // It may write anywhere along the axis, not only where `to` is.
    let first = to.layout.offset();
    let reached = Shape::new([to.layout.end() + most * stride - first].as_slice());
    let reached = reached.and_then(|shape| Layout::contiguous(shape).at_offset(first));
    let reached = reached.map_err(|_| Decline::Attr("too large"))?;
    let y_start = step.write(&Operand { layout: &reached, ..*to })?;
    step.parameters(&Params { n, x_start, y_start, start, most, stride, grid })?;
    plan.step(step, line(n.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl SliceUpdate {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let SliceUpdate { dtype, to, rank, start: index } = *self;
        let mut module = Module::new();
        let rounds = dtype != to;
        let x = match rounds {
            true => module.elements("x", dtype, false, hardware),
            false => module.bits("x", dtype, false),
        };
        let start_values = module.elements("start_values", index, false, hardware);
        let y = if rounds { module.places("y", to, hardware) } else { module.bit_places("y", to) };
        let Params { n, x_start, y_start, start, most, stride, grid } = module.parameters::<Params>(rank);
        let body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if t >= {n} {{ return; }}
            {}
            var a = {x_start};
            var b = {y_start} + place * {stride};
            {}{}",
            clamped(&start_values, "place", &start.to_string(), &most.to_string()),
            grid.positions("t", &["a", "b"]),
            y.store_one("b", &x.load("a")),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

/// Statements that declare an index as a `u32`: of what is negative 0, of what is larger `most`.
pub(super) fn clamped(values: &Elements, name: &str, at: &str, most: &str) -> String {
    format!(
        "{}
        var {name} = select(min({name}_l, {most}), {most}, {name}_h != 0u);
        if ({name}_h >> 31u) != 0u {{ {name} = 0u; }}",
        values.index_words(name, at)
    )
}
