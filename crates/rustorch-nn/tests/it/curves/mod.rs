//! Trainings have PyTorch's losses and end with its weights: `tools/oracle/torch_curves.py` wrote them.

pub(crate) mod data;
pub(crate) mod models;

use data::Fixture;
use models::{Gpt, LeNet, Lstm, Mlp, Training, Vae};
use rustorch_nn::Module;
use rustorch_tensor::{DType, Result};

/// The most that a loss in `F32` may be off in a step, relative to PyTorch's in `F64`.
fn single_tolerance(step: usize) -> f64 {
    if step < 50 { 1e-3 } else { 1e-2 }
}

/// Trains in `F64` to the step whose weights are stored, and in `F32` to the end.
fn check<T: Training>() -> Result<()> {
    let fixture = Fixture::read(T::NAME);
    for dtype in [DType::F64, DType::F32] {
        let training = T::new(&fixture)?;
        let model = training.model();
        let names: Vec<String> = model.named_parameters().into_iter().map(|(name, _)| name).collect();
        assert!(names.iter().eq(fixture.parameters.iter().map(|(name, _)| name)), "{}: {names:?}", T::NAME);
        model.to_dtype(dtype)?;
        model.load_state_dict(&fixture.initial()?)?;
        let mut optimizer = training.optimizer()?;
        let steps = if dtype == DType::F64 { fixture.stored } else { fixture.losses.len() };
        for (step, want) in fixture.losses.iter().enumerate().take(steps) {
            model.zero_grad();
            let loss = training.loss(step, dtype)?;
            assert_eq!(loss.dtype(), dtype);
            loss.backward()?;
            optimizer(model)?;
            let (have, tolerance) = (
                loss.item()?.to_f64(),
                match dtype {
                    DType::F64 => 1e-8,
                    _ => single_tolerance(step),
                },
            );
            let off = (have - want).abs() / want.abs();
            assert!(off <= tolerance, "{} {dtype}, step {step}: {have} for {want}", T::NAME);
        }
        if dtype == DType::F64 {
            let trained = fixture.trained()?;
            for (name, want) in trained.iter() {
                let have = model.state_dict().get(name).expect("a parameter's name").to_vec::<f64>()?;
                for (have, want) in have.into_iter().zip(want.to_vec::<f64>()?) {
                    assert!((have - want).abs() <= 1e-6, "{}: {have} of `{name}` for {want}", T::NAME);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn mlp_with_adam() -> Result<()> {
    check::<Mlp>()
}

#[test]
fn lenet_with_momentum() -> Result<()> {
    check::<LeNet>()
}

#[test]
fn lstm_with_rmsprop_and_clipping() -> Result<()> {
    check::<Lstm>()
}

#[test]
fn gpt_with_adamw_and_a_cosine() -> Result<()> {
    check::<Gpt>()
}

#[test]
fn vae_with_adam() -> Result<()> {
    check::<Vae>()
}
