//! Concatenation, padding, and triangles of matrices.

use super::create;
use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::{self, Grid};
use crate::plan::parameters::parameters;
use crate::plan::{Operand, Request, line};
use crate::splitting::{Chunk, SplitPlan, axes, copy};
use crate::table::{Row, row, sets};
use crate::wgsl::{Module, WORKGROUP, Wgsl, per_word};
use rustorch_core::{Concat, DType, Decline, Op, OpKind, OpType, Pad, Tri as TriOp, TriKind};

/// Keeps a triangle of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tri {
    dtype: DType,
    upper: bool,
    rank: usize,
}

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize) {
        n: usize,
        x_start: u32,
        y_start: u32,
        rows: usize,
        columns: usize,
        diagonal: i32,
        grid: Grid = (rank, 1),
    }
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[row(
    OpType::Indexing,
    &[OpKind::Concat, OpKind::Pad, OpKind::Tri(TriKind::Upper), OpKind::Tri(TriKind::Lower)],
    sets::MOVED,
)];

impl Kernels for Concat {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::concat(plan, request, self.axis)
    }
}

impl Kernels for Pad {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::pad(plan, request, self)
    }
}

impl Kernels for TriOp {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        self::triangle(plan, request, self)
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        Ok(Some(axes::dimensions(request, |_| true)))
    }

    fn narrowed(&self, chunk: &Chunk, axes: usize) -> Option<Op> {
        let [.., row, column] = chunk.starts[..axes] else { return None };
        let diagonal = self.diagonal.saturating_add(row as i64).saturating_sub(column as i64);
        Some(Op::Tri(TriOp { diagonal, ..self.clone() }))
    }
}

/// Plans the launches that join the arguments.
pub fn concat(plan: &mut Plan, request: &Request<'_>, axis: usize) -> Result<(), Decline> {
    let mut start = 0;
    for i in 0..request.args.len() {
        let len = request.args[i].dims()[axis];
        part(plan, request, i, &[(axis, start, len)])?;
        start += len;
    }
    Ok(())
}

/// Adds the launch that copies argument `i` to a part of the result: from `start` on, `len` elements of each axis given.
fn part(
    plan: &mut Plan,
    request: &Request<'_>,
    i: usize,
    axes: &[(usize, usize, usize)],
) -> Result<(), Decline> {
    let out = request.out(0);
    let mut layout = out.layout.clone();
    for &(axis, start, len) in axes {
        layout = layout.slice(axis, start, len, 1).map_err(|_| Decline::Attr("too large"))?;
    }
    copy::plan(plan, request.hardware, &request.arg(i), &Operand { layout: &layout, ..out })
}

/// Plans the launches that surround the argument.
pub fn pad(plan: &mut Plan, request: &Request<'_>, pad: &Pad) -> Result<(), Decline> {
    create::fill(plan, request.hardware, &request.out(0), pad.value)?;
    let dims = request.args[0].dims();
    let axes: Vec<_> =
        pad.widths.iter().zip(dims).enumerate().map(|(d, (&(before, _), &len))| (d, before, len)).collect();
    part(plan, request, 0, &axes)
}

/// Adds the launch that cuts the argument.
pub fn triangle(plan: &mut Plan, request: &Request<'_>, triangle: &TriOp) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(0));
    let grid = Grid::new(&[x.layout]);
    let kernel = Tri { dtype: x.dtype, upper: triangle.upper, rank: grid.ndim() };
    let rank = out.layout.ndim();
    let [rows, columns] = [out.layout.dims()[rank - 2], out.layout.dims()[rank - 1]];
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let (x_start, y_start) = (launch.read(&x)?, launch.write(&out)?);
    let elements = out.layout.numel();
    // Diagonals beyond every element are all alike.
    let limit = i64::from(i32::MAX);
    if rows as i64 > limit / 2 || columns as i64 > limit / 2 {
        return Err(Decline::Attr("too large"));
    }
    let diagonal = triangle.diagonal.clamp(-limit, limit) as i32;
    launch.parameters(&Params { n: elements, x_start, y_start, rows, columns, diagonal, grid })?;
    let threads = elements.div_ceil(per_word(x.dtype));
    plan.step(launch, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl Tri {
    pub(super) fn wgsl(&self, _hardware: &Hardware) -> Wgsl {
        let Tri { dtype, upper, rank } = *self;
        let mut module = Module::new();
        let x = module.bits("x", dtype, false);
        let y = module.bits("y", dtype, true);
        let Params { n, x_start, y_start, rows, columns, diagonal, grid } = module.parameters::<Params>(rank);
        let kept = if upper { ">=" } else { "<=" };
        let body = strided::each_word(&y, &n, &y_start, |k, i| {
            let at = format!("at{k}");
            let text = format!(
                "var {at} = {x_start};\n{}
                let off{k} = bitcast<i32>({i} % {columns}) - bitcast<i32>({i} / {columns} % {rows});
                var value{k} = {}();
                if off{k} {kept} {diagonal} {{ value{k} = {}; }}",
                grid.positions(i, &[&at]),
                y.value(),
                x.load(&at),
            );
            (text, format!("value{k}"))
        });
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
