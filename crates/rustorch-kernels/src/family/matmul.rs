//! Matmul of dense matrices, and of `f32` activations with 16-bit weights.
//!
//! Each result is one chain of multiply-adds over the inner dimension, in the order of `rustorch-cpu`, independent of the
//! number of rows. Few rows that need not be so are left to [`matvec`].

use super::tile::{Side, Tile, TiledGemm};
use super::{matvec, pointwise, weight};
use crate::Hardware;
use crate::family::{Kernels, Plan, StepBuilder};
use crate::library::strided::{self, Grid};
use crate::library::{self, Ring};
use crate::plan::parameters::parameters;
use crate::plan::{Chosen, Operand, Place, Request, line};
use crate::splitting::axes::{self, one};
use crate::splitting::{SplitPlan, row_pitch};
use crate::table::{Row, row, sets};
use crate::wgsl::{Elements, LINEAR_GROUP, Module, Wgsl};
use rustorch_core::{
    DType, Decline, Layout, MatMul as MatMulOp, MulMatId, Numerics, Op, OpKind, OpType, Shape, TensorMeta,
    UnaryOp,
};
use std::fmt::Write;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatMul {
    x: DType,
    w: DType,
    /// Whether `f32` with a 16-bit weight is rounded to its dtype.
    numerics: Numerics,
    tile: Tile,
    /// Whether neighbours in memory are neighbours along the inner dimension: in `x`, in `w`.
    inner: [bool; 2],
    /// Rank of the batch after merging.
    rank: usize,
    bias: bool,
    activation: Option<UnaryOp>,
    /// If each row of `x` selects a matrix (mul_mat_id): the dtype of the ids.
    experts: Option<DType>,
    /// Whether the chunk holds only some of the matrices.
    part: bool,
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[row(OpType::LinearAlgebra, &[OpKind::MatMul, OpKind::MulMatId], sets::NUMERIC)
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
    let outer = layout.ndim() - inner;
    let large = |_| Decline::Attr("too large");
    let shape = Shape::new(&layout.dims()[..outer]).map_err(large)?;
    Layout::new(shape, &layout.strides()[..outer], 0).map_err(large)
}

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize, part: Option<()>) {
        m: usize,
        n: usize,
        k: usize,
        across: usize,
        tiles: usize,
        groups: usize,
        x_start: u32,
        w_start: u32,
        y_start: u32,
        x_row: usize,
        x_inner: usize,
        w_inner: usize,
        w_column: usize,
        /// The bias, or the ids of experts: the first.
        extra_start: u32,
        /// From one element of the bias to the next; from one expert's matrix to the next.
        extra_stride: usize,
        matrices: usize,
        one: f32,
        pitch: usize,
        /// The range of experts in this chunk: first and count.
        here: Option<[usize; 2]> = part,
        grid: Grid = (rank, 2),
    }
}

impl Kernels for MatMulOp {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        if request.args[1].dtype.is_quant() {
            return weight::plan(plan, request);
        }
        match matvec::plan(plan, request, self)? {
            true => Ok(()),
            false => self::plan(plan, request),
        }
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let (args, rank) = (request.args, request.outs[0].layout.ndim());
        let (x, w) = (args[0].dims().len(), args[1].dims().len());
        Ok(Some(axes::beside(request, |d| match d {
            d if d == rank - 1 => Some([None, one(w - 1), one(0)].into_iter().collect()),
            d if d == rank - 2 => Some([one(x - 2)].into_iter().collect()),
            d => Some(args[..2].iter().map(|x| axes::broadcast(x, rank, d)).collect()),
        })))
    }
}

impl Kernels for MulMatId {
    fn plan(&self, plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
        match request.args[1].dtype.is_quant() {
            true => weight::plan(plan, request),
            false => self::plan(plan, request),
        }
    }

    fn split(&self, request: &Request<'_>) -> Result<Option<SplitPlan>, Decline> {
        let shared = request.args[0].dims()[1] == 1;
        let cut = axes::beside(request, |d| {
            Some(match d {
                0 => [one(0), None, one(0)].into_iter().collect(),
                1 => [if shared { None } else { one(1) }, None, one(1)].into_iter().collect(),
                _ => [None, one(1)].into_iter().collect(),
            })
        });
        Ok(Some(axes::choosing(cut, 1, 0)))
    }
}

