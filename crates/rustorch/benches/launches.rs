//! What the host spends on a launch of a kernel, eagerly and by a captured program, on one device: the CPU time of the thread that
//! submits, without what a device that runs on the CPU computes in threads of its own.
//!
//! `cargo bench -p rustorch --bench launches -- --device vulkan [--rounds 7]` prints medians in µs. Linux only, whose kernel counts a
//! thread's time.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use rustorch::autograd::no_grad;
use rustorch::core::{Device, DeviceType};
use rustorch::runtime::HybridExecutor;
use rustorch::{DType, Result, Tensor, TensorSpec, capture};

const LAYERS: usize = 8;
const WIDTH: usize = 64;

/// Nanoseconds that this thread has computed.
fn thread_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts a thread's time");
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.expect("the first number is the time on a CPU")
}

/// Layers as of a language model that decodes one token: norms, products, gates, sums.
fn layers(x: &Tensor, weights: &[Tensor], gain: &Tensor) -> Result<Tensor> {
    let mut x = x.clone();
    for w in weights {
        let y = x.rms_norm([WIDTH], Some(gain), 1e-5)?;
        let gate = y.matmul(w)?.silu()?;
        let up = y.matmul(w)?;
        x = x.add(&gate.mul(&up)?.matmul(w)?)?;
    }
    Ok(x)
}

/// The host's µs of one call, the device being idle before and after.
fn time(device: Device, mut run: impl FnMut() -> Result<Tensor>) -> Result<f64> {
    const CALLS: u64 = 20;
    let executor = HybridExecutor::current();
    executor.synchronize(device)?;
    let start = thread_time();
    let mut last = None;
    for _ in 0..CALLS {
        last = Some(run()?);
    }
    let spent = thread_time() - start;
    executor.synchronize(device)?;
    drop(last);
    Ok(spent as f64 / 1e3 / CALLS as f64)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let option = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let name = option("--device").map_or("vulkan", String::as_str);
    let device = match name.parse::<DeviceType>()? {
        DeviceType::Only(device) => device,
        other => return Err(format!("{other} is not one device").into()),
    };
    let rounds = option("--rounds").and_then(|n| n.parse().ok()).unwrap_or(7);
    no_grad(|| {
        let weights: Vec<Tensor> = (0..LAYERS)
            .map(|_| Tensor::rand([WIDTH, WIDTH], DType::F32)?.mul(0.01)?.to_device(device))
            .collect::<Result<_>>()?;
        let gain = Tensor::ones([WIDTH], DType::F32)?.to_device(device)?;
        let x = Tensor::rand([1, WIDTH], DType::F32)?.to_device(device)?;
        let program = capture(&[TensorSpec::from(&x)], |x| Ok(vec![layers(&x[0], &weights, &gain)?]))?;
        let nodes = program.graph().nodes.len();
        let (mut eager, mut replayed) = (Vec::new(), Vec::new());
        for _ in 0..=rounds {
            eager.push(time(device, || layers(&x, &weights, &gain))?);
            replayed.push(time(device, || Ok(program.run(&[&x])?.remove(0)))?);
        }
        let median = |times: &mut Vec<f64>| {
            // The first compiles kernels.
            times.remove(0);
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let (eager, replayed) = (median(&mut eager), median(&mut replayed));
        println!(
            "{name}: eager {eager:.1} µs, program of {nodes} operations {replayed:.1} µs, {:.2} of it",
            replayed / eager
        );
        Ok(())
    })
}
