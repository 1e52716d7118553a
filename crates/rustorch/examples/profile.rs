//! Profiles a few operations, and leaves a trace for https://ui.perfetto.dev in `trace.json`.
#![allow(clippy::print_stdout, reason = "it is what the example is for")]

use rustorch::runtime::{HybridExecutor, Profiler};
use rustorch::{DType, Tensor};

fn main() -> rustorch::Result<()> {
    let x = Tensor::arange(0, 1 << 16, 1)?.to_dtype(DType::F32)?.reshape([256, 256])?;

    // What this thread does in the scope.
    let (result, profile) = HybridExecutor::current().profile(|| x.matmul(&x)?.softmax(-1));
    result?;
    println!("{profile}");
    for operation in profile.operations() {
        println!("{} {:?}", operation.record.op, operation.device_time);
    }

    // What all threads do until it is finished.
    let profiler = Profiler::start(&HybridExecutor::current());
    x.exp()?;
    let profile = profiler.finish();
    let mut file = std::fs::File::create("trace.json").expect("a file that can be written");
    profile.write_chrome_trace(&mut file).expect("room on the disk");
    std::fs::write("profile.json", profile.to_json(true).to_string()).expect("room on the disk");
    Ok(())
}
