//! Every function on every type that has it, and shaders of all kinds, through the compilers that are installed.

#![allow(clippy::print_stdout, reason = "says what is skipped")]

use crate::common as support;
use crate::common::nvrtc::{Nvrtc, nvrtc};
use crate::common::opencl::device;
use naga_c::Dialect;

/// Compiles a shader with both compilers, as far as they are there.
fn compile(what: &str, wgsl: &str, nvrtc: Option<&Nvrtc>) {
    let opencl = support::written(wgsl, Dialect::OpenCl);
    match device() {
        Some(device) if device.can_run(&opencl) => {
            device.compile(&opencl).unwrap_or_else(|log| panic!("{what}: {log}"));
        }
        Some(_) => {
            println!("{what}: not compiled for OpenCL, the device lacks one of {:?}", opencl.extensions)
        }
        None => {}
    }
    let cuda = support::written(wgsl, Dialect::Cuda);
    if let Some(nvrtc) = nvrtc {
        // The source is the same for both.
        let architectures: &[&str] = match std::env::var("RUSTORCH_CONFORMANCE").as_deref() {
            Ok("all") => &["sm_80", "sm_90"],
            _ => &["sm_90"],
        };
        for architecture in architectures {
            nvrtc
                .compile_and_assemble(&cuda.source, architecture, Dialect::Cuda.compiler_flags())
                .unwrap_or_else(|log| panic!("{what}: {log}"));
        }
    }
}

/// A kernel that stores the values of expressions of `a`, `b`, `c` of a type.
fn expressions(enable: &str, ty: &str, expressions: &[String]) -> String {
    let mut text = format!(
        "{enable}
        @group(0) @binding(0) var<storage, read> input: array<{ty}>;
        @group(0) @binding(1) var<storage, read_write> output: array<{ty}>;
        @group(0) @binding(2) var<storage, read_write> flags: array<u32>;
        fn touch(v: {ty}) -> {ty} {{ return v; }}
        @compute @workgroup_size(64) fn every(@builtin(global_invocation_id) id: vec3<u32>) {{
            let a = input[id.x]; let b = input[id.x + 1u]; let c = input[id.x + 2u]; let u = id.y;\n"
    );
    for expression in expressions {
        text += &format!("            {expression}\n");
    }
    text + "}"
}

fn sizes(scalar: &str) -> Vec<(String, u32)> {
    let vectors = match std::env::var("RUSTORCH_CONFORMANCE").as_deref() {
        Ok("all") => 2..=4,
        // Of three, which lie otherwise in memory.
        _ => 3..=3,
    };
    let mut types = vec![(scalar.to_string(), 1)];
    types.extend(vectors.map(|n| (format!("vec{n}<{scalar}>"), n)));
    types
}

#[test]
fn floats() {
    let nvrtc = nvrtc();
    for (scalar, enable) in [("f32", ""), ("f16", "enable f16;"), ("f64", "")] {
        for (ty, size) in sizes(scalar) {
            let mut list = Vec::new();
            let unary = [
                "abs",
                "ceil",
                "floor",
                "round",
                "trunc",
                "fract",
                "sqrt",
                "inverseSqrt",
                "exp",
                "exp2",
                "log",
                "log2",
                "sin",
                "cos",
                "tan",
                "asin",
                "acos",
                "atan",
                "sinh",
                "cosh",
                "tanh",
                "asinh",
                "acosh",
                "atanh",
                "sign",
                "saturate",
                "degrees",
                "radians",
                "touch",
                "-",
            ];
            list.extend(unary.iter().map(|name| format!("output[u] = {name}(a);")));
            for name in ["min", "max", "pow", "atan2", "step"] {
                list.push(format!("output[u] = {name}(a, b);"));
            }
            for name in ["clamp", "fma", "mix", "smoothstep"] {
                list.push(format!("output[u] = {name}(a, b, c);"));
            }
            for op in ["+", "-", "*", "/", "%"] {
                list.push(format!("output[u] = a {op} b;"));
            }
            list.push("{ let parts = modf(a); output[u] = parts.fract + parts.whole; }".into());
            let exponent = if size == 1 { "i32".to_string() } else { format!("vec{size}<i32>") };
            list.push(format!(
                "{{ let parts = frexp(a); output[u] = ldexp(parts.fract, {exponent}(parts.exp)); }}"
            ));
            list.push(format!("output[u] = {ty}();"));
            list.push(format!("var v = array<{ty}, 5>(a, b, c, a, b); v[u] = c; output[u] = v[u + 1u];"));
            for to in ["i32", "u32", "i64", "u64", "f32", "f16", "f64", "bool"] {
                if to == "f16" && enable.is_empty() {
                    continue;
                }
                let to = if size == 1 { to.to_string() } else { format!("vec{size}<{to}>") };
                list.push(format!("output[u] = {ty}({to}(a));"));
            }
            if size == 1 {
                for op in ["==", "!=", "<", "<=", ">", ">="] {
                    list.push(format!("output[u] = select(a, b, a {op} c);"));
                }
                list.push("output[u] = length(a) + distance(a, b);".into());
            } else {
                for op in ["==", "!=", "<", "<=", ">", ">="] {
                    list.push(format!("output[u] = select(a, b, a {op} c); flags[u] = u32(all(a {op} b)) + u32(any(a {op} c));"));
                }
                list.push(format!(
                    "output[u] = {ty}(length(a), distance(a, b){});",
                    ", dot(a, b)".repeat(size as usize - 2)
                ));
                list.push(
                    "output[u] = normalize(a); output[u] = faceForward(a, b, c); output[u] = reflect(a, b);"
                        .into(),
                );
                list.push("output[u] = refract(a, b, c.x); output[u] = mix(a, b, c.y); output[u] = a * b.x; output[u] = b.y * a;".into());
                list.push(
                    "output[u].y = a[u]; output[u][id.z] = 2.0; output[u] = a.yxyx.".to_string()
                        + &"xyzw"[..size as usize]
                        + ";",
                );
                list.push(
                    "var w = a; w[id.z] = b.x; w.y = w[id.x]; output[u] = w; w += a; output[u] = w;".into(),
                );
            }
            if size == 3 {
                list.push("output[u] = cross(a, b);".into());
            }
            compile(&ty, &expressions(enable, &ty, &list), nvrtc.as_ref());
        }
    }
}

#[test]
fn integers() {
    let nvrtc = nvrtc();
    for scalar in ["i16", "u16", "i32", "u32", "i64", "u64"] {
        let short = scalar.ends_with("16");
        let enable = if short { "enable f16; enable wgpu_int16;" } else { "" };
        for (ty, size) in sizes(scalar) {
            let signed = scalar.starts_with('i');
            let shift = if size == 1 { "u".to_string() } else { format!("vec{size}(u)") };
            let mut list = Vec::new();
            let unary = [
                "abs",
                "countOneBits",
                "countLeadingZeros",
                "countTrailingZeros",
                "reverseBits",
                "firstLeadingBit",
                "firstTrailingBit",
                "touch",
                "~",
            ];
            list.extend(unary.iter().map(|name| format!("output[u] = {name}(a);")));
            if signed {
                list.push("output[u] = -a; output[u] = sign(a);".into());
            }
            for op in ["+", "-", "*", "/", "%", "&", "|", "^"] {
                list.push(format!("output[u] = a {op} b;"));
            }
            list.push(format!("output[u] = a << {shift}; output[u] = a >> {shift};"));
            list.push("output[u] = min(a, b); output[u] = max(a, b); output[u] = clamp(a, b, c);".into());
            list.push(
                "output[u] = extractBits(a, id.x, id.y); output[u] = insertBits(a, b, id.x, id.y);".into(),
            );
            for to in ["i32", "u32", "i64", "u64", "f32", "f64", "bool"] {
                let to = if size == 1 { to.to_string() } else { format!("vec{size}<{to}>") };
                list.push(format!("output[u] = {ty}({to}(a));"));
            }
            let float = match &scalar[1..] {
                "64" => "f64",
                "16" => "f16",
                _ => "f32",
            };
            let bits = if size == 1 { float.to_string() } else { format!("vec{size}<{float}>") };
            list.push(format!("output[u] = bitcast<{ty}>(bitcast<{bits}>(a));"));
            for op in ["==", "!=", "<", "<=", ">", ">="] {
                list.push(format!("output[u] = select(a, b, a {op} c);"));
            }
            if size > 1 {
                list.push("output[u] = a * dot(a, b); output[u].x = a[u]; output[u][id.z] = b.y;".into());
            }
            compile(&ty, &expressions(enable, &ty, &list), nvrtc.as_ref());
        }
    }
}

#[test]
fn files() {
    let nvrtc = nvrtc();
    for folder in ["expected", "shaders"] {
        let folder = format!("{}/tests/{folder}", env!("CARGO_MANIFEST_DIR"));
        let mut paths: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "wgsl"))
        {
            let wgsl = std::fs::read_to_string(path).unwrap();
            compile(&path.display().to_string(), &wgsl, nvrtc.as_ref());
        }
    }
}

