//! Machines without OpenCL, or with a part of it, played by environments of child processes.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

/// Set in child processes.
const CHILD: &str = "RUSTORCH_TEST_OPENCL_CHILD";

/// Runs in child processes only: prints what is found.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    // Twice, since the library is looked for once.
    rustorch_opencl::discover();
    let found = rustorch_opencl::discover();
    for candidate in &found.devices {
        println!("device: {}", candidate.hardware().name);
        if let Err(fault) = candidate.open_with(None) {
            println!("does not open: {fault}");
        }
    }
    for reason in &found.missing {
        println!("missing: {reason}");
    }
    println!("no panic");
}

/// What a child finds in an environment.
#[allow(clippy::print_stdout, reason = "shown when a test fails")]
fn found(variables: &[(&str, &Path)]) -> String {
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.args(["child", "--exact", "--nocapture"]).env(CHILD, "1");
    for (name, value) in variables {
        command.env(name, value);
    }
    let output = command.output().expect("a test can run itself");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("no panic"));
    text
}

#[test]
fn a_machine_without_the_library() {
    // Libraries that are empty files hide those of the system.
    let folder = tempfile::tempdir().unwrap();
    for name in ["libOpenCL.so.1", "libOpenCL.so"] {
        std::fs::write(folder.path().join(name), b"").unwrap();
    }
    let text = found(&[("LD_LIBRARY_PATH", folder.path())]);
    assert!(!text.contains("device:"));
    assert!(
        text.contains("missing: the OpenCL library is not found (") && text.contains("ocl-icd-libopencl1")
    );
}

#[test]
fn a_machine_with_another_library() {
    let libc = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6", "/lib64/libm.so.6"];
    let Some(other) = libc.iter().map(Path::new).find(|path| path.exists()) else {
        println!("skipped: no library to take for OpenCL's");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(other, folder.path().join("libOpenCL.so.1")).unwrap();
    let text = found(&[("LD_LIBRARY_PATH", folder.path())]);
    assert!(!text.contains("device:"));
    assert!(text.contains("missing: libOpenCL.so.1 has no function clGetPlatformIDs"));
}

#[test]
fn a_machine_without_drivers() {
    if rustorch_opencl::discover().devices.is_empty() {
        println!("skipped: there is no OpenCL to take away");
        return;
    }
    let text = found(&[("OCL_ICD_VENDORS", Path::new("/nonexistent"))]);
    assert!(!text.contains("device:"));
    assert!(text.contains("missing: ") && text.contains("pocl-opencl-icd"));
}

#[test]
fn this_machine() {
    let text = found(&[]);
    assert!(text.contains("device:") || text.contains("missing:"));
    assert!(!text.contains("does not open"));
}
