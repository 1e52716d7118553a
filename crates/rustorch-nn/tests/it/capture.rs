//! Captured training: forward and backward passes as one graph, the optimizer's step after each run.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::is_alone;
use rustorch_nn::optim::schedule::{CosineAnnealingLR, OneCycleLR, ReduceLROnPlateau, Scheduler};
use rustorch_nn::optim::{
    AdagradOptions, AdamOptions, AdamW, AdamWOptions, NAdam, NAdamOptions, Optimizer, RMSpropOptions, Rule,
    SGDOptions, clip_grad_norm_,
};
use rustorch_nn::{
    BatchNorm2d, Conv2d, CrossEntropyLoss, Dropout, Embedding, Flatten, GELU, Layer, LayerNorm, Linear,
    Module, ReLU, Sequential, TransformerEncoderLayer, TransformerLayerOptions, seq,
};
use rustorch_tensor::{DType, Program, Result, Tensor, TensorSpec, capture, compile, manual_seed};

fn bits(x: &Tensor) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

/// The loss of a batch, and the gradients of the parameters.
fn pass(model: &Sequential, x: &Tensor, classes: &Tensor) -> Result<Tensor> {
    model.zero_grad();
    let loss = CrossEntropyLoss::default().forward(&model.forward(x)?, classes)?;
    loss.backward()?;
    Ok(loss.detach())
}

/// How much of a step is captured.
#[derive(Clone, Copy, PartialEq)]
enum Captured {
    Nothing,
    Pass,
    Step,
}

/// 20 steps of AdamW with clipping and a schedule: eagerly, by a captured pass, and by a captured step: equal losses, norms, parameters, buffers and
/// states of the optimizer, to the bit.
fn trains_alike(make: impl Fn() -> Sequential, batch: impl Fn(usize) -> (Tensor, Tensor)) -> Program {
    let options = AdamWOptions { lr: 1e-2, ..Default::default() };
    let train = |captured: Captured| {
        manual_seed(1);
        let model = make();
        let optimizer = AdamW::new(&model, options).unwrap();
        let scheduler = Scheduler::new(CosineAnnealingLR::new(20, 1e-3).unwrap(), &optimizer).unwrap();
        let rest = || -> Result<Tensor> {
            let norm = clip_grad_norm_(&model, 0.5, 2.0)?;
            optimizer.step()?;
            scheduler.step(&optimizer)?;
            Ok(norm)
        };
        let program = (captured != Captured::Nothing).then(|| {
            let (x, y) = batch(0);
            let specs = [TensorSpec::from(&x), TensorSpec::from(&y)];
            capture(&specs, |args| {
                let mut results = vec![pass(&model, &args[0], &args[1])?];
                if captured == Captured::Step {
                    results.push(rest()?);
                }
                Ok(results)
            })
            .unwrap()
        });
        assert_eq!(optimizer.state_dict().parameters.len(), 0, "a capture is no step");
        manual_seed(2);
        let mut losses = Vec::new();
        for i in 0..20 {
            let (x, y) = batch(i);
            let mut results = match &program {
                Some(program) => program.run(&[&x, &y]).unwrap(),
                None => vec![pass(&model, &x, &y).unwrap()],
            };
            if captured != Captured::Step {
                results.push(rest().unwrap());
            }
            losses.push((bits(&results[0]), results[1].item().unwrap().to_f64().to_bits()));
        }
        let state: Vec<(String, Vec<u8>)> =
            model.state_dict().iter().map(|(name, x)| (name.to_owned(), x.to_bytes().unwrap())).collect();
        let optimizer = optimizer.state_dict();
        let remembered: Vec<(String, Vec<u64>, Vec<Vec<u8>>)> = (optimizer.parameters.iter())
            .map(|(name, state)| {
                let numbers = state.numbers().map(|(_, number)| number.to_bits()).collect();
                (name.clone(), numbers, state.tensors().map(|(_, x)| x.to_bytes().unwrap()).collect())
            })
            .collect();
        let rates: Vec<_> = optimizer.groups.into_iter().map(|(options, _)| options).collect();
        (losses, state, remembered, rates, scheduler.state_dict(), program)
    };
    let (losses, state, remembered, rates, schedule, _) = train(Captured::Nothing);
    let mut last = None;
    for captured in [Captured::Pass, Captured::Step] {
        let own = train(captured);
        assert_eq!(own.0, losses);
        assert_eq!(own.1, state);
        assert_eq!(own.2, remembered);
        assert_eq!((own.3, own.4), (rates.clone(), schedule.clone()));
        last = own.5.or(last);
    }
    last.unwrap()
}

