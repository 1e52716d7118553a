//! Pooling and its backward against PyTorch's answers: maxima and indices exactly, means within the tolerances of
//! `torch.testing.assert_close`.
//!
//! The fixture was made by `tools/oracle/torch_pool.py` with PyTorch 2.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::{Case, check_of, fixture};
use rustorch_tensor::{AvgPoolOptions, DType, Error, MaxPoolOptions, Result, Tensor};

pub(crate) const OPS: &[&str] = &["max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool"];

fn list(case: &Case, key: &str) -> Option<Vec<isize>> {
    case.attrs[key].as_array().map(|_| case.ints(key))
}

fn max_options(case: &Case) -> MaxPoolOptions {
    let mut options = MaxPoolOptions::new().ceil_mode(case.flag("ceil_mode"));
    if let Some(stride) = list(case, "stride") {
        options = options.stride(stride);
    }
    if let Some(padding) = list(case, "padding") {
        options = options.padding(padding);
    }
    if let Some(dilation) = list(case, "dilation") {
        options = options.dilation(dilation);
    }
    options
}

fn avg_options(case: &Case) -> AvgPoolOptions {
    let count_include_pad = case.attrs["count_include_pad"].as_bool().unwrap_or(true);
    let mut options =
        AvgPoolOptions::new().ceil_mode(case.flag("ceil_mode")).count_include_pad(count_include_pad);
    if let Some(stride) = list(case, "stride") {
        options = options.stride(stride);
    }
    if let Some(padding) = list(case, "padding") {
        options = options.padding(padding);
    }
    if let Some(divisor) = case.int("divisor") {
        options = options.divisor_override(divisor as usize);
    }
    options
}

/// The results of a pooling: values, and indices of maxima.
pub(crate) fn pool(op: &str, case: &Case, x: &Tensor) -> Result<Vec<Tensor>> {
    let pair = |(values, indices)| vec![values, indices];
    let n = case.int("n").unwrap();
    Ok(match op {
        "max_pool" => {
            let (kernel, options) = (case.ints("kernel"), max_options(case));
            pair(match n {
                1 => x.max_pool1d_with_indices(kernel, &options)?,
                2 => x.max_pool2d_with_indices(kernel, &options)?,
                _ => x.max_pool3d_with_indices(kernel, &options)?,
            })
        }
        "avg_pool" => {
            let (kernel, options) = (case.ints("kernel"), avg_options(case));
            vec![match n {
                1 => x.avg_pool1d(kernel, &options)?,
                2 => x.avg_pool2d(kernel, &options)?,
                _ => x.avg_pool3d(kernel, &options)?,
            }]
        }
        "adaptive_max_pool" => {
            let size = case.ints("size");
            pair(match n {
                1 => x.adaptive_max_pool1d_with_indices(size)?,
                2 => x.adaptive_max_pool2d_with_indices(size)?,
                _ => x.adaptive_max_pool3d_with_indices(size)?,
            })
        }
        _ => {
            let size = case.ints("size");
            vec![match n {
                1 => x.adaptive_avg_pool1d(size)?,
                2 => x.adaptive_avg_pool2d(size)?,
                _ => x.adaptive_avg_pool3d(size)?,
            }]
        }
    })
}

fn with_gradient(case: &Case) -> Result<Vec<Tensor>> {
    let x = &case.inputs[0];
    let mut outs = pool(&case.op, case, x)?;
    let Some(grad) = case.inputs.get(1) else { return Ok(outs) };
    let spatial = &x.dims()[x.ndim() - case.int("n").unwrap() as usize..];
    outs.push(match &*case.op {
        "avg_pool" => grad.avg_pool_backward(spatial, case.ints("kernel"), &avg_options(case))?,
        "adaptive_avg_pool" => grad.adaptive_avg_pool_backward(spatial)?,
        _ => grad.max_pool_backward(&outs[1], spatial)?,
    });
    Ok(outs)
}

#[test]
fn no_case_is_left_out() {
    let lines = fixture("pool.jsonl");
    assert!(lines.len() > 150);
    for line in lines {
        let op = line["op"].as_str().unwrap();
        assert!(OPS.contains(&op) || op == "refused", "no test runs {op}");
    }
}

#[test]
fn maxima_and_their_gradients() {
    check_of("pool.jsonl", &["max_pool", "adaptive_max_pool"], false, with_gradient);
    // Values and indices are moved, not computed.
    check_of("pool.jsonl", &["max_pool", "adaptive_max_pool"], true, |case| {
        let mut outs = pool(&case.op, case, &case.inputs[0])?;
        outs.extend(case.outputs.get(2).cloned());
        Ok(outs)
    });
}

#[test]
fn means_and_their_gradients() {
    check_of("pool.jsonl", &["avg_pool", "adaptive_avg_pool"], false, with_gradient);
}

