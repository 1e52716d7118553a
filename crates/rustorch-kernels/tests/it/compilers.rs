//! What wgpu makes of kernels satisfies the tools of their targets: one kernel of one kind in six, in each combination of dtypes, or
//! all with `RUSTORCH_CONFORMANCE=all`. Skips where a tool is not found. There is none for Metal outside of Apple's systems.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "these are tests; skipped ones say so")]

use crate::common::paper as common;
use crate::common::paper::kinds;
use crate::common::wgpu;
use crate::common::wgpu::{Target, Written};
use naga::back::hlsl::ShaderModel;
use rustorch_kernels::Hardware;
use rustorch_testkit::{Requirement, skip};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A program that says whether a file is valid.
struct Tool {
    name: &'static str,
    /// Words before the name of the file; `ENTRY` stands for the entry point's name.
    arguments: &'static [&'static str],
}

impl Tool {
    /// The tool, if it is installed.
    fn find(
        name: &'static str,
        requirement: Requirement,
        arguments: &'static [&'static str],
    ) -> Option<Tool> {
        if Command::new(name).arg("--version").output().is_err() {
            skip(requirement, format!("{name} is not found"));
            return None;
        }
        Some(Tool { name, arguments })
    }

    /// Looks at a kernel.
    fn check(&self, written: &Written) -> Result<(), String> {
        let (bytes, entry) = match written {
            Written::Words(words) => (words.iter().flat_map(|word| word.to_le_bytes()).collect(), "main"),
            Written::Text(text, entry) => (text.clone().into_bytes(), entry.as_str()),
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let arguments = self.arguments.iter().map(|word| if *word == "ENTRY" { entry } else { word });
        let output = Command::new(self.name).args(arguments).arg(file.path()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&said).into_owned())
    }
}

/// Writes kernels for a target and has a tool look at them, on all CPUs.
fn check(tool: &Tool, target: Target, hardware: &Hardware) {
    let kernels = kinds::asked_for(24, common::kernels(hardware), hardware);
    assert!(kernels.len() > 60, "only {} kernels", kernels.len());
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(kernel) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
            let wgsl = kernel.wgsl(hardware);
            let checked = wgpu::parse(&wgsl)
                .and_then(|parsed| target.write(&wgsl, &parsed, hardware))
                .and_then(|written| tool.check(&written));
            if let Err(error) = checked {
                failures.lock().unwrap().push(format!("{kernel:?}: {error}"));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().unwrap();
    let language = target.language();
    assert!(
        failures.is_empty(),
        "{}, {language}: {} of {} fail, the first: {}",
        hardware.name,
        failures.len(),
        kernels.len(),
        failures[0]
    );
    println!("{}: {} kernels in {language} are valid to {}", hardware.name, kernels.len(), tool.name);
}

#[test]
fn spirv_is_valid() {
    let Some(tool) = Tool::find("spirv-val", Requirement::SpirvVal, &["--target-env", "vulkan1.3"]) else {
        return;
    };
    check(&tool, Target::SpirV(1, 6), &common::strong());
}

#[test]
fn spirv_of_a_device_with_nothing_is_valid() {
    let Some(tool) = Tool::find("spirv-val", Requirement::SpirvVal, &["--target-env", "vulkan1.0"]) else {
        return;
    };
    check(&tool, Target::SpirV(1, 0), &common::weak());
}

#[test]
fn hlsl_compiles() {
    // The words of wgpu-hal, for which 16-bit types take shader model 6.2.
    const WORDS: &[&str] =
        &["-T", "cs_6_2", "-E", "ENTRY", "-HV", "2018", "-no-warnings", "-Ges", "-enable-16bit-types"];
    let Some(tool) = Tool::find("dxc", Requirement::Dxc, WORDS) else { return };
    check(&tool, Target::Hlsl(ShaderModel::V6_2), &common::directx());
}

#[test]
fn hlsl_of_a_device_with_nothing_but_subgroups_compiles() {
    const WORDS: &[&str] = &["-T", "cs_6_0", "-E", "ENTRY", "-HV", "2018", "-no-warnings", "-Ges"];
    let Some(tool) = Tool::find("dxc", Requirement::Dxc, WORDS) else { return };
    let hardware = Hardware { subgroups: common::directx().subgroups, ..common::weak() };
    check(&tool, Target::Hlsl(ShaderModel::V6_0), &hardware);
}
