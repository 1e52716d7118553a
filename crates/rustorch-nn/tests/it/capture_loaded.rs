//! Captured steps behind states that were loaded, schedules that begin to do something else, and gradients that were there: eager's bits, or an error.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use rustorch_nn::optim::schedule::{
    ExponentialLR, LinearLR, OneCycleLR, Schedule, Scheduler, SchedulerState, SequentialLR,
};
use rustorch_nn::optim::{AdamW, AdamWOptions, SGD, SGDOptions, clip_grad_norm_};
use rustorch_nn::{Layer, Linear, Module};
use rustorch_tensor::{DType, Result, Tensor, TensorSpec, capture, compile};

fn model() -> Linear {
    let model = Linear::new(3, 1).unwrap();
    for (i, (_, parameter)) in model.named_parameters().iter().enumerate() {
        rustorch_tensor::autograd::no_grad(|| parameter.tensor().fill_(0.25 + i as f64)).unwrap();
    }
    model
}

fn x() -> Tensor {
    Tensor::new([[0.1f32, 0.7, -0.3], [1.3, -0.9, 0.2]]).unwrap()
}

fn pass(model: &Linear, x: &Tensor) -> Result<()> {
    model.forward(x)?.square()?.sum_all()?.backward()
}

fn bytes(model: &Linear) -> Vec<Vec<u8>> {
    model.named_parameters().iter().map(|(_, x)| x.tensor().to_bytes().unwrap()).collect()
}

#[test]
fn a_fresh_state_that_is_loaded_is_another_first_step() {
    let train = |is_captured: bool| {
        let model = model();
        let mut optimizer = AdamW::new(&model, AdamWOptions { lr: 0.1, ..Default::default() }).unwrap();
        let fresh = optimizer.state_dict();
        for _ in 0..2 {
            let step = |x: &[Tensor]| {
                model.zero_grad();
                pass(&model, &x[0])?;
                optimizer.step()?;
                Ok(vec![])
            };
            if is_captured {
                let program = capture(&[TensorSpec::from(&x())], step).unwrap();
                (0..4).for_each(|_| assert!(program.run(&[&x()]).unwrap().is_empty()));
                optimizer.load_state_dict(&fresh).unwrap();
                assert!(program.run(&[&x()]).unwrap_err().to_string().contains("the state of an optimizer"));
            } else {
                (0..4).for_each(|_| assert!(step(&[x()]).unwrap().is_empty()));
                optimizer.load_state_dict(&fresh).unwrap();
            }
        }
        bytes(&model)
    };
    assert_eq!(train(true), train(false));
}

/// The learning rate and momentum after steps with a schedule whose state was loaded, or why there is none.
fn scheduled(
    schedule: impl Schedule + 'static,
    loaded: Option<SchedulerState>,
    by: By,
) -> Result<(f64, f64)> {
    let model = model();
    let options = SGDOptions { lr: 1.0, momentum: 0.5, ..Default::default() };
    let optimizer = SGD::new(&model, options).unwrap();
    let mut scheduler = Scheduler::new(schedule, &optimizer).unwrap();
    let program = match by {
        By::Program => Some(capture(&[], |_| {
            scheduler.step(&optimizer)?;
            Ok(vec![])
        })?),
        By::Hand => None,
    };
    if let Some(state) = loaded {
        scheduler.load_state_dict(&state).unwrap();
    }
    for _ in 0..5 {
        match &program {
            Some(program) => assert!(program.run(&[])?.is_empty()),
            None => scheduler.step(&optimizer)?,
        }
    }
    let SGDOptions { lr, momentum, .. } = optimizer.groups()[0].options();
    Ok((lr, momentum))
}

#[derive(Clone, Copy)]
enum By {
    Hand,
    Program,
}

#[test]
fn a_schedule_goes_on_from_the_state_that_was_loaded() {
    let rate = |by| {
        let loaded = SchedulerState { step: 3, base: vec![0.01] };
        scheduled(ExponentialLR::new(0.9), Some(loaded), by).unwrap()
    };
    assert_eq!(rate(By::Program), rate(By::Hand));
}

#[test]
fn a_schedule_that_begins_to_set_momenta_ends_the_program() {
    let schedule = || {
        SequentialLR::new(LinearLR::new(0.1, 1.0, 2).unwrap())
            .then(2, OneCycleLR::new(1.0, 10).unwrap())
            .unwrap()
    };
    assert_ne!(scheduled(schedule(), None, By::Hand).unwrap().1, 0.5);
    let error = scheduled(schedule(), None, By::Program).unwrap_err().to_string();
    assert!(error.contains("whether a schedule sets momenta"), "{error}");
}

#[test]
fn gradients_of_several_passes_are_added_in_eagers_order() {
    let passes = |model: &Linear, x: &Tensor| -> Result<Vec<Tensor>> {
        for i in 1..4 {
            pass(model, &x.mul(f64::from(i) * 0.37)?)?;
        }
        Ok(vec![])
    };
    let [eager, captured] = [(); 2].map(|()| model());
    let program = compile(|x: &[Tensor]| passes(&captured, &x[0]));
    for _ in 0..4 {
        passes(&eager, &x()).unwrap();
        program.run(&[&x()]).unwrap();
        let grads = [&eager, &captured].map(|model| {
            let of = model.named_parameters().into_iter();
            of.map(|(_, x)| x.grad().unwrap().to_bytes().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(grads[0], grads[1]);
    }
}

#[test]
fn a_greatest_norm_that_is_no_number_is_refused() {
    let model = model();
    pass(&model, &x()).unwrap();
    let error = clip_grad_norm_(&model, f64::NAN, 2.0).unwrap_err().to_string();
    assert!(error.contains("NaN"), "{error}");
    let spec = TensorSpec::new([2, 3], DType::F32).unwrap();
    let captured = capture(&[spec], |x| {
        pass(&model, &x[0])?;
        Ok(vec![clip_grad_norm_(&model, f64::NAN, 2.0)?])
    });
    assert!(captured.unwrap_err().to_string().contains("NaN"));
}
