//! Few rows of `f32` activations times a dense weight whose rows are contiguous: 32 threads for each row of the weight read
//! 16 bytes at a time, and a tree adds what they have.
//!
//! What limits it is how fast the weight is read. The order of sums is another than the CPU's, and than that of more rows: matmuls
//! that are to be batch-invariant are not computed here.

use super::Plan;
use super::matmul::leading;
use crate::family::StepBuilder;
use crate::plan::parameters::parameters;
use crate::plan::{Operand, Request, line};
use crate::splitting::row_pitch;
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use crate::{Hardware, library};
use rustorch_core::{DType, Decline, Layout, MatMul as MatMulOp};
use std::fmt::Write;

/// Threads that share a row of the weight.
const LANES: usize = 32;

/// Rows of the weight that a workgroup has.
const ROWS: usize = WORKGROUP as usize / LANES;

/// The most rows of activations that a thread multiplies with what it has read of a weight.
const TILE: usize = 4;

/// The most rows of activations for which reading the weight is what takes time.
pub(crate) const FEW: usize = 8;

/// Bytes that a thread reads at a time.
const VECTOR: usize = 16;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatVec {
    weight: DType,
    /// Whether activations are rounded to the weight's dtype.
    rounds: bool,
    /// Rows of activations of a thread: 1, or [`TILE`].
    tile: usize,
    bias: bool,
}

parameters! {
    /// Kernel parameters; places in activations and in the weight are in vectors of 16 bytes.
    struct Params() {
        n: usize,
        m: usize,
        /// Vectors of a row of the weight.
        len: usize,
        x_start: usize,
        x_row: usize,
        w_start: usize,
        w_row: usize,
        y_start: u32,
        y_row: usize,
        bias_start: u32,
        bias_stride: usize,
    }
}

/// Whether a tensor's elements begin, and its rows follow one another, at multiples of a vector.
fn is_aligned(layout: &Layout, dtype: DType, row: usize) -> bool {
    let is_whole = |elements: usize| (elements * dtype.block_bytes()).is_multiple_of(VECTOR);
    is_whole(layout.offset()) && is_whole(row)
}

/// Adds the launch of a matmul that is of few rows and lies as the kernel needs it; whether it is.
pub(super) fn plan(plan: &mut Plan, request: &Request<'_>, op: &MatMulOp) -> Result<bool, Decline> {
    let (x, w, out) = (request.arg(0), request.arg(1), request.out(0));
    let whole = request.whole().out(0);
    let rows_of = |x: &Operand<'_>| x.layout.dims()[x.layout.ndim() - 2];
    let (rank, w_rank) = (x.layout.ndim(), w.layout.ndim());
    let (m, k, n) = (rows_of(&x), x.layout.dims()[rank - 1], w.layout.dims()[w_rank - 1]);
    let [x_row, x_inner] = [x.layout.strides()[rank - 2], x.layout.strides()[rank - 1]];
    let [w_inner, w_row] = [w.layout.strides()[w_rank - 2], w.layout.strides()[w_rank - 1]];
    let x_row = if m == 1 { 0 } else { x_row };
    let w_row = if n == 1 { 0 } else { w_row };
    let fits = x.dtype == DType::F32
        && matches!(w.dtype, DType::F16 | DType::BF16 | DType::F32)
        && !request.hardware.keeps_order()
        // More rows have another kernel.
        && !op.batch_invariant
        && op.activation.is_none()
        && rows_of(&whole) <= FEW
        && leading(out.layout, 2)?.numel() == 1
        && [x_inner, w_inner] == [1, 1]
        && (k * w.dtype.block_bytes()).is_multiple_of(VECTOR)
        && k.is_multiple_of(4)
        && is_aligned(x.layout, x.dtype, x_row)
        && is_aligned(w.layout, w.dtype, w_row);
    if !fits {
        return Ok(false);
    }
    let bias = request.args.len() == 3;
    let kernel = MatVec {
        weight: w.dtype,
        rounds: w.dtype != DType::F32 && op.numerics.rounds_activations(),
        tile: if m == 1 { 1 } else { TILE },
        bias,
    };
    let mut launch = StepBuilder::new(request.hardware, kernel);
    let vectors = |elements: usize, dtype: DType| elements * dtype.block_bytes() / VECTOR;
    let (x_start, w_start) = (launch.read(&x)? as usize, launch.read(&w)? as usize);
    let y_start = launch.write(&out)?;
    let mut extra = (0, 0);
    if bias {
        let bias = request.arg(2);
        extra = (launch.read(&bias)?, bias.layout.strides()[0]);
    }
    launch.parameters(&Params {
        n,
        m,
        len: vectors(k, w.dtype),
        x_start: vectors(x_start, x.dtype),
        x_row: vectors(x_row, x.dtype),
        w_start: vectors(w_start, w.dtype),
        w_row: vectors(w_row, w.dtype),
        y_start,
        y_row: row_pitch(out.layout).ok_or(Decline::Layout("rows of a matmul must be evenly apart"))?,
        bias_start: extra.0,
        bias_stride: extra.1,
    })?;
    let groups = n.div_ceil(ROWS) * m.div_ceil(kernel.tile);
    plan.step(launch, line(groups, request.hardware)?);
    Ok(true)
}

