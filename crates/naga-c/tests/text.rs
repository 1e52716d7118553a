//! The text for both dialects, compared with files. `UPDATE_EXPECTED=1` writes them anew.

mod support;

use naga_c::Dialect;

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
fn matrix_product() {
    compare("matmul");
}

#[test]
fn layouts_and_control_flow() {
    compare("layout");
}
