//! Floats on a real OpenCL device, and as CUDA source on this CPU: exact where WGSL or IEEE 754 say so, else within a few units in the last place.

#![allow(clippy::manual_clamp, reason = "NaNs go another way there")]

use crate::common as support;
use crate::common::opencl::device;
use crate::common::runners;
use crate::common::table::{Case, case, check, close, scalar, triples};

fn values() -> Vec<u32> {
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        3.25,
        0.1,
        -0.3,
        1e-3,
        7.75,
        -123.456,
        1000.5,
        16777216.0,
        1e9,
        -3e9,
        2147483648.0,
        -2147483648.0,
        4294967296.0,
        1e20,
        3.4e38,
        1e-38,
        1.1754944e-38,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1.0000001,
        0.99999994,
        65504.0,
        65520.0,
        6e-8,
        0.33333334,
    ]
    .map(f32::to_bits)
    .to_vec()
}

/// Values in ranges where functions are neither constant nor infinite.
fn moderate() -> Vec<u32> {
    (0..40).map(|i| ((i as f32 * 0.737 - 14.0) * 0.31).to_bits()).collect()
}

fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

/// A function of one float.
macro_rules! one {
    ($expression:literal, $ulps:literal, |$x:ident| $want:expr) => {
        close($expression, $ulps, |a, _, _| {
            let $x = f(a);
            let want: f32 = $want;
            want.to_bits()
        })
    };
}

/// A function of three floats.
macro_rules! three {
    ($expression:literal, $ulps:literal, |$x:ident, $y:ident, $z:ident| $want:expr) => {
        close($expression, $ulps, |a, b, c| {
            let ($x, $y, $z) = (f(a), f(b), f(c));
            let _ = ($y, $z);
            let want: f32 = $want;
            want.to_bits()
        })
    };
}

/// A function of one float, computed in f64.
macro_rules! wide {
    ($expression:literal, $ulps:literal, |$x:ident| $want:expr) => {
        close($expression, $ulps, |a, _, _| {
            let $x = f64::from(f(a));
            (($want) as f32).to_bits()
        })
    };
}

