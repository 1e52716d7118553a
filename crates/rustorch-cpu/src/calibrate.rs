//! Measures what this processor can do, for the cost model.

use crate::Pool;
use rustorch_core::{CostModel, HOST_ALIGN};
use std::hint::black_box;
use std::time::Instant;

/// Elements of the streaming test: more than a core's private caches hold.
const STREAM: usize = 4 << 20;
/// Elements and passes of the arithmetic test: inside the first-level cache.
const VECTOR: usize = 1 << 10;
const PASSES: usize = 2_000;

/// Takes about ten milliseconds. Rates are those of plain vectorised loops on all threads of the pool, which is what
/// placement has to compare; the best kernels do better.
pub(crate) fn measure(pool: &Pool) -> CostModel {
    let threads = pool.threads();
    let launch_us = best_of(5, || {
        for _ in 0..100 {
            pool.run(threads, |i| {
                black_box(i);
            });
        }
    }) * 1e6
        / 100.0;

    let source = vec![1.0f32; STREAM];
    let stream = best_of(3, || {
        pool.ranges(STREAM, STREAM / threads, |range| {
            black_box(source[range].iter().fold(0u32, |sum, x| sum.wrapping_add(x.to_bits())));
        });
    });
    let bandwidth = (STREAM * size_of::<f32>()) as f64 / stream;

    let arithmetic = best_of(3, || {
        pool.run(threads, |_| {
            let mut sums = [1.0f32; HOST_ALIGN];
            let factor = black_box(0.999f32);
            for _ in 0..PASSES * VECTOR / sums.len() {
                for sum in &mut sums {
                    *sum = *sum * factor + 0.001;
                }
            }
            black_box(sums);
        });
    });
    let flops = (2 * threads * PASSES * VECTOR) as f64 / arithmetic;
    CostModel {
        launch_us,
        flops,
        flops_by_dtype: Vec::new(),
        bandwidth,
        link_bandwidth: f64::INFINITY,
        link_us: 0.0,
    }
}

/// The shortest of several runs, in seconds.
fn best_of(runs: usize, mut run: impl FnMut()) -> f64 {
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
        .max(1e-9)
}
