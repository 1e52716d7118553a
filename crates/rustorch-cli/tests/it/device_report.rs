//! The program says which devices compute, and what went wrong with them.

#[cfg(unix)]
use crate::common::terminal::Terminal;
use crate::common::{MODEL, Run, run_where, succeed, succeed_json};
use rustorch_testkit::{Requirement, skip};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A model with a matrix in every third block type, of which devices lack some.
const EVERY_TYPE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../rustorch-llm/tests/fixtures/block_models/iq.gguf");
const ONE_TOKEN: [&str; 6] = ["--raw", "--temp", "0", "-n", "1", "-p"];

/// Whether there is a device of a kind; skips where there is none.
fn is_here(kind: &str) -> bool {
    let devices = succeed_json(&["devices", "--json"]);
    let here = devices.as_array().expect("a list").iter().any(|row| row["device"] == format!("{kind}:0"));
    if !here {
        let requirement = if kind == "vulkan" { Requirement::Vulkan } else { Requirement::OpenCl };
        skip(requirement, format!("there is no device of {kind}"));
    }
    here
}

/// What `-v` says about devices when a token is generated with these options.
fn device_line(args: &[&str]) -> String {
    let run = run_where(&[], &[&ONE_TOKEN[..], &["x", "-v"], args].concat(), b"");
    assert_eq!(run.code, 0, "{}", run.err);
    let line = run.err.lines().find_map(|line| line.strip_prefix("device: "));
    line.unwrap_or_else(|| panic!("no device is named: {}", run.err)).to_owned()
}

#[cfg(unix)]
#[test]
fn a_chat_says_which_device_computes() {
    let mut terminal = Terminal::start(&["-m", MODEL, "-b", "cpu", "-t", "1"]);
    terminal.expect("device: cpu (");
    terminal.expect("1 threads");
    terminal.expect("> ");
    terminal.say("/stats");
    terminal.expect("device: cpu (");
    terminal.expect("context: 0 of 512 tokens");
}

#[test]
fn layers_are_counted_by_device() {
    assert!(device_line(&["-b", "cpu"]).starts_with("cpu ("));
    for kind in ["vulkan", "opencl"].into_iter().filter(|kind| is_here(kind)) {
        let all = device_line(&["-b", kind]);
        assert!(all.starts_with(&format!("{kind}:0 (")) && all.ends_with("), 5 of 5 layers"), "{all}");
        let some = device_line(&["-b", kind, "--layers-on-device", "2"]);
        let (device, cpu) = some.split_once("; ").unwrap_or_else(|| panic!("one device: {some}"));
        assert!(device.starts_with(&format!("{kind}:0 (")) && device.ends_with("), 2 of 5 layers"), "{some}");
        assert!(cpu.starts_with("cpu (") && cpu.ends_with("), 3 of 5 layers"), "{some}");
    }
}

#[test]
fn a_device_that_declines_most_of_the_work_is_named_at_the_end() {
    if !is_here("vulkan") {
        return;
    }
    let run = run_where(
        &[],
        &["-m", EVERY_TYPE, "-b", "vulkan", "--ids", "--temp", "0", "-n", "2", "-p", "1 2"],
        b"",
    );
    assert_eq!(run.code, 0, "{}", run.err);
    let last = run.err.lines().last().unwrap_or_default();
    let share =
        last.strip_prefix("warning: vulkan:0 declined ").and_then(|rest| rest.split_once(" % of the work"));
    let share: u32 = share.unwrap_or_else(|| panic!("{}", run.err)).0.parse().unwrap();
    assert!((51..100).contains(&share), "{}", run.err);
    // One that computes everything is not.
    assert_eq!(
        succeed(&[&ONE_TOKEN[..], &["x", "-b", "vulkan"]].concat()),
        succeed(&[&ONE_TOKEN[..], &["x"]].concat())
    );
}