#[test]
fn exact() {
    let cases: &[Case] = &[
        three!("a + b", 0, |x, y, _z| x + y),
        three!("a - b", 0, |x, y, _z| x - y),
        three!("a * b", 0, |x, y, _z| x * y),
        three!("a / b", 0, |x, y, _z| x / y),
        three!("a % b", 0, |x, y, _z| x % y),
        three!("a * b + c", 0, |x, y, z| x * y + z),
        three!("a * b - c * a", 0, |x, y, z| x * y - z * x),
        three!("fma(a, b, c)", 0, |x, y, z| x.mul_add(y, z)),
        one!("-a", 0, |x| -x),
        one!("abs(a)", 0, |x| x.abs()),
        one!("sqrt(a)", 0, |x| x.sqrt()),
        one!("inverseSqrt(a)", 0, |x| 1.0 / x.sqrt()),
        one!("floor(a)", 0, |x| x.floor()),
        one!("ceil(a)", 0, |x| x.ceil()),
        one!("trunc(a)", 0, |x| x.trunc()),
        one!("round(a)", 0, |x| x.round_ties_even()),
        one!("fract(a)", 0, |x| x - x.floor()),
        three!("min(a, b)", 1, |x, y, _z| x.min(y)),
        three!("max(a, b)", 1, |x, y, _z| x.max(y)),
        three!("clamp(a, b, c)", 1, |x, y, z| x.max(y).min(z)),
        one!("saturate(a)", 1, |x| x.max(0.0).min(1.0)),
        one!("sign(a)", 0, |x| if x > 0.0 {
            1.0
        } else if x < 0.0 {
            -1.0
        } else {
            0.0
        }),
        three!("mix(a, b, c)", 0, |x, y, z| x * (1.0 - z) + y * z),
        three!("step(a, b)", 0, |x, y, _z| f32::from(x <= y)),
        three!("smoothstep(a, b, c)", 0, |x, y, z| {
            let t = ((z - x) / (y - x)).max(0.0).min(1.0);
            t * t * (3.0 - 2.0 * t)
        }),
        one!("degrees(a)", 0, |x| x * 57.295_78),
        one!("radians(a)", 0, |x| x * 0.017_453_292),
        three!("select(a, b, a < c)", 0, |x, y, z| if x < z { y } else { x }),
        three!("select(a, b, a == c)", 0, |x, y, z| if x == z { y } else { x }),
        three!("select(a, b, a != c)", 0, |x, y, z| if x != z { y } else { x }),
        case("select(a, b, !(a >= c))", |a, b, c| if f(a) >= f(c) { a } else { b }),
        one!("(a * 0.1 + 1e-40) * 3.4028234e38", 0, |x| (x * 0.1 + 1e-40) * 3.402_823_4e38),
        scalar("u32(i32(a))", |a, _, _| clamped(a, -2_147_483_648.0, 2_147_483_520.0) as i32 as u32),
        scalar("u32(a)", |a, _, _| clamped(a, 0.0, 4_294_967_040.0) as u32),
        scalar("u32(bool(a))", |a, _, _| u32::from(f(a) != 0.0)),
        // There and back is `trunc` for some compilers, which keeps the sign of a zero.
        one!("f32(i32(a))", 1, |x| clamped(x.to_bits(), -2_147_483_648.0, 2_147_483_520.0) as i32 as f32),
        scalar("f32(bitcast<i32>(a))", |a, _, _| (a as i32 as f32).to_bits()),
        scalar("f32(bitcast<u32>(a))", |a, _, _| (a as f32).to_bits()),
        scalar("f32(a < b)", |a, b, _| f32::from(f(a) < f(b)).to_bits()),
        three!("ldexp(a, i32(clamp(b, -9.0, 9.0)))", 0, |x, y, _z| {
            let by = if y.is_nan() { -9 } else { y.clamp(-9.0, 9.0) as i32 };
            (f64::from(x) * 2_f64.powi(by)) as f32
        }),
        scalar("vec3(length(a), distance(a, b), 0.0).x", |a, _, _| f(a).abs().to_bits()),
    ];
    let cases: Vec<_> = cases
        .iter()
        .map(|case| Case {
            expression: case.expression,
            want: case.want,
            ulps: case.ulps.or(Some(0)),
            // `i32(vector)` and the like are no conversions of vectors.
            vectors: case.vectors && !case.expression.contains("i32(") && !case.expression.contains("-9.0"),
        })
        .collect();
    for device in runners() {
        check(device, "f32", &triples(&values()), &cases);
    }
}

/// Clamped so that a NaN becomes the lower bound.
fn clamped(bits: u32, low: f32, high: f32) -> f32 {
    f(bits).max(low).min(high)
}

