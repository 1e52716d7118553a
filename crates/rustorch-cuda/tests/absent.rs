//! Machines without NVIDIA's libraries, or with a part of them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests")]

mod common;

use common::in_child;
use std::path::Path;

/// What is missing, where no GPU can be opened.
fn missing() -> String {
    // Twice, since libraries are looked for once.
    rustorch_cuda::discover();
    let found = rustorch_cuda::discover();
    println!("{found:#?}");
    assert!(found.devices.is_empty());
    found.missing.join("\n")
}

/// A folder in which a library that is an empty file hides those of the system.
fn hiding(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        std::fs::write(folder.path().join(name), b"").unwrap();
    }
    folder
}

#[test]
fn a_machine_without_a_driver() {
    // Every name that is tried.
    let mut names = Vec::new();
    for name in ["libcuda.so", "libnvcuda.so"] {
        names.push(name.to_string());
        names.extend(["1", "9", "10", "11", "12", "13"].map(|version| format!("{name}.{version}")));
    }
    let folder = hiding(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let path = folder.path().to_str().unwrap();
    in_child("a_machine_without_a_driver", &[("LD_LIBRARY_PATH", path)], || {
        let missing = missing();
        assert!(missing.contains("driver library (libcuda.so.1") && missing.contains("install the driver"));
    });
}

#[test]
fn a_machine_with_another_library() {
    let libraries =
        ["/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6", "/lib64/libm.so.6"];
    let Some(other) = libraries.iter().map(Path::new).find(|path| path.exists()) else {
        println!("skipped: no library to take for NVIDIA's");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(other, folder.path().join("libcuda.so")).unwrap();
    std::os::unix::fs::symlink(other, folder.path().join("libnvrtc.so")).unwrap();
    let path = folder.path().to_str().unwrap();
    in_child("a_machine_with_another_library", &[("LD_LIBRARY_PATH", path)], || {
        let missing = missing();
        assert!(missing.contains("driver has no function cuCtxSetCurrent"), "{missing}");
        let nvrtc = rustorch_cuda::Nvrtc::find().unwrap_err().to_string();
        assert!(nvrtc.contains("NVRTC has no function nvrtcCompileProgram"), "{nvrtc}");
    });
}

#[test]
fn a_path_that_leads_nowhere() {
    in_child("a_path_that_leads_nowhere", &[("NVRTC_PATH", "/nonexistent/libnvrtc.so.12")], || {
        let message = rustorch_cuda::Nvrtc::find().unwrap_err().to_string();
        assert!(message.contains("NVRTC_PATH is /nonexistent/libnvrtc.so.12"), "{message}");
    });
}
