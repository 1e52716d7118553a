//! From a file's tensors to weights.

use super::ModelConfig;
use super::cache::{CacheLayout, CacheShape, StateShape};
use super::config::MetadataReader;
use super::modules::LinearWeights;
use super::weights::{Role, Rows, Stage, TensorId, Weight, Weights};
use crate::arch::{Architecture, Bias, Factor, Linear};
use crate::{Error, Result};
use rustorch_core::{Buffer, DType};
use rustorch_formats::gguf;
use rustorch_tensor::Tensor;
use std::collections::HashSet;
use std::sync::Arc;

/// Looks for the tensors that parts ask for, checks their shapes, and keeps account of what was used.
pub(super) struct Loader<'a> {
    pub(super) config: &'a ModelConfig,
    pub(super) metadata: MetadataReader<'a>,
    architecture: &'static Architecture,
    file: &'a gguf::File,
    progress: &'a mut dyn FnMut(usize, usize),
    /// Whose parts ask.
    stage: Stage,
    weights: Weights,
    /// The keys and values that the model keeps so far.
    caches: Vec<CacheShape>,
    /// The states that it keeps so far.
    states: Vec<StateShape>,
    /// The names loaded so far.
    loaded: HashSet<String>,
}

impl<'a> Loader<'a> {
    pub(super) fn new(
        architecture: &'static Architecture,
        config: &'a ModelConfig,
        file: &'a gguf::File,
        progress: &'a mut dyn FnMut(usize, usize),
    ) -> Loader<'a> {
        Loader {
            config,
            metadata: MetadataReader::new(file.metadata(), architecture.name),
            architecture,
            file,
            progress,
            stage: Stage::Embedding,
            weights: Weights::default(),
            caches: Vec::new(),
            states: Vec::new(),
            loaded: HashSet::new(),
        }
    }

    /// Makes a stage the one that what follows belongs to.
    pub(super) fn enter(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// The index of the block; 0 outside of blocks.
    pub(super) fn block(&self) -> usize {
        match self.stage {
            Stage::Block(index) => index,
            Stage::Embedding | Stage::Output => 0,
        }
    }

    /// The inner width of the block's dense feed-forward network.
    pub(super) fn feed_forward(&self) -> Result<usize> {
        match self.config.layers[self.block()].feed_forward {
            0 => Err(self.metadata.missing("feed_forward_length")),
            width => Ok(width),
        }
    }

    /// A factor's value.
    pub(super) fn factor(&self, factor: &Factor) -> Result<f32> {
        let value = factor.key.map(|key| self.metadata.find_f32(key)).transpose()?.flatten();
        Ok(match value.filter(|&value| value != 0.0) {
            Some(value) if factor.divides => 1.0 / value,
            Some(value) => value,
            None => (factor.default)(self.config, self.block()),
        })
    }

    /// A place in the cache for the keys and values of the block; its index.
    pub(super) fn new_cache(&mut self, shape: CacheShape) -> usize {
        self.caches.push(shape);
        self.caches.len() - 1
    }

    /// A place in the cache for the tensors of a recurrence's state; its index.
    pub(super) fn new_state(&mut self, shapes: impl IntoIterator<Item = Vec<usize>>) -> usize {
        self.states.push(StateShape { block: self.block(), shapes: shapes.into_iter().collect() });
        self.states.len() - 1
    }

    /// The index of another block's place in the cache.
    pub(super) fn cache_of(&self, block: usize) -> Option<usize> {
        self.caches.iter().position(|shape| shape.block == block)
    }

    /// Weights of a norm, in `f32`. Some files lack the suffix of their names.
    pub(super) fn vector(&mut self, part: &str, shape: &[usize]) -> Result<TensorId> {
        let bare = self.name(part);
        let name = if self.has_named(&bare) { bare } else { bare + ".weight" };
        self.load(&name, shape, Role::Vector)
    }

    /// A vector by its name with its suffix, in `f32`.
    pub(super) fn vector_named(&mut self, part: &str, len: usize) -> Result<TensorId> {
        self.load(&self.name(part), &[len], Role::Vector)
    }

    /// The same where the file has it.
    pub(super) fn find_vector_named(&mut self, part: &str, len: usize) -> Result<Option<TensorId>> {
        self.has(part).then(|| self.vector_named(part, len)).transpose()
    }

    /// A vector that all blocks share, in `f32`, if the file has it.
    pub(super) fn find_shared_vector(&mut self, name: &str, len: usize) -> Result<Option<TensorId>> {
        let name = format!("{name}.weight");
        self.has_named(&name).then(|| self.load(&name, &[len], Role::Vector)).transpose()
    }

    pub(super) fn matrix(&mut self, part: &str, shape: &[usize]) -> Result<TensorId> {
        let name = self.name(part) + ".weight";
        self.load(&name, shape, Role::Matrix)
    }

    /// A vector that is multiplied with activations: a matrix of one row.
    pub(super) fn row(&mut self, part: &str, len: usize) -> Result<TensorId> {
        let name = self.name(part) + ".weight";
        let vector = self.load(&name, &[len], Role::Matrix)?;
        let row = self.weights[vector].reshape([1, len])?;
        self.weights.replace(vector, row);
        Ok(vector)
    }

    /// A linear layer; where the file lacks its matrix, another one in its place, if there is one.
    pub(super) fn linear(
        &mut self,
        layer: Linear,
        [outputs, inputs]: [usize; 2],
        tied: Option<&str>,
    ) -> Result<LinearWeights> {
        let matrix = match tied {
            Some(other) if !self.has_part(layer.name) => other,
            _ => layer.name,
        };
        let weight = self.matrix(matrix, &[outputs, inputs])?;
        let scale = self.beside(layer.name, "scale", Bias::Optional, &[1], weight)?;
        let bias = self.beside(layer.name, "bias", layer.bias, &[outputs], weight)?;
        Ok(LinearWeights { weight, scale, bias })
    }

    /// Linear layers of one input, each with its number of outputs: views of one layer where the file has that.
    pub(super) fn linears(
        &mut self,
        fused: Linear,
        layers: &[(Linear, usize)],
        inputs: usize,
    ) -> Result<Vec<LinearWeights>> {
        if !self.has_part(fused.name) {
            let separate = layers.iter().map(|&(layer, outputs)| self.linear(layer, [outputs, inputs], None));
            return separate.collect();
        }
        let outputs = layers.iter().map(|(_, outputs)| outputs).sum();
        let whole = self.linear(fused, [outputs, inputs], None)?;
        let mut first = 0;
        let views = layers.iter().map(|&(layer, outputs)| {
            let mut part = self.split(whole, first, outputs)?;
            first += outputs;
            // Separate biases may stand beside a fused matrix.
            if part.bias.is_none() {
                part.bias = self.beside(layer.name, "bias", layer.bias, &[outputs], whole.weight)?;
            }
            Ok(part)
        });
        views.collect()
    }

    /// The matrices of all experts, `[experts, out, in]`.
    pub(super) fn experts(
        &mut self,
        layer: Linear,
        [count, outputs, inputs]: [usize; 3],
    ) -> Result<LinearWeights> {
        let weight = self.matrix(layer.name, &[count, outputs, inputs])?;
        let scale = self.beside(layer.name, "scale", Bias::Optional, &[count], weight)?;
        let bias = self.beside(layer.name, "bias", layer.bias, &[count, outputs], weight)?;
        Ok(LinearWeights { weight, scale, bias })
    }

    /// Rows of a layer, or of that of all experts, as views.
    pub(super) fn split(&mut self, whole: LinearWeights, first: usize, rows: usize) -> Result<LinearWeights> {
        let bias = whole.bias.map(|bias| self.view(bias, first, rows)).transpose()?;
        Ok(LinearWeights { weight: self.view(whole.weight, first, rows)?, scale: whole.scale, bias })
    }

    /// A view of outputs `first..` of a weight or bias.
    fn view(&mut self, of: TensorId, first: usize, rows: usize) -> Result<TensorId> {
        let whole = self.weights.weight(of);
        let is_bias = matches!(whole.role, Role::Beside(_));
        let axis = whole.tensor.ndim() - if is_bias { 1 } else { 2 };
        let rows = Rows { axis, first, rows };
        let (name, tensor) = (whole.name.clone(), rows.of(&whole.tensor)?);
        Ok(self.weights.push(Weight { name, stage: self.stage, role: Role::View(of, rows), tensor }))
    }

    /// What stands beside a matrix.
    fn beside(
        &mut self,
        part: &str,
        suffix: &str,
        bias: Bias,
        shape: &[usize],
        matrix: TensorId,
    ) -> Result<Option<TensorId>> {
        let name = format!("{}.{suffix}", self.name(part));
        let wanted = match bias {
            Bias::None => false,
            Bias::Optional => self.has_named(&name),
            Bias::Required => true,
        };
        wanted.then(|| self.load(&name, shape, Role::Beside(matrix))).transpose()
    }

    /// The shape of the matrix or vector of a part.
    pub(super) fn shape_of(&self, part: &str) -> Result<Vec<usize>> {
        Ok(self.file.tensor(&(self.name(part) + ".weight"))?.shape().to_vec())
    }

    /// Whether the file has the matrix or vector of a part.
    pub(super) fn has_part(&self, part: &str) -> bool {
        self.has(&format!("{part}.weight"))
    }

    /// Whether the file has a tensor of this name with its suffix.
    pub(super) fn has(&self, part: &str) -> bool {
        self.has_named(&self.name(part))
    }

    fn name(&self, part: &str) -> String {
        match self.stage {
            Stage::Block(index) => format!("blk.{index}.{part}"),
            Stage::Embedding | Stage::Output => part.to_owned(),
        }
    }

    fn has_named(&self, name: &str) -> bool {
        self.file.find_tensor(name).is_some()
    }

    fn load(&mut self, name: &str, shape: &[usize], role: Role) -> Result<TensorId> {
        let tensor = self.file.tensor(name)?;
        if tensor.shape() != shape {
            return Err(Error::TensorShape {
                name: name.into(),
                found: tensor.shape().into(),
                expected: shape.into(),
            });
        }
        self.loaded.insert(name.to_owned());
        (self.progress)(self.loaded.len(), self.file.tensors().len());
        // SAFETY: `SharedBytes` holds its owner, which neither moves nor writes its bytes, by a reference count.
        let buffer = unsafe { Buffer::shared(Arc::new(tensor.shared_bytes())) };
        let tensor = Tensor::from_buffer(buffer, tensor.dtype(), shape, 0)?;
        let tensor = match role {
            Role::Matrix => tensor,
            _ => tensor.to_dtype(DType::F32)?,
        };
        Ok(self.weights.push(Weight { name: name.to_owned(), stage: self.stage, role, tensor }))
    }

    /// The weights, unless the file has tensors that no part asked for: a model without them would be another one.
    pub(super) fn finish(self) -> Result<(Weights, CacheLayout)> {
        let is_unknown = |name: &&str| {
            !self.loaded.contains(*name) && self.architecture.left_out(self.config, name).is_none()
        };
        match self.file.tensors().map(|t| t.name()).find(is_unknown) {
            None => Ok((self.weights, CacheLayout { keys_values: self.caches, states: self.states })),
            Some(name) => {
                Err(Error::UnknownTensor { name: name.into(), architecture: self.architecture.name })
            }
        }
    }
}
