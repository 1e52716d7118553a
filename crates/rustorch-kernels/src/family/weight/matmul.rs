//! Matmul of block-quantized weights with quantized activations, in the CPU's order of sums.

use super::OperandParams;
use super::format::{Format, Kind, format};
use super::group::NONE;
use crate::Hardware;
use crate::library;
use crate::library::strided;
use crate::plan::parameters::{Names, parameters};
use crate::wgsl::{Elements, LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, OpKind, QuantType};
use std::fmt::Write;

/// The kernel. Types with eight chains have a thread for each, those with one have a thread for each row of the weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightMatMul {
    pub(super) quant: QuantType,
    /// Rows of activations that a thread multiplies with its row of the weight. Where they choose their matrices, more than
    /// one is a tile of [`Group`](super::Group).
    pub(super) tile: usize,
    /// Whether a bias is added.
    pub(super) bias: bool,
    /// If each row of activations selects a matrix (mul_mat_id): the dtype of the ids.
    pub(super) experts: Option<DType>,
    /// Whether the chunk holds only some of the matrices.
    pub(super) part: bool,
}

parameters! {
    /// Kernel parameters.
    pub(super) struct MatMulParams(part: Option<()>) {
        n: usize,
        rows: usize,
        row_blocks: usize,
        /// Where scales, sums and scaled sums of activations are.
        d: usize,
        sums: usize,
        s: usize,
        operands: OperandParams = part,
    }
}

impl WeightMatMul {
    /// Threads for each row of the weight.
    fn share(&self, format: &Format) -> usize {
        match format.kind {
            Kind::LaneBlocks | Kind::Lanes => 8,
            Kind::Blocks | Kind::Integer => 1,
        }
    }

    /// Rows of the weight that a workgroup has.
    pub(super) fn rows_per_group(&self, format: &Format) -> usize {
        WORKGROUP as usize / self.share(format)
    }

    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let WeightMatMul { quant, tile, bias, experts, part, .. } = *self;
        let format = format(DType::Quant(quant)).expect("launches are planned for types that have a format");
        let mut module = Module::new();
        declare_operands(&mut module, bias);
        let ids = experts.map(|dtype| {
            let ids = module.elements("ids", dtype, false, hardware);
            module.asserts();
            ids
        });
        let grouped = ids.is_some() && tile > 1;
        if grouped {
            module.buffer("tiles", "array<u32>", false);
        }
        let MatMulParams { n, rows, row_blocks, d, sums, s, operands } =
            module.parameters::<MatMulParams>(part.then_some(()));
        let OperandParams { weight, row_bytes, y_start, extra, pitch, .. } = &operands;
        module.add(&library::exact(hardware));
        module.add(library::BYTES);
        module.add(format.text);