#[test]
fn a_lost_device_is_named_at_the_end() {
    let Some(run) = failing_from(300, CL_DEVICE_NOT_AVAILABLE) else { return };
    let lines: Vec<&str> = run.err.lines().filter(|line| !line.starts_with("(cut: ")).collect();
    assert_eq!(lines.len(), 2, "{}", run.err);
    assert!(lines[0].starts_with("warning: device opencl:0 is lost: "), "{}", run.err);
    assert_eq!(lines[1], "warning: opencl:0 was lost, and its work went to other devices");
}

#[test]
fn failed_operations_are_told_once_each_and_listed_at_the_end() {
    let Some(run) = failing_from(300, CL_INVALID_WORK_GROUP_SIZE) else { return };
    let mut lines: Vec<&str> = run.err.lines().filter(|line| !line.starts_with("(cut: ")).collect();
    let last = lines.pop().unwrap_or_default();
    let listed = last.strip_prefix("warning: opencl:0 failed at ");
    let listed = listed.and_then(|rest| rest.strip_suffix(", which went to other devices"));
    let listed: Vec<&str> = listed.unwrap_or_else(|| panic!("{}", run.err)).split(", ").collect();
    assert!(listed.contains(&"matmul") && listed.contains(&"attention"), "{last}");
    // Each operation is met several times in the run, and told of once.
    assert_eq!(lines.len(), listed.len(), "{}", run.err);
    for op in listed {
        let about = lines.iter().filter(|line| line.contains(&format!("op=\"{op}\"")));
        assert_eq!(about.count(), 1, "{op}: {}", run.err);
    }
}

#[test]
fn flags_and_rust_log_say_how_much_is_told() {
    const OPENCL: (&str, &str) = ("RUSTORCH_DEVICES", "opencl,cpu");
    assert_eq!(run_where(&[("RUST_LOG", "error,rustorch_wgpu=info")], &["devices"], b"").err, "");
    let wrong = run_where(&[OPENCL, ("RUST_LOG", "off,rustorch_opencl=loud")], &["devices"], b"").err;
    assert!(wrong.starts_with("warning: RUST_LOG: `rustorch_opencl=loud` is neither"), "{wrong}");
    if is_here("opencl") {
        let opened = "info: rustorch_opencl::driver: opened (";
        for run in [
            run_where(&[OPENCL], &["devices", "-v"], b""),
            run_where(&[OPENCL, ("RUST_LOG", "off,rustorch_opencl=debug")], &["devices"], b""),
        ] {
            assert!(run.err.lines().any(|line| line.starts_with(opened)), "{}", run.err);
        }
        assert_eq!(run_where(&[OPENCL], &["devices"], b"").err, "");
    }
}

// Statuses of OpenCL.
const CL_DEVICE_NOT_AVAILABLE: i32 = -2;
const CL_INVALID_WORK_GROUP_SIZE: i32 = -54;

/// Generates on an OpenCL device whose launches fail from one on, and checks that the CPU takes over; `None`, with a message, where there is no
/// such device, no C compiler, or an OpenCL loader without layers.
fn failing_from(launch: usize, status: i32) -> Option<Run> {
    if !is_here("opencl") {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let layer = fault_layer(folder.path())?;
    let mark = folder.path().join("mark");
    let variables = [
        ("OPENCL_LAYERS", layer.to_str().expect("temporary folders have plain names")),
        ("FAULT_MARK", mark.to_str().expect("temporary folders have plain names")),
        ("FAULT_FROM", &launch.to_string()),
        ("FAULT_STATUS", &status.to_string()),
    ];
    let args = ["--raw", "--temp", "0", "-n", "8", "-p", "KING RICHARD III:\n"];
    let run = run_where(&variables, &[&args[..], &["-b", "opencl"]].concat(), b"");
    if !mark.exists() {
        skip(Requirement::Feature, "this OpenCL loader has no layers");
        return None;
    }
    assert_eq!((run.code, run.out.as_str()), (0, succeed(&args).as_str()), "{}", run.err);
    Some(run)
}

/// The library of `fault_layer.c`.
fn fault_layer(folder: &Path) -> Option<PathBuf> {
    let library = folder.join("libfault_layer.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fault_layer.c");
    let mut compile = Command::new("cc");
    let Ok(output) = compile.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).output() else {
        skip(Requirement::Cc, "there is no cc");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(library)
}
