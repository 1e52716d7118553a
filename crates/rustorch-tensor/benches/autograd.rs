//! Forward and backward passes: what `benches/peers/torch_autograd.py` runs beside PyTorch.

#[path = "../tests/it/models/definitions.rs"]
#[allow(dead_code, reason = "the tests have more models")]
mod definitions;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rustorch_core::{Conv, ConvBackwardData, ConvBackwardWeight, ConvParams, Op};
use rustorch_tensor::autograd::{apply, no_grad};
use rustorch_tensor::{ConvOptions, CrossEntropyOptions, DType, Generator, Result, Tensor};
use smallvec::smallvec;
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
    convolutions(c, &generator)?;
    for (name, checkpointed) in [("gpt/plain", false), ("gpt/checkpointed", true)] {
        let model = definitions::gpt(DType::F32, checkpointed)?;
        short_pass(c, name, &model.parameters, || model.loss());
    }
    let logits = x.detach();
    c.bench_function("cross_entropy_forward/2048x32000", |b| {
        b.iter(|| black_box(&logits).cross_entropy(&target, &options));
    });
    Ok(())
}

/// Input, weight, stride, padding and groups of a convolution.
type Convolution = (&'static str, &'static [usize], &'static [usize], usize, usize, usize);

/// Of networks for images and sound.
const CONVOLUTIONS: [Convolution; 12] = [
    ("lenet_1", &[64, 1, 28, 28], &[6, 1, 5, 5], 1, 2, 1),
    ("lenet_2", &[64, 6, 14, 14], &[16, 6, 5, 5], 1, 0, 1),
    ("vgg_first", &[1, 3, 224, 224], &[64, 3, 3, 3], 1, 1, 1),
    ("resnet_stem", &[1, 3, 224, 224], &[64, 3, 7, 7], 2, 3, 1),
    ("resnet_1", &[1, 64, 56, 56], &[64, 64, 3, 3], 1, 1, 1),
    ("resnet_2", &[1, 128, 28, 28], &[128, 128, 3, 3], 1, 1, 1),
    ("resnet_3", &[1, 256, 14, 14], &[256, 256, 3, 3], 1, 1, 1),
    ("resnet_4", &[1, 512, 7, 7], &[512, 512, 3, 3], 1, 1, 1),
    ("pointwise", &[1, 256, 56, 56], &[64, 256, 1, 1], 1, 0, 1),
    ("depthwise", &[1, 128, 56, 56], &[128, 1, 3, 3], 1, 1, 128),
    ("grouped", &[1, 128, 28, 28], &[128, 4, 3, 3], 1, 1, 32),
    ("audio", &[4, 80, 1000], &[256, 80, 3], 1, 1, 1),
];

/// Convolutions with both gradients, and the three operations that these are, run by themselves.
fn convolutions(c: &mut Criterion, generator: &Generator) -> Result<()> {
    for (name, x, weight, stride, padding, groups) in CONVOLUTIONS {
        let (x, w) = (leaf(generator, x)?, leaf(generator, weight)?);
        let options = ConvOptions::new().stride(stride).padding(padding).groups(groups);
        let forward = |x: &Tensor, w: &Tensor| match x.ndim() {
            3 => x.conv1d(w, None, &options),
            _ => x.conv2d(w, None, &options),
        };
        pass(c, &format!("conv_{name}/autograd"), &[x.clone(), w.clone()], || forward(&x, &w));
        let spatial = x.ndim() - 2;
        let params = ConvParams {
            stride: smallvec![stride; spatial],
            padding: smallvec![(padding, padding); spatial],
            dilation: smallvec![1; spatial],
            groups,
        };
        let (x, w) = (x.detach(), w.detach());
        let forward_op = Op::from(Conv { params: params.clone(), activation: None });
        let grad = apply(&forward_op, &[&x, &w])?[0].ones_like()?;
        let data = Op::from(ConvBackwardData { params: params.clone(), size: x.dims()[2..].into() });
        let weight = Op::from(ConvBackwardWeight { params, kernel: w.dims()[2..].into() });
        c.bench_function(&format!("conv_{name}/kernels"), |b| {
            b.iter_with_large_drop(|| {
                let y = apply(&forward_op, &[&x, &w]).expect("the operation runs");
                let dx = apply(&data, &[&grad, &w]).expect("the operation runs");
                (y, dx, apply(&weight, &[&x, &grad]).expect("the operation runs"))
            });
        });
    }
    Ok(())
}

criterion_group!(benches, autograd);
criterion_main!(benches);
