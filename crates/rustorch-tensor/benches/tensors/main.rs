//! Single operations, a list that `benches/peers/torch_tensors.py` runs beside PyTorch.
//!
//! `--list` prints families and cases; `--serve` answers lines of `CASE SECONDS` on its input with the median of seconds per call; a
//! pattern prints the medians of the cases that contain it.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

mod cases;
mod compositions;
mod operations;

use cases::FAMILIES;
use rustorch_tensor::{Result, Tensor};
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

/// How long the calls between two looks at the clock take at least.
const SAMPLE: Duration = Duration::from_micros(200);

/// The median of seconds per call, over samples for so long, three at least, after a first call.
fn median(run: &dyn Fn() -> Result<Tensor>, length: Duration) -> f64 {
    let call = || drop(black_box(run().expect("the operation runs")));
    let time = |calls: u32| {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        start.elapsed()
    };
    call();
    let calls = (SAMPLE.as_nanos() / time(8).as_nanos().max(1) * 8).clamp(1, 1 << 20) as u32;
    let (start, mut samples) = (Instant::now(), Vec::new());
    while start.elapsed() < length || samples.len() < 3 {
        samples.push(time(calls).as_secs_f64() / f64::from(calls));
    }
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Answers lines until the input ends. The operands of the latest case stay.
fn serve() {
    let mut current: Option<(String, operations::Call)> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line of text");
        let (name, seconds) = line.split_once(' ').expect("a case and seconds");
        let seconds = Duration::from_secs_f64(seconds.parse().expect("seconds"));
        if current.as_ref().is_none_or(|(latest, _)| latest != name) {
            drop(current.take());
            current = Some((name.into(), operations::call(name).expect("operands")));
        }
        let (_, call) = current.as_ref().expect("made above");
        println!("{:e}", median(call, seconds));
        std::io::stdout().flush().expect("somebody reads");
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let pattern = args.first().map_or("", String::as_str);
    if pattern == "--serve" {
        return serve();
    }
    for (family, cases) in FAMILIES {
        for name in cases.iter().filter(|name| pattern == "--list" || name.contains(pattern)) {
            if pattern == "--list" {
                println!("{family}\t{name}");
            } else {
                let call = operations::call(name).expect("operands");
                println!("{name:<44} {:>12.3} µs", median(&call, Duration::from_secs_f64(0.3)) * 1e6);
            }
        }
    }
}
