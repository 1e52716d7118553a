//! Mistakes and failures are reported by the call that made or met them, and never by a panic.

use super::common::*;
use rustorch_core::profile::DeviceProfiler;
use rustorch_core::{Device, Fault};
use rustorch_kernels::{BufferBinding, Driver, KernelSource};
use rustorch_testkit::{Requirement, skip};
use rustorch_wgpu::OpenError;
use std::process::Command;

/// The message of a refusal.
fn refusal<T>(result: Result<T, Fault>) -> String {
    match result {
        Err(Fault::Backend { message, .. }) => message,
        Err(other) => panic!("another fault: {other:?}"),
        Ok(_) => panic!("accepted"),
    }
}

#[track_caller]
fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn mistakes_in_kernels_are_shown_where_they_are() {
    on_each(|driver| {
        let mistake = "@compute @workgroup_size(64)\nfn main() { let x = missing + 1; }";
        says(&refusal(try_compile(driver, "parse", mistake, 0, 0)), &["`parse`", "missing", "2:"]);
        // naga's validator finds this, not its parser: a function that ends without a value.
        let invalid = "fn f() -> u32 { if true { return 1u; } }
            @compute @workgroup_size(64) fn main() { _ = f(); }";
        let message = refusal(try_compile(driver, "invalid", invalid, 0, 0));
        says(&message, &["`invalid`", "fn f() -> u32", "1:"]);
        let none = "@compute @workgroup_size(64) fn other() {}";
        says(&refusal(try_compile(driver, "entry", none, 0, 0)), &["`entry`", "`main`"]);
        let small = "@compute @workgroup_size(32) fn main() {}";
        says(&refusal(try_compile(driver, "group", small, 0, 0)), &["`group`", "[32, 1, 1]", "[64, 1, 1]"]);
        says(&refusal(try_compile(driver, "missing", ADD, 1, 16)), &["`missing`", "binding 1"]);
        says(&refusal(try_compile(driver, "short", ADD, 2, 0)), &["`short`", "16 bytes", "0 were stated"]);
        let text = KernelSource {
            label: "big",
            source: "@compute @workgroup_size(8192) fn main() {}",
            entry: "main",
            workgroup: [8192, 1, 1],
            buffers: 0,
            parameters: 0,
            checked: false,
        };
        // SAFETY: the source is what its description says, or is refused.
        says(&refusal(unsafe { driver.compile(&text) }), &["`big`", "8192"]);
        // Nothing of this hurt the device.
        let kernel = compile(driver, "affine", AFFINE, 1, 16);
        let memory = upload(driver, &[2; 4]);
        affine(driver, &kernel, &memory, 4, 3, 1);
        assert_eq!(download(driver, &memory, 4), [7; 4]);
    });
}

#[test]
fn wrong_launches_are_refused_and_the_others_run() {
    on_each(|driver| {
        let kernel = compile(driver, "affine", AFFINE, 1, 16);
        let add = compile(driver, "add", ADD, 2, 16);
        let memory = upload(driver, &[2; 256]);
        affine(driver, &kernel, &memory, 256, 3, 1);
        let good = || [whole(&memory, 1024, true)];
        let p = [256, 1, 1, 0];
        says(&refusal(launch(driver, &kernel, &[], &p, 256)), &["`affine`", "0 buffers given, it takes 1"]);
        says(&refusal(launch(driver, &kernel, &good(), &p[..3], 256)), &["12 bytes of parameters"]);
        says(&refusal(launch(driver, &kernel, &good(), &p, 0)), &["[0, 1, 1] workgroups"]);
        says(&refusal(launch(driver, &kernel, &good(), &p, u32::MAX)), &["workgroups: 1 to"]);
        let window = |start, bytes| [BufferBinding { memory: &memory, start, bytes, writes: true }];
        for (start, bytes) in [(0, 1028), (0, 0), (0, 6), (1, 4), (1 << 40, 4), (u64::MAX - 3, 4)] {
            let message = refusal(launch(driver, &kernel, &window(start, bytes), &p, 256));
            says(&message, &["buffer 0", &format!("{bytes} bytes at {start} of 1024")]);
        }
        let both = [whole(&memory, 1024, false), whole(&memory, 1024, true)];
        says(&refusal(launch(driver, &add, &both, &p, 256)), &["buffers 0 and 1 are the same memory"]);
        affine(driver, &kernel, &memory, 256, 3, 1);
        assert_eq!(download(driver, &memory, 256), [22; 256]);
    });
}

#[test]
fn transfers_out_of_bounds_are_refused() {
    on_each(|driver| {
        let a = upload(driver, &[1; 16]);
        let b = upload(driver, &[2; 16]);
        let mut into = [0; 8];
        for offset in [60, 64, 2, usize::MAX - 3] {
            says(&refusal(driver.read(&a, offset, &mut into)), &["8 bytes", "a buffer of 64"]);
            says(&refusal(driver.write(&a, offset, &into)), &["8 bytes", "a buffer of 64"]);
            says(&refusal(driver.copy(&a, offset, &b, 0, 8)), &["8 bytes", "a buffer of 64"]);
            says(&refusal(driver.copy(&b, 0, &a, offset, 8)), &["8 bytes", "a buffer of 64"]);
        }
        refusal(driver.read(&a, 0, &mut into[..3]));
        refusal(driver.write(&a, 0, &into[..3]));
        refusal(driver.copy(&a, 0, &a, 32, 8));
        refusal(driver.allocate(0));
        assert_eq!(download(driver, &a, 16), [1; 16]);
    });
}

