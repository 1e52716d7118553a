//! Few rows of quantized activations times a block-quantized weight: [`LANES`] threads for each row of the weight multiply blocks
//! side by side, then some of them add the products to chains, block by block.
//!
//! What limits it is how fast the weight is read: neighbouring threads read neighbouring bytes, and no thread waits for a sum
//! before it reads on. Sums within a block are integers, hence exact in any order; those of blocks are added in the CPU's order,
//! so that results are the CPU's to the last bit.

use super::format::{Format, Kind, format};
use super::matmul::{MatMulParams, Words, activations, choose_expert, own_group};
use crate::Hardware;
use crate::library;
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::{DType, QuantType};
use std::fmt::Write;

/// Threads that share a row of the weight.
const LANES: usize = 32;

/// Chains of the types that have several, and threads that share a block of 256 values.
const EIGHT: usize = 8;

/// The most rows of activations that a thread multiplies with what it has read of a weight: each chain of each has a thread.
pub(super) const TILE: usize = LANES / EIGHT;

/// Rows of the weight that a workgroup has.
pub(super) const ROWS: usize = WORKGROUP as usize / LANES;

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

/// Blocks that the threads of a row multiply before they are added.
fn blocks_at_once(format: &Format) -> usize {
    match format.kind {
        Kind::Blocks => LANES,
        // As many as there are threads for, several times.
        Kind::LaneBlocks => ROUNDS * LANES / EIGHT,
        Kind::Integer | Kind::Lanes => LANES / EIGHT,
    }
}

