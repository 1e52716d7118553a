//! Functions in WGSL that several families call.

mod called;
pub(crate) mod kind;
pub(crate) mod mma;
mod order;
mod register_row;
mod ring;
pub(crate) mod scalars;
pub mod strided;
pub(crate) mod taps;
mod workgroup_reduce;

pub use called::called;
pub use order::Order;
pub use register_row::RegisterRow;
pub use ring::Ring;
pub use workgroup_reduce::{Parts, WorkgroupReduce, add_lanes, add_lanes_in_memory, adds_lanes};

use crate::{Hardware, Language};
use rustorch_core::DType;
use std::fmt::Write;

/// `fused(a, b, c)`: a·b + c rounded once. `divide(a, b)` and `root(a)`: quotient and square root, correctly rounded.
///
/// Where the hardware does not do so by itself, they are emulated, because results that are rounded to 8 bits
/// afterwards show every deviation.
pub fn exact(hardware: &Hardware) -> String {
    let fused = match (hardware.arithmetic.fused, hardware.f64) {
        (true, _) => "fn fused(a: f32, b: f32, c: f32) -> f32 { return fma(a, b, c); }\n",
        (false, true) => include_str!("fused_f64.wgsl"),
        (false, false) => include_str!("fused_f32.wgsl"),
    };
    let rest = match hardware.arithmetic.divides {
        true => {
            "fn divide(a: f32, b: f32) -> f32 { return a / b; }\nfn root(a: f32) -> f32 { return sqrt(a); }\n"
        }
        false => include_str!("divide.wgsl"),
    };
    // CUDA's compiler is told to leave the order of operations and each rounding as they are.
    let kept = match hardware.language {
        Language::CudaC => "fn kept(x: f32) -> f32 { return x; }\n",
        Language::Wgsl | Language::OpenClC => KEPT,
    };
    format!("{kept}{fused}{rest}")
}

/// The two halves of a word, an expression, as a vector of `f32`. WGSL's own conversion is of devices with a feature of their own;
/// subnormal numbers may become zeros where the language has one.
pub fn halves(word: &str, hardware: &Hardware) -> String {
    match hardware.language {
        Language::Wgsl => format!("vec2<f32>(f16_value({word} & 0xffffu), f16_value({word} >> 16u))"),
        Language::OpenClC | Language::CudaC => format!("unpack2x16float({word})"),
    }
}

/// `divide_double(a, b)` and `root_double(a)`: quotient and square root of doubles, correctly rounded where the hardware does so.
/// Where it does not, they are emulated, to little more than half a unit in the last place, as long as arguments and
/// result have magnitudes between 10⁻³⁰ and 10³⁰; others are the hardware's. The emulation calls `kept_double`.
pub fn exact_double(hardware: &Hardware) -> &'static str {
    match hardware.arithmetic.divides_doubles {
        true => {
            "fn divide_double(a: f64, b: f64) -> f64 { return a / b; }\nfn root_double(a: f64) -> f64 { return sqrt(a); }\n"
        }
        false => include_str!("divide_double.wgsl"),
    }
}

/// `kept(x)`: x, of which compilers do not know how it came about. Without it they take (a + b) − a for b, as they may
/// where nobody forbids it (Metal's and Direct3D's do, as wgpu calls them); what a sum has lost by rounding is computed so.
/// For the same reason NaN is known by its bits: they take `x != x` for false.
pub(crate) const KEPT: &str = "fn kept(x: f32) -> f32 {
    return select(x, x + 1.0, (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u);
}
";

/// A value, an expression, as the next step would read it from memory: rounded to its dtype. Compilers that fuse products
/// and sums or rearrange them would otherwise do so across steps. Calls `kept`, `kept_double` or `kept_complex`.
pub(crate) fn settled(value: &str, dtype: DType) -> String {
    match dtype {
        DType::U8 => format!("({value}) & 255u"),
        DType::I8 => format!("extractBits({value}, 0u, 8u)"),
        DType::I16 => format!("extractBits({value}, 0u, 16u)"),
        DType::F16 => format!("f16_value(f16_bits({value}))"),
        DType::BF16 => format!("bf16_value(bf16_bits({value}))"),
        DType::F32 => format!("kept({value})"),
        DType::F64 => format!("kept_double({value})"),
        DType::C64 => format!("kept_complex({value})"),
        _ => value.to_owned(),
    }
}

/// `Wide`, a number of twice the precision of `f32` at least: `wide(x)`, `wide_add`, `wide_mul`, `narrow`. Needs [`exact`].
pub fn wide(hardware: &Hardware) -> &'static str {
    if hardware.f64 { include_str!("wide_f64.wgsl") } else { WIDE_F32 }
}

/// `Wide` in two `f32`.
pub(crate) const WIDE_F32: &str = include_str!("wide_f32.wgsl");

/// [`exact`] and [`wide`] for elements of a dtype: those of doubles have the same names, and are of `f64` all. With
/// what keeps a value of that dtype as it is.
pub fn arithmetic(dtype: DType, hardware: &Hardware) -> String {
    match dtype {
        DType::F64 => {
            called("divide_double() root_double() kept_double()", hardware) + include_str!("doubles.wgsl")
        }
        _ => exact(hardware) + wide(hardware),
    }
}

