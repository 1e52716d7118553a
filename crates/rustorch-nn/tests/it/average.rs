//! Averages are PyTorch's (`tools/oracle/torch_average.py`), and gradients add up over batches.

use rustorch_nn::optim::{
    AveragedModel, Ema, SGD, SGDOptions, ema_avg_fn, expect_finite_grads, nonfinite_grads, swa_avg_fn,
    update_bn,
};
use rustorch_nn::{BatchNorm1d, Layer, Linear, Module, Sequential, StateDict};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{DType, Error, Result, Tensor, manual_seed};
use serde_json::Value;

fn model() -> Result<Sequential> {
    let model = Sequential::new().push(Linear::new(3, 2)?).push(BatchNorm1d::new(2)?);
    model.to_dtype(DType::F64)?;
    Ok(model)
}

/// Nested lists of numbers.
fn tensor(value: &Value) -> Result<Tensor> {
    fn numbers(value: &Value) -> Vec<f64> {
        match value.as_array() {
            Some(list) => list.iter().flat_map(numbers).collect(),
            None => vec![value.as_f64().unwrap()],
        }
    }
    let lists = std::iter::successors(value.as_array(), |list| list.first()?.as_array());
    let shape: Vec<usize> = lists.map(Vec::len).collect();
    Tensor::from_vec(numbers(value), shape)
}

fn state(value: &Value) -> Result<StateDict> {
    value.as_object().unwrap().iter().map(|(name, x)| Ok((name.clone(), tensor(x)?))).collect()
}

fn assert_state(have: &StateDict, want: &Value, what: &str) -> Result<()> {
    let want = state(want)?;
    assert_eq!(have.len(), want.len(), "{what}");
    for (name, want) in want.iter() {
        let have = have.get(name).unwrap_or_else(|| panic!("{what}: no `{name}`")).to_dtype(DType::F64)?;
        for (have, want) in have.to_vec::<f64>()?.into_iter().zip(want.to_vec::<f64>()?) {
            assert!((have - want).abs() <= 1e-9 + 1e-9 * want.abs(), "{what}: {have} of `{name}` for {want}");
        }
    }
    Ok(())
}

#[test]
fn averaged_models_are_pytorch_s() -> Result<()> {
    let mut lines =
        include_str!("../fixtures/average.jsonl").lines().map(|line| serde_json::from_str(line).unwrap());
    let data: Value = lines.next().unwrap();
    let cases: Vec<Value> = lines.collect();
    assert_eq!(cases.len(), 5);
    for case in cases {
        let what = format!("{} {} {}", case["kind"], case["decay"], case["use_buffers"]);
        let average = match case["decay"].as_f64() {
            Some(decay) => ema_avg_fn(decay)?,
            None => swa_avg_fn(),
        };
        let averaged =
            AveragedModel::new(model()?, average)?.use_buffers(case["use_buffers"].as_bool().unwrap());
        let current = model()?;
        let states = data["states"].as_array().unwrap();
        for (step, (before, after)) in states.iter().zip(case["states"].as_array().unwrap()).enumerate() {
            current.load_state_dict(&state(before)?)?;
            averaged.update_parameters(&current)?;
            assert_state(&averaged.state_dict(), after, &format!("{what}, step {step}"))?;
        }
        assert_eq!(averaged.n_averaged()?, 5);
        averaged.eval();
        let batches = data["batches"].as_array().unwrap().iter().map(tensor);
        update_bn(&averaged, batches, |x| averaged.forward(&x))?;
        assert_state(&averaged.state_dict(), &case["bn"], &format!("{what}, update_bn"))?;
        // It evaluates as before: statistics stay.
        averaged.forward(&Tensor::ones([4, 3], DType::F64)?)?;
        assert_state(&averaged.state_dict(), &case["bn"], &format!("{what}, after update_bn"))?;
    }
    Ok(())
}

#[test]
fn other_models_are_not_averaged() -> Result<()> {
    let averaged = AveragedModel::new(Linear::new(2, 3)?, swa_avg_fn())?;
    let said = averaged.update_parameters(&Linear::new(5, 3)?).expect_err("another shape").to_string();
    assert!(said.contains("the model has `weight` [3, 5]"), "{said}");
    assert_eq!(averaged.n_averaged()?, 0);
    let ema = Ema::new(&Linear::new(2, 3)?, 0.9)?;
    let said = ema.update(&model()?).expect_err("other names").to_string();
    assert!(
        said.contains("`0.weight` [2, 3]") && said.contains("the averages are `weight` [3, 2]"),
        "{said}"
    );
    assert!(ema_avg_fn(1.5).is_err() && Ema::new(&Linear::new(2, 3)?, -0.1).is_err());
    Ok(())
}

