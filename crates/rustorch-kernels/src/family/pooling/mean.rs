//! Average pooling, and its gradient.

use super::planes::{PlaneParams, Planes};
use super::{WindowParams, Windows};
use crate::family::{Plan, StepBuilder};
use crate::plan::parameters::parameters;
use crate::plan::{Request, line};
use crate::wgsl::{Module, WORKGROUP, Wgsl, per_word};
use crate::{Hardware, library};
use rustorch_core::{DType, Decline};
use std::fmt::Write;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mean {
    dtype: DType,
    adaptive: bool,
    /// Whether it is the gradient.
    backward: bool,
    /// Dimensions of what is not spatial.
    rank: usize,
}

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize) {
        windows: WindowParams,
        planes: PlaneParams = rank,
    }
}

/// Plans the launch.
pub(super) fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    n: usize,
    windows: &Windows,
    backward: bool,
) -> Result<(), Decline> {
    let planes = Planes::of(request, n)?;
    let (x, out) = (request.arg(0), request.out(0));
    let kernel = Mean { dtype: x.dtype, adaptive: windows.adaptive, backward, rank: planes.ndim() };
    let mut step = StepBuilder::new(request.hardware, kernel);
    let (x_start, y_start) = (step.read(&x)?, step.write(&out)?);
    step.parameters(&Params { windows: windows.params(), planes: planes.params(&out, x_start, y_start) })?;
    let threads = out.layout.numel().div_ceil(per_word(out.dtype));
    plan.step(step, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl Mean {
    pub(in super::super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Mean { dtype, adaptive, backward, rank } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let y = module.elements("y", dtype, true, hardware);
        let Params { windows, planes } = module.parameters::<Params>(rank);
        let number = if dtype == DType::F64 { "f64" } else { "f32" };
        let (input, output) = match backward {
            true => (&planes.result, &planes.source),
            false => (&planes.source, &planes.result),
        };
        // The elements of a window along an axis, and as how many it counts.
        for axis in 0..3 {
            let (len, outputs) = (&input[axis], &output[axis]);
            let text = match adaptive {
                true => format!(
                    "let first = o * {len} / {outputs};
                    let end = ((o + 1u) * {len} + {outputs} - 1u) / {outputs};
                    return vec3<u32>(first, end, end - first);"
                ),
                false => format!(
                    "let start = o * {stride};
                    let stop = min(start + {kernel}, {len} + 2u * {padding});
                    let first = min(max(start, {padding}) - {padding}, {len});
                    let end = min(max(stop, {padding}) - {padding}, {len});
                    return vec3<u32>(first, end, select(end - first, stop - start, {include} != 0u));",
                    stride = windows.stride[axis],
                    kernel = windows.kernel[axis],
                    padding = windows.padding[axis],
                    include = windows.include,
                ),
            };
            module.add(&format!("fn window{axis}(o: u32) -> vec3<u32> {{\n{text}\n}}"));
        }
        // Of doubles the nearest number.
        let quotient = |a: &str, b: &str| match dtype {
            DType::F64 => format!("divide_double({a}, {b})"),
            _ => format!("{a} / {b}"),
        };
        if dtype == DType::F64 {
            module.add(&library::called("divide_double()", hardware));
        }
        module.add(&format!(
            "fn divisor(count: u32) -> {number} {{ return {number}(select(count, {d}, {d} != 0u)); }}",
            d = windows.divisor
        ));
        let mut text = format!("fn element(i: u32) -> {number} {{\n{}", planes.parts("i"));
        let _ = writeln!(text, "var sum = {number}();");
        if backward {
            for axis in 0..3 {
                let (len, outputs) = (&input[axis], &output[axis]);
                // The windows that the element lies in.
                let (least, end) = match adaptive {
                    true => (
                        format!("o{axis} * {outputs} / {len}"),
                        format!("((o{axis} + 1u) * {outputs} + {len} - 1u) / {len}"),
                    ),
                    false => {
                        let (kernel, stride) = (&windows.kernel[axis], &windows.stride[axis]);
                        let at = format!("(o{axis} + {})", windows.padding[axis]);
                        (
                            format!(
                                "select((max({at}, {kernel}) - {kernel}) / {stride} + 1u, 0u, {at} < {kernel})"
                            ),
                            format!("{at} / {stride} + 1u"),
                        )
                    }
                };
                let _ = writeln!(
                    text,
                    "let least{axis} = {least};\nlet end{axis} = min({end}, {outputs});
                    for (var q{axis} = least{axis}; q{axis} < end{axis}; q{axis}++) {{"
                );
                // Each loop's count is that of the windows outside it, too.
                let outer = if axis == 0 { String::new() } else { format!("n{} * ", axis - 1) };
                let _ = writeln!(text, "let n{axis} = {outer}window{axis}(q{axis}).z;");
            }
            let _ = writeln!(
                text,
                "let at = {};\nsum += {};\n}} }} }}\nreturn sum;\n}}",
                planes.at(),
                quotient(&x.load("at"), "divisor(n2)")
            );
        } else {
            for axis in 0..3 {
                let _ = writeln!(text, "let w{axis} = window{axis}(o{axis});");
            }
            for axis in 0..3 {
                let _ = writeln!(text, "for (var q{axis} = w{axis}.x; q{axis} < w{axis}.y; q{axis}++) {{");
            }
            let _ = writeln!(
                text,
                "let at = {};\nsum += {};\n}} }} }}\nreturn {};\n}}",
                planes.at(),
                x.load("at"),
                quotient("sum", "divisor(w0.z * w1.z * w2.z)")
            );
        }
        module.add(&text);
        planes.finish(module, &y)
    }
}
