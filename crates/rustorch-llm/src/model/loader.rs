//! From a file's tensors to weights.

use super::ModelConfig;
use super::config::MetadataReader;
use super::modules::LinearWeights;
use super::weights::{Role, Stage, TensorId, Weight, Weights};
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

    /// A factor's value.
    pub(super) fn factor(&self, factor: &Factor) -> Result<f32> {
        let value = factor.key.map(|key| self.metadata.find_f32(key)).transpose()?.flatten();
        Ok(match value.filter(|&value| value != 0.0) {
            Some(value) if factor.divides => 1.0 / value,
            Some(value) => value,
            None => (factor.default)(self.config, self.block()),
        })
    }

    /// A vector of norm weights, in `f32`.
    pub(super) fn vector(&mut self, part: &str, len: usize) -> Result<TensorId> {
        let name = self.name(part) + ".weight";
        self.load(&name, &[len], Role::Vector)
    }

    /// A vector that all blocks share, in `f32`, if the file has it.
    pub(super) fn find_shared_vector(&mut self, name: &str, len: usize) -> Result<Option<TensorId>> {
        let name = format!("{name}.weight");
        self.has(&name).then(|| self.load(&name, &[len], Role::Vector)).transpose()
    }

    pub(super) fn matrix(&mut self, part: &str, shape: &[usize]) -> Result<TensorId> {
        let name = self.name(part) + ".weight";
        self.load(&name, shape, Role::Matrix)
    }

    /// A linear layer; where the file lacks its matrix, another one in its place, if there is one.
    pub(super) fn linear(
        &mut self,
        layer: Linear,
        [outputs, inputs]: [usize; 2],
        tied: Option<&str>,
    ) -> Result<LinearWeights> {
        let name = self.name(layer.name);
        let weight = match tied {
            Some(other) if !self.has(&format!("{name}.weight")) => self.matrix(other, &[outputs, inputs])?,
            _ => self.matrix(layer.name, &[outputs, inputs])?,
        };
        let scale = self.find_beside(&format!("{name}.scale"), 1, weight)?;
        let bias = format!("{name}.bias");
        let bias = match layer.bias {
            Bias::None => None,
            Bias::Optional => self.find_beside(&bias, outputs, weight)?,
            Bias::Required => Some(self.load(&bias, &[outputs], Role::Beside(weight))?),
        };
        Ok(LinearWeights { weight, scale, bias })
    }

    /// The matrices of all experts, `[experts, out, in]`.
    pub(super) fn experts(&mut self, part: &str, shape: [usize; 3]) -> Result<LinearWeights> {
        let weight = self.matrix(part, &shape)?;
        let scale = self.find_beside(&format!("{}.scale", self.name(part)), shape[0], weight)?;
        Ok(LinearWeights { weight, scale, bias: None })
    }

    fn find_beside(&mut self, name: &str, len: usize, matrix: TensorId) -> Result<Option<TensorId>> {
        self.has(name).then(|| self.load(name, &[len], Role::Beside(matrix))).transpose()
    }

    fn name(&self, part: &str) -> String {
        match self.stage {
            Stage::Block(index) => format!("blk.{index}.{part}"),
            Stage::Embedding | Stage::Output => part.to_owned(),
        }
    }

    fn has(&self, name: &str) -> bool {
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
            Role::Vector | Role::Beside(_) => tensor.to_dtype(DType::F32)?,
        };
        Ok(self.weights.push(Weight { name: name.to_owned(), stage: self.stage, role, tensor }))
    }

    /// The weights, unless the file has tensors that no part asked for: a model without them would be another one.
    pub(super) fn finish(self) -> Result<Weights> {
        let is_unknown =
            |name: &&str| !self.loaded.contains(*name) && self.architecture.left_out(name).is_none();
        match self.file.tensors().map(|t| t.name()).find(is_unknown) {
            None => Ok(self.weights),
            Some(name) => {
                Err(Error::UnknownTensor { name: name.into(), architecture: self.architecture.name })
            }
        }
    }
}
