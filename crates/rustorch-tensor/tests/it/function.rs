//! Functions of one's own.

use rustorch_tensor::autograd::{
    Function, FunctionContext, GradOptions, Gradients, grad, gradcheck, gradgradcheck,
};
use rustorch_tensor::{DType, Result, Tensor};

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
