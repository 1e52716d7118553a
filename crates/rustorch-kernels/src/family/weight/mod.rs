//! Matmul of `f32` activations with block-quantized weights: activations are quantized to 8 bits once, then integer dot products
//! run on the blocks; or, with full-precision numerics, on the dequantized values.

mod decode;
mod dequantized;
mod format;
mod group;
mod k_tile;
mod matmul;
mod matvec;
mod quantize;
mod rows;
mod tensor_core;
mod tiled;

pub use dequantized::{Gemm, Gemv};
pub use group::Group;
pub use matmul::WeightMatMul;
pub use matvec::WeightMatVec;
pub use quantize::QuantizeActivations;
pub use rows::{Rows, plan as plan_rows};
pub use tensor_core::WeightTensorCore;
pub use tiled::WeightTiled;

use crate::family::matvec::FEW;
use crate::family::{Plan, StepBuilder};
use crate::plan::parameters::parameters;
use crate::plan::{Chosen, Operand, Place, QuantizedActivations, Request, line};
use crate::splitting::row_pitch;
use crate::table::{Blocks, DTypes, Row, row};
use crate::wgsl::WORKGROUP;
use crate::{Hardware, library};
use format::{ActivationQuant, Format, TYPES, format};
use group::GroupParams;
use matmul::MatMulParams;
use quantize::QuantizeParams;
use rustorch_core::{DType, Decline, Layout, MatMul, MulMatId, Numerics, Op, OpKind, OpType, TensorMeta};

/// Whether a dtype has kernels here.
pub fn is_weight(dtype: DType) -> bool {
    format(dtype).is_some()
}

/// Supported operations and their dtypes.
pub const ROWS: &[Row] = &[
    row(
        OpType::LinearAlgebra,
        &[OpKind::MatMul, OpKind::MulMatId],
        DTypes::always(&[]).with_blocks(Blocks::Of(TYPES)),
    )
    .subject(1)
    .beside(&[DType::F32, DType::I32, DType::I64])
    .check(supports)
    .remark(
        "`f32` activations with a block-quantized weight, quantized as in ggml or not at all; ids without gaps",
    ),
    row(OpType::Indexing, &[OpKind::Embedding], DTypes::always(&[]).with_blocks(Blocks::Of(TYPES)))
        .beside(&[DType::I32, DType::I64])
        .check(|_, args, _| match args[1].layout.is_contiguous() {
            true => Ok(()),
            false => Err(Decline::Layout("ids must be contiguous")),
        })
        .remark("rows decoded to `f32`; ids without gaps"),
];

/// Whether there are kernels for a matmul with a block-quantized weight.
fn supports(op: &Op, args: &[TensorMeta<'_>], _hardware: &Hardware) -> Result<(), Decline> {
    let weight = &args[1];
    if format(weight.dtype).is_none() {
        return Err(Decline::DType(weight.dtype));
    }
    if let (Op::MulMatId(_), Some(ids)) = (op, args.get(2))
        && !ids.layout.is_contiguous()
    {
        return Err(Decline::Layout("ids of experts must be contiguous"));
    }
    if let Op::MatMul(matmul) = op {
        if matmul.activation.is_some() {
            return Err(Decline::Attr("an activation after a matmul with a quantized weight"));
        }
        let dims = weight.dims();
        if dims[..dims.len() - 2].iter().any(|&len| len != 1) {
            return Err(Decline::Attr("a batch of quantized weights"));
        }
    }
    Ok(())
}

/// Temporary memory for so many rows of quantized activations of `k` values.
fn quantized(plan: &mut Plan, activations: ActivationQuant, rows: usize, k: usize) -> QuantizedActivations {
    let d = rows * k / 4;
    let sums = d + rows * (k / activations.block());
    let s = sums + rows * (k / 16);
    let words = s + if activations == ActivationQuant::Q8_1 { rows * (k / 32) } else { 0 };
    QuantizedActivations { place: plan.scratch(4 * words), rows, d, sums, s, words }
}

/// Plans the launches of `x [.., m, k] × weight` or of `x [t, k or 1, in]` with chosen experts.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let (x, w, out) = (request.arg(0), request.args[1].dtype, request.out(0));
    let format = format(w).ok_or(Decline::DType(w))?;
    let k = x.layout.dims()[x.layout.ndim() - 1];
    if k == 0 {
        return Err(Decline::Attr("a matmul over no elements"));
    }
    if let Op::MatMul(MatMul { numerics: Numerics::F32, .. })
    | Op::MulMatId(MulMatId { numerics: Numerics::F32 }) = request.op
    {
        return dequantized::plan(plan, request, format, k);
    }
    // The chunks of one matmul share their activations.
    let known = plan.quantized.iter().find(|(layout, _)| layout == x.layout).map(|&(_, quantized)| quantized);
    let quantized = match known {
        Some(quantized) => quantized,
        None => {
            let quantized = quantize(plan, request.hardware, format.activations, &x, k)?;
            plan.quantized.push((x.layout.clone(), quantized));
            quantized
        }
    };
    product(plan, request, format, &quantized, &out, k)
}

