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
//! | pooling, for one to three | [`MaxPool`], [`AvgPool`], [`AdaptiveMaxPool`], [`AdaptiveAvgPool`], [`MaxUnpool`] |
//! | padding, for one to three | [`ZeroPad`], [`ConstantPad`], [`ReflectionPad`], [`ReplicationPad`], [`CircularPad`] |
//! | normalization | [`BatchNorm`], [`InstanceNorm`], [`GroupNorm`], [`LayerNorm`], [`RMSNorm`], [`LocalResponseNorm`] |
//! | recurrent | [`RNN`], [`LSTM`], [`GRU`], [`RNNCell`], [`LSTMCell`], [`GRUCell`] |
//! | attention | [`MultiheadAttention`], [`TransformerEncoder`], [`TransformerDecoder`] and their layers |
//! | tables | [`Embedding`], [`EmbeddingBag`] |
//! | dropout | [`Dropout`], [`ChannelDropout`], [`AlphaDropout`] |
//! | images | [`Upsample`], [`PixelShuffle`], [`PixelUnshuffle`], [`ChannelShuffle`] |
//! | distances | [`CosineSimilarity`], [`PairwiseDistance`] |
//! | shape, and layers one after another | [`Flatten`], [`Unflatten`], [`Sequential`] |

// The macro names the crate as its users do.
extern crate self as rustorch_nn;

mod activation;
pub mod amp;
pub mod data;
pub mod functional;
pub mod init;
mod layer;
mod loss;
mod module;
pub mod optim;
mod parameter;

pub use activation::*;
pub use layer::*;
pub use loss::*;
pub use module::{Layer, Member, Module, Part, StateDict, Training};
pub use parameter::{Buffer, Parameter};
pub use rustorch_macros::Module;
