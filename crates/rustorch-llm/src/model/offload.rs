//! Putting a model's weights onto a device.

use super::weights::{BlockWeights, FeedForwardWeights, LinearWeights};
use super::{Model, Weights};
use crate::Result;
use rustorch_core::{DType, Device, Error, Fault, Layout, MatMul, MulMatId, Numerics, Op, Shape, TensorMeta};
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::Tensor;

/// How much of a model goes to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// The device.
    pub device: Device,
    /// How many blocks at most, from the first; the output layer goes with the last one. All if not given.
    pub blocks: Option<usize>,
    /// How many bytes of weights at most.
    pub bytes: Option<u64>,
}

/// What went to a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offloaded {
    /// Blocks, from the first.
    pub blocks: usize,
    /// Whether the output layer followed.
    pub output: bool,
    /// Bytes of weights.
    pub bytes: u64,
    /// Dtypes of weights for which the device has no matmul; these weights stayed where they were.
    pub unsupported: Vec<DType>,
}

impl Model {
    /// Copies weights to a device, block by block, as far as the limits and its memory allow. The table of embeddings, of
    /// which a token needs one row, stays where it is, and so do weights of dtypes that the device does not compute with.
    ///
    /// From then on the model runs where its weights are: use an executor with
    /// [`Placement::Resident`](rustorch_runtime::Placement::Resident). Caches follow the blocks that they are made for.
    ///
    /// # Errors
    /// If the current executor does not have the device, or the device fails otherwise than by running out of memory.
    pub fn offload(&mut self, offload: &Offload) -> Result<Offloaded> {
        let most_blocks = offload.blocks.unwrap_or(usize::MAX);
        let (device, left) = (offload.device, offload.bytes);
        let mut uploader = Uploader {
            device,
            left,
            numerics: self.numerics,
            rope_factors: None,
            done: Offloaded::default(),
        };
        let Weights { blocks, output_norm, output, .. } = &mut self.weights;
        for block in blocks.iter_mut().take(most_blocks) {
            let Some(moved) = uploader.block(block)? else { return Ok(uploader.done) };
            *block = moved;
            uploader.done.blocks += 1;
        }
        if uploader.done.blocks < blocks.len() {
            return Ok(uploader.done);
        }
        if let (Some(norm), Some(layer)) = (uploader.tensor(output_norm, false)?, uploader.linear(output)?) {
            (*output_norm, *output) = (norm, layer);
            uploader.done.output = true;
        }
        Ok(uploader.done)
    }
}

/// Where a tensor's data is: its device, or the CPU if that device is lost, because the weights are still in the file.
pub(super) fn weight_device(x: &Tensor) -> Device {
    if x.storage().is_lost() { Device::CPU } else { x.device() }
}

struct Uploader {
    numerics: Numerics,
    device: Device,
    left: Option<u64>,
    /// On the device, as soon as a block has asked for them.
    rope_factors: Option<Tensor>,
    done: Offloaded,
}

impl Uploader {
    /// The block on the device; `None` if it does not fit.
    fn block(&mut self, block: &BlockWeights) -> Result<Option<BlockWeights>> {
        let mut norms = vec![block.attention_norm.clone(), block.feed_forward_norm.clone()];
        norms.extend(block.query_norm.clone());
        norms.extend(block.key_norm.clone());
        let Some(norms) = self.vectors(&norms)? else { return Ok(None) };
        let mut norms = norms.into_iter();
        let (Some(attention_norm), Some(feed_forward_norm)) = (norms.next(), norms.next()) else {
            return Ok(None);
        };
        let query_norm = block.query_norm.as_ref().and_then(|_| norms.next());
        let key_norm = block.key_norm.as_ref().and_then(|_| norms.next());
        if let (Some(factors), None) = (&block.rope_factors, &self.rope_factors) {
            let Some(moved) = self.tensor(factors, false)? else { return Ok(None) };
            self.rope_factors = Some(moved);
        }
        let layers = [&block.query, &block.key, &block.value, &block.output];
        let mut moved = Vec::with_capacity(4);
        for layer in layers {
            let Some(layer) = self.linear(layer)? else { return Ok(None) };
            moved.push(layer);
        }
        let Some(feed_forward) = self.feed_forward(&block.feed_forward)? else { return Ok(None) };
        let Ok([query, key, value, output]) = <[LinearWeights; 4]>::try_from(moved) else {
            return Ok(None);
        };
        Ok(Some(BlockWeights {
            attention_norm,
            query,
            key,
            value,
            query_norm,
            key_norm,
            rope_factors: block.rope_factors.as_ref().and(self.rope_factors.clone()),
            output,
            feed_forward_norm,
            feed_forward,
        }))
    }

