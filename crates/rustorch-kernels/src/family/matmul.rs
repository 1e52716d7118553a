//! Products of dense matrices, and of `f32` activations with 16-bit weights.
//!
//! Each result is one chain of multiply-adds over the inner dimension, in order, as `rustorch-cpu` has it: it does not
//! depend on the number of rows.

use super::pointwise;
use super::strided::{self, Grid};
use super::tile::{Product, Side, Tile};
use crate::Hardware;
use crate::library::{self, Ring};
use crate::pieces::row_pitch;
use crate::plan::{Chosen, Operand, Place, Plan, Request, StepBuilder, line};
use crate::table::{Row, row, sets};
use crate::wgsl::{Elements, LINEAR_GROUP, Module, Wgsl};
use rustorch_core::{DType, Decline, Layout, Op, OpType, Shape, TensorMeta, UnaryOp};
use std::fmt::Write;

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatMul {
    x: DType,
    w: DType,
    /// Whether `f32` beside a weight of 16 bits stays as it is.
    exact: bool,
    tile: Tile,
    /// Whether neighbours in memory are neighbours along the inner dimension: in `x`, in `w`.
    inner: [bool; 2],
    /// Dimensions of the batch.
    rank: usize,
    bias: bool,
    activation: Option<UnaryOp>,
    /// If each row of `x` chooses its matrix: the dtype of the choice.
    experts: Option<DType>,
    /// Whether only some of the matrices are here.
    part: bool,
}

/// What it multiplies.
pub const ROWS: &[Row] = &[row(OpType::LinearAlgebra, &["matmul", "expert_matmul"], sets::NUMERIC)
    .check(supports)
    .remark("`f32` also with weights of `f16` and `bf16`")];

fn supports(op: &Op, args: &[TensorMeta<'_>], hardware: &Hardware) -> Result<(), Decline> {
    if args[1].dtype.is_quant() {
        return Err(Decline::DType(args[1].dtype));
    }
    if let Op::MatMul(matmul) = op
        && let Some(activation) = matmul.activation
    {
        pointwise::activation(activation, args[0].dtype, hardware)?;
    }
    Ok(())
}

/// The layout of the leading dimensions, all but the last `inner`.
pub(crate) fn leading(layout: &Layout, inner: usize) -> Result<Layout, Decline> {
    let outer = layout.rank() - inner;
    let large = |_| Decline::Attr("too large");
    let shape = Shape::new(&layout.dims()[..outer]).map_err(large)?;
    Layout::new(shape, &layout.strides()[..outer], 0).map_err(large)
}

/// Adds the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let (x, w, out) = (request.arg(0), request.arg(1), request.out(0));
    let experts = matches!(request.op, Op::ExpertMatMul { .. });
    let rank = x.layout.rank();
    let [x_row, x_inner] = [x.layout.strides()[rank - 2], x.layout.strides()[rank - 1]];
    let w_rank = w.layout.rank();
    let [mut w_inner, mut w_column] = [w.layout.strides()[w_rank - 2], w.layout.strides()[w_rank - 1]];
    let (m, n) = match experts {
        true => (1, out.layout.dims()[2]),
        false => (x.layout.dims()[rank - 2], w.layout.dims()[w_rank - 1]),
    };
    let mut expert = 0;
    if experts {
        (w_inner, w_column) = (w_column, w_inner);
        expert = w.layout.strides()[0];
    }
    let own = if experts { 1 } else { 2 };
    let batch = leading(out.layout, own)?;
    let broadcast = |layout: &Layout, own: usize| {
        leading(layout, own)?
            .broadcast_to(batch.shape(), "matmul")
            .map_err(|_| Decline::Layout("operands do not broadcast"))
    };
    // Beside `x`, the batch moves either the matrix or the place of its number.
    let other = if experts { leading(request.arg(2).layout, 0)? } else { broadcast(w.layout, 2)? };
    let grid = Grid::new(&[&broadcast(x.layout, own)?, &other]);
    let (activation, exact) = match request.op {
        Op::MatMul(matmul) => (matmul.activation, matmul.exact),
        Op::ExpertMatMul { exact } => (None, *exact),
        _ => (None, false),
    };
    let exact = exact && x.dtype != w.dtype;
    let ring = ring(x.dtype, w.dtype, exact, request.hardware);
    let tile = Tile::choose(m, n, ring);
    let bias = !experts && request.args.len() == 3;
    let kernel = MatMul {
        x: x.dtype,
        w: w.dtype,
        exact,
        tile,
        inner: [x_inner == 1, w_inner == 1],
        rank: grid.rank(),
        bias,
        activation,
        experts: experts.then(|| request.args[2].dtype),
        part: request.part.chosen.is_some(),
    };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let from = [launch.read(&x)?, launch.read(&w)?];
    let to = launch.write(&out)?;
    let pitch = row_pitch(out.layout).ok_or(Decline::Layout("rows of a product must be evenly apart"))?;
    let mut extra = (0, 0);
    if bias {
        let bias: Operand<'_> = request.arg(2);
        extra = (launch.read(&bias)?, bias.layout.strides()[0]);
    }
    if experts {
        extra = (launch.read(&request.arg(2))?, expert);
        launch.bytes(Place::Mistakes, 0..4 * crate::mistake::WORDS as u64, true)?;
    }
    let [across, tiles] = tile.count(m, n);
    let groups = tiles * batch.elements();
    launch.number(m)?.number(n)?.number(x.layout.dims()[rank - 1])?.number(across)?.number(tiles)?;
    launch.number(groups)?.word(from[0]).word(from[1]).word(to);
    launch.number(x_row)?.number(x_inner)?.number(w_inner)?.number(w_column)?;
    let matrices = request.part.chosen.map_or(w.layout.dims()[0], |chosen| chosen.whole);
    launch.word(extra.0).number(extra.1)?.number(matrices)?.float(1.0).number(pitch)?;
    if let Some(Chosen { first, len, .. }) = request.part.chosen {
        launch.number(first)?.number(len)?;
    }
    grid.describe(&mut launch)?;
    plan.step(launch, line(groups, request.hardware)?);
    Ok(())
}

