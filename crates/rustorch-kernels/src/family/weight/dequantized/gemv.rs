//! GEMV: few rows of activations; several threads per row of the weight, one chain each.

use super::{Params, SEGMENT};
use crate::family::weight::{OperandParams, decode, format};
use crate::library::strided;
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use crate::{Hardware, library};
use rustorch_core::{DType, OpKind, QuantType};
use std::fmt::Write;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gemv {
    pub(super) quant: QuantType,
    /// Rows of activations, rounded up to a power of two.
    pub(super) tile: usize,
    /// Threads of a row of the weight.
    pub(super) share: usize,
    /// Rank of the activation rows after merging.
    pub(super) rank: usize,
    /// Whether a bias is added.
    pub(super) bias: bool,
    /// If each row of activations selects a matrix (mul_mat_id): the dtype of the ids.
    pub(super) experts: Option<DType>,
    /// Whether the chunk holds only some of the matrices.
    pub(super) part: bool,
}

/// How many threads a row of the weight gets: no more than it has segments, not fewer than there are rows of activations,
/// whose sums they end; and the activations of all of them fit into the memory of a workgroup.
pub(super) fn share(tile: usize, segments: usize) -> usize {
    segments.next_power_of_two().min(32).min(WORKGROUP as usize / tile).max(tile)
}

impl Gemv {
    /// Rows of the weight that a workgroup has.
    pub(super) fn rows_of_group(&self) -> usize {
        WORKGROUP as usize / self.share
    }

    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Gemv { quant, tile, share, rank, bias, experts, part } = *self;
        let format =
            format::format(DType::Quant(quant)).expect("launches are planned for types that have a format");
        let mut module = Module::new();
        module.buffer("w", "array<u32>", false);
        module.buffer("x", "array<f32>", false);
        module.buffer("y", "array<f32>", true);
        if bias {
            module.buffer("bias", "array<f32>", false);
        }
        let ids = experts.map(|dtype| {
            let ids = module.elements("ids", dtype, false, hardware);
            module.asserts();
            ids
        });
        let Params { n, rows, len: segments, x_start, x_stride, operands, grid } =
            module.parameters::<Params>((part.then_some(()), rank));
        let OperandParams { weight, row_bytes, y_start, extra, pitch: y_pitch, here } = operands;
        module.add(&library::exact(hardware));
        module.add(library::BYTES);
        module.add(format.text);
        module.add(&decode::text(format));
        // One word more for each segment keeps threads off each other's banks.
        let (pitch, values) = (SEGMENT + 1, share * SEGMENT);
        let strip = share * pitch;
        module.add(&format!(
            "var<workgroup> strip: array<f32, {}>;\nvar<workgroup> parts: array<f32, {}>;",
            tile * strip,
            tile * WORKGROUP as usize
        ));
        let own = self.rows_of_group();
        let mut body = format!(
            "let across = ({n} + {own}u - 1u) / {own}u;
            let group_number = {LINEAR_GROUP};
            let tile = group_number / across;
            let lane = local % {share}u;
            let own = local / {share}u;
            let row = (group_number % across) * {own}u + own;
            // Threads beyond the last row repeat it, because all must reach the barriers; they write nothing.
            var base = {weight} + min(row, {n} - 1u) * {row_bytes};\n"
        );
        for j in 0..tile {
            let _ =
                writeln!(body, "let r{j} = min(tile * {tile}u + {j}u, {rows} - 1u);\nvar x{j} = {x_start};");
        }
        if let Some(ids) = &ids {
            let load = ids.load_index(
                "expert",
                &format!("{} + r0", extra[0]),
                &extra[2].to_string(),
                OpKind::MulMatId,
            );
            let at = grid.positions(&format!("(r0 / {})", extra[3]), &["x0"]);
            let of_another_part =
                here.as_ref().map_or_else(String::new, |here| strided::chosen("expert", here));
            let _ = writeln!(body, "{load}\n{of_another_part}\nbase += expert * {};\n{at}", extra[1]);
        } else {
            for j in 0..tile {
                body.push_str(&grid.positions(&format!("r{j}"), &[&format!("x{j}")]));
            }
        }
        let _ = writeln!(
            body,
            "var sum = 0.0;
            for (var first = 0u; first < {segments}; first += {share}u) {{
                for (var e = local; e < {values}u; e += {WORKGROUP}u) {{
                    let i = first * {SEGMENT}u + e;
                    let place = e / {SEGMENT}u * {pitch}u + e % {SEGMENT}u;
                    let inside = i < {segments} * {SEGMENT}u;"
        );
        for j in 0..tile {
            let _ = writeln!(
                body,
                "var v{j} = 0.0;\nif inside {{ v{j} = x[x{j} + i * {x_stride}]; }}\nstrip[{}u + place] = v{j};",
                j * strip
            );
        }
        let (blocks, bytes, halves) = (format.len() / SEGMENT, format.bytes(), SEGMENT / format.group);
        let _ = writeln!(
            body,
            "}}
            workgroupBarrier();
            let segment = min(first + lane, {segments} - 1u);
            let at = base + segment / {blocks}u * {bytes}u;
            let g = segment % {blocks}u;"
        );
        for j in 0..tile {
            let _ = writeln!(body, "var part{j} = 0.0;");
        }
        let quads = 8 / halves;
        let _ = writeln!(
            body,
            "for (var half = 0u; half < {halves}u; half++) {{
                let scale = weight_scale(at, g * {halves}u + half);
                for (var i = half * {quads}u; i < (half + 1u) * {quads}u; i++) {{
                    let q = weight_quad(scale, codes(at, g, i));
                    let place = lane * {pitch}u + 4u * i;"
        );
        for j in 0..tile {
            for (c, name) in ["x", "y", "z", "w"].into_iter().enumerate() {
                let _ =
                    writeln!(body, "part{j} = fused(strip[place + {}u], q.{name}, part{j});", j * strip + c);
            }
        }
        body.push_str("} }\n");
        for j in 0..tile {
            let _ = writeln!(body, "parts[{}u + local] = part{j};", j * WORKGROUP as usize);
        }
        let plus = if bias { format!(" + bias[{} + row * {}]", extra[0], extra[1]) } else { String::new() };
        let _ = write!(
            body,
            "workgroupBarrier();
                if lane < {tile}u {{
                    let count = min({share}u, {segments} - first);
                    let begin = lane * {WORKGROUP}u + own * {share}u;
                    for (var t = 0u; t < count; t++) {{ sum += parts[begin + t]; }}
                }}
            }}
            let r = tile * {tile}u + lane;
            if lane < {tile}u && r < {rows} && row < {n} {{
                y[{y_start} + r * {y_pitch} + row] = sum{plus};
            }}\n"
        );
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
