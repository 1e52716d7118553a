//! Dequantization in WGSL: bit for bit `rustorch-quant`'s, because every multiplication but the last is exact.

use super::format::Format;

/// Functions of a block at byte `at`, over those of the format: `weight_scale(at, s)` of group `s` of
/// [`Format::group`] values, a factor and what is taken off; `weight_quad(scale, codes)`, four values of such a group.
pub(super) fn text(format: &Format) -> String {
    let factor = format.scale();
    let low = format!("f16_value(half_at(at + {}u))", format.dmin);
    let scale = match (format.len(), format.mins) {
        (32, false) => format!("{factor}, 0.0"),
        (32, true) => format!("{factor}, -{low}"),
        (_, false) => format!("{factor} * f32(scale(at, s)), 0.0"),
        (_, true) => format!("{factor} * f32(scale(at, s)), {low} * f32(minimum(at, s))"),
    };
    let offset = format.group_offset.unwrap_or(0);
    let value = |i: usize| {
        let code = format!("f32(extractBits(q, {}u, 8u) + {offset})", 8 * i);
        let rest = if format.mins { " - scale.y" } else { "" };
        format!("scale.x * {code}{rest}")
    };
    format!(
        "fn weight_scale(at: u32, s: u32) -> vec2<f32> {{ return vec2<f32>({scale}); }}
fn weight_quad(scale: vec2<f32>, codes: u32) -> vec4<f32> {{
    let q = bitcast<i32>(codes);
    return vec4<f32>({}, {}, {}, {});
}}
",
        value(0),
        value(1),
        value(2),
        value(3)
    )
}

/// The number of the group that quad `i` of the `g`-th 32 values belongs to, an expression.
pub(super) fn group(format: &Format, g: &str, i: &str) -> String {
    match format.group {
        16 => format!("2u * ({g}) + (({i}) >> 2u)"),
        _ => g.to_owned(),
    }
}
