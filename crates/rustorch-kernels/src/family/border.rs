//! Tensors put together from parts: joined, surrounded by a value, cut to a triangle.

use super::strided::{self, Grid};
use super::{copy, create};
use crate::Hardware;
use crate::plan::{Operand, Plan, Request, StepBuilder, line};
use crate::table::{Row, row, sets};
use crate::wgsl::{Module, WORKGROUP, Wgsl, per_word};
use rustorch_core::{DType, Decline, OpType, Pad, Triangle as Parameters};

/// Keeps a triangle of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Triangle {
    dtype: DType,
    upper: bool,
    rank: usize,
}

/// What is put together.
pub const ROWS: &[Row] = &[row(OpType::Indexing, &["concat", "pad", "triu", "tril"], sets::MOVED)];

/// Adds the launches that join the arguments.
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

/// Adds the launches that surround the argument.
pub fn pad(plan: &mut Plan, request: &Request<'_>, pad: &Pad) -> Result<(), Decline> {
    create::fill(plan, request.hardware, &request.out(0), pad.value)?;
    let dims = request.args[0].dims();
    let axes: Vec<_> =
        pad.widths.iter().zip(dims).enumerate().map(|(d, (&(before, _), &len))| (d, before, len)).collect();
    part(plan, request, 0, &axes)
}

/// Adds the launch that cuts the argument.
pub fn triangle(plan: &mut Plan, request: &Request<'_>, triangle: &Parameters) -> Result<(), Decline> {
    let (x, out) = (request.arg(0), request.out(0));
    let grid = Grid::new(&[x.layout]);
    let kernel = Triangle { dtype: x.dtype, upper: triangle.upper, rank: grid.rank() };
    let rank = out.layout.rank();
    let [rows, columns] = [out.layout.dims()[rank - 2], out.layout.dims()[rank - 1]];
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let (from, to) = (launch.read(&x)?, launch.write(&out)?);
    let elements = out.layout.elements();
    // Diagonals beyond every element are all alike.
    let limit = i64::from(i32::MAX);
    if rows as i64 > limit / 2 || columns as i64 > limit / 2 {
        return Err(Decline::Attr("too large"));
    }
    let diagonal = triangle.diagonal.clamp(-limit, limit) as i32;
    launch.number(elements)?.word(from).word(to).number(rows)?.number(columns)?.word(diagonal as u32);
    grid.describe(&mut launch)?;
    let threads = elements.div_ceil(per_word(x.dtype));
    plan.step(launch, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl Triangle {
    pub(super) fn wgsl(&self, _hardware: &Hardware) -> Wgsl {
        let Triangle { dtype, upper, rank } = *self;
        let mut module = Module::new();
        let x = module.bits("x", dtype, false);
        let y = module.bits("y", dtype, true);
        let (n, from, to) = (module.word(), module.word(), module.word());
        let (rows, columns, diagonal) = (module.word(), module.word(), module.word());
        let grid = strided::parameters(&mut module, rank, 1);
        let kept = if upper { ">=" } else { "<=" };
        let body = strided::each_word(&y, n, to, |k, i| {
            let at = format!("at{k}");
            let text = format!(
                "var {at} = {from};\n{}
                let off{k} = bitcast<i32>({i} % {columns}) - bitcast<i32>({i} / {columns} % {rows});
                var value{k} = {}();
                if off{k} {kept} bitcast<i32>({diagonal}) {{ value{k} = {}; }}",
                grid.positions(i, &[&at]),
                y.value(),
                x.load(&at),
            );
            (text, format!("value{k}"))
        });
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
