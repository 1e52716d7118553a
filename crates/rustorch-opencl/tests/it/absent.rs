//! Machines without OpenCL, or with a part of it, played by environments of child processes.

use rustorch_testkit::{Requirement, in_child, is_child, skip};
use std::path::Path;
use std::process::Command;

/// Has a child print what it finds in an environment, and checks that.
#[allow(clippy::print_stdout, reason = "shown when a test fails")]
fn found(name: &str, variables: &[(&str, &Path)], check: impl FnOnce(&str)) {
    let prepare = |command: &mut Command| {
        command.envs(variables.iter().copied());
    };
    let said = in_child(name, prepare, || {
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
    });
    if let Some(said) = said {
        println!("{said}");
        check(&said);
    }
}

#[test]
fn a_machine_without_the_library() {
    // Libraries that are empty files hide those of the system.
    let folder = tempfile::tempdir().unwrap();
    for name in ["libOpenCL.so.1", "libOpenCL.so"] {
        std::fs::write(folder.path().join(name), b"").unwrap();
    }
    found("absent::a_machine_without_the_library", &[("LD_LIBRARY_PATH", folder.path())], |text| {
        assert!(!text.contains("device:"));
        assert!(text.contains("missing: the OpenCL library is not found ("));
        assert!(text.contains("ocl-icd-libopencl1"));
    });
}

#[test]
fn a_machine_with_another_library() {
    let libc = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6", "/lib64/libm.so.6"];
    let Some(other) = libc.iter().map(Path::new).find(|path| path.exists()) else {
        return skip(Requirement::System, "no library to take for OpenCL's");
    };
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(other, folder.path().join("libOpenCL.so.1")).unwrap();
    found("absent::a_machine_with_another_library", &[("LD_LIBRARY_PATH", folder.path())], |text| {
        assert!(!text.contains("device:"));
        assert!(text.contains("missing: libOpenCL.so.1 has no function clGetPlatformIDs"));
    });
}

#[test]
fn a_machine_without_drivers() {
    let name = "absent::a_machine_without_drivers";
    if !is_child(name) && rustorch_opencl::discover().devices.is_empty() {
        return skip(Requirement::OpenCl, "there is no device to take away");
    }
    found(name, &[("OCL_ICD_VENDORS", Path::new("/nonexistent"))], |text| {
        assert!(!text.contains("device:"));
        assert!(text.contains("missing: ") && text.contains("pocl-opencl-icd"));
    });
}

#[test]
fn this_machine() {
    found("absent::this_machine", &[], |text| {
        assert!(text.contains("device:") || text.contains("missing:"));
        assert!(!text.contains("does not open"));
    });
}
