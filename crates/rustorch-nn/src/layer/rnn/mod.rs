//! Recurrent networks, and their cells: one step.

mod cell;
mod cells;
mod lstm_steps;
mod network;
mod scan;

pub use cell::Nonlinearity;
pub use cells::{GRUCell, LSTMCell, RNNCell, RNNCellOptions};
pub use network::RNNOptions;

use crate::module::display;
use crate::utils::rnn::PackedSequence;
use crate::{ExtraRepr, Member, Module};
use cell::Cell;
use network::Network;
use rustorch_tensor::{Result, Tensor};

/// A kind of network.
macro_rules! network {
    ($(#[$doc:meta])* $network:ident, $options:ident => $cell:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $network(Network);

        impl $network {
            /// One layer with biases, over `[l, n, input_size]`.
            ///
            /// # Errors
            /// If memory does not suffice.
            pub fn new(input_size: usize, hidden_size: usize) -> Result<$network> {
                $network::with(input_size, hidden_size, RNNOptions::default())
            }

            /// A network.
            ///
            /// # Errors
            /// If options do not fit, the dtype is none of floats, or memory does not suffice.
            pub fn with(input_size: usize, hidden_size: usize, $options: RNNOptions) -> Result<$network> {
                Network::new(stringify!($network), $cell, input_size, hidden_size, $options).map($network)
            }
        }

        impl Module for $network {
            fn type_name(&self) -> &'static str {
                stringify!($network)
            }

            fn visit_members<'a>(&'a self, visit: &mut dyn FnMut(&str, Member<'a>)) {
                self.0.visit_members(visit);
            }

            fn extra_repr(&self, extra: &mut ExtraRepr) {
                self.0.describe(extra);
            }
        }

        display! { [] $network }
    };
}

network! {
    /// `h' = tanh(x · weight_ihᵀ + bias_ih + h · weight_hhᵀ + bias_hh)` at each step of a sequence, as `torch.nn.RNN`:
    /// `[l, n, input_size] → [l, n, directions · hidden_size]`, or without `n`.
    ///
    /// Parameters are `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, `weight_ih_l0_reverse` and so on, and start uniformly within
    /// ±1/√hidden_size.
    ///
    /// Elman: *Finding Structure in Time*, 1990.
    ///
    /// ```
    /// use rustorch_nn::{Module, RNN, RNNOptions};
    /// use rustorch_tensor::{DType, Tensor};
    /// let rnn = RNN::with(3, 4, RNNOptions::default().num_layers(2).bidirectional(true))?;
    /// let (y, h) = rnn.forward(&Tensor::ones([5, 2, 3], DType::F32)?, None)?;
    /// assert_eq!((y.dims(), h.dims()), (&[5, 2, 8][..], &[4, 2, 4][..]));
    /// assert_eq!(rnn.named_parameters()[12].0, "weight_ih_l1_reverse");
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    RNN, options => Cell::Rnn(options.nonlinearity)
}

network! {
    /// Gated recurrent units at each step of a sequence, as `torch.nn.GRU`: `[l, n, input_size] → [l, n, directions · hidden_size]`, or without
    /// `n`. [`GRUCell`](crate::GRUCell) has the formula, and the order of gates; [`RNN`] the names of parameters.
    ///
    /// Cho et al.: *Learning Phrase Representations using RNN Encoder–Decoder for Statistical Machine Translation*, 2014.
    ///
    /// ```
    /// use rustorch_nn::GRU;
    /// use rustorch_tensor::{DType, Tensor};
    /// let (y, h) = GRU::new(3, 4)?.forward(&Tensor::ones([5, 3], DType::F32)?, None)?;
    /// assert_eq!(y.select(0, -1)?.to_vec::<f32>()?, h.select(0, 0)?.to_vec::<f32>()?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    GRU, options => Cell::Gru
}

network! {
    /// Long short-term memory at each step of a sequence, as `torch.nn.LSTM`: `[l, n, input_size] → [l, n, directions · hidden_size]`, or without
    /// `n`. [`LSTMCell`](crate::LSTMCell) has the formula, and the order of gates; [`RNN`] the names of parameters. With `proj_size`, hidden
    /// states are multiplied with `weight_hr_l0: [proj_size, hidden_size]`.
    ///
    /// Hochreiter, Schmidhuber: *Long Short-Term Memory*, 1997.
    ///
    /// ```
    /// use rustorch_nn::{LSTM, RNNOptions};
    /// use rustorch_tensor::{DType, Tensor};
    /// let lstm = LSTM::with(3, 4, RNNOptions::default().batch_first(true))?;
    /// let (y, (h, c)) = lstm.forward(&Tensor::ones([2, 5, 3], DType::F32)?, None)?;
    /// assert_eq!((y.dims(), h.dims(), c.dims()), (&[2, 5, 4][..], &[1, 2, 4][..], &[1, 2, 4][..]));
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    LSTM, options => Cell::Lstm
}

macro_rules! hidden_state_only {
    ($($network:ident),*) => {$(
        impl $network {
            /// The hidden states of the last layer at each step, and the last ones of all layers, `[layers · directions, n, hidden_size]`, from
            /// such states or zeros.
            ///
            /// # Errors
            /// If shapes or dtypes do not fit.
            #[rustorch_macros::observed]
            pub fn forward(&self, x: &Tensor, hidden: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
                let (y, [hidden, _]) = self.0.forward(x, hidden.map(|hidden| [hidden, hidden]))?;
                Ok((y, hidden))
            }

            /// As [`forward`](Self::forward), of sequences of several lengths. States are in the order that the sequences had before they
            /// were packed.
            ///
            /// # Errors
            /// If shapes or dtypes do not fit.
            #[rustorch_macros::observed]
            pub fn forward_packed(
                &self,
                x: &PackedSequence,
                hidden: Option<&Tensor>,
            ) -> Result<(PackedSequence, Tensor)> {
                let (y, [hidden, _]) = self.0.forward_packed(x, hidden.map(|hidden| [hidden, hidden]))?;
                Ok((y, hidden))
            }
        }
    )*};
}

hidden_state_only!(RNN, GRU);

impl LSTM {
    /// The hidden states of the last layer at each step, and the last hidden and cell states of all layers,
    /// `[layers · directions, n, hidden_size]`, from such states or zeros.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward(
        &self,
        x: &Tensor,
        state: Option<(&Tensor, &Tensor)>,
    ) -> Result<(Tensor, (Tensor, Tensor))> {
        let (y, [hidden, cell]) = self.0.forward(x, state.map(|(hidden, cell)| [hidden, cell]))?;
        Ok((y, (hidden, cell)))
    }
    /// As [`forward`](Self::forward), of sequences of several lengths. States are in the order that the sequences had before they were packed.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward_packed(
        &self,
        x: &PackedSequence,
        state: Option<(&Tensor, &Tensor)>,
    ) -> Result<(PackedSequence, (Tensor, Tensor))> {
        let (y, [hidden, cell]) = self.0.forward_packed(x, state.map(|(hidden, cell)| [hidden, cell]))?;
        Ok((y, (hidden, cell)))
    }
}
