//! Interpolation and its backward against PyTorch's answers: what is moved exactly, what is computed within the
//! tolerances of `torch.testing.assert_close`.
//!
//! The fixture was made by `tools/oracle/torch_interpolate.py` with PyTorch 2.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::{Case, check_of, dtype, fixture};
use rustorch_tensor::{DType, Error, InterpolateOptions, Interpolation, Result, Tensor};

fn mode(name: &str) -> Interpolation {
    match name {
        "nearest" => Interpolation::Nearest,
        "nearest-exact" => Interpolation::NearestExact,
        "linear" => Interpolation::Linear,
        "bilinear" => Interpolation::Bilinear,
        "trilinear" => Interpolation::Trilinear,
        "bicubic" => Interpolation::Bicubic,
        "area" => Interpolation::Area,
        other => panic!("mode {other}"),
    }
}

pub(crate) fn options(case: &Case) -> InterpolateOptions {
    let floats = |key: &str| -> Vec<f64> {
        match &case.attrs[key] {
            serde_json::Value::Array(list) => list.iter().map(|n| n.as_f64().unwrap()).collect(),
            one => vec![one.as_f64().unwrap()],
        }
    };
    let target = if case.attrs["size"].is_null() {
        InterpolateOptions::scale_factor(&floats("scale_factor")[..])
    } else {
        InterpolateOptions::size(floats("size").iter().map(|&n| n as isize).collect::<Vec<_>>())
    };
    target
        .mode(mode(case.attrs["mode"].as_str().unwrap()))
        .align_corners(case.flag("align_corners"))
        .recompute_scale_factor(case.flag("recompute_scale_factor"))
}

#[test]
fn no_case_is_left_out() {
    let lines = fixture("interpolate.jsonl");
    assert!(lines.len() > 150);
    for line in lines {
        let op = line["op"].as_str().unwrap();
        assert!(["interpolate", "places", "refused"].contains(&op), "no test runs {op}");
    }
}

#[test]
fn values_and_gradients() {
    check_of("interpolate.jsonl", &["interpolate"], false, |case| {
        let (x, options) = (&case.inputs[0], options(case));
        let mut outs = vec![x.interpolate(&options)?];
        if let Some(grad) = case.inputs.get(1) {
            outs.push(grad.interpolate_backward(&x.dims()[2..], &options)?);
        }
        Ok(outs)
    });
}

#[test]
fn nearest_elements_are_moved() {
    check_of("interpolate.jsonl", &["interpolate"], true, |case| {
        if !case.attrs["mode"].as_str().unwrap().starts_with("nearest") {
            return Ok(case.outputs.clone());
        }
        let mut outs = vec![case.inputs[0].interpolate(&options(case))?];
        outs.extend(case.outputs.get(1).cloned());
        Ok(outs)
    });
}

#[test]
fn places_are_pytorchs_for_every_length() {
    let line = fixture("interpolate.jsonl").into_iter().find(|line| line["op"] == "places").unwrap();
    let cases = line["attrs"]["cases"].as_array().unwrap();
    assert!(cases.len() > 250);
    for case in cases {
        let number = |i: usize| case[i].as_u64().unwrap() as usize;
        let (len, outputs, ndim) = (number(0), number(1), number(5));
        let lead = vec![1.0; ndim - 1];
        let target = match case[2].as_f64() {
            Some(factor) => InterpolateOptions::scale_factor(&[&lead[..], &[factor]].concat()[..]),
            None => {
                let mut size = vec![1; ndim];
                size[ndim - 1] = outputs;
                InterpolateOptions::size(size)
            }
        };
        let mut dims = vec![1; ndim + 2];
        dims[ndim + 1] = len;
        let x = Tensor::arange(0, len as i64, 1).unwrap().reshape(dims).unwrap();
        let x = x.to_dtype(dtype(case[4].as_str().unwrap())).unwrap();
        let y = x.interpolate(&target.mode(mode(case[3].as_str().unwrap()))).unwrap();
        let y = y.to_dtype(DType::I64).unwrap().flatten(0, -1).unwrap().to_vec::<i64>().unwrap();
        let digest: i64 = y.iter().zip(1..).map(|(place, i)| place * i).sum();
        assert_eq!((y.len(), Some(digest)), (outputs, case[6].as_i64()), "{case}");
    }
}

fn message<T>(result: Result<T>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn what_pytorch_refuses_is_refused() {
    let mut count = 0;
    for line in fixture("interpolate.jsonl").iter().filter(|line| line["op"] == "refused") {
        let case = Case::new(line);
        let shape: Vec<usize> = case.ints("shape").iter().map(|&n| n as usize).collect();
        let x = Tensor::zeros(shape, DType::F32).unwrap();
        let error = x.interpolate(&options(&case)).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Shape { .. } | Error::Argument { .. }), "{}: {error:?}", case.label);
        count += 1;
    }
    assert!(count > 12, "{count} cases");
}

#[test]
fn messages_say_what_does_not_fit() {
    let x = Tensor::zeros([1, 2, 4, 5], DType::F32).unwrap();
    let text = message(x.interpolate(&InterpolateOptions::size(3).mode(Interpolation::Trilinear)));
    assert!(text.contains("Trilinear") && text.contains("5 dimensions"), "{text}");
    let text = message(x.interpolate(&InterpolateOptions::size(3).align_corners(true)));
    assert!(text.contains("align_corners") && text.contains("Nearest"), "{text}");
    let text = message(x.interpolate(&InterpolateOptions::scale_factor([2.0, 0.0])));
    assert!(text.contains("scale_factor 0 must be positive"), "{text}");
    let text = message(x.interpolate(&InterpolateOptions::scale_factor([2.0, 1.0, 1.0])));
    assert!(text.contains("one number, or 2"), "{text}");
    let text = message(x.interpolate(&InterpolateOptions::scale_factor(1e300)));
    assert!(text.contains("more elements than can be addressed"), "{text}");
    let text = message(x.to_dtype(DType::I32).unwrap().interpolate(&InterpolateOptions::size(3)));
    assert!(text.contains("i32"), "{text}");
    for mode in [Interpolation::Bilinear, Interpolation::Area] {
        let options = InterpolateOptions::size(3).mode(mode);
        let text = message(x.interpolate_backward([8, 8], &options));
        assert!(text.contains("[3, 3]") && text.contains("[1, 2, 4, 5]"), "{text}");
        let text = message(x.interpolate_backward([8], &options));
        assert!(text.contains("[8]"), "{text}");
        let grad = x.interpolate(&options).unwrap();
        let text = message(grad.interpolate_backward([0, 5], &options));
        assert!(text.contains("[0, 5]"), "{text}");
    }
}
