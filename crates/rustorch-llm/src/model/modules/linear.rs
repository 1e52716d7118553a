//! Linear layers.

use crate::Result;
use crate::model::decoder::ForwardPass;
use crate::model::weights::{Role, TensorId, Weights};
use crate::model::{LinearInput, Matrices};
use rustorch_core::Numerics;
use rustorch_tensor::Tensor;

/// A linear layer's weights.
#[derive(Clone, Copy)]
pub(in crate::model) struct LinearWeights {
    /// `[out, in]`; of experts `[experts, out, in]`.
    pub(in crate::model) weight: TensorId,
    /// A factor of the matmul, `[1]`; of experts `[experts]`. Formats with a small range store it as a tensor of its own.
    pub(in crate::model) scale: Option<TensorId>,
    /// Added to the matmul, `[out]`, `f32`; of experts `[experts, out]`.
    pub(in crate::model) bias: Option<TensorId>,
}

impl LinearWeights {
    /// The scale multiplies the matmul but not the bias: llama.cpp's order everywhere but in feed-forward networks.
    pub(super) fn forward(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        self.show(pass, x, Matrices::One)?;
        self.apply(pass.weights, pass.numerics, x)
    }

    /// Shows the pass's observer, if there is one, what the layer is about to be given.
    fn show(&self, pass: &ForwardPass<'_>, x: &Tensor, matrices: Matrices<'_>) -> Result<()> {
        let Some(observer) = pass.observer else { return Ok(()) };
        let weight = pass.weights.weight(self.weight);
        match weight.role {
            // Another view of the tensor has shown the same input.
            Role::View(_, rows) if rows.first > 0 => Ok(()),
            _ => observer.observe(&LinearInput { weight: weight.name(), x, matrices }),
        }
    }

    /// [`forward`](Self::forward) outside of a forward pass.
    pub(in crate::model) fn apply(
        &self,
        weights: &Weights,
        numerics: Numerics,
        x: &Tensor,
    ) -> Result<Tensor> {
        let (weight, bias) = (&weights[self.weight], self.bias.map(|id| &weights[id]));
        let Some(scale) = self.scale else {
            return multiply(x, weight, bias, numerics);
        };
        let y = multiply(x, weight, None, numerics)?.mul(&weights[scale])?;
        Ok(match bias {
            Some(bias) => y.add(bias)?,
            None => y,
        })
    }

    /// The scale multiplies the bias, too: llama.cpp's order in feed-forward networks.
    pub(super) fn forward_then_scale(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        self.show(pass, x, Matrices::One)?;
        let weights = pass.weights;
        let bias = self.bias.map(|id| &weights[id]);
        let y = multiply(x, &weights[self.weight], bias, pass.numerics)?;
        Ok(match self.scale {
            Some(scale) => y.mul(&weights[scale])?,
            None => y,
        })
    }

    /// `x: [t, k or 1, in]` times the experts `chosen: [t, k]`.
    pub(super) fn forward_experts(
        &self,
        pass: &ForwardPass<'_>,
        x: &Tensor,
        chosen: &Tensor,
    ) -> Result<Tensor> {
        let experts = pass.weights[self.weight].dims()[0];
        self.show(pass, x, Matrices::Chosen(chosen, experts))?;
        self.forward_matrices(pass, x, chosen)
    }

    /// `x: [n, matrices or 1, in]` times each of the weight's matrices.
    pub(super) fn forward_each(&self, pass: &ForwardPass<'_>, x: &Tensor) -> Result<Tensor> {
        let count = pass.weights[self.weight].dims()[0];
        self.show(pass, x, Matrices::Each(count))?;
        let each = Tensor::arange(0, count as i64, 1)?.to_device(x.device())?;
        self.forward_matrices(pass, x, &each.unsqueeze(0)?.expand([x.dims()[0], count])?)
    }

    fn forward_matrices(&self, pass: &ForwardPass<'_>, x: &Tensor, chosen: &Tensor) -> Result<Tensor> {
        let mut y = x.mul_mat_id(&pass.weights[self.weight], chosen, pass.numerics)?;
        if let Some(scale) = self.scale {
            y = y.mul(&of_chosen(&pass.weights[scale].unsqueeze(-1)?, chosen)?)?;
        }
        if let Some(bias) = self.bias {
            y = y.add(&of_chosen(&pass.weights[bias], chosen)?)?;
        }
        Ok(y)
    }
}

/// Of `x: [experts, m]` the rows of the experts `chosen: [t, k]`, `[t, k, m]`.
fn of_chosen(x: &Tensor, chosen: &Tensor) -> Result<Tensor> {
    let (tokens, used) = (chosen.dims()[0], chosen.dims()[1]);
    let rows = x.index_select(0, &chosen.reshape([tokens * used])?)?;
    Ok(rows.reshape([tokens, used, x.dims()[1]])?)
}

/// On the CPU a prompt gives the same bits in chunks of any size. Other devices multiply many rows faster if each need not be as it
/// would be alone.
fn multiply(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, numerics: Numerics) -> Result<Tensor> {
    Ok(match weight.device().is_cpu() {
        true => x.linear_batch_invariant(weight, bias, numerics)?,
        false => x.linear_with(weight, bias, numerics)?,
    })
}
