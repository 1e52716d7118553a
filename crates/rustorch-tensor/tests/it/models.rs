//! Models written as plain functions: what they hold for the backward pass, and how they learn. The numbers are PyTorch's, printed by
//! `tools/oracle/torch_models.py`, which has the same functions.

mod definitions;

use definitions::{Loss, Model, Numbers, gpt, lenet, mlp, nll, tokens};
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::autograd::SavedTensorHooks;
use rustorch_tensor::{DType, Device, Error, Result, Tensor};
use rustorch_testkit::allocations::allocated_bytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The bytes held for the backward pass, each piece of memory once, parameters apart.
fn held(model: &Model) -> Result<usize> {
    let pieces: Arc<Mutex<HashMap<usize, (Tensor, usize)>>> = Arc::default();
    let place = Arc::clone(&pieces);
    let hooks = SavedTensorHooks::new(
        move |x| {
            let bytes = x.storage().bytes();
            place.lock().unwrap().insert(x.storage().identity().addr(), (x, bytes));
            Ok(Box::new(()))
        },
        |_| Err(Error::argument("models", "nothing is differentiated here")),
    );
    let loss = model.loss()?;
    drop(hooks);
    let mut pieces = pieces.lock().unwrap();
    for parameter in &model.parameters {
        pieces.remove(&parameter.storage().identity().addr());
    }
    drop(loss);
    Ok(pieces.values().map(|(_, bytes)| bytes).sum())
}

/// The losses before each of some steps, and after the last.
fn expect_losses(model: &Model, expected: &[f64]) -> Result<()> {
    for &expected in expected {
        let loss = model.step(0.02)?;
        assert!((loss - expected).abs() <= 1e-9 * (1.0 + expected.abs()), "{loss} for {expected}");
    }
    Ok(())
}

#[test]
fn models_learn_as_in_pytorch() -> Result<()> {
    expect_losses(
        &mlp(DType::F64)?,
        &[
            2.374018306350112,
            3.3700613513664166,
            5.874944826244185,
            4.0645794424543364,
            3.049167475452422,
            1.3869314788516496,
        ],
    )?;
    expect_losses(
        &lenet(DType::F64)?,
        &[
            2.3617775549840947,
            2.3068444955505902,
            2.259283421772129,
            2.1719774572070896,
            2.004350240785284,
            1.7010762745908585,
        ],
    )?;
    for checkpointed in [false, true] {
        expect_losses(
            &gpt(DType::F64, checkpointed)?,
            &[
                5.264343611457179,
                4.649227485285273,
                4.557133196652456,
                4.48495775910059,
                4.42006586954605,
                4.364260492173726,
            ],
        )?;
    }
    Ok(())
}

#[test]
fn no_more_is_held_than_by_pytorch() -> Result<()> {
    for (name, model, most) in [
        ("MLP", mlp(DType::F32)?, 167_424),
        ("LeNet", lenet(DType::F32)?, 385_024),
        ("GPT", gpt(DType::F32, false)?, 1_117_952),
    ] {
        let held = held(&model)?;
        assert!(held <= most, "{name} holds {held} bytes, not {most} at most");
    }
    Ok(())
}

/// Bytes in use by tensors, of the allocator, and of this thread's heap.
fn in_use() -> (u64, isize) {
    let stats = HybridExecutor::current().memory().stats(Device::CPU).unwrap();
    (stats.allocated, allocated_bytes())
}

/// The allocator is the process's: a process of its own.
#[test]
fn checkpoints_hold_two_fifths() {
    rustorch_testkit::in_child(
        "models::checkpoints_hold_two_fifths",
        |_| {},
        || {
            let held = |checkpointed| -> Result<u64> {
                let model = gpt(DType::F32, checkpointed)?;
                drop(model.loss()?);
                let before = in_use().0;
                let loss = model.loss()?;
                let held = in_use().0 - before;
                drop(loss);
                assert_eq!(in_use().0, before);
                Ok(held)
            };
            let (plain, checkpointed) = (held(false).unwrap(), held(true).unwrap());
            println!("{plain} bytes held, {checkpointed} with checkpoints");
            assert!(checkpointed * 5 <= plain * 2, "{checkpointed} of {plain} bytes");
        },
    );
}

#[test]
fn ten_thousand_steps_hold_the_same_bytes() {
    rustorch_testkit::in_child(
        "models::ten_thousand_steps_hold_the_same_bytes",
        |_| {},
        || {
            let loss: Loss =
                |p, x, y| nll(&x.linear(&p[0], Some(&p[1]))?.tanh()?.linear(&p[2], Some(&p[3]))?, y);
            let shapes: [&[usize]; 4] = [&[8, 4], &[8], &[3, 8], &[3]];
            let input = |numbers: &mut Numbers| numbers.next(&[6, 4], 1.0);
            let model = Model::new(loss, &shapes, DType::F32, input, tokens(6, 3).unwrap()).unwrap();
            (0..100).for_each(|_| assert!(model.step(0.01).unwrap().is_finite()));
            let before = in_use();
            for step in 0..10_000 {
                model.step(0.01).unwrap();
                assert_eq!(in_use(), before, "after step {step}");
            }
        },
    );
}
