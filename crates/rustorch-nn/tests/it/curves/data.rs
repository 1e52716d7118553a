//! What the oracle wrote, and the data that it drew.

use rustorch_nn::StateDict;
use rustorch_tensor::{DType, IntoShape, Result, Tensor};
use serde_json::Value;

/// How many rows data have, and how many of them a step sees.
const ROWS: usize = 64;
pub(crate) const BATCH: usize = 16;

/// Multiples of 2⁻²⁴ from 0 to 1: the outputs of SplitMix64 whose state starts at `stream` · 2³².
pub(crate) fn uniform(stream: u64, shape: impl IntoShape) -> Result<Tensor> {
    let shape = shape.into_shape()?;
    let draw = |i: u64| {
        let z = (stream << 32).wrapping_add((i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 40) as f64 / 2f64.powi(24)
    };
    Tensor::from_vec((0..shape.numel() as u64).map(draw).collect(), shape)
}

/// Integers from 0 to less than `below`.
pub(crate) fn integers(stream: u64, below: f64, shape: impl IntoShape) -> Result<Tensor> {
    uniform(stream, shape)?.mul(below)?.to_dtype(DType::I64)
}

/// The batch of a step out of all rows.
pub(crate) fn rows(x: &Tensor, step: usize) -> Result<Tensor> {
    x.narrow(0, step * BATCH % ROWS, BATCH)
}

/// A training in PyTorch.
pub(crate) struct Fixture {
    pub(crate) parameters: Vec<(String, Vec<usize>)>,
    pub(crate) losses: Vec<f64>,
    /// After how many steps weights were stored.
    pub(crate) stored: usize,
    initial: Vec<f64>,
    trained: Vec<f64>,
    /// Behind the weights of all models.
    noise: Vec<f64>,
}

impl Fixture {
    pub(crate) fn read(model: &str) -> Fixture {
        let bytes = include_bytes!("../../fixtures/curves.bin").chunks(8);
        let mut numbers = bytes.map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap()));
        let mut fixture = None;
        for line in include_str!("../../fixtures/curves.jsonl").lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let parameter = |entry: &Value| {
                let dims = entry[1].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize);
                (entry[0].as_str().unwrap().to_owned(), dims.collect())
            };
            let parameters: Vec<(String, Vec<usize>)> =
                line["parameters"].as_array().unwrap().iter().map(parameter).collect();
            let count = parameters.iter().map(|(_, dims)| dims.iter().product::<usize>()).sum();
            let initial = numbers.by_ref().take(count).collect();
            let trained = numbers.by_ref().take(count).collect();
            if line["model"] == model {
                let losses = line["losses"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
                fixture = Some(Fixture { parameters, losses, stored: 100, initial, trained, noise: vec![] });
            }
        }
        let fixture = fixture.unwrap_or_else(|| panic!("there is no {model} in the fixture"));
        Fixture { noise: numbers.collect(), ..fixture }
    }

    /// The numbers of all parameters by name.
    fn named(&self, numbers: &[f64]) -> Result<StateDict> {
        let mut rest = numbers;
        let tensor = |(name, dims): &(String, Vec<usize>)| {
            let (own, after) = rest.split_at(dims.iter().product());
            rest = after;
            Ok((name.clone(), Tensor::from_slice(own, dims.as_slice())?))
        };
        self.parameters.iter().map(tensor).collect()
    }

    /// The weights before the first step.
    pub(crate) fn initial(&self) -> Result<StateDict> {
        self.named(&self.initial)
    }

    /// Those after the last step that was stored.
    pub(crate) fn trained(&self) -> Result<StateDict> {
        self.named(&self.trained)
    }

    /// The noise of all steps, `[steps, BATCH, width]`.
    pub(crate) fn noise(&self) -> Result<Tensor> {
        let steps = self.losses.len();
        Tensor::from_slice(&self.noise, [steps, BATCH, self.noise.len() / (steps * BATCH)])
    }
}