#[test]
fn functions() {
    let cases: &[Case] = &[
        wide!("exp(a)", 4, |x| x.exp()),
        wide!("exp2(a)", 4, |x| x.exp2()),
        wide!("log(abs(a))", 4, |x| x.abs().ln()),
        wide!("log2(abs(a))", 4, |x| x.abs().log2()),
        wide!("sin(a)", 4, |x| x.sin()),
        wide!("cos(a)", 4, |x| x.cos()),
        wide!("tan(a)", 5, |x| x.tan()),
        wide!("asin(a * 0.2)", 5, |x| (f64::from((x as f32) * 0.2)).asin()),
        wide!("acos(a * 0.2)", 5, |x| (f64::from((x as f32) * 0.2)).acos()),
        wide!("atan(a)", 5, |x| x.atan()),
        wide!("sinh(a)", 4, |x| x.sinh()),
        wide!("cosh(a)", 4, |x| x.cosh()),
        wide!("tanh(a)", 5, |x| x.tanh()),
        wide!("asinh(a)", 4, |x| x.asinh()),
        wide!("acosh(abs(a) + 1.0)", 4, |x| f64::from((x as f32).abs() + 1.0).acosh()),
        wide!("atanh(a * 0.2)", 5, |x| f64::from((x as f32) * 0.2).atanh()),
        close("pow(abs(a), b)", 16, |a, b, _| (f64::from(f(a).abs()).powf(f64::from(f(b))) as f32).to_bits()),
        close("atan2(a, b)", 6, |a, b, _| (f64::from(f(a)).atan2(f64::from(f(b))) as f32).to_bits()),
        scalar("dot(vec3(a, b, c), vec3(b, c, a))", |a, b, c| {
            let (a, b, c) = (f(a), f(b), f(c));
            (a * b + b * c + c * a).to_bits()
        }),
        scalar("length(vec4(a, b, c, a))", |a, b, c| {
            let (a, b, c) = (f(a), f(b), f(c));
            (a * a + b * b + c * c + a * a).sqrt().to_bits()
        }),
        scalar("distance(vec2(a, b), vec2(c, a))", |a, b, c| {
            let (x, y) = (f(a) - f(c), f(b) - f(a));
            (x * x + y * y).sqrt().to_bits()
        }),
        scalar("normalize(vec2(a, b)).y", |a, b, _| (f(b) / (f(a) * f(a) + f(b) * f(b)).sqrt()).to_bits()),
        scalar("cross(vec3(a, b, c), vec3(b, c, a)).z", |a, b, c| (f(a) * f(c) - f(b) * f(b)).to_bits()),
        scalar("reflect(vec2(a, b), vec2(b, c)).x", |a, b, c| {
            let d = 2.0 * (f(b) * f(a) + f(c) * f(b));
            (f(a) - d * f(b)).to_bits()
        }),
        scalar("faceForward(vec2(a, b), vec2(b, c), vec2(c, a)).y", |a, b, c| {
            let front = f(b) * f(c) + f(c) * f(a) < 0.0;
            (if front { f(b) } else { -f(b) }).to_bits()
        }),
        scalar("refract(vec2(a, b), vec2(b, c), 0.5).x", |a, b, c| {
            let d = f(b) * f(a) + f(c) * f(b);
            let k = 1.0 - 0.5 * 0.5 * (1.0 - d * d);
            (if k < 0.0 { 0.0 } else { 0.5 * f(a) - (0.5 * d + k.sqrt()) * f(b) }).to_bits()
        }),
        scalar("modf(a).fract + modf(a).whole * 2.0", |a, _, _| {
            (f(a).fract() + f(a).trunc() * 2.0).to_bits()
        }),
        close("modf(a).whole", 0, |a, _, _| f(a).trunc().to_bits()),
        close("frexp(a).fract", 0, |a, _, _| {
            let x = f(a);
            let exponent = ((a >> 23) & 0xff) as i32 - 126;
            (if x == 0.0 { x } else { (f64::from(x) * 2_f64.powi(-exponent)) as f32 }).to_bits()
        }),
        scalar(
            "frexp(a).exp",
            |a, _, _| if f(a) == 0.0 { 0 } else { (((a >> 23) & 0xff) as i32 - 126) as u32 },
        ),
    ];
    for device in runners() {
        check(device, "f32", &triples(&moderate()), cases);
    }
}

