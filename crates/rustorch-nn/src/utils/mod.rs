//! What is beside layers, as `torch.nn.utils`.

pub mod rnn;
