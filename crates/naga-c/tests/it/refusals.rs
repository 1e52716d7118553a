//! What cannot be written, each with the error that says so.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common as support;
use naga::{BuiltIn, MathFunction, ShaderStage};
use naga_c::{Dialect, Error, Options};

fn refused(wgsl: &str, entry: Option<&str>) -> Error {
    let (module, info) = support::module(wgsl);
    let [opencl, cuda] = [Dialect::OpenCl, Dialect::Cuda]
        .map(|dialect| naga_c::write(&module, &info, entry, &Options::new(dialect)).unwrap_err());
    assert_eq!(opencl, cuda, "{wgsl}");
    opencl
}

/// A kernel with declarations before it.
fn kernel(declarations: &str, body: &str) -> String {
    format!(
        "{declarations}
        @group(0) @binding(9) var<storage, read_write> out: array<f32>;
        @compute @workgroup_size(1) fn f(@builtin(global_invocation_id) id: vec3<u32>) {{ {body} }}"
    )
}

#[test]
fn unsupported_parts() {
    let texture = "@group(0) @binding(0) var t: texture_2d<f32>;";
    let sampler = "@group(0) @binding(1) var s: sampler;";
    let storage_texture = "@group(0) @binding(0) var t: texture_storage_2d<rgba8unorm, write>;";
    let unsupported = |text: &str| Error::UnsupportedType(text.into());
    let table: &[(String, Error)] = &[
        (kernel(texture, "out[0] = textureLoad(t, id.xy, 0).x;"), unsupported("the texture `t`")),
        (kernel(texture, "out[0] = f32(textureDimensions(t).x);"), unsupported("the texture `t`")),
        (
            kernel(&format!("{texture}{sampler}"), "out[0] = textureSampleLevel(t, s, vec2(0.0), 0.0).x;"),
            unsupported("the texture `t`"),
        ),
        (kernel(storage_texture, "textureStore(t, id.xy, vec4(1.0));"), unsupported("the texture `t`")),
        (
            kernel("", "let m = mat2x2<f32>(out[0], out[1], out[2], out[3]); out[0] = (m * vec2(1.0)).x;"),
            unsupported("a matrix of 2 columns and 2 rows"),
        ),
        (
            kernel("@group(0) @binding(0) var<storage, read> m: mat4x3<f32>;", "out[0] = m[1].y;"),
            unsupported("a matrix of 4 columns and 3 rows"),
        ),
        (
            kernel(
                "struct S { m: mat3x3<f32> } @group(0) @binding(0) var<uniform> s: S;",
                "out[0] = s.m[1].y;",
            ),
            unsupported("a matrix of 3 columns and 3 rows"),
        ),
        (
            kernel("", "out[0] = determinant(mat2x2<f32>(out[0], out[1], out[2], out[3]));"),
            unsupported("a matrix of 2 columns and 2 rows"),
        ),
        (kernel("", "out[0] = f32(arrayLength(&out));"), Error::BufferSizesNeeded("out".into())),
        (kernel("override scale: f32 = 2.0;", "out[0] = scale;"), Error::UnresolvedOverride("scale".into())),
        (
            kernel("override count: u32; var<workgroup> tile: array<f32, count>;", "out[0] = tile[id.x];"),
            Error::UnresolvedOverride("count".into()),
        ),
        (
            "override size: u32 = 4; @compute @workgroup_size(size) fn f() {}".into(),
            Error::UnresolvedOverride("the workgroup size of `f`".into()),
        ),
        (
            kernel(
                "enable wgpu_ray_query; @group(0) @binding(0) var scene: acceleration_structure;",
                "var query: ray_query;
                rayQueryInitialize(&query, scene, RayDesc(0u, 255u, 0.1, 9.0, vec3(0.0), vec3(1.0)));
                rayQueryProceed(&query);",
            ),
            unsupported("the acceleration structure `scene`"),
        ),
        (
            kernel("enable wgpu_ray_query;", "var query: ray_query; rayQueryTerminate(&query);"),
            unsupported("a ray query"),
        ),
        (
            kernel("var<immediate> scale: f32;", "out[0] = scale;"),
            Error::UnsupportedAddressSpace { name: "scale".into(), space: "Immediate".into() },
        ),
        (
            kernel(
                "enable wgpu_binding_array; struct S { x: array<f32> }
                @group(0) @binding(0) var<storage, read> many: binding_array<S, 4>;",
                "out[0] = many[1].x[0];",
            ),
            unsupported("the binding array `many`"),
        ),
        (
            kernel(
                "@group(0) @binding(0) @coherent var<storage, read_write> c: array<f32>;",
                "out[0] = c[0];",
            ),
            Error::UnsupportedDecoration("c".into()),
        ),
        (
            "@compute @workgroup_size(1) fn f() { textureBarrier(); }".into(),
            Error::UnsupportedStatement("textureBarrier"),
        ),
    ];
    for (wgsl, want) in table {
        assert_eq!(refused(wgsl, None), *want, "{wgsl}");
    }
}

#[test]
fn wrong_entry_points() {
    let wgsl = "@fragment fn paint() -> @location(0) vec4<f32> { return vec4(1.0); }";
    assert_eq!(
        refused(wgsl, Some("paint")),
        Error::NotCompute { name: "paint".into(), stage: ShaderStage::Fragment }
    );
    assert_eq!(refused(wgsl, Some("other")), Error::UnknownEntryPoint("other".into()));
    assert_eq!(refused(wgsl, None), Error::NoEntryPoint);
}

/// The one function on vectors that gives a matrix, which WGSL does not have but naga has.
#[test]
fn outer_product() {
    let (mut module, info) = support::module(&kernel("", "out[0] = dot(vec2(out[1]), vec2(out[2]));"));
    let function = &mut module.entry_points[0].function;
    let dot =
        function.expressions.iter().find(|(_, e)| matches!(e, naga::Expression::Math { .. })).unwrap().0;
    let naga::Expression::Math { fun, .. } = &mut function.expressions[dot] else { unreachable!() };
    *fun = MathFunction::Outer;
    let error = naga_c::write(&module, &info, None, &Options::new(Dialect::OpenCl)).unwrap_err();
    assert_eq!(error, Error::UnsupportedMath(MathFunction::Outer));
}

/// Modules whose validation info is that of others are errors, not panics.
#[test]
fn foreign_info() {
    let (small, _) = support::module("@compute @workgroup_size(1) fn f() {}");
    let (large, info) = support::module(&kernel("", "out[0] = out[1] + out[2];"));
    for dialect in [Dialect::OpenCl, Dialect::Cuda] {
        let error = naga_c::write(&small, &info, None, &Options::new(dialect)).unwrap_err();
        assert!(matches!(error, Error::Inconsistent(_)), "{error}");
        naga_c::write(&large, &info, None, &Options::new(dialect)).unwrap();
    }
}

/// Inputs that naga allows in compute shaders are all known; those of other stages are refused.
#[test]
fn foreign_builtins() {
    let (mut module, info) = support::module(&kernel("", "out[0] = f32(id.x);"));
    module.entry_points[0].function.arguments[0].binding = Some(naga::Binding::BuiltIn(BuiltIn::VertexIndex));
    let error = naga_c::write(&module, &info, None, &Options::new(Dialect::OpenCl)).unwrap_err();
    assert_eq!(error, Error::UnsupportedBuiltIn(BuiltIn::VertexIndex));
}
