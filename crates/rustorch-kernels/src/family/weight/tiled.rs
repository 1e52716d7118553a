//! Many rows of quantized activations times a block-quantized weight: a workgroup makes a tile of [`COLUMNS`] rows of the weight
//! by [`ROWS`] rows of activations.
//!
//! For each 32 values it brings the codes and the scales of both sides to workgroup memory, where every thread multiplies those
//! of its [`EACH`] × [`EACH`] results. Codes of the weight are unpacked once for all rows of the tile. Integer sums are exact,
//! the scaled ones are added in another order than the CPU's.

use super::format::{Format, Kind, format};
use super::matmul::MatMulParams;
use crate::Hardware;
use crate::library;
use crate::wgsl::{LINEAR_GROUP, Module, Wgsl};
use rustorch_core::{DType, QuantType};
use std::fmt::Write;

/// Rows of activations of a tile.
pub(super) const ROWS: usize = 64;

/// Rows of the weight of a tile, columns of the result.
pub(super) const COLUMNS: usize = 64;

/// Results of a thread along both sides.
const EACH: usize = 4;

/// Threads along each side of a tile.
const ACROSS: usize = COLUMNS / EACH;
const WORKGROUP: usize = ACROSS * ROWS / EACH;

/// Words of codes of 32 values.
const WORDS: usize = 8;

/// From one row's codes to the next one's in workgroup memory: a word more keeps threads off each other's banks.
const PITCH: usize = WORDS + 1;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightTiled {
    pub(super) quant: QuantType,
    /// Whether a bias is added.
    pub(super) bias: bool,
}

impl WeightTiled {
    pub(in crate::family) fn wgsl(&self, _hardware: &Hardware) -> Wgsl {
        let WeightTiled { quant, bias } = *self;
        let format = format(DType::Quant(quant)).expect("launches are planned for types that have a format");
        let mut module = Module::new();
        module.buffer("w", "array<u32>", false);
        module.buffer("x", "array<u32>", false);
        module.buffer("y", "array<f32>", true);
        if bias {
            module.buffer("bias", "array<f32>", false);
        }
        let params = module.parameters::<MatMulParams>(None);
        let MatMulParams { n, rows, row_blocks, d, sums, s, operands } = &params;
        module.add(library::BYTES);
        module.add(format.text);
        let halves = 32 / format.group;
        module.add(&format!(
            "var<workgroup> codes_w: array<u32, {}>;
            var<workgroup> codes_x: array<u32, {}>;
            var<workgroup> scales_w: array<f32, {}>;
            var<workgroup> scales_x: array<f32, {ROWS}>;",
            COLUMNS * PITCH,
            ROWS * PITCH,
            COLUMNS * halves,
        ));
        if takes_sums(format) {
            // What a weight takes back times a sum of activations.
            module.add(&format!(
                "var<workgroup> minima_w: array<f32, {}>;\nvar<workgroup> sums_x: array<f32, {}>;",
                COLUMNS * halves,
                ROWS * halves
            ));
        }
        let mut body = format!(
            "let across = ({n} + {COLUMNS}u - 1u) / {COLUMNS}u;
            let number = {LINEAR_GROUP};
            let first_column = (number % across) * {COLUMNS}u;
            let first_row = (number / across) * {ROWS}u;
            if first_row >= {rows} {{ return; }}
            let column = local % {ACROSS}u;
            let row = local / {ACROSS}u;
            let strips = {row_blocks} * {}u;\n",
            format.len() / 32
        );
        for (i, j) in pairs() {
            let _ = writeln!(body, "var acc{i}_{j} = 0.0;");
        }
        let _ = writeln!(body, "for (var strip = 0u; strip < strips; strip++) {{");
        body.push_str(&load(
            format,
            [&n.to_string(), &rows.to_string(), &row_blocks.to_string()],
            [&operands.weight.to_string(), &operands.row_bytes.to_string()],
            [&d.to_string(), &sums.to_string(), &s.to_string()],
        ));
        body.push_str("workgroupBarrier();\n");
        body.push_str(&products(format));
        body.push_str("workgroupBarrier();\n}\n");
        let extra = &operands.extra;
        for (i, j) in pairs() {
            let plus = if bias { format!(" + bias[{} + c * {}]", extra[0], extra[1]) } else { String::new() };
            let _ = writeln!(
                body,
                "{{ let r = first_row + row + {}u; let c = first_column + column + {}u;
                if r < {rows} && c < {n} {{ y[{} + r * {} + c] = acc{i}_{j}{plus}; }} }}",
                i * ROWS / EACH,
                j * ACROSS,
                operands.y_start,
                operands.pitch
            );
        }
        module.finish([WORKGROUP as u32, 1, 1], &body)
    }
}

/// Whether a type's products take sums of activations: for minima, or because its codes are not signed.
fn takes_sums(format: &Format) -> bool {
    format.mins || format.group_offset.is_some()
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..EACH).flat_map(|i| (0..EACH).map(move |j| (i, j)))
}

