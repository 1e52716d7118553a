//! Modules against PyTorch's: results, gradients of arguments and parameters, and buffers, from a state dict with PyTorch's names.
//!
//! The fixtures were made with PyTorch 2 in `f64`: `tools/oracle/torch_modules.py` has cases of our own, `tools/oracle/torch_module_db.py` the
//! samples of PyTorch's own tests.

pub(crate) mod build;
mod build_functions;
mod build_misc;
mod build_recurrent;
pub(crate) mod fixture;

use build::{Built, build};
use fixture::{Case, Fixture};
use rustorch_tensor::{DType, Result, Tensor};
use std::collections::BTreeSet;

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

/// What PyTorch's outputs were multiplied with.
fn factors(output: &Tensor) -> Tensor {
    let factor = |i: usize| 0.25 + 0.5 * ((i % 5) as f64 - 2.0);
    let factors = Tensor::from_vec::<f64>((0..output.numel()).map(factor).collect(), output.shape()).unwrap();
    factors.to_dtype(output.dtype()).unwrap()
}

/// What a call leaves out is none.
fn with_room(mut inputs: Vec<Option<Tensor>>) -> Vec<Option<Tensor>> {
    inputs.resize(inputs.len().max(8), None);
    inputs
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
    let outputs = forward(&with_room(inputs.clone())).map_err(told)?;
    if outputs.len() != case.outputs.len() {
        return Err(format!("{} results, PyTorch gives {}", outputs.len(), case.outputs.len()));
    }
    let mut loss: Option<Tensor> = None;
    for (i, (got, want)) in outputs.iter().zip(&case.outputs).enumerate() {
        compare_maybe(&format!("result {i}"), got.as_ref(), want.as_ref())?;
        let Some(got) = got.as_ref().filter(|got| got.dtype().is_float()) else { continue };
        let term = got.mul(&factors(got)).and_then(|x| x.sum_all()).map_err(told)?;
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

/// Runs cases in `f64` and `f32`, and returns the names of their modules, and a line that counts.
fn check_all(cases: impl Iterator<Item = Case>) -> (BTreeSet<String>, String) {
    let (mut wrong, mut count, mut modules) = (Vec::new(), [0; 2], BTreeSet::new());
    for case in cases {
        modules.insert(case.module.clone());
        count[usize::from(case.raises.is_some())] += 1;
        if let Some(message) = &case.raises {
            // Without inputs it is the constructor that errs.
            let result = build(&case, DType::F64).and_then(|built| match case.inputs.is_empty() {
                true => Ok(Vec::new()),
                false => (built.forward)(&with_room(case.inputs.clone())),
            });
            if result.is_ok() {
                wrong.push(format!("{}: PyTorch says {message}", case.label));
            }
            continue;
        }
        for dtype in [DType::F64, DType::F32] {
            if let Err(message) = check(&case, dtype) {
                wrong.push(format!("{} in {dtype}: {message}", case.label));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    let line = format!("{} modules, {} cases in f64 and f32, {} errors", modules.len(), count[0], count[1]);
    (modules, line)
}

#[test]
fn modules_compute_what_pytorchs_do() {
    let (modules, line) = check_all(Fixture::read("modules").cases());
    println!("{line}");
    assert!(modules.len() >= 85);
}

/// Every module of PyTorch's `module_db`, but those that the fixture lists with a reason.
#[test]
fn modules_pass_pytorchs_own_samples() {
    let fixture = Fixture::read("module_db");
    let (modules, line) = check_all(fixture.cases());
    println!("{line}");
    let mut left_out = BTreeSet::new();
    for line in fixture.lines().iter().filter(|line| line.get("left_out").is_some()) {
        let (module, why) = (line["module"].as_str().unwrap(), line["left_out"].as_str().unwrap());
        match line["count"].as_u64() {
            Some(count) => println!("{module}: {count} left out: {why}"),
            None => {
                println!("{module} is left out: {why}");
                left_out.insert(module.to_owned());
            }
        }
    }
    assert_eq!(modules.len() + left_out.len(), fixture.lines()[0]["entries"].as_u64().unwrap() as usize);
}