fn numbers(dims: &[usize], seed: usize) -> Tensor {
    let n: usize = dims.iter().product();
    Tensor::from_vec((0..n).map(|i| ((i * 7 + seed * 13) % 29) as f32 / 29.0 - 0.5).collect::<Vec<_>>(), dims)
        .unwrap()
}

fn classes(n: usize, of: usize, seed: usize) -> Tensor {
    Tensor::from_vec((0..n).map(|i| ((i * 5 + seed) % of) as i64).collect::<Vec<_>>(), [n]).unwrap()
}

#[test]
fn a_multilayer_perceptron_with_dropout_trains_alike() {
    if !is_alone("capture::a_multilayer_perceptron_with_dropout_trains_alike") {
        return;
    }
    let make =
        || seq![Linear::new(16, 32).unwrap(), ReLU, Dropout::new(0.3).unwrap(), Linear::new(32, 5).unwrap()];
    trains_alike(make, |i| (numbers(&[8, 16], i), classes(8, 5, i)));
}

#[test]
fn a_convolutional_network_with_running_statistics_trains_alike() {
    if !is_alone("capture::a_convolutional_network_with_running_statistics_trains_alike") {
        return;
    }
    let make = || {
        seq![
            Conv2d::new(1, 4, 3).unwrap(),
            BatchNorm2d::new(4).unwrap(),
            ReLU,
            Flatten::default(),
            Linear::new(4 * 6 * 6, 3).unwrap(),
        ]
    };
    let program = trains_alike(make, |i| (numbers(&[4, 1, 8, 8], i), classes(4, 3, i)));
    // Mean, variance and count of the batches; four parameters, and two states of each.
    assert_eq!(program.graph().states.len(), 3 + 6 * 3);
}

#[test]
fn a_transformer_with_dropout_trains_alike() {
    if !is_alone("capture::a_transformer_with_dropout_trains_alike") {
        return;
    }
    let make = || {
        let options = TransformerLayerOptions::default().batch_first(true).dim_feedforward(32);
        seq![
            Embedding::new(11, 16, DType::F32).unwrap(),
            TransformerEncoderLayer::with(16, 2, options).unwrap(),
            LayerNorm::new([16], 1e-5, DType::F32).unwrap(),
            GELU::default(),
            Flatten::default(),
            Linear::new(16 * 6, 4).unwrap(),
        ]
    };
    let ids = |i: usize| {
        Tensor::from_vec((0..18).map(|j| ((j * 3 + i) % 11) as i64).collect::<Vec<_>>(), [3, 6]).unwrap()
    };
    trains_alike(make, |i| (ids(i), classes(3, 4, i)));
}

/// A captured step of a small model, with what it needs.
fn captured_step<R: Rule>(optimizer: &Optimizer<R>, model: &Sequential) -> Result<Program> {
    capture(&[TensorSpec::new([1, 2], DType::F32)?], |x| {
        model.zero_grad();
        let loss = model.forward(&x[0])?.square()?.sum_all()?;
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss.detach()])
    })
}

