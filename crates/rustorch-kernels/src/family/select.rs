//! Elements chosen by indices: slices along an axis, elements along an axis, rows of a table.
//!
//! All three move `x[.. + index · step]`: they differ in which dimensions of the result move `x` and which the index.

use super::strided::{self, Grid};
use crate::plan::{Chosen, Place, Plan, Request, StepBuilder, line};
use crate::table::{Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl, per_word};
use crate::{Hardware, Mistake};
use rustorch_core::{DType, Decline, Dims, Layout, Op, OpType};

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Select {
    dtype: DType,
    index: DType,
    rank: usize,
    mistake: Mistake,
    /// Whether only some of what is chosen from is here: each thread has an element, which it may leave alone.
    part: bool,
}

/// What it moves.
pub const ROWS: &[Row] = &[row(OpType::Indexing, &["embedding", "index_select", "gather"], sets::MOVED)
    .beside(&[DType::I32, DType::I64])];

/// Adds the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let (x, index, out) = (request.arg(0), request.arg(1), request.out(0));
    let at = |values: &[usize], axis: usize, none: usize| values.get(axis).copied().unwrap_or(none);
    let (dims, strides) = (x.layout.dims(), x.layout.strides());
    let without = |axis: usize| -> Dims {
        strides.iter().enumerate().map(|(d, &stride)| if d == axis { 0 } else { stride }).collect()
    };
    let (moves, chooses, axis, mistake): (Dims, Dims, usize, Mistake) = match *request.op {
        Op::Gather { axis } => (without(axis), index.layout.strides().into(), axis, Mistake::Gather),
        Op::IndexSelect { axis } => {
            let step = index.layout.strides()[0];
            let chooses = (0..dims.len()).map(|d| if d == axis { step } else { 0 }).collect();
            (without(axis), chooses, axis, Mistake::IndexSelect)
        }
        _ => {
            let mut moves: Dims = index.layout.dims().iter().map(|_| 0).collect();
            moves.push(strides[1]);
            let mut chooses: Dims = index.layout.strides().into();
            chooses.push(0);
            (moves, chooses, 0, Mistake::Embedding)
        }
    };
    let layout = |strides: Dims| {
        Layout::new(out.layout.shape().clone(), strides, 0).map_err(|_| Decline::Attr("too large"))
    };
    let grid = Grid::new(&[&layout(moves)?, &layout(chooses)?]);
    let part = request.part.chosen;
    let kernel =
        Select { dtype: x.dtype, index: index.dtype, rank: grid.rank(), mistake, part: part.is_some() };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let from = [launch.read(&x)?, launch.read(&index)?];
    let to = launch.write(&out)?;
    launch.bytes(Place::Mistakes, 0..4 * crate::mistake::WORDS as u64, true)?;
    let elements = out.layout.elements();
    launch.number(elements)?.word(from[0]).word(from[1]).word(to);
    launch.number(at(strides, axis, 0))?.number(part.map_or(at(dims, axis, 1), |chosen| chosen.whole))?;
    if let Some(Chosen { first, len, .. }) = part {
        launch.number(first)?.number(len)?;
    }
    grid.describe(&mut launch)?;
    let threads = if part.is_some() { elements } else { elements.div_ceil(per_word(x.dtype)) };
    plan.step(launch, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl Select {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Select { dtype, index, rank, mistake, part } = *self;
        let mut module = Module::new();
        let x = module.bits("x", dtype, false);
        let ids = module.elements("ids", index, false, hardware);
        let y = if part { module.bit_places("y", dtype) } else { module.bits("y", dtype, true) };
        module.mistakes();
        let (n, from, ids_from, to) = (module.word(), module.word(), module.word(), module.word());
        let (step, len) = (module.word(), module.word());
        let here = part.then(|| [module.word(), module.word()]);
        let grid = strided::parameters(&mut module, rank, 2);
        if let Some([first, count]) = here {
            let body = format!(
                "let t = {LINEAR_GROUP} * {WORKGROUP}u + local;
                if t >= {n} {{ return; }}
                var at = {from};
                var id_at = {ids_from};
                {}{}
                {}
                at += id * {step};
                {}",
                grid.positions("t", &["at", "id_at"]),
                ids.load_index("id", "id_at", &len.to_string(), mistake),
                strided::chosen("id", first, count),
                y.store_one(&format!("{to} + t"), &x.load("at")),
            );
            return module.finish([WORKGROUP, 1, 1], &body);
        }
        let body = strided::each_word(&y, n, to, |k, i| {
            let (at, id_at, id) = (format!("at{k}"), format!("id_at{k}"), format!("id{k}"));
            let text = format!(
                "var {at} = {from};\nvar {id_at} = {ids_from};\n{}{}\n{at} = select({at} + {id} * {step}, {from}, {len} == 0u);",
                grid.positions(i, &[&at, &id_at]),
                ids.load_index(&id, &id_at, &len.to_string(), mistake),
            );
            (text, x.load(&at))
        });
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
