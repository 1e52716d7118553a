//! Graphs on several threads.

use rustorch_tensor::autograd::BackwardOptions;
use rustorch_tensor::{DType, Result, Tensor};
use std::thread;

#[test]
fn threads_that_share_leaves_sum_exactly() -> Result<()> {
    let x = Tensor::arange(0, 64, 1)?.to_dtype(DType::F64)?;
    x.requires_grad_(true)?;
    thread::scope(|scope| {
        for factor in 1..=8i64 {
            let x = &x;
            scope.spawn(move || {
                for _ in 0..100 {
                    x.mul(factor).unwrap().sum_all().unwrap().backward().unwrap();
                }
            });
        }
    });
    assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [3600.0; 64]);
    Ok(())
}

#[test]
fn passes_that_meet_in_one_graph_sum_exactly() -> Result<()> {
    let x = Tensor::arange(0, 8, 1)?.to_dtype(DType::F64)?;
    x.requires_grad_(true)?;
    // The gradient of `x` is a sum of 51, of each `y` one of two.
    let y = (0..50).try_fold(x.clone(), |y, _| y.mul(2)?.sub(&y)?.add(&x))?.sum_all()?;
    let options = BackwardOptions { retain_graph: true, ..Default::default() };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| y.backward_with(None, &options).unwrap()));
        }
    });
    assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [200.0 * 51.0; 8]);
    Ok(())
}

#[test]
fn a_graph_runs_and_is_dropped_on_other_threads() -> Result<()> {
    let x = Tensor::ones([8], DType::F64)?;
    x.requires_grad_(true)?;
    let y = x.exp()?.mul(&x)?.sum_all()?;
    let back = thread::spawn(move || y.backward().map(|()| y)).join().unwrap()?;
    thread::spawn(move || drop(back)).join().unwrap();
    let expected = Tensor::full([8], 2.0 * 1.0f64.exp(), DType::F64)?;
    assert!(x.grad().unwrap().allclose(&expected, 1e-15, 0.0, false)?);
    // One thread's no_grad is nobody else's.
    let recorded = rustorch_tensor::autograd::no_grad(|| {
        thread::scope(|scope| scope.spawn(|| x.mul(2).unwrap().requires_grad()).join().unwrap())
    });
    assert!(recorded);
    Ok(())
}

#[test]
fn a_history_is_read_while_it_is_replaced() -> Result<()> {
    let x = Tensor::ones([4], DType::F64)?;
    x.requires_grad_(true)?;
    let y = x.mul(1)?;
    thread::scope(|scope| {
        scope.spawn(|| (0..200).for_each(|_| y.add_(&x).unwrap()));
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..200 {
                    // Some state between two writes; writing may be refused while this holds a view.
                    assert!(y.mul(2).unwrap().requires_grad());
                }
            });
        }
    });
    x.zero_grad();
    y.sum_all()?.backward()?;
    assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [201.0; 4]);
    Ok(())
}