#[test]
fn memory_runs_out_in_a_way_that_one_recovers_from() {
    on_each(|driver| {
        let most = driver.hardware().max_buffer;
        match driver.allocate((most as usize).saturating_add(16) / 16 * 16) {
            Err(Fault::OutOfMemory { requested, .. }) => assert!(requested as u64 >= most),
            Err(other) => panic!("another fault: {other:?}"),
            Ok(_) => panic!("more than the most was allocated"),
        }
        let memory = upload(driver, &[3; 4]);
        assert_eq!(download(driver, &memory, 4), [3; 4]);
    });
}

/// The child of [`memory_that_the_system_lacks_is_a_fault`]: takes all memory that there is, twice, and works on.
#[test]
#[ignore = "run by another test in a process that may have little memory"]
fn exhaust() {
    on_each(|driver| {
        let memory = upload(driver, &[3; 4]);
        let host = vec![1; 64 << 20];
        for _ in 0..2 {
            let mut taken = Vec::new();
            loop {
                assert!(taken.len() < 64, "the limit does not work");
                match driver.allocate(256 << 20) {
                    Ok(more) => taken.push(more),
                    Err(Fault::OutOfMemory { requested, .. }) => break assert_eq!(requested, 256 << 20),
                    Err(other) => panic!("another fault: {other:?}"),
                }
            }
            assert!(!taken.is_empty());
            // A write needs memory, too, and may fail for want of it, but does not cost the device.
            match driver.write(&taken[0], 0, &host) {
                Ok(()) => println!("the write found memory"),
                Err(Fault::OutOfMemory { .. }) => println!("the write found no memory"),
                Err(other) => panic!("another fault: {other:?}"),
            }
            println!("{} pieces", taken.len());
        }
        assert_eq!(download(driver, &memory, 4), [3; 4]);
        println!("recovered");
    });
}

#[test]
#[cfg(target_os = "linux")]
fn memory_that_the_system_lacks_is_a_fault() {
    let adapters = match rustorch_wgpu::adapters() {
        Ok(adapters) => adapters,
        Err(none) => return skip(Requirement::Vulkan, none),
    };
    if !adapters[0].is_software() {
        return skip(Requirement::Feature, "only a software device's memory can be limited");
    }
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 4000000; exec \"$0\" driver::faults::exhaust --exact --ignored --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    says(&said, &["recovered"]);
}

#[test]
fn a_lost_device_says_so_at_every_call() {
    on_each(|driver| {
        let kernel = compile(driver, "affine", AFFINE, 1, 16);
        let a = upload(driver, &[1; 64]);
        let b = upload(driver, &[1; 64]);
        affine(driver, &kernel, &a, 64, 2, 3);
        driver.lose();
        let lost = |result: Result<(), Fault>| {
            assert!(matches!(&result, Err(Fault::DeviceLost { .. })), "{result:?}");
        };
        lost(driver.read(&a, 0, &mut [0; 16]));
        lost(driver.write(&a, 0, &[0; 16]));
        lost(driver.copy(&a, 0, &b, 0, 16));
        lost(driver.allocate(16).map(drop));
        lost(try_compile(driver, "affine", AFFINE, 1, 16).map(drop));
        lost(launch(driver, &kernel, &[whole(&a, 256, true)], &[64, 2, 3, 0], 64));
        lost(driver.finish());
        lost(driver.take_spans().map(drop));
        lost(driver.start());
    });
}

#[test]
fn a_device_that_does_not_exist_is_named_with_those_that_do() {
    let error = rustorch_wgpu::open(Device::cuda(3)).unwrap_err();
    match (rustorch_wgpu::adapters(), error) {
        (Ok(adapters), OpenError::Absent { device, present }) => {
            assert_eq!(device, Device::cuda(3));
            assert_eq!(present.len(), adapters.len());
            assert!(present[0].contains(adapters[0].name()));
        }
        (Err(none), error) => assert_eq!(none, error),
        (_, other) => panic!("another error: {other}"),
    }
}

/// The child of [`without_drivers_there_is_a_reason`].
#[test]
#[ignore = "run by another test in an environment without drivers"]
fn list() {
    match rustorch_wgpu::adapters() {
        Ok(adapters) => println!("{} adapters", adapters.len()),
        Err(none) => println!("{none}"),
    }
}

#[test]
#[cfg(target_os = "linux")]
fn without_drivers_there_is_a_reason() {
    let run = |variables: &[(&str, &str)]| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["driver::faults::list", "--exact", "--ignored", "--nocapture"]);
        child.env_remove("VK_DRIVER_FILES").env_remove("VK_ICD_FILENAMES");
        let output = child.envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    says(
        &run(&[("VK_ICD_FILENAMES", "/nonexistent/driver.json")]),
        &["no GPU was found", "VK_ICD_FILENAMES=/nonexistent/driver.json", "unset it"],
    );
    // In front of the loader, a library that is none.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("libvulkan.so.1"), []).unwrap();
    let path = folder.path().to_str().unwrap();
    says(
        &run(&[("LD_LIBRARY_PATH", path)]),
        &["no GPU was found", "libvulkan.so.1", "apt-get install libvulkan1 mesa-vulkan-drivers"],
    );
}