/// Blocks of 32 values in eight chains that a thread multiplies one after another.
const ROUNDS: usize = 4;

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
        module.add(&library::exact(hardware));
        module.add(library::BYTES);
        module.add(format.text);
        let at_once = blocks_at_once(format);
        // Products of a thread and a row, of two turns, so that one is added while the next is multiplied.
        let slots = at_once * if format.kind == Kind::Blocks { 1 } else { EIGHT };
        let store = 2 * ROWS * tile;
        module.add(&format!(
            "var<workgroup> products: array<f32, {}>;\nvar<workgroup> scales: array<f32, {}>;",
            store * slots,
            store * at_once
        ));
        if format.mins {
            let minima = if format.kind == Kind::LaneBlocks { at_once } else { slots };
            module.add(&format!(
                "var<workgroup> minima: array<f32, {}>;\nvar<workgroup> scales_of_minima: array<f32, {}>;",
                store * minima,
                store * at_once
            ));
        }
        if format.lanes() {
            module.add(&format!("var<workgroup> chains: array<f32, {WORKGROUP}>;"));
        }
        let mut body = format!(
            "let parts = ({n} + {ROWS}u - 1u) / {ROWS}u;
            let group_number = {LINEAR_GROUP};
            let tile = group_number / parts;
            let thread_of_row = local % {LANES}u;
            let own = local / {LANES}u;
            let lane = local % {EIGHT}u;
            let row = (group_number % parts) * {ROWS}u + own;
            // Threads beyond the last row repeat it, because all must reach the barriers; they write nothing.
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
            let of_choice = experts.map_or_else(String::new, |_| format!(" / {}", operands.extra[3]));
            let _ = writeln!(body, "let a{j} = x{j}{of_choice};");
        }
        // Of which row of activations a thread has a chain.
        let chain =
            if format.lanes() { format!("thread_of_row / {EIGHT}u") } else { "thread_of_row".to_owned() };
        let _ = writeln!(
            body,
            "let chain = {chain};
            var acc = 0.0; var low = 0.0;
            for (var start = 0u; start < blocks; start += {at_once}u) {{
            let turn = ((start / {at_once}u) & 1u) * {ROWS}u + own;"
        );
        let words = Words { d: d.to_string(), sums: sums.to_string(), s: s.to_string() };
        body.push_str(&multiply(format, tile, &words));
        let _ = writeln!(
            body,
            "workgroupBarrier();
            if chain < {tile}u {{
                let own_set = turn * {tile}u + chain;
                let count = min({at_once}u, blocks - start);
                for (var t = 0u; t < count; t++) {{
                    let scale = scales[own_set * {at_once}u + t];"
        );
        body.push_str(&add(format, slots, at_once));
        body.push_str("} }\n}\n");
        if format.lanes() {
            // Those four apart, then those two apart, then the last two.
            body.push_str(&library::add_lanes_in_memory("acc", "chains", EIGHT));
        }
        let result = match format.kind {
            Kind::Integer if format.mins => "acc - low",
            _ if format.mins => "acc + low",
            _ => "acc",
        };
        let writer = if format.lanes() { "lane == 0u && " } else { "" };
        let extra = &operands.extra;
        let plus = if bias { format!(" + bias[{} + row * {}]", extra[0], extra[1]) } else { String::new() };
        let _ = writeln!(
            body,
            "let r = tile * {tile}u + chain;
            if {writer}chain < {tile}u && r < {rows} && row < {n} {{
                y[{} + r * {} + row] = {result}{plus};
            }}",
            operands.y_start, operands.pitch
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}

/// Statements that bring the products of a thread's part of its blocks to workgroup memory, and the scales of the blocks.
fn multiply(format: &Format, tile: usize, words: &Words) -> String {
    let (at_once, bytes) = (blocks_at_once(format), format.bytes());
    let Words { d, sums, s } = words;
    let mut text = String::new();
    let block = |of_thread: &str| {
        format!(
            "let t = {of_thread};
            // Those beyond the last are not added.
            let b = min(start + t, blocks - 1u);
            let at = base + b * {bytes}u;
            let dw = {};\n",
            format.scale()
        )
    };
    let place = |j: usize, slots: usize, slot: &str| format!("(turn * {tile}u + {j}u) * {slots}u + {slot}");
    let of_block = |j: usize| place(j, at_once, "t");
    match format.kind {
        Kind::Blocks => {
            text += &block("thread_of_row");
            text += &sums_of(tile, "i", "let q = codes(at, 0u, i);", |j| {
                format!("sum{j} += dot4I8Packed(q, x[(a{j} * blocks + b) * 8u + i]);")
            });
            for j in 0..tile {
                let _ = writeln!(
                    text,
                    "products[{}] = f32(sum{j});
                    scales[{}] = dw * bitcast<f32>(x[{d} + a{j} * blocks + b]);",
                    of_block(j),
                    of_block(j)
                );
            }
        }
        Kind::LaneBlocks => {
            let _ = writeln!(text, "for (var round = 0u; round < {ROUNDS}u; round++) {{");
            text += &block(&format!("round * {}u + thread_of_row / {EIGHT}u", LANES / EIGHT));
            text.push_str("let q = codes(at, 0u, lane);\n");
            for j in 0..tile {
                let _ = writeln!(
                    text,
                    "products[{}] = f32(dot4I8Packed(q, x[(a{j} * blocks + b) * 8u + lane]));
                    if lane == 0u {{ scales[{}] = dw * bitcast<f32>(x[{d} + a{j} * blocks + b]); }}",
                    place(j, at_once * EIGHT, "t * 8u + lane"),
                    of_block(j)
                );
                if format.mins {
                    let _ = writeln!(
                        text,
                        "if lane == 0u {{
                            scales_of_minima[{}] = f16_value(half_at(at + {}u));
                            minima[{}] = bitcast<f32>(x[{s} + a{j} * blocks + b]);
                        }}",
                        of_block(j),
                        format.dmin,
                        of_block(j)
                    );
                }
            }
            text.push_str("}\n");
        }
        Kind::Integer | Kind::Lanes => {
            text += &block(&format!("thread_of_row / {EIGHT}u"));
            let halves = 32 / format.group;
            if format.lanes() {
                let scale =
                    format!("let sc = scale(at, {});\nlet q = codes(at, g, lane);", own_group(format));
                text += &sums_of(tile, "g", &scale, |j| {
                    format!("sum{j} += sc * dot4I8Packed(q, x[(a{j} * blocks + b) * 64u + g * 8u + lane]);")
                });
                if let Some(offset) = format.group_offset {
                    text.push_str(
                        "for (var i = 2u * lane; i < 2u * lane + 2u; i++) {\nlet sc = scale(at, i);\n",
                    );
                    for j in 0..tile {
                        let _ = writeln!(
                            text,
                            "sum{j} += {offset} * sc * bitcast<i32>(x[{sums} + (a{j} * blocks + b) * 16u + i]);"
                        );
                    }
                    text.push_str("}\n");
                }
            } else {
                let quads = EIGHT / halves;
                let scale = format!(
                    "let sc = scale(at, lane * {halves}u + i / {quads}u);\nlet q = codes(at, lane, i);"
                );
                text += &sums_of(tile, "i", &scale, |j| {
                    format!("sum{j} += sc * dot4I8Packed(q, x[(a{j} * blocks + b) * 64u + lane * 8u + i]);")
                });
            }
            for j in 0..tile {
                let _ = writeln!(
                    text,
                    "let dx{j} = bitcast<f32>(x[{d} + a{j} * blocks + b]);
                    products[{}] = {};
                    if lane == 0u {{ scales[{}] = dw * dx{j}; }}",
                    place(j, at_once * EIGHT, "t * 8u + lane"),
                    if format.lanes() { format!("f32(sum{j})") } else { format!("bitcast<f32>(sum{j})") },
                    of_block(j)
                );
            }
            if format.mins {
                let _ = writeln!(text, "let mw = f16_value(half_at(at + {}u));", format.dmin);
                for j in 0..tile {
                    let _ = writeln!(text, "var min{j} = 0;");
                }
                let _ = writeln!(
                    text,
                    "for (var s = lane * {halves}u; s < (lane + 1u) * {halves}u; s++) {{\nlet m = minimum(at, s);"
                );
                for j in 0..tile {
                    let _ = writeln!(text, "min{j} += m * {};", activations(format, words, j));
                }
                text.push_str("}\n");
                for j in 0..tile {
                    let sign = if format.lanes() { "-" } else { "" };
                    let _ = writeln!(
                        text,
                        "minima[{}] = bitcast<f32>(min{j});
                        if lane == 0u {{ scales_of_minima[{}] = {sign}(mw * dx{j}); }}",
                        place(j, at_once * EIGHT, "t * 8u + lane"),
                        of_block(j)
                    );
                }
            }
        }
    }
    text
}

/// A loop of a variable over eight that adds to `sum{j}` of every row of activations.
fn sums_of(tile: usize, variable: &str, read: &str, step: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for j in 0..tile {
        let _ = writeln!(text, "var sum{j} = 0;");
    }
    let _ = writeln!(text, "for (var {variable} = 0u; {variable} < 8u; {variable}++) {{\n{read}");
    for j in 0..tile {
        let _ = writeln!(text, "{}", step(j));
    }
    text.push_str("}\n");
    text
}

/// Statements that add block `t` of set `set` to a thread's chains.
fn add(format: &Format, slots: usize, at_once: usize) -> String {
    // The sum of the integers of the threads of a block.
    let whole = |array: &str| {
        let parts: Vec<String> = (0..EIGHT)
            .map(|l| format!("bitcast<i32>({array}[own_set * {slots}u + t * {EIGHT}u + {l}u])"))
            .collect();
        format!("f32({})", parts.join(" + "))
    };
    let product = match format.kind {
        Kind::Blocks => format!("products[own_set * {slots}u + t]"),
        Kind::LaneBlocks | Kind::Lanes => format!("products[own_set * {slots}u + t * {EIGHT}u + lane]"),
        Kind::Integer => whole("products"),
    };
    let mut text = match format.kind {
        Kind::LaneBlocks | Kind::Lanes => format!("acc = fused(scale, {product}, acc);\n"),
        Kind::Blocks | Kind::Integer => format!("acc = fused({product}, scale, acc);\n"),
    };
    if format.mins {
        let scale = format!("scales_of_minima[own_set * {at_once}u + t]");
        text += &match format.kind {
            Kind::LaneBlocks => format!("low = fused({scale}, minima[own_set * {at_once}u + t], low);\n"),
            Kind::Lanes => format!("low = fused({scale}, {}, low);\n", whole("minima")),
            Kind::Blocks | Kind::Integer => format!("low = fused({}, {scale}, low);\n", whole("minima")),
        };
    }
    text
}
