//! What one step of a recurrent network computes.

use crate::expression::expression;
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
            Cell::Gru => {
                let [reset, update, new] = parts(input)?;
                let [reset_hidden, update_hidden, new_hidden] = parts(&weights.of_hidden(hidden)?)?;
                let new = GRU_NEW.apply(&[&reset, &reset_hidden, &new, &new_hidden])?;
                GRU_HIDDEN.apply(&[&update, &update_hidden, &new, hidden])?
            }
            Cell::Lstm => {
                let [hidden, cell] = Cell::lstm(&weights.sums(input, hidden)?, cell)?;
                return Ok(match &weights.hr {
                    Some(projection) => [hidden.linear(projection, None)?, cell],
                    None => [hidden, cell],
                });
            }
        };
        Ok([hidden.clone(), hidden])
    }

    /// The hidden state, before a projection, and the cell state of an LSTM by its gates before their activations.
    pub(super) fn lstm(sums: &Tensor, cell: &Tensor) -> Result<[Tensor; 2]> {
        let [input, forget, candidate, output] = parts(sums)?;
        let cell = LSTM_CELL.apply(&[&forget, cell, &input, &candidate])?;
        Ok([LSTM_HIDDEN.apply(&[&output, &cell])?, cell])
    }
}

expression!(LSTM_CELL, |[forget, cell, input, candidate]| forget.sigmoid() * cell
    + input.sigmoid() * candidate.tanh());
expression!(LSTM_HIDDEN, |[output, cell]| output.sigmoid() * cell.tanh());
expression!(GRU_NEW, |[reset, reset_hidden, new, new_hidden]| (new
    + (reset + reset_hidden).sigmoid() * new_hidden)
    .tanh());
// (1 − update) · new + update · hidden
expression!(GRU_HIDDEN, |[update, update_hidden, new, hidden]| new
    + (update + update_hidden).sigmoid() * (hidden - new));

/// Equal parts of the last dimension.
pub(super) fn parts<const K: usize>(x: &Tensor) -> Result<[Tensor; K]> {
    let ndim = x.ndim() - 1;
    let width = x.dims()[ndim] / K;
    let part = |i| x.narrow(ndim as isize, i * width, width);
    let all = (0..K).map(part).collect::<Result<Vec<_>>>()?;
    Ok(std::array::from_fn(|i| all[i].clone()))
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
