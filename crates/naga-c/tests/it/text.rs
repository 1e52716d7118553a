//! The source for both dialects, compared with files. `UPDATE_EXPECTED=1` writes them anew.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common as support;
use naga_c::{Dialect, Options};

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
