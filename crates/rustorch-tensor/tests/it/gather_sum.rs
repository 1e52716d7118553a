//! Weighted sums of elements at indices: by hand, with gradients against finite differences.

use rustorch_tensor::autograd::{GradCheck, gradcheck, gradgradcheck};
use rustorch_tensor::{DType, Error, Result, Tensor};

/// Two batches of three terms of four points over rows of five elements.
fn index() -> Result<Tensor> {
    let index = [0i64, 4, -1, 2, 1, 1, 3, -1, -1, 0, 2, 2, 4, 4, 4, 4, -1, -1, 0, 1, 3, 2, 1, 0];
    Tensor::from_vec(index.to_vec(), [2, 3, 4])
}

fn numbers(dims: [usize; 3], start: f64) -> Result<Tensor> {
    let count = dims.iter().product::<usize>();
    Tensor::from_vec((0..count).map(|i| (start + i as f64).sin()).collect(), dims)
}

#[test]
fn gradients_equal_finite_differences() -> Result<()> {
    // Of so many channels that some are computed at once and some alone; of more terms than are added at once, too.
    for (channels, repeats) in [(1, 1), (6, 1), (4, 2)] {
        let index = Tensor::cat(&vec![index()?; repeats], 1)?;
        for index in [index.to_dtype(DType::I32)?, index] {
            let x = numbers([2, channels, 5], 0.0)?;
            let weight = numbers([2, 3 * repeats, 4], 0.5)?;
            let f = |xs: &[Tensor]| Ok(vec![xs[0].gather_sum(&index, &xs[1])?]);
            gradcheck(f, &[&x, &weight], GradCheck::default())?;
            gradgradcheck(f, &[&x, &weight], GradCheck::default())?;
        }
    }
    Ok(())
}

#[test]
fn terms_without_an_element_add_nothing() -> Result<()> {
    // The first element, which such terms must not read, is not finite; nor are their weights.
    for channels in [1, 4] {
        let x = Tensor::from_vec([f32::INFINITY, 2.0].repeat(channels), [1, channels, 2])?;
        let (index, weight) =
            (Tensor::new([[[-1i64, 1], [1, -1]]])?, Tensor::new([[[f32::NAN, 3.0], [5.0, f32::INFINITY]]])?);
        x.requires_grad_(true)?;
        weight.requires_grad_(true)?;
        let y = x.gather_sum(&index, &weight)?;
        assert_eq!(y.to_vec::<f32>()?, [10.0, 6.0].repeat(channels));
        // Nor is the gradient of the second point.
        let grad = Tensor::from_vec([1.0f32, f32::INFINITY].repeat(channels), [1, channels, 2])?;
        y.backward_with(Some(&grad), &Default::default())?;
        let grad_of = |x: &Tensor| x.grad().map(|grad| grad.to_vec::<f32>()).transpose();
        assert_eq!(grad_of(&x)?, Some([0.0, f32::INFINITY].repeat(channels)));
        let each = 2.0 * channels as f32;
        assert_eq!(grad_of(&weight)?, Some(vec![0.0, f32::INFINITY, each, 0.0]));
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_an_error() -> Result<()> {
    let (x, weight) = (Tensor::zeros([1, 1, 3], DType::F32)?, Tensor::zeros([1, 1, 2], DType::F32)?);
    for wrong in [3i64, -2] {
        match x.gather_sum(&Tensor::new([[[0i64, wrong]]])?, &weight) {
            Err(Error::Index { op: "gather_sum", index, len: 3 }) if index == wrong => {}
            other => panic!("{other:?}"),
        }
    }
    let none = Tensor::zeros([1, 1, 0], DType::F32)?.gather_sum(&Tensor::new([[[-1i64, -1]]])?, &weight)?;
    assert_eq!(none.to_vec::<f32>()?, [0.0, 0.0]);
    assert!(x.gather_sum(&Tensor::new([[[0.0f32, 1.0]]])?, &weight).is_err());
    assert!(x.gather_sum(&Tensor::new([[[0i64]]])?, &weight).is_err());
    let integers = Tensor::zeros([1, 1, 3], DType::I32)?;
    let index = Tensor::new([[[0i64, 1]]])?;
    assert!(integers.gather_sum(&index, &Tensor::zeros([1, 1, 2], DType::I32)?).is_err());
    let half = x.to_dtype(DType::F16)?.gather_sum(&index, &weight.to_dtype(DType::F16)?)?;
    assert_eq!(half.dtype(), DType::F16);
    Ok(())
}
