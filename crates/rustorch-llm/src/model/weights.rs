//! Weights: a map by tensor name, over the file's bytes.

use crate::Result;
use rustorch_core::Device;
use rustorch_tensor::Tensor;
use std::collections::HashMap;
use std::ops::Index;

/// All weights of a model.
#[derive(Default)]
pub struct Weights {
    entries: Vec<Weight>,
    by_name: HashMap<String, TensorId>,
}

/// A tensor of the file, as one stage of the model uses it.
pub struct Weight {
    pub(super) name: String,
    pub(super) stage: Stage,
    pub(super) role: Role,
    pub(super) tensor: Tensor,
}

/// Where in the model a weight is used. Weights of a block, and those of the output, go to a device together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// From token ids to the residual stream.
    Embedding,
    /// A block, by its index.
    Block(usize),
    /// From the residual stream to the logits.
    Output,
}

/// What a weight is to operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Norms and other vectors, in `f32`.
    Vector,
    /// Multiplied with activations. A device that has no matmul for its dtype does without it.
    Matrix,
    /// A scale or bias, wherever the matrix is.
    Beside(TensorId),
    /// A view of another weight.
    View(TensorId, Rows),
}

/// Some rows of a matrix, of the matrices of all experts, or of a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) axis: usize,
    pub(super) first: usize,
    pub(super) rows: usize,
}

impl Rows {
    pub(super) fn of(self, x: &Tensor) -> Result<Tensor> {
        Ok(x.narrow(self.axis as isize, self.first, self.rows)?)
    }
}

/// A weight's place in [`Weights`]: names are looked up when a model is loaded, never later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TensorId(usize);

impl Weights {
    /// How many there are. A tensor that several stages use counts for each.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All of them, in the order in which the model uses them.
    pub fn iter(&self) -> impl Iterator<Item = &Weight> {
        self.entries.iter()
    }

    /// Those of one stage.
    pub fn of(&self, stage: Stage) -> impl Iterator<Item = &Weight> {
        self.entries.iter().filter(move |weight| weight.stage == stage)
    }

    /// The tensor of this name in the file, if the model uses it.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name).map(|&id| &self[id])
    }

    /// The ids of a stage's weights.
    pub(super) fn ids(&self, stage: Stage) -> Vec<TensorId> {
        (0..self.entries.len()).filter(|&i| self.entries[i].stage == stage).map(TensorId).collect()
    }

    pub(super) fn weight(&self, id: TensorId) -> &Weight {
        &self.entries[id.0]
    }

    pub(super) fn push(&mut self, weight: Weight) -> TensorId {
        let id = TensorId(self.entries.len());
        self.by_name.entry(weight.name.clone()).or_insert(id);
        self.entries.push(weight);
        id
    }

    /// Puts a copy on another device in a weight's place.
    pub(super) fn replace(&mut self, id: TensorId, tensor: Tensor) {
        self.entries[id.0].tensor = tensor;
    }

    /// The device that computes a stage: that of its first norm, for norms go to every device that takes a block.
    pub(super) fn device(&self, stage: Stage) -> Device {
        let first = self.of(stage).find(|w| w.role == Role::Vector).or_else(|| self.of(stage).next());
        first.map_or(Device::CPU, |weight| weight_device(&weight.tensor))
    }
}

impl Index<TensorId> for Weights {
    type Output = Tensor;

    fn index(&self, id: TensorId) -> &Tensor {
        &self.entries[id.0].tensor
    }
}

impl Weight {
    /// The tensor's name in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where in the model it is used.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Whether it is multiplied with activations.
    pub fn is_matrix(&self) -> bool {
        self.role == Role::Matrix
    }
}

/// Where a tensor's data is: its device, or the CPU if that device is lost, because the weights are still in the file.
pub(super) fn weight_device(x: &Tensor) -> Device {
    if x.storage().is_lost() { Device::CPU } else { x.device() }
}