impl MatVec {
    /// Vectors of activations that go with a vector of the weight.
    fn vectors(&self) -> usize {
        DType::F32.block_bytes() / self.weight.block_bytes()
    }

    pub(super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let MatVec { weight, rounds, tile, bias } = *self;
        let mut module = Module::new();
        module.buffer("x", "array<vec4<f32>>", false);
        module.buffer("w", "array<vec4<u32>>", false);
        module.buffer("y", "array<f32>", true);
        if bias {
            module.buffer("bias", "array<f32>", false);
        }
        let Params { n, m, len, x_start, x_row, w_start, w_row, y_start, y_row, bias_start, bias_stride } =
            module.parameters::<Params>(());
        let together = library::adds_lanes(hardware, LANES);
        if together {
            module.use_subgroups();
        } else {
            module.add(&format!("var<workgroup> partial: array<f32, {WORKGROUP}>;"));
        }
        module.add(&rounding(weight, rounds, hardware));
        let mut body = format!(
            "let across = ({n} + {ROWS}u - 1u) / {ROWS}u;
            let group_number = {LINEAR_GROUP};
            let tile = group_number / across;
            let lane = local % {LANES}u;
            let row = (group_number % across) * {ROWS}u + local / {LANES}u;
            // Threads beyond the last row repeat it, because all must reach the sums; they write nothing.
            let base = {w_start} + min(row, {n} - 1u) * {w_row};\n"
        );
        for j in 0..tile {
            let _ = writeln!(
                body,
                "let r{j} = min(tile * {tile}u + {j}u, {m} - 1u);
                let a{j} = {x_start} + r{j} * {x_row};
                var acc{j} = 0.0;"
            );
        }
        let vectors = self.vectors();
        let _ = writeln!(body, "for (var i = lane; i < {len}; i += {LANES}u) {{\nlet q = w[base + i];");
        for (v, value) in values(weight, hardware).iter().enumerate() {
            let _ = writeln!(body, "let w{v} = {value};");
        }
        for j in 0..tile {
            for v in 0..vectors {
                let _ = writeln!(
                    body,
                    "let x{j}_{v} = rounded(x[a{j} + i * {vectors}u + {v}u]);
                    acc{j} += dot(x{j}_{v}, w{v});"
                );
            }
        }
        body.push_str("}\n");
        for j in 0..tile {
            body.push_str(&match together {
                true => library::add_lanes(&format!("acc{j}"), LANES),
                false => library::add_lanes_in_memory(&format!("acc{j}"), "partial", LANES),
            });
        }
        let _ = writeln!(body, "if lane != 0u || row >= {n} {{ return; }}");
        let plus = if bias { format!(" + bias[{bias_start} + row * {bias_stride}]") } else { String::new() };
        for j in 0..tile {
            let _ = writeln!(
                body,
                "if tile * {tile}u + {j}u < {m} {{ y[{y_start} + r{j} * {y_row} + row] = acc{j}{plus}; }}"
            );
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

/// Vectors of four values, expressions of the 16 bytes `q` of a weight.
fn values(weight: DType, hardware: &Hardware) -> Vec<String> {
    let pair = |word: &str| match weight {
        DType::F16 => library::halves(&format!("q.{word}"), hardware),
        _ => format!("bitcast<vec2<f32>>(vec2<u32>(q.{word} << 16u, q.{word} & 0xffff0000u))"),
    };
    match weight {
        DType::F32 => vec!["bitcast<vec4<f32>>(q)".to_owned()],
        _ => [["x", "y"], ["z", "w"]].map(|[a, b]| format!("vec4<f32>({}, {})", pair(a), pair(b))).into(),
    }
}

/// `rounded(x)`: activations as the weight's dtype would hold them, if they are rounded.
fn rounding(weight: DType, rounds: bool, hardware: &Hardware) -> String {
    // Numbers that lose their last bits by a multiplication and two subtractions (Veltkamp 1968; Dekker 1971: *A floating-point
    // technique for extending the available precision*), where compilers keep the order of these.
    let split = match weight {
        DType::F16 => "8193.0",
        _ => "65537.0",
    };
    let body = match (rounds, weight) {
        (false, _) => "return x;".to_owned(),
        (true, _) if hardware.arithmetic.faithful => {
            format!("let c = x * {split};\nlet d = c - x;\nreturn c - d;")
        }
        (true, DType::F16) => "return vec4<f32>(f16_value(f16_bits(x.x)), f16_value(f16_bits(x.y)), f16_value(f16_bits(x.z)), f16_value(f16_bits(x.w)));".to_owned(),
        (true, _) => "return vec4<f32>(bf16_value(bf16_bits(x.x)), bf16_value(bf16_bits(x.y)), bf16_value(bf16_bits(x.z)), bf16_value(bf16_bits(x.w)));".to_owned(),
    };
    format!("fn rounded(x: vec4<f32>) -> vec4<f32> {{ {body} }}")
}
