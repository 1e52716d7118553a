//! Mixed precision: scales are PyTorch's (`tools/oracle/torch_amp.py`), and a GPT in BF16 learns as one in F32.

use crate::curves::data::uniform;
use crate::curves::models::{Gpt, Training};
use rustorch_nn::amp::{GradScaler, GradScalerOptions, autocast};
use rustorch_nn::optim::{SGD, SGDOptions};
use rustorch_nn::{Layer, Linear, Module};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{DType, Result, Tensor};
use serde_json::Value;

fn list(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

#[test]
fn scales_and_weights_are_pytorch_s() -> Result<()> {
    let (x, y) = (uniform(1, [100, 3])?, uniform(2, [100, 2])?);
    let mut count = 0;
    for line in include_str!("../fixtures/amp.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let option = |name: &str| case["options"][name].as_f64().unwrap();
        let options = GradScalerOptions {
            init_scale: option("init_scale"),
            growth_factor: option("growth_factor"),
            backoff_factor: option("backoff_factor"),
            growth_interval: option("growth_interval") as u64,
            enabled: true,
        };
        let model = Linear::new(3, 2)?;
        model.to_dtype(DType::F64)?;
        no_grad(|| model.parameters().iter().try_for_each(|parameter| parameter.tensor().fill_(0.0)))?;
        let optimizer = SGD::new(&model, SGDOptions { lr: 0.1, momentum: 0.5, ..Default::default() })?;
        let mut scaler = GradScaler::new(options)?;
        let (infinite, nan) = (list(&case["infinite"]), list(&case["nan"]));
        let (scales, trackers) = (list(&case["scales"]), list(&case["trackers"]));
        assert_eq!(scales.len(), 100);
        for step in 0..scales.len() {
            let is_in = |steps: &[f64]| steps.contains(&(step as f64));
            let factor = match (is_in(&infinite), is_in(&nan)) {
                (true, _) => f64::INFINITY,
                (_, true) => f64::NAN,
                _ => 1.0,
            };
            optimizer.zero_grad();
            let row = |x: &Tensor| x.select(0, step as isize);
            let loss = (model.forward(&row(&x)?)? - row(&y)?).square()?.mean_all()?.mul(factor)?;
            scaler.scale(&loss)?.backward()?;
            assert_eq!(scaler.step(&optimizer)?, factor == 1.0);
            scaler.update()?;
            // The reader of JSON may be off by an ulp of f64.
            assert_eq!(scaler.get_scale() as f32, scales[step] as f32, "step {step} of {}", case["options"]);
            assert_eq!(scaler.state_dict().growth_tracker as f64, trackers[step]);
            let have =
                [&model.weight, model.bias.as_ref().unwrap()].map(|x| x.tensor().to_vec::<f64>().unwrap());
            for (have, want) in have.concat().into_iter().zip(list(&case["weights"][step])) {
                assert!((have - want).abs() <= 1e-9 + 1e-9 * want.abs(), "step {step}: {have} for {want}");
            }
            // Another scaler goes on from its state.
            let mut other = GradScaler::new(GradScalerOptions::default())?;
            other.load_state_dict(&scaler.state_dict())?;
            scaler = other;
        }
        count += 1;
    }
    assert_eq!(count, 3);
    Ok(())
}

#[test]
fn calls_out_of_order_are_errors() -> Result<()> {
    let model = Linear::new(2, 2)?;
    let optimizer = SGD::new(&model, SGDOptions::default())?;
    let mut scaler = GradScaler::new(GradScalerOptions::default())?;
    let said = |result: Result<()>| result.expect_err("an error").to_string();
    assert!(said(scaler.update()).contains("`update` without a `step`"));
    assert!(scaler.unscale_(&optimizer)?);
    assert!(said(scaler.unscale_(&optimizer).map(drop)).contains("`unscale_` was called twice"));
    scaler.step(&optimizer)?;
    assert!(said(scaler.unscale_(&optimizer).map(drop)).contains("`unscale_` was called after `step`"));
    assert!(said(scaler.step(&optimizer).map(drop)).contains("`step` was called twice"));
    scaler.update()?;
    model.to_dtype(DType::F16)?;
    model.weight.tensor().set_grad(Some(&Tensor::ones([2, 2], DType::F16)?))?;
    assert!(
        said(scaler.unscale_(&optimizer).map(drop))
            .contains("the gradient of `weight` is f16, it must be f32")
    );
    for (options, part) in [
        (GradScalerOptions { growth_factor: 1.0, ..Default::default() }, "`growth_factor` is 1"),
        (GradScalerOptions { backoff_factor: 1.0, ..Default::default() }, "`backoff_factor` is 1"),
        (GradScalerOptions { init_scale: 1e39, ..Default::default() }, "finite in f32"),
        (GradScalerOptions { growth_interval: 0, ..Default::default() }, "`growth_interval` is 0"),
    ] {
        assert!(said(GradScaler::new(options).map(drop)).contains(part));
    }
    // One that is off is not there.
    let mut off = GradScaler::new(GradScalerOptions { enabled: false, ..Default::default() })?;
    let loss = Tensor::new(3.0f32)?;
    assert_eq!(off.scale(&loss)?.to_vec::<f32>()?, [3.0]);
    assert!(off.step(&optimizer)?);
    off.update()?;
    assert_eq!(off.get_scale(), 1.0);
    Ok(())
}

#[test]
fn a_gpt_in_bf16_learns_as_in_f32() -> Result<()> {
    let fixture = crate::curves::data::Fixture::read(Gpt::NAME);
    let losses = |lower: Option<DType>| -> Result<Vec<f64>> {
        let training = Gpt::new(&fixture)?;
        training.model().load_state_dict(&fixture.initial()?)?;
        let mut update = training.optimizer()?;
        let mut losses = Vec::new();
        for step in 0..100 {
            training.model().zero_grad();
            let loss = match lower {
                Some(dtype) => autocast(dtype, || training.loss(step, DType::F32))??,
                None => training.loss(step, DType::F32)?,
            };
            loss.backward()?;
            update(training.model())?;
            losses.push(loss.item()?.to_f64());
        }
        Ok(losses)
    };
    let (exact, lowered) = (losses(None)?, losses(Some(DType::BF16))?);
    assert_ne!(exact, lowered);
    for (step, (want, have)) in exact.into_iter().zip(lowered).enumerate() {
        assert!((have - want).abs() <= 0.01 * want, "step {step}: {have} for {want}");
    }
    Ok(())
}
