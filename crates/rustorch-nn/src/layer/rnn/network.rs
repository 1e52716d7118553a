//! What the kinds of recurrent networks have in common: layers, directions, steps.

use super::cell::{Cell, Nonlinearity};
use crate::layer::options::{of_layer, options};
use crate::utils::rnn::PackedSequence;
use crate::{ExtraRepr, Member, Parameter, Training, init};
use rustorch_tensor::{Error, Result, Tensor};

options! {
    /// How an [`RNN`](crate::RNN), an [`LSTM`](crate::LSTM) or a [`GRU`](crate::GRU) is made: the optional arguments of PyTorch's with their defaults.
    RNNOptions {
        /// How many layers there are, each of which gets the hidden states of the one before.
        num_layers: plain usize = 1;
        /// What an [`RNN`](crate::RNN) applies to what its weights give; the others have nonlinearities of their own.
        nonlinearity: plain Nonlinearity = Nonlinearity::Tanh;
        /// Whether it has biases.
        bias: plain bool = true;
        /// Whether the batch is the first dimension of argument and result, and the sequence the second. States are not concerned.
        batch_first: plain bool = false;
        /// The probability with which hidden states become zero between layers while training.
        dropout: plain f64 = 0.0;
        /// Whether each layer also reads the sequence from its end.
        bidirectional: plain bool = false;
        /// The width to which an [`LSTM`](crate::LSTM) projects its hidden states; 0 for none.
        proj_size: plain usize = 0;
    }
}

/// The parameters of one layer in one direction.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) weight_ih: Parameter,
    pub(super) weight_hh: Parameter,
    pub(super) bias_ih: Option<Parameter>,
    pub(super) bias_hh: Option<Parameter>,
    pub(super) weight_hr: Option<Parameter>,
}

/// A network of several layers, each in one or two directions.
#[derive(Debug)]
pub(super) struct Network {
    name: &'static str,
    pub(super) cell: Cell,
    /// By layer, the direction from the start first.
    pub(super) weights: Vec<Weights>,
    input_size: usize,
    hidden_size: usize,
    pub(super) options: RNNOptions,
    pub(super) training: Training,
}

