//! Forward and backward passes: what `benches/peers/torch_autograd.py` runs beside PyTorch.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{CrossEntropyOptions, DType, Generator, Result, Tensor};
use std::hint::black_box;

fn leaf(generator: &Generator, dims: &[usize]) -> Result<Tensor> {
    let x = generator.randn(dims, DType::F32)?;
    x.requires_grad_(true)?;
    Ok(x)
}

/// A forward pass of leaves, and the pass back from the result's gradient.
fn pass(c: &mut Criterion, name: &str, leaves: &[Tensor], forward: impl Fn() -> Result<Tensor>) {
    c.bench_function(name, |b| {
        let grad = no_grad(&forward).and_then(|y| y.ones_like()).expect("the forward pass runs");
        b.iter_batched(
            || leaves.iter().for_each(Tensor::zero_grad),
            |()| {
                let y = forward().expect("the forward pass runs");
                black_box(y).backward_with(Some(&grad), &Default::default()).expect("the backward pass runs");
            },
            BatchSize::PerIteration,
        );
    });
}

/// As [`pass`], for passes so short that the clock must not be looked at for each.
fn short_pass(c: &mut Criterion, name: &str, leaves: &[Tensor], forward: impl Fn() -> Result<Tensor>) {
    c.bench_function(name, |b| {
        b.iter(|| {
            let y = forward().expect("the forward pass runs");
            black_box(y).backward().expect("the backward pass runs");
            leaves.iter().for_each(Tensor::zero_grad);
        });
    });
}

fn autograd(c: &mut Criterion) {
    cases(c).expect("every operation runs");
}

fn cases(c: &mut Criterion) -> Result<()> {
    let generator = Generator::new(0);
    let g = leaf(&generator, &[16])?;
    short_pass(c, "scale_shift_sum/16", std::slice::from_ref(&g), || g.mul(2)?.add(1)?.sum_all());
    let g = generator.randn([8, 8], DType::F32)?.mul(0.3)?;
    g.requires_grad_(true)?;
    let start = Tensor::eye(8, 8, DType::F32)?;
    short_pass(c, "recurrence_20/8x8", std::slice::from_ref(&g), || {
        (0..20).try_fold(start.clone(), |y, _| y.matmul(&g)?.tanh())?.sum_all()
    });
    let one = Tensor::ones([1], DType::F32)?;
    one.requires_grad_(true)?;
    c.bench_function("record_add/1", |b| b.iter(|| black_box(&one).add(black_box(&one))));
    let x = leaf(&generator, &[4096, 4096])?;
    pass(c, "softmax/4096x4096", std::slice::from_ref(&x), || x.softmax(-1));
    let x = leaf(&generator, &[4096, 1024])?;
    let (w, b) = (leaf(&generator, &[1024])?, leaf(&generator, &[1024])?);
    let leaves = [x.clone(), w.clone(), b.clone()];
    pass(c, "layer_norm/4096x1024", &leaves, || x.layer_norm([1024], Some(&w), Some(&b), 1e-5));
    let x = leaf(&generator, &[8, 64, 56, 56])?;
    let (w, b) = (leaf(&generator, &[64])?, leaf(&generator, &[64])?);
    let leaves = [x.clone(), w.clone(), b.clone()];
    pass(c, "batch_norm/8x64x56x56", &leaves, || x.batch_norm(None, Some(&w), Some(&b), true, 0.1, 1e-5));
    pass(c, "group_norm/8x64x56x56", &leaves, || x.group_norm(8, Some(&w), Some(&b), 1e-5));
    let (q, k, v) = (
        leaf(&generator, &[12, 512, 64])?,
        leaf(&generator, &[12, 512, 64])?,
        leaf(&generator, &[12, 512, 64])?,
    );
    let leaves = [q.clone(), k.clone(), v.clone()];
    pass(c, "attention/12x512x64", &leaves, || {
        Tensor::scaled_dot_product_attention(&q, &k, &v, None, false, None)
    });
    pass(c, "attention_causal/12x512x64", &leaves, || {
        Tensor::scaled_dot_product_attention(&q, &k, &v, None, true, None)
    });
    let (a, b) = (leaf(&generator, &[512, 512])?, leaf(&generator, &[512, 512])?);
    let leaves = [a.clone(), b.clone()];
    pass(c, "matmul/512x512", &leaves, || a.matmul(&b));
    let x = leaf(&generator, &[1_000_000])?;
    pass(c, "gelu/1000000", std::slice::from_ref(&x), || x.gelu());
    pass(c, "dropout/1000000", std::slice::from_ref(&x), || x.dropout(0.1, true));
    let x = leaf(&generator, &[2048, 32_000])?;
    let target = generator.randint(0, 32_000, [2048], DType::I64)?;
    let options = CrossEntropyOptions::default();
    pass(c, "cross_entropy/2048x32000", std::slice::from_ref(&x), || x.cross_entropy(&target, &options));
    let logits = x.detach();
    c.bench_function("cross_entropy_forward/2048x32000", |b| {
        b.iter(|| black_box(&logits).cross_entropy(&target, &options));
    });
    Ok(())
}

criterion_group!(benches, autograd);
criterion_main!(benches);
