//! Checkpoints: the bits of the run without, in less memory.

use crate::common::process_generator;
use rustorch_tensor::autograd::{GradOptions, checkpoint, checkpoint_sequential, grad};
use rustorch_tensor::{DType, Generator, Result, Tensor, manual_seed};
use std::sync::atomic::{AtomicUsize, Ordering};

fn leaf(x: Tensor) -> Tensor {
    x.requires_grad_(true).unwrap();
    x
}

fn layer(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.matmul(w)?.tanh()
}

#[test]
fn checkpoints_give_the_bits_of_the_run_without() -> Result<()> {
    let generator = Generator::new(3);
    let x = leaf(generator.randn([4, 6], DType::F32)?);
    let (v, w) = (leaf(generator.randn([6, 6], DType::F32)?), leaf(generator.randn([6, 6], DType::F32)?));
    let plain = layer(&layer(&x, &v)?, &w)?.square()?.sum_all()?;
    plain.backward()?;
    let expected: Vec<Vec<f32>> = [&x, &v, &w].iter().map(|x| x.grad().unwrap().to_vec().unwrap()).collect();
    [&x, &v, &w].iter().for_each(|x| x.zero_grad());
    let (v2, w2) = (v.clone(), w.clone());
    // One inside another.
    let nested = checkpoint(
        move |x| {
            let v = v2.clone();
            let inner = checkpoint(move |x| Ok(vec![layer(&x[0], &v)?, x[0].mul(2)?]), &[&x[0]])?;
            Ok(vec![layer(&inner[0], &w2)?])
        },
        &[&x],
    )?;
    let loss = nested[0].square()?.sum_all()?;
    loss.backward()?;
    for (x, expected) in [&x, &v, &w].iter().zip(&expected) {
        assert_eq!(&x.grad().unwrap().to_vec::<f32>()?, expected);
    }
    Ok(())
}

#[test]
fn grad_and_sequences_of_checkpoints_work() -> Result<()> {
    let x = leaf(Generator::new(5).randn([8], DType::F64)?);
    let steps = |n: usize| (0..n).map(|_| |x: &[Tensor]| Ok(vec![x[0].sin()?.mul(&x[0])?]));
    let plain = steps(6).try_fold(vec![x.clone()], |x, step| step(&x))?;
    let expected = grad(&[&plain[0].sum_all()?], &[&x], &[], GradOptions::default())?.remove(0).unwrap();
    let y = checkpoint_sequential(steps(6).collect(), 3, &[&x])?;
    let have = grad(&[&y[0].sum_all()?], &[&x], &[], GradOptions::default())?.remove(0).unwrap();
    assert_eq!(have.to_vec::<f64>()?, expected.to_vec::<f64>()?);
    Ok(())
}

#[test]
fn nothing_is_kept_between_the_passes() -> Result<()> {
    let x = leaf(Tensor::ones([1000], DType::F32)?);
    let chain = |x: &Tensor| (0..10).try_fold(x.clone(), |x, _| x.exp()?.sin());
    // The exponentials, which are their own derivatives and what the sines are taken of.
    let plain = chain(&x)?.graph().unwrap().saved_bytes();
    let y = checkpoint(move |x| Ok(vec![chain(&x[0])?]), &[&x])?;
    assert_eq!((plain, y[0].graph().unwrap().saved_bytes()), (10 * 4000, 0));
    Ok(())
}

#[test]
fn random_numbers_are_drawn_again() -> Result<()> {
    let _draws = process_generator();
    let x = leaf(Tensor::ones([64], DType::F32)?);
    let noisy = |x: &Tensor| x.mul(&Tensor::rand([64], DType::F32)?)?.exp();
    manual_seed(11);
    noisy(&x)?.sum_all()?.backward()?;
    let expected = x.grad().unwrap().to_vec::<f32>()?;
    x.zero_grad();
    manual_seed(11);
    let y = checkpoint(move |x| Ok(vec![noisy(&x[0])?]), &[&x])?;
    let after = Tensor::rand([4], DType::F32)?.to_vec::<f32>()?;
    y[0].sum_all()?.backward()?;
    assert_eq!(x.grad().unwrap().to_vec::<f32>()?, expected);
    // The stream goes on where it was.
    manual_seed(11);
    Tensor::rand([64], DType::F32)?;
    assert_eq!(Tensor::rand([4], DType::F32)?.to_vec::<f32>()?, after);
    Ok(())
}

#[test]
fn another_second_run_is_an_error() -> Result<()> {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let x = leaf(Tensor::ones([3], DType::F32)?);
    let y = checkpoint(
        |x| match RUNS.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(vec![x[0].exp()?.sin()?]),
            _ => Ok(vec![x[0].narrow(0, 0, 2)?.exp()?.sin()?]),
        },
        &[&x],
    )?;
    let error = y[0].sum_all()?.backward().unwrap_err().to_string();
    assert!(error.contains("saved tensor 0 was f32[3], and then f32[2]"), "{error}");
    let input = Tensor::ones([3], DType::F32)?;
    let w = leaf(Tensor::ones([3], DType::F32)?);
    let y = checkpoint(move |x| Ok(vec![x[0].mul(&w)?.exp()?]), &[&input])?;
    input.add_(1)?;
    let error = y[0].sum_all()?.backward().unwrap_err().to_string();
    assert!(error.contains("input 0 was written in place"), "{error}");
    Ok(())
}