        let (lanes, share, own) = (format.lanes(), self.share(format), self.rows_per_group(format));
        let adds = lanes && library::adds_lanes(hardware, 8);
        if adds {
            module.use_subgroups();
        } else if lanes {
            module.add(&format!("var<workgroup> chains: array<f32, {WORKGROUP}>;"));
        }
        let row = match share {
            1 => format!("let row = rows_of_group * {WORKGROUP}u + local;\n"),
            _ => format!(
                "let lane = local % {share}u;\nlet row = rows_of_group * {own}u + local / {share}u;\n"
            ),
        };
        let mut body = format!(
            "let parts = ({n} + {own}u - 1u) / {own}u;
            let group_number = {LINEAR_GROUP};
            let rows_of_group = group_number % parts;
            let tile = group_number / parts;
            {row}
            // Threads beyond the last row repeat it, because all must reach the barriers; they write nothing.
            var base = {weight} + min(row, {n} - 1u) * {row_bytes};
            let blocks = {row_blocks};\n"
        );
        if grouped {
            // Threads of an empty tile have no blocks, and go on to the barriers: not every compiler for CPUs knows that
            // all threads of a group leave together.
            let _ = writeln!(
                body,
                "let first_choice = tiles[tile * {tile}u];
                let empty = first_choice == {NONE};
                let count = select(blocks, 0u, empty);
                let x0 = select(first_choice, 0u, empty);"
            );
            for j in 1..tile {
                let _ = writeln!(
                    body,
                    "let other{j} = select(tiles[tile * {tile}u + {j}u], {NONE}, empty);
                    let x{j} = select(other{j}, x0, other{j} == {NONE});"
                );
            }
        } else {
            for j in 0..tile {
                let _ = writeln!(body, "let x{j} = min(tile * {tile}u + {j}u, {rows} - 1u);");
            }
        }
        if let Some(ids) = &ids {
            body.push_str(&choose_expert(ids, &operands));
            for j in 0..tile {
                let _ = writeln!(body, "let a{j} = x{j} / {};", extra[3]);
            }
        } else {
            for j in 0..tile {
                let _ = writeln!(body, "let a{j} = x{j};");
            }
        }
        for j in 0..tile {
            let _ = writeln!(body, "var acc{j} = 0.0; var low{j} = 0.0;");
        }
        let end = if grouped { "count" } else { "blocks" };
        let _ = writeln!(body, "for (var b = 0u; b < {end}; b++) {{");
        let _ = writeln!(body, "let at = base + b * {}u;", format.bytes());
        let words = Words { d: d.to_string(), sums: sums.to_string(), s: s.to_string() };
        match format.kind {
            Kind::Blocks => blocks(&mut body, format, tile, &words),
            Kind::LaneBlocks => lane_blocks(&mut body, format, tile, &words),
            Kind::Integer => superblocks(&mut body, format, tile, &words),
            Kind::Lanes => lane_superblocks(&mut body, format, tile, &words),
        }
        if !lanes {
            for j in 0..tile {
                let _ = writeln!(body, "acc{j} = fused(p{j}.x, p{j}.y, acc{j});");
                if format.mins {
                    let _ = writeln!(body, "low{j} = fused(p{j}.z, p{j}.w, low{j});");
                }
            }
        }
        body.push_str("}\n");
        for j in 0..tile {
            match format.kind {
                Kind::Integer => {
                    let _ = writeln!(body, "let result{j} = acc{j} - low{j};");
                }
                Kind::Blocks => {
                    let _ = writeln!(body, "let result{j} = acc{j};");
                }
                Kind::LaneBlocks | Kind::Lanes => {
                    // Those four apart, then those two apart, then the last two.
                    let min = if format.mins { format!(" + low{j}") } else { String::new() };
                    // Both ways add the chains in one order, to the last bit.
                    if adds {
                        let add = library::add_lanes(&format!("acc{j}"), 8);
                        let _ = writeln!(body, "{add}let result{j} = acc{j}{min};");
                        continue;
                    }
                    let _ = writeln!(
                        body,
                        "workgroupBarrier();
                        chains[local] = acc{j};
                        workgroupBarrier();
                        let first{j} = local - lane;
                        let result{j} = (((chains[first{j} + 4u] + chains[first{j}]) + (chains[first{j} + 6u] + chains[first{j} + 2u]))
                            + ((chains[first{j} + 5u] + chains[first{j} + 1u]) + (chains[first{j} + 7u] + chains[first{j} + 3u]))){min};"
                    );
                }
            }
        }
        let writer = if share > 1 { "lane == 0u && row" } else { "row" };
        let _ = writeln!(body, "if {writer} < {n} {{");
        let plus = if bias { format!(" + bias[{} + row * {}]", extra[0], extra[1]) } else { String::new() };
        for j in 0..tile {
            let there = match (grouped, j) {
                (true, 0) => "!empty".to_owned(),
                (true, _) => format!("other{j} != {NONE}"),
                (false, _) => format!("tile * {tile}u + {j}u < {rows}"),
            };
            let _ = writeln!(body, "if {there} {{ y[{y_start} + x{j} * {pitch} + row] = result{j}{plus}; }}");
        }
        body.push_str("}\n");
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

/// Declares the operands, in the order in which launches bind them: weight, quantized activations, result, and a bias.
pub(super) fn declare_operands(module: &mut Module, bias: bool) {
    module.buffer("w", "array<u32>", false);
    module.buffer("x", "array<u32>", false);
    module.buffer("y", "array<f32>", true);
    if bias {
        module.buffer("bias", "array<f32>", false);
    }
}

/// Statements that move `base`, the place of a row of the weight, to the matrix that row `x0` of the results has chosen.
pub(super) fn choose_expert(ids: &Elements, operands: &OperandParams<Names>) -> String {
    let OperandParams { extra, here, .. } = operands;
    let load =
        ids.load_index("expert", &format!("{} + x0", extra[0]), &extra[2].to_string(), OpKind::MulMatId);
    let of_another_part = here.as_ref().map_or_else(String::new, |here| strided::chosen("expert", here));
    format!("{load}\n{of_another_part}\nbase += expert * {};\n", extra[1])
}

/// The words where parts of the activations begin.
pub(super) struct Words {
    pub(super) d: String,
    pub(super) sums: String,
    pub(super) s: String,
}

/// `p{j}`, of which the chain is `acc += p.x · p.y`: `Σ q·x` and `d·dx`.
fn blocks(body: &mut String, format: &Format, tile: usize, words: &Words) {
    let _ = writeln!(body, "let dw = {};", format.scale());
    for j in 0..tile {
        let _ = writeln!(body, "var sum{j} = 0;");
    }
    body.push_str("for (var i = 0u; i < 8u; i++) {\nlet q = codes(at, 0u, i);\n");
    for j in 0..tile {
        let _ = writeln!(body, "sum{j} += dot4I8Packed(q, x[(a{j} * blocks + b) * 8u + i]);");
    }
    body.push_str("}\n");
    for j in 0..tile {
        let _ = writeln!(
            body,
            "let p{j} = vec4<f32>(f32(sum{j}), dw * bitcast<f32>(x[{} + a{j} * blocks + b]), 0.0, 0.0);",
            words.d
        );
    }
}

/// `acc[lane] += (d·dx)·Σ q·x`, `low += m·sx`
fn lane_blocks(body: &mut String, format: &Format, tile: usize, words: &Words) {
    let _ = writeln!(body, "let dw = {};\nlet q = codes(at, 0u, lane);", format.scale());
    if format.mins {
        let _ = writeln!(body, "let mw = f16_value(half_at(at + {}u));", format.dmin);
    }
    for j in 0..tile {
        let _ = writeln!(
            body,
            "acc{j} = fused(dw * bitcast<f32>(x[{} + a{j} * blocks + b]), f32(dot4I8Packed(q, x[(a{j} * blocks + b) * 8u + lane])), acc{j});",
            words.d
        );
        if format.mins {
            let _ = writeln!(
                body,
                "low{j} = fused(mw, bitcast<f32>(x[{} + a{j} * blocks + b]), low{j});",
                words.s
            );
        }
    }
}

/// The number of the scale of thread `lane`'s codes of group `g` of 32.
pub(super) fn own_group(format: &Format) -> &'static str {
    if format.group == 16 { "2u * g + (lane >> 2u)" } else { "g" }
}

