//! A machine with none of Vulkan, OpenCL and CUDA: the program starts, computes on the CPU, and says what is missing
//! and how to get it.
//!
//! Played in two ways. Drivers are missing: the variables that say where they are name a path that leads nowhere. Libraries
//! are missing: empty files, found first, hide those of the system. Where OpenCL's is not installed at all, the
//! program says so both times.

use crate::common::{Run, ids, program, reference};
use serde_json::Value;
use std::process::Stdio;
use tempfile::TempDir;

/// Where no driver is.
const NOWHERE: &str = "/nonexistent";

/// Names under which the libraries of Vulkan, OpenCL, CUDA, NVRTC and NVML are looked for.
fn libraries() -> Vec<String> {
    let mut names: Vec<String> = ["libvulkan.so", "libOpenCL.so", "libnvidia-ml.so"]
        .iter()
        .flat_map(|n| [format!("{n}.1"), (*n).into()])
        .collect();
    for name in ["libcuda.so", "libnvcuda.so", "libnvrtc.so"] {
        names.push(name.into());
        names.extend(["1", "9", "10", "11", "12", "13"].map(|version| format!("{name}.{version}")));
    }
    names
}

/// A machine, as far as the program can see it.
struct Machine {
    variables: Vec<(&'static str, String)>,
    _folder: Option<TempDir>,
}

impl Machine {
    /// The libraries are as they are, but no driver is for them.
    fn without_drivers() -> Machine {
        let names = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"];
        let mut machine = Machine::without_libraries();
        // CUDA has no such variable: its library is hidden.
        let folder = machine._folder.as_ref().expect("this machine has one").path();
        for name in ["libvulkan.so.1", "libvulkan.so", "libOpenCL.so.1", "libOpenCL.so"] {
            std::fs::remove_file(folder.join(name)).expect("it was made just now");
        }
        machine.variables.extend(names.map(|name| (name, NOWHERE.to_owned())));
        machine
    }

    /// Nothing is installed.
    fn without_libraries() -> Machine {
        let folder = tempfile::tempdir().expect("a folder");
        for name in libraries() {
            std::fs::write(folder.path().join(name), b"").expect("a file");
        }
        let path = folder.path().to_str().expect("temporary folders have plain names").to_owned();
        Machine { variables: vec![("LD_LIBRARY_PATH", path)], _folder: Some(folder) }
    }

    fn run(&self, args: &[&str]) -> Run {
        let mut command = program();
        for name in
            ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES", "OCL_ICD_VENDORS", "NVRTC_PATH"]
        {
            command.env_remove(name);
        }
        // What the machine has measured before must not matter.
        command.env("RUSTORCH_CACHE_DIR", "").envs(self.variables.iter().map(|(name, value)| (name, value)));
        let output = command.args(args).stdin(Stdio::null()).output().expect("the program starts");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let run = Run {
            code: output.status.code().unwrap_or_else(|| panic!("{args:?} was killed: {}", output.status)),
            out: text(output.stdout),
            err: text(output.stderr),
        };
        assert!(!run.err.contains("panicked"), "{args:?}: {}", run.err);
        run
    }
}

fn machines() -> [Machine; 2] {
    [Machine::without_drivers(), Machine::without_libraries()]
}

/// Each family, and what is said of it where its driver and where its library is missing: what is missing, and how to get it.
const MISSING: [(&str, [&[&str]; 2]); 3] = [
    (
        "vulkan",
        [
            &["Vulkan found no driver in VK_DRIVER_FILES=/nonexistent", "unset it"],
            &["Vulkan or a driver for it is not installed", "apt-get install libvulkan1 mesa-vulkan-drivers"],
        ],
    ),
    ("opencl", [&["OpenCL", "pocl-opencl-icd"], &["the OpenCL library is not found", "ocl-icd-libopencl1"]]),
    (
        "cuda",
        [
            &["driver library (libcuda.so.1", "install the driver"],
            &["driver library (libcuda.so.1", "install the driver"],
        ],
    ),
];

/// What is said of a family on the machine of this index in [`machines`]. Where Vulkan's driver is said to be nowhere, its loader is
/// not looked for.
fn said(family: &str, says: [&'static [&'static str]; 2], machine: usize) -> &'static [&'static str] {
    // SAFETY: the name is a string that ends; the loader's initializers do nothing to this process.
    let installed = || unsafe { !libc::dlopen(c"libOpenCL.so.1".as_ptr(), libc::RTLD_LAZY).is_null() };
    if family == "opencl" && !installed() { says[1] } else { says[machine] }
}

#[test]
fn devices_says_what_is_missing_and_how_to_get_it() {
    for (i, machine) in machines().iter().enumerate() {
        let run = machine.run(&["devices"]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
        let line = |family: &str| run.out.lines().find(|line| line.starts_with(family)).unwrap_or_default();
        assert!(line("cpu").contains("GFLOP/s"), "{}", run.out);
        let rows: Value = serde_json::from_str(&machine.run(&["devices", "--json"]).out).expect("JSON");
        let rows = rows.as_array().expect("a list");
        let present: Vec<&Value> = rows.iter().filter(|row| row["present"] == true).collect();
        assert_eq!((present.len(), &present[0]["device"]), (1, &Value::from("cpu")), "{rows:?}");
        for (family, says) in MISSING {
            let row = rows.iter().find(|row| row["device"] == family).expect("every family has a row");
            for text in said(family, says, i) {
                assert!(line(family).contains("not found: ") && line(family).contains(text), "{}", run.out);
                assert!(row["reason"].as_str().expect("a reason").contains(text), "{row}");
            }
        }
    }
}

#[test]
fn text_is_generated_on_the_cpu() {
    let reference = reference();
    let case = &reference["greedy"][0];
    let prompt = case["prompt"].as_str().expect("text");
    let expected = &ids(&case["ids"])[..16];
    for machine in machines() {
        for backend in [&[][..], &["-b", "auto"], &["-b", "hybrid"], &["-b", "hybrid-f32"], &["-b", "cpu"]] {
            let args = ["--json", "--temp", "0", "-n", "16", "--raw", "--ignore-eos", "-p", prompt];
            let run = machine.run(&[&args, backend].concat());
            assert_eq!((run.code, run.err.as_str()), (0, "(cut: -n 16 tokens)\n"), "{backend:?}");
            let report: Value = serde_json::from_str(&run.out).expect("JSON");
            // With `Numerics::F32` the matmuls with weights round differently.
            if backend != ["-b", "hybrid-f32"] {
                assert_eq!(ids(&report["ids"]), expected, "{backend:?}");
            }
        }
    }
}

#[test]
fn a_device_that_is_asked_for_ends_with_4_and_the_reason() {
    for (i, machine) in machines().iter().enumerate() {
        for (family, says) in MISSING {
            for command in [&["-p", "x", "-n", "1"][..], &["bench"], &["explain"], &["plan"]] {
                let run = machine.run(&[command, &["-b", family]].concat());
                assert_eq!((run.code, run.out.as_str()), (4, ""), "{command:?} on {family}: {}", run.err);
                assert!(run.err.starts_with("error: "), "{}", run.err);
                for text in [family, "auto, hybrid, cpu"].iter().chain(said(family, says, i)) {
                    assert!(run.err.contains(text), "{family}: {}", run.err);
                }
            }
        }
        let run = machine.run(&["-p", "x", "-b", "vulkan:3"]);
        assert_eq!(run.code, 4, "{}", run.err);
    }
}
