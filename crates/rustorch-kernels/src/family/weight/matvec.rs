//! Few rows of quantized activations times a block-quantized weight: [`LANES`] threads for each row of the weight multiply blocks
//! side by side, then some of the workgroup add the products to chains, block by block.
//!
//! What limits it is how fast the weight is read: the threads of a row load its bytes into workgroup memory, neighbours
//! neighbouring words, and those of the next blocks are on their way while these are multiplied. Sums within a block are
//! integers, hence exact in any order; those of blocks are added in the CPU's order, so that results are the CPU's to the last bit.

use super::format::{Format, Kind, format};
use super::matmul::{MatMulParams, Words, activations, choose_expert, own_group};
use crate::Hardware;
use crate::library;
use crate::wgsl::{LINEAR_GROUP, Module, Wgsl};
use rustorch_core::{DType, QuantType};
use std::fmt::Write;

/// Threads that share a row of the weight.
const LANES: usize = 32;

/// Chains of the types that have several, and threads that share a block of 256 values.
const EIGHT: usize = 8;

/// The most rows of activations that a thread multiplies with what it has read of a weight: each chain of each has a thread.
pub(super) const TILE: usize = LANES / EIGHT;

/// Rows of the weight that a workgroup has: the chains of all of them are added by its first threads.
pub(super) const ROWS: usize = 4;

const WORKGROUP: usize = LANES * ROWS;

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

/// Words of workgroup memory for the bytes of a row's blocks, which need not begin with a word.
fn words_of_row(format: &Format) -> usize {
    (blocks_at_once(format) * format.bytes()).div_ceil(4) + 2
}

/// Whether a thread multiplies eight words of activations that follow one another, which it reads four at a time.
pub(super) fn reads_vectors(format: &Format) -> bool {
    matches!(format.kind, Kind::Blocks | Kind::Integer)
}