fn quantize(
    plan: &mut Plan,
    hardware: &Hardware,
    activations: ActivationQuant,
    x: &Operand<'_>,
    k: usize,
) -> Result<QuantizedActivations, Decline> {
    let rows = x.layout.numel() / k;
    let quantized = quantized(plan, activations, rows, k);
    let (&step, outer) = x.layout.strides().split_last().ok_or(Decline::Attr("a scalar"))?;
    let dims = &x.layout.dims()[..outer.len()];
    let starts = Layout::new(shape(dims)?, outer, 0).map_err(|_| Decline::Attr("too large"))?;
    let grid = crate::library::strided::Grid::new(&[&starts]);
    let mut launch = StepBuilder::new(hardware, QuantizeActivations { activations, rank: grid.ndim() });
    let x_start = launch.read(x)?;
    launch.bytes(quantized.place, 0..4 * quantized.words as u64, true)?;
    let blocks = rows * (k / activations.block());
    launch.parameters(&QuantizeParams {
        blocks,
        row_blocks: k / activations.block(),
        x_start,
        x_stride: step,
        d: quantized.d,
        sums: quantized.sums,
        s: quantized.s,
        grid,
    })?;
    plan.cached_step(launch, line(blocks.div_ceil(quantize::blocks_per_group(activations)), hardware)?);
    Ok(quantized)
}

fn product(
    plan: &mut Plan,
    request: &Request<'_>,
    format: &Format,
    quantized: &QuantizedActivations,
    out: &Operand<'_>,
    k: usize,
) -> Result<(), Decline> {
    let experts = matches!(request.op, Op::MulMatId(_));
    let n = out.layout.dims()[out.layout.ndim() - 1];
    let rows = rows_of(out);
    let tiles = if experts { group(plan, request, rows)? } else { None };
    let bias = !experts && request.args.len() == 3;
    let choice = experts.then(|| request.args[2].dtype);
    let part = request.part.chosen.is_some();
    let few = experts || rows_of(&request.whole().out(0)) <= FEW;
    // Tiles of many rows add in an order of their own.
    let invariant = matches!(request.op, Op::MatMul(MatMul { batch_invariant: true, .. }));
    let in_turn = tiles.is_some() || request.hardware.keeps_order() || invariant && !few;
    let (kernel, groups): (crate::Kernel, usize) = if in_turn {
        let tile = match experts {
            true if tiles.is_some() => group::TILE,
            true => 1,
            false if rows == 1 => 1,
            false => 4,
        };
        let kernel = WeightMatMul { quant: format.quant, tile, bias, experts: choice, part };
        // Of experts there is a tile for each choice, though many of them are empty.
        let count = if experts { rows } else { rows.div_ceil(tile) };
        (kernel.into(), n.div_ceil(kernel.rows_per_group(format)) * count)
    } else if few {
        let tile = if experts || rows == 1 { 1 } else { matvec::TILE };
        let kernel = WeightMatVec { quant: format.quant, tile, bias, experts: choice, part };
        (kernel.into(), n.div_ceil(matvec::ROWS) * rows.div_ceil(tile))
    } else if request.hardware.tensor_cores && library::adds_lanes(request.hardware, 32) {
        let kernel = WeightTensorCore { quant: format.quant, bias };
        (kernel.into(), n.div_ceil(tensor_core::COLUMNS) * rows.div_ceil(tensor_core::ROWS))
    } else {
        let kernel = WeightTiled { quant: format.quant, bias };
        (kernel.into(), n.div_ceil(tiled::COLUMNS) * rows.div_ceil(tiled::ROWS))
    };
    let vectors = matches!(kernel, crate::Kernel::WeightMatVec(_)) && matvec::reads_vectors(format);
    let mut launch = match vectors {
        true => StepBuilder::of_vectors(request.hardware, kernel),
        false => StepBuilder::new(request.hardware, kernel),
    };
    let operands = bind(&mut launch, request, format, quantized.rows, |launch| {
        // Once as words, and once as vectors.
        for _ in 0..1 + usize::from(vectors) {
            launch.bytes(quantized.place, 0..4 * quantized.words as u64, false)?;
        }
        Ok(())
    })?;
    if let Some(tiles) = tiles {
        launch.bytes(tiles, 0..table_bytes(rows), false)?;
    }
    launch.parameters(&MatMulParams {
        n,
        rows,
        row_blocks: k / format.len(),
        d: quantized.d,
        sums: quantized.sums,
        s: quantized.s,
        operands,
    })?;
    plan.step(launch, line(groups, request.hardware)?);
    Ok(())
}

/// The rows of a result.
fn rows_of(out: &Operand<'_>) -> usize {
    out.layout.numel() / out.layout.dims()[out.layout.ndim() - 1]
}

