//! Tensors with PyTorch's semantics on the hybrid executor.
//!
//! Names, broadcasting, type promotion, negative dimensions, `keepdim`, 0-d and empty tensors are PyTorch's. Every
//! operation goes to the executor as an [`Op`](rustorch_core::Op), which chooses a device for it.
//!
//! ```
//! use rustorch_tensor::{DType, Tensor};
//! let x = Tensor::arange(0, 6, 1)?.reshape([2, 3])?;
//! let y = x.to_dtype(DType::F32)?.softmax(-1)?;
//! assert_eq!(y.select(0, 1)?.to_string(), "tensor([0.0900, 0.2447, 0.6652])");
//! assert_eq!(x.add(0.5)?.dtype(), DType::F32);
//! assert_eq!(x.narrow(1, 1, 2)?.t()?.to_string(), "tensor([[1, 4],\n        [2, 5]])");
//! # Ok::<(), rustorch_tensor::Error>(())
//! ```
//!
//! | family | file |
//! |---|---|
//! | making tensors, random numbers | `create`, `random`, `multinomial` |
//! | probability distributions | [`distributions`] |
//! | views of the same memory | `view` |
//! | unary ops, arithmetic, comparison | `pointwise`, `binary`, `operators`, `elements`, `special` |
//! | several of these in one pass over memory | `fuse` |
//! | dtypes, devices, copies, writing in place and to given tensors | `convert`, `inplace`, `out` |
//! | sums, extrema, scans | `reduce`, `cumulative` |
//! | medians, quantiles, histograms, covariances; search, distinct elements | `statistics`, `search` |
//! | matmuls, attention, normalisation | `matmul`, `attention`, `norm`, `channel_norm` |
//! | `einsum`, `tensordot` and their kin; distances | `einsum`, `contractions` |
//! | recurrences with a state: linear attention, state space models; gates of LSTM and GRU | `recurrent`, `rnn_gates` |
//! | losses | `loss` |
//! | factors of matrices, solutions, inverses, determinants | [`linalg`] |
//! | Fourier transforms; window functions | [`fft`](mod@fft), [`signal`] |
//! | convolutions and their gradients | `conv` |
//! | indexing by lists ([`i!`]) | `indexing` |
//! | gathering, joining, splitting, sorting | `index`, `join`, `arrange`, `sort` |
//! | pooling, interpolation | `pool`, `interpolate` |
//! | operations over many tensors: steps of optimizers | [`foreach`] |
//! | custom operations | `custom` |
//! | captured functions | `graph` |
//! | printing | `display` |

mod args;
mod arrange;
mod assert;
mod attention;
pub mod autograd;
mod binary;
mod channel_norm;
mod contractions;
mod conv;
mod convert;
mod create;
mod cumulative;
mod custom;
mod dispatch;
mod display;
pub mod distributions;
mod einsum;
mod elements;
pub mod fft;
pub mod foreach;
mod fuse;
mod graph;
mod index;
mod indexing;
mod inplace;
mod interpolate;
mod join;
pub mod linalg;
mod loss;
mod matmul;
mod multinomial;
mod norm;
mod operators;
mod out;
mod pointwise;
mod polygamma;
mod pooling;
mod random;
mod recurrent;
mod recycled;
mod reduce;
mod rnn_gates;
mod search;
pub mod signal;
mod sort;
mod special;
mod statistics;
mod tensor;
mod vector_norm;
mod view;

pub use args::{Axes, IntoShape, NestedArray, Sizes, TensorOptions, TensorOrScalar};
pub use attention::AttentionOptions;
pub use contractions::TensordotDims;
pub use conv::{ConvOptions, Padding};
pub use display::{PrintOptions, Printed};
pub use fuse::{Expr, ExprOrScalar, Fused, fuse};
pub use graph::{
    CompileCounts, Compiled, HostState, Program, TensorSpec, capture, capture_with, compile, expect_eager,
    guard, guard_once, is_capturing, outside_capture,
};
pub use indexing::{Slice, TensorIndex};
pub use interpolate::{InterpolateOptions, Interpolation, InterpolationTarget, ScaleFactors};
pub use loss::{CrossEntropyOptions, Reduction};
pub use operators::RightOperand;
pub use pooling::{AvgPoolOptions, MaxPoolOptions};
pub use random::{Generator, default_generator, manual_seed};
// What the methods of tensors take and return.
pub use rustorch_core::{
    Attention, Buffer, C64, C128, CustomError, CustomGradient, CustomInput, CustomOp, CustomOpBuilder,
    CustomOutput, CustomParam, DType, Device, DeviceKind, Dropout, Element, Error, FromScalar,
    FusedPointwise, HeadBroadcast, IntoDevice, Layout, MatrixDefect, Numerics, OutputMeta, PhiloxKey,
    QuantType, Result, RopeParams, RopeStyle, Scalar, ScatterReduction, Shape, TensorMeta, UnaryOp, Yarn,
    bf16, f16,
};
pub use rustorch_runtime::{
    DefaultDTypeGuard, DeviceGuard, Placement, PlacementGuard, default_device, default_dtype, set_device,
    set_placement, with_default_dtype, with_device, with_placement,
};
pub use rustorch_runtime::{Pass, ProgramExplanation, Storage};
pub use statistics::QuantileInterpolation;
pub use tensor::Tensor;
pub use view::MeshgridIndexing;
