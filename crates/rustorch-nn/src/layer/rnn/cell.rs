//! What one step of a recurrent network computes.

use rustorch_tensor::{Result, Tensor};

/// What an [`RNN`](crate::RNN) or an [`RNNCell`](crate::RNNCell) applies to what its weights give, by PyTorch's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Nonlinearity {
    /// The hyperbolic tangent.
    #[default]
    Tanh,
    /// max(x, 0).
    Relu,
}

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Rnn(Nonlinearity),
    Lstm,
    Gru,
}

impl Cell {
    /// How many rows of weights there are for each hidden feature.
    pub(super) fn gate_count(self) -> usize {
        match self {
            Cell::Rnn(_) => 1,
            Cell::Gru => 3,
            Cell::Lstm => 4,
        }
    }

    /// One step: the gates by the argument `[n, gates · hidden]` and the hidden and the cell state, give the next of
    /// both. Cells other than those of an LSTM have no cell state: the hidden one stands for it.
    pub(super) fn step(
        self,
        input_gates: &Tensor,
        [hidden, cell]: &[Tensor; 2],
        weights: &Recurrent,
    ) -> Result<[Tensor; 2]> {
        let hidden = match self {
            Cell::Rnn(Nonlinearity::Tanh) => weights.gates(input_gates, hidden)?.tanh()?,
            Cell::Rnn(Nonlinearity::Relu) => weights.gates(input_gates, hidden)?.relu()?,
            Cell::Gru => input_gates.gru_gates(&weights.hidden_gates(hidden)?, hidden)?,
            Cell::Lstm => {
                let (hidden, cell) = weights.gates(input_gates, hidden)?.lstm_gates(cell)?;
                return Ok(match &weights.hr {
                    Some(projection) => [hidden.linear(projection, None)?, cell],
                    None => [hidden, cell],
                });
            }
        };
        Ok([hidden.clone(), hidden])
    }
}

/// The weights that a step multiplies the hidden state with.
pub(super) struct Recurrent {
    pub(super) hh: Tensor,
    pub(super) bias_hh: Option<Tensor>,
    pub(super) hr: Option<Tensor>,
}

impl Recurrent {
    /// The gates of a step, before their activations, by those of the argument.
    pub(super) fn gates(&self, input_gates: &Tensor, hidden: &Tensor) -> Result<Tensor> {
        input_gates.add(&self.hidden_gates(hidden)?)
    }

    /// What the hidden state adds to the gates.
    fn hidden_gates(&self, hidden: &Tensor) -> Result<Tensor> {
        hidden.linear(&self.hh, self.bias_hh.as_ref())
    }
}
