//! Layers with PyTorch's names, arguments and numbers.
//!
//! A model is a struct of layers; `#[derive(Module)]` finds its parameters.
//!
//! ```
//! use rustorch_nn::{Layer, Linear, Module, Sequential};
//! use rustorch_tensor::{CrossEntropyOptions, Tensor, autograd::no_grad, manual_seed};
//!
//! manual_seed(0);
//! let model = Sequential::new().push(Linear::new(2, 16)?).push(Tensor::tanh).push(Linear::new(16, 2)?);
//! // Exclusive or.
//! let x = Tensor::new([[0.0f32, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])?;
//! let y = Tensor::new([0i64, 1, 1, 0])?;
//! for _ in 0..300 {
//!     model.zero_grad();
//!     model.forward(&x)?.cross_entropy(&y, &CrossEntropyOptions::default())?.backward()?;
//!     for parameter in model.parameters() {
//!         let grad = parameter.grad().expect("every parameter is used");
//!         no_grad(|| parameter.tensor().sub_(&grad.mul(0.5)?))?;
//!     }
//! }
//! assert_eq!(model.forward(&x)?.argmax(-1, false)?.to_vec::<i64>()?, [0, 1, 1, 0]);
//! # Ok::<(), rustorch_tensor::Error>(())
//! ```
//!
//! | family | layers |
//! |---|---|
//! | linear | [`Linear`], [`Bilinear`], [`Identity`] |
//! | convolution, for one to three spatial dimensions | [`Conv`], [`ConvTranspose`], [`Unfold`], [`Fold`] |
//! | pooling, for one to three | [`MaxPool`], [`AvgPool`], [`LPPool`], [`AdaptiveMaxPool`], [`AdaptiveAvgPool`], [`MaxUnpool`] |
//! | padding, for one to three | [`ZeroPad`], [`ConstantPad`], [`ReflectionPad`], [`ReplicationPad`], [`CircularPad`] |
//! | normalization | [`BatchNorm`], [`InstanceNorm`], [`GroupNorm`], [`LayerNorm`], [`RMSNorm`], [`LocalResponseNorm`] |
//! | recurrent | [`RNN`], [`LSTM`], [`GRU`], [`RNNCell`], [`LSTMCell`], [`GRUCell`], over [packed sequences](utils::rnn), too |
//! | attention | [`MultiheadAttention`], [`Transformer`], [`TransformerEncoder`], [`TransformerDecoder`] and their layers |
//! | language models | [`GroupedQueryAttention`], [`RotaryEmbedding`], [`SwiGLU`] |
//! | tables | [`Embedding`], [`EmbeddingBag`] |
//! | dropout | [`Dropout`], [`ChannelDropout`], [`AlphaDropout`], [`FeatureAlphaDropout`] |
//! | images | [`Upsample`], [`PixelShuffle`], [`PixelUnshuffle`], [`ChannelShuffle`] |
//! | distances | [`CosineSimilarity`], [`PairwiseDistance`] |
//! | shape, and layers one after another | [`Flatten`], [`Unflatten`], [`Sequential`] ([`seq!`]) |
//! | lists and maps | [`ModuleList`], [`ModuleDict`], [`ParameterList`] |
//! | forward hooks | [`Hooked`] |

// The macro names the crate as its users do.
extern crate self as rustorch_nn;

mod activation;
pub mod amp;
mod container;
pub mod data;
mod expression;
pub mod functional;
pub mod init;
mod layer;
mod loss;
mod module;
pub mod optim;
mod parameter;
pub mod utils;

pub use activation::*;
pub use container::{Hooked, ModuleDict, ModuleList, ParameterList};
pub use layer::*;
pub use loss::*;
pub use module::{
    ExtraRepr, Layer, Member, Module, Outputs, Part, Repr, StateDict, Summary, SummaryRow, Training,
};
pub use parameter::{Buffer, Parameter};
pub use rustorch_macros::Module;
