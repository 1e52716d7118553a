//! The gradient of interpolation: a thread for each element of the input gathers from the outputs that it took part in.

use super::planes::{PlaneWords, Planes};
use super::taps;
use crate::plan::{Plan, Request, StepBuilder, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl, per_word};
use crate::{Hardware, library};
use rustorch_core::{DType, Decline, Interpolate as Parameters, InterpolateMode};
use std::fmt::Write;

/// The kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InterpolateBackward {
    dtype: DType,
    mode: InterpolateMode,
    align_corners: bool,
    /// Spatial dimensions: the last of three.
    spatial: usize,
    /// Dimensions of what is not spatial.
    rank: usize,
}

/// Adds the launch.
pub(super) fn plan(plan: &mut Plan, request: &Request<'_>, op: &Parameters) -> Result<(), Decline> {
    let n = op.size.len();
    // The argument's planes are those of the outputs.
    let planes = Planes::of(request, n)?;
    let (grad, out) = (request.arg(0), request.out(0));
    let kernel = InterpolateBackward {
        dtype: grad.dtype,
        mode: op.mode,
        align_corners: op.align_corners,
        spatial: n,
        rank: planes.rank(),
    };
    let mut step = StepBuilder::new(request.hardware, kernel);
    let from = step.read(&grad)?;
    let to = step.write(&out)?;
    for axis in 0..3usize {
        let scale = match axis.checked_sub(3 - n) {
            Some(dim) => taps::scale(op, op.factors[dim], planes.target[axis], planes.source[axis]),
            None => 1.0,
        };
        step.float(scale);
    }
    planes.describe(&mut step, &out, from, to)?;
    let threads = out.layout.elements().div_ceil(per_word(out.dtype));
    plan.step(step, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

/// Function `reached(scale, len, outputs, q)`: the first of the outputs that element `q` of an input of length `len` took part
/// in, and the one after the last; by bisection, since places grow with outputs.
fn text(taps: usize) -> String {
    let last = taps - 1;
    format!(
        "fn reached(scale: f32, len: u32, outputs: u32, q: u32) -> vec2<u32> {{
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

impl InterpolateBackward {
    pub(in super::super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let InterpolateBackward { dtype, mode, align_corners, spatial, rank } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let y = module.elements("y", dtype, true, hardware);
        let scales = module.take(3);
        let planes = PlaneWords::declare(&mut module, rank);
        module.add(&library::exact(hardware));
        let taps = mode.taps();
        module.add(&taps::text(mode, align_corners));
        module.add(&text(taps));
        let mut element = format!("fn element(i: u32) -> f32 {{\n{}var sum = 0.0;\n", planes.parts("i"));
        for (axis, scale) in scales.iter().enumerate() {
            let (len, outputs, scale) = (planes.target[axis], planes.source[axis], scale.float());
            let _ = match axis < 3 - spatial {
                true => writeln!(element, "let range{axis} = vec2<u32>(0u, 1u);"),
                false => {
                    writeln!(element, "let range{axis} = reached({scale}, {len}, {outputs}, o{axis});")
                }
            };
        }
        // As the processor adds: along the width first, then each line with the weights of its depth and height.
        for axis in 0..3 {
            let line = if axis == 2 { "var line = 0.0;\n" } else { "" };
            let _ = writeln!(
                element,
                "{line}for (var q{axis} = range{axis}.x; q{axis} < range{axis}.y; q{axis}++) {{"
            );
        }
        // Around `inner`, a loop over the taps that are at the element, with their weights.
        let weighted = |axis: usize, inner: String| {
            let (len, scale) = (planes.target[axis], scales[axis].float());
            match axis < 3 - spatial {
                true => format!("let w{axis} = 1.0;\n{inner}"),
                false => format!(
                    "for (var k{axis} = 0u; k{axis} < {taps}u; k{axis}++) {{
                        let tap{axis} = tap({scale}, {len}, q{axis}, k{axis});
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
        module.add(&element);
        let per_word = y.per_word();
        let mut body = format!(
            "let word = {LINEAR_GROUP} * {WORKGROUP}u + local;\nlet first = word * {per_word}u;\n\
             if first >= {} {{ return; }}\n",
            planes.n
        );
        // The last word may reach beyond the end.
        let values: Vec<String> =
            (0..per_word).map(|e| format!("element(min(first + {e}u, {} - 1u))", planes.n)).collect();
        body.push_str(&y.store(&format!("{} / {per_word}u + word", planes.to), &values));
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
