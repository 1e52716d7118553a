//! Few rows of quantized activations times a block-quantized weight: [`LANES`] threads for each row of the weight, each of which
//! takes every so many [`CHUNK`]s of 16 values, and a tree of sums at the end.
//!
//! What limits it is how fast the weight is read: neighbouring threads read neighbouring bytes. Integer sums are exact, the
//! scaled ones are added in another order than the CPU's.

use super::format::{Format, Kind, format};
use super::matmul::{MatMulParams, choose_expert};
use crate::Hardware;
use crate::library;
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, QuantType};
use std::fmt::Write;

/// Threads that share a row of the weight.
const LANES: usize = 32;

/// Values that a thread multiplies at a time: half a group of 32, which has one scale in every type.
const CHUNK: usize = 16;

/// The most rows of activations that a thread multiplies with what it has read of a weight.
pub(super) const TILE: usize = 4;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightMatVec {
    pub(super) quant: QuantType,
    /// Rows of activations of a thread: 1, or [`TILE`].
    pub(super) tile: usize,
    /// Whether a bias is added.
    pub(super) bias: bool,
    /// If each row of activations selects a matrix (mul_mat_id): the dtype of the ids.
    pub(super) experts: Option<DType>,
    /// Whether the chunk holds only some of the matrices.
    pub(super) part: bool,
}

/// Rows of the weight that a workgroup has.
pub(super) const ROWS: usize = WORKGROUP as usize / LANES;

impl WeightMatVec {
    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let WeightMatVec { quant, tile, bias, experts, part } = *self;
        let format = format(DType::Quant(quant)).expect("launches are planned for types that have a format");
        let mut module = Module::new();
        module.buffer("w", "array<u32>", false);
        module.buffer("x", "array<u32>", false);
        module.buffer("y", "array<f32>", true);
        if bias {
            module.buffer("bias", "array<f32>", false);
        }
        let ids = experts.map(|dtype| {
            let ids = module.elements("ids", dtype, false, hardware);
            module.asserts();
            ids
        });
        let params = module.parameters::<MatMulParams>(part.then_some(()));
        let MatMulParams { n, rows, row_blocks, d, sums, s, operands } = &params;
        module.add(library::BYTES);
        module.add(format.text);
        let together = library::adds_lanes(hardware, LANES);
        if together {
            module.use_subgroups();
        } else {
            module.add(&format!("var<workgroup> partial: array<f32, {WORKGROUP}>;"));
        }
        let mut body = format!(
            "let parts = ({n} + {ROWS}u - 1u) / {ROWS}u;
            let group_number = {LINEAR_GROUP};
            let tile = group_number / parts;
            let lane = local % {LANES}u;
            let row = (group_number % parts) * {ROWS}u + local / {LANES}u;
            // Threads beyond the last row repeat it, because all must reach the sums; they write nothing.
            var base = {} + min(row, {n} - 1u) * {};
            let blocks = {row_blocks};\n",
            operands.weight, operands.row_bytes
        );
        for j in 0..tile {
            let _ = writeln!(body, "let x{j} = min(tile * {tile}u + {j}u, {rows} - 1u);");
        }
        if let Some(ids) = &ids {
            body.push_str(&choose_expert(ids, operands));
        }
        for j in 0..tile {
            let row = match experts {
                Some(_) => format!("x{j} / {}", operands.extra[3]),
                None => format!("x{j}"),
            };
            let _ = writeln!(body, "let a{j} = ({row}) * blocks;\nvar acc{j} = 0.0;");
        }
        body.push_str(&chunks(format, tile, [&d.to_string(), &sums.to_string(), &s.to_string()]));
        for j in 0..tile {
            body.push_str(&match together {
                true => library::add_lanes(&format!("acc{j}"), LANES),
                false => library::add_lanes_in_memory(&format!("acc{j}"), "partial", LANES),
            });
        }
        let extra = &operands.extra;
        let plus = if bias { format!(" + bias[{} + row * {}]", extra[0], extra[1]) } else { String::new() };
        let _ = writeln!(body, "if lane != 0u || row >= {n} {{ return; }}");
        for j in 0..tile {
            let _ = writeln!(
                body,
                "if tile * {tile}u + {j}u < {rows} {{ y[{} + x{j} * {} + row] = acc{j}{plus}; }}",
                operands.y_start, operands.pitch
            );
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

/// The loop over a thread's chunks, which adds their products to `acc{j}`. `x` has scales from word `d` on, sums of 16 codes and
/// scaled sums of 32.
fn chunks(format: &Format, tile: usize, [d, sums, s]: [&str; 3]) -> String {
    let of_block = format.len() / CHUNK;
    let mut text = format!(
        "for (var c = lane; c < blocks * {of_block}u; c += {LANES}u) {{
            let b = c / {of_block}u;
            let at = base + b * {}u;
            let g = c % {of_block}u / 2u;
            let half = c % 2u;
            let dw = {};\n",
        format.bytes(),
        format.scale(),
    );
    let integer = matches!(format.kind, Kind::Integer | Kind::Lanes);
    let scale_index = if format.group == CHUNK { "2u * g + half" } else { "g" };
    if integer {
        let _ = writeln!(text, "let sc = scale(at, {scale_index});");
    }
    if format.mins {
        let _ = writeln!(text, "let mw = f16_value(half_at(at + {}u));", format.dmin);
        if integer {
            let _ = writeln!(text, "let m = minimum(at, {scale_index});");
        }
    }
    for j in 0..tile {
        let _ = writeln!(text, "let at{j} = (a{j} * {of_block}u + c) * 4u;\nvar sum{j} = 0;");
    }
    let _ =
        writeln!(text, "for (var i = 0u; i < {}u; i++) {{\nlet q = codes(at, g, half * 4u + i);", CHUNK / 4);
    for j in 0..tile {
        let _ = writeln!(text, "sum{j} += dot4I8Packed(q, x[at{j} + i]);");
    }
    text.push_str("}\n");
    for j in 0..tile {
        let _ = writeln!(text, "let dx{j} = bitcast<f32>(x[{d} + a{j} + b]);");
        let of_chunk = format!("bitcast<i32>(x[{sums} + a{j} * {of_block}u + c])");
        if let Some(offset) = format.group_offset {
            let _ = writeln!(text, "sum{j} += {offset} * {of_chunk};");
        }
        let scaled = if integer { format!("(sc * sum{j})") } else { format!("(sum{j})") };
        let _ = writeln!(text, "acc{j} = fma(dw * dx{j}, f32{scaled}, acc{j});");
        match (format.mins, integer) {
            (true, true) => {
                let _ = writeln!(text, "acc{j} = fma(-mw * dx{j}, f32(m * {of_chunk}), acc{j});");
            }
            (true, false) => {
                let _ = writeln!(text, "if half == 0u {{ acc{j} += mw * bitcast<f32>(x[{s} + a{j} + b]); }}");
            }
            (false, _) => {}
        }
    }
    text.push_str("}\n");
    text
}