#[test]
fn what_pytorch_refuses_is_refused() {
    let mut count = 0;
    for line in fixture("pool.jsonl").iter().filter(|line| line["op"] == "refused") {
        let case = Case::new(line);
        let shape: Vec<usize> = case.ints("shape").iter().map(|&n| n as usize).collect();
        let x = Tensor::zeros(shape, DType::F32).unwrap();
        let error = pool(case.attrs["pooling"].as_str().unwrap(), &case, &x).map(|_| ()).unwrap_err();
        // A mistake of the caller, found before any device was asked.
        assert!(matches!(error, Error::Shape { .. } | Error::Argument { .. }), "{}: {error:?}", case.label);
        count += 1;
    }
    assert!(count > 20, "{count} cases");
}

fn message<T>(result: Result<T>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn messages_say_what_does_not_fit() {
    let x = Tensor::zeros([1, 2, 4, 5], DType::F32).unwrap();
    let max = MaxPoolOptions::new;
    let text = message(x.max_pool2d(7, &max()));
    assert!(text.contains("7 elements does not fit into 4") && text.contains("[1, 2, 4, 5]"), "{text}");
    let text = message(x.max_pool2d(2, &max().padding([1, 2])));
    assert!(text.contains("padding 2") && text.contains("half"), "{text}");
    let text = message(x.max_pool2d([2, 2, 2], &max()));
    assert!(text.contains("kernel_size") && text.contains("[2, 2, 2]"), "{text}");
    let text = message(x.max_pool2d(-2, &max()));
    assert!(text.contains("negative"), "{text}");
    let text = message(x.max_pool1d(2, &max()));
    assert!(text.contains("max_pool1d") && text.contains("batch"), "{text}");
    let text = message(x.to_dtype(DType::C64).unwrap().max_pool2d(2, &max()));
    assert!(text.contains("c64"), "{text}");
    let text = message(x.to_dtype(DType::I32).unwrap().avg_pool2d(2, &AvgPoolOptions::new()));
    assert!(text.contains("i32") && text.contains("floating"), "{text}");

    let (y, indices) = x.max_pool2d_with_indices(2, &max()).unwrap();
    let text = message(y.max_pool_backward(&indices, [2, 2]));
    assert!(text.contains("index") && text.contains("length 4"), "{text}");
    let text = message(y.max_pool_backward(&indices.to_dtype(DType::I32).unwrap(), [4, 5]));
    assert!(text.contains("i64"), "{text}");
    let text = message(y.max_pool_backward(&indices.narrow(0, 0, 1).unwrap().squeeze(0).unwrap(), [4, 5]));
    assert!(text.contains("one shape"), "{text}");
    let text = message(y.avg_pool_backward([9, 5], 2, &AvgPoolOptions::new()));
    assert!(text.contains("[4, 2]") && text.contains("[1, 2, 2, 2]"), "{text}");
    let text = message(y.adaptive_avg_pool_backward([1, 2, 0, 4]));
    assert!(text.contains("spatial"), "{text}");
}

#[test]
fn a_window_of_nothing_has_no_index_and_no_gradient() {
    // Both elements of the only window lie in the padding: PyTorch's index is outside the input there.
    let x = Tensor::new([[1.0f32]]).unwrap();
    let options = MaxPoolOptions::new().padding(2).dilation(3);
    let (y, indices) = x.max_pool1d_with_indices(2, &options).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [f32::NEG_INFINITY]);
    assert_eq!(indices.to_vec::<i64>().unwrap(), [-1]);
    let grad = y.ones_like().unwrap().max_pool_backward(&indices, [1]).unwrap();
    assert_eq!(grad.to_vec::<f32>().unwrap(), [0.0]);
}

#[test]
fn adaptive_sizes_keep_what_is_minus_one() {
    let x = Tensor::zeros([2, 3, 4, 5], DType::F32).unwrap();
    assert_eq!(x.adaptive_avg_pool2d([-1, 2]).unwrap().dims(), [2, 3, 4, 2]);
    assert_eq!(x.adaptive_max_pool2d(1).unwrap().dims(), [2, 3, 1, 1]);
    assert_eq!(x.adaptive_avg_pool2d([0, 2]).unwrap().dims(), [2, 3, 0, 2]);
    let none = Tensor::zeros([2, 3, 0, 2], DType::F32).unwrap();
    let grad = none.adaptive_avg_pool_backward([4, 5]).unwrap();
    assert_eq!((grad.dims(), grad.sum_all().unwrap().item().unwrap().to_f64()), (&[2, 3, 4, 5][..], 0.0));
    assert!(message(x.adaptive_avg_pool2d([-2, 2])).contains("output_size"));
}
