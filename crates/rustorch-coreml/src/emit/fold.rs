//! Batch norms behind convolutions, which become part of the convolution's weight and bias.

use super::{Emit, Emitter, Reason, constant_index, is_float};
use crate::blob::{self, Elements};
use crate::builder::{Builder, Data, Var};
use crate::float::{self, FloatDtype};
use rustorch_core::{BatchNorm, DType, GraphOperand, Node, Op};

/// What a batch norm does to each channel.
struct Affine {
    scales: Vec<f32>,
    offsets: Vec<f32>,
}

impl Emitter<'_> {
    /// The weight and bias of a convolution with those of the batch norm that follows it, if all of them are constants and nobody else reads what the
    /// convolution returns.
    pub(super) fn folded(&mut self, conv: &Node) -> Emit<Option<(Var, Var)>> {
        let Some((norm, op)) = self.batch_norm_behind(conv) else { return Ok(None) };
        let weight = &conv.args[1];
        let (Some(dtype), Some(index)) =
            (self.float_dtype(weight.dtype), constant_index(self.graph, weight.value))
        else {
            return Ok(None);
        };
        let count = weight.layout.numel();
        let parts = norm.args[1..].iter().chain(conv.args.get(2));
        let is_constant = parts.clone().all(|part| self.is_plain_constant(part));
        if !is_constant || !self.is_plain_constant(weight) || !Builder::is_weight(count) {
            return Ok(None);
        }
        let channels = weight.layout.dims()[0];
        let bias = match conv.args.get(2) {
            Some(bias) => self.floats(bias)?,
            None => vec![0.0; channels],
        };
        let Some(affine) = self.affine_of(&norm, op, &bias)?.filter(|affine| affine.is_kept_by(dtype)) else {
            return Ok(None);
        };
        let index = self.function.constants[index];
        let elements = Elements { index, from: weight.dtype, start: weight.layout.offset(), count };
        let dims = weight.layout.dims().to_vec();
        let weight = self.b.scaled_weight(elements, dtype, affine.scales, &dims);
        let bias = self.b.tensor(Data::Float(dtype, affine.offsets), &[channels]);
        self.folded.insert(conv.results[0].value);
        Ok(Some((weight, bias)))
    }

    /// The batch norm in evaluation that alone reads all of what a convolution returns.
    fn batch_norm_behind(&self, conv: &Node) -> Option<(Node, BatchNorm)> {
        let result = conv.results.first().filter(|result| result.into.is_none())?;
        let id = result.value;
        let reads = |operand: &&GraphOperand| operand.value == id;
        let mut readers = self.graph.nodes.iter().filter(|node| node.args.iter().any(|arg| arg.value == id));
        let (node, None) = (readers.next()?, readers.next()) else { return None };
        let Op::BatchNorm(op) = &node.op else { return None };
        let whole = self.graph.whole(id);
        let is_whole = node.args[0] == whole && node.args.iter().filter(reads).count() == 1;
        let is_seen = self.graph.outputs.iter().any(|output| output.value == id);
        (is_whole && !is_seen && !op.training).then(|| (node.clone(), op.clone()))
    }

    /// Whether an operand is a contiguous constant of floats.
    fn is_plain_constant(&self, operand: &GraphOperand) -> bool {
        is_float(operand.dtype)
            && operand.layout.is_contiguous()
            && constant_index(self.graph, operand.value).is_some()
            && self.graph.values[operand.value.index()].dtype == operand.dtype
    }

    /// The values of such a constant.
    fn floats(&self, operand: &GraphOperand) -> Emit<Vec<f32>> {
        let index = constant_index(self.graph, operand.value).ok_or("is no constant")?;
        let (start, count) = (operand.layout.offset(), operand.layout.numel());
        let index = self.function.constants[index];
        let bytes = blob::constant(self.constants, index, operand.dtype, start..start + count);
        Ok(float::decode(operand.dtype, &bytes.map_err(Reason::Failed)?)?)
    }

    /// A batch norm of values to which a bias is added before.
    fn affine_of(&self, norm: &Node, op: BatchNorm, bias: &[f32]) -> Emit<Option<Affine>> {
        let part = |i: usize| norm.args.get(i).map(|operand| self.floats(operand)).transpose();
        let (Some(mean), Some(variance)) = (part(1)?, part(2)?) else { return Ok(None) };
        let (weight, offset) = (part(3)?, part(4)?);
        let of = |values: &Option<Vec<f32>>, i: usize, default: f64| {
            values.as_ref().map_or(default, |values| f64::from(values[i]))
        };
        let scale = |i: usize| of(&weight, i, 1.0) / (f64::from(variance[i]) + op.eps).sqrt();
        let moved = |i: usize| (f64::from(bias[i]) - f64::from(mean[i])) * scale(i) + of(&offset, i, 0.0);
        Ok(Some(Affine {
            scales: (0..bias.len()).map(|i| scale(i) as f32).collect(),
            offsets: (0..bias.len()).map(|i| moved(i) as f32).collect(),
        }))
    }
}

impl Affine {
    /// Whether weights of a dtype keep their digits when they are scaled.
    fn is_kept_by(&self, dtype: FloatDtype) -> bool {
        let is_finite = self.scales.iter().chain(&self.offsets).all(|value| value.is_finite());
        // Weights are about 1 or less, and `f16` has 11 bits from 6e-5 on.
        let is_near = |scale: &f32| *scale == 0.0 || (1.0 / 64.0..=1024.0).contains(&scale.abs());
        is_finite && (dtype.dtype() == DType::F32 || self.scales.iter().all(is_near))
    }
}