/// Brings codes and scales of 32 values of both sides to workgroup memory. Rows beyond the last repeat it.
fn load(
    format: &Format,
    [n, rows, row_blocks]: [&str; 3],
    [weight, row_bytes]: [&str; 2],
    [d, sums, s]: [&str; 3],
) -> String {
    let (halves, of_block) = (32 / format.group, format.len() / 32);
    let integer = matches!(format.kind, Kind::Integer | Kind::Lanes);
    let mut text = format!(
        "let b = strip / {of_block}u;
        let g = strip % {of_block}u;
        for (var e = local; e < {}u; e += {WORKGROUP}u) {{
            let own = e / {WORDS}u;
            let at = {weight} + min(first_column + own, {n} - 1u) * {row_bytes} + b * {}u;
            codes_w[own * {PITCH}u + e % {WORDS}u] = codes(at, g, e % {WORDS}u);
        }}
        for (var e = local; e < {}u; e += {WORKGROUP}u) {{
            let own = e / {WORDS}u;
            let source = (min(first_row + own, {rows} - 1u) * {row_blocks} + b) * {}u + g * {WORDS}u + e % {WORDS}u;
            codes_x[own * {PITCH}u + e % {WORDS}u] = x[source];
        }}
        for (var e = local; e < {}u; e += {WORKGROUP}u) {{
            let own = e / {halves}u;
            let part = e % {halves}u;
            let at = {weight} + min(first_column + own, {n} - 1u) * {row_bytes} + b * {}u;
            let dw = {};\n",
        COLUMNS * WORDS,
        format.bytes(),
        ROWS * WORDS,
        format.len() / 4,
        COLUMNS * halves,
        format.bytes(),
        format.scale(),
    );
    let index = format!("{halves}u * g + part");
    text += &match integer {
        true => format!("let scaled = dw * f32(scale(at, {index}));\nscales_w[e] = scaled;\n"),
        false => "scales_w[e] = dw;\n".to_owned(),
    };
    if format.mins {
        let _ = writeln!(text, "let mw = f16_value(half_at(at + {}u));", format.dmin);
        text += &match integer {
            true => format!("minima_w[e] = -mw * f32(minimum(at, {index}));\n"),
            false => "minima_w[e] = mw;\n".to_owned(),
        };
    } else if let Some(offset) = format.group_offset {
        let _ = writeln!(text, "minima_w[e] = scaled * {offset}.0;");
    }
    let _ = writeln!(
        text,
        "}}
        for (var e = local; e < {}u; e += {WORKGROUP}u) {{
            let own = e / {halves}u;
            let part = e % {halves}u;
            let source = min(first_row + own, {rows} - 1u) * {row_blocks} + b;
            let dx = bitcast<f32>(x[{d} + source]);
            if part == 0u {{ scales_x[own] = dx; }}",
        ROWS * halves
    );
    if takes_sums(format) {
        text += &match (integer, halves) {
            (false, _) => format!("sums_x[e] = bitcast<f32>(x[{s} + source]);\n"),
            (true, 1) => format!(
                "let pair = {sums} + source * 16u + 2u * g;
                sums_x[e] = dx * f32(bitcast<i32>(x[pair]) + bitcast<i32>(x[pair + 1u]));\n"
            ),
            (true, _) => {
                format!("sums_x[e] = dx * f32(bitcast<i32>(x[{sums} + source * 16u + 2u * g + part]));\n")
            }
        };
    }
    text.push_str("}\n");
    text
}

/// What a thread adds to its results for 32 values.
fn products(format: &Format) -> String {
    let halves = 32 / format.group;
    let mut text = String::new();
    for i in 0..EACH {
        let _ = writeln!(text, "let r{i} = row + {}u;\nlet dx{i} = scales_x[r{i}];", i * ROWS / EACH);
    }
    for j in 0..EACH {
        let _ = writeln!(text, "let c{j} = column + {}u;", j * ACROSS);
    }
    for part in 0..halves {
        text.push_str("{\n");
        for (i, j) in pairs() {
            let _ = writeln!(text, "var sum{i}_{j} = 0;");
        }
        for word in part * WORDS / halves..(part + 1) * WORDS / halves {
            text.push_str("{\n");
            for i in 0..EACH {
                let _ = writeln!(text, "let a{i} = codes_x[r{i} * {PITCH}u + {word}u];");
            }
            for j in 0..EACH {
                let _ = writeln!(text, "let b{j} = codes_w[c{j} * {PITCH}u + {word}u];");
            }
            for (i, j) in pairs() {
                let _ = writeln!(text, "sum{i}_{j} += dot4I8Packed(a{i}, b{j});");
            }
            text.push_str("}\n");
        }
        for j in 0..EACH {
            let _ = writeln!(text, "let dw{j} = scales_w[c{j} * {halves}u + {part}u];");
        }
        for (i, j) in pairs() {
            let _ = writeln!(text, "acc{i}_{j} = fma(dw{j} * dx{i}, f32(sum{i}_{j}), acc{i}_{j});");
        }
        if takes_sums(format) {
            for j in 0..EACH {
                let _ = writeln!(text, "let mw{j} = minima_w[c{j} * {halves}u + {part}u];");
            }
            for i in 0..EACH {
                let _ = writeln!(text, "let sx{i} = sums_x[r{i} * {halves}u + {part}u];");
            }
            for (i, j) in pairs() {
                let _ = writeln!(text, "acc{i}_{j} = fma(mw{j}, sx{i}, acc{i}_{j});");
            }
        }
        text.push_str("}\n");
    }
    text
}