#[test]
fn every_optimizer_of_one_operation_steps_in_a_program() {
    fn check<R: Rule>(options: R) {
        let steps = |is_captured: bool| {
            manual_seed(5);
            let model = seq![Linear::new(2, 3).unwrap()];
            let optimizer = Optimizer::new(&model, options.clone()).unwrap();
            let program = is_captured.then(|| captured_step(&optimizer, &model).unwrap());
            for i in 0..6 {
                // Rates change in Rust between runs, as well.
                optimizer.groups()[0]
                    .set_options(|options| _ = options.set_number("lr", 0.1 / (1.0 + f64::from(i))));
                let x = numbers(&[1, 2], i as usize);
                match &program {
                    Some(program) => _ = program.run(&[&x]).unwrap(),
                    None => {
                        model.zero_grad();
                        model.forward(&x).unwrap().square().unwrap().sum_all().unwrap().backward().unwrap();
                        optimizer.step().unwrap();
                    }
                }
            }
            model.parameters().iter().map(|p| bits(&p.tensor().detach())).collect::<Vec<_>>()
        };
        assert_eq!(steps(true), steps(false), "{}", R::NAME);
    }
    if !is_alone("capture::every_optimizer_of_one_operation_steps_in_a_program") {
        return;
    }
    check(SGDOptions::default());
    check(SGDOptions { momentum: 0.9, nesterov: true, ..Default::default() });
    check(SGDOptions { momentum: 0.9, dampening: 0.5, ..Default::default() });
    check(AdamOptions { amsgrad: true, ..Default::default() });
    check(AdamWOptions::default());
    check(RMSpropOptions { centered: true, momentum: 0.5, ..Default::default() });
    check(AdagradOptions { lr_decay: 0.1, initial_accumulator_value: 0.5, ..Default::default() });
}

#[test]
fn a_compiled_step_takes_batches_of_several_sizes() {
    if !is_alone("capture::a_compiled_step_takes_batches_of_several_sizes") {
        return;
    }
    let train = |is_compiled: bool| {
        manual_seed(3);
        let model = seq![Linear::new(2, 2).unwrap()];
        let optimizer = AdamW::new(&model, AdamWOptions::default()).unwrap();
        let step = |x: &[Tensor]| {
            model.zero_grad();
            let loss = model.forward(&x[0])?.square()?.mean_all()?;
            loss.backward()?;
            optimizer.step()?;
            Ok(vec![loss.detach()])
        };
        let compiled = compile(&step);
        let losses: Vec<_> = [4, 4, 1, 4, 1]
            .iter()
            .map(|&rows| {
                let x = numbers(&[rows, 2], rows);
                let out = if is_compiled { compiled.run(&[&x]) } else { step(&[x]) };
                bits(&out.unwrap()[0])
            })
            .collect();
        (losses, optimizer.state("0.weight").unwrap().number("step", 0.0), compiled.counts().captures)
    };
    let (eager, compiled) = (train(false), train(true));
    assert_eq!((eager.0, eager.1), (compiled.0, compiled.1));
    // The first program makes the states; the second, captured later, finds them.
    assert_eq!((eager.2, compiled.2), (0, 2));
}

#[test]
fn a_step_that_a_program_cannot_do_is_refused() {
    let model = seq![Linear::new(2, 2).unwrap()];
    let x = numbers(&[1, 2], 1);
    let said = |error: Result<Program>| error.unwrap_err().to_string();
    // Not by one operation: rates and counts are numbers of the expressions that it computes.
    let optimizer = NAdam::new(&model, NAdamOptions::default()).unwrap();
    let error = said(captured_step(&optimizer, &model));
    assert!(error.starts_with("optimizer.step") && error.contains("after each run"), "{error}");
    assert!(model.parameters().iter().all(|p| p.grad().is_none()));
    // Two steps in a run: the second would count from where the first began.
    let optimizer = AdamW::new(&model, AdamWOptions::default()).unwrap();
    let scheduler = Scheduler::new(CosineAnnealingLR::new(20, 1e-3).unwrap(), &optimizer).unwrap();
    let spec = TensorSpec::from(&x);
    for rate_first in [false, true] {
        let error = said(capture(std::slice::from_ref(&spec), |x| {
            model.forward(&x[0])?.sum_all()?.backward()?;
            match rate_first {
                true => scheduler.step(&optimizer)?,
                false => optimizer.step()?,
            }
            optimizer.step()?;
            Ok(vec![])
        }));
        assert!(error.contains("after it was changed there"), "{error}");
    }
    // A plateau looks at the loss, and momenta are parameters of the operation.
    let error = said(capture(std::slice::from_ref(&spec), |_| {
        ReduceLROnPlateau::default().step(1.0, &optimizer)?;
        Ok(vec![])
    }));
    assert!(error.starts_with("scheduler.step"), "{error}");
    let cycle = Scheduler::new(OneCycleLR::new(0.1, 10).unwrap(), &optimizer).unwrap();
    let error = said(capture(std::slice::from_ref(&spec), |_| cycle.step(&optimizer).map(|()| vec![])));
    assert!(error.contains("momenta"), "{error}");
    assert_eq!((optimizer.state_dict().parameters.len(), scheduler.state_dict().step), (0, 0));
}

