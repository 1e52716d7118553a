//! Many rows of quantized activations times a block-quantized weight, by tensor cores: a workgroup makes a tile of [`COLUMNS`] rows
//! of the weight by [`ROWS`] rows of activations, each of its warps a quarter.
//!
//! Integer sums of 32 codes (16 where these have a scale of their own) are products of small matrices, exact as everywhere. The
//! scaled ones are added in another order than the CPU's.

use super::format::{Format, format};
use super::k_tile::{KTile, WORDS, halves, takes_sums};
use super::matmul::{MatMulParams, declare_operands};
use crate::Hardware;
use crate::library::{self, mma};
use crate::wgsl::{LINEAR_GROUP, Module, Wgsl};
use rustorch_core::{DType, QuantType};
use std::fmt::Write;

/// Rows of activations of a tile.
pub(super) const ROWS: usize = 64;

/// Rows of the weight of a tile, columns of the result.
pub(super) const COLUMNS: usize = 64;

/// Rows and columns of a warp's part of a tile.
const SIDE: usize = 32;

/// Rows and columns of a product of small matrices.
const SMALL: [usize; 2] = [16, 8];

const WORKGROUP: usize = 32 * (ROWS / SIDE) * (COLUMNS / SIDE);

/// Groups of 32 values along k that are loaded into workgroup memory at a time.
const GROUPS: usize = 4;

/// Words between rows of codes in workgroup memory: eight rows of four words each are in banks of their own.
const PITCH: usize = GROUPS * WORDS + 4;

const K_TILE: KTile =
    KTile { rows: ROWS, columns: COLUMNS, groups: GROUPS, pitch: PITCH, workgroup: WORKGROUP };

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightTensorCore {
    pub(super) quant: QuantType,
    /// Whether a bias is added.
    pub(super) bias: bool,
}

/// The small products of a warp: down and across.
fn products() -> impl Iterator<Item = (usize, usize)> {
    (0..SIDE / SMALL[0]).flat_map(|i| (0..SIDE / SMALL[1]).map(move |j| (i, j)))
}

impl WeightTensorCore {
    pub(in crate::family) fn wgsl(&self, _hardware: &Hardware) -> Wgsl {
        let WeightTensorCore { quant, bias } = *self;
        let format = format(DType::Quant(quant)).expect("launches are planned for types that have a format");
        let mut module = Module::new();
        declare_operands(&mut module, bias);
        let params = module.parameters::<MatMulParams>(None);
        let MatMulParams { n, rows, row_blocks, operands, .. } = &params;
        module.use_subgroups();
        module.add(library::BYTES);
        module.add(format.text);
        module.add(mma::MMA_I8);
        module.add(&K_TILE.declarations(format));
        let mut body = format!(
            "let across = ({n} + {COLUMNS}u - 1u) / {COLUMNS}u;
            let number_of_group = {LINEAR_GROUP};
            let first_column = (number_of_group % across) * {COLUMNS}u;
            let first_row = (number_of_group / across) * {ROWS}u;
            if first_row >= {rows} {{ return; }}
            let lane = local % 32u;
            let warp = local / 32u;
            let quad = lane / 4u;
            let in_quad = lane % 4u;
            let row = warp / {}u * {SIDE}u + quad;
            let column = warp % {}u * {SIDE}u;
            let groups_of_row = {row_blocks} * {}u;\n",
            COLUMNS / SIDE,
            COLUMNS / SIDE,
            format.len() / 32
        );
        for (i, j) in products() {
            let _ = writeln!(body, "var acc{i}_{j} = vec4<f32>();");
        }
        let _ = writeln!(
            body,
            "for (var k_tile = 0u; k_tile * {GROUPS}u < groups_of_row; k_tile++) {{
            {}workgroupBarrier();
            for (var slice = 0u; slice < {GROUPS}u; slice++) {{
            {}}}
            workgroupBarrier();
            }}",
            K_TILE.load(format, &params),
            multiply(format)
        );
        for (i, j) in products() {
            for (part, down, right) in [("x", 0, 0), ("y", 0, 1), ("z", 8, 0), ("w", 8, 1)] {
                let plus = match bias {
                    true => format!(" + bias[{} + c * {}]", operands.extra[0], operands.extra[1]),
                    false => String::new(),
                };
                let _ = writeln!(
                    body,
                    "{{ let r = first_row + row + {}u; let c = first_column + column + 2u * in_quad + {}u;
                    if r < {rows} && c < {n} {{ y[{} + r * {} + c] = acc{i}_{j}.{part}{plus}; }} }}",
                    i * SMALL[0] + down,
                    j * SMALL[1] + right,
                    operands.y_start,
                    operands.pitch
                );
            }
        }
        module.finish([WORKGROUP as u32, 1, 1], &body)
    }
}

