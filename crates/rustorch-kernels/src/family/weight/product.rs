//! Rows of blocks times rounded rows of activations.

use super::format::{Format, Kind, format};
use crate::Hardware;
use crate::library;
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, QuantType};
use std::fmt::Write;

/// The kernel. Types with eight chains have a thread for each chain. Those with one have a thread for each row of the weight;
/// or, for a single row of activations and where subgroups add integers, eight, which share the levels of each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    pub(super) quant: QuantType,
    /// Rows of activations that a thread multiplies with its row of the weight.
    pub(super) tile: usize,
    /// Whether a vector is added.
    pub(super) bias: bool,
    /// If each row of activations chooses its matrix: the dtype of the choice.
    pub(super) experts: Option<DType>,
}

/// Whether a row of the weight has eight threads.
fn eight(format: &Format, tile: usize, hardware: &Hardware) -> bool {
    format.lanes() || tile == 1 && library::adds_eight(hardware)
}

/// Rows of the weight that a workgroup has.
pub(super) fn rows_per_group(format: &Format, tile: usize, hardware: &Hardware) -> usize {
    if eight(format, tile, hardware) { WORKGROUP as usize / 8 } else { WORKGROUP as usize }
}

impl Product {
    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Product { quant, tile, bias, experts } = *self;
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
            module.mistakes();
            ids
        });
        let (n, rows, row_blocks, from) = (module.word(), module.word(), module.word(), module.word());
        let (row_bytes, to) = (module.word(), module.word());
        let (d, sums, s) = (module.word(), module.word(), module.word());
        let extra = module.take(4);
        module.add(&library::exact(hardware));
        module.add(library::BYTES);
        module.add(format.text);

        let lanes = eight(format, tile, hardware);
        let adds = lanes && library::adds_eight(hardware);
        if adds {
            module.use_subgroups();
        }
        let row = match lanes {
            true => {
                if !adds {
                    module.add(&format!("var<workgroup> chains: array<f32, {WORKGROUP}>;"));
                }
                format!(
                    "let lane = local % 8u;\nlet row = rows_of_group * {}u + local / 8u;\n",
                    WORKGROUP / 8
                )
            }
            false => format!("let row = rows_of_group * {WORKGROUP}u + local;\n"),
        };
        let mut body = format!(
            "let parts = ({n} + {}u) / {}u;
            let group_number = {LINEAR_GROUP};
            let rows_of_group = group_number % parts;
            let tile = group_number / parts;
            {row}
            // Threads beyond the last row repeat it, because all must reach the barriers; they write nothing.
            var base = {from} + min(row, {n} - 1u) * {row_bytes};
            let blocks = {row_blocks};\n",
            rows_per_group(format, tile, hardware) - 1,
            rows_per_group(format, tile, hardware),
        );
        for j in 0..tile {
            let _ = writeln!(body, "let x{j} = min(tile * {tile}u + {j}u, {rows} - 1u);");
        }
        if let Some(ids) = &ids {
            let load = ids.load_index(
                "expert",
                &format!("{} + x0", extra[0]),
                &extra[2].to_string(),
                crate::Mistake::ExpertMatMul,
            );
            let _ = writeln!(body, "{load}\nbase += expert * {};\nlet a0 = x0 / {};", extra[1], extra[3]);
        } else {
            for j in 0..tile {
                let _ = writeln!(body, "let a{j} = x{j};");
            }
        }
        for j in 0..tile {
            let _ = writeln!(body, "var acc{j} = 0.0; var low{j} = 0.0;");
        }
        body.push_str("for (var b = 0u; b < blocks; b++) {\n");
        let _ = writeln!(body, "let at = base + b * {}u;", format.bytes());
        let words = Words { d: d.to_string(), sums: sums.to_string(), s: s.to_string() };
        match format.kind {
            Kind::Blocks if lanes => shared_block(&mut body, format, &words),
            Kind::Blocks => blocks(&mut body, format, tile, &words),
            Kind::LaneBlocks => lane_blocks(&mut body, format, tile, &words),
            Kind::Integer if lanes => shared_superblock(&mut body, format, &words),
            Kind::Integer => superblocks(&mut body, format, tile, &words),
            Kind::Lanes => lane_superblocks(&mut body, format, tile, &words),
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
                        let add = library::add_eight(&format!("acc{j}"));
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
        let writer = if lanes { "lane == 0u && row" } else { "row" };
        let _ = writeln!(body, "if {writer} < {n} {{");
        let plus = if bias { format!(" + bias[{} + row * {}]", extra[0], extra[1]) } else { String::new() };
        for j in 0..tile {
            let _ = writeln!(
                body,
                "if tile * {tile}u + {j}u < {rows} {{ y[{to} + x{j} * {n} + row] = result{j}{plus}; }}"
            );
        }
        body.push_str("}\n");
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

/// The words where parts of the activations begin.
struct Words {
    d: String,
    sums: String,
    s: String,
}

/// `acc += Σ q·x · (d·dx)`
fn blocks(body: &mut String, format: &Format, tile: usize, words: &Words) {
    let _ = writeln!(body, "let dw = f16_value(half_at(at + {}u));", format.d);
    for j in 0..tile {
        let _ = writeln!(body, "var sum{j} = 0;");
    }
    body.push_str("for (var i = 0u; i < 8u; i++) {\nlet q = levels(at, 0u, i);\n");
    for j in 0..tile {
        let _ = writeln!(body, "sum{j} += dot4I8Packed(q, x[(a{j} * blocks + b) * 8u + i]);");
    }
    body.push_str("}\n");
    for j in 0..tile {
        let _ = writeln!(
            body,
            "acc{j} = fused(f32(sum{j}), dw * bitcast<f32>(x[{} + a{j} * blocks + b]), acc{j});",
            words.d
        );
    }
}

/// As [`blocks`], by eight threads of which each has four levels; integers may be added in any order.
fn shared_block(body: &mut String, format: &Format, words: &Words) {
    let _ = writeln!(
        body,
        "var sum = dot4I8Packed(levels(at, 0u, lane), x[(a0 * blocks + b) * 8u + lane]);
        {}
        let dw = f16_value(half_at(at + {}u));
        acc0 = fused(f32(sum), dw * bitcast<f32>(x[{} + a0 * blocks + b]), acc0);",
        library::add_eight("sum"),
        format.d,
        words.d
    );
}

/// `acc[lane] += (d·dx)·Σ q·x`, `low += m·sx`
fn lane_blocks(body: &mut String, format: &Format, tile: usize, words: &Words) {
    let _ = writeln!(body, "let dw = f16_value(half_at(at + {}u));\nlet q = levels(at, 0u, lane);", format.d);
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

/// As [`superblocks`], by eight threads of which each has four levels of 32.
fn shared_superblock(body: &mut String, format: &Format, words: &Words) {
    let groups = 256 / format.group;
    let _ = writeln!(
        body,
        "var sum = 0;
        var least = 0;
        for (var g = 0u; g < 8u; g++) {{
            sum += scale(at, {}) * dot4I8Packed(levels(at, g, lane), x[(a0 * blocks + b) * 64u + g * 8u + lane]);
        }}
        for (var s = lane; s < {groups}u; s += 8u) {{ least += minimum(at, s) * {}; }}
        {}{}
        let dw = f16_value(half_at(at + {}u));
        let mw = f16_value(half_at(at + {}u));
        let dx = bitcast<f32>(x[{} + a0 * blocks + b]);
        acc0 = fused(f32(sum), dw * dx, acc0);
        low0 = fused(f32(least), mw * dx, low0);",
        own_group(format),
        activations(format, words, 0),
        library::add_eight("sum"),
        library::add_eight("least"),
        format.d,
        format.dmin,
        words.d
    );
}

/// The number of the scale of thread `lane`'s levels of group `g` of 32.
fn own_group(format: &Format) -> &'static str {
    if format.group == 16 { "2u * g + (lane >> 2u)" } else { "g" }
}

/// The sum of the activations of group `s`.
fn activations(format: &Format, words: &Words, j: usize) -> String {
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

/// `acc += Σ sc·Σ q·x · (d·dx)`, `low += Σ mn·Σ x · (dmin·dx)`
fn superblocks(body: &mut String, format: &Format, tile: usize, words: &Words) {
    for j in 0..tile {
        let _ = writeln!(body, "var sum{j} = 0;");
    }
    let half = 32 / format.group;
    let _ = writeln!(
        body,
        "for (var g = 0u; g < 8u; g++) {{ for (var part = 0u; part < {half}u; part++) {{
        let sc = scale(at, g * {half}u + part);
        for (var i = part * {words}u; i < (part + 1u) * {words}u; i++) {{ let q = levels(at, g, i);",
        words = 8 / half
    );
    for j in 0..tile {
        let _ = writeln!(body, "sum{j} += sc * dot4I8Packed(q, x[(a{j} * blocks + b) * 64u + g * 8u + i]);");
    }
    body.push_str("} } }\n");
    minima(body, format, tile, words);
    let _ = writeln!(
        body,
        "let dw = f16_value(half_at(at + {}u));\nlet mw = f16_value(half_at(at + {}u));",
        format.d, format.dmin
    );
    for j in 0..tile {
        let _ = writeln!(
            body,
            "let dx{j} = bitcast<f32>(x[{} + a{j} * blocks + b]);
            acc{j} = fused(f32(sum{j}), dw * dx{j}, acc{j});
            low{j} = fused(f32(min{j}), mw * dx{j}, low{j});",
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
        "for (var g = 0u; g < 8u; g++) {{\nlet sc = scale(at, {index});\nlet q = levels(at, g, lane);"
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
    let _ = writeln!(body, "let dw = f16_value(half_at(at + {}u));", format.d);
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
