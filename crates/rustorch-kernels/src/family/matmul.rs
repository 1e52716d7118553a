//! Products of dense matrices, and of `f32` activations with 16-bit weights.
//!
//! A workgroup makes a tile of results, from strips of both operands in shared memory. Each result is one chain of
//! multiply-adds over the inner dimension, in order, as `rustorch-cpu` has it: it depends neither on the tile nor on the
//! number of rows.

use super::pointwise;
use super::strided::{self, Grid};
use crate::Hardware;
use crate::library::{self, Ring};
use crate::plan::{Operand, Place, Plan, Request, StepBuilder, line};
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
}

/// What a workgroup makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Tile {
    /// Sixteen results of one row; the threads are more, to read the strips.
    Row,
    /// Eight rows of 32.
    Thin,
    /// 32 by 32, four to a thread.
    Small,
    /// 64 by 64, sixteen to a thread.
    Large,
}

/// Numbers of a tile.
struct Sizes {
    /// Threads that sum: columns, rows.
    threads: [usize; 2],
    /// Columns and rows of each.
    each: [usize; 2],
    /// Threads of the workgroup.
    workgroup: usize,
    /// Inner elements at a time.
    depth: usize,
}

impl Tile {
    fn choose(m: usize, n: usize, ring: Ring) -> Tile {
        match m {
            0..=1 => Tile::Row,
            2..=8 => Tile::Thin,
            _ if ring.size == 4 && m >= 48 && n >= 48 => Tile::Large,
            _ => Tile::Small,
        }
    }

    /// The strips of numbers of `size` bytes take less than 16 KiB.
    fn sizes(self, size: usize) -> Sizes {
        let of = |threads: [usize; 2], each: [usize; 2], workgroup, bytes| Sizes {
            threads,
            each,
            workgroup,
            depth: bytes / size,
        };
        match self {
            Tile::Row => of([16, 1], [1, 1], 64, 256),
            Tile::Thin => of([32, 8], [1, 1], 256, 128),
            Tile::Small => of([16, 16], [2, 2], 256, 64),
            Tile::Large => of([16, 16], [4, 4], 256, 64),
        }
    }
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
        pointwise::activation(activation, args[0].dtype, hardware).ok_or(Decline::Op(activation.name()))?;
    }
    Ok(())
}

/// The layout of the leading dimensions, all but the last `inner`.
fn leading(layout: &Layout, inner: usize) -> Result<Layout, Decline> {
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
    };
    let sizes = tile.sizes(ring.size);
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let from = [launch.read(&x)?, launch.read(&w)?];
    let to = launch.write(&out)?;
    let mut extra = (0, 0);
    if bias {
        let bias: Operand<'_> = request.arg(2);
        extra = (launch.read(&bias)?, bias.layout.strides()[0]);
    }
    if experts {
        extra = (launch.read(&request.arg(2))?, expert);
        launch.bytes(Place::Mistakes, 0..4 * crate::mistake::WORDS as u64, true)?;
    }
    let [columns, rows] = [0, 1].map(|i| sizes.threads[i] * sizes.each[i]);
    let across = n.div_ceil(columns);
    let tiles = across * m.div_ceil(rows);
    let groups = tiles * batch.elements();
    launch.number(m)?.number(n)?.number(x.layout.dims()[rank - 1])?.number(across)?.number(tiles)?;
    launch.number(groups)?.word(from[0]).word(from[1]).word(to);
    launch.number(x_row)?.number(x_inner)?.number(w_inner)?.number(w_column)?;
    launch.word(extra.0).number(extra.1)?.number(w.layout.dims()[0])?.float(1.0);
    grid.describe(&mut launch)?;
    plan.step(launch, line(groups, request.hardware)?);
    Ok(())
}

