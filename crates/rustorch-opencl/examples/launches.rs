//! What a launch, a small copy and a build cost on each OpenCL device.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example for people at a terminal")]

use rustorch_kernels::{BufferBinding, Driver, KernelCache, KernelSource, Launch};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let found = rustorch_opencl::discover();
    for reason in &found.missing {
        println!("{reason}");
    }
    for candidate in &found.devices {
        let begin = Instant::now();
        let driver = candidate.open_with(None)?;
        println!("{}: {}", driver.hardware().device, driver.hardware().name);
        println!("  opened in {:?}", begin.elapsed());

        // A source that no cache of the driver has seen.
        let unique = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos() as u32;
        let source = format!(
            "__kernel void run(__global uint* y) {{ uint a = y[get_global_id(0)]; for (uint i = 0; i < 16; i++) a = a * {unique}u + i; y[get_global_id(0)] = a; }}"
        );
        let text = KernelSource {
            label: "run",
            source: &source,
            entry: "run",
            workgroup: [64, 1, 1],
            buffers: 1,
            parameters: 0,
            checked: false,
        };
        let folder = std::env::temp_dir().join(format!("rustorch-launches-{}", std::process::id()));
        let cached = candidate.open_with(Some(KernelCache::open(&folder)))?;
        for what in ["built and stored", "loaded"] {
            let begin = Instant::now();
            // SAFETY: the source is what its description says, or is refused.
            unsafe { cached.compile(&text) }?;
            println!("  {what} in {:?}", begin.elapsed());
        }
        std::fs::remove_dir_all(&folder)?;
        // SAFETY: the source is what its description says, or is refused.
        let kernel = unsafe { driver.compile(&text) }?;
        let memory = driver.allocate(4096)?;
        let launch = || {
            let buffers = [BufferBinding { memory: &memory, start: 0, bytes: 4096, writes: true }];
            let groups = [4, 1, 1];
            // SAFETY: the kernel stays inside its windows, or the launch is refused.
            unsafe {
                driver.launch(&Launch {
                    kernel: &kernel,
                    buffers: &buffers,
                    parameters: &[],
                    groups,
                    label: "run",
                    cache: None,
                })
            }
        };
        let begin = Instant::now();
        launch()?;
        driver.finish()?;
        println!("  the first launch: {:?}", begin.elapsed());
        const COUNT: u32 = 2000;
        let begin = Instant::now();
        for _ in 0..COUNT {
            launch()?;
        }
        println!("  a launch: {:?} for the host,", begin.elapsed() / COUNT);
        driver.finish()?;
        println!("            {:?} until all are done", begin.elapsed() / COUNT);
        let begin = Instant::now();
        for _ in 0..COUNT {
            driver.write(&memory, 0, &[0; 64])?;
        }
        driver.finish()?;
        println!("  a write of 64 bytes: {:?}", begin.elapsed() / COUNT);
        let begin = Instant::now();
        for _ in 0..COUNT {
            driver.read(&memory, 0, &mut [0; 64])?;
        }
        println!("  a read of 64 bytes: {:?}", begin.elapsed() / COUNT);
    }
    Ok(())
}