impl Network {
    pub(super) fn new(
        name: &'static str,
        cell: Cell,
        input_size: usize,
        hidden_size: usize,
        options: RNNOptions,
    ) -> Result<Network> {
        let wrong = |message: String| Err(Error::argument(name, message));
        let RNNOptions { num_layers, dropout, proj_size, nonlinearity, .. } = options;
        for (what, count) in
            [("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)]
        {
            if count == 0 {
                return wrong(format!("{what} must be at least 1"));
            }
        }
        if !(0.0..=1.0).contains(&dropout) {
            return wrong(format!("dropout must be a probability, from 0 to 1, and is {dropout}"));
        }
        if proj_size != 0 && (cell != Cell::Lstm || proj_size >= hidden_size) {
            return wrong(format!(
                "proj_size {proj_size} is for LSTM and smaller than hidden_size {hidden_size}"
            ));
        }
        if nonlinearity != Nonlinearity::Tanh && !matches!(cell, Cell::Rnn(_)) {
            return wrong(format!("nonlinearity {nonlinearity:?} is for RNN"));
        }
        let directions = if options.bidirectional { 2 } else { 1 };
        let width = if proj_size == 0 { hidden_size } else { proj_size };
        let rows = cell.gate_count() * hidden_size;
        let parameter = |shape: &[usize]| init::default_parameter(shape, hidden_size, options.tensor);
        let maybe = |there: bool, shape: &[usize]| if there { parameter(shape).map(Some) } else { Ok(None) };
        let mut weights = Vec::new();
        for layer in 0..num_layers {
            let input = if layer == 0 { input_size } else { width * directions };
            for _ in 0..directions {
                weights.push(Weights {
                    weight_ih: parameter(&[rows, input])?,
                    weight_hh: parameter(&[rows, width])?,
                    bias_ih: maybe(options.bias, &[rows])?,
                    bias_hh: maybe(options.bias, &[rows])?,
                    weight_hr: maybe(proj_size != 0, &[proj_size, hidden_size])?,
                });
            }
        }
        Ok(Network { name, cell, weights, input_size, hidden_size, options, training: Training::default() })
    }

    pub(super) fn describe(&self, extra: &mut ExtraRepr) {
        let RNNOptions { num_layers, bias, batch_first, dropout, bidirectional, proj_size, .. } =
            &self.options;
        extra.value(&self.input_size).value(&self.hidden_size).named_unless("proj_size", proj_size, &0);
        extra.named_unless("num_layers", num_layers, &1).named_unless("bias", bias, &true);
        extra.named_unless("batch_first", batch_first, &false).named_unless("dropout", dropout, &0.0);
        extra.named_unless("bidirectional", bidirectional, &false);
    }

    pub(super) fn visit_members<'a>(&'a self, visit: &mut dyn FnMut(&str, Member<'a>)) {
        let directions = if self.options.bidirectional { 2 } else { 1 };
        for (i, weights) in self.weights.iter().enumerate() {
            let reverse = if i % directions == 1 { "_reverse" } else { "" };
            let place = format!("l{}{reverse}", i / directions);
            visit(&format!("weight_ih_{place}"), Member::Parameter(&weights.weight_ih));
            visit(&format!("weight_hh_{place}"), Member::Parameter(&weights.weight_hh));
            for (name, parameter) in [
                ("bias_ih", &weights.bias_ih),
                ("bias_hh", &weights.bias_hh),
                ("weight_hr", &weights.weight_hr),
            ] {
                if let Some(parameter) = parameter {
                    visit(&format!("{name}_{place}"), Member::Parameter(parameter));
                }
            }
        }
        visit("training", Member::Training(&self.training));
    }

    /// The hidden states of the last layer, and the last states of all layers.
    pub(super) fn forward(&self, x: &Tensor, state: Option<[&Tensor; 2]>) -> Result<(Tensor, [Tensor; 2])> {
        if !matches!(x.ndim(), 2 | 3) || x.dims().last() != Some(&self.input_size) {
            let order = if self.options.batch_first { "n, l" } else { "l, n" };
            let width = self.input_size;
            let message = format!("takes [{order}, {width}], or [l, {width}] for a single sequence");
            return Err(Error::shape(self.name, message, [x.shape()]));
        }
        let is_single = x.ndim() == 2;
        let batch_first = self.options.batch_first && !is_single;
        let x = match (is_single, batch_first) {
            (true, _) => x.unsqueeze(1)?,
            (false, true) => x.transpose(0, 1)?,
            (false, false) => x.clone(),
        };
        let (steps, n) = (x.dims()[0], x.dims()[1]);
        if steps == 0 {
            return Err(Error::shape(self.name, "needs a sequence of one step at least", [x.shape()]));
        }
        let state = self.first_state(&x, n, state, is_single)?;
        let run = || {
            let (y, state) = self.layers(x.flatten(0, 1)?, &vec![n; steps], &state)?;
            Ok((y.unflatten(0, [steps, n])?, state))
        };
        let (y, state) = run().map_err(of_layer(self.name))?;
        let y = match (is_single, batch_first) {
            (true, _) => y.squeeze(1)?,
            (false, true) => y.transpose(0, 1)?,
            (false, false) => y,
        };
        let [hidden, cell] = state;
        let state = if is_single { [hidden.squeeze(1)?, cell.squeeze(1)?] } else { [hidden, cell] };
        Ok((y, state))
    }

    /// As [`forward`](Self::forward), of sequences of several lengths. States are in the order that the sequences had before packing.
    pub(super) fn forward_packed(
        &self,
        x: &PackedSequence,
        state: Option<[&Tensor; 2]>,
    ) -> Result<(PackedSequence, [Tensor; 2])> {
        let data = x.data();
        if data.ndim() != 2 || data.dims()[1] != self.input_size {
            let message = format!("takes packed sequences of data [steps, {}]", self.input_size);
            return Err(Error::shape(self.name, message, [data.shape()]));
        }
        let [hidden, cell] = self.first_state(data, x.batch_sizes()[0], state, false)?;
        let run = || {
            let state = [x.sort(&hidden, 1)?, x.sort(&cell, 1)?];
            let (y, [hidden, cell]) = self.layers(data.clone(), x.batch_sizes(), &state)?;
            Ok((x.map(|_| Ok(y))?, [x.unsort(&hidden, 1)?, x.unsort(&cell, 1)?]))
        };
        run().map_err(of_layer(self.name))
    }

    /// The given state or zeros, `[layers · directions, n, width]`.
    fn first_state(
        &self,
        x: &Tensor,
        n: usize,
        state: Option<[&Tensor; 2]>,
        is_single: bool,
    ) -> Result<[Tensor; 2]> {
        let hidden_size = self.hidden_size;
        let width = if self.options.proj_size == 0 { hidden_size } else { self.options.proj_size };
        // Cells other than an LSTM's keep their hidden state in both places.
        let cell_width = if self.cell == Cell::Lstm { hidden_size } else { width };
        let count = self.weights.len();
        let Some([hidden, cell]) = state else {
            let zeros = |width| Tensor::zeros([count, n, width], (x.dtype(), x.device()));
            return Ok([zeros(width)?, zeros(cell_width)?]);
        };
        for (part, width) in [(hidden, width), (cell, cell_width)] {
            let whole = [count, n, width];
            let expected = if is_single { &[count, width][..] } else { &whole[..] };
            if part.dims() != expected {
                let message = format!("a state must have shape {expected:?}");
                return Err(Error::shape(self.name, message, [x.shape(), part.shape()]));
            }
        }
        if is_single {
            Ok([hidden.unsqueeze(1)?, cell.unsqueeze(1)?])
        } else {
            Ok([hidden.clone(), cell.clone()])
        }
    }
}
