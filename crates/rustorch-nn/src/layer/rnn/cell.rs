//! What one step of a recurrent network computes.

use rustorch_tensor::{Result, Tensor};

/// What an [`RNN`](crate::RNN) or an [`RNNCell`](crate::RNNCell) does with its sums, by PyTorch's names.
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
    pub(super) fn gates(self) -> usize {
        match self {
            Cell::Rnn(_) => 1,
            Cell::Gru => 3,
            Cell::Lstm => 4,
        }
    }

    /// One step: the sums of the argument with weights and bias `[n, gates · hidden]`, and the hidden and the cell state, give the next of
    /// both. Cells other than those of an LSTM have no cell state: the hidden one stands for it.
    pub(super) fn step(
        self,
        input: &Tensor,
        [hidden, cell]: &[Tensor; 2],
        weights: &Recurrent,
    ) -> Result<[Tensor; 2]> {
        let hidden = match self {
            Cell::Rnn(Nonlinearity::Tanh) => weights.sums(input, hidden)?.tanh()?,
            Cell::Rnn(Nonlinearity::Relu) => weights.sums(input, hidden)?.relu()?,
            Cell::Gru => input.gru_gates(&weights.of_hidden(hidden)?, hidden)?,
            Cell::Lstm => {
                let (hidden, cell) = weights.sums(input, hidden)?.lstm_gates(cell)?;
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
    /// The sums of a step's argument and of its hidden state.
    pub(super) fn sums(&self, input: &Tensor, hidden: &Tensor) -> Result<Tensor> {
        input.add(&self.of_hidden(hidden)?)
    }

    /// The sums of a step's hidden state.
    fn of_hidden(&self, hidden: &Tensor) -> Result<Tensor> {
        hidden.linear(&self.hh, self.bias_hh.as_ref())
    }
}
