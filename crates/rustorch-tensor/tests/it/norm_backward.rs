//! Gradients of softmax and of normalisations of rows, and their own gradients, against the formulas written as tensor operations.

use rustorch_tensor::autograd::{GradOptions, grad};
use rustorch_tensor::{DType, Generator, Result, Tensor};

/// Values that require a gradient.
fn leaf(random: &Generator, dims: &[usize]) -> Result<Tensor> {
    let x = random.uniform(-2.0, 2.0, dims, DType::F64)?;
    x.requires_grad_(true)?;
    Ok(x)
}

#[track_caller]
fn close(got: &Tensor, want: &Tensor) {
    assert_eq!(got.dims(), want.dims());
    let (got, want) = (got.to_vec::<f64>().unwrap(), want.to_vec::<f64>().unwrap());
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        assert!((got - want).abs() <= 1e-10 * want.abs().max(1.0), "element {i}: {got} instead of {want}");
    }
}

/// That two functions of tensors have the same first and second gradients, in random directions.
pub(crate) fn same_gradients(
    args: &[Tensor],
    one: impl Fn(&[Tensor]) -> Result<Tensor>,
    other: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<()> {
    let random = Generator::new(99);
    let (y, z) = (one(args)?, other(args)?);
    close(&y, &z);
    let direction = leaf(&random, y.dims())?;
    let options = GradOptions { create_graph: true, ..GradOptions::default() };
    let gradients = |y: &Tensor| {
        let y = y.mul(&direction)?.sum_all()?;
        grad(&[&y], &args.iter().collect::<Vec<_>>(), &[], options)
    };
    let (firsts, others) = (gradients(&y)?, gradients(&z)?);
    let (mut sum, mut other_sum) = (Tensor::new(0.0f64)?, Tensor::new(0.0f64)?);
    for (first, other) in firsts.iter().zip(&others) {
        let (first, other) =
            (first.as_ref().expect("every argument is used"), other.as_ref().expect("as is here"));
        close(first, other);
        let along = random.uniform(-1.0, 1.0, first.dims(), DType::F64)?;
        sum = sum.add(&first.mul(&along)?.sum_all()?)?;
        other_sum = other_sum.add(&other.mul(&along)?.sum_all()?)?;
    }
    let inputs: Vec<&Tensor> = args.iter().chain([&direction]).collect();
    // The gradients of a sum do not depend on all of its terms.
    let options = GradOptions { allow_unused: true, ..GradOptions::default() };
    let second = |sum: &Tensor| grad(&[sum], &inputs, &[], options);
    let (seconds, others) = (second(&sum)?, second(&other_sum)?);
    for ((second, other), input) in seconds.iter().zip(&others).zip(&inputs) {
        let zeros = input.zeros_like()?;
        close(second.as_ref().unwrap_or(&zeros), other.as_ref().unwrap_or(&zeros));
    }
    Ok(())
}

#[test]
fn softmax_has_first_and_second_gradients() -> Result<()> {
    let random = Generator::new(5);
    for (dims, axis) in [(&[7][..], 0), (&[3, 5], 1), (&[3, 5], 0), (&[2, 67, 3], 1)] {
        let x = leaf(&random, dims)?;
        let exp_share = |x: &[Tensor]| {
            let e = x[0].exp()?;
            e.div(&e.sum(axis, true)?)
        };
        same_gradients(std::slice::from_ref(&x), |x| x[0].softmax(axis), exp_share)?;
        same_gradients(std::slice::from_ref(&x), |x| x[0].log_softmax(axis), |x| exp_share(x)?.log())?;
    }
    Ok(())
}

/// Layer normalisation by its definition.
fn layer_norm(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, dims: usize, eps: f64) -> Result<Tensor> {
    let axes: Vec<isize> = (1..=dims as isize).map(|i| -i).collect();
    let centred = x.sub(&x.mean(&axes[..], true)?)?;
    let variance = centred.square()?.mean(&axes[..], true)?;
    let y = centred.div(&variance.add(eps)?.sqrt()?)?.mul(weight)?;
    bias.map_or(Ok(y.clone()), |bias| y.add(bias))
}

#[test]
fn layer_norm_has_first_and_second_gradients() -> Result<()> {
    let random = Generator::new(6);
    for (shape, dims) in [(&[5][..], 1), (&[3, 7], 1), (&[67, 4], 1), (&[2, 3, 4], 2)] {
        let row = &shape[shape.len() - dims..];
        let args = [leaf(&random, shape)?, leaf(&random, row)?, leaf(&random, row)?];
        same_gradients(
            &args,
            |a| a[0].layer_norm(row, Some(&a[1]), Some(&a[2]), 0.1),
            |a| layer_norm(&a[0], &a[1], Some(&a[2]), dims, 0.1),
        )?;
        let ones = Tensor::ones(row, DType::F64)?;
        same_gradients(
            &args[..1],
            |a| a[0].layer_norm(row, None, None, 0.1),
            |a| layer_norm(&a[0], &ones, None, dims, 0.1),
        )?;
        // Of the weight alone.
        let x = args[0].detach();
        same_gradients(
            &args[1..2],
            |a| x.layer_norm(row, Some(&a[0]), None, 0.1),
            |a| layer_norm(&x, &a[0], None, dims, 0.1),
        )?;
    }
    Ok(())
}

#[test]
fn rms_norm_has_first_and_second_gradients() -> Result<()> {
    let random = Generator::new(7);
    let rms = |x: &Tensor, eps: f64| x.div(&x.square()?.mean(-1, true)?.add(eps)?.sqrt()?);
    for shape in [&[5][..], &[3, 7], &[67, 4], &[2, 3, 4]] {
        let row = &shape[shape.len() - 1..];
        let args = [leaf(&random, shape)?, leaf(&random, row)?, leaf(&random, shape)?];
        same_gradients(
            &args[..2],
            |a| a[0].rms_norm(row, Some(&a[1]), 0.1),
            |a| rms(&a[0], 0.1)?.mul(&a[1]),
        )?;
        same_gradients(&args[..1], |a| a[0].rms_norm(row, None, 0.1), |a| rms(&a[0], 0.1))?;
        // Of a sum, with both results used.
        same_gradients(
            &args,
            |a| {
                let (sum, y) = a[0].add_rms_norm(&a[2], row, Some(&a[1]), 0.1)?;
                sum.mul(2)?.add(&y)
            },
            |a| {
                let sum = a[0].add(&a[2])?;
                sum.mul(2)?.add(&rms(&sum, 0.1)?.mul(&a[1])?)
            },
        )?;
    }
    Ok(())
}

#[test]
fn gradients_of_softmax_are_one_operation() -> Result<()> {
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let x = Tensor::new([[0.5f32, -1.0, 2.0]])?.to_dtype(dtype)?;
        x.requires_grad_(true)?;
        let y = x.softmax(-1)?;
        let direction = Tensor::new([[1.0f32, 0.0, 0.0]])?.to_dtype(dtype)?;
        let options = GradOptions { create_graph: true, ..GradOptions::default() };
        let dx = grad(&[&y.mul(&direction)?.sum_all()?], &[&x], &[], options)?[0].clone().expect("x is used");
        assert_eq!(dx.dtype(), dtype);
        assert_eq!(dx.grad_fn().expect("recorded").name(), "softmax_backward");
    }
    // A scalar is one; its logarithm is zero.
    let x = Tensor::new(0.3f32)?;
    x.requires_grad_(true)?;
    x.softmax(0)?.add(&x.log_softmax(0)?)?.backward()?;
    assert_eq!(x.grad().expect("x is used").to_vec::<f32>()?, [0.0]);
    Ok(())
}