impl MatMul {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let MatMul { x: dtype, w: w_dtype, exact, tile, inner, rank, bias, activation, experts } = *self;
        let ring = ring(dtype, w_dtype, exact, hardware);
        let Sizes { threads: [tx, ty], each: [ex, ey], workgroup, depth } = tile.sizes(ring.size);
        let (columns, rows) = (tx * ex, ty * ey);
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
        let grid = strided::parameters(&mut module, rank, 2);
        let expression = activation.and_then(|op| pointwise::activation(op, dtype, hardware));
        module.add(&library::called(
            &format!("fused(a) {}", expression.as_deref().unwrap_or_default()),
            hardware,
        ));
        module.add(&ring.add());
        module.add(&ring.step());
        let ty_name = ring.ty;
        let (x_pitch, w_pitch) = (rows + 1, columns + 1);
        module.add(&format!(
            "var<workgroup> xs: array<{ty_name}, {}>;\nvar<workgroup> ws: array<{ty_name}, {}>;",
            depth * x_pitch,
            depth * w_pitch
        ));
        if let Some(expression) = expression {
            module.add(&format!("fn activated(a: {ty_name}) -> {ty_name} {{ return {expression}; }}"));
        }
        let mut body = format!(
            "let number = {LINEAR_GROUP};
            if number >= {groups} {{ return; }}
            let batch = number / {tiles};
            let tile = number % {tiles};
            let first_column = (tile % {across}) * {columns}u;
            let first_row = (tile / {across}) * {rows}u;
            var x_at = {x_from};\n"
        );
        if ring.needs_one() {
            let _ = writeln!(body, "ring_one = f64({});", one.float());
        }
        match &ids {
            None => {
                let _ =
                    writeln!(body, "var w_at = {w_from};\n{}", grid.positions("batch", &["x_at", "w_at"]));
            }
            Some(ids) => {
                let choice =
                    ids.load_index("expert", "id_at", &matrices.to_string(), crate::Mistake::ExpertMatMul);
                let _ = writeln!(
                    body,
                    "var id_at = {extra};\n{}\n{choice}\nlet w_at = {w_from} + expert * {extra_step};",
                    grid.positions("batch", &["x_at", "id_at"])
                );
            }
        }
        let _ = writeln!(body, "let column = local % {tx}u;\nlet row = local / {tx}u;");
        for (i, j) in pairs(ey, ex) {
            let _ = writeln!(body, "var sum{i}_{j} = {}();", ring.sum());
        }
        let factor = factor(&x, w_dtype, exact);
        let _ = writeln!(body, "for (var start = 0u; start < {k}; start += {depth}u) {{");
        let strip = |name: &str, len: usize, inner: bool, first: &str, end: &str, load: &str| {
            let split = match inner {
                true => format!("let i = e % {depth}u; let j = e / {depth}u;"),
                false => format!("let i = e / {len}u; let j = e % {len}u;"),
            };
            format!(
                "for (var e = local; e < {}u; e += {workgroup}u) {{
                    {split}
                    var v = {ty_name}();
                    if start + i < {k} && {first} + j < {end} {{ v = {load}; }}
                    {name}[i * {}u + j] = v;
                }}\n",
                len * depth,
                len + 1,
            )
        };
        let load = factor(&format!("x_at + (first_row + j) * {x_row} + (start + i) * {x_inner}"));
        body.push_str(&strip("xs", rows, inner[0], "first_row", &m.to_string(), &load));
        let load = w.load(&format!("w_at + (first_column + j) * {w_column} + (start + i) * {w_inner}"));
        body.push_str(&strip("ws", columns, inner[1], "first_column", &n.to_string(), &load));
        // Beyond the inner dimension's end both strips are zero.
        let _ =
            writeln!(body, "workgroupBarrier();\nif row < {ty}u {{ for (var i = 0u; i < {depth}u; i++) {{");
        for i in 0..ey {
            let _ = writeln!(body, "let a{i} = xs[i * {x_pitch}u + row + {}u];", i * ty);
        }
        for j in 0..ex {
            let _ = writeln!(body, "let b{j} = ws[i * {w_pitch}u + column + {}u];", j * tx);
        }
        for (i, j) in pairs(ey, ex) {
            let _ = writeln!(body, "sum{i}_{j} = ring_step(a{i}, b{j}, sum{i}_{j});");
        }
        body.push_str("} }\nworkgroupBarrier();\n}\nif row >= ");
        let _ = writeln!(body, "{ty}u {{ return; }}");
        for (i, j) in pairs(ey, ex) {
            let mut value = format!("ring_end(sum{i}_{j})");
            if let Some(bias) = &bias {
                value = format!("ring_add({value}, {})", bias.load(&format!("{extra} + c * {extra_step}")));
            }
            if activation.is_some() {
                value = format!("activated({value})");
            }
            let _ = writeln!(
                body,
                "{{ let r = first_row + row + {}u; let c = first_column + column + {}u;
                if r < {m} && c < {n} {{ {} }} }}",
                i * ty,
                j * tx,
                y.store_one(&format!("{to} + (batch * {m} + r) * {n} + c"), &value)
            );
        }
        module.finish([workgroup as u32, 1, 1], &body)
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

fn pairs(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |i| (0..columns).map(move |j| (i, j)))
}
