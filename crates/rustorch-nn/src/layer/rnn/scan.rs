//! The way of states through steps and layers, for sequences of several lengths one after another, as a
//! [`PackedSequence`](crate::utils::rnn::PackedSequence) has them: the elements of all sequences at step 0, then those at step 1 of the
//! sequences that have one, and so on, the longest sequence first. Sequences of one length are the case where all steps have as many rows.

use super::cell::{Cell, Recurrent};
use super::lstm_steps::LstmSteps;
use super::network::{Network, Weights};
use crate::Parameter;
use rustorch_tensor::autograd::{Autocast, Function};
use rustorch_tensor::{Result, Tensor};

/// Rows of a hidden and a cell state.
fn rows([hidden, cell]: &[Tensor; 2], start: usize, end: usize) -> Result<[Tensor; 2]> {
    if start == 0 && end == hidden.dims()[0] {
        return Ok([hidden.clone(), cell.clone()]);
    }
    Ok([hidden.narrow(0, start, end - start)?, cell.narrow(0, start, end - start)?])
}

/// States one below the other.
fn cat(states: &[[Tensor; 2]]) -> Result<[Tensor; 2]> {
    if let [one] = states {
        return Ok(one.clone());
    }
    let part = |i: usize| states.iter().map(|state| state[i].clone()).collect::<Vec<_>>();
    Ok([Tensor::cat(&part(0), 0)?, Tensor::cat(&part(1), 0)?])
}

impl Network {
    /// All layers of rows `[Σ sizes, width]`, of which each step has so many, from states `[layers · directions, n, width]`: the hidden states
    /// of the last layer, and the last states of all layers.
    pub(super) fn layers(
        &self,
        mut x: Tensor,
        sizes: &[usize],
        [hidden, cell]: &[Tensor; 2],
    ) -> Result<(Tensor, [Tensor; 2])> {
        let directions = if self.options.bidirectional { 2 } else { 1 };
        let mut last = [Vec::new(), Vec::new()];
        for (layer, weights) in self.weights.chunks(directions).enumerate() {
            if layer > 0 {
                x = x.dropout(self.options.dropout, self.training.get())?;
            }
            let mut outputs = Vec::new();
            for (direction, weights) in weights.iter().enumerate() {
                let i = (layer * directions + direction) as isize;
                let state = [hidden.select(0, i)?, cell.select(0, i)?];
                let (output, [hidden, cell]) = self.scan(&x, sizes, &state, weights, direction == 1)?;
                outputs.push(output);
                last[0].push(hidden);
                last[1].push(cell);
            }
            x = Tensor::cat(&outputs, -1)?;
        }
        let hidden = Tensor::stack(&last[0], 0)?;
        let cell = if self.cell == Cell::Lstm { Tensor::stack(&last[1], 0)? } else { hidden.clone() };
        Ok((x, [hidden, cell]))
    }

    /// [`scan`](Self::scan) of an LSTM by one function, where all steps have as many rows and nothing changes dtypes under way.
    fn lstm(
        &self,
        inputs: &Tensor,
        sizes: &[usize],
        [hidden, cell]: &[Tensor; 2],
        recurrent: &Recurrent,
        is_reverse: bool,
    ) -> Result<Option<(Tensor, [Tensor; 2])>> {
        let rows = sizes[0];
        let all: Vec<&Tensor> =
            [inputs, hidden, cell, &recurrent.hh].into_iter().chain(&recurrent.bias_hh).collect();
        let is_plain = self.cell == Cell::Lstm
            && recurrent.hr.is_none()
            && rows > 0
            && sizes.iter().all(|&size| size == rows)
            && Autocast::current().is_none()
            && all.iter().all(|x| x.dtype() == inputs.dtype());
        if !is_plain {
            return Ok(None);
        }
        let results = LstmSteps { rows, is_reverse }.apply(&all)?;
        let last = if is_reverse { 0 } else { (sizes.len() - 1) * rows };
        let hidden = results[0].narrow(0, last, rows)?;
        Ok(Some((results[0].clone(), [hidden, results[1].clone()])))
    }

    /// One layer in one direction: its hidden states in the order of the steps, and the last state of each sequence.
    fn scan(
        &self,
        x: &Tensor,
        sizes: &[usize],
        first: &[Tensor; 2],
        weights: &Weights,
        is_reverse: bool,
    ) -> Result<(Tensor, [Tensor; 2])> {
        let tensor = |parameter: &Option<Parameter>| parameter.as_ref().map(Parameter::tensor);
        // The gates by the argument do not depend on the state: one matmul for all steps.
        let inputs = x.linear(&weights.weight_ih.tensor(), tensor(&weights.bias_ih).as_ref())?;
        let recurrent = Recurrent {
            hh: weights.weight_hh.tensor(),
            bias_hh: tensor(&weights.bias_hh),
            hr: tensor(&weights.weight_hr),
        };
        if let Some(done) = self.lstm(&inputs, sizes, first, &recurrent, is_reverse)? {
            return Ok(done);
        }
        let step_rows = |start: &mut usize, &size: &usize| {
            *start += size;
            Some((*start - size, size))
        };
        let mut steps: Vec<(usize, usize)> = sizes.iter().scan(0, step_rows).collect();
        if is_reverse {
            steps.reverse();
        }
        let mut state = rows(first, 0, steps[0].1)?;
        let (mut outputs, mut ended) = (Vec::with_capacity(steps.len()), Vec::new());
        for &(start, size) in &steps {
            let before = state[0].dims()[0];
            if size < before {
                // The shortest sequences, which come last, are at their ends.
                ended.push(rows(&state, size, before)?);
                state = rows(&state, 0, size)?;
            } else if size > before {
                // From the end of the longest sequences, others join at their own ends.
                state = cat(&[state, rows(first, before, size)?])?;
            }
            state = self.cell.step(&inputs.narrow(0, start, size)?, &state, &recurrent)?;
            outputs.push(state[0].clone());
        }
        if is_reverse {
            outputs.reverse();
        }
        ended.push(state);
        ended.reverse();
        Ok((Tensor::cat(&outputs, 0)?, cat(&ended)?))
    }
}
