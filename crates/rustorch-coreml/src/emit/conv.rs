//! Convolutions.

use super::{Emit, Emitter, small};
use crate::builder::Var;
use crate::support::Condition;
use rustorch_core::{Conv, ConvBackwardData, ConvParams, Node};

impl Emitter<'_> {
    pub(super) fn conv(&mut self, op: &Conv, node: &Node) -> Emit {
        let x = self.arg(node, 0)?;
        if op.activation.is_none()
            && let Some((weight, bias)) = self.folded(node)?
        {
            return self.convolution("conv", &op.params, &x, &weight, Some(bias), node);
        }
        let (weight, bias) = (self.arg(node, 1)?, self.optional_arg(node, 2)?);
        if !weight.is_const && op.params.dilation.iter().any(|&step| step != 1) {
            return Err(Condition::DilatedWeightIsConstant.into());
        }
        let y = self.convolution("conv", &op.params, &x, &weight, bias, node)?;
        self.activated(op.activation, y)
    }

    pub(super) fn conv_transpose(&mut self, op: &ConvBackwardData, node: &Node) -> Emit {
        let (x, weight) = (self.arg(node, 0)?, self.arg(node, 1)?);
        if !weight.is_const {
            return Err(Condition::WeightIsConstant.into());
        }
        for (axis, &len) in op.size.iter().enumerate() {
            if op.params.input_len(axis, x.dims[axis + 2], weight.dims[axis + 2]) != Some(len) {
                return Err(Condition::NoOutputPadding.into());
            }
        }
        let bias = self.optional_arg(node, 2)?;
        self.convolution("conv_transpose", &op.params, &x, &weight, bias, node)
    }

    fn convolution(
        &mut self,
        ty: &str,
        params: &ConvParams,
        x: &Var,
        weight: &Var,
        bias: Option<Var>,
        node: &Node,
    ) -> Emit {
        let padding: Vec<usize> =
            params.padding.iter().flat_map(|&(before, after)| [before, after]).collect();
        small(params.stride.iter().chain(&params.dilation).chain(&padding).copied())?;
        let (strides, dilations) = (self.b.ints(&params.stride), self.b.ints(&params.dilation));
        let (pad_type, pad) = (self.b.str("custom"), self.b.ints(&padding));
        let groups = self.b.int(params.groups);
        let mut inputs = vec![
            ("x", x),
            ("weight", weight),
            ("strides", &strides),
            ("pad_type", &pad_type),
            ("pad", &pad),
            ("dilations", &dilations),
            ("groups", &groups),
        ];
        // MIL takes a constant only.
        inputs.extend(bias.iter().filter(|bias| bias.is_const).map(|bias| ("bias", bias)));
        let dims = self.result_dims(node, 0);
        let y = self.b.op(ty, &inputs, x.dtype, &dims);
        Ok(match bias.filter(|bias| !bias.is_const) {
            Some(bias) => {
                let bias = self.per_channel(&bias, dims.len());
                self.bin("add", &y, &bias)
            }
            None => y,
        })
    }
}
