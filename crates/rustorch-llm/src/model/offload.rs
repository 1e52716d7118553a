//! Putting a model's weights onto a device.

use super::Model;
use super::weights::{Role, Stage, TensorId, Weights};
use crate::Result;
use rustorch_core::{DType, Device, Error, Fault, Layout, MatMul, MulMatId, Numerics, Op, Shape, TensorMeta};
use rustorch_runtime::HybridExecutor;
use rustorch_tensor::Tensor;
use std::collections::HashMap;
use std::sync::Arc;

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
        self.version = Arc::default();
        let mut uploader = Uploader {
            device: offload.device,
            left: offload.bytes,
            numerics: self.numerics,
            shared: HashMap::new(),
            done: Offloaded::default(),
        };
        let blocks = self.config.blocks;
        for block in 0..offload.blocks.unwrap_or(blocks).min(blocks) {
            if !uploader.stage(&mut self.weights, Stage::Block(block))? {
                return Ok(uploader.done);
            }
            uploader.done.blocks += 1;
        }
        if uploader.done.blocks == blocks {
            uploader.done.output = uploader.stage(&mut self.weights, Stage::Output)?;
        }
        Ok(uploader.done)
    }
}

struct Uploader {
    numerics: Numerics,
    device: Device,
    left: Option<u64>,
    /// Tensors that several blocks use, by name, once they are on the device.
    shared: HashMap<String, Tensor>,
    done: Offloaded,
}

impl Uploader {
    /// Puts all weights of a stage onto the device, or none of them if they do not fit: then `false`.
    fn stage(&mut self, weights: &mut Weights, stage: Stage) -> Result<bool> {
        let mut moved: HashMap<TensorId, Tensor> = HashMap::new();
        for id in weights.ids(stage) {
            let weight = weights.weight(id);
            let copy = match weight.role {
                Role::Vector => self.shared_tensor(&weight.name, &weight.tensor)?,
                Role::Matrix => self.matrix(&weight.tensor)?,
                Role::Beside(matrix) => {
                    let matrix = moved.get(&matrix).unwrap_or(&weights[matrix]);
                    Some(weight.tensor.to_device(matrix.device())?)
                }
                Role::View(of, rows) => Some(rows.of(moved.get(&of).unwrap_or(&weights[of]))?),
            };
            let Some(copy) = copy else { return Ok(false) };
            moved.insert(id, copy);
        }
        moved.into_iter().for_each(|(id, copy)| weights.replace(id, copy));
        Ok(true)
    }

    /// A tensor that more than one block may use; `None` if it does not fit.
    fn shared_tensor(&mut self, name: &str, x: &Tensor) -> Result<Option<Tensor>> {
        if let Some(copy) = self.shared.get(name) {
            return Ok(Some(copy.clone()));
        }
        let copy = self.tensor(x)?;
        self.shared.extend(copy.iter().map(|copy| (name.to_owned(), copy.clone())));
        Ok(copy)
    }

    /// A matrix on the device, or where it is if the device cannot multiply with it; `None` if it does not fit.
    fn matrix(&mut self, x: &Tensor) -> Result<Option<Tensor>> {
        if self.multiplies(x)? {
            return self.tensor(x);
        }
        if !self.done.unsupported.contains(&x.dtype()) {
            self.done.unsupported.push(x.dtype());
        }
        Ok(Some(x.clone()))
    }

    /// A copy on the device; `None` if it does not fit.
    fn tensor(&mut self, x: &Tensor) -> Result<Option<Tensor>> {
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