/// Reading a buffer `w` of words by bytes: `half_at(byte)`, `word_at(byte)` at even addresses, `byte_at(byte)`.
pub const BYTES: &str = include_str!("bytes.wgsl");

/// A number as an expression of type `f32`, to the last bit.
pub fn number(x: f32) -> String {
    match x.is_finite() {
        // Rust prints the shortest text that reads back as the same number.
        true => format!("{x:?}f"),
        false => format!("bitcast<f32>({:#x}u)", x.to_bits()),
    }
}

/// A number as an expression of type `Wide`.
pub(crate) fn wide_number(x: f64) -> String {
    let high = x as f32;
    format!("wide_of({}, {})", number(high), number((x - f64::from(high)) as f32))
}

/// `quick_exp(x)`: the exponential of gates, equal to the CPU's. Needs [`exact`].
pub fn quick_exp() -> String {
    let constants = [
        ("LOG2_E", std::f32::consts::LOG2_E),
        ("LN2_HIGH", -0.693_145_75),
        ("LN2_LOW", -1.428_606_8e-6),
        ("EXP_1", 0.999_999_4),
        ("EXP_2", 0.499_991_27),
        ("EXP_3", 0.166_683_96),
        ("EXP_4", 0.041_899_767),
        ("EXP_5", 0.008_247_39),
    ];
    let constants: String =
        constants.iter().map(|(name, x)| format!("const {name}: f32 = {};\n", number(*x))).collect();
    constants + include_str!("quick_exp.wgsl")
}

/// `soft_tanh(x)`: the hyperbolic tangent that caps scores, equal to the CPU's. The hardware's own may overflow to NaN.
/// Needs [`exact`].
pub fn soft_tanh() -> String {
    let constants = [
        ("LOG2_E", std::f32::consts::LOG2_E),
        ("LN2_HIGH", -0.693_359_4),
        ("LN2_LOW", 2.121_944_4e-4),
        ("EXP_1", 0.001_381_459_9),
        ("EXP_2", 0.008_368_717),
        ("EXP_3", 0.041_668_39),
        ("EXP_4", 0.166_665_21),
        ("EXP_5", 0.499_999_94),
        ("TANH_1", -0.005_704_991_5),
        ("TANH_2", 0.020_639_092),
        ("TANH_3", -0.053_739_715),
        ("TANH_4", 0.133_314_42),
        ("TANH_5", -0.333_332_8),
    ];
    let constants: String =
        constants.iter().map(|(name, x)| format!("const {name}: f32 = {};\n", number(*x))).collect();
    constants + include_str!("soft_tanh.wgsl")
}

/// A polynomial in `x: Wide` by Horner's rule, coefficients from the highest.
fn polynomial(coefficients: impl IntoIterator<Item = f64>) -> String {
    let mut text = String::from("    var p = wide(0.0);\n");
    for c in coefficients {
        let _ = writeln!(text, "    p = wide_add(wide_mul(p, x), {});", wide_number(c));
    }
    text
}

fn factorial(n: u32) -> f64 {
    (1..=n).map(f64::from).product()
}

/// `fine_exp(x)`: the exponential, correctly rounded but for a few results in a thousand. Needs [`wide`].
pub fn fine_exp() -> String {
    format!(
        "fn fine_exp(v: f32) -> f32 {{
    if (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u {{ return v; }}
    if v > 89.0 {{ return bitcast<f32>(0x7f800000u); }}
    if v < -104.0 {{ return 0.0; }}
    let n = round(v * {});
    let x = wide_add(wide(v), wide_mul(wide(-n), {}));
{}    let half = i32(n) >> 1u;
    return narrow(p) * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(i32(n) - half + 127) << 23u);
}}
",
        number(std::f32::consts::LOG2_E),
        wide_number(std::f64::consts::LN_2),
        polynomial((0..=12).rev().map(|n| 1.0 / factorial(n))),
    )
}

/// `fine_sin_cos(x) -> vec2<f32>`: sine and cosine, likewise, for |x| up to a million. Needs [`wide`].
pub fn fine_sin_cos() -> String {
    // π/2 in three parts of f32.
    let parts = [1.570_796_4_f32, -4.371_139e-8, -1.715_117_8e-15];
    let [first, second, third] = parts.map(number);
    let series = |start: u32| {
        polynomial((0..=8u32).rev().map(|n| (if n % 2 == 0 { 1.0 } else { -1.0 }) / factorial(2 * n + start)))
    };
    format!(
        "fn fine_sin_of(x: Wide) -> Wide {{
{}    return p;
}}
fn fine_cos_of(x: Wide) -> Wide {{
{}    return p;
}}
fn fine_sin_cos(v: f32) -> vec2<f32> {{
    let n = round(v * {});
    var r = wide_add(wide(v), wide_mul(wide(-n), wide({first})));
    r = wide_add(r, wide_mul(wide(-n), wide({second})));
    r = wide_add(r, wide_mul(wide(-n), wide({third})));
    let square = wide_mul(r, r);
    let s = narrow(wide_mul(r, fine_sin_of(square)));
    let c = narrow(fine_cos_of(square));
    let quadrant = i32(n) & 3;
    let swapped = select(vec2<f32>(s, c), vec2<f32>(c, -s), (quadrant & 1) != 0);
    return select(swapped, -swapped, (quadrant & 2) != 0);
}}
",
        series(1),
        series(0),
        number(std::f32::consts::FRAC_2_PI),
    )
}