#[test]
fn ema_gives_the_parameters_back() -> Result<()> {
    let model = Linear::new(2, 2)?;
    model.to_dtype(DType::BF16)?;
    no_grad(|| model.weight.tensor().fill_(1.0))?;
    let ema = Ema::new(&model, 0.999)?;
    no_grad(|| model.weight.tensor().fill_(2.0))?;
    let weight = || model.weight.tensor().to_dtype(DType::F64)?.to_vec::<f64>();
    (0..500).try_for_each(|_| ema.update(&model))?;
    // 2 − 0.999⁵⁰⁰, to which steps of BF16 would not lead.
    let average = ema.state_dict().get("weight").unwrap().to_vec::<f32>()?[0];
    assert!((f64::from(average) - (2.0 - 0.999f64.powi(500))).abs() < 1e-5, "{average}");
    let failed: Result<()> = ema.with_averages(&model, || {
        assert!((weight()?[0] - 1.3936).abs() < 0.005);
        Err(Error::argument("validation", "fails"))
    });
    assert!(failed.is_err());
    assert_eq!(weight()?, [2.0; 4]);
    // Its state dict loads into another.
    let other = Ema::new(&model, 0.9)?;
    other.load_state_dict(&ema.state_dict())?;
    other.copy_to(&model)?;
    assert!((weight()?[0] - 1.3936).abs() < 0.005);
    Ok(())
}

#[test]
fn gradients_of_small_batches_are_those_of_a_large_one() -> Result<()> {
    for dtype in [DType::F64, DType::F32] {
        manual_seed(5);
        let (x, y) = (Tensor::randn([16, 3], dtype)?, Tensor::randn([16, 2], dtype)?);
        let make = || -> Result<(Sequential, SGD)> {
            let model =
                Sequential::new().push(Linear::new(3, 8)?).push(Tensor::tanh).push(Linear::new(8, 2)?);
            model.to_dtype(dtype)?;
            let optimizer = SGD::new(&model, SGDOptions { lr: 0.1, momentum: 0.9, ..Default::default() })?;
            Ok((model, optimizer))
        };
        let ((large, of_large), (small, of_small)) = (make()?, make()?);
        small.load_state_dict(&large.state_dict())?;
        let loss = |model: &Sequential, start, n| {
            (model.forward(&x.narrow(0, start, n)?)? - y.narrow(0, start, n)?).square()?.mean_all()
        };
        for _ in 0..10 {
            of_large.zero_grad();
            loss(&large, 0, 16)?.backward()?;
            of_large.step()?;
            of_small.zero_grad();
            for k in 0..4 {
                loss(&small, 4 * k, 4)?.div(4.0)?.backward()?;
            }
            of_small.step()?;
        }
        for ((name, a), (_, b)) in large.state_dict().into_iter().zip(small.state_dict()) {
            let numbers = |x: Tensor| x.to_dtype(DType::F64)?.to_vec::<f64>();
            let (a, b) = (numbers(a)?, numbers(b)?);
            let largest = a.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
            for (a, b) in a.into_iter().zip(b) {
                let tolerance =
                    if dtype == DType::F64 { 1e-9 + 1e-9 * a.abs() } else { 1e-6 + 2e-5 * largest };
                assert!((a - b).abs() <= tolerance, "{dtype} {name}: {b} for {a}");
            }
        }
    }
    Ok(())
}

#[test]
fn gradients_that_are_not_finite_skip_the_step_or_err() -> Result<()> {
    let model = Linear::new(2, 2)?;
    no_grad(|| model.weight.tensor().fill_(1.0))?;
    let optimizer = SGD::new(&model, SGDOptions { lr: 1.0, ..Default::default() })?;
    let weight = || model.weight.tensor().to_vec::<f32>();
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        model.weight.tensor().set_grad(Some(&Tensor::new([[1.0, 1.0], [wrong, 1.0]])?))?;
        assert_eq!(nonfinite_grads(&model)?, ["weight"]);
        let said = expect_finite_grads(&model).expect_err("no finite gradient").to_string();
        assert!(said.contains("in the gradients of `weight`"), "{said}");
        assert_eq!(optimizer.step_if_finite()?, ["weight"]);
        assert_eq!(weight()?, [1.0; 4]);
    }
    model.weight.tensor().set_grad(Some(&Tensor::full([2, 2], f64::from(f32::MAX), DType::F32)?))?;
    expect_finite_grads(&model)?;
    model.weight.tensor().set_grad(Some(&Tensor::ones([2, 2], DType::F32)?))?;
    assert!(optimizer.step_if_finite()?.is_empty());
    assert_eq!(weight()?, [0.0; 4]);
    Ok(())
}