#[test]
fn packing() {
    // CUDA source has PTX instructions here, which this CPU has not.
    fn half(bits: u32) -> u32 {
        u32::from(half::f16::from_f32(f(bits)).to_bits())
    }
    fn norm(bits: u32, low: f32, scale: f32) -> u32 {
        (0.5 + scale * f(bits).max(low).min(1.0)).floor() as i32 as u32
    }
    let cases: &[Case] = &[
        scalar("pack2x16float(vec2(a, b))", |a, b, _| half(a) | half(b) << 16),
        close("quantizeToF16(a)", 0, |a, _, _| half::f16::from_f32(f(a)).to_f32().to_bits()),
        scalar("pack4x8snorm(vec4(a, b, c, a))", |a, b, c| {
            u32::from_le_bytes([a, b, c, a].map(|x| norm(x, -1.0, 127.0) as u8))
        }),
        scalar("pack4x8unorm(vec4(a, b, c, a))", |a, b, c| {
            u32::from_le_bytes([a, b, c, a].map(|x| norm(x, 0.0, 255.0) as u8))
        }),
        scalar("pack2x16snorm(vec2(a, b))", |a, b, _| {
            norm(a, -1.0, 32767.0) & 0xffff | (norm(b, -1.0, 32767.0) & 0xffff) << 16
        }),
        scalar("pack2x16unorm(vec2(a, b))", |a, b, _| {
            norm(a, 0.0, 65535.0) & 0xffff | (norm(b, 0.0, 65535.0) & 0xffff) << 16
        }),
    ];
    // NaNs have no one result in these functions.
    let finite: Vec<_> = values().into_iter().chain(moderate()).filter(|bits| !f(*bits).is_nan()).collect();
    if let Some(device) = device() {
        check(device, "f32", &triples(&finite), cases);
    }

    let unpack: &[Case] = &[
        close("unpack2x16float(a).x", 0, |a, _, _| half::f16::from_bits(a as u16).to_f32().to_bits()),
        close("unpack2x16float(a).y", 0, |a, _, _| half::f16::from_bits((a >> 16) as u16).to_f32().to_bits()),
        close("unpack4x8snorm(a).z", 0, |a, _, _| {
            (f32::from(a.to_le_bytes()[2] as i8) / 127.0).max(-1.0).to_bits()
        }),
        close("unpack4x8unorm(a).w", 0, |a, _, _| (f32::from(a.to_le_bytes()[3]) / 255.0).to_bits()),
        close("unpack2x16snorm(a).x", 0, |a, _, _| {
            (f32::from(a as u16 as i16) / 32767.0).max(-1.0).to_bits()
        }),
        close("unpack2x16unorm(a).y", 0, |a, _, _| (f32::from((a >> 16) as u16) / 65535.0).to_bits()),
    ];
    let unpack: Vec<_> = unpack.iter().map(|case| Case { vectors: false, ..*case }).collect();
    let words: Vec<_> =
        (0..=0xffff_u32).step_by(13).map(|x| [x | (x.wrapping_mul(40503) << 16), 0, 0]).collect();
    if let Some(device) = device() {
        check(device, "u32", &words, &unpack);
    }
}

/// Doubles from two words each, results folded into one.
#[test]
fn doubles() {
    let prelude = "fn x(v: u32) -> f64 { return bitcast<f64>((u64(v) << 32u) | u64(v * 2654435761u)); }
        fn fold(v: f64) -> u32 { let bits = bitcast<u64>(v); return u32(bits) ^ (u32(bits >> 32u) * 5u); }";
    fn x(v: u32) -> f64 {
        f64::from_bits((u64::from(v) << 32) | u64::from(v.wrapping_mul(2_654_435_761)))
    }
    fn fold(v: f64) -> u32 {
        (v.to_bits() as u32) ^ ((v.to_bits() >> 32) as u32).wrapping_mul(5)
    }
    let cases: &[Case] = &[
        scalar("fold(x(a) + x(b))", |a, b, _| fold(x(a) + x(b))),
        scalar("fold(x(a) * x(b) - x(c))", |a, b, c| fold(x(a) * x(b) - x(c))),
        scalar("fold(x(a) / x(b))", |a, b, _| fold(x(a) / x(b))),
        scalar("fold(fma(x(a), x(b), x(c)))", |a, b, c| fold(x(a).mul_add(x(b), x(c)))),
        scalar("fold(sqrt(abs(x(a))))", |a, _, _| fold(x(a).abs().sqrt())),
        scalar("bitcast<u32>(f32(x(a)))", |a, _, _| (x(a) as f32).to_bits()),
        scalar("fold(f64(f32(x(a))) * 0.1lf)", |a, _, _| fold(f64::from(x(a) as f32) * 0.1)),
        scalar("bitcast<u32>(i32(x(a)))", |a, _, _| x(a) as i32 as u32),
        scalar("u32(x(a))", |a, _, _| x(a) as u32),
        scalar("fold(round(x(a)) + floor(x(b)))", |a, b, _| fold(x(a).round_ties_even() + x(b).floor())),
    ];
    // High words of doubles that are neither NaNs nor so far apart that all is lost.
    let values = [
        0x3ff0_0000,
        0xbff8_0000,
        0x4012_3456,
        0xc0ab_cdef,
        0x3fb9_9999,
        0x4180_0001,
        0x41df_ffff,
        0xc1e0_0000,
    ];
    for device in runners() {
        support::table::check_with(device, prelude, "u32", &triples(&values), cases);
    }
}
