//! Embeddings for each block.

use super::LinearWeights;
use super::activation::ActivationFn;
use super::norm::Norm;
use crate::arch::{self, Activation};
use crate::model::decoder::{Flow, ForwardPass, last_rows};
use crate::model::loader::Loader;
use crate::model::weights::TensorId;
use crate::{Error, Result};
use rustorch_core::DType;
use rustorch_tensor::Tensor;

/// The embeddings of all blocks, of token ids and the residual stream.
pub(in crate::model) struct PerLayerEmbedding {
    /// `[vocabulary, blocks · width]`.
    table: TensorId,
    projection: LinearWeights,
    norm: Norm,
    blocks: usize,
    width: usize,
}

/// What a block makes of its embedding.
pub(in crate::model) struct PerLayerInput {
    block: usize,
    gate: LinearWeights,
    activation: ActivationFn,
    projection: LinearWeights,
}

impl PerLayerEmbedding {
    pub(super) fn load(part: &arch::PerLayerEmbedding, loader: &mut Loader<'_>) -> Result<PerLayerEmbedding> {
        let config = loader.config;
        let (blocks, width) = (config.blocks, config.per_layer_embedding);
        Ok(PerLayerEmbedding {
            table: loader.matrix(part.table, &[config.vocabulary, blocks * width])?,
            projection: loader.linear(part.projection, [blocks * width, config.embedding], None)?,
            norm: Norm::load(&part.norm, &[width], loader)?,
            blocks,
            width,
        })
    }

    /// `[n, blocks, width]`.
    pub(super) fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        let shape = [pass.n, self.blocks, self.width];
        let rows = pass.weights[self.table].embedding(&pass.ids)?.to_dtype(DType::F32)?;
        let rows = rows.reshape(shape)?.mul((self.width as f32).sqrt())?;
        let root = (x.dims()[1] as f32).sqrt();
        let projected = self.projection.forward(pass, x)?.mul(1.0 / root)?.reshape(shape)?;
        let projected = self.norm.forward(&projected, pass.weights)?;
        Ok(projected.add(&rows)?.mul(std::f32::consts::FRAC_1_SQRT_2)?)
    }
}

impl PerLayerInput {
    pub(super) fn load(part: &arch::PerLayerInput, loader: &mut Loader<'_>) -> Result<PerLayerInput> {
        let (embedding, width) = (loader.config.embedding, loader.config.per_layer_embedding);
        Ok(PerLayerInput {
            block: loader.block(),
            gate: loader.linear(part.gate, [width, embedding], None)?,
            activation: ActivationFn::new(Activation::GeluTanh, &loader.metadata)?,
            projection: loader.linear(part.projection, [embedding, width], None)?,
        })
    }

    pub(super) fn forward(&self, pass: &ForwardPass<'_>, flow: &Flow) -> Result<Tensor> {
        let Some(embeddings) = &flow.per_layer else {
            return Err(Error::Request("the architecture has no embeddings for its blocks".into()));
        };
        let x = flow.input();
        let embedding = last_rows(&embeddings.select(1, self.block as isize)?, x)?.to_device(x.device())?;
        let gate = self.gate.forward(pass, x)?;
        let inner = self.activation.forward(&gate, Some(&embedding), pass.numerics)?;
        self.projection.forward(pass, &inner)
    }
}
