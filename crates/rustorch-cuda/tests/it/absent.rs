//! Machines without NVIDIA's libraries, or with a part of them.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests")]

use crate::common::fakes::{another, in_child};
use rustorch_testkit::{Requirement, skip};
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
fn hiding(names: &[impl AsRef<str>]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        std::fs::write(folder.path().join(name.as_ref()), b"").unwrap();
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
    let folder = hiding(&names);
    let path = folder.path().to_str().unwrap();
    in_child("absent::a_machine_without_a_driver", &[("LD_LIBRARY_PATH", path)], || {
        let missing = missing();
        assert!(missing.contains("driver library (libcuda.so.1") && missing.contains("install the driver"));
    });
}

#[test]
fn a_machine_with_another_library() {
    let libraries =
        ["/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6", "/lib64/libm.so.6"];
    let Some(other) = libraries.iter().map(Path::new).find(|path| path.exists()) else {
        return skip(Requirement::System, "no library to take for NVIDIA's");
    };
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(other, folder.path().join("libcuda.so")).unwrap();
    std::os::unix::fs::symlink(other, folder.path().join("libnvrtc.so")).unwrap();
    let path = folder.path().to_str().unwrap();
    in_child("absent::a_machine_with_another_library", &[("LD_LIBRARY_PATH", path)], || {
        let missing = missing();
        assert!(missing.contains("driver has no function cuCtxEnablePeerAccess"), "{missing}");
        let nvrtc = rustorch_cuda::Nvrtc::find().unwrap_err().to_string();
        assert!(nvrtc.contains("NVRTC has no function nvrtcCompileProgram"), "{nvrtc}");
    });
}

#[test]
fn a_path_that_leads_nowhere() {
    in_child("absent::a_path_that_leads_nowhere", &[("NVRTC_PATH", "/nonexistent/libnvrtc.so.12")], || {
        let message = rustorch_cuda::Nvrtc::find().unwrap_err().to_string();
        assert!(message.contains("NVRTC_PATH is /nonexistent/libnvrtc.so.12"), "{message}");
    });
}

/// Of NVRTC, all names that the system knows, as empty files.
fn without_nvrtc() -> tempfile::TempDir {
    hiding(&["", ".13", ".12", ".11.2", ".11", ".10", ".9", ".1"].map(|end| format!("libnvrtc.so{end}")))
}

fn version() -> (i32, i32) {
    rustorch_cuda::Nvrtc::find().unwrap().version()
}

#[test]
fn the_users_nvrtc_counts_and_not_the_systems() {
    let Some(system) = another("nvrtc", 1300, "libnvrtc.so") else { return };
    let users = another("nvrtc", 1208, "libnvrtc.so.12").unwrap();
    let [system, users] = [&system, &users].map(|folder| folder.path().to_str().unwrap());
    let variables = [("LD_LIBRARY_PATH", system), ("NVRTC_PATH", users)];
    in_child("absent::the_users_nvrtc_counts_and_not_the_systems", &variables, || {
        assert_eq!(version(), (12, 8))
    });
}

#[test]
fn an_nvrtc_under_any_name_is_taken_from_its_file() {
    let Some(users) = another("nvrtc", 1206, "nvrtc64_120_0.dll") else { return };
    let (file, none) = (users.path().join("nvrtc64_120_0.dll"), without_nvrtc());
    let [file, none] = [&*file, none.path()].map(|path| path.to_str().unwrap());
    let variables = [("LD_LIBRARY_PATH", none), ("NVRTC_PATH", file)];
    in_child("absent::an_nvrtc_under_any_name_is_taken_from_its_file", &variables, || {
        assert_eq!(version(), (12, 6));
    });
}

#[test]
fn an_nvrtc_of_cuda_11_is_found() {
    let Some(folder) = another("nvrtc", 1108, "libnvrtc.so.11.2") else { return };
    let none = without_nvrtc();
    let path = format!("{}:{}", folder.path().display(), none.path().display());
    in_child("absent::an_nvrtc_of_cuda_11_is_found", &[("LD_LIBRARY_PATH", &path)], || {
        assert_eq!(version(), (11, 8));
    });
}
