//! Products of `f32` activations with block-quantized weights, on the blocks: activations are rounded to 8 bits once, then
//! each row of the weight meets each row of activations; or, where exactness is asked for, they meet the decoded values.

mod decode;
mod exact;
mod format;
mod group;
mod product;
mod round;
mod rows;

pub use exact::{Few, Many};
pub use group::Group;
pub use product::Product;
pub use round::Round;
pub use rows::{Rows, plan as plan_rows};

use crate::Hardware;
use crate::pieces::row_pitch;
use crate::plan::{Chosen, Operand, Place, Plan, Request, StepBuilder, line};
use crate::table::{Blocks, DTypes, Row, row};
use crate::wgsl::WORKGROUP;
use format::{Companion, Format, format};
use rustorch_core::{DType, Decline, Layout, MatMul, Op, OpType, TensorMeta};

/// Whether a dtype has kernels here.
pub fn is_weight(dtype: DType) -> bool {
    format(dtype).is_some()
}

/// The block types with kernels.
pub fn types() -> impl Iterator<Item = DType> {
    format::FORMATS.iter().map(|format| DType::Quant(format.quant))
}

/// The products.
pub const ROWS: &[Row] = &[
    row(
        OpType::LinearAlgebra,
        &["matmul", "expert_matmul"],
        DTypes::always(&[]).with_blocks(Blocks::Weights),
    )
    .subject(1)
    .beside(&[DType::F32, DType::I32, DType::I64])
    .check(supports)
    .remark(
        "`f32` activations with a block-quantized weight, rounded as in ggml or not at all; ids without gaps",
    ),
    row(OpType::Indexing, &["embedding"], DTypes::always(&[]).with_blocks(Blocks::Weights))
        .beside(&[DType::I32, DType::I64])
        .check(|_, args, _| match args[1].layout.is_contiguous() {
            true => Ok(()),
            false => Err(Decline::Layout("ids must be contiguous")),
        })
        .remark("rows decoded to `f32`; ids without gaps"),
];

/// Whether there are kernels for a product with a block-quantized weight.
fn supports(op: &Op, args: &[TensorMeta<'_>], _hardware: &Hardware) -> Result<(), Decline> {
    let weight = &args[1];
    if format(weight.dtype).is_none() {
        return Err(Decline::DType(weight.dtype));
    }
    if let (Op::ExpertMatMul { .. }, Some(ids)) = (op, args.get(2))
        && !ids.layout.is_contiguous()
    {
        return Err(Decline::Layout("ids of experts must be contiguous"));
    }
    if let Op::MatMul(matmul) = op {
        if matmul.activation.is_some() {
            return Err(Decline::Attr("an activation after a product with a quantized weight"));
        }
        let dims = weight.dims();
        if dims[..dims.len() - 2].iter().any(|&len| len != 1) {
            return Err(Decline::Attr("a batch of quantized weights"));
        }
    }
    Ok(())
}

/// Activations after rounding: where the parts of the temporary buffer are, in words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounded {
    place: Place,
    rows: usize,
    /// Scales.
    d: usize,
    /// Sums of 16 levels.
    sums: usize,
    /// Scaled sums of 32 levels.
    s: usize,
    words: usize,
}

impl Rounded {
    fn new(plan: &mut Plan, companion: Companion, rows: usize, k: usize) -> Rounded {
        let d = rows * k / 4;
        let sums = d + rows * (k / companion.block());
        let s = sums + rows * (k / 16);
        let words = s + if companion == Companion::Q8_1 { rows * (k / 32) } else { 0 };
        Rounded { place: plan.scratch(4 * words), rows, d, sums, s, words }
    }
}

