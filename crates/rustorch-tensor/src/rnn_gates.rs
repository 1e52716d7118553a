//! The gates of recurrent networks: what a step of an LSTM or a GRU computes behind its matmuls, and the gradients of that.
//!
//! `torch._thnn_fused_lstm_cell` and `torch._thnn_fused_gru_cell`, without the additions of biases.

use crate::Tensor;
use crate::binary::promote;
use crate::dispatch::{run_into_all, run_many, run_pair};
use rustorch_core::{Op, Result, RnnGates, RnnGatesBackward};
use smallvec::SmallVec;

impl Tensor {
    /// The hidden and the cell state of an LSTM after a step. `self: [.., 4 · h]` has the input gate, the forget gate, the cell candidate
    /// and the output gate `i, f, g, o`, before their activations, and `cell` is `[.., h]`: `c' = σ(f) · c + σ(i) · tanh(g)` and
    /// `h' = σ(o) · tanh(c')`. The two promote.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let gates = Tensor::zeros([4], DType::F32)?;
    /// let (hidden, cell) = gates.lstm_gates(&Tensor::new([2.0f32])?)?;
    /// assert_eq!(cell.to_vec::<f32>()?, [1.0]);
    /// assert_eq!(hidden.to_vec::<f32>()?, [0.5 * 1f32.tanh()]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If shapes do not fit, or the dtype is none of floats.
    pub fn lstm_gates(&self, cell: &Tensor) -> Result<(Tensor, Tensor)> {
        let op = RnnGates::Lstm;
        let [gates, cell] = promoted(op.name(), [self, cell])?;
        run_pair(&Op::RnnGates(op), &[&gates, &cell])
    }

    /// The hidden state of a GRU after a step. `self: [.., 3 · h]` is what the input adds to the reset gate, the update gate and the new
    /// state before their activations, `hidden_gates` what the hidden state adds, and `hidden` is `[.., h]`: `r = σ(xᵣ + hᵣ)`, `z = σ(x_z + h_z)`,
    /// `n = tanh(xₙ + r · hₙ)` and `h' = n + z · (h − n)`. The three promote.
    ///
    /// ```
    /// # use rustorch_tensor::{DType, Tensor};
    /// let gates = Tensor::zeros([3], DType::F32)?;
    /// assert_eq!(gates.gru_gates(&gates, &Tensor::new([2.0f32])?)?.to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If shapes do not fit, or the dtype is none of floats.
    pub fn gru_gates(&self, hidden_gates: &Tensor, hidden: &Tensor) -> Result<Tensor> {
        let op = RnnGates::Gru;
        let args = promoted(op.name(), [self, hidden_gates, hidden])?;
        run_many(&Op::RnnGates(op), &args.each_ref())
    }

    /// The gradients of the arguments of [`lstm_gates`](Self::lstm_gates), by those of its results, written to `grads`: tensors of the shapes
    /// and the dtype of `self` and `cell`. Without `grad_cell` nothing depends on the next cell state but the hidden one.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit, or gradients are recorded and one of the tensors has a history: run it under
    /// [`no_grad`](crate::autograd::no_grad).
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lstm_gates_backward_into(
        &self,
        cell: &Tensor,
        grad_hidden: &Tensor,
        grad_cell: Option<&Tensor>,
        grads: [&Tensor; 2],
    ) -> Result<()> {
        let args: SmallVec<[&Tensor; 4]> = [self, cell, grad_hidden].into_iter().chain(grad_cell).collect();
        run_into_all(&Op::RnnGatesBackward(RnnGatesBackward::Lstm), &args, &grads)
    }
}

/// Tensors in the dtype to which they promote.
fn promoted<const N: usize>(op: &'static str, tensors: [&Tensor; N]) -> Result<[Tensor; N]> {
    let mut all = tensors.map(Tensor::clone);
    if tensors.iter().any(|x| x.dtype() != tensors[0].dtype()) {
        let dtype = promote(op, &tensors.map(|x| (x.dtype(), x.category())))?;
        for x in &mut all {
            *x = x.to_dtype(dtype)?;
        }
    }
    Ok(all)
}