/// Plans the launch.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let (x, w, out) = (request.arg(0), request.arg(1), request.out(0));
    let experts = matches!(request.op, Op::MulMatId(_));
    let rank = x.layout.ndim();
    let [x_row, x_inner] = [x.layout.strides()[rank - 2], x.layout.strides()[rank - 1]];
    let w_rank = w.layout.ndim();
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
    let (activation, numerics) = match request.op {
        Op::MatMul(matmul) => (matmul.activation, matmul.numerics),
        Op::MulMatId(MulMatId { numerics }) => (None, *numerics),
        _ => (None, Numerics::Ggml),
    };
    // One kernel where nothing would be rounded.
    let rounds = x.dtype == w.dtype || numerics.rounds_activations();
    let numerics = if rounds { Numerics::Ggml } else { Numerics::F32 };
    let ring = ring(x.dtype, w.dtype, numerics, request.hardware);
    let tile = Tile::choose(m, n, ring);
    let bias = !experts && request.args.len() == 3;
    let kernel = MatMul {
        x: x.dtype,
        w: w.dtype,
        numerics,
        tile,
        inner: [x_inner == 1, w_inner == 1],
        rank: grid.ndim(),
        bias,
        activation,
        experts: experts.then(|| request.args[2].dtype),
        part: request.part.chosen.is_some(),
    };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let (x_start, w_start) = (launch.read(&x)?, launch.read(&w)?);
    let y_start = launch.write(&out)?;
    let pitch = row_pitch(out.layout).ok_or(Decline::Layout("rows of a matmul must be evenly apart"))?;
    let mut extra = (0, 0);
    if bias {
        let bias: Operand<'_> = request.arg(2);
        extra = (launch.read(&bias)?, bias.layout.strides()[0]);
    }
    if experts {
        extra = (launch.read(&request.arg(2))?, expert);
        launch.bytes(Place::AssertLog, 0..4 * crate::device_assert::WORDS as u64, true)?;
    }
    let [across, tiles] = tile.count(m, n);
    let groups = tiles * batch.numel();
    launch.parameters(&Params {
        m,
        n,
        k: x.layout.dims()[rank - 1],
        across,
        tiles,
        groups,
        x_start,
        w_start,
        y_start,
        x_row,
        x_inner,
        w_inner,
        w_column,
        extra_start: extra.0,
        extra_stride: extra.1,
        matrices: request.part.chosen.map_or(w.layout.dims()[0], |chosen| chosen.whole),
        one: 1.0,
        pitch,
        here: request.part.chosen.map(|Chosen { first, len, .. }| [first, len]),
        grid,
    })?;
    plan.step(launch, line(groups, request.hardware)?);
    Ok(())
}

impl MatMul {
    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let MatMul { x: dtype, w: w_dtype, numerics, tile, inner, rank, bias, activation, experts, part } =
            *self;
        let ring = ring(dtype, w_dtype, numerics, hardware);
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let w = module.elements("w", w_dtype, false, hardware);
        let y = module.places("y", dtype, hardware);
        let bias = bias.then(|| module.elements("bias", dtype, false, hardware));
        let ids = experts.map(|dtype| {
            let ids = module.elements("ids", dtype, false, hardware);
            module.asserts();
            ids
        });
        let Params {
            m,
            n,
            k,
            across,
            tiles,
            groups,
            x_start,
            w_start,
            y_start,
            x_row,
            x_inner,
            w_inner,
            w_column,
            extra_start,
            extra_stride,
            matrices,
            one,
            pitch,
            here,
            grid,
        } = module.parameters::<Params>((rank, part.then_some(())));
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
            var x_at = {x_start};\n"
        );
        match &ids {
            None => {
                let _ =
                    writeln!(body, "var w_at = {w_start};\n{}", grid.positions("batch", &["x_at", "w_at"]));
            }
            Some(ids) => {
                let choice = ids.load_index("expert", "id_at", &matrices.to_string(), OpKind::MulMatId);
                let of_another_part =
                    here.as_ref().map_or_else(String::new, |here| strided::chosen("expert", here));
                let _ = writeln!(
                    body,
                    "var id_at = {extra_start};\n{}\n{choice}\n{of_another_part}\nlet w_at = {w_start} + expert * {extra_stride};",
                    grid.positions("batch", &["x_at", "id_at"])
                );
            }
        }
        let factor = factor(&x, w_dtype, numerics);
        let (m, n, k) = (m.to_string(), n.to_string(), k.to_string());
        let x_load = format!("v = {};", factor(&format!("x_at + j * {x_row} + i * {x_inner}")));
        let w_load = format!("v = {};", w.load(&format!("w_at + j * {w_column} + i * {w_inner}")));
        let product = TiledGemm {
            tile,
            ring,
            left: Side { load: &x_load, count: &m, inner: inner[0], quads: false },
            right: Side { load: &w_load, count: &n, inner: inner[1], quads: false },
            len: &k,
            segment: None,
        };
        body += &product.text(&mut module, &one.to_string(), |sum| {
            let mut value = sum.to_owned();
            if let Some(bias) = &bias {
                value = format!(
                    "ring_add({value}, {})",
                    bias.load(&format!("{extra_start} + c * {extra_stride}"))
                );
            }
            if activation.is_some() {
                value = format!("activated({value})");
            }
            y.store_one(&format!("{y_start} + (batch * {m} + r) * {pitch} + c"), &value)
        });
        module.finish(product.workgroup(), &body)
    }
}

/// What the products and sums are: with a 16-bit weight those of its dtype, which are in `f32`.
fn ring(x: DType, w: DType, numerics: Numerics, hardware: &Hardware) -> Ring {
    Ring::of(if x == DType::F32 && numerics.rounds_activations() { w } else { x }, hardware)
}

/// The element of `x` at a place as a factor: with a 16-bit weight it is rounded to them.
fn factor(x: &Elements, w: DType, numerics: Numerics) -> impl Fn(&str) -> String {
    move |at| {
        let value = x.load(at);
        match (x.dtype(), w) {
            _ if numerics == Numerics::F32 => value,
            (DType::F32, DType::F16) => format!("f16_value(f16_bits({value}))"),
            (DType::F32, DType::BF16) => format!("bf16_value(bf16_bits({value}))"),
            _ => value,
        }
    }
}
