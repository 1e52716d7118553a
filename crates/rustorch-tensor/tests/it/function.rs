//! Functions of one's own.

use rustorch_core::Op;
use rustorch_tensor::autograd::{
    CustomBackward, Function, FunctionContext, GradOptions, Gradients, apply, grad, gradcheck, gradgradcheck,
    no_grad,
};
use rustorch_tensor::{CustomOp, CustomOpBuilder, DType, OutputMeta, Result, Tensor};

fn leaf(values: &[f64]) -> Tensor {
    let x = Tensor::from_slice(values, values.len()).unwrap();
    x.requires_grad_(true).unwrap();
    x
}

/// x·y and x + y, the sum without a gradient.
struct ProductAndSum;

impl Function for ProductAndSum {
    const NAME: &'static str = "product_and_sum";

    fn forward(&self, cx: &mut FunctionContext, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        cx.save(inputs);
        cx.mark_non_differentiable(1);
        Ok(vec![inputs[0].mul(inputs[1])?, inputs[0].add(inputs[1])?])
    }

    fn backward(&self, grads: &Gradients<'_>) -> Result<Vec<Option<Tensor>>> {
        let Some(grad) = grads.output(0)? else { return Ok(vec![None, None]) };
        (0..2)
            .map(|i| match grads.needs_input_grad(i) {
                true => grads.saved(1 - i)?.mul(grad).map(Some),
                false => Ok(None),
            })
            .collect()
    }
}

/// eˣ, of which the result is saved; differentiable as often as asked for, or once.
struct Exp<const ONCE: bool>;

impl<const ONCE: bool> Function for Exp<ONCE> {
    const NAME: &'static str = "my_exp";
    const ONCE_DIFFERENTIABLE: bool = ONCE;

    fn forward(&self, cx: &mut FunctionContext, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let y = inputs[0].exp()?;
        cx.save(&[&y]);
        Ok(vec![y])
    }

    fn backward(&self, grads: &Gradients<'_>) -> Result<Vec<Option<Tensor>>> {
        let Some(grad) = grads.output(0)? else { return Ok(vec![None]) };
        Ok(vec![Some(grads.saved(0)?.mul(grad)?)])
    }
}

/// Whatever it is told to return.
struct Wrong(fn(&Tensor) -> Vec<Option<Tensor>>);

impl Function for Wrong {
    const NAME: &'static str = "wrong";

    fn forward(&self, _: &mut FunctionContext, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![inputs[0].mul(1)?])
    }

    fn backward(&self, grads: &Gradients<'_>) -> Result<Vec<Option<Tensor>>> {
        Ok((self.0)(grads.output(0)?.unwrap()))
    }
}

#[test]
fn gradients_of_ones_own_differentiate_again() -> Result<()> {
    let (x, y) = (Tensor::new([0.5f64, -1.5])?, Tensor::new([2.0f64, 0.25])?);
    let product = |x: &[Tensor]| Ok(vec![ProductAndSum.apply(&[&x[0], &x[1]])?.remove(0)]);
    gradcheck(product, &[&x, &y], Default::default())?;
    gradgradcheck(product, &[&x, &y], Default::default())?;
    let exp = |x: &[Tensor]| Exp::<false>.apply(&[&x[0]]);
    gradcheck(exp, &[&x], Default::default())?;
    gradgradcheck(exp, &[&x], Default::default())
}

#[test]
fn results_without_gradients_have_no_history() -> Result<()> {
    let (x, y) = (leaf(&[1.0, 2.0]), Tensor::new([3.0f64, 4.0])?);
    let results = ProductAndSum.apply(&[&x, &y])?;
    assert_eq!(results[0].grad_fn().unwrap().name(), "product_and_sum");
    assert!(!results[1].requires_grad());
    assert!(!ProductAndSum.apply(&[&y, &y])?[0].requires_grad());
    results[0].sum_all()?.backward()?;
    assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [3.0, 4.0]);
    Ok(())
}

#[test]
fn once_differentiable_functions_say_so_the_second_time() -> Result<()> {
    let x = leaf(&[0.5]);
    let y = Exp::<true>.apply(&[&x])?.remove(0);
    let options = GradOptions { create_graph: true, ..Default::default() };
    let first = grad(&[&y], &[&x], &[], options)?.remove(0).unwrap();
    assert!((first.item()?.to_f64() - 0.5f64.exp()).abs() < 1e-15);
    let error = grad(&[&first], &[&x], &[], GradOptions::default()).unwrap_err().to_string();
    assert!(error.contains("my_exp") && error.contains("differentiable once"), "{error}");
    Ok(())
}

#[test]
fn gradients_that_do_not_fit_name_the_function() -> Result<()> {
    let message = |function: Wrong| -> Result<String> {
        let x = leaf(&[1.0, 2.0]);
        let y = function.apply(&[&x])?.remove(0).sum_all()?;
        Ok(y.backward().unwrap_err().to_string())
    };
    let count = message(Wrong(|_| vec![]))?;
    assert!(count.contains("function wrong: backward returned 0 gradients for 1 inputs"), "{count}");
    let shape = message(Wrong(|grad| vec![Some(grad.narrow(0, 0, 1).unwrap())]))?;
    assert!(shape.contains("function wrong: gradient 0 is f64[1], and the input f64[2]"), "{shape}");
    let dtype = message(Wrong(|grad| vec![Some(grad.to_dtype(DType::F32).unwrap())]))?;
    assert!(dtype.contains("gradient 0 is f32[2]"), "{dtype}");
    Ok(())
}

