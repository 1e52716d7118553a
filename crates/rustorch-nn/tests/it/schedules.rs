//! Schedules give PyTorch's rates over 300 steps: `tools/oracle/torch_schedules.py` wrote them.

use rustorch_nn::optim::schedule::{
    ChainedScheduler, ConstantLR, CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR, CyclicMode,
    ExponentialLR, LambdaLR, LinearLR, MultiStepLR, MultiplicativeLR, OneCycleLR, PlateauMode, PolynomialLR,
    ReduceLROnPlateau, Schedule, Scheduler, SequentialLR, StepLR, ThresholdMode,
};
use rustorch_nn::optim::{Adagrad, AdagradOptions, AdamW, AdamWOptions, SGD, SGDOptions};
use rustorch_nn::{Linear, Module};
use rustorch_tensor::Result;

const STEPS: usize = 300;

/// What the oracle wrote: a name, and for each step the rates of two groups and the momentum.
fn expected() -> Vec<(String, Vec<[f64; 3]>)> {
    let numbers: Vec<f64> = include_bytes!("../fixtures/schedules.bin")
        .chunks(8)
        .map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    let rows: Vec<[f64; 3]> = numbers.chunks(3).map(|row| row.try_into().unwrap()).collect();
    let name = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["schedule"].as_str().unwrap().to_owned()
    };
    let names: Vec<String> = include_str!("../fixtures/schedules.jsonl").lines().map(name).collect();
    assert_eq!(rows.len(), names.len() * (STEPS + 1));
    names.into_iter().zip(rows.chunks(STEPS + 1).map(<[_]>::to_vec)).collect()
}

/// The schedule that the oracle has under a name; none for those that take a measure.
fn schedule(name: &str) -> Result<Option<Box<dyn Schedule>>> {
    Ok(Some(match name {
        "lambda" => Box::new(LambdaLR::new(|t| 0.95f64.powf(t as f64))),
        "multiplicative" => Box::new(MultiplicativeLR::new(|t| 1.0 - 1.0 / (t as f64 + 9.0))),
        "step" => Box::new(StepLR::new(30, 0.1)?),
        "step 7 0.9" => Box::new(StepLR::new(7, 0.9)?),
        "multistep" => Box::new(MultiStepLR::new([10, 10, 150], 0.5)),
        "constant" => Box::new(ConstantLR::new(1.0 / 3.0, 5)?),
        "constant 0.25 40" => Box::new(ConstantLR::new(0.25, 40)?),
        "linear" => Box::new(LinearLR::new(1.0 / 3.0, 1.0, 5)?),
        "linear 0.1 0.7 50" => Box::new(LinearLR::new(0.1, 0.7, 50)?),
        "exponential" => Box::new(ExponentialLR::new(0.97)),
        "polynomial" => Box::new(PolynomialLR::new(5, 1.0)?),
        "polynomial 100 2" => Box::new(PolynomialLR::new(100, 2.0)?),
        "cosine" => Box::new(CosineAnnealingLR::new(300, 0.0)?),
        "cosine 40 0.001" => Box::new(CosineAnnealingLR::new(40, 0.001)?),
        "restarts" => Box::new(CosineAnnealingWarmRestarts::new(25, 1, 0.0)?),
        "restarts 10 2 0.01" => Box::new(CosineAnnealingWarmRestarts::new(10, 2, 0.01)?),
        "cyclic" => Box::new(CyclicLR::new(0.01, 0.1, 20)?),
        "cyclic 2" => Box::new(CyclicLR {
            step_size_down: 30,
            mode: CyclicMode::Triangular2,
            momentum: Some((0.5, 0.95)),
            ..CyclicLR::new(0.01, 0.1, 10)?
        }),
        "cyclic exp" => Box::new(CyclicLR {
            mode: CyclicMode::ExpRange(0.99),
            momentum: None,
            ..CyclicLR::new(0.01, 0.1, 15)?
        }),
        "onecycle" => Box::new(OneCycleLR::new(0.3, 301)?),
        "onecycle linear" => Box::new(OneCycleLR {
            pct_start: 0.2,
            linear: true,
            div_factor: 10.0,
            ..OneCycleLR::new(0.3, 301)?
        }),
        "onecycle three" => Box::new(OneCycleLR {
            three_phase: true,
            final_div_factor: 100.0,
            momentum: Some((0.7, 0.95)),
            ..OneCycleLR::new(0.3, 301)?
        }),
        "sequential" => Box::new(
            SequentialLR::new(LinearLR::new(0.1, 1.0, 20)?)
                .then(20, CosineAnnealingLR::new(200, 1e-4)?)?
                .then(220, ExponentialLR::new(0.9))?,
        ),
        "chained" => Box::new(
            ChainedScheduler::new(ConstantLR::new(0.1, 30)?)
                .and(ExponentialLR::new(0.99))
                .and(StepLR::new(100, 0.1)?),
        ),
        _ => return Ok(None),
    }))
}

/// A module, and an optimizer of two groups.
fn optimizer() -> Result<(Linear, SGD)> {
    let model = Linear::new(1, 1)?;
    let options = |lr| SGDOptions { lr, momentum: 0.6, ..Default::default() };
    let optimizer = SGD::by_name(&model, |name| options(if name == "weight" { 0.5 } else { 0.02 }))?;
    Ok((model, optimizer))
}

