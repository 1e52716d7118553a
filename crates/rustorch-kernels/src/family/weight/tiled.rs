//! Many rows of quantized activations times a block-quantized weight: a workgroup makes a tile of [`COLUMNS`] rows of the weight
//! by [`ROWS`] rows of activations.
//!
//! For each 32 values it loads the codes and the scales of both sides into workgroup memory, where every thread multiplies those
//! of its [`EACH`] × [`EACH`] results. Codes of the weight are unpacked once for all rows of the tile. Integer sums are exact,
//! the scaled ones are added in another order than the CPU's.

use super::format::{Format, format};
use super::k_tile::{KTile, WORDS, halves, takes_sums};
use super::matmul::{MatMulParams, declare_operands};
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

/// Words between rows of codes in workgroup memory: one more than they are long.
const PITCH: usize = WORDS + 1;

const K_TILE: KTile = KTile { rows: ROWS, columns: COLUMNS, groups: 1, pitch: PITCH, workgroup: WORKGROUP };

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
        declare_operands(&mut module, bias);
        let params = module.parameters::<MatMulParams>(None);
        let MatMulParams { n, rows, row_blocks, operands, .. } = &params;
        module.add(library::BYTES);
        module.add(format.text);
        module.add(&K_TILE.declarations(format));
        let mut body = format!(
            "let across = ({n} + {COLUMNS}u - 1u) / {COLUMNS}u;
            let number = {LINEAR_GROUP};
            let first_column = (number % across) * {COLUMNS}u;
            let first_row = (number / across) * {ROWS}u;
            if first_row >= {rows} {{ return; }}
            let column = local % {ACROSS}u;
            let row = local / {ACROSS}u;
            let groups_of_row = {row_blocks} * {}u;\n",
            format.len() / 32
        );
        for (i, j) in pairs() {
            let _ = writeln!(body, "var acc{i}_{j} = 0.0;");
        }
        let _ = writeln!(body, "for (var k_tile = 0u; k_tile < groups_of_row; k_tile++) {{");
        body.push_str(&K_TILE.load(format, &params));
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

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..EACH).flat_map(|i| (0..EACH).map(move |j| (i, j)))
}

/// What a thread adds to its results for 32 values.
fn products(format: &Format) -> String {
    let halves = halves(format);
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
