//! Modules against PyTorch's: results, gradients of arguments and parameters, and buffers, from a state dict with PyTorch's names.
//!
//! The fixture was made by `tools/oracle/torch_modules.py` with PyTorch 2, in `f64`.

mod build;
mod build_misc;
mod fixture;

use build::{Built, build};
use fixture::{Case, cases};
use rustorch_tensor::{DType, Tensor};

/// Whether each element is as near as the dtype allows: relative to itself in `f64`, to the largest in `f32`.
fn compare(what: &str, got: &Tensor, want: &Tensor) -> Result<(), String> {
    if got.dims() != want.dims() {
        return Err(format!("{what} has shape {}, PyTorch's {}", got.shape(), want.shape()));
    }
    let wide = |x: &Tensor| x.detach().to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap();
    let (values, expected) = (wide(got), wide(want));
    let largest = expected.iter().filter(|b| b.is_finite()).fold(0.0f64, |s, b| s.max(b.abs()));
    for (i, (a, b)) in values.iter().zip(&expected).enumerate() {
        let tolerance = match got.dtype() {
            DType::F64 => 1e-9 + 1e-9 * b.abs(),
            DType::F32 => 1e-6 + 2e-5 * largest,
            _ => 0.0,
        };
        let same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance;
        if !same {
            return Err(format!("{what}, element {i} is {a}, PyTorch's {b}"));
        }
    }
    Ok(())
}

fn compare_maybe(what: &str, got: Option<&Tensor>, want: Option<&Tensor>) -> Result<(), String> {
    match (got, want) {
        (Some(got), Some(want)) => compare(what, got, want),
        (None, None) => Ok(()),
        (got, _) => {
            Err(format!("{what} is {}, PyTorch's is not", if got.is_some() { "there" } else { "missing" }))
        }
    }
}

/// Everything that PyTorch computed in a case, in a dtype.
fn check(case: &Case, dtype: DType) -> Result<(), String> {
    let told = |error: rustorch_tensor::Error| error.to_string();
    let Built { module, forward } = build(case, dtype).map_err(told)?;
    assert_eq!(module.type_name(), case.module);
    let ours: Vec<String> = module.state_dict().iter().map(|(name, _)| name.to_owned()).collect();
    let theirs: Vec<&str> = case.state.iter().map(|(name, _)| name.as_str()).collect();
    // PyTorch lists buffers of a module after its parameters, as the fields do.
    if ours != theirs {
        return Err(format!("the state dict has {ours:?}, PyTorch's {theirs:?}"));
    }
    module.load_state_dict(&case.state.iter().cloned().collect()).map_err(told)?;
    if case.train {
        module.train()
    } else {
        module.eval()
    }
    let inputs: Vec<Option<Tensor>> = case.inputs(dtype);
    let outputs = forward(&inputs).map_err(told)?;
    if outputs.len() != case.outputs.len() {
        return Err(format!("{} results, PyTorch gives {}", outputs.len(), case.outputs.len()));
    }
    let mut weights = case.c.iter();
    let mut loss: Option<Tensor> = None;
    for (i, (got, want)) in outputs.iter().zip(&case.outputs).enumerate() {
        compare_maybe(&format!("result {i}"), got.as_ref(), want.as_ref())?;
        let Some(got) = got.as_ref().filter(|got| got.dtype().is_float()) else { continue };
        let c = weights.next().unwrap().to_dtype(dtype).unwrap();
        let term = got.mul(&c).and_then(|x| x.sum_all()).map_err(told)?;
        loss = Some(match loss {
            Some(loss) => loss.add(&term).unwrap(),
            None => term,
        });
    }
    let loss = loss.unwrap();
    if loss.requires_grad() {
        loss.backward().map_err(told)?;
    }
    for (i, (input, want)) in inputs.iter().zip(&case.input_grads).enumerate() {
        let got = input.as_ref().and_then(Tensor::grad);
        compare_maybe(&format!("gradient of argument {i}"), got.as_ref(), want.as_ref())?;
    }
    for (name, parameter) in module.named_parameters() {
        let want = case.grads.iter().find(|(have, _)| *have == name).unwrap().1.as_ref();
        compare_maybe(&format!("gradient of {name}"), parameter.grad().as_ref(), want)?;
    }
    for (name, buffer) in module.named_buffers() {
        if buffer.tensor().requires_grad() {
            return Err(format!("buffer {name} requires a gradient"));
        }
    }
    for (name, want) in &case.buffers {
        let state = module.state_dict();
        compare(&format!("buffer {name}"), state.get(name).unwrap(), want)?;
    }
    Ok(())
}

#[test]
fn modules_compute_what_pytorchs_do() {
    let cases = cases("modules.jsonl");
    let mut wrong = Vec::new();
    for case in &cases {
        for dtype in [DType::F64, DType::F32] {
            if let Err(message) = check(case, dtype) {
                wrong.push(format!("{} in {dtype}: {message}", case.label));
            }
        }
    }
    println!("{} cases, in f64 and f32", cases.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases.len() >= 314);
}
