//! Softmax and normalisations.

use super::{Emit, Emitter, Results};
use crate::builder::Var;
use crate::support::Condition;
use rustorch_core::{AddRmsNorm, BatchNorm, DType, GroupNorm, LayerNorm, Node, RmsNorm, Softmax};
use smallvec::smallvec;

impl Emitter<'_> {
    pub(super) fn softmax(&mut self, op: &Softmax, node: &Node) -> Emit {
        let given = self.arg(node, 0)?;
        if !op.log {
            return Ok(self.softmax_of(&given, op.axis));
        }
        let x = self.as_f32(&given);
        // A logarithm of the softmax would lose what is small.
        let most = self.reduced("reduce_max", &x, &[op.axis], true);
        let below = self.bin("sub", &x, &most);
        let exp = self.un("exp", &below);
        let sum = self.reduced("reduce_sum", &exp, &[op.axis], true);
        let log = self.log(&sum);
        let y = self.bin("sub", &below, &log);
        Ok(self.float_as(&y, given.dtype))
    }

    pub(super) fn softmax_of(&mut self, x: &Var, axis: usize) -> Var {
        let axis = self.b.int(axis);
        let wide = self.as_f32(x);
        let y = self.b.op("softmax", &[("x", &wide), ("axis", &axis)], DType::F32, &x.dims);
        self.float_as(&y, x.dtype)
    }

    pub(super) fn layer_norm(&mut self, op: &LayerNorm, node: &Node) -> Emit {
        let x = self.arg(node, 0)?;
        let (weight, bias) = (self.optional_arg(node, 1)?, self.optional_arg(node, 2)?);
        let axes: Vec<usize> = (x.ndim() - op.dims..x.ndim()).collect();
        let (axes, epsilon) = (self.b.ints(&axes), self.b.f32(op.eps as f32));
        let wide = self.as_f32(&x);
        let mut inputs = vec![("x", &wide), ("axes", &axes), ("epsilon", &epsilon)];
        // MIL takes constants only. Those of `f16` are applied in it.
        let is_const = weight.iter().chain(&bias).all(|var| var.is_const && var.dtype == DType::F32);
        if is_const {
            inputs.extend(weight.iter().map(|var| ("gamma", var)));
            inputs.extend(bias.iter().map(|var| ("beta", var)));
        }
        let y = self.b.op("layer_norm", &inputs, DType::F32, &x.dims);
        let y = self.float_as(&y, x.dtype);
        Ok(if is_const { y } else { self.affine(y, weight, bias) })
    }

    fn affine(&mut self, mut y: Var, weight: Option<Var>, bias: Option<Var>) -> Var {
        if let Some(weight) = weight {
            y = self.bin("mul", &y, &weight);
        }
        if let Some(bias) = bias {
            y = self.bin("add", &y, &bias);
        }
        y
    }

    pub(super) fn rms_norm(&mut self, op: &RmsNorm, node: &Node) -> Emit {
        let x = self.arg(node, 0)?;
        let weight = self.optional_arg(node, 1)?;
        Ok(self.rms_normed(&x, op.eps, weight))
    }

    pub(super) fn add_rms_norm(&mut self, op: &AddRmsNorm, node: &Node) -> Emit<Results> {
        let (x, y) = (self.arg(node, 0)?, self.arg(node, 1)?);
        let weight = self.optional_arg(node, 2)?;
        let sum = self.bin("add", &x, &y);
        let normed = self.rms_normed(&sum, op.eps, weight);
        Ok(smallvec![sum, normed])
    }

    fn rms_normed(&mut self, x: &Var, eps: f64, weight: Option<Var>) -> Var {
        let wide = self.as_f32(x);
        let square = self.un("square", &wide);
        let mean = self.reduced("reduce_mean", &square, &[x.ndim() - 1], true);
        let scale = self.inverse_root(&mean, eps);
        let y = self.bin("mul", &wide, &scale);
        let y = self.float_as(&y, x.dtype);
        self.affine(y, weight, None)
    }

    /// 1/√(x + eps), in `f32`.
    fn inverse_root(&mut self, x: &Var, eps: f64) -> Var {
        let epsilon = self.b.f32(eps as f32);
        self.b.op("rsqrt", &[("x", x), ("epsilon", &epsilon)], DType::F32, &x.dims)
    }

    pub(super) fn batch_norm(&mut self, op: &BatchNorm, node: &Node) -> Emit {
        if op.training {
            return Err(Condition::Evaluation.into());
        }
        if self.folded.contains(&node.args[0].value) {
            return self.arg(node, 0);
        }
        let (x, mean, variance) = (self.arg(node, 0)?, self.arg(node, 1)?, self.arg(node, 2)?);
        let (weight, bias) = (self.optional_arg(node, 3)?, self.optional_arg(node, 4)?);
        let is_const = [&mean, &variance].into_iter().chain(&weight).chain(&bias).all(|var| var.is_const);
        // In `f16` the variance may have no digits left.
        let is_f32 = [&x, &mean, &variance].iter().all(|var| var.dtype == DType::F32);
        if is_const && is_f32 && x.ndim() >= 3 {
            let epsilon = self.b.f32(op.eps as f32);
            let mut inputs = vec![("x", &x), ("mean", &mean), ("variance", &variance), ("epsilon", &epsilon)];
            inputs.extend(weight.iter().map(|var| ("gamma", var)));
            inputs.extend(bias.iter().map(|var| ("beta", var)));
            return Ok(self.b.op("batch_norm", &inputs, DType::F32, &x.dims));
        }
        let (wide, mean, variance) = (self.as_f32(&x), self.as_f32(&mean), self.as_f32(&variance));
        let mean = self.per_channel(&mean, x.ndim());
        let scale = self.inverse_root(&variance, op.eps);
        let scale = self.per_channel(&scale, x.ndim());
        let centred = self.bin("sub", &wide, &mean);
        let y = self.bin("mul", &centred, &scale);
        let y = self.float_as(&y, x.dtype);
        let weight = weight.map(|var| self.per_channel(&var, x.ndim()));
        let bias = bias.map(|var| self.per_channel(&var, x.ndim()));
        Ok(self.affine(y, weight, bias))
    }

    /// A value for each channel, which is dimension 1 of `rank`.
    pub(super) fn per_channel(&mut self, x: &Var, rank: usize) -> Var {
        let mut dims = vec![1; rank];
        dims[1] = x.numel();
        self.reshape(x, &dims)
    }

    pub(super) fn group_norm(&mut self, op: &GroupNorm, node: &Node) -> Emit {
        let x = self.arg(node, 0)?;
        let (weight, bias) = (self.optional_arg(node, 1)?, self.optional_arg(node, 2)?);
        let rest = x.numel() / x.dims[0] / op.groups;
        let wide = self.as_f32(&x);
        let groups = self.reshape(&wide, &[x.dims[0], op.groups, rest]);
        let mean = self.reduced("reduce_mean", &groups, &[2], true);
        let centred = self.bin("sub", &groups, &mean);
        let square = self.un("square", &centred);
        let variance = self.reduced("reduce_mean", &square, &[2], true);
        let scale = self.inverse_root(&variance, op.eps);
        let normed = self.bin("mul", &centred, &scale);
        let normed = self.float_as(&normed, x.dtype);
        let y = self.reshape(&normed, &x.dims);
        let weight = weight.map(|var| self.per_channel(&var, x.ndim()));
        let bias = bias.map(|var| self.per_channel(&var, x.ndim()));
        Ok(self.affine(y, weight, bias))
    }
}
