//! Models written as plain functions: what they hold for the backward pass, and how they learn. The numbers are PyTorch's, printed by
//! `tools/oracle/torch_models.py`, which has the same functions.

use rustorch_runtime::HybridExecutor;
use rustorch_tensor::autograd::{self, GradOptions, SavedTensorHooks, checkpoint, grad};
use rustorch_tensor::{ConvOptions, DType, Device, Error, MaxPoolOptions, Result, Tensor};
use rustorch_testkit::allocations::allocated_bytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Numbers that need no random generator: those of one tensor after the other.
struct Numbers {
    count: usize,
    dtype: DType,
}

impl Numbers {
    fn next(&mut self, dims: &[usize], scale: f64) -> Result<Tensor> {
        self.count += 1;
        let n: usize = dims.iter().product();
        let values = (0..n).map(|i| (i as f64 * 1.37 + self.count as f64).sin() * scale).collect::<Vec<_>>();
        Tensor::from_vec(values, dims)?.to_dtype(self.dtype)
    }
}

type Loss = fn(&[Tensor], &Tensor, &Tensor) -> Result<Tensor>;

/// A model, an input and classes.
struct Model {
    loss: Loss,
    parameters: Vec<Tensor>,
    x: Tensor,
    y: Tensor,
}

impl Model {
    fn new(
        loss: Loss,
        shapes: &[&[usize]],
        dtype: DType,
        x: impl FnOnce(&mut Numbers) -> Result<Tensor>,
        y: Tensor,
    ) -> Result<Model> {
        let mut numbers = Numbers { count: 0, dtype };
        let parameters = shapes
            .iter()
            .map(|dims| {
                let columns: usize = dims[1..].iter().product();
                let scale = if dims.len() > 1 { 1.0 / (columns as f64).sqrt() } else { 0.1 };
                let parameter = numbers.next(dims, scale)?;
                parameter.requires_grad_(true)?;
                Ok(parameter)
            })
            .collect::<Result<_>>()?;
        Ok(Model { loss, parameters, x: x(&mut numbers)?, y })
    }

    fn loss(&self) -> Result<Tensor> {
        (self.loss)(&self.parameters, &self.x, &self.y)
    }

    /// A step of gradient descent; the loss before.
    fn step(&self, rate: f64) -> Result<f64> {
        let loss = self.loss()?;
        let parameters: Vec<&Tensor> = self.parameters.iter().collect();
        let grads = grad(&[&loss], &parameters, &[], GradOptions::default())?;
        for (parameter, grad) in parameters.iter().zip(grads) {
            autograd::no_grad(|| parameter.sub_(&grad.unwrap().mul(rate)?))?;
        }
        loss.item().map(|loss| loss.to_f64())
    }

    /// The bytes held for the backward pass, each piece of memory once, parameters apart.
    fn held(&self) -> Result<usize> {
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
        let loss = self.loss()?;
        drop(hooks);
        let mut pieces = pieces.lock().unwrap();
        for parameter in &self.parameters {
            pieces.remove(&parameter.storage().identity().addr());
        }
        drop(loss);
        Ok(pieces.values().map(|(_, bytes)| bytes).sum())
    }
}

fn nll(logits: &Tensor, y: &Tensor) -> Result<Tensor> {
    logits.log_softmax(-1)?.gather(-1, &y.unsqueeze(-1)?)?.neg()?.mean_all()
}

fn tokens(n: usize, most: usize) -> Result<Tensor> {
    Tensor::from_vec((0..n).map(|i| ((i * i * 7 + 3 * i) % most) as i64).collect::<Vec<_>>(), [n])
}

fn mlp(dtype: DType) -> Result<Model> {
    let loss: Loss = |p, x, y| {
        let x = x.linear(&p[0], Some(&p[1]))?.relu()?;
        let x = x.linear(&p[2], Some(&p[3]))?.relu()?;
        nll(&x.linear(&p[4], Some(&p[5]))?, y)
    };
    let shapes: [&[usize]; 6] = [&[256, 784], &[256], &[256, 256], &[256], &[10, 256], &[10]];
    Model::new(loss, &shapes, dtype, |numbers| numbers.next(&[32, 784], 1.0), tokens(32, 10)?)
}

