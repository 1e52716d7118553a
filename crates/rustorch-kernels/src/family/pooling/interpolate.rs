//! Interpolation and its gradient: a thread per result, with the CPU's coordinates and weights.

use super::interpolate_backward;
use super::planes::{PlaneParams, Planes};
use crate::family::{Plan, StepBuilder};
use crate::library::kind::Kind;
use crate::library::{scalars, taps};
use crate::plan::parameters::{Names, parameters};
use crate::plan::{Request, line};
use crate::wgsl::{Elements, Module, WORKGROUP, Wgsl, per_word};
use crate::{Hardware, library};
use rustorch_core::{DType, Decline, Interpolate as InterpolateOp, InterpolateMode, Scalar};
use std::fmt::Write;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interpolate {
    dtype: DType,
    mode: InterpolateMode,
    align_corners: bool,
    /// Spatial dimensions: the last of three.
    spatial: usize,
    /// Dimensions of what is not spatial.
    rank: usize,
    /// Whether it is the gradient.
    backward: bool,
}

parameters! {
    /// Kernel parameters.
    struct Params(kind: Kind, rank: usize) {
        scales: [scalars::Words; 3] = kind,
        planes: PlaneParams = rank,
    }
}

/// Adds the launch of an interpolation, or of its gradient, whose argument has the planes of the outputs.
pub(super) fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    op: &InterpolateOp,
    backward: bool,
) -> Result<(), Decline> {
    let n = op.size.len();
    let planes = Planes::of(request, n)?;
    let (x, out) = (request.arg(0), request.out(0));
    let kernel = Interpolate {
        dtype: x.dtype,
        mode: op.mode,
        align_corners: op.align_corners,
        spatial: n,
        rank: planes.ndim(),
        backward,
    };
    let (inputs, outputs) = match backward {
        true => (planes.target, planes.source),
        false => (planes.source, planes.target),
    };
    let mut step = StepBuilder::new(request.hardware, kernel);
    let (x_start, y_start) = (step.read(&x)?, step.write(&out)?);
    let scales = [0usize, 1, 2].map(|axis| {
        let scale = match axis.checked_sub(3 - n) {
            Some(dim) => taps::scale(op, op.factors[dim], inputs[axis], outputs[axis], x.dtype),
            None => 1.0,
        };
        scalars::words(Scalar::Float(scale), scalars::wide(x.dtype))
    });
    step.parameters(&Params { scales, planes: planes.params(&out, x_start, y_start) })?;
    let threads = out.layout.numel().div_ceil(per_word(out.dtype));
    plan.step(step, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

impl Interpolate {
    pub(in super::super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Interpolate { dtype, mode, align_corners, spatial, rank, backward } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let y = module.elements("y", dtype, true, hardware);
        let ty = x.value();
        let Params { scales, planes } = module.parameters::<Params>((Kind::of(dtype, hardware), rank));
        let mut functions = taps::text(mode, align_corners, ty);
        for (axis, scale) in scales.iter().enumerate() {
            let _ = writeln!(functions, "fn scale{axis}() -> {ty} {{ return {scale}; }}");
        }
        module.add(&library::called(&functions, hardware));
        module.add(&functions);
        module.add(&match backward {
            true => interpolate_backward::element(mode.taps(), spatial, &planes, &x),
            false => element(mode.taps(), spatial, &planes, &x),
        });
        planes.finish(module, &y)
    }
}

/// Function `element(i)`: a result, from its taps.
fn element(taps: usize, spatial: usize, planes: &PlaneParams<Names>, x: &Elements) -> String {
    let ty = x.value();
    let mut text = format!("fn element(i: u32) -> {ty} {{\n{}var sum = {ty}(0.0);\n", planes.parts("i"));
    for axis in 0..3 {
        if axis < 3 - spatial {
            let _ = writeln!(text, "let q{axis} = 0u;\nlet w{axis} = {ty}(1.0);");
            continue;
        }
        let outer = if axis == 0 { String::new() } else { format!("w{} * ", axis - 1) };
        let _ = writeln!(
            text,
            "for (var k{axis} = 0u; k{axis} < {taps}u; k{axis}++) {{
                let tap{axis} = tap(scale{axis}(), {}, o{axis}, k{axis});
                let q{axis} = tap{axis}.place;
                let w{axis} = {outer}tap{axis}.weight;",
            planes.source[axis]
        );
    }
    let load = x.load("at");
    let _ = writeln!(
        text,
        "let at = {};\n{}\n{}\nreturn sum;\n}}",
        planes.at(),
        // An element that is taken as it is may be anything, infinite too.
        if taps == 1 { format!("return {load};") } else { format!("sum += w2 * {load};") },
        "}".repeat(spatial)
    );
    text
}