/// a·x·y and the sign of x for a parameter a, in `f64`.
fn scaled_product(name: &'static str) -> CustomOpBuilder {
    CustomOp::builder(name, 1)
        .infer(|args, _| {
            let [x, y] = args else { return Err("takes two tensors".into()) };
            if x.shape() != y.shape() {
                return Err("takes tensors of one shape".into());
            }
            let out = OutputMeta { dtype: x.dtype, shape: x.shape().clone() };
            Ok(vec![out.clone(), out])
        })
        .cpu(|args, outs, params| {
            let (x, y) = (args[0].slice::<f64>()?, args[1].slice::<f64>()?);
            let products = x.iter().zip(y).map(|(x, y)| params[0].to_f64() * x * y);
            outs[0].slice_mut::<f64>()?.iter_mut().zip(products).for_each(|(out, product)| *out = product);
            outs[1].slice_mut::<f64>()?.iter_mut().zip(x).for_each(|(out, x)| *out = x.signum());
            Ok(())
        })
}

/// The gradient in tensor operations.
fn of_scaled_product() -> CustomBackward {
    CustomBackward::new(|grads, params| {
        let Some(grad) = grads.output(0)? else { return Ok(vec![None, None]) };
        (0..2)
            .map(|i| match grads.needs_input_grad(i) {
                true => grads.saved(1 - i)?.mul(grad)?.mul(params[0].to_f64()).map(Some),
                false => Ok(None),
            })
            .collect()
    })
    .save(|cx, args, _, _| {
        cx.save(args);
        cx.mark_non_differentiable(1);
    })
}

#[test]
fn custom_ops_differentiate_as_often_as_asked_for() -> Result<()> {
    let (x, y) = (Tensor::new([0.5f64, -1.5])?, Tensor::new([2.0f64, 0.25])?);
    let op = scaled_product("product").backward(of_scaled_product()).build()?.with_params([3.0f32]);
    let product = |x: &[Tensor]| Ok(vec![Tensor::custom(&op, &[&x[0], &x[1]])?.remove(0)]);
    gradcheck(product, &[&x, &y], Default::default())?;
    gradgradcheck(product, &[&x, &y], Default::default())?;
    // With the gradient of one argument, and as an operation that is data.
    let x = leaf(&[0.5, -1.5]);
    let results = apply(&Op::Custom(op), &[&x, &y])?;
    assert_eq!(results[0].grad_fn().unwrap().name(), "product");
    assert!(results[0].requires_grad() && !results[1].requires_grad());
    results[0].sum_all()?.backward()?;
    assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [6.0, 0.75]);
    Ok(())
}

#[test]
fn custom_ops_that_are_differentiable_once_say_so_the_second_time() -> Result<()> {
    let op = scaled_product("product_once").backward(of_scaled_product().once_differentiable());
    let op = op.build()?.with_params([3.0f32]);
    let x = leaf(&[0.5]);
    let y = Tensor::custom(&op, &[&x, &x])?.remove(0);
    let options = GradOptions { create_graph: true, ..Default::default() };
    let first = grad(&[&y], &[&x], &[], options)?.remove(0).unwrap();
    assert_eq!(first.item()?.to_f64(), 3.0);
    let error = grad(&[&first], &[&x], &[], GradOptions::default()).unwrap_err().to_string();
    assert!(error.contains("custom op product_once: is differentiable once only"), "{error}");
    Ok(())
}

#[test]
fn gradients_that_do_not_fit_name_the_custom_op() -> Result<()> {
    let message = |gradients: fn(&Tensor) -> Vec<Option<Tensor>>| -> Result<String> {
        let backward = CustomBackward::new(move |grads, _| Ok(gradients(grads.output(0)?.unwrap())));
        let op = scaled_product("off").backward(backward).build()?.with_params([1.0f32]);
        let x = leaf(&[1.0, 2.0]);
        let y = Tensor::custom(&op, &[&x, &x.detach()])?.remove(0).sum_all()?;
        Ok(y.backward().unwrap_err().to_string())
    };
    let count = message(|_| vec![])?;
    assert!(count.contains("custom op off: backward returned 0 gradients for 2 inputs"), "{count}");
    let shape = message(|grad| vec![Some(grad.narrow(0, 0, 1).unwrap()), None])?;
    assert!(shape.contains("custom op off: gradient 0 is f64[1], and the input f64[2]"), "{shape}");
    let dtype = message(|grad| vec![Some(grad.to_dtype(DType::F32).unwrap()), None])?;
    assert!(dtype.contains("custom op off: gradient 0 is f32[2]"), "{dtype}");
    Ok(())
}

#[test]
fn custom_ops_without_a_backward_are_refused_where_they_would_lose_a_gradient() -> Result<()> {
    let op = scaled_product("plain").build()?.with_params([1.0f32]);
    let x = leaf(&[1.0, 2.0]);
    let error = Tensor::custom(&op, &[&x, &x]).unwrap_err().to_string();
    let advice = "plain is a custom op without a backward (CustomOpBuilder::backward gives it one";
    assert!(error.contains(advice) && error.contains("leaf f64[2]"), "{error}");
    assert_eq!(no_grad(|| Tensor::custom(&op, &[&x, &x]))?[0].to_vec::<f64>()?, [1.0, 4.0]);
    Ok(())
}
