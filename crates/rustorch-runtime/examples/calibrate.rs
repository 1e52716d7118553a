//! Measures the CPU and prints what was found, as it is kept on disk.
//!
//!     cargo run --release -p rustorch-runtime --example calibrate -- 2
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use rustorch_cpu::CpuBackend;
use rustorch_runtime::Calibration;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads = match std::env::args().nth(1) {
        Some(threads) => threads.parse()?,
        None => std::thread::available_parallelism()?.get(),
    };
    let cpu = CpuBackend::new(threads);
    let begun = Instant::now();
    let calibration = Calibration::measure(&cpu)?;
    eprintln!("measured in {:?}", begun.elapsed());
    println!("{}", calibration.to_json());
    Ok(())
}
