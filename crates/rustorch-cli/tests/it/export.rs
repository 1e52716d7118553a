//! `export`: models for other runtimes. That a package decodes what llama.cpp does is asked of coremltools, by `tools/oracle/coreml/run.sh`.

use crate::common::{MODEL, fail, succeed};
use std::fs;

#[test]
fn a_package_has_the_weights_in_the_precision_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut sizes = Vec::new();
    for precision in ["f16", "f32"] {
        let path = folder.path().join(precision);
        let shown = path.to_str().unwrap();
        let text =
            succeed(&["export", "coreml", "-m", MODEL, "-o", shown, "-c", "64", "--precision", precision]);
        assert!(text.contains("10 states of f16"), "{text}");
        let data = path.join("Data/com.apple.CoreML");
        sizes.push(fs::metadata(data.join("weights/weight.bin")).unwrap().len());
        // `specification_version: 9`, the first field of the model.
        assert_eq!(fs::read(data.join("model.mlmodel")).unwrap()[..2], [0x08, 9]);
    }
    assert!(sizes[1] > sizes[0] * 19 / 10 && sizes[1] < sizes[0] * 2, "{sizes:?}");
}

#[test]
fn nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    fail(&["export", "coreml", "-m", MODEL, "-o", path, "-c", "64"], 2, &["exists; remove it"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
