//! Values per second of dequantization and quantization, for every type, on blocks that stay in the cache.

#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rustorch_core::QuantType;
use rustorch_quant::{dequantize, quantize};

const VALUES: usize = 16 * 1024;

fn samples() -> Vec<f32> {
    let mut z = 1u64;
    (0..VALUES)
        .map(|_| {
            z = z.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let wide = (z >> 40) as i32 - (1 << 23);
            (wide as f32 / (1 << 23) as f32).powi(3)
        })
        .collect()
}

fn dequantization(c: &mut Criterion) {
    let mut group = c.benchmark_group("dequantize");
    group.throughput(Throughput::Elements(VALUES as u64));
    for &q in QuantType::ALL {
        let blocks: Vec<u8> =
            (0..q.bytes_for(VALUES).expect("whole blocks")).map(|i| (i * 37 % 127) as u8).collect();
        let mut out = vec![0.0; VALUES];
        group.bench_function(q.name(), |b| b.iter(|| dequantize(q, black_box(&blocks), black_box(&mut out))));
    }
    group.finish();
}

fn quantization(c: &mut Criterion) {
    let mut group = c.benchmark_group("quantize");
    group.throughput(Throughput::Elements(VALUES as u64));
    let x = samples();
    for &q in QuantType::ALL {
        let mut out = vec![0; q.bytes_for(VALUES).expect("whole blocks")];
        group.bench_function(q.name(), |b| b.iter(|| quantize(q, black_box(&x), None, black_box(&mut out))));
    }
    group.finish();
}

criterion_group!(benches, dequantization, quantization);
criterion_main!(benches);
