//! Batch, instance and group normalisation against PyTorch's answers, within the tolerances of
//! `torch.testing.assert_close`.
//!
//! The fixture was made by `tools/oracle/torch_channel_norm.py` with PyTorch 2.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::{Case, check_of, fixture};
use rustorch_tensor::{DType, Error, Result, Tensor};
use std::collections::HashMap;

pub(crate) const OPS: &[&str] = &["batch_norm", "group_norm", "instance_norm"];

pub(crate) fn normalise(
    op: &str,
    case: &Case,
    x: &Tensor,
    given: &HashMap<String, Tensor>,
) -> Result<Vec<Tensor>> {
    let (weight, bias) = (given.get("weight"), given.get("bias"));
    let running = given.get("running_mean").zip(given.get("running_var"));
    let (training, eps) = (case.flag("training"), case.float("eps").unwrap_or(1e-5));
    let momentum = case.float("momentum").unwrap_or(0.1);
    let mut outs = vec![match op {
        "batch_norm" => x.batch_norm(running, weight, bias, training, momentum, eps)?,
        "instance_norm" => x.instance_norm(running, weight, bias, training, momentum, eps)?,
        _ => x.group_norm(case.int("groups").unwrap() as usize, weight, bias, eps)?,
    }];
    if let Some((mean, variance)) = running.filter(|_| training) {
        outs.extend([mean.clone(), variance.clone()]);
    }
    Ok(outs)
}

#[test]
fn no_case_is_left_out() {
    let lines = fixture("channel_norm.jsonl");
    assert!(lines.len() > 80);
    for line in lines {
        let op = line["op"].as_str().unwrap();
        assert!(OPS.contains(&op) || op == "refused", "no test runs {op}");
    }
}

#[test]
fn results_and_running_statistics() {
    for &op in OPS {
        check_of("channel_norm.jsonl", &[op], false, |case| {
            let names = case.attrs["with"].as_array().unwrap().iter();
            let names = names.map(|name| name.as_str().unwrap().to_owned());
            let given = names.zip(case.inputs[1..].iter().cloned()).collect();
            normalise(&case.op, case, &case.inputs[0], &given)
        });
    }
}

#[test]
fn what_pytorch_refuses_is_refused() {
    let mut count = 0;
    for line in fixture("channel_norm.jsonl").iter().filter(|line| line["op"] == "refused") {
        let case = Case::new(line);
        let shape: Vec<usize> = case.ints("shape").iter().map(|&n| n as usize).collect();
        let x = Tensor::zeros(shape, DType::F32).unwrap();
        let given = case.attrs["parameters"].as_array().unwrap().iter().map(|pair| {
            let ones = Tensor::ones(pair[1].as_u64().unwrap() as usize, DType::F32).unwrap();
            (pair[0].as_str().unwrap().to_owned(), ones)
        });
        let given = given.collect();
        let result = normalise(case.attrs["norm"].as_str().unwrap(), &case, &x, &given);
        let error = result.map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Shape { .. } | Error::Argument { .. }), "{}: {error:?}", case.label);
        // Nothing was learned from what was refused.
        for (name, x) in &given {
            assert!(
                x.eq(1.0).unwrap().all_all().unwrap().item().unwrap().to_bool(),
                "{}: {name}",
                case.label
            );
        }
        count += 1;
    }
    assert!(count > 12, "{count} cases");
}

#[test]
fn messages_say_what_does_not_fit() {
    let message = |result: Result<Tensor>| result.map(|_| ()).unwrap_err().to_string();
    let x = Tensor::zeros([2, 6, 3], DType::F32).unwrap();
    let ones = |n: usize, dtype| Tensor::ones(n, dtype).unwrap();
    let text = message(x.group_norm(4, None, None, 1e-5));
    assert!(text.contains("6 channels") && text.contains("[2, 6, 3]"), "{text}");
    let text = message(x.group_norm(0, None, None, 1e-5));
    assert!(text.contains("0 equal groups"), "{text}");
    let text = message(x.group_norm(2, Some(&ones(5, DType::F32)), None, 1e-5));
    assert!(text.contains("[6]") && text.contains("[5]"), "{text}");
    let text = message(x.group_norm(2, Some(&ones(6, DType::F64)), None, 1e-5));
    assert!(text.contains("cast") && text.contains("f64"), "{text}");
    let text = message(x.batch_norm(None, None, None, false, 0.1, 1e-5));
    assert!(text.contains("running"), "{text}");
    let text = message(
        x.narrow(0, 0, 1).unwrap().narrow(2, 0, 1).unwrap().batch_norm(None, None, None, true, 0.1, 1e-5),
    );
    assert!(text.contains("variance") && text.contains("[1, 6, 1]"), "{text}");
    let text = message(x.to_dtype(DType::I32).unwrap().group_norm(2, None, None, 1e-5));
    assert!(text.contains("i32"), "{text}");
}

#[test]
fn a_batch_of_nothing_teaches_nothing() {
    let (mean, variance) = (Tensor::ones(3, DType::F32).unwrap(), Tensor::ones(3, DType::F32).unwrap());
    let none = Tensor::zeros([0, 3, 4], DType::F32).unwrap();
    let y = none.batch_norm(Some((&mean, &variance)), None, None, true, 0.1, 1e-5).unwrap();
    assert_eq!(y.dims(), [0, 3, 4]);
    none.instance_norm(Some((&mean, &variance)), None, None, true, 0.1, 1e-5).unwrap();
    assert_eq!([mean, variance].map(|x| x.to_vec::<f32>().unwrap()), [vec![1.0; 3], vec![1.0; 3]]);
}
