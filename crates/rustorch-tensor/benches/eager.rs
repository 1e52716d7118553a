//! What one operation costs when there is nothing to compute: the overhead of a tensor, the executor and a kernel's call; and
//! square matmuls, from those where this overhead counts to those where it does not.
//!
//! Only functions that earlier revisions have, too: `benches/revisions.py` builds this file in another revision.

use criterion::{Criterion, criterion_group, criterion_main};
use rustorch_tensor::{DType, Tensor};
use std::hint::black_box;

fn eager(c: &mut Criterion) {
    let one = Tensor::ones([1], DType::F32).expect("a tensor of one element");
    let other = Tensor::full([1], 2.0, DType::F32).expect("another one");
    let matrix = Tensor::ones([4, 4], DType::F32).expect("a small tensor");
    c.bench_function("add/1", |b| b.iter(|| black_box(&one).add(black_box(&other))));
    c.bench_function("add/4x4", |b| b.iter(|| black_box(&matrix).add(black_box(&matrix))));
    c.bench_function("add_number/1", |b| b.iter(|| black_box(&one).add(black_box(2.0))));
    c.bench_function("neg/1", |b| b.iter(|| black_box(&one).neg()));
    c.bench_function("clone", |b| b.iter(|| black_box(&one).clone()));
    c.bench_function("transpose/4x4", |b| b.iter(|| black_box(&matrix).t()));
    c.bench_function("reshape/4x4", |b| b.iter(|| black_box(&matrix).reshape([2, 8])));
    c.bench_function("narrow/4x4", |b| b.iter(|| black_box(&matrix).narrow(black_box(1), 1, 2)));
    c.bench_function("select/4x4", |b| b.iter(|| black_box(&matrix).select(0, black_box(2))));
    c.bench_function("permute/4x4", |b| b.iter(|| black_box(&matrix).permute(black_box([1, 0]))));
    c.bench_function("unsqueeze/4x4", |b| b.iter(|| black_box(&matrix).unsqueeze(black_box(0))));
    c.bench_function("expand/4x4", |b| b.iter(|| black_box(&matrix).expand(black_box([3, 4, 4]))));
    c.bench_function("matmul/4x4", |b| b.iter(|| black_box(&matrix).matmul(black_box(&matrix))));
    for n in [8, 32, 64, 128, 256, 512, 1024] {
        let square = Tensor::full([n, n], 0.01, DType::F32).expect("a square matrix");
        c.bench_function(&format!("matmul/{n}x{n}"), |b| {
            b.iter(|| black_box(&square).matmul(black_box(&square)));
        });
    }
}

criterion_group!(benches, eager);
criterion_main!(benches);
