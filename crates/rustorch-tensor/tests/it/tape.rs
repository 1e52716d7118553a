//! Recording and the backward pass: what users of PyTorch's autograd expect of it.

use crate::common::process_generator;
#[cfg(not(miri))]
use rustorch_tensor::autograd::DetectAnomaly;
use rustorch_tensor::autograd::{self, BackwardOptions, GradMode, GradOptions, grad};
use rustorch_tensor::{DType, Result, Tensor, TensorOptions};

fn leaf(values: &[f64]) -> Tensor {
    let x = Tensor::from_slice(values, values.len()).unwrap();
    x.requires_grad_(true).unwrap();
    x
}

fn values(x: &Tensor) -> Vec<f64> {
    x.to_vec().unwrap()
}

fn grad_of(x: &Tensor) -> Vec<f64> {
    values(&x.grad().unwrap())
}

#[test]
fn gradients_add_up_over_passes_and_uses() -> Result<()> {
    let x = leaf(&[1.0, -2.0, 3.0]);
    // x is used three times in one graph.
    let y = x.mul(&x)?.add(&x)?.sum_all()?;
    y.backward()?;
    assert_eq!(grad_of(&x), [3.0, -3.0, 7.0]);
    x.mul(2)?.sum_all()?.backward()?;
    assert_eq!(grad_of(&x), [5.0, -1.0, 9.0]);
    x.zero_grad();
    assert!(x.grad().is_none());
    Ok(())
}

#[test]
fn what_is_not_tracked_has_no_history() -> Result<()> {
    let x = leaf(&[1.0, 2.0]);
    let y = x.detach();
    assert!(!y.requires_grad() && y.is_leaf() && y.shares_memory(&x));
    assert!(!autograd::no_grad(|| x.mul(2))?.requires_grad());
    // Views that change nothing are views, too.
    for view in [Tensor::flatten, Tensor::transpose] {
        assert!(!autograd::no_grad(|| view(&x, 0, 0))?.requires_grad());
    }
    assert!(!autograd::no_grad(|| x.expand([2]))?.requires_grad());
    let guard = GradMode::new(false);
    assert!(autograd::enable_grad(|| x.mul(2))?.requires_grad());
    drop(guard);
    assert!(autograd::is_grad_enabled());
    let panicked = std::panic::catch_unwind(|| autograd::no_grad(|| panic!("on purpose")));
    assert!(panicked.is_err() && autograd::is_grad_enabled());
    // Comparisons and indices have none, and integers neither.
    assert!(!x.gt(1)?.requires_grad());
    assert!(!x.argmax(0, false)?.requires_grad());
    assert!(!x.to_dtype(DType::I64)?.requires_grad());
    x.requires_grad_(false)?;
    assert!(!x.mul(2)?.requires_grad());
    Ok(())
}

#[test]
fn tensors_say_what_made_them() -> Result<()> {
    let x = leaf(&[1.0, 2.0]);
    assert_eq!(x.to_string(), "tensor([1., 2.], dtype=f64, requires_grad=True)");
    let y = x.exp()?.narrow(0, 0, 1)?;
    assert_eq!(y.to_string(), "tensor([2.7183], dtype=f64, grad_fn=<slice>)");
    let made_by = y.grad_fn().unwrap();
    assert_eq!(made_by.inputs()[0].as_ref().unwrap().name(), "exp");
    assert!(x.grad_fn().is_none() && x.is_leaf() && !y.is_leaf());
    let graph = y.graph().unwrap();
    assert_eq!(graph.nodes().iter().map(|node| &node.op[..]).collect::<Vec<_>>(), ["leaf", "exp", "slice"]);
    assert!(graph.dot().contains("n1 -> n2"));
    Ok(())
}

#[test]
fn errors_say_what_to_do() -> Result<()> {
    let message = |result: Result<()>| result.unwrap_err().to_string();
    let x = leaf(&[1.0, 2.0]);
    assert!(message(Tensor::ones(1, DType::F32)?.backward()).contains("requires_grad_(true)"));
    assert!(message(x.mul(2)?.backward()).contains("reduce it with sum or mean"));
    let y = x.exp()?.sum_all()?;
    y.backward()?;
    let again = message(y.backward());
    assert!(again.contains("exp was differentiated before") && again.contains("retain_graph"), "{again}");
    let lost = message(x.floor_divide(2).map(drop));
    assert!(
        lost.contains("floor_divide") && lost.contains("leaf f64[2]") && lost.contains("detach"),
        "{lost}"
    );
    assert!(message(Tensor::new([1i64])?.requires_grad_(true).map(drop)).contains("only floats"));
    assert!(message(x.mul(2)?.requires_grad_(false).map(drop)).contains("detach"));
    let wrong = Tensor::zeros([3], DType::F64)?;
    let given = x.mul(2)?.backward_with(Some(&wrong), &BackwardOptions::default());
    assert!(message(given).contains("does not fit the output"));
    let unused = leaf(&[1.0]);
    let missing = grad(&[&x.sum_all()?], &[&unused], &[], GradOptions::default()).map(drop);
    assert!(message(missing).contains("allow_unused"));
    Ok(())
}