impl WeightMatVec {
    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let WeightMatVec { quant, tile, bias, experts, part } = *self;
        let format = format(DType::Quant(quant)).expect("launches are planned for types that have a format");
        let mut module = Module::new();
        module.buffer("weights", "array<u32>", false);
        module.buffer("x", "array<u32>", false);
        if reads_vectors(format) {
            module.buffer("x_vectors", "array<vec4<u32>>", false);
        }
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
        let at_once = blocks_at_once(format);
        let words_of_row = words_of_row(format);
        module.add(&library::exact(hardware));
        // What functions of the format read.
        module.add(&format!("var<workgroup> w: array<u32, {}>;", ROWS * words_of_row));
        module.add(library::BYTES);
        module.add(format.text);
        // Whether the threads of a block add their integers before these go to memory.
        let together =
            matches!(format.kind, Kind::Integer | Kind::Lanes) && library::adds_lanes(hardware, EIGHT);
        if together && (format.mins || format.kind == Kind::Integer) {
            module.use_subgroups();
        }
        let slots = match format.kind {
            Kind::Blocks => at_once,
            Kind::Integer if together => at_once,
            _ => at_once * EIGHT,
        };
        let sets = ROWS * tile;
        module.add(&format!(
            "var<workgroup> products: array<f32, {}>;\nvar<workgroup> scales: array<f32, {}>;",
            sets * slots,
            sets * at_once
        ));
        if format.mins {
            let minima = if format.kind == Kind::LaneBlocks || together { at_once } else { at_once * EIGHT };
            module.add(&format!(
                "var<workgroup> minima: array<f32, {}>;\nvar<workgroup> scales_of_minima: array<f32, {}>;",
                sets * minima,
                sets * at_once
            ));
        }
        if format.lanes() {
            module.add(&format!("var<workgroup> chains: array<f32, {WORKGROUP}>;"));
        }
        // Chains of a row of activations, and of all of them with a row of the weight.
        let each = if format.lanes() { EIGHT } else { 1 };
        let of_row = each * tile;
        let bytes = format.bytes();
        let mut body = format!(
            "let parts = ({n} + {ROWS}u - 1u) / {ROWS}u;
            let group_number = {LINEAR_GROUP};
            let tile = group_number / parts;
            let first_row = (group_number % parts) * {ROWS}u;
            let thread_of_row = local % {LANES}u;
            let own = local / {LANES}u;
            let lane = local % {EIGHT}u;
            // Threads beyond the last row repeat it, because all must reach the barriers; they write nothing.
            var base = {} + min(first_row + own, {n} - 1u) * {};
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
        let _ = writeln!(
            body,
            "let chain = local % {of_row}u / {each}u;
            let own_set = local / {of_row}u * {tile}u + chain;
            let has_chain = local < {}u;
            let last_word = (base + blocks * {bytes}u - 1u) >> 2u;
            var acc = 0.0; var low = 0.0;",
            ROWS * of_row
        );
        let loads = words_of_row.div_ceil(LANES);
        for i in 0..loads {
            let _ = writeln!(
                body,
                "var next{i} = weights[min((base >> 2u) + thread_of_row + {}u, last_word)];",
                i * LANES
            );
        }
        let _ = writeln!(
            body,
            "for (var start = 0u; start < blocks; start += {at_once}u) {{
            let place = base + start * {bytes}u;
            let bytes_of_row = own * {}u + (place & 3u);
            let following = (place + {}u) >> 2u;",
            4 * words_of_row,
            at_once * bytes
        );
        for i in 0..loads {
            let store = format!("w[own * {words_of_row}u + thread_of_row + {}u] = next{i};", i * LANES);
            let _ = match (i + 1) * LANES <= words_of_row {
                true => writeln!(body, "{store}"),
                false => {
                    writeln!(body, "if thread_of_row + {}u < {words_of_row}u {{ {store} }}", i * LANES)
                }
            };
        }
        body.push_str("workgroupBarrier();\n");
        for i in 0..loads {
            let _ = writeln!(
                body,
                "next{i} = weights[min(following + thread_of_row + {}u, last_word)];",
                i * LANES
            );
        }
        let words = Words { d: d.to_string(), sums: sums.to_string(), s: s.to_string() };
        body.push_str(&multiply(format, tile, &words, together));
        let _ = writeln!(
            body,
            "workgroupBarrier();
            if has_chain {{
                let count = min({at_once}u, blocks - start);
                for (var t = 0u; t < count; t++) {{
                    let scale = scales[own_set * {at_once}u + t];"
        );
        body.push_str(&add(format, together));
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
            let row = first_row + local / {of_row}u;
            if {writer}has_chain && r < {rows} && row < {n} {{
                y[{} + r * {} + row] = {result}{plus};
            }}",
            operands.y_start, operands.pitch
        );
        module.finish([WORKGROUP as u32, 1, 1], &body)
    }
}

/// Statements that store the products of a thread's part of its blocks in workgroup memory, and the scales of the blocks.
fn multiply(format: &Format, tile: usize, words: &Words, together: bool) -> String {
    let (at_once, bytes) = (blocks_at_once(format), format.bytes());
    let Words { d, sums, s } = words;
    let mut text = String::new();
    let block = |of_thread: &str| {
        format!(
            "let t = {of_thread};
            // Those beyond the last are not added.
            let b = min(start + t, blocks - 1u);
            let at = bytes_of_row + (b - start) * {bytes}u;
            let dw = {};\n",
            format.scale()
        )
    };
    let set = |j: usize| format!("(own * {tile}u + {j}u)");
    let of_block = |j: usize| format!("{} * {at_once}u + t", set(j));
    let of_lane = |j: usize| format!("{} * {}u + t * {EIGHT}u + lane", set(j), at_once * EIGHT);
    match format.kind {
        Kind::Blocks => {
            text += &block("thread_of_row");
            text += &vectors(tile, "(a{j} * blocks + b) * 2u", "", "codes(at, 0u, {i})");
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
                    of_lane(j),
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
                for j in 0..tile {
                    let _ = writeln!(text, "var sum{j} = 0;");
                }
                let _ = writeln!(
                    text,
                    "for (var g = 0u; g < 8u; g++) {{\nlet sc = scale(at, {});\nlet q = codes(at, g, lane);",
                    own_group(format)
                );
                for j in 0..tile {
                    let _ = writeln!(
                        text,
                        "sum{j} += sc * dot4I8Packed(q, x[(a{j} * blocks + b) * 64u + g * 8u + lane]);"
                    );
                }
                text.push_str("}\n");
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
                for part in 0..halves {
                    let _ = writeln!(text, "let sc{part} = scale(at, lane * {halves}u + {part}u);");
                }
                let scale = if halves == 1 { "sc0 * " } else { "sc{h} * " };
                text +=
                    &vectors(tile, "(a{j} * blocks + b) * 16u + lane * 2u", scale, "codes(at, lane, {i})");
            }
            for j in 0..tile {
                let _ = writeln!(text, "let dx{j} = bitcast<f32>(x[{d} + a{j} * blocks + b]);");
                match (format.lanes(), together) {
                    (true, _) => {
                        let _ = writeln!(text, "products[{}] = f32(sum{j});", of_lane(j));
                    }
                    (false, true) => {
                        text += &library::add_lanes(&format!("sum{j}"), EIGHT);
                        let _ =
                            writeln!(text, "if lane == 0u {{ products[{}] = f32(sum{j}); }}", of_block(j));
                    }
                    (false, false) => {
                        let _ = writeln!(text, "products[{}] = bitcast<f32>(sum{j});", of_lane(j));
                    }
                }
                let _ = writeln!(text, "if lane == 0u {{ scales[{}] = dw * dx{j}; }}", of_block(j));
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
                    match together {
                        true => {
                            text += &library::add_lanes(&format!("min{j}"), EIGHT);
                            let _ =
                                writeln!(text, "if lane == 0u {{ minima[{}] = f32(min{j}); }}", of_block(j));
                        }
                        false => {
                            let _ = writeln!(text, "minima[{}] = bitcast<f32>(min{j});", of_lane(j));
                        }
                    }
                    let sign = if format.lanes() { "-" } else { "" };
                    let _ = writeln!(
                        text,
                        "if lane == 0u {{ scales_of_minima[{}] = {sign}(mw * dx{j}); }}",
                        of_block(j)
                    );
                }
            }
        }
    }
    text
}

/// Statements that sum, as `sum{j}`, the products of eight words of codes and of every row of activations, which begin with a
/// vector. Of `code` `{i}` is the number of the word, of `scale` `{h}` the half that it is in.
fn vectors(tile: usize, place: &str, scale: &str, code: &str) -> String {
    let mut text = String::new();
    for j in 0..tile {
        let place = place.replace("{j}", &j.to_string());
        let _ = writeln!(
            text,
            "var sum{j} = 0;\nlet first{j} = x_vectors[{place}];\nlet second{j} = x_vectors[{place} + 1u];"
        );
    }
    for i in 0..EIGHT {
        let _ = writeln!(text, "let q{i} = {};", code.replace("{i}", &format!("{i}u")));
        let (vector, part) = (["first", "second"][i / 4], ["x", "y", "z", "w"][i % 4]);
        let scale = scale.replace("{h}", &(i / 4).to_string());
        for j in 0..tile {
            let _ = writeln!(text, "sum{j} += {scale}dot4I8Packed(q{i}, {vector}{j}.{part});");
        }
    }
    text
}

/// Statements that add block `t` of set `own_set` to a thread's chains.
fn add(format: &Format, together: bool) -> String {
    let at_once = blocks_at_once(format);
    let of_block = |array: &str| format!("{array}[own_set * {at_once}u + t]");
    let of_lane =
        |array: &str, lane: &str| format!("{array}[own_set * {}u + t * {EIGHT}u + {lane}]", at_once * EIGHT);
    // The sum of the integers of the threads of a block.
    let whole = |array: &str| match together {
        true => of_block(array),
        false => {
            let parts: Vec<String> =
                (0..EIGHT).map(|l| format!("bitcast<i32>({})", of_lane(array, &format!("{l}u")))).collect();
            format!("f32({})", parts.join(" + "))
        }
    };
    let product = match format.kind {
        Kind::Blocks => of_block("products"),
        Kind::LaneBlocks | Kind::Lanes => of_lane("products", "lane"),
        Kind::Integer => whole("products"),
    };
    let mut text = match format.kind {
        Kind::LaneBlocks | Kind::Lanes => format!("acc = fused(scale, {product}, acc);\n"),
        Kind::Blocks | Kind::Integer => format!("acc = fused({product}, scale, acc);\n"),
    };
    if format.mins {
        let scale = of_block("scales_of_minima");
        text += &match format.kind {
            Kind::LaneBlocks => format!("low = fused({scale}, {}, low);\n", of_block("minima")),
            Kind::Lanes => format!("low = fused({scale}, {}, low);\n", whole("minima")),
            Kind::Blocks | Kind::Integer => format!("low = fused({}, {scale}, low);\n", whole("minima")),
        };
    }
    text
}