    fn feed_forward(&mut self, weights: &FeedForwardWeights) -> Result<Option<FeedForwardWeights>> {
        let mut moved = weights.clone();
        let layers = match &mut moved {
            FeedForwardWeights::Dense(dense) => [&mut dense.gate, &mut dense.up, &mut dense.down],
            FeedForwardWeights::Experts(experts) => {
                let Some(router) = self.tensor(&experts.router, true)? else { return Ok(None) };
                experts.router = router;
                [&mut experts.gate, &mut experts.up, &mut experts.down]
            }
        };
        for layer in layers {
            let Some(there) = self.linear(layer)? else { return Ok(None) };
            *layer = there;
        }
        Ok(Some(moved))
    }

    fn vectors(&mut self, vectors: &[Tensor]) -> Result<Option<Vec<Tensor>>> {
        vectors.iter().map(|x| self.tensor(x, false)).collect()
    }

    fn linear(&mut self, layer: &LinearWeights) -> Result<Option<LinearWeights>> {
        let Some(weight) = self.tensor(&layer.weight, true)? else { return Ok(None) };
        // Scales and biases go to the device of the weight.
        let beside = |x: &Option<Tensor>| -> Result<Option<Tensor>> {
            Ok(x.as_ref().map(|x| x.to_device(weight.device())).transpose()?)
        };
        let (scale, bias) = (beside(&layer.scale)?, beside(&layer.bias)?);
        Ok(Some(LinearWeights { weight, scale, bias }))
    }

    /// The tensor on the device; `None` if it does not fit. A weight that the device cannot use is left where it is.
    fn tensor(&mut self, x: &Tensor, weight: bool) -> Result<Option<Tensor>> {
        if weight && !self.multiplies(x)? {
            if !self.done.unsupported.contains(&x.dtype()) {
                self.done.unsupported.push(x.dtype());
            }
            return Ok(Some(x.clone()));
        }
        let bytes = x.meta().packed_bytes() as u64;
        if let Some(left) = &mut self.left {
            match left.checked_sub(bytes) {
                Some(rest) => *left = rest,
                None => return Ok(None),
            }
        }
        match x.to_device(self.device) {
            Ok(moved) => {
                self.done.bytes += bytes;
                Ok(Some(moved))
            }
            Err(Error::Fault(fault)) if matches!(*fault, Fault::OutOfMemory { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the device multiplies activations with a weight of this dtype and shape.
    fn multiplies(&self, weight: &Tensor) -> Result<bool> {
        let dims = weight.dims();
        let numerics = self.numerics;
        let contiguous = |dims: &[usize]| -> Result<Layout> { Ok(Layout::contiguous(Shape::new(dims)?)) };
        let inner = dims[dims.len() - 1];
        let (op, args) = match dims.len() {
            2 => {
                let transposed = weight.layout().transpose(0, 1)?;
                (
                    Op::MatMul(MatMul { numerics, ..MatMul::default() }),
                    vec![(DType::F32, contiguous(&[1, inner])?), (weight.dtype(), transposed)],
                )
            }
            _ => (
                Op::MulMatId(MulMatId { numerics }),
                vec![
                    (DType::F32, contiguous(&[1, 1, inner])?),
                    (weight.dtype(), weight.layout().clone()),
                    (DType::I64, contiguous(&[1, 1])?),
                ],
            ),
        };
        let metas: Vec<TensorMeta<'_>> = args
            .iter()
            .map(|(dtype, layout)| TensorMeta { dtype: *dtype, layout, device: self.device })
            .collect();
        HybridExecutor::with_current(|executor| {
            let backend = executor.backend(self.device)?;
            let bytes = weight.meta().packed_bytes() as u64;
            let fits = backend.capability().max_buffer.is_none_or(|most| bytes <= most);
            Ok(fits && backend.supports(&op, &metas).is_ok())
        })
    }
}
