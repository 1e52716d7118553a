//! Recurrent cells as modules.

use super::cell::{Cell, Nonlinearity, Recurrent};
use crate::layer::options::{of_layer, options};
use crate::{ExtraRepr, Module, Parameter, init};
use rustorch_tensor::{Error, Result, Tensor};

options! {
    /// How an [`RNNCell`], an [`LSTMCell`] or a [`GRUCell`] is made: the optional arguments of PyTorch's with their defaults.
    RNNCellOptions {
        /// Whether it has biases.
        bias: plain bool = true;
        /// What an [`RNNCell`] applies to what its weights give; other cells have nonlinearities of their own.
        nonlinearity: plain Nonlinearity = Nonlinearity::Tanh;
    }
}

/// Weights of a cell, and how it is made.
macro_rules! cell {
    ($(#[$doc:meta])* $cell:ident, $gates:literal, $options:ident => $step:expr) => {
        $(#[$doc])*
        #[derive(Debug, rustorch_macros::Module)]
        #[module(extra_repr = Self::describe)]
        pub struct $cell {
            #[doc = concat!("`[", $gates, "hidden_size, input_size]`")]
            pub weight_ih: Parameter,
            #[doc = concat!("`[", $gates, "hidden_size, hidden_size]`")]
            pub weight_hh: Parameter,
            #[doc = concat!("`[", $gates, "hidden_size]`")]
            pub bias_ih: Option<Parameter>,
            #[doc = concat!("`[", $gates, "hidden_size]`")]
            pub bias_hh: Option<Parameter>,
            #[module(skip)]
            cell: Cell,
        }

        impl $cell {
            /// A cell with biases.
            ///
            /// # Errors
            /// If memory does not suffice.
            pub fn new(input_size: usize, hidden_size: usize) -> Result<$cell> {
                $cell::with(input_size, hidden_size, RNNCellOptions::default())
            }

            /// A cell.
            ///
            /// # Errors
            /// If the dtype is none of floats, or memory does not suffice.
            pub fn with(input_size: usize, hidden_size: usize, $options: RNNCellOptions) -> Result<$cell> {
                let cell = $step;
                let rows = cell.gate_count() * hidden_size;
                let parameter = |shape: &[usize]| init::default_parameter(shape, hidden_size, $options.tensor);
                let bias = || if $options.bias { parameter(&[rows]).map(Some) } else { Ok(None) };
                Ok($cell {
                    weight_ih: parameter(&[rows, input_size])?,
                    weight_hh: parameter(&[rows, hidden_size])?,
                    bias_ih: bias()?,
                    bias_hh: bias()?,
                    cell,
                })
            }

            fn describe(&self, extra: &mut ExtraRepr) {
                let (weight_ih, weight_hh) = (self.weight_ih.tensor(), self.weight_hh.tensor());
                extra.value(&weight_ih.dims()[1]).value(&weight_hh.dims()[1]);
                extra.named_unless("bias", &self.bias_ih.is_some(), &true);
                if self.cell == Cell::Rnn(Nonlinearity::Relu) {
                    extra.text("nonlinearity=relu");
                }
            }

            /// One step from a hidden and a cell state.
            fn step(&self, x: &Tensor, state: Option<[&Tensor; 2]>) -> Result<[Tensor; 2]> {
                let (weight_ih, weight_hh) = (self.weight_ih.tensor(), self.weight_hh.tensor());
                let (input_size, hidden_size) = (weight_ih.dims()[1], weight_hh.dims()[1]);
                if !matches!(x.ndim(), 1 | 2) || x.dims().last() != Some(&input_size) {
                    let message = format!("takes [n, {input_size}], or [{input_size}] for a single sample");
                    return Err(Error::shape(self.type_name(), message, [x.shape()]));
                }
                let mut state_shape = x.dims().to_vec();
                state_shape[x.ndim() - 1] = hidden_size;
                let state = match state {
                    Some(state) => state.map(Tensor::clone),
                    None => {
                        let zeros = Tensor::zeros(&state_shape, (x.dtype(), x.device()))?;
                        [zeros.clone(), zeros]
                    }
                };
                if let Some(wrong) = state.iter().find(|state| state.dims() != state_shape) {
                    let message = format!("the state must have shape {state_shape:?}");
                    return Err(Error::shape(self.type_name(), message, [x.shape(), wrong.shape()]));
                }
                let bias = self.bias_ih.as_ref().map(Parameter::tensor);
                let bias_hh = self.bias_hh.as_ref().map(Parameter::tensor);
                let weights = Recurrent { hh: weight_hh, bias_hh, hr: None };
                let step = || self.cell.step(&x.linear(&weight_ih, bias.as_ref())?, &state, &weights);
                step().map_err(of_layer(self.type_name()))
            }
        }
    };
}

cell! {
    /// `h' = tanh(x · weight_ihᵀ + bias_ih + h · weight_hhᵀ + bias_hh)`, as `torch.nn.RNNCell`: `[n, input_size]` and `[n, hidden_size]`, or
    /// both without `n`, → `[n, hidden_size]`. All parameters start uniformly within ±1/√hidden_size.
    ///
    /// ```
    /// use rustorch_nn::{RNNCell, RNNCellOptions};
    /// use rustorch_tensor::{DType, Tensor};
    /// let cell = RNNCell::with(3, 4, RNNCellOptions::default().bias(false))?;
    /// let h = cell.forward(&Tensor::zeros([2, 3], DType::F32)?, None)?;
    /// assert_eq!(h.to_vec::<f32>()?, [0.0; 8]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    RNNCell, "", options => Cell::Rnn(options.nonlinearity)
}

cell! {
    /// One step of a gated recurrent unit, as `torch.nn.GRUCell`: `[n, input_size]` and `[n, hidden_size]`, or both without `n`, →
    /// `[n, hidden_size]`. Of each parameter, the rows of the reset gate come first, then those of the update gate and of the new state:
    ///
    /// `r = σ(xᵣ + hᵣ)`, `z = σ(x_z + h_z)`, `n = tanh(xₙ + r · hₙ)`, `h' = (1 − z) · n + z · h`
    ///
    /// Cho et al.: *Learning Phrase Representations using RNN Encoder–Decoder for Statistical Machine Translation*, 2014.
    ///
    /// ```
    /// use rustorch_nn::{GRUCell, RNNCellOptions};
    /// use rustorch_tensor::{DType, Tensor};
    /// let cell = GRUCell::with(3, 4, RNNCellOptions::default().bias(false))?;
    /// let h = cell.forward(&Tensor::zeros([3], DType::F32)?, None)?;
    /// assert_eq!(h.to_vec::<f32>()?, [0.0; 4]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    GRUCell, "3 · ", options => gated("GRUCell", &options, Cell::Gru)?
}

cell! {
    /// One step of a network with long short-term memory, as `torch.nn.LSTMCell`: `[n, input_size]` and two states `[n, hidden_size]`, or all
    /// without `n`, → two states. Of each parameter, the rows of the input gate come first, then those of the forget gate, of the cell and
    /// of the output gate:
    ///
    /// `c' = σ(f) · c + σ(i) · tanh(g)`, `h' = σ(o) · tanh(c')`
    ///
    /// Hochreiter, Schmidhuber: *Long Short-Term Memory*, 1997.
    ///
    /// ```
    /// use rustorch_nn::{LSTMCell, RNNCellOptions};
    /// use rustorch_tensor::{DType, Tensor};
    /// let cell = LSTMCell::with(3, 2, RNNCellOptions::default().bias(false))?;
    /// let zeros = |n| Tensor::zeros([n], DType::F32);
    /// let (h, c) = cell.forward(&zeros(3)?, Some((&zeros(2)?, &Tensor::new([1.0f32, 2.0])?)))?;
    /// assert_eq!(c.to_vec::<f32>()?, [0.5, 1.0]);
    /// assert_eq!(h.to_vec::<f32>()?[0], 0.5 * 0.5f32.tanh());
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    LSTMCell, "4 · ", options => gated("LSTMCell", &options, Cell::Lstm)?
}

/// A cell with nonlinearities of its own.
fn gated(name: &'static str, options: &RNNCellOptions, cell: Cell) -> Result<Cell> {
    match options.nonlinearity {
        Nonlinearity::Tanh => Ok(cell),
        other => Err(Error::argument(name, format!("nonlinearity {other:?} is for RNNCell"))),
    }
}

macro_rules! hidden_state_only {
    ($($cell:ident),*) => {$(
        impl $cell {
            /// The next hidden state; without one given, from zeros.
            ///
            /// # Errors
            /// If shapes or dtypes do not fit.
            #[rustorch_macros::observed]
            pub fn forward(&self, x: &Tensor, hidden: Option<&Tensor>) -> Result<Tensor> {
                let [hidden, _] = self.step(x, hidden.map(|hidden| [hidden, hidden]))?;
                Ok(hidden)
            }
        }
    )*};
}

hidden_state_only!(RNNCell, GRUCell);

impl LSTMCell {
    /// The next hidden state and cell state; without them given, from zeros.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward(&self, x: &Tensor, state: Option<(&Tensor, &Tensor)>) -> Result<(Tensor, Tensor)> {
        let [hidden, cell] = self.step(x, state.map(|(hidden, cell)| [hidden, cell]))?;
        Ok((hidden, cell))
    }
}
