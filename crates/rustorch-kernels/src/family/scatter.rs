//! Elements brought to the places of indices along an axis: a thread for each line, which takes its sources in order.

use super::strided::{self, Grid};
use super::{copy, rms_norm};
use crate::library::{self, Ring};
use crate::plan::{Operand, Place, Plan, Request, StepBuilder, line};
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use crate::{Hardware, Mistake};
use rustorch_core::{DType, Decline, Layout, Op, OpType, ScatterMode, TensorMeta};

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scatter {
    dtype: DType,
    index: DType,
    mode: ScatterMode,
    rank: usize,
}

/// A line longer than this occupies one thread for too long, unless there are many.
const LONG: usize = 1 << 16;

/// What it moves and adds.
pub const ROWS: &[Row] = &[
    row(OpType::Indexing, &["scatter"], sets::MOVED).beside(INDICES).check(supports),
    row(OpType::Indexing, &["scatter_add"], sets::DENSE).beside(INDICES).check(supports),
];

const INDICES: &[DType] = &[DType::I32, DType::I64];

fn supports(op: &Op, args: &[TensorMeta<'_>], _: &Hardware) -> Result<(), Decline> {
    let Op::Scatter { axis, .. } = *op else { return Err(Decline::Op(op.name())) };
    let index = args[1].layout;
    let len = index.dims().get(axis).copied().unwrap_or(1);
    match len > LONG && index.elements() / len < 64 {
        true => Err(Decline::Attr("more than 65536 indices along the axis in few lines")),
        false => Ok(()),
    }
}

/// Adds the launches.
pub fn plan(plan: &mut Plan, request: &Request<'_>, axis: usize, mode: ScatterMode) -> Result<(), Decline> {
    let (x, index, src, out) = (request.arg(0), request.arg(1), request.arg(2), request.out(0));
    copy::plan(plan, request.hardware, &x, &out)?;
    let sources = index.layout.elements();
    if sources == 0 {
        return Ok(());
    }
    // The lines of all three, as the index has them.
    let rank = index.layout.rank();
    let lines = |layout: &Layout| -> Result<Layout, Decline> {
        let large = |_| Decline::Attr("too large");
        let covered = Layout::new(index.layout.shape().clone(), layout.strides(), 0).map_err(large)?;
        match rank {
            0 => Ok(covered),
            _ => rms_norm::rows(&covered.transpose(axis, rank - 1).map_err(large)?),
        }
    };
    let step = |layout: &Layout| layout.strides().get(axis).copied().unwrap_or(0);
    let len = |layout: &Layout| layout.dims().get(axis).copied().unwrap_or(1);
    let grid = Grid::new(&[&lines(index.layout)?, &lines(src.layout)?, &lines(out.layout)?]);
    let kernel = Scatter { dtype: x.dtype, index: index.dtype, mode, rank: grid.rank() };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let operands: [&Operand<'_>; 3] = [&index, &src, &out];
    let from = [launch.read(&index)?, launch.read(&src)?, launch.write(&out)?];
    launch.bytes(Place::Mistakes, 0..4 * crate::mistake::WORDS as u64, true)?;
    let count = sources / len(index.layout);
    launch.number(count)?.number(len(index.layout))?.number(len(x.layout))?;
    for (operand, from) in operands.into_iter().zip(from) {
        launch.word(from).number(step(operand.layout))?;
    }
    grid.describe(&mut launch)?;
    plan.step(launch, line(count.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl Scatter {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Scatter { dtype, index, mode, rank } = *self;
        let mut module = Module::new();
        let ids = module.elements("ids", index, false, hardware);
        let (src, y, mistake) = match mode {
            ScatterMode::Replace => {
                (module.bits("src", dtype, false), module.bit_places("y", dtype), Mistake::Scatter)
            }
            ScatterMode::Add => {
                let src = module.elements("src", dtype, false, hardware);
                (src, module.places("y", dtype, hardware), Mistake::ScatterAdd)
            }
        };
        module.mistakes();
        let (count, n, len) = (module.word(), module.word(), module.word());
        let (ids_from, ids_step) = (module.word(), module.word());
        let (src_from, src_step) = (module.word(), module.word());
        let (to, step) = (module.word(), module.word());
        let grid = strided::parameters(&mut module, rank, 3);
        let value = src.load("b");
        let value = match mode {
            ScatterMode::Replace => value,
            ScatterMode::Add if dtype == DType::Bool => format!("({} || {value})", y.load("place_of")),
            ScatterMode::Add => {
                let sum = Ring::of(dtype, hardware).add();
                module.add(&(library::called(&sum, hardware) + &sum));
                format!("ring_add({}, {value})", y.load("place_of"))
            }
        };
        let body = format!(
            "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
            if t >= {count} {{ return; }}
            var a = {ids_from};\nvar b = {src_from};\nvar c = {to};\n{}
            for (var k = 0u; k < {n}; k++) {{
                {}
                // Where the axis is empty every index is a mistake.
                if {len} != 0u {{
                    let place_of = c + id * {step};
                    let sum = {value};
                    {}
                }}
                a += {ids_step};
                b += {src_step};
            }}",
            grid.positions("t", &["a", "b", "c"]),
            ids.load_index("id", "a", &len.to_string(), mistake),
            y.store_one("place_of", "sum"),
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
