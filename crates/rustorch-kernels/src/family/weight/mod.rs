//! Products of `f32` activations with block-quantized weights, on the blocks: activations are rounded to 8 bits once, then
//! each row of the weight meets each row of activations.

mod format;
mod product;
mod round;
mod rows;

pub use product::Product;
pub use round::Round;
pub use rows::{Rows, plan as plan_rows};

use crate::Hardware;
use crate::plan::{Operand, Place, Plan, Request, StepBuilder, line};
use crate::table::{Blocks, DTypes, Row, row};
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
    .remark("`f32` activations with a block-quantized weight"),
    row(OpType::Indexing, &["embedding"], DTypes::always(&[]).with_blocks(Blocks::Weights))
        .beside(&[DType::I32, DType::I64])
        .check(|_, args, _| match args[1].layout.is_contiguous() {
            true => Ok(()),
            false => Err(Decline::Layout("ids must be contiguous")),
        })
        .remark("rows decoded to `f32`"),
];

/// Whether there are kernels for a product with a block-quantized weight.
fn supports(op: &Op, args: &[TensorMeta<'_>], _hardware: &Hardware) -> Result<(), Decline> {
    let weight = &args[1];
    if format(weight.dtype).is_none() {
        return Err(Decline::DType(weight.dtype));
    }
    if let Op::MatMul(MatMul { exact: true, .. }) | Op::ExpertMatMul { exact: true } = op {
        return Err(Decline::Attr("activations as they are, not rounded to the weight's companion"));
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
struct Rounded {
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
    let (x, w, out) = (request.arg(0), request.arg(1), request.out(0));
    let format = format(w.dtype).ok_or(Decline::DType(w.dtype))?;
    let k = x.layout.dims()[x.layout.rank() - 1];
    if k == 0 {
        return Err(Decline::Attr("a product over no elements"));
    }
    let rounded = round(plan, request.hardware, format.companion, &x, k)?;
    product(plan, request, format, &rounded, &w, &out, k)
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
    plan.step(launch, line(blocks.div_ceil(round::blocks_per_group(companion)), hardware)?);
    Ok(rounded)
}

fn product(
    plan: &mut Plan,
    request: &Request<'_>,
    format: &Format,
    rounded: &Rounded,
    w: &Operand<'_>,
    out: &Operand<'_>,
    k: usize,
) -> Result<(), Decline> {
    let experts = matches!(request.op, Op::ExpertMatMul { .. });
    let n = out.layout.dims()[out.layout.rank() - 1];
    let rows = out.layout.elements() / n;
    let tile = if experts || rows == 1 { 1 } else { 4 };
    let bias = !experts && request.args.len() == 3;
    let choice = experts.then(|| request.args[2].dtype);
    let kernel = Product { quant: format.quant, tile, bias, experts: choice };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    // Weights are addressed by bytes, which the type's blocks need not be aligned to.
    let reach = |elements: usize| (elements / format.len() * format.bytes()) as u64;
    let bytes = reach(w.layout.offset())..reach(w.layout.end());
    let start = launch.bytes(w.place, bytes.clone(), false)?;
    launch.bytes(rounded.place, 0..4 * rounded.words as u64, false)?;
    let to = launch.write(out)?;
    let address = |byte: u64| u32::try_from(byte).map_err(|_| Decline::Attr("a weight of more than 4 GiB"));
    address(bytes.end - start)?;
    let from = address(bytes.start - start)?;
    // The weight's rows: of a transposed view [k, n], of a matrix [e, n, k].
    let strides = w.layout.strides();
    let (row, expert) = match experts {
        true => (strides[1], strides[0]),
        false => (strides[w.layout.rank() - 1], 0),
    };
    let row = if n == 1 { 0 } else { row };
    let mut extra = [0; 4];
    if bias {
        extra[0] = launch.read(&request.arg(2))?;
        extra[1] = address(request.args[2].layout.strides()[0] as u64)?;
    }
    if experts {
        let ids = request.arg(2);
        extra = [
            launch.read(&ids)?,
            address(reach(expert))?,
            address(w.layout.dims()[0] as u64)?,
            // Activations may be shared by the experts of a token.
            if rounded.rows == rows { 1 } else { address((rows / rounded.rows.max(1)) as u64)? },
        ];
        if !ids.layout.is_contiguous() {
            return Err(Decline::Layout("ids of experts must be contiguous"));
        }
        launch.bytes(Place::Mistakes, 0..4 * crate::mistake::WORDS as u64, true)?;
    }
    launch.number(n)?.number(rows)?.number(k / format.len())?.word(from);
    launch.word(address(reach(row))?).word(to);
    launch.number(rounded.d)?.number(rounded.sums)?.number(rounded.s)?;
    for word in extra {
        launch.word(word);
    }
    let groups = n.div_ceil(product::rows_per_group(format, tile, request.hardware)) * rows.div_ceil(tile);
    plan.step(launch, line(groups, request.hardware)?);
    Ok(())
}

fn shape(dims: &[usize]) -> Result<rustorch_core::Shape, Decline> {
    rustorch_core::Shape::new(dims).map_err(|_| Decline::Attr("too large"))
}
