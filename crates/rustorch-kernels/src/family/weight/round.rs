//! Rounding activations to 8-bit blocks.

use super::format::Companion;
use crate::Hardware;
use crate::family::strided;
use crate::library;
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl};
use rustorch_core::DType;
use std::fmt::Write;

/// The kernel: a thread for each four values, the threads of a block together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Round {
    pub(super) companion: Companion,
    /// Dimensions of the rows.
    pub(super) rank: usize,
}

/// Blocks that a workgroup rounds.
pub(super) fn blocks_per_group(companion: Companion) -> usize {
    WORKGROUP as usize * 4 / companion.block()
}

impl Round {
    pub(in crate::family) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Round { companion, rank } = *self;
        let block = companion.block();
        let threads = block / 4;
        let mut module = Module::new();
        let x = module.elements("x", DType::F32, false, hardware);
        module.buffer("y", "array<u32>", true);
        let (blocks, row_blocks, from, step) = (module.word(), module.word(), module.word(), module.word());
        let (d, sums, s) = (module.word(), module.word(), module.word());
        let grid = strided::parameters(&mut module, rank, 1);
        module.add(&library::exact(hardware));
        module.add(&format!(
            "var<workgroup> largest: array<u32, {WORKGROUP}>;\nvar<workgroup> where_it_is: array<u32, {WORKGROUP}>;\n\
             var<workgroup> partial: array<i32, {WORKGROUP}>;\n\
             fn magnitude(v: f32) -> u32 {{ return bitcast<u32>(v) & 0x7fffffffu; }}\n\
             fn nearest(v: f32) -> u32 {{ return bitcast<u32>(v + 12582912.0) & 255u; }}\n\
             fn signed(level: u32) -> i32 {{ return bitcast<i32>(level << 24u) >> 24u; }}"
        ));
        let mut body = format!(
            "let t = local % {threads}u;
            let number = {LINEAR_GROUP} * {}u + local / {threads}u;
            // Threads without a block do another's work again, and write nothing: all must reach the barriers.
            let block = min(number, {blocks} - 1u);
            let row = block / {row_blocks};
            let part = block % {row_blocks};
            var at = {from};
            {}
            let first = part * {block}u + t * 4u;
            ",
            blocks_per_group(companion),
            grid.positions("row", &["at"]),
        );
        for i in 0..4 {
            let load = x.load(&format!("at + (first + {i}u) * {step}"));
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
        match companion {
            Companion::Q8K => {
                let peak_at = x.load(&format!("at + (part * {block}u + where_it_is[leader]) * {step}"));
                let _ = write!(
                    body,
                    "let extreme = {peak_at};
                    let zero = peak == 0.0;
                    let factor = select(divide(-127.0, extreme), 0.0, zero);
                    var scale = select(divide(1.0, factor), 0.0, zero);
                    scale = select(quiet, scale, finite);\n"
                );
            }
            Companion::Q8_0 | Companion::Q8_1 => body.push_str(
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
        if companion == Companion::Q8_1 {
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
