//! Max pooling with indices. Elements are compared as integers, so that NaN and subnormals are told apart on every device.

use super::planes::{PlaneParams, Planes};
use super::{WindowParams, Windows};
use crate::Hardware;
use crate::family::{Plan, StepBuilder};
use crate::plan::parameters::parameters;
use crate::plan::{Request, line};
use crate::wgsl::{LINEAR_GROUP, Module, WORKGROUP, Wgsl, per_word};
use rustorch_core::{DType, Decline};
use std::fmt::Write;

/// Kernel key: everything its source depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Max {
    dtype: DType,
    adaptive: bool,
    /// Dimensions of what is not spatial.
    rank: usize,
}

parameters! {
    /// Kernel parameters.
    struct Params(rank: usize) {
        indices_start: u32,
        windows: WindowParams,
        planes: PlaneParams = rank,
    }
}

/// The most elements of a plane, whose places are counted in 32 bits.
pub(super) const MOST: usize = 1 << 32;

/// Plans the launch.
pub(super) fn plan(
    plan: &mut Plan,
    request: &Request<'_>,
    n: usize,
    windows: &Windows,
) -> Result<(), Decline> {
    let planes = Planes::of(request, n)?;
    let (x, out, indices) = (request.arg(0), request.out(0), request.out(1));
    let kernel = Max { dtype: x.dtype, adaptive: windows.adaptive, rank: planes.ndim() };
    let mut step = StepBuilder::new(request.hardware, kernel);
    let (x_start, y_start) = (step.read(&x)?, step.write(&out)?);
    let indices_start = step.write(&indices)?;
    let planes = planes.params(&out, x_start, y_start);
    step.parameters(&Params { indices_start, windows: windows.params(), planes })?;
    let threads = out.layout.numel().div_ceil(per_word(out.dtype));
    plan.step(step, line(threads.div_ceil(WORKGROUP as usize), request.hardware)?);
    Ok(())
}

/// How elements of a dtype are compared.
struct Order {
    /// The type in which they are.
    ty: &'static str,
    /// The least of them.
    least: &'static str,
    /// Whether `a` becomes the largest, coming after `b`.
    beats: &'static str,
    /// Functions that this calls.
    library: &'static str,
}

/// NaN always does, and a number never after NaN.
const FLOATS: Order = Order {
    ty: "u32",
    least: "0xff800000u",
    beats: "(a & 0x7fffffffu) > 0x7f800000u || (b & 0x7fffffffu) <= 0x7f800000u && key(a) > key(b)",
    library: "fn key(a: u32) -> i32 {
        let magnitude = bitcast<i32>(a & 0x7fffffffu);
        return select(magnitude, -magnitude, (a >> 31u) != 0u);
    }",
};

impl Order {
    fn of(dtype: DType, hardware: &Hardware) -> Order {
        let plain = |ty, least| Order { ty, least, beats: "a > b", library: "" };
        match dtype {
            DType::U8 | DType::U32 => plain("u32", "0u"),
            DType::I8 => plain("i32", "-128"),
            DType::I16 => plain("i32", "-32768"),
            DType::I32 => plain("i32", "(-2147483647 - 1)"),
            DType::I64 if hardware.i64 => plain("i64", "(-9223372036854775807li - 1li)"),
            DType::I64 => Order {
                ty: "vec2<u32>",
                least: "vec2<u32>(0u, 0x80000000u)",
                beats: "bitcast<i32>(a.y) > bitcast<i32>(b.y) || a.y == b.y && a.x > b.x",
                library: "",
            },
            _ => FLOATS,
        }
    }
}

impl Max {
    pub(in super::super) fn wgsl(&self, hardware: &Hardware) -> Wgsl {
        let Max { dtype, adaptive, rank } = *self;
        let mut module = Module::new();
        let x = module.elements("x", dtype, false, hardware);
        let y = module.elements("y", dtype, true, hardware);
        let indices = module.elements("indices", DType::I64, true, hardware);
        let Params { indices_start, windows, planes } = module.parameters::<Params>(rank);
        let Order { ty, least, beats, library } = Order::of(dtype, hardware);
        let float = dtype.is_float();
        let load = match float {
            true => format!("bitcast<u32>({})", x.load("at")),
            false => x.load("at"),
        };
        module.add(library);
        module.add(&format!(
            "struct Best {{ value: {ty}, at: u32, found: bool }}
            fn beats(a: {ty}, b: {ty}) -> bool {{ return {beats}; }}"
        ));
        let mut text = format!("fn best(i: u32) -> Best {{\n{}", planes.parts("i"));
        for axis in 0..3 {
            let (source, target) = (&planes.source[axis], &planes.result[axis]);
            let _ = match adaptive {
                true => writeln!(
                    text,
                    "let first{axis} = o{axis} * {source} / {target};
                    let count{axis} = ((o{axis} + 1u) * {source} + {target} - 1u) / {target} - first{axis};"
                ),
                // Positions before the first become large numbers.
                false => writeln!(
                    text,
                    "let first{axis} = o{axis} * {} - {};\nlet count{axis} = {};",
                    windows.stride[axis], windows.padding[axis], windows.kernel[axis]
                ),
            };
        }
        let _ = writeln!(text, "var best = Best({least}, 0xffffffffu, false);");
        for axis in 0..3 {
            let _ = writeln!(
                text,
                "for (var k{axis} = 0u; k{axis} < count{axis}; k{axis}++) {{
                    let q{axis} = first{axis} + k{axis} * {};
                    if q{axis} >= {} {{ continue; }}",
                windows.dilation[axis], planes.source[axis]
            );
        }
        let _ = writeln!(
            text,
            "let at = {};
            let value = {load};
            if !best.found || beats(value, best.value) {{
                best = Best(value, (q0 * {} + q1) * {} + q2, true);
            }}
            }} }} }}
            return best;
            }}",
            planes.at(),
            planes.source[1],
            planes.source[2],
        );
        module.add(&text);
        let per_word = y.per_word();
        let mut body = format!(
            "let word = {LINEAR_GROUP} * {WORKGROUP}u + local;\nlet first = word * {per_word}u;\n\
             if first >= {} {{ return; }}\n",
            planes.n
        );
        let mut values = Vec::new();
        for e in 0..per_word {
            // The last word may extend past the end.
            let _ =
                writeln!(body, "let i{e} = min(first + {e}u, {} - 1u);\nlet best{e} = best(i{e});", planes.n);
            // Of a window of nothing −1.
            let index = match hardware.i64 {
                true => format!("select(-1li, {}, best{e}.found)", indices.from_u32(&format!("best{e}.at"))),
                false => format!("vec2<u32>(best{e}.at, select(0xffffffffu, 0u, best{e}.found))"),
            };
            let _ = writeln!(body, "{}", indices.store(&format!("{indices_start} + i{e}"), &[index]));
            values.push(match float {
                true => format!("bitcast<f32>(best{e}.value)"),
                false => format!("best{e}.value"),
            });
        }
        body.push_str(&y.store(&format!("{} / {per_word}u + word", planes.y_start), &values));
        module.finish([WORKGROUP, 1, 1], &body)
    }
}
