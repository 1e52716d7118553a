//! Which elements of the input make an output of interpolation, and with which weights: as the processor finds them.

use rustorch_core::{Interpolate, InterpolateMode};

/// From a coordinate of the result to one of the input, as the processor computes it.
pub(crate) fn scale(op: &Interpolate, factor: Option<f64>, len: usize, outputs: usize) -> f32 {
    match factor {
        _ if op.align_corners && outputs > 1 => (len - 1) as f32 / (outputs - 1) as f32,
        _ if op.align_corners => 0.0,
        Some(factor) => (1.0 / factor) as f32,
        None => len as f32 / outputs as f32,
    }
}

/// The input that is the first tap of an output, unless it lies outside, and how many there are: as kernels find them, but
/// for what a device rounds differently.
pub(crate) fn first(op: &Interpolate, scale: f32, inputs: usize, output: usize) -> (i64, usize) {
    let o = output as f32;
    let centre = scale.mul_add(o + 0.5, -0.5);
    let at = match op.mode {
        InterpolateMode::Nearest => scale * o,
        InterpolateMode::NearestExact => centre.max(0.0) + 0.5,
        _ if op.align_corners => scale * o,
        InterpolateMode::Linear => centre.max(0.0),
        InterpolateMode::Cubic => centre,
    };
    let whole = at.floor().min((inputs - 1) as f32) as i64;
    let count = op.mode.taps();
    (whole - i64::from(count == 4), count)
}

/// Function `tap(scale, len, o, k)`: the place in an input of length `len` of tap `k` of output `o`, and its weight. Needs
/// [`exact`](crate::library::exact).
pub(super) fn text(mode: InterpolateMode, align_corners: bool) -> String {
    // A product that is added to is rounded first, whatever the compiler would rather do.
    let centre = "fused(scale, f32(o) + 0.5, 0.0) - 0.5";
    let at = match mode {
        InterpolateMode::Nearest => "scale * f32(o)",
        InterpolateMode::NearestExact => "max(fused(scale, f32(o) + 0.5, -0.5), 0.0) + 0.5",
        _ if align_corners => "fused(scale, f32(o), 0.0)",
        InterpolateMode::Linear => &format!("max({centre}, 0.0)"),
        InterpolateMode::Cubic => centre,
    };
    let weight = match mode {
        InterpolateMode::Linear => "select(1.0 - beyond, beyond, k == 1u)",
        InterpolateMode::Cubic => "cubic(beyond, k)",
        _ => "1.0",
    };
    let cubic = if mode == InterpolateMode::Cubic { CUBIC } else { "" };
    let before = if mode.taps() == 4 { 1 } else { 0 };
    format!(
        "struct Tap {{ place: u32, weight: f32 }}
{cubic}fn tap(scale: f32, len: u32, o: u32, k: u32) -> Tap {{
    let at = {at};
    let whole = min(floor(at), f32(len - 1u));
    let beyond = clamp(at - whole, 0.0, 1.0);
    let place = clamp(i32(whole) + i32(k) - {before}, 0, i32(len) - 1);
    return Tap(u32(place), {weight});
}}
"
    )
}

/// Keys, 1981, with a = −¾.
const CUBIC: &str = "fn cubic(t: f32, k: u32) -> f32 {
    let a = -0.75;
    var x = t;
    if k == 0u { x = t + 1.0; }
    if k == 2u { x = 1.0 - t; }
    if k == 3u { x = 2.0 - t; }
    let near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    let far = ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
    return select(far, near, k == 1u || k == 2u);
}
";