#[test]
fn hooks_see_whole_gradients_and_may_replace_them() -> Result<()> {
    let x = leaf(&[1.0, 2.0]);
    let y = x.mul(3)?;
    y.retain_grad()?;
    let hook = y.register_hook(|grad| grad.mul(10).map(Some))?;
    let z = y.mul(&y)?.add(&y)?.sum_all()?;
    let retain = BackwardOptions { retain_graph: true, ..Default::default() };
    z.backward_with(None, &retain)?;
    // 2y + 1, ten times.
    assert_eq!(grad_of(&y), [70.0, 130.0]);
    assert_eq!(grad_of(&x), [210.0, 390.0]);
    hook.remove();
    x.zero_grad();
    z.backward()?;
    assert_eq!(grad_of(&x), [21.0, 39.0]);
    x.zero_grad();
    let stepped = x.register_post_accumulate_grad_hook(|x| {
        autograd::no_grad(|| x.sub_(&x.grad().unwrap()))?;
        x.zero_grad();
        Ok(())
    })?;
    x.sum_all()?.backward()?;
    assert_eq!((values(&x.detach()), x.grad().is_none()), (vec![0.0, 1.0], true));
    stepped.remove();
    let bad = x.mul(1)?;
    bad.register_hook(|_| Tensor::zeros([3], DType::F64).map(Some))?;
    assert!(bad.sum_all()?.backward().unwrap_err().to_string().contains("a hook returned f64[3]"));
    Ok(())
}

#[test]
fn writes_in_place_are_recorded_or_refused_or_caught() -> Result<()> {
    let x = leaf(&[1.0, 2.0]);
    assert!(x.add_(1).unwrap_err().to_string().contains("leaf that requires a gradient"));
    let y = x.mul(3)?;
    y.mul_(2)?;
    y.add_(&x)?;
    assert_eq!(y.grad_fn().unwrap().name(), "add");
    y.sum_all()?.backward()?;
    assert_eq!(grad_of(&x), [7.0, 7.0]);
    // A view of the memory would miss the write.
    let y = x.mul(3)?;
    let view = y.narrow(0, 0, 1)?;
    assert!(y.add_(1).unwrap_err().to_string().contains("2 tensors share"));
    drop(view);
    y.add_(1)?;
    // What was saved is caught.
    let y = x.exp()?;
    let z = y.sum_all()?;
    autograd::no_grad(|| y.add_(1))?;
    let error = z.backward().unwrap_err().to_string();
    assert!(error.contains("result 0 of exp was written in place"), "{error}");
    // Written over, a tensor depends on what it was written with.
    let buffer = Tensor::zeros([2], DType::F64)?;
    buffer.copy_(&x.mul(5)?)?;
    x.zero_grad();
    buffer.sum_all()?.backward()?;
    assert_eq!(grad_of(&x), [5.0, 5.0]);
    let y = x.mul(5)?;
    y.fill_(0)?;
    assert!(y.requires_grad());
    x.zero_grad();
    y.sum_all()?.backward()?;
    assert!(x.grad().is_none());
    Ok(())
}

/// Miri takes minutes for a backtrace.
#[cfg(not(miri))]
#[test]
fn the_first_nan_is_found_with_its_line() -> Result<()> {
    let x = leaf(&[0.0, 1.0]);
    let _detect = DetectAnomaly::new();
    let line = line!() + 1;
    let y = x.log()?.mul(&x)?.sum_all()?;
    let error = y.backward().unwrap_err().to_string();
    // 0 · −∞ forward, and the gradient of x is that product's other factor times 0.
    assert!(
        error.contains("of mul(f64[2], f64[2]) is NaN") || error.contains("of log(f64[2]) is NaN"),
        "{error}"
    );
    assert!(error.contains(&format!("tape.rs:{line}")) || error.contains("no debug information"), "{error}");
    Ok(())
}

#[test]
fn second_derivatives_and_grad_walk_only_what_is_asked_for() -> Result<()> {
    let x = leaf(&[2.0, 3.0]);
    let w = leaf(&[5.0, 7.0]);
    let y = x.mul(&x)?.mul(&x)?.mul(&w)?.sum_all()?;
    let options = GradOptions { create_graph: true, ..Default::default() };
    let first = grad(&[&y], &[&x], &[], options)?.remove(0).unwrap();
    assert_eq!(values(&first.detach()), [60.0, 189.0]);
    let second = grad(&[&first.sum_all()?], &[&x, &w], &[], GradOptions::default())?;
    assert_eq!(values(second[0].as_ref().unwrap()), [60.0, 126.0]);
    assert_eq!(values(second[1].as_ref().unwrap()), [12.0, 27.0]);
    assert!(x.grad().is_none() && w.grad().is_none());
    Ok(())
}

#[test]
fn new_tensors_may_require_gradients() -> Result<()> {
    let _draws = process_generator();
    let options = TensorOptions::from(DType::F64).requires_grad(true);
    for x in [
        Tensor::zeros([2, 2], options)?,
        Tensor::full([2, 2], 1.5, options)?,
        Tensor::eye(2, 2, options)?,
        Tensor::linspace(0.0, 1.0, 4, options)?,
        Tensor::arange_with(0, 4, 1, options)?,
        Tensor::randn([2, 2], options)?,
    ] {
        assert!(x.requires_grad() && x.is_leaf());
        x.square()?.sum_all()?.backward()?;
        assert!(x.grad().unwrap().allclose(&x.detach().mul(2)?, 0.0, 0.0, false)?);
    }
    assert!(!Tensor::zeros([2], DType::F64)?.requires_grad());
    let text =
        Tensor::zeros([2], TensorOptions::from(DType::I64).requires_grad(true)).unwrap_err().to_string();
    assert!(text.contains("i64"), "{text}");
    Ok(())
}