/// With the recommended flags NVRTC fuses nothing but what asks for it.
#[test]
fn nothing_is_fused() {
    let Some(nvrtc) = nvrtc() else { return };
    let wgsl = "@group(0) @binding(0) var<storage, read_write> x: array<f32>;
        @group(0) @binding(1) var<storage, read_write> v: array<vec4<f32>>;
        @compute @workgroup_size(64) fn f(@builtin(global_invocation_id) id: vec3<u32>) {
            x[id.x] = x[id.x + 1u] * x[id.x + 2u] + x[id.x + 3u];
            v[id.x] = mix(v[id.x], v[id.y], v[id.z]) * v[0] + v[1] + dot(v[id.x], v[2]);
        }";
    let flags = Dialect::Cuda.compiler_flags();
    let ptx = nvrtc.compile(&support::written(wgsl, Dialect::Cuda).source, "sm_80", flags).unwrap();
    assert!(ptx.contains("mul.rn.f32") && ptx.contains("add.rn.f32"), "{ptx}");
    assert!(!ptx.contains("fma.rn"), "{ptx}");
    // Vectors of four are one access to memory.
    assert!(ptx.contains("ld.global.v4.f32"), "{ptx}");
    let fused = wgsl.replace(
        "x[id.x + 1u] * x[id.x + 2u] + x[id.x + 3u]",
        "fma(x[id.x + 1u], x[id.x + 2u], x[id.x + 3u])",
    );
    let ptx = nvrtc.compile(&support::written(&fused, Dialect::Cuda).source, "sm_80", flags).unwrap();
    assert_eq!(ptx.matches("fma.rn.f32").count(), 1, "{ptx}");
}
