//! Forward and backward passes of small graphs with candle: `candle-autograd CASE SECONDS` prints the time of each sample, in seconds for
//! one pass, as a JSON array.

use candle_core::{DType, Device, Result, Tensor, Var};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Passes in a sample: so many that the clock takes a hundredth of their time.
const PASSES: usize = 100;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, case, seconds] = &arguments[..] else { panic!("usage: candle-autograd CASE SECONDS") };
    let device = Device::Cpu;
    let times = match &case[..] {
        "scale_shift_sum/16" => {
            let g = Var::randn(0f32, 1.0, 16, &device)?;
            samples(seconds, || ((g.as_tensor() * 2.0)? + 1.0)?.sum_all()?.backward().map(drop))?
        }
        "recurrence_20/8x8" => {
            let g = Var::randn(0f32, 0.3, (8, 8), &device)?;
            let start = Tensor::eye(8, DType::F32, &device)?;
            samples(seconds, || {
                let y = (0..20).try_fold(start.clone(), |y, _| y.matmul(&g)?.tanh())?;
                y.sum_all()?.backward().map(drop)
            })?
        }
        other => panic!("no case {other}"),
    };
    println!("{times:?}");
    Ok(())
}

fn samples(seconds: &str, pass: impl Fn() -> Result<()>) -> Result<Vec<f64>> {
    let time = Duration::from_secs_f64(seconds.parse().expect("seconds"));
    let warm = Instant::now() + Duration::from_millis(100);
    let end = warm + time;
    let mut times = Vec::new();
    loop {
        let start = Instant::now();
        for _ in 0..PASSES {
            black_box(pass()?);
        }
        let taken = start.elapsed().as_secs_f64() / PASSES as f64;
        if start > end && !times.is_empty() {
            return Ok(times);
        }
        if start > warm {
            times.push(taken);
        }
    }
}
