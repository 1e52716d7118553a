//! Captured steps behind states that were loaded, schedules that begin to do something else, and gradients that were there: eager's bits, or an error.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use rustorch_nn::optim::schedule::{
    ExponentialLR, LambdaLR, LinearLR, OneCycleLR, Schedule, Scheduler, SchedulerState, SequentialLR,
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

/// Steps of a compiled function and of the plain one, with something done to the model and the optimizer after the first: equal parameters, or equal
/// errors.
fn compiled_and_plain(between: impl Fn(&Linear, &mut AdamW)) -> [Vec<Vec<u8>>; 2] {
    [true, false].map(|is_compiled| {
        let model = model();
        let mut optimizer = AdamW::new(&model, AdamWOptions { lr: 0.1, ..Default::default() }).unwrap();
        let optimizer = std::cell::RefCell::new(&mut optimizer);
        let step = |x: &[Tensor]| {
            model.zero_grad();
            pass(&model, &x[0])?;
            optimizer.borrow().step()?;
            Ok(vec![])
        };
        let compiled = compile(&step);
        for i in 0..4 {
            let dtype = model.weight.tensor().dtype();
            let x = x().to_dtype(dtype).unwrap();
            let done = if is_compiled { compiled.run(&[&x]) } else { step(&[x]) };
            assert!(done.is_ok(), "{done:?}");
            if i == 1 {
                between(&model, &mut optimizer.borrow_mut());
            }
        }
        bytes(&model)
    })
}

#[test]
fn compiled_steps_see_what_becomes_of_parameters_and_groups() {
    let others: [fn(&Linear, &mut AdamW); 5] = [
        |_, _| {},
        |model, _| _ = model.weight.tensor().requires_grad_(false).unwrap(),
        |model, _| {
            model.weight.replace(&Tensor::ones([1, 3], DType::F32).unwrap(), |grad| Ok(grad.clone())).unwrap()
        },
        |model, _| {
            let bias = model.bias.as_ref().unwrap();
            bias.replace(&bias.tensor().copy().unwrap(), |grad| Ok(grad.clone())).unwrap();
        },
        |_, optimizer| optimizer.groups()[0].set_options(|options| options.betas.0 = 0.5),
    ];
    for (i, between) in others.into_iter().enumerate() {
        let [compiled, plain] = compiled_and_plain(between);
        assert_eq!(compiled, plain, "{i}");
    }
    // A program that was captured once says so.
    let model = model();
    let program = capture(&[TensorSpec::from(&x())], |x| Ok(vec![model.forward(&x[0])?])).unwrap();
    program.run(&[&x()]).unwrap();
    model.weight.tensor().requires_grad_(false).unwrap();
    let error = program.run(&[&x()]).unwrap_err().to_string();
    assert!(error.contains("a parameter or buffer"), "{error}");
    // One whose model is gone goes on with its tensors.
    let program = {
        let gone = self::model();
        capture(&[TensorSpec::from(&x())], |x| Ok(vec![gone.forward(&x[0])?])).unwrap()
    };
    assert!(program.run(&[&x()]).is_ok());
}

#[test]
fn groups_that_come_later_and_options_out_of_range_end_the_program() {
    let (model, other) = (model(), model());
    let mut optimizer = SGD::new(&model, SGDOptions { lr: 0.1, ..Default::default() }).unwrap();
    let step = |optimizer: &SGD, x: &Tensor| -> Result<Vec<Tensor>> {
        model.zero_grad();
        pass(&model, x)?;
        optimizer.step()?;
        Ok(vec![])
    };
    let program = capture(&[TensorSpec::from(&x())], |args| step(&optimizer, &args[0])).unwrap();
    program.run(&[&x()]).unwrap();
    optimizer.groups()[0].set_options(|options| options.lr = -1.0);
    let before = bytes(&model);
    let error = program.run(&[&x()]).unwrap_err().to_string();
    assert!(error.contains("out of its range"), "{error}");
    assert!(step(&optimizer, &x()).is_err());
    assert_eq!(bytes(&model), before);
    optimizer.groups()[0].set_options(|options| options.lr = 0.1);
    program.run(&[&x()]).unwrap();
    let named = other
        .named_parameters()
        .into_iter()
        .map(|(name, x)| (format!("other.{name}"), x))
        .collect::<Vec<_>>();
    optimizer.add_group(named, SGDOptions::default()).unwrap();
    let error = program.run(&[&x()]).unwrap_err().to_string();
    assert!(error.contains("the number of groups"), "{error}");
}

#[test]
fn options_may_be_asked_for_while_they_are_set() {
    let model = model();
    let optimizer =
        std::sync::Arc::new(SGD::new(&model, SGDOptions { lr: 0.5, ..Default::default() }).unwrap());
    let group = &optimizer.groups()[0];
    group.set_options(|options| options.lr = group.options().lr * 0.5);
    let seen = std::sync::Arc::clone(&optimizer);
    let scheduler =
        Scheduler::new(LambdaLR::new(move |step| seen.groups()[0].options().lr + step as f64), &*optimizer)
            .unwrap();
    // The base rate times the function.
    assert_eq!(group.options().lr, 0.25 * 0.25);
    scheduler.step(&*optimizer).unwrap();
    assert_eq!(group.options().lr, 0.25 * (0.25 * 0.25 + 1.0));
}
