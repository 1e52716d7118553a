//! Tiles of quantized operands in workgroup memory: of each row of the weight and of the activations that a workgroup multiplies, some
//! groups of 32 values along k.
//!
//! Codes of the weight are unpacked once for all rows of activations. Both sides have `f32` scales there, into which the integer
//! scales of a group are multiplied.

use super::format::{Format, Kind};
use super::matmul::MatMulParams;
use crate::plan::parameters::Names;
use std::fmt::Write;

/// Words of codes of 32 values.
pub(super) const WORDS: usize = 8;

/// The shape of a workgroup's tiles along k.
#[derive(Clone, Copy, Debug)]
pub(super) struct KTile {
    /// Rows of activations.
    pub(super) rows: usize,
    /// Rows of the weight, columns of the result.
    pub(super) columns: usize,
    /// Groups of 32 values of a row.
    pub(super) groups: usize,
    /// Words from one row's codes to the next one's, by which threads are kept off each other's banks.
    pub(super) pitch: usize,
    /// Threads.
    pub(super) workgroup: usize,
}

/// Scales of 32 codes of a weight.
pub(super) fn halves(format: &Format) -> usize {
    32 / format.group
}

/// Whether a type's products take sums of activations: for minima, or because its codes are not signed.
pub(super) fn takes_sums(format: &Format) -> bool {
    format.mins || format.group_offset.is_some()
}

impl KTile {
    /// The workgroup's arrays. `codes_w` and `codes_x` hold rows of codes; `scales_w` and, of types that take sums, `minima_w` and
    /// `sums_x` hold [`halves`] numbers for each group of a row, `scales_x` holds one.
    pub(super) fn declarations(&self, format: &Format) -> String {
        let KTile { rows, columns, groups, pitch, .. } = self;
        let halves = halves(format);
        let mut text = format!(
            "var<workgroup> codes_w: array<u32, {}>;
            var<workgroup> codes_x: array<u32, {}>;
            var<workgroup> scales_w: array<f32, {}>;
            var<workgroup> scales_x: array<f32, {}>;",
            columns * pitch,
            rows * pitch,
            columns * groups * halves,
            rows * groups,
        );
        if takes_sums(format) {
            // What a weight takes back times a sum of activations.
            let _ = write!(
                text,
                "\nvar<workgroup> minima_w: array<f32, {}>;\nvar<workgroup> sums_x: array<f32, {}>;",
                columns * groups * halves,
                rows * groups * halves
            );
        }
        text
    }

    /// A loop over so many elements, `e`, shared by the threads.
    fn each(&self, elements: usize, body: &str) -> String {
        let workgroup = self.workgroup;
        match elements.is_multiple_of(workgroup) {
            true => format!(
                "for (var i = 0u; i < {}u; i++) {{\nlet e = i * {workgroup}u + local;\n{body}}}\n",
                elements / workgroup
            ),
            false => {
                format!("for (var e = local; e < {elements}u; e += {workgroup}u) {{\n{body}}}\n")
            }
        }
    }

    /// Statements that load tile `k_tile` of both operands into workgroup memory: of the rows from `first_column` of the weight and
    /// from `first_row` of the activations on. Rows beyond the last repeat it; groups beyond the last of `groups_of_row` have a
    /// scale of zero.
    pub(super) fn load(&self, format: &Format, params: &MatMulParams<Names>) -> String {
        let KTile { rows: own_rows, columns, groups, pitch, .. } = *self;
        let MatMulParams { n, rows, row_blocks, d, sums, s, operands } = params;
        let (weight, row_bytes) = (&operands.weight, &operands.row_bytes);
        let (halves, of_block) = (halves(format), format.len() / 32);
        let integer = matches!(format.kind, Kind::Integer | Kind::Lanes);
        // Rows of superblocks are whole tiles.
        let padded = groups > 1 && !of_block.is_multiple_of(groups);
        let place = |group: String| {
            let number = format!("k_tile * {groups}u + {group}");
            let number = if padded { format!("min({number}, groups_of_row - 1u)") } else { number };
            format!("let number = {number};\nlet b = number / {of_block}u;\nlet g = number % {of_block}u;\n")
        };
        let row_of_weight = |own: &str| {
            format!(
                "let at = {weight} + min(first_column + {own}, {n} - 1u) * {row_bytes} + b * {}u;\n",
                format.bytes()
            )
        };
        let words = WORDS * groups;
        let word = format!(
            "let own = e / {words}u;\nlet word = e % {words}u;\n{}",
            place(format!("word / {WORDS}u"))
        );
        let codes_w = format!(
            "{word}{}codes_w[own * {pitch}u + word] = codes(at, g, word % {WORDS}u);\n",
            row_of_weight("own")
        );
        let codes_x = format!(
            "{word}let source = (min(first_row + own, {rows} - 1u) * {row_blocks} + b) * {}u + g * {WORDS}u + word % {WORDS}u;
            codes_x[own * {pitch}u + word] = x[source];\n",
            format.len() / 4
        );

        let numbers = groups * halves;
        let part = format!(
            "let own = e / {numbers}u;\nlet part = e % {halves}u;\n{}",
            place(format!("e % {numbers}u / {halves}u"))
        );
        let mut scales_w = format!("{part}{}", row_of_weight("own"));
        let scale = match padded {
            true => format!(
                "select(0.0, {}, k_tile * {groups}u + e % {numbers}u / {halves}u < groups_of_row)",
                format.scale()
            ),
            false => format.scale(),
        };
        let _ = writeln!(scales_w, "let dw = {scale};");
        let index = format!("{halves}u * g + part");
        scales_w += &match integer {
            true => format!("let scaled = dw * f32(scale(at, {index}));\nscales_w[e] = scaled;\n"),
            false => "scales_w[e] = dw;\n".to_owned(),
        };
        if format.mins {
            let minimum = format!("f16_value(half_at(at + {}u))", format.dmin);
            let minimum = match padded {
                true => format!(
                    "select(0.0, {minimum}, k_tile * {groups}u + e % {numbers}u / {halves}u < groups_of_row)"
                ),
                false => minimum,
            };
            let _ = writeln!(scales_w, "let mw = {minimum};");
            scales_w += &match integer {
                true => format!("minima_w[e] = -mw * f32(minimum(at, {index}));\n"),
                false => "minima_w[e] = mw;\n".to_owned(),
            };
        } else if let Some(offset) = format.group_offset {
            let _ = writeln!(scales_w, "minima_w[e] = scaled * {offset}.0;");
        }

        let mut scales_x = format!(
            "{part}let source = min(first_row + own, {rows} - 1u) * {row_blocks} + b;
            let dx = bitcast<f32>(x[{d} + source]);
            if part == 0u {{ scales_x[e / {halves}u] = dx; }}\n"
        );
        if takes_sums(format) {
            scales_x += &match (integer, halves) {
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
        [
            self.each(columns * words, &codes_w),
            self.each(own_rows * words, &codes_x),
            self.each(columns * numbers, &scales_w),
            self.each(own_rows * numbers, &scales_x),
        ]
        .concat()
    }
}