/// Adds the launches of `x [.., m, k] × weight` or of `x [t, k or 1, in]` with chosen experts.
pub fn plan(plan: &mut Plan, request: &Request<'_>) -> Result<(), Decline> {
    let (x, w, out) = (request.arg(0), request.args[1].dtype, request.out(0));
    let format = format(w).ok_or(Decline::DType(w))?;
    let k = x.layout.dims()[x.layout.rank() - 1];
    if k == 0 {
        return Err(Decline::Attr("a product over no elements"));
    }
    if let Op::MatMul(MatMul { exact: true, .. }) | Op::ExpertMatMul { exact: true } = request.op {
        return exact::plan(plan, request, format, k);
    }
    // The pieces of one product share their activations.
    let known = plan.rounded.iter().find(|(layout, _)| layout == x.layout).map(|&(_, rounded)| rounded);
    let rounded = match known {
        Some(rounded) => rounded,
        None => {
            let rounded = round(plan, request.hardware, format.companion, &x, k)?;
            plan.rounded.push((x.layout.clone(), rounded));
            rounded
        }
    };
    product(plan, request, format, &rounded, &out, k)
}

fn round(
    plan: &mut Plan,
    hardware: &Hardware,
    companion: Companion,
    x: &Operand<'_>,
    k: usize,
) -> Result<Rounded, Decline> {
    let rows = x.layout.elements() / k;
    let rounded = Rounded::new(plan, companion, rows, k);
    let (&step, outer) = x.layout.strides().split_last().ok_or(Decline::Attr("a scalar"))?;
    let dims = &x.layout.dims()[..outer.len()];
    let starts = Layout::new(shape(dims)?, outer, 0).map_err(|_| Decline::Attr("too large"))?;
    let grid = super::strided::Grid::new(&[&starts]);
    let mut launch = StepBuilder::new(hardware, Round { companion, rank: grid.rank() });
    let from = launch.read(x)?;
    launch.bytes(rounded.place, 0..4 * rounded.words as u64, true)?;
    let blocks = rows * (k / companion.block());
    launch.number(blocks)?.number(k / companion.block())?.word(from).number(step)?;
    launch.number(rounded.d)?.number(rounded.sums)?.number(rounded.s)?;
    grid.describe(&mut launch)?;
    plan.kept_step(launch, line(blocks.div_ceil(round::blocks_per_group(companion)), hardware)?);
    Ok(rounded)
}

fn product(
    plan: &mut Plan,
    request: &Request<'_>,
    format: &Format,
    rounded: &Rounded,
    out: &Operand<'_>,
    k: usize,
) -> Result<(), Decline> {
    let experts = matches!(request.op, Op::ExpertMatMul { .. });
    let n = out.layout.dims()[out.layout.rank() - 1];
    let rows = out.layout.elements() / n;
    let tiles = if experts { group(plan, request, rows)? } else { None };
    let tile = match experts {
        true if tiles.is_some() => group::TILE,
        true => 1,
        false if rows == 1 => 1,
        false => 4,
    };
    let bias = !experts && request.args.len() == 3;
    let choice = experts.then(|| request.args[2].dtype);
    let part = request.part.chosen.is_some();
    let shared = Product::shares(format, tile, request.hardware);
    let kernel = Product { quant: format.quant, tile, shared, bias, experts: choice, part };
    // Of experts there is a tile for each choice, though many of them are empty.
    let groups = n.div_ceil(kernel.rows_per_group(format)) * if experts { rows } else { rows.div_ceil(tile) };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let bound = bind(&mut launch, request, format, rounded.rows, |launch| {
        launch.bytes(rounded.place, 0..4 * rounded.words as u64, false).map(|_| ())
    })?;
    if let Some(tiles) = tiles {
        launch.bytes(tiles, 0..table_bytes(rows), false)?;
    }
    launch.number(n)?.number(rows)?.number(k / format.len())?.word(bound.weight);
    launch.word(bound.row).word(bound.to);
    launch.number(rounded.d)?.number(rounded.sums)?.number(rounded.s)?;
    bound.describe(&mut launch, request.part.chosen)?;
    plan.step(launch, line(groups, request.hardware)?);
    Ok(())
}

