//! Convolutions, transposed convolutions and their gradients against PyTorch's.
//!
//! The fixture was made by `tools/oracle/torch_conv.py` with PyTorch 2.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::{Case, check_of, fixture};
use rustorch_tensor::{ConvOptions, DType, Error, Padding, Result, Sizes, Tensor};
use serde_json::Value;

const FIXTURE: &str = "conv.jsonl";
pub(crate) const FORWARD: &[&str] = &["conv1d", "conv2d", "conv3d"];
pub(crate) const TRANSPOSED: &[&str] = &["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"];
const GRADIENTS: &[&str] = &["conv_input_gradient", "conv_weight_gradient"];

/// A number or a list of them.
fn sizes(value: &Value) -> Option<Sizes> {
    let number = |n: &Value| n.as_i64().unwrap() as isize;
    match value {
        Value::Number(_) => Some(number(value).into()),
        Value::Array(list) => Some(list.iter().map(number).collect::<Vec<_>>().into()),
        _ => None,
    }
}

fn padding(value: &Value) -> Padding {
    let pair = |pair: &Value| (pair[0].as_u64().unwrap() as usize, pair[1].as_u64().unwrap() as usize);
    match value {
        Value::String(name) if name == "same" => Padding::Same,
        Value::String(name) if name == "valid" => Padding::Valid,
        Value::Array(list) if list[0].is_array() => list.iter().map(pair).collect::<Vec<_>>().into(),
        other => sizes(other).unwrap().into(),
    }
}

fn options(case: &Case) -> ConvOptions {
    let mut options = ConvOptions::new();
    for (name, value) in case.attrs.as_object().unwrap() {
        let list = || sizes(value).unwrap();
        options = match name.as_str() {
            "stride" => options.stride(list()),
            "padding" => options.padding(padding(value)),
            "dilation" => options.dilation(list()),
            "output_padding" => options.output_padding(list()),
            "groups" => options.groups(value.as_u64().unwrap() as usize),
            "size" | "call" => options,
            other => panic!("option {other}"),
        };
    }
    options
}

pub(crate) fn call(name: &str, case: &Case) -> Result<Tensor> {
    let (x, weight, bias) = (&case.inputs[0], &case.inputs[1], case.inputs.get(2));
    let options = options(case);
    match name {
        "conv1d" => x.conv1d(weight, bias, &options),
        "conv2d" => x.conv2d(weight, bias, &options),
        "conv3d" => x.conv3d(weight, bias, &options),
        "conv_transpose1d" => x.conv_transpose1d(weight, bias, &options),
        "conv_transpose2d" => x.conv_transpose2d(weight, bias, &options),
        "conv_transpose3d" => x.conv_transpose3d(weight, bias, &options),
        other => panic!("call {other}"),
    }
}

fn same_as_pytorch(ops: &[&str]) {
    check_of(FIXTURE, ops, false, |case| Ok(vec![call(&case.op, case)?]));
}

#[test]
fn no_case_is_left_out() {
    let known = [FORWARD, TRANSPOSED, GRADIENTS, &["refused"]].concat();
    let lines = fixture(FIXTURE);
    assert!(lines.len() > 80);
    for line in lines {
        assert!(known.contains(&line["op"].as_str().unwrap()), "no test runs {}", line["op"]);
    }
}

#[test]
fn convolutions() {
    same_as_pytorch(FORWARD);
}

#[test]
fn transposed_convolutions() {
    same_as_pytorch(TRANSPOSED);
}

#[test]
fn gradients() {
    check_of(FIXTURE, GRADIENTS, false, |case| {
        let size: Vec<usize> = case.ints("size").iter().map(|&n| n as usize).collect();
        let (a, grad) = (&case.inputs[0], &case.inputs[1]);
        Ok(vec![match case.op.as_str() {
            "conv_input_gradient" => Tensor::conv_input_gradient(size, a, grad, &options(case))?,
            _ => Tensor::conv_weight_gradient(a, size, grad, &options(case))?,
        }])
    });
}

#[test]
fn what_pytorch_refuses_is_refused() {
    let mut count = 0;
    for line in fixture(FIXTURE).iter().filter(|line| line["op"] == "refused") {
        let case = Case::new(line);
        match call(case.attrs["call"].as_str().unwrap(), &case) {
            Ok(_) => panic!("{} is not refused", case.label),
            Err(Error::Shape { .. } | Error::Argument { .. } | Error::DType { .. }) => count += 1,
            Err(other) => panic!("{}: {other}", case.label),
        }
    }
    assert!(count > 15);
}

#[test]
fn messages_name_what_was_wrong() {
    let zeros = |dims: &[usize]| Tensor::zeros(dims, DType::F32).unwrap();
    let (x, w) = (zeros(&[1, 3, 5, 6]), zeros(&[4, 3, 3, 3]));
    let says = |result: Result<Tensor>, parts: &[&str]| {
        let text = result.unwrap_err().to_string();
        for part in parts {
            assert!(text.contains(part), "`{text}` does not say `{part}`");
        }
    };
    let plain = ConvOptions::new;
    says(x.conv1d(&w, None, &plain()), &["conv1d", "3 dimensions", "[1, 3, 5, 6]"]);
    says(x.conv2d(&w, None, &plain().stride([1, 2, 3])), &["conv2d", "stride has 3 entries"]);
    says(x.conv2d(&w, None, &plain().padding(-1)), &["conv2d", "padding", "negative"]);
    says(x.conv2d(&w, None, &plain().padding(vec![(1, 1)])), &["conv2d", "1 pairs"]);
    says(x.conv2d(&w, None, &plain().stride(2).padding(Padding::Same)), &["conv2d", "stride 1", "2, 2"]);
    says(x.conv2d(&w, None, &plain().output_padding(1)), &["conv2d", "transposed"]);
    says(
        x.conv_transpose2d(&w, None, &plain().padding(Padding::Same)),
        &["conv_transpose2d", "not transposed"],
    );
    let wt = zeros(&[3, 4, 3, 3]);
    says(
        x.conv_transpose2d(&wt, None, &plain().stride(2).output_padding(2)),
        &["output_padding 2", "stride 2"],
    );
    says(x.conv_transpose2d(&wt, None, &plain().padding(5)), &["no positions", "[1, 3, 5, 6]"]);
    let grad = zeros(&[1, 4, 3, 4]);
    says(
        Tensor::conv_input_gradient([1, 6, 5, 6], &w, &grad, &plain()),
        &["conv_input_gradient", "[1, 6, 5, 6]"],
    );
    says(Tensor::conv_input_gradient([1, 3, 5, 8], &w, &grad, &plain()), &["dimension 1", "8", "6 to 6"]);
    says(
        Tensor::conv_weight_gradient(&x, [4, 1, 3, 3], &grad, &plain()),
        &["conv_weight_gradient", "[4, 1, 3, 3]"],
    );
    says(Tensor::conv_weight_gradient(&x, [4, 3, 3], &grad, &plain()), &["weight [c_out"]);
}
