//! Copies between layouts, of elements as bits.
//!
//! Elements of 4, 8 and 16 bytes are copied as words. Smaller ones are packed into whole words where the target is contiguous;
//! otherwise each thread updates its bits of a shared word atomically.

use crate::Hardware;
use crate::library::strided::{self, Grid};
use crate::plan::parameters::parameters;
use crate::plan::{Operand, Plan, StepBuilder, line};
use crate::table::{Blocks, Row, row, sets};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, Decline, Dims, Layout, OpKind, OpType, Shape};
use std::fmt::Write;

/// Supported operations and their dtypes.
pub(crate) const ROWS: &[Row] =
    &[row(OpType::DataMovement, &[OpKind::Copy], sets::ALL.with_blocks(Blocks::All))
        .check(|_, args, _| match args[0].dtype.is_quant() && !args[0].layout.is_contiguous() {
            true => Err(Decline::Layout("block types are copied where they are contiguous")),
            false => Ok(()),
        })
        .remark("block types where they are contiguous")];

/// A copying kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Copy {
    /// Bytes of an element: 1, 2, 4, 8 or 16.
    size: usize,
    /// Dimensions.
    rank: usize,
    /// How it writes.
    target: Target,
}

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize, tensors: usize) {
        n: usize,
        x_start: u32,
        y_start: u32,
        grid: Grid = (rank, tensors),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Target {
    /// To whole words one after the other.
    Packed,
    /// To elements anywhere.
    Strided,
}

/// Plans the launches that copy `source` to `target`, of one shape and dtype: one if a binding holds both.
pub(crate) fn plan<K: From<Copy>>(
    plan: &mut Plan<K>,
    hardware: &Hardware,
    source: &Operand<'_>,
    target: &Operand<'_>,
) -> Result<(), Decline> {
    let elements = target.layout.numel();
    if elements == 0 {
        return Ok(());
    }
    // Rows of words are copied as words, whatever they hold.
    let words = match (rows_of_words(source), rows_of_words(target)) {
        (Some(from), Some(to)) => Some((from, to)),
        _ => run_of_words(source).zip(run_of_words(target)),
    };
    if let Some((from, to)) = words {
        let from = Operand { place: source.place, dtype: DType::U32, layout: &from };
        let to = Operand { place: target.place, dtype: DType::U32, layout: &to };
        return in_chunks(plan, hardware, &from, &to);
    }
    if source.dtype.is_quant() {
        return Err(Decline::Layout("block types are copied where their rows are contiguous only"));
    }
    in_chunks(plan, hardware, source, target)
}

/// The layout in words of a tensor whose innermost dimension is a run of whole words everywhere.
pub(crate) fn rows_of_words(x: &Operand<'_>) -> Option<Layout> {
    let (len, size) = (x.dtype.block_len(), x.dtype.block_bytes());
    let words = |elements: usize| {
        let bytes = elements / len * size;
        (elements.is_multiple_of(len) && bytes.is_multiple_of(4)).then_some(bytes / 4)
    };
    let (&last, outer) = x.layout.dims().split_last()?;
    let (&step, strides) = x.layout.strides().split_last()?;
    if step != 1 && last != 1 {
        return None;
    }
    let mut dims: Dims = outer.into();
    dims.push(words(last)?);
    let mut places: Dims = strides.iter().map(|&stride| words(stride)).collect::<Option<_>>()?;
    places.push(1);
    Layout::new(Shape::new(dims).ok()?, places, words(x.layout.offset())?).ok()
}

/// The layout in words of a contiguous tensor that fills whole words.
fn run_of_words(x: &Operand<'_>) -> Option<Layout> {
    let range = strided::byte_range(x.dtype, x.layout)?;
    let whole = range.start.is_multiple_of(4) && range.end.is_multiple_of(4);
    let shape = Shape::new([range.len() / 4].as_slice()).ok()?;
    whole.then(|| Layout::contiguous(shape).at_offset(range.start / 4).ok()).flatten()
}

fn in_chunks<K: From<Copy>>(
    plan: &mut Plan<K>,
    hardware: &Hardware,
    source: &Operand<'_>,
    target: &Operand<'_>,
) -> Result<(), Decline> {
    let (both, axes) = super::elementwise(&[(source.dtype, source.layout), (target.dtype, target.layout)])?;
    if super::fit(&both, hardware) {
        return elementwise(plan, hardware, source, target);
    }
    for chunk in super::split_operands(&both, &axes, hardware)? {
        let [from, to] = [&chunk.layouts[0], &chunk.layouts[1]];
        elementwise(
            plan,
            hardware,
            &Operand { layout: from, ..*source },
            &Operand { layout: to, ..*target },
        )?;
    }
    Ok(())
}

fn elementwise<K: From<Copy>>(
    plan: &mut Plan<K>,
    hardware: &Hardware,
    source: &Operand<'_>,
    target: &Operand<'_>,
) -> Result<(), Decline> {
    let size = source.dtype.block_bytes();
    let elements = target.layout.numel();
    let packed = target.layout.is_contiguous()
        && (target.layout.offset() * size).is_multiple_of(4)
        && (elements * size).is_multiple_of(4);
    let (target_kind, grid) = match packed {
        true => (Target::Packed, Grid::new(&[source.layout])),
        false => (Target::Strided, Grid::new(&[source.layout, target.layout])),
    };
    let kernel = Copy { size, rank: grid.ndim(), target: target_kind };
    let threads = if packed { elements.div_ceil((4 / size).max(1)) } else { elements };
    let mut step = StepBuilder::new(hardware, kernel);
    let x_start = step.read(source)?;
    let y_start = step.write(target)?;
    step.parameters(&Params { n: elements, x_start, y_start, grid })?;
    plan.step(step, line(threads.div_ceil(WORKGROUP as usize), hardware)?);
    Ok(())
}

impl Copy {
    pub(crate) fn wgsl(&self, _hardware: &Hardware) -> Wgsl {
        let Copy { size, rank, target } = *self;
        let element = match size {
            8 => "vec2<u32>",
            16 => "vec4<u32>",
            _ => "u32",
        };
        let shared = target == Target::Strided && size < 4;
        let mut module = Module::new();
        module.buffer("x", &format!("array<{element}>"), false);
        let y = if shared { "array<atomic<u32>>".to_owned() } else { format!("array<{element}>") };
        module.buffer("y", &y, true);
        let tensors = if target == Target::Packed { 1 } else { 2 };
        let Params { n, x_start, y_start, grid } = module.parameters::<Params>((rank, tensors));
        let per_word = (4 / size).max(1);
        let bits = 8 * size.min(4);
        let (shift, mask) = (per_word.trailing_zeros(), per_word - 1);
        let load = |i: &str| match per_word {
            1 => format!("x[{i}]"),
            _ => format!("extractBits(x[{i} >> {shift}u], ({i} & {mask}u) * {bits}u, {bits}u)"),
        };
        let mut body = format!("let t = {LINEAR_GROUP} * {WORKGROUP}u + local;\n");
        match target {
            Target::Packed => {
                let _ = writeln!(body, "let first = t * {per_word}u;\nif first >= {n} {{ return; }}");
                let mut parts = Vec::new();
                for k in 0..per_word {
                    let _ = writeln!(body, "var a{k} = {x_start};");
                    let i = format!("(first + {k}u)");
                    body.push_str(&grid.positions(&i, &[&format!("a{k}")]));
                    let _ = writeln!(body, "let v{k} = {};", load(&format!("a{k}")));
                    parts.push(if k == 0 { "v0".to_owned() } else { format!("(v{k} << {}u)", k * bits) });
                }
                let at = match per_word {
                    1 => format!("{y_start} + t"),
                    _ => format!("({y_start} >> {shift}u) + t"),
                };
                let _ = writeln!(body, "y[{at}] = {};", parts.join(" | "));
            }
            Target::Strided => {
                let _ = writeln!(body, "if t >= {n} {{ return; }}\nvar a = {x_start};\nvar b = {y_start};");
                body.push_str(&grid.positions("t", &["a", "b"]));
                let _ = writeln!(body, "let v = {};", load("a"));
                if shared {
                    let ones = (1u64 << bits) - 1;
                    let _ = writeln!(
                        body,
                        "let shift = (b & {mask}u) * {bits}u;\natomicAnd(&y[b >> {shift}u], ~({ones}u << shift));\n\
                         atomicOr(&y[b >> {shift}u], v << shift);"
                    );
                } else {
                    body.push_str("y[b] = v;");
                }
            }
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