#[test]
fn a_program_that_steps_refuses_what_it_was_not_captured_for() {
    let model = seq![Linear::new(2, 2).unwrap()];
    let mut optimizer = AdamW::new(&model, AdamWOptions::default()).unwrap();
    let program = captured_step(&optimizer, &model).unwrap();
    let x = numbers(&[1, 2], 1);
    program.run(&[&x]).unwrap();
    let parameters = || model.parameters().iter().map(|p| bits(&p.tensor().detach())).collect::<Vec<_>>();
    let before = parameters();
    let refuses = |what: &str| {
        let error = program.run(&[&x]).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("capture it again"), "{error}");
        assert_eq!(parameters(), before);
    };
    // A change that changes nothing is none.
    optimizer.groups()[0].set_options(|options| options.betas.0 = 0.5);
    refuses("an option of an optimizer");
    optimizer.groups()[0].set_options(|options| options.betas.0 = 0.9);
    assert!(program.is_current());
    let state = optimizer.state_dict();
    optimizer.load_state_dict(&state).unwrap();
    refuses("the state of an optimizer");
    // Steps outside and inside count on.
    let program = captured_step(&optimizer, &model).unwrap();
    optimizer.step().unwrap();
    program.run(&[&x]).unwrap();
    assert_eq!(optimizer.state("0.bias").unwrap().number("step", 0.0), 3.0);
    let message = program.run(&[]).unwrap_err().to_string();
    assert!(message.contains("0 inputs were given, it takes 1"), "{message}");
}

#[test]
fn gradients_that_are_not_finite_fail_the_run_and_change_nothing() {
    let model = seq![Linear::new(2, 2).unwrap()];
    let optimizer = AdamW::new(&model, AdamWOptions::default()).unwrap();
    let program = capture(&[TensorSpec::new([1, 2], DType::F32).unwrap()], |x| {
        model.zero_grad();
        model.forward(&x[0])?.sum_all()?.backward()?;
        let norm = clip_grad_norm_(&model, 1.0, 2.0)?;
        optimizer.step()?;
        Ok(vec![norm])
    })
    .unwrap();
    let x = numbers(&[1, 2], 3);
    program.run(&[&x]).unwrap();
    let all = || {
        let tensors = model.parameters().into_iter().map(|p| p.tensor().detach());
        let states = optimizer.state("0.weight").unwrap();
        let states: Vec<Tensor> = states.tensors().map(|(_, x)| x.clone()).collect();
        let count = optimizer.state("0.weight").unwrap().number("step", 0.0);
        (tensors.chain(states).map(|x| bits(&x)).collect::<Vec<_>>(), count)
    };
    let before = all();
    let error = program.run(&[&Tensor::new([[f32::NAN, 1.0]]).unwrap()]).unwrap_err().to_string();
    assert!(error.contains("clip_grad_norm_") && error.contains("infinite or NaN"), "{error}");
    assert_eq!(all(), before);
    program.run(&[&x]).unwrap();
    assert_ne!(all(), before);
}

#[test]
fn a_program_knows_how_modules_were_when_it_was_captured() {
    let model = seq![Linear::new(3, 3).unwrap(), Dropout::new(0.5).unwrap()];
    let x = numbers(&[2, 3], 1);
    let program = capture(&[TensorSpec::from(&x)], |x| Ok(vec![model.forward(&x[0])?])).unwrap();
    assert!(program.run(&[&x]).is_ok());
    model.eval();
    let error = program.run(&[&x]).unwrap_err().to_string();
    assert!(error.contains("training mode") && error.contains("capture it again"), "{error}");
    let compiled = compile(|x: &[Tensor]| Ok(vec![model.forward(&x[0])?]));
    let plain = bits(&compiled.run(&[&x]).unwrap()[0]);
    assert_eq!(plain, bits(&model.forward(&x).unwrap()));
    model.train();
    assert_ne!(bits(&compiled.run(&[&x]).unwrap()[0]), plain);
    model.eval();
    assert_eq!(bits(&compiled.run(&[&x]).unwrap()[0]), plain);
    // Both are kept.
    assert_eq!((compiled.counts().captures, compiled.counts().hits), (2, 1));
}
