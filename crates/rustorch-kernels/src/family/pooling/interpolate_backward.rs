//! Gradient of interpolation: a thread per input element gathers from the outputs it contributed to.

use super::planes::PlaneParams;
use crate::plan::parameters::Names;
use crate::wgsl::Elements;
use std::fmt::Write;

/// Function `element(i)`: the gradient of an element.
pub(super) fn element(taps: usize, spatial: usize, planes: &PlaneParams<Names>, x: &Elements) -> String {
    let ty = x.value();
    let mut element = reached(taps, ty);
    let _ = write!(element, "fn element(i: u32) -> {ty} {{\n{}var sum = {ty}(0.0);\n", planes.parts("i"));
    for axis in 0..3 {
        let (len, outputs) = (&planes.result[axis], &planes.source[axis]);
        let _ = match axis < 3 - spatial {
            true => writeln!(element, "let range{axis} = vec2<u32>(0u, 1u);"),
            false => {
                writeln!(element, "let range{axis} = reached(scale{axis}(), {len}, {outputs}, o{axis});")
            }
        };
    }
    // As the CPU adds: along the width first, then each line with the weights of its depth and height.
    for axis in 0..3 {
        let line = if axis == 2 { format!("var line = {ty}(0.0);\n") } else { String::new() };
        let _ = writeln!(
            element,
            "{line}for (var q{axis} = range{axis}.x; q{axis} < range{axis}.y; q{axis}++) {{"
        );
    }
    // Around `inner`, a loop over the taps that are at the element, with their weights.
    let weighted = |axis: usize, inner: String| {
        let len = &planes.result[axis];
        match axis < 3 - spatial {
            true => format!("let w{axis} = {ty}(1.0);\n{inner}"),
            false => format!(
                "for (var k{axis} = 0u; k{axis} < {taps}u; k{axis}++) {{
                    let tap{axis} = tap(scale{axis}(), {len}, q{axis}, k{axis});
                    if tap{axis}.place == o{axis} {{
                        let w{axis} = tap{axis}.weight;
                        {inner}
                    }}
                }}\n"
            ),
        }
    };
    let _ = writeln!(
        element,
        "let at = {};
        let g = {};
        {} }}
        {} }} }}
        return sum;
        }}",
        planes.at(),
        x.load("at"),
        weighted(2, "line += w2 * g;".into()),
        weighted(0, weighted(1, "sum += (w0 * w1) * line;".into())),
    );
    element
}

/// Function `reached(scale, len, outputs, q)`: the first of the outputs that element `q` of an input of length `len` took part
/// in, and the one after the last; by bisection, since places grow with outputs.
fn reached(taps: usize, ty: &str) -> String {
    let last = taps - 1;
    format!(
        "fn reached(scale: {ty}, len: u32, outputs: u32, q: u32) -> vec2<u32> {{
    var low = 0u;
    var high = outputs;
    for (; low < high;) {{
        let o = low + (high - low) / 2u;
        if tap(scale, len, o, {last}u).place < q {{ low = o + 1u; }} else {{ high = o; }}
    }}
    let first = low;
    high = outputs;
    for (; low < high;) {{
        let o = low + (high - low) / 2u;
        if tap(scale, len, o, 0u).place <= q {{ low = o + 1u; }} else {{ high = o; }}
    }}
    return vec2<u32>(first, low);
}}
"
    )
}