/// Adds the launch that finds which of the choices of a product are of the same expert, where each has so many that it pays.
fn group(plan: &mut Plan, request: &Request<'_>, rows: usize) -> Result<Option<Place>, Decline> {
    let choices = request.arg(2);
    let experts = request.part.chosen.map_or(request.args[1].dims()[0], |chosen| chosen.whole);
    if experts == 0 || rows < group::TILE * experts {
        return Ok(None);
    }
    // The pieces of one product share their choices.
    if let Some((_, place)) = plan.grouped.iter().find(|(layout, _)| layout == choices.layout) {
        return Ok(Some(*place));
    }
    let mut launch = StepBuilder::new(request.hardware, Group { choices: choices.dtype });
    let from = launch.read(&choices)?;
    let bytes = table_bytes(rows);
    let place = plan.scratch(usize::try_from(bytes).map_err(|_| Decline::Attr("too large"))?);
    launch.bytes(place, 0..bytes, true)?;
    launch.number(rows)?.number(experts)?.word(from);
    plan.kept_step(launch, line((experts + 1).div_ceil(WORKGROUP as usize), request.hardware)?);
    plan.grouped.push((choices.layout.clone(), place));
    Ok(Some(place))
}

/// The bytes of the table of tiles.
fn table_bytes(rows: usize) -> u64 {
    4 * (group::TILE * rows) as u64
}

/// What the kernels of products have bound beside the activations, and where it is.
struct Bound {
    /// The first byte of the weight.
    weight: u32,
    /// Bytes from one of its rows to the next.
    row: u32,
    /// The first element of the result.
    to: u32,
    /// Of the bias: the first element, and from one to the next. Of experts: the first of the ids, bytes from one matrix to
    /// the next, their number, and how many results share a row of activations.
    extra: [u32; 4],
    /// Elements from one row of the result to the next.
    pitch: u32,
}

impl Bound {
    /// Adds what kernels take last: what else a product has, the way to the next row of the result, and which of the matrices
    /// are here, if not all are.
    fn describe(&self, launch: &mut StepBuilder<'_>, part: Option<Chosen>) -> Result<(), Decline> {
        for word in self.extra {
            launch.word(word);
        }
        launch.word(self.pitch);
        if let Some(Chosen { first, len, .. }) = part {
            launch.number(first)?.number(len)?;
        }
        Ok(())
    }
}

/// Binds the weight, the activations (by a function), the result, and what else a product has.
fn bind(
    launch: &mut StepBuilder<'_>,
    request: &Request<'_>,
    format: &Format,
    x_rows: usize,
    activations: impl FnOnce(&mut StepBuilder<'_>) -> Result<(), Decline>,
) -> Result<Bound, Decline> {
    let (w, out) = (request.arg(1), request.out(0));
    let experts = matches!(request.op, Op::ExpertMatMul { .. });
    let n = out.layout.dims()[out.layout.rank() - 1];
    let rows = out.layout.elements() / n;
    // Weights are addressed by bytes, which the type's blocks need not be aligned to.
    let reach = |elements: usize| (elements / format.len() * format.bytes()) as u64;
    let bytes = reach(w.layout.offset())..reach(w.layout.end());
    let start = launch.bytes(w.place, bytes.clone(), false)?;
    activations(launch)?;
    let to = launch.write(&out)?;
    let pitch = row_pitch(out.layout).ok_or(Decline::Layout("rows of a product must be evenly apart"))?;
    let address = |byte: u64| u32::try_from(byte).map_err(|_| Decline::Attr("a weight of more than 4 GiB"));
    address(bytes.end - start)?;
    // The weight's rows: of a transposed view [k, n], of a matrix [e, n, k].
    let strides = w.layout.strides();
    let (row, expert) = match experts {
        true => (strides[1], strides[0]),
        false => (strides[w.layout.rank() - 1], 0),
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
        launch.bytes(Place::Mistakes, 0..4 * crate::mistake::WORDS as u64, true)?;
    }
    let pitch = address(pitch as u64)?;
    Ok(Bound { weight: address(bytes.start - start)?, row: address(reach(row))?, to, extra, pitch })
}

fn shape(dims: &[usize]) -> Result<rustorch_core::Shape, Decline> {
    rustorch_core::Shape::new(dims).map_err(|_| Decline::Attr("too large"))
}
