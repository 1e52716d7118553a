//! How fast matmuls with weights are: bytes of weights per second for one row of activations, and operations per second
//! for many.
//!
//! `cargo run --release -p rustorch-cpu --example matmul_rates [-- THREADS [TYPE..]]`

#![allow(clippy::print_stdout, reason = "its output is the point")]

use rustorch_core::{Backend, Buffer, DType, Layout, MatMul, Op, QuantType, Shape, View, ViewMut};
use rustorch_cpu::CpuBackend;
use std::time::{Duration, Instant};

/// Rows and inner size of the weight: a feed-forward matrix of TinyLlama.
const N: usize = 5632;
const K: usize = 2048;
/// Rows of activations of a prompt.
const PROMPT: usize = 512;
/// Copies of the weight, so that it comes from memory as in a model.
const COPIES: usize = 24;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let threads = args.next().map_or(Ok(1), |n| n.parse())?;
    let names: Vec<String> = args.collect();
    let all = QuantType::ALL.iter().map(|&q| DType::Quant(q)).chain([DType::F16, DType::BF16, DType::F32]);
    let cpu = CpuBackend::new(threads);
    println!(
        "{threads} threads, [{N}, {K}] weights\n{:>8} {:>12} {:>8} {:>12}",
        "type", "1 row GB/s", "µs", "512 rows GOP/s"
    );
    for dtype in all.filter(|d| names.is_empty() || names.iter().any(|n| n.eq_ignore_ascii_case(d.name()))) {
        let bytes = dtype.bytes_for(N * K).ok_or("not whole blocks")?;
        let copies = if dtype.is_quant() { COPIES } else { COPIES / 4 };
        let weights = filled(&cpu, bytes * copies, if dtype.is_quant() { 0x11 } else { 0x3c })?;
        let one = best(Duration::from_millis(400), |i| run_matmul(&cpu, dtype, &weights, i % copies, 1));
        let many = best(Duration::from_millis(900), |_| run_matmul(&cpu, dtype, &weights, 0, PROMPT));
        println!(
            "{:>8} {:>12.2} {:>8.0} {:>12.1}",
            dtype.name(),
            bytes as f64 / one / 1e9,
            one * 1e6,
            (2 * N * K * PROMPT) as f64 / many / 1e9
        );
    }
    Ok(())
}

fn filled(cpu: &CpuBackend, bytes: usize, byte: u8) -> Result<Buffer, Box<dyn std::error::Error>> {
    let mut buffer = cpu.alloc(bytes)?;
    let layout = Layout::contiguous(Shape::new([bytes].as_slice())?);
    // SAFETY: as many bytes as were allocated.
    cpu.copy_in(&vec![byte; bytes], &mut unsafe { ViewMut::new(&mut buffer, DType::U8, &layout) })?;
    Ok(buffer)
}

/// The shortest time of a run, in seconds: on a busy machine, one that nothing interrupted.
fn best(time: Duration, mut run: impl FnMut(usize)) -> f64 {
    let (start, mut best) = (Instant::now(), f64::INFINITY);
    for i in 0.. {
        let begin = Instant::now();
        run(i);
        best = best.min(begin.elapsed().as_secs_f64());
        if start.elapsed() > time {
            break;
        }
    }
    best
}

fn run_matmul(cpu: &CpuBackend, dtype: DType, weights: &Buffer, copy: usize, m: usize) {
    thread_local! {
        static OPERANDS: std::cell::RefCell<std::collections::HashMap<usize, (Buffer, Buffer)>> = Default::default();
    }
    let shape = |dims: [usize; 2]| Layout::contiguous(Shape::new(dims.as_slice()).expect("small"));
    let w = shape([N, K]).transpose(0, 1).expect("two dimensions").at_offset(copy * N * K).expect("small");
    let (x, y) = (shape([m, K]), shape([m, N]));
    OPERANDS.with_borrow_mut(|operands| {
        let (input, output) = operands.entry(m).or_insert_with(|| {
            (filled(cpu, m * K * 4, 0x3d).expect("memory"), filled(cpu, m * N * 4, 0).expect("memory"))
        });
        // SAFETY: buffers were made for these sizes, and written.
        unsafe {
            let args = [View::new(input, DType::F32, &x), View::new(weights, dtype, &w)];
            let out = ViewMut::new(output, DType::F32, &y);
            cpu.run(&Op::MatMul(MatMul::default()), &args, &mut [out]).expect("a valid matmul");
        }
    });
}
