//! The gates of recurrent networks: what a step of an LSTM or a GRU computes elementwise, behind its matmuls.
//!
//! Arguments named `gates` are pre-activations, those of all gates beside each other in the last dimension, in PyTorch's order; the other
//! dimensions are those of the states. Operands are floats of one dtype, and 16-bit ones are computed in `F32`.

use super::{OpType, Operation, float, out_elements, same_dense};
use crate::{Error, OutputMeta, Outputs, Result, TensorMeta};
use smallvec::smallvec;

op_names! {
    /// The states of recurrent networks after a step.
    RnnGates {
        /// `gates: [.., 4 · h], cell: [.., h]` give `hidden: [.., h]` and the next `cell`. With the input gate, the forget gate, the
        /// cell candidate and the output gate `i, f, g, o`: `c' = σ(f) · c + σ(i) · tanh(g)`, `hidden = σ(o) · tanh(c')`.
        ///
        /// Hochreiter, Schmidhuber: *Long Short-Term Memory*, 1997.
        Lstm = "lstm_gates",
        /// `input_gates: [.., 3 · h], hidden_gates: [.., 3 · h], hidden: [.., h]` give the next `hidden`. With the reset gate, the
        /// update gate and the new state, of the input `xᵣ, x_z, xₙ` and of the hidden state `hᵣ, h_z, hₙ`: `r = σ(xᵣ + hᵣ)`,
        /// `z = σ(x_z + h_z)`, `n = tanh(xₙ + r · hₙ)`, `hidden' = n + z · (hidden − n)`.
        ///
        /// Cho et al.: *Learning Phrase Representations using RNN Encoder–Decoder for Statistical Machine Translation*, 2014.
        Gru = "gru_gates",
    }
}

op_names! {
    /// The gradients of [`RnnGates`], from those of its results and its arguments.
    RnnGatesBackward {
        /// `gates, cell, grad_hidden[, grad_cell]` give the gradients of `gates` and of `cell`. Without `grad_cell` nothing depends on the
        /// next cell state but the hidden one.
        Lstm = "lstm_gates_backward",
        /// `input_gates, hidden_gates, hidden, grad` give the gradients of the first three.
        Gru = "gru_gates_backward",
    }
}

impl RnnGates {
    pub(super) fn kind(self) -> RnnGates {
        self
    }

    /// How many gates there are.
    pub fn gate_count(self) -> usize {
        match self {
            RnnGates::Lstm => 4,
            RnnGates::Gru => 3,
        }
    }

    /// How many arguments are gates, which come first; the state follows.
    pub fn gate_args(self) -> usize {
        match self {
            RnnGates::Lstm => 1,
            RnnGates::Gru => 2,
        }
    }
}

impl RnnGatesBackward {
    pub(super) fn kind(self) -> RnnGatesBackward {
        self
    }

    /// What is differentiated.
    pub fn forward(self) -> RnnGates {
        match self {
            RnnGatesBackward::Lstm => RnnGates::Lstm,
            RnnGatesBackward::Gru => RnnGates::Gru,
        }
    }
}

/// Checks the shapes of arguments, of which the first are gates and the others are like the state; their dtype, and what a
/// result like the state is.
fn check(
    name: &'static str,
    cell: RnnGates,
    args: &[TensorMeta<'_>],
    counts: [usize; 2],
) -> Result<OutputMeta> {
    let dtype = same_dense(name, args, counts[0]..=counts[1])?;
    float(name, dtype)?;
    let state = &args[cell.gate_args()];
    let Some((&width, outer)) = state.dims().split_last() else {
        return Err(Error::shape(name, "the state must have a dimension", [state.shape()]));
    };
    for gates in &args[..cell.gate_args()] {
        let fits = gates
            .dims()
            .split_last()
            .is_some_and(|(&all, rest)| rest == outer && width.checked_mul(cell.gate_count()) == Some(all));
        if !fits {
            let message = format!(
                "gates must have the shape of the state, with {} times as many in the last dimension",
                cell.gate_count()
            );
            return Err(Error::shape(name, message, [gates.shape(), state.shape()]));
        }
    }
    if let Some(other) = args[cell.gate_args()..].iter().find(|x| x.shape() != state.shape()) {
        let message = "gradients of states must have the shape of the state";
        return Err(Error::shape(name, message, [other.shape(), state.shape()]));
    }
    Ok(OutputMeta { dtype, shape: state.shape().clone() })
}

impl Operation for RnnGates {
    const CLASS: OpType = OpType::Activation;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let count = self.gate_args() + 1;
        let state = check(self.name(), *self, args, [count; 2])?;
        Ok(match self {
            RnnGates::Lstm => smallvec![state.clone(), state],
            RnnGates::Gru => smallvec![state],
        })
    }

    fn flops(&self, _: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        let each = match self {
            RnnGates::Lstm => 60,
            RnnGates::Gru => 40,
        };
        each * out_elements(outs)
    }
}

impl Operation for RnnGatesBackward {
    const CLASS: OpType = OpType::Activation;

    fn infer(&self, args: &[TensorMeta<'_>]) -> Result<Outputs> {
        let forward = self.forward();
        let counts = match self {
            RnnGatesBackward::Lstm => [3, 4],
            RnnGatesBackward::Gru => [4, 4],
        };
        let state = check(self.name(), forward, args, counts)?;
        let gates = args[..forward.gate_args()].iter();
        let gates = gates.map(|x| OutputMeta { dtype: state.dtype, shape: x.shape().clone() });
        Ok(gates.chain([state.clone()]).collect())
    }

    fn flops(&self, _: &[TensorMeta<'_>], outs: &[OutputMeta]) -> u64 {
        20 * out_elements(outs)
    }
}