/// Adds the launch that finds which of the choices of a matmul are of the same expert, where each has so many that it pays.
fn group(plan: &mut Plan, request: &Request<'_>, rows: usize) -> Result<Option<Place>, Decline> {
    let choices = request.arg(2);
    let experts = request.part.chosen.map_or(request.args[1].dims()[0], |chosen| chosen.whole);
    if experts == 0 || rows < group::TILE * experts {
        return Ok(None);
    }
    // The chunks of one matmul share their choices.
    if let Some((_, place)) = plan.grouped.iter().find(|(layout, _)| layout == choices.layout) {
        return Ok(Some(*place));
    }
    let mut launch = StepBuilder::new(request.hardware, Group { choices: choices.dtype });
    let start = launch.read(&choices)?;
    let bytes = table_bytes(rows);
    let place = plan.scratch(usize::try_from(bytes).map_err(|_| Decline::Attr("too large"))?);
    launch.bytes(place, 0..bytes, true)?;
    launch.parameters(&GroupParams { rows, experts, start })?;
    plan.cached_step(launch, line((experts + 1).div_ceil(WORKGROUP as usize), request.hardware)?);
    plan.grouped.push((choices.layout.clone(), place));
    Ok(Some(place))
}

/// The bytes of the table of tiles.
fn table_bytes(rows: usize) -> u64 {
    4 * (group::TILE * rows) as u64
}

parameters! {
    /// Where the operands of a matmul are, but for the activations.
    struct OperandParams(part: Option<()>) {
        /// The first byte of the weight.
        weight: u32,
        /// Bytes from one of its rows to the next.
        row_bytes: u32,
        /// The first element of the result.
        y_start: u32,
        /// Of the bias: the first element, and from one to the next. Of experts: the first of the ids, bytes from one matrix to
        /// the next, their number, and how many results share a row of activations.
        extra: [u32; 4],
        /// Elements from one row of the result to the next.
        pitch: u32,
        /// The range of experts in this chunk: first and count.
        here: Option<[usize; 2]> = part,
    }
}

/// Binds the weight, the activations (by a function), the result, and what else a matmul has.
fn bind(
    launch: &mut StepBuilder<'_>,
    request: &Request<'_>,
    format: &Format,
    x_rows: usize,
    activations: impl FnOnce(&mut StepBuilder<'_>) -> Result<(), Decline>,
) -> Result<OperandParams, Decline> {
    let (w, out) = (request.arg(1), request.out(0));
    let experts = matches!(request.op, Op::MulMatId(_));
    let n = out.layout.dims()[out.layout.ndim() - 1];
    let rows = out.layout.numel() / n;
    // Weights are addressed by bytes, which the type's blocks need not be aligned to.
    let reach = |elements: usize| (elements / format.len() * format.bytes()) as u64;
    let bytes = reach(w.layout.offset())..reach(w.layout.end());
    let start = launch.bytes(w.place, bytes.clone(), false)?;
    activations(launch)?;
    let y_start = launch.write(&out)?;
    let pitch = row_pitch(out.layout).ok_or(Decline::Layout("rows of a matmul must be evenly apart"))?;
    let address = |byte: u64| u32::try_from(byte).map_err(|_| Decline::Attr("a weight of more than 4 GiB"));
    address(bytes.end - start)?;
    // The weight's rows: of a transposed view [k, n], of a matrix [e, n, k].
    let strides = w.layout.strides();
    let (row, expert) = match experts {
        true => (strides[1], strides[0]),
        false => (strides[w.layout.ndim() - 1], 0),
    };
    let row = if n == 1 { 0 } else { row };
    let mut extra = [0; 4];
    if !experts && request.args.len() == 3 {
        extra[0] = launch.read(&request.arg(2))?;
        extra[1] = address(request.args[2].layout.strides()[0] as u64)?;
    }
    if experts {
        let ids = request.arg(2);
        if !ids.layout.is_contiguous() {
            return Err(Decline::Layout("ids of experts must be contiguous"));
        }
        extra = [
            launch.read(&ids)?,
            address(reach(expert))?,
            address(request.part.chosen.map_or(w.layout.dims()[0], |chosen| chosen.whole) as u64)?,
            // Activations may be shared by the experts of a token.
            if x_rows == rows { 1 } else { address((rows / x_rows.max(1)) as u64)? },
        ];
        launch.bytes(Place::AssertLog, 0..4 * crate::device_assert::WORDS as u64, true)?;
    }
    Ok(OperandParams {
        weight: address(bytes.start - start)?,
        row_bytes: address(reach(row))?,
        y_start,
        extra,
        pitch: address(pitch as u64)?,
        here: request.part.chosen.map(|Chosen { first, len, .. }| [first, len]),
    })
}

fn shape(dims: &[usize]) -> Result<rustorch_core::Shape, Decline> {
    rustorch_core::Shape::new(dims).map_err(|_| Decline::Attr("too large"))
}