/// What a thread adds to its results for a group of 32 values.
fn multiply(format: &Format) -> String {
    let halves = halves(format);
    let mut text = format!("let word = slice * {WORDS}u + in_quad;\n");
    for i in 0..SIDE / SMALL[0] {
        let _ = writeln!(
            text,
            "let upper{i} = row + {}u;
            let lower{i} = upper{i} + 8u;
            let a{i} = vec4<u32>(codes_x[upper{i} * {PITCH}u + word], codes_x[lower{i} * {PITCH}u + word], codes_x[upper{i} * {PITCH}u + word + 4u], codes_x[lower{i} * {PITCH}u + word + 4u]);
            let dx{i} = vec2<f32>(scales_x[upper{i} * {GROUPS}u + slice], scales_x[lower{i} * {GROUPS}u + slice]);",
            i * SMALL[0]
        );
    }
    for j in 0..SIDE / SMALL[1] {
        let _ = writeln!(
            text,
            "let codes_of{j} = (column + {}u + quad) * {PITCH}u + word;
            let b{j} = vec2<u32>(codes_w[codes_of{j}], codes_w[codes_of{j} + 4u]);",
            j * SMALL[1]
        );
    }
    let scale = |array: &str, row: String, part: usize| {
        format!("{array}[(({row}) * {GROUPS}u + slice) * {halves}u + {part}u]")
    };
    for part in 0..halves {
        text.push_str("{\n");
        for j in 0..SIDE / SMALL[1] {
            let at = |right: usize| format!("column + 2u * in_quad + {}u", j * SMALL[1] + right);
            let _ = writeln!(
                text,
                "let dw{j} = vec2<f32>({}, {});",
                scale("scales_w", at(0), part),
                scale("scales_w", at(1), part)
            );
            if takes_sums(format) {
                let _ = writeln!(
                    text,
                    "let mw{j} = vec2<f32>({}, {});",
                    scale("minima_w", at(0), part),
                    scale("minima_w", at(1), part)
                );
            }
        }
        if takes_sums(format) {
            for i in 0..SIDE / SMALL[0] {
                let _ = writeln!(
                    text,
                    "let sx{i} = vec2<f32>({}, {});",
                    scale("sums_x", format!("upper{i}"), part),
                    scale("sums_x", format!("lower{i}"), part)
                );
            }
        }
        for (i, j) in products() {
            let product = match (halves, part) {
                (1, _) => format!("mma_k32(lane, a{i}, b{j}, vec4<i32>({ONE_AND_A_HALF}))"),
                (_, 0) => format!("mma_k16(lane, a{i}.xy, b{j}.x, vec4<i32>({ONE_AND_A_HALF}))"),
                _ => format!("mma_k16(lane, a{i}.zw, b{j}.y, vec4<i32>({ONE_AND_A_HALF}))"),
            };
            let _ = writeln!(text, "{{ let sum = bitcast<vec4<f32>>({product});");
            for (part, x, w) in [("x", "x", "x"), ("y", "x", "y"), ("z", "y", "x"), ("w", "y", "y")] {
                let _ = writeln!(
                    text,
                    "acc{i}_{j}.{part} = fma(dw{j}.{w} * dx{i}.{x}, sum.{part} - 12582912.0, acc{i}_{j}.{part});"
                );
                if takes_sums(format) {
                    let _ =
                        writeln!(text, "acc{i}_{j}.{part} = fma(mw{j}.{w}, sx{i}.{x}, acc{i}_{j}.{part});");
                }
            }
            text.push_str("}\n");
        }
        text.push_str("}\n");
    }
    text
}

/// The bits of 1.5 · 2²³. An integer of less than 22 bits that is added to them makes the bits of that number of the sum: so sums
/// of products of codes, which start there, are numbers of `f32` without a conversion.
const ONE_AND_A_HALF: &str = "0x4b400000";