fn check(name: &str, step: usize, optimizer: &SGD, expected: [f64; 3]) {
    let groups = optimizer.groups();
    let have = [groups[0].options().lr, groups[1].options().lr, groups[0].options().momentum];
    for (have, want) in have.into_iter().zip(expected) {
        assert!((have - want).abs() <= 1e-12 + 1e-9 * want.abs(), "{name}, step {step}: {have} for {want}");
    }
}

#[test]
fn rates_are_pytorch_s() -> Result<()> {
    let mut count = 0;
    for (name, rows) in expected() {
        let Some(own) = schedule(&name)? else { continue };
        let (_model, optimizer) = optimizer()?;
        let scheduler = Scheduler::new(own, &optimizer)?;
        for (step, row) in rows.into_iter().enumerate() {
            if step > 0 {
                scheduler.step(&optimizer)?;
            }
            check(&name, step, &optimizer, row);
        }
        count += 1;
    }
    assert_eq!(count, 24);
    Ok(())
}

#[test]
fn schedules_go_on_where_they_were_saved() -> Result<()> {
    for (name, rows) in expected() {
        let Some(own) = schedule(&name)? else { continue };
        let (_model, mut optimizer_before) = optimizer()?;
        let mut scheduler = Scheduler::new(own, &optimizer_before)?;
        for (step, row) in rows.into_iter().enumerate().skip(1) {
            // Another process: all is made anew, and loaded.
            let (_model, mut fresh) = optimizer()?;
            let mut loaded = Scheduler::new(schedule(&name)?.unwrap(), &fresh)?;
            loaded.load_state_dict(&scheduler.state_dict())?;
            fresh.load_state_dict(&optimizer_before.state_dict())?;
            loaded.step(&fresh)?;
            check(&name, step, &fresh, row);
            (scheduler, optimizer_before) = (loaded, fresh);
        }
    }
    Ok(())
}

/// The oracle's measures.
fn measure(step: usize) -> f64 {
    1.0 / (1.0 + 0.1 * step.min(40) as f64) + 0.01 * (step % 3) as f64
}

#[test]
fn plateaus_are_pytorch_s() -> Result<()> {
    for (name, rows) in expected() {
        let mut scheduler = match name.as_str() {
            "plateau" => ReduceLROnPlateau::default(),
            "plateau max" => ReduceLROnPlateau {
                mode: PlateauMode::Max,
                factor: 0.5,
                patience: 3,
                threshold: 0.05,
                threshold_mode: ThresholdMode::Abs,
                cooldown: 4,
                min_lr: 0.001,
                ..Default::default()
            },
            _ => continue,
        };
        let (_model, optimizer) = optimizer()?;
        for (step, &row) in rows.iter().enumerate() {
            check(&name, step, &optimizer, row);
            scheduler.step(measure(step), &optimizer)?;
        }
        assert!(rows[STEPS][0] < rows[0][0]);
    }
    Ok(())
}

#[test]
fn momenta_are_those_of_the_optimizer() -> Result<()> {
    let model = Linear::new(1, 1)?;
    let adam = AdamW::new(&model, AdamWOptions::default())?;
    let scheduler = Scheduler::new(OneCycleLR::new(0.1, 10)?, &adam)?;
    assert_eq!(adam.groups()[0].options().betas, (0.95, 0.999));
    scheduler.step(&adam)?;
    assert!(adam.groups()[0].options().betas.0 < 0.95);
    let adagrad = Adagrad::new(&model, AdagradOptions::default())?;
    let said = Scheduler::new(OneCycleLR::new(0.1, 10)?, &adagrad).err().unwrap().to_string();
    assert!(said.contains("Adagrad: it has neither `momentum` nor `betas`"), "{said}");
    assert_eq!(model.num_parameters(), 2);
    Ok(())
}

#[test]
fn wrong_arguments_are_errors() -> Result<()> {
    let said = |error: rustorch_tensor::Error| error.to_string();
    assert!(said(StepLR::new(0, 0.1).unwrap_err()).contains("`step_size` must be at least 1"));
    assert!(said(LinearLR::new(0.0, 1.0, 5).unwrap_err()).contains("`start_factor` is 0"));
    assert!(
        said(LinearLR::new(0.1, 1.5, 5).unwrap_err()).contains("`end_factor` is 1.5, it must be from 0 to 1")
    );
    assert!(said(ConstantLR::new(-0.1, 5).unwrap_err()).contains("`factor` is -0.1"));
    assert!(said(OneCycleLR::new(0.1, 0).unwrap_err()).contains("`total_steps`"));
    let sequence = SequentialLR::new(ExponentialLR::new(0.9)).then(5, ExponentialLR::new(0.8))?;
    let error = sequence.then(5, ExponentialLR::new(0.7)).err().unwrap();
    assert!(said(error).contains("would start at step 5, the one before it at 5"));
    let (_model, optimizer) = optimizer()?;
    let mut wrong = ReduceLROnPlateau { factor: 1.5, ..Default::default() };
    assert!(said(wrong.step(1.0, &optimizer).unwrap_err()).contains("`factor` is 1.5"));
    Ok(())
}
