//! Quantization of activations to 8-bit blocks (ggml's `vec_dot_type`).

use super::format::ActivationQuant;
use crate::Hardware;
use crate::library;
use crate::library::strided::Grid;
use crate::plan::parameters::parameters;
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::DType;
use std::fmt::Write;

/// The kernel: a thread for each four values, the threads of a block together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantizeActivations {
    pub(super) activations: ActivationQuant,
    /// Rank of the rows after merging.
    pub(super) rank: usize,
}

parameters! {
    /// Kernel parameters.
    pub(super) struct QuantizeParams(rank: usize) {
        blocks: usize,
        row_blocks: usize,
        x_start: u32,
        x_stride: usize,
        d: usize,
        sums: usize,
        s: usize,
        grid: Grid = (rank, 1),
    }
}

/// Blocks that a workgroup rounds.
pub(super) fn blocks_per_group(activations: ActivationQuant) -> usize {
    WORKGROUP as usize * 4 / activations.block()
}

impl QuantizeActivations {
    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let QuantizeActivations { activations, rank } = *self;
        let block = activations.block();
        let threads = block / 4;
        let mut module = Module::new();
        let x = module.elements("x", DType::F32, false, hardware);
        module.buffer("y", "array<u32>", true);
        let QuantizeParams { blocks, row_blocks, x_start, x_stride, d, sums, s, grid } =
            module.parameters::<QuantizeParams>(rank);
        module.add(&library::exact(hardware));
        module.add(&format!(
            "var<workgroup> largest: array<u32, {WORKGROUP}>;\nvar<workgroup> where_it_is: array<u32, {WORKGROUP}>;\n\
             var<workgroup> partial: array<i32, {WORKGROUP}>;\n\
             fn magnitude(v: f32) -> u32 {{ return bitcast<u32>(v) & 0x7fffffffu; }}\n\
             fn nearest(v: f32) -> u32 {{ return bitcast<u32>(v + 12582912.0) & 255u; }}\n\
             fn signed(code: u32) -> i32 {{ return bitcast<i32>(code << 24u) >> 24u; }}"
        ));
        let mut body = format!(
            "let t = local % {threads}u;
            let number = {LINEAR_GROUP} * {}u + local / {threads}u;
            // Threads without a block do another's work again, and write nothing: all must reach the barriers.
            let block = min(number, {blocks} - 1u);
            let row = block / {row_blocks};
            let part = block % {row_blocks};
            var at = {x_start};
            {}
            let first = part * {block}u + t * 4u;
            ",
            blocks_per_group(activations),
            grid.positions("row", &["at"]),
        );
        for i in 0..4 {
            let load = x.load(&format!("at + (first + {i}u) * {x_stride}"));
            let _ = writeln!(body, "let v{i} = {load};");
        }
        // The first of the largest magnitude: the greater magnitude, and of equal ones the lower index.
        body.push_str(
            "var most = magnitude(v0); var index = 0u;
            if magnitude(v1) > most { most = magnitude(v1); index = 1u; }
            if magnitude(v2) > most { most = magnitude(v2); index = 2u; }
            if magnitude(v3) > most { most = magnitude(v3); index = 3u; }
            largest[local] = most; where_it_is[local] = t * 4u + index;
            workgroupBarrier();\n",
        );
        let _ = write!(
            body,
            "for (var half = {}u; half > 0u; half = half >> 1u) {{
                if t < half {{
                    let other = local + half;
                    if largest[other] > largest[local]
                        || (largest[other] == largest[local] && where_it_is[other] < where_it_is[local]) {{
                        largest[local] = largest[other]; where_it_is[local] = where_it_is[other];
                    }}
                }}
                workgroupBarrier();
            }}
            let leader = local - t;
            let peak = bitcast<f32>(largest[leader]);
            let finite = largest[leader] < 0x7f800000u;
            // A variable, because constants must not be NaN.
            var nan = 0x7fc00000u;
            let quiet = bitcast<f32>(nan);\n",
            threads / 2
        );
        match activations {
            ActivationQuant::Q8K => {
                let peak_at = x.load(&format!("at + (part * {block}u + where_it_is[leader]) * {x_stride}"));
                let _ = write!(
                    body,
                    "let extreme = {peak_at};
                    let zero = peak == 0.0;
                    let factor = select(divide(-127.0, extreme), 0.0, zero);
                    var scale = select(divide(1.0, factor), 0.0, zero);
                    scale = select(quiet, scale, finite);\n"
                );
            }
            ActivationQuant::Q8_0 | ActivationQuant::Q8_1 => body.push_str(
                "let zero = peak == 0.0 || !finite;
                let factor = select(divide(127.0, peak), 0.0, zero);
                let raw = divide(peak, 127.0);
                var scale = f16_value(f16_bits(raw));
                scale = select(quiet, scale, finite);\n",
            ),
        }
        let _ = write!(
            body,
            "var q = vec4<u32>(nearest(v0 * factor), nearest(v1 * factor), nearest(v2 * factor), nearest(v3 * factor));
            if zero {{ q = vec4<u32>(); }}
            let four = signed(q.x) + signed(q.y) + signed(q.z) + signed(q.w);
            partial[local] = four;
            workgroupBarrier();
            let mine = number < {blocks};
            if mine {{
                y[(block * {block}u + t * 4u) / 4u] = q.x | (q.y << 8u) | (q.z << 16u) | (q.w << 24u);
            }}
            if mine && t % 4u == 0u {{
                let sum = partial[local] + partial[local + 1u] + partial[local + 2u] + partial[local + 3u];
                y[{sums} + (block * {block}u + t * 4u) / 16u] = bitcast<u32>(sum);
            }}
            if mine && t == 0u {{
                y[{d} + block] = bitcast<u32>(scale);
            }}\n"
        );
        if activations == ActivationQuant::Q8_1 {
            let _ = write!(
                body,
                "if mine && t == 0u {{
                    var total = 0;
                    for (var i = 0u; i < {threads}u; i++) {{ total += partial[local + i]; }}
                    let s = select(quiet, f16_value(f16_bits(raw * f32(total))), finite);
                    y[{s} + block] = bitcast<u32>(s);
                }}\n"
            );
        }
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
