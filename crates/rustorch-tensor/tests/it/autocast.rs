//! Mixed precision: casts where PyTorch has them, and nothing else.

use rustorch_tensor::autograd::{Autocast, autocast, checkpoint};
use rustorch_tensor::{DType, Generator, Result, Tensor};

fn weights() -> Result<[Tensor; 3]> {
    let generator = Generator::new(9);
    let weights = [
        generator.randn([4, 6], DType::F32)?,
        generator.randn([5, 6], DType::F32)?,
        generator.randn([5], DType::F32)?,
    ];
    for weight in &weights {
        weight.requires_grad_(true)?;
    }
    Ok(weights)
}

fn grads(weights: &[Tensor]) -> Vec<Vec<f32>> {
    let grads = weights.iter().map(|weight| weight.grad().unwrap().to_vec().unwrap()).collect();
    weights.iter().for_each(|weight| weight.zero_grad());
    grads
}

fn model(x: &Tensor, w: &Tensor, b: &Tensor) -> Result<Tensor> {
    x.linear(w, Some(b))?.relu()?.softmax(-1)?.square()?.sum_all()
}

#[test]
fn casts_are_those_that_one_would_write() -> Result<()> {
    let weights = weights()?;
    let [x, w, b] = &weights;
    for dtype in [DType::BF16, DType::F16] {
        let loss = autocast(dtype, || model(x, w, b))??;
        loss.backward()?;
        let have = grads(&weights);
        let low = |x: &Tensor| x.to_dtype(dtype);
        let y = low(x)?.linear(&low(w)?, Some(&low(b)?))?.relu()?.to_dtype(DType::F32)?;
        let by_hand = y.softmax(-1)?.square()?.sum_all()?;
        by_hand.backward()?;
        assert_eq!(loss.item()?, by_hand.item()?);
        assert_eq!(have, grads(&weights));
        assert_eq!(loss.dtype(), DType::F32);
    }
    Ok(())
}

#[test]
fn weights_are_cast_once_a_version() -> Result<()> {
    let [x, w, b] = weights()?;
    let casts = |f: &dyn Fn() -> Result<Tensor>| -> Result<usize> {
        let graph = f()?.graph().unwrap();
        Ok(graph.nodes().iter().filter(|node| node.op == "cast").count())
    };
    let input = x.detach();
    let twice = || input.linear(&w, None)?.add(&input.linear(&w, None)?);
    assert_eq!(autocast(DType::BF16, || casts(&twice))??, 1);
    let written = || {
        let y = input.linear(&w, None)?;
        rustorch_tensor::autograd::no_grad(|| w.mul_(2))?;
        y.add(&input.linear(&w, None)?)
    };
    assert_eq!(autocast(DType::BF16, || casts(&written))??, 2);
    drop(b);
    Ok(())
}

#[test]
fn scopes_nest_and_refuse_other_dtypes() -> Result<()> {
    let [x, w, _] = weights()?;
    let lower = Autocast::new(Some(DType::F16))?;
    assert_eq!(x.linear(&w, None)?.dtype(), DType::F16);
    {
        let _off = Autocast::new(None)?;
        assert_eq!(x.linear(&w, None)?.dtype(), DType::F32);
    }
    // Operands of different dtypes meet in the lower one; f64 is left alone.
    assert_eq!(x.to_dtype(DType::F16)?.linear(&w, None)?.dtype(), DType::F16);
    assert_eq!(x.to_dtype(DType::F64)?.exp()?.dtype(), DType::F64);
    drop(lower);
    assert_eq!(x.linear(&w, None)?.dtype(), DType::F32);
    assert!(Autocast::new(Some(DType::F64)).is_err());
    Ok(())
}

#[test]
fn checkpoints_run_again_in_their_precision() -> Result<()> {
    let weights = weights()?;
    let [x, w, b] = &weights;
    autocast(DType::BF16, || model(x, w, b))??.backward()?;
    let expected = grads(&weights);
    let (w2, b2) = (w.clone(), b.clone());
    let loss = autocast(DType::BF16, || checkpoint(move |x| Ok(vec![model(&x[0], &w2, &b2)?]), &[x]))??;
    loss[0].backward()?;
    assert_eq!(grads(&weights), expected);
    Ok(())
}

#[test]
fn distances_keep_their_digits() -> Result<()> {
    // torch.autocast("cpu", torch.bfloat16) does not lower torch.cdist either.
    let generator = Generator::new(3);
    let (x, y) = (generator.randn([30, 8], DType::F32)?, generator.randn([40, 8], DType::F32)?);
    for p in [1.0, 2.0] {
        let lowered = autocast(DType::BF16, || x.cdist(&y, p))??;
        assert_eq!(lowered.to_vec::<f32>()?, x.cdist(&y, p)?.to_vec::<f32>()?);
    }
    Ok(())
}