fn lenet(dtype: DType) -> Result<Model> {
    let loss: Loss = |p, x, y| {
        let pooled = |x: Tensor| x.relu()?.max_pool2d(2, &MaxPoolOptions::new());
        let x = pooled(x.conv2d(&p[0], Some(&p[1]), &ConvOptions::new().padding(2))?)?;
        let x = pooled(x.conv2d(&p[2], Some(&p[3]), &ConvOptions::new())?)?;
        let x = x.flatten(1, -1)?.linear(&p[4], Some(&p[5]))?.relu()?;
        let x = x.linear(&p[6], Some(&p[7]))?.relu()?;
        nll(&x.linear(&p[8], Some(&p[9]))?, y)
    };
    let shapes: [&[usize]; 10] = [
        &[6, 1, 5, 5],
        &[6],
        &[16, 6, 5, 5],
        &[16],
        &[120, 400],
        &[120],
        &[84, 120],
        &[84],
        &[10, 84],
        &[10],
    ];
    Model::new(loss, &shapes, dtype, |numbers| numbers.next(&[8, 1, 28, 28], 1.0), tokens(8, 10)?)
}

const LAYERS: usize = 4;
const WIDTH: usize = 64;
const HEADS: usize = 4;
const LENGTH: usize = 32;
const VOCABULARY: usize = 96;

fn block(p: &[Tensor], x: &Tensor) -> Result<Tensor> {
    let batch = x.dims()[0];
    let norm =
        |x: &Tensor, weight: &Tensor, bias| x.layer_norm([WIDTH], Some(&weight.add(1)?), Some(bias), 1e-5);
    let qkv = norm(x, &p[0], &p[1])?.linear(&p[2], Some(&p[3]))?.chunk(3, -1)?;
    let heads = |x: &Tensor| x.reshape([batch, LENGTH, HEADS, WIDTH / HEADS])?.transpose(1, 2);
    let (q, k, v) = (heads(&qkv[0])?, heads(&qkv[1])?, heads(&qkv[2])?);
    let h = Tensor::scaled_dot_product_attention(&q, &k, &v, None, true, None)?;
    let h = h.transpose(1, 2)?.reshape([batch, LENGTH, WIDTH])?;
    let x = x.add(&h.linear(&p[4], Some(&p[5]))?)?;
    let h = norm(&x, &p[6], &p[7])?.linear(&p[8], Some(&p[9]))?.gelu()?;
    x.add(&h.linear(&p[10], Some(&p[11]))?)
}

/// A GPT whose blocks run by a function that is given a block's parameters and its input.
fn gpt_loss(
    p: &[Tensor],
    x: &Tensor,
    y: &Tensor,
    run: impl Fn(&[Tensor], &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let mut x = p[0].embedding(x)?.add(&p[1])?;
    for layer in 0..LAYERS {
        x = run(&p[2 + 12 * layer..14 + 12 * layer], &x)?;
    }
    let [.., weight, bias, head] = p else { unreachable!("there are such parameters") };
    nll(&x.layer_norm([WIDTH], Some(&weight.add(1)?), Some(bias), 1e-5)?.linear(head, None)?, y)
}

fn gpt(dtype: DType, checkpointed: bool) -> Result<Model> {
    let plain: Loss = |p, x, y| gpt_loss(p, x, y, block);
    let by_checkpoints: Loss = |p, x, y| {
        gpt_loss(p, x, y, |p, x| {
            let inputs: Vec<&Tensor> = p.iter().chain([x]).collect();
            let body = |inputs: &[Tensor]| Ok(vec![block(&inputs[..12], &inputs[12])?]);
            Ok(checkpoint(body, &inputs)?.remove(0))
        })
    };
    let of_block: [&[usize]; 12] = [
        &[WIDTH],
        &[WIDTH],
        &[3 * WIDTH, WIDTH],
        &[3 * WIDTH],
        &[WIDTH, WIDTH],
        &[WIDTH],
        &[WIDTH],
        &[WIDTH],
        &[4 * WIDTH, WIDTH],
        &[4 * WIDTH],
        &[WIDTH, 4 * WIDTH],
        &[WIDTH],
    ];
    let mut shapes: Vec<&[usize]> = vec![&[VOCABULARY, WIDTH], &[LENGTH, WIDTH]];
    (0..LAYERS).for_each(|_| shapes.extend(of_block));
    shapes.extend::<[&[usize]; 3]>([&[WIDTH], &[WIDTH], &[VOCABULARY, WIDTH]]);
    let x = tokens(2 * LENGTH, VOCABULARY)?.reshape([2, LENGTH])?;
    let y = x.flip([0, 1])?;
    Model::new(if checkpointed { by_checkpoints } else { plain }, &shapes, dtype, |_| Ok(x), y)
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
        // The results of attention stand beside the copies in which their heads are merged; PyTorch lays them out merged.
        ("GPT", gpt(DType::F32, false)?, 1_117_952 + LAYERS * 2 * LENGTH * WIDTH * 4),
    ] {
        let held = model.held()?;
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
