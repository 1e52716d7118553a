//! The source for both dialects, compared with files. `UPDATE_EXPECTED=1` writes them anew.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common as support;
use naga_c::{Dialect, Intrinsic, Options};

fn compare(name: &str) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/expected");
    let wgsl = std::fs::read_to_string(format!("{folder}/{name}.wgsl")).unwrap();
    for (dialect, extension) in [(Dialect::OpenCl, "cl"), (Dialect::Cuda, "cu")] {
        let path = format!("{folder}/{name}.{extension}");
        let text = support::written(&wgsl, dialect).source;
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, expected, "{path} differs: look at the change, then run with UPDATE_EXPECTED=1");
    }
}

#[test]
fn matmul() {
    compare("matmul");
}

#[test]
fn layouts_and_control_flow() {
    compare("layout");
}

#[test]
fn subgroups() {
    compare("subgroups");
    let wgsl = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/expected/subgroups.wgsl"));
    let output = support::written(&wgsl.unwrap(), Dialect::OpenCl);
    assert!(output.subgroups);
    assert_eq!(output.extensions, ["cl_khr_subgroup_shuffle", "cl_khr_subgroup_shuffle_relative"]);
    let sum = "enable wgpu_int16;
        @group(0) @binding(0) var<storage, read_write> x: array<i16>;
        @compute @workgroup_size(64) fn f(@builtin(local_invocation_index) i: u32) {
            x[i] = subgroupAdd(x[i]) + i16(subgroupAnd(u32(x[i]))) + i16(subgroupBallot(x[i] > 0).x);
        }";
    let output = support::written(sum, Dialect::OpenCl);
    let extensions = [
        "cl_khr_subgroup_ballot",
        "cl_khr_subgroup_extended_types",
        "cl_khr_subgroup_non_uniform_arithmetic",
    ];
    assert_eq!((output.subgroups, &output.extensions[..]), (true, &extensions[..]));
    assert!(support::written(sum, Dialect::Cuda).extensions.is_empty());
}

#[test]
fn options() {
    let wgsl = "
        @group(0) @binding(0) var<storage, read_write> x: array<f32>;
        var<workgroup> tile: array<f32, 4>;
        @compute @workgroup_size(4) fn f(@builtin(local_invocation_index) i: u32) { tile[i] = x[i]; x[i] = tile[3u - i]; }";
    let (module, info) = support::module(wgsl);
    let text = |options: Options| naga_c::write(&module, &info, Some("f"), &options).unwrap().source;
    for (dialect, restrict) in [(Dialect::OpenCl, "restrict"), (Dialect::Cuda, "__restrict__")] {
        let usual = Options::new(dialect);
        assert!(text(usual).contains("tile.inner[nc_i] = 0.0f;"));
        assert!(text(usual).contains(restrict));
        assert!(!text(Options { zero_workgroup: false, ..usual }).contains("nc_i"));
        assert!(!text(Options { restrict: false, ..usual }).contains(restrict));
        // Sizes are only asked for where they are used.
        assert_eq!(text(Options { buffer_sizes: true, ..usual }), text(usual));
    }
}

#[test]
fn functions_become_instructions() {
    let wgsl = "
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        fn sum(a1: u32, b: u32) -> u32 { return a1 + b; }
        fn other(a: u32) -> u32 { return a * 2u; }
        @compute @workgroup_size(1) fn f() { x[0] = sum(x[1], other(x[2])); }";
    let (module, info) = support::module(wgsl);
    const SUM: &[Intrinsic] = &[Intrinsic {
        name: "sum",
        condition: "__CUDA_ARCH__ >= 200",
        body: "$result r; asm(\"add.u32 %0, %1, %2;\" : \"=r\"(r) : \"r\"($0), \"r\"($1)); return r;",
    }];
    let options = Options { intrinsics: SUM, ..Options::new(Dialect::Cuda) };
    let text = naga_c::write(&module, &info, Some("f"), &options).unwrap().source;
    let plain = naga_c::write(&module, &info, Some("f"), &Options::new(Dialect::Cuda)).unwrap().source;
    let argument = plain.split("u32 sum(u32 ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    let instruction = format!(
        "#if __CUDA_ARCH__ >= 200\nu32 r; asm(\"add.u32 %0, %1, %2;\" : \"=r\"(r) : \"r\"({argument}), \"r\"(b)); return r;\n#else\n"
    );
    assert!(text.contains(&instruction), "{text}");
    // The function's own body stays for other devices, and nothing else changes.
    assert_eq!(text.replacen(&instruction, "", 1).replacen("#endif\n", "", 1), plain);
}