impl MatMul {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let MatMul { x: dtype, w: w_dtype, exact, tile, inner, rank, bias, activation, experts, part } =
            *self;
        let ring = ring(dtype, w_dtype, exact, hardware);
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let w = module.elements("w", w_dtype, false, hardware);
        let y = module.places("y", dtype, hardware);
        let bias = bias.then(|| module.elements("bias", dtype, false, hardware));
        let ids = experts.map(|dtype| {
            let ids = module.elements("ids", dtype, false, hardware);
            module.mistakes();
            ids
        });
        let (m, n, k, across, tiles) =
            (module.word(), module.word(), module.word(), module.word(), module.word());
        let (groups, x_from, w_from, to) = (module.word(), module.word(), module.word(), module.word());
        let (x_row, x_inner, w_inner, w_column) =
            (module.word(), module.word(), module.word(), module.word());
        let (extra, extra_step, matrices, one) = (module.word(), module.word(), module.word(), module.word());
        let pitch = module.word();
        let here = part.then(|| [module.word(), module.word()]);
        let grid = strided::parameters(&mut module, rank, 2);
        let function = activation.and_then(|op| pointwise::activation(op, dtype, hardware).ok());
        let function = function.unwrap_or_default();
        module.add(&library::called(&[&ring.add(), &ring.step(), &*function].concat(), hardware));
        if activation.is_some() {
            let ty = ring.ty;
            // Sums of small integers have wrapped before their function is taken.
            let wrapped = match dtype {
                DType::U8 => "sum & 255u",
                DType::I8 => "extractBits(sum, 0u, 8u)",
                DType::I16 => "extractBits(sum, 0u, 16u)",
                _ => "sum",
            };
            module
                .add(&format!("fn activated(sum: {ty}) -> {ty} {{ let a = {wrapped}; return {function}; }}"));
        }
        let [rows, columns] = tile.shape();
        let mut body = format!(
            "let number = {LINEAR_GROUP};
            if number >= {groups} {{ return; }}
            let batch = number / {tiles};
            let tile = number % {tiles};
            let first_column = (tile % {across}) * {columns}u;
            let first_row = (tile / {across}) * {rows}u;
            var x_at = {x_from};\n"
        );
        match &ids {
            None => {
                let _ =
                    writeln!(body, "var w_at = {w_from};\n{}", grid.positions("batch", &["x_at", "w_at"]));
            }
            Some(ids) => {
                let choice =
                    ids.load_index("expert", "id_at", &matrices.to_string(), crate::Mistake::ExpertMatMul);
                let of_another_part =
                    here.map_or_else(String::new, |[first, len]| strided::chosen("expert", first, len));
                let _ = writeln!(
                    body,
                    "var id_at = {extra};\n{}\n{choice}\n{of_another_part}\nlet w_at = {w_from} + expert * {extra_step};",
                    grid.positions("batch", &["x_at", "id_at"])
                );
            }
        }
        let factor = factor(&x, w_dtype, exact);
        let (m, n, k) = (m.to_string(), n.to_string(), k.to_string());
        let x_load = format!("v = {};", factor(&format!("x_at + j * {x_row} + i * {x_inner}")));
        let w_load = format!("v = {};", w.load(&format!("w_at + j * {w_column} + i * {w_inner}")));
        let product = Product {
            tile,
            ring,
            left: Side { load: &x_load, count: &m, inner: inner[0], quads: false },
            right: Side { load: &w_load, count: &n, inner: inner[1], quads: false },
            len: &k,
            segment: None,
        };
        body += &product.text(&mut module, &one.float(), |sum| {
            let mut value = sum.to_owned();
            if let Some(bias) = &bias {
                value = format!("ring_add({value}, {})", bias.load(&format!("{extra} + c * {extra_step}")));
            }
            if activation.is_some() {
                value = format!("activated({value})");
            }
            y.store_one(&format!("{to} + (batch * {m} + r) * {pitch} + c"), &value)
        });
        module.finish(product.workgroup(), &body)
    }
}

/// What the products and sums are: beside a weight of 16 bits those of its dtype, which are in `f32`.
fn ring(x: DType, w: DType, exact: bool, hardware: &Hardware) -> Ring {
    Ring::of(if x == DType::F32 && !exact { w } else { x }, hardware)
}

/// The element of `x` at a place as a factor: beside a weight of 16 bits it is rounded to them.
fn factor(x: &Elements, w: DType, exact: bool) -> impl Fn(&str) -> String {
    move |at| {
        let value = x.load(at);
        match (x.dtype(), w) {
            _ if exact => value,
            (DType::F32, DType::F16) => format!("f16_value(f16_bits({value}))"),
            (DType::F32, DType::BF16) => format!("bf16_value(bf16_bits({value}))"),
            _ => value,
        }
    }
}
