//! Taps of interpolation: source elements and weights of an output, as the CPU computes them.

use rustorch_core::{DType, Interpolate, InterpolateMode};

/// From a coordinate of the result to one of the input, as the CPU computes it for elements of a dtype.
pub(crate) fn scale(op: &Interpolate, factor: Option<f64>, len: usize, outputs: usize, dtype: DType) -> f64 {
    let ratio = |a: usize, b: usize| match dtype {
        DType::F64 => a as f64 / b as f64,
        _ => (a as f32 / b as f32).into(),
    };
    match factor {
        _ if op.align_corners && outputs > 1 => ratio(len - 1, outputs - 1),
        _ if op.align_corners => 0.0,
        Some(factor) if dtype == DType::F64 => 1.0 / factor,
        Some(factor) => ((1.0 / factor) as f32).into(),
        None => ratio(len, outputs),
    }
}

/// The last whole number of singles that is an `i32`.
const FARTHEST: f64 = 2_147_483_520.0;

/// The input that is the first tap of an output, unless it lies outside, and how many there are: by the roundings that
/// kernels do, in the order of [`text`].
pub(crate) fn first(
    op: &Interpolate,
    scale: f64,
    inputs: usize,
    output: usize,
    dtype: DType,
) -> (i64, usize) {
    let round = |x: f64| if dtype == DType::F64 { x } else { f64::from(x as f32) };
    let o = round(output as f64);
    let product = |factor: f64| round(scale * factor);
    let centre = round(product(round(o + 0.5)) - 0.5);
    let at = match op.mode {
        InterpolateMode::Nearest => product(o),
        InterpolateMode::NearestExact => {
            let centre =
                if dtype == DType::F64 { centre } else { round(scale.mul_add(round(o + 0.5), -0.5)) };
            round(centre.max(0.0) + 0.5)
        }
        _ if op.align_corners => product(o),
        InterpolateMode::Linear => centre.max(0.0),
        InterpolateMode::Cubic => centre,
    };
    let count = op.mode.taps();
    let whole = match count {
        1 => f64::from(at as f32).floor().min(FARTHEST),
        _ => at.floor().min(round((inputs - 1) as f64)),
    } as i64;
    (whole - i64::from(count == 4), count)
}

/// By how many elements the taps of an output near element `place` may lie elsewhere than [`first`] says: devices may round
/// numbers that no single has in either direction.
pub(crate) fn margin(op: &Interpolate, place: usize, dtype: DType) -> usize {
    // Four of its units in the last place at least, of which an output's number, a length and the place itself have one each.
    let units = place >> 21;
    if dtype == DType::F64 && op.mode.taps() > 1 { 1 } else { 1 + units }
}

/// Function `tap(scale, len, o, k)`: the place in an input of length `len` of tap `k` of output `o`, and its weight, computed
/// in `ty`. Needs [`exact`](crate::library::exact), or `kept_double`.
pub(crate) fn text(mode: InterpolateMode, align_corners: bool, ty: &str) -> String {
    // A product that is added to is rounded first, whatever the compiler would rather do.
    let product = |factor: &str| match ty {
        "f64" => format!("kept_double(scale * ({factor}))"),
        _ => format!("fused(scale, {factor}, 0.0)"),
    };
    let centre = format!("{} - {ty}(0.5)", product(&format!("{ty}(o) + {ty}(0.5)")));
    let at = match mode {
        InterpolateMode::Nearest => format!("scale * {ty}(o)"),
        InterpolateMode::NearestExact if ty == "f64" => format!("max({centre}, 0.0lf) + 0.5lf"),
        InterpolateMode::NearestExact => "max(fused(scale, f32(o) + 0.5, -0.5), 0.0) + 0.5".into(),
        _ if align_corners => product(&format!("{ty}(o)")),
        InterpolateMode::Linear => format!("max({centre}, {ty}(0.0))"),
        InterpolateMode::Cubic => centre,
    };
    // Of an element that is taken as it is, the place is rounded to single precision first.
    let at = if mode.taps() == 1 { format!("{ty}(f32({at}))") } else { at };
    // The last input's number may be none of the type, and the nearest one less: which only counts where weights are found.
    let last = if mode.taps() == 1 { format!("{ty}({FARTHEST:?})") } else { format!("{ty}(len - 1u)") };
    let weight = match mode {
        InterpolateMode::Linear => format!("select({ty}(1.0) - beyond, beyond, k == 1u)"),
        InterpolateMode::Cubic => "cubic(beyond, k)".into(),
        _ => format!("{ty}(1.0)"),
    };
    let cubic = if mode == InterpolateMode::Cubic { cubic(ty) } else { String::new() };
    let before = if mode.taps() == 4 { 1 } else { 0 };
    format!(
        "struct Tap {{ place: u32, weight: {ty} }}
{cubic}fn tap(scale: {ty}, len: u32, o: u32, k: u32) -> Tap {{
    let at = {at};
    let whole = min(floor(at), {last});
    let beyond = clamp(at - whole, {ty}(0.0), {ty}(1.0));
    let place = clamp(i32(whole) + i32(k) - {before}, 0, i32(len) - 1);
    return Tap(u32(place), {weight});
}}
"
    )
}

/// Keys, 1981, with a = −¾.
fn cubic(ty: &str) -> String {
    format!(
        "fn cubic(t: {ty}, k: u32) -> {ty} {{
    let a = {ty}(-0.75);
    var x = t;
    if k == 0u {{ x = t + {ty}(1.0); }}
    if k == 2u {{ x = {ty}(1.0) - t; }}
    if k == 3u {{ x = {ty}(2.0) - t; }}
    let near = ((a + {ty}(2.0)) * x - (a + {ty}(3.0))) * x * x + {ty}(1.0);
    let far = ((a * x - {ty}(5.0) * a) * x + {ty}(8.0) * a) * x - {ty}(4.0) * a;
    return select(far, near, k == 1u || k == 2u);
}}
"
    )
}
