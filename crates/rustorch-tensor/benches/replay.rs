//! Captured functions beside the same functions run eagerly: what a program saves where operations are small, and where memory is
//! the limit.

use criterion::{Criterion, criterion_group, criterion_main};
use rustorch_tensor::{DType, Result, Tensor, TensorSpec, capture};
use std::hint::black_box;

/// A function, run eagerly and as a program.
fn compare(c: &mut Criterion, name: &str, x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
    let program = capture(&[TensorSpec::from(x)], |x| Ok(vec![f(&x[0])?]))?;
    c.bench_function(&format!("{name}/eager"), |b| b.iter(|| f(black_box(x)).expect("an eager run")));
    c.bench_function(&format!("{name}/program"), |b| b.iter(|| program.run(&[black_box(x)]).expect("a run")));
    c.bench_function(&format!("{name}/capture"), |b| {
        b.iter(|| capture(&[TensorSpec::from(x)], |x| Ok(vec![f(&x[0])?])).expect("a capture"));
    });
    Ok(())
}

fn cases(criterion: &mut Criterion) -> Result<()> {
    let weights: Vec<Tensor> = (0..4).map(|_| Tensor::rand([64, 64], DType::F32)).collect::<Result<_>>()?;
    let bias = Tensor::rand([64], DType::F32)?;
    for batch in [1, 32] {
        let x = Tensor::rand([batch, 64], DType::F32)?;
        compare(criterion, &format!("mlp_4x64/{batch}"), &x, |x| {
            weights.iter().try_fold(x.clone(), |x, w| x.matmul(w)?.add(&bias)?.relu())
        })?;
    }
    let x = Tensor::rand([10_000_000], DType::F32)?;
    compare(criterion, "pointwise_6/1e7", &x, |x| x.mul(2)?.add(1)?.abs()?.sqrt()?.neg()?.exp())?;
    let [a, b, c] = [(); 3].map(|()| Tensor::rand([10_000_000], DType::F32));
    let (a, b, c) = (a?, b?, c?);
    compare(criterion, "pointwise_of_4/1e7", &x, |x| x.mul(&a)?.add(&b)?.sub(&c)?.abs())?;
    let x = Tensor::rand([64], DType::F32)?;
    compare(criterion, "pointwise_6/64", &x, |x| x.mul(2)?.add(1)?.abs()?.sqrt()?.neg()?.exp())
}

fn replay(c: &mut Criterion) {
    cases(c).expect("the functions run");
}

criterion_group!(benches, replay);
criterion_main!(benches);