/// The sum of the activations of group `s`.
pub(super) fn activations(format: &Format, words: &Words, j: usize) -> String {
    let sums = &words.sums;
    match format.group {
        16 => format!("bitcast<i32>(x[{sums} + (a{j} * blocks + b) * 16u + s])"),
        _ => format!(
            "(bitcast<i32>(x[{sums} + (a{j} * blocks + b) * 16u + 2u * s]) + bitcast<i32>(x[{sums} + (a{j} * blocks + b) * 16u + 2u * s + 1u]))"
        ),
    }
}

/// Sums over the groups of a block of the minima times the activations: `min{j}`.
fn minima(body: &mut String, format: &Format, tile: usize, words: &Words) {
    for j in 0..tile {
        let _ = writeln!(body, "var min{j} = 0;");
    }
    let _ = writeln!(body, "for (var s = 0u; s < {}u; s++) {{\nlet m = minimum(at, s);", 256 / format.group);
    for j in 0..tile {
        let _ = writeln!(body, "min{j} += m * {};", activations(format, words, j));
    }
    body.push_str("}\n");
}

/// `p{j}`, of which the chains are `acc += p.x · p.y` and `low += p.z · p.w`: `Σ sc·Σ q·x` and `d·dx`, `Σ mn·Σ x` and
/// `dmin·dx`.
fn superblocks(body: &mut String, format: &Format, tile: usize, words: &Words) {
    for j in 0..tile {
        let _ = writeln!(body, "var sum{j} = 0;");
    }
    let half = 32 / format.group;
    let _ = writeln!(
        body,
        "for (var g = 0u; g < 8u; g++) {{ for (var part = 0u; part < {half}u; part++) {{
        let sc = scale(at, g * {half}u + part);
        for (var i = part * {words}u; i < (part + 1u) * {words}u; i++) {{ let q = codes(at, g, i);",
        words = 8 / half
    );
    for j in 0..tile {
        let _ = writeln!(body, "sum{j} += sc * dot4I8Packed(q, x[(a{j} * blocks + b) * 64u + g * 8u + i]);");
    }
    body.push_str("} } }\n");
    minima(body, format, tile, words);
    let _ =
        writeln!(body, "let dw = {};\nlet mw = f16_value(half_at(at + {}u));", format.scale(), format.dmin);
    for j in 0..tile {
        let _ = writeln!(
            body,
            "let dx{j} = bitcast<f32>(x[{} + a{j} * blocks + b]);
            let p{j} = vec4<f32>(f32(sum{j}), dw * dx{j}, f32(min{j}), mw * dx{j});",
            words.d
        );
    }
}

/// `acc[lane] += (d·dx)·Σ sc·q·x`, `low −= (dmin·dx)·Σ mn·Σ x`
fn lane_superblocks(body: &mut String, format: &Format, tile: usize, words: &Words) {
    for j in 0..tile {
        let _ = writeln!(body, "var sum{j} = 0;");
    }
    let index = own_group(format);
    let _ = writeln!(
        body,
        "for (var g = 0u; g < 8u; g++) {{\nlet sc = scale(at, {index});\nlet q = codes(at, g, lane);"
    );
    for j in 0..tile {
        let _ =
            writeln!(body, "sum{j} += sc * dot4I8Packed(q, x[(a{j} * blocks + b) * 64u + g * 8u + lane]);");
    }
    body.push_str("}\n");
    if let Some(offset) = format.group_offset {
        body.push_str("for (var s = 2u * lane; s < 2u * lane + 2u; s++) {\nlet sc = scale(at, s);\n");
        for j in 0..tile {
            let _ = writeln!(
                body,
                "sum{j} += {offset} * sc * bitcast<i32>(x[{} + (a{j} * blocks + b) * 16u + s]);",
                words.sums
            );
        }
        body.push_str("}\n");
    }
    if format.mins {
        minima(body, format, tile, words);
        let _ = writeln!(body, "let mw = f16_value(half_at(at + {}u));", format.dmin);
    }
    let _ = writeln!(body, "let dw = {};", format.scale());
    for j in 0..tile {
        let _ = writeln!(
            body,
            "let dx{j} = bitcast<f32>(x[{} + a{j} * blocks + b]);
            acc{j} = fused(dw * dx{j}, f32(sum{j}), acc{j});",
            words.d
        );
        if format.mins {
            let _ = writeln!(body, "low{j} = fused(-(mw * dx{j}), f32(min{j}), low{j});");
        }
    }
}
