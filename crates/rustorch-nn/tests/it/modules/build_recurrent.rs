//! Recurrent networks and their cells.

use super::build::{Built, called_with, pair};
use super::fixture::Case;
use rustorch_nn::utils::rnn::{PackedSequence, pack_padded_sequence, pad_packed_sequence};
use rustorch_nn::*;
use rustorch_tensor::{DType, Result, Tensor};

pub(super) fn build(case: &Case, dtype: DType) -> Result<Built> {
    let (input, hidden) = (case.size(0), case.size(1));
    let flag = |name| case.option_bool(name);
    let nonlinearity = match case.options["nonlinearity"].as_str() {
        Some("relu") => Nonlinearity::Relu,
        _ => Nonlinearity::Tanh,
    };
    let cell =
        RNNCellOptions::default().bias(flag("bias").unwrap_or(true)).nonlinearity(nonlinearity).tensor(dtype);
    let network = RNNOptions::default()
        .num_layers(
            case.args.get(2).map_or_else(|| case.option_usize("num_layers").unwrap_or(1), |_| case.size(2)),
        )
        .nonlinearity(nonlinearity)
        .bias(flag("bias").unwrap_or(true))
        .batch_first(flag("batch_first").unwrap_or(false))
        .dropout(case.option_f64("dropout").unwrap_or(0.0))
        .bidirectional(flag("bidirectional").unwrap_or(false))
        .proj_size(case.option_usize("proj_size").unwrap_or(0))
        .tensor(dtype);
    let packing = Packing::of(case);
    match case.module.as_str() {
        "RNNCell" => called_with(RNNCell::with(input, hidden, cell)?, |cell, inputs| {
            Ok(vec![Some(cell.forward(x(inputs), inputs[1].as_ref())?)])
        }),
        "GRUCell" => called_with(GRUCell::with(input, hidden, cell)?, |cell, inputs| {
            Ok(vec![Some(cell.forward(x(inputs), inputs[1].as_ref())?)])
        }),
        "LSTMCell" => called_with(LSTMCell::with(input, hidden, cell)?, |cell, inputs| {
            pair(cell.forward(x(inputs), state(inputs))?)
        }),
        "RNN" => called_with(RNN::with(input, hidden, network)?, move |rnn, inputs| {
            let hidden = inputs[1].as_ref();
            let Some(packing) = &packing else { return pair(rnn.forward(x(inputs), hidden)?) };
            let (y, hidden) = rnn.forward_packed(&packing.pack(x(inputs))?, hidden)?;
            pair((packing.pad(&y)?, hidden))
        }),
        "GRU" => called_with(GRU::with(input, hidden, network)?, move |gru, inputs| {
            let hidden = inputs[1].as_ref();
            let Some(packing) = &packing else { return pair(gru.forward(x(inputs), hidden)?) };
            let (y, hidden) = gru.forward_packed(&packing.pack(x(inputs))?, hidden)?;
            pair((packing.pad(&y)?, hidden))
        }),
        _ => called_with(LSTM::with(input, hidden, network)?, move |lstm, inputs| {
            let (y, (hidden, cell)) = match &packing {
                None => lstm.forward(x(inputs), state(inputs))?,
                Some(packing) => {
                    let (y, last) = lstm.forward_packed(&packing.pack(x(inputs))?, state(inputs))?;
                    (packing.pad(&y)?, last)
                }
            };
            Ok(vec![Some(y), Some(hidden), Some(cell)])
        }),
    }
}

fn x(inputs: &[Option<Tensor>]) -> &Tensor {
    inputs[0].as_ref().unwrap()
}

/// The hidden and the cell state of an LSTM.
fn state(inputs: &[Option<Tensor>]) -> Option<(&Tensor, &Tensor)> {
    inputs[1].as_ref().map(|hidden| (hidden, inputs[2].as_ref().unwrap()))
}

/// How a case packs its argument and pads its result.
struct Packing {
    lengths: Vec<usize>,
    batch_first: bool,
    enforce_sorted: bool,
    padding_value: f64,
    total_length: Option<usize>,
}

impl Packing {
    fn of(case: &Case) -> Option<Packing> {
        let lengths = case.call["lengths"].as_array()?;
        Some(Packing {
            lengths: lengths.iter().map(|n| n.as_u64().unwrap() as usize).collect(),
            batch_first: case.option_bool("batch_first").unwrap_or(false),
            enforce_sorted: case.call["enforce_sorted"].as_bool().unwrap(),
            padding_value: case.call["padding_value"].as_f64().unwrap_or(0.0),
            total_length: case.call["total_length"].as_u64().map(|n| n as usize),
        })
    }

    fn pack(&self, x: &Tensor) -> Result<PackedSequence> {
        pack_padded_sequence(x, &self.lengths, self.batch_first, self.enforce_sorted)
    }

    fn pad(&self, y: &PackedSequence) -> Result<Tensor> {
        let (y, lengths) = pad_packed_sequence(y, self.batch_first, self.padding_value, self.total_length)?;
        assert_eq!(lengths, self.lengths);
        Ok(y)
    }
}
