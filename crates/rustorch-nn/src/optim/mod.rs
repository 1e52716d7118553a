//! Optimizers: what changes parameters by their gradients.
//!
//! An optimizer holds parameters **by name**, in groups with options of their own. Its options are structs with PyTorch's names and
//! defaults, whose fields may change between steps.
//!
//! ```
//! use rustorch_nn::optim::{SGD, SGDOptions};
//! use rustorch_nn::{Layer, Linear};
//! use rustorch_tensor::{Tensor, manual_seed};
//!
//! manual_seed(0);
//! let model = Linear::new(1, 1)?;
//! let optimizer = SGD::new(&model, SGDOptions { lr: 0.1, momentum: 0.5, ..Default::default() })?;
//! // y = 2 x + 1
//! let (x, y) = (Tensor::new([[0.0f32], [1.0], [2.0]])?, Tensor::new([[1.0f32], [3.0], [5.0]])?);
//! for _ in 0..200 {
//!     optimizer.zero_grad();
//!     (model.forward(&x)? - &y).square()?.mean_all()?.backward()?;
//!     optimizer.step()?;
//! }
//! assert!((model.weight.tensor().to_vec::<f32>()?[0] - 2.0).abs() < 1e-3);
//! # Ok::<(), rustorch_tensor::Error>(())
//! ```

mod adadelta;
mod adafactor;
mod adagrad;
mod adam;
mod adamax;
mod asgd;
mod average;
mod clip;
mod ema;
mod finite;
mod fused;
mod group;
mod lbfgs;
mod muon;
mod nadam;
mod options;
mod radam;
mod rmsprop;
mod rprop;
mod rule;
pub mod schedule;
mod sgd;
mod state;
mod update_bn;

pub use adadelta::{Adadelta, AdadeltaOptions};
pub use adafactor::{Adafactor, AdafactorOptions};
pub use adagrad::{Adagrad, AdagradOptions};
pub use adam::{Adam, AdamOptions, AdamW, AdamWOptions};
pub use adamax::{Adamax, AdamaxOptions};
pub use asgd::{ASGD, ASGDOptions};
pub use average::{AverageFn, AveragedModel, ema_avg_fn, swa_avg_fn};
pub(crate) use clip::{alike, factor_beside};
pub use clip::{clip_grad_norm_, clip_grad_value_};
pub use ema::Ema;
pub use finite::{expect_finite_grads, nonfinite_grads};
pub use group::{Group, NamedParameters, Optimizer};
pub use lbfgs::{LBFGS, LBFGSOptions, LineSearch};
pub use muon::{AdjustLr, Muon, MuonOptions};
pub use nadam::{NAdam, NAdamOptions};
pub use options::{OptionValue, Options};
pub use radam::{RAdam, RAdamOptions};
pub use rmsprop::{RMSprop, RMSpropOptions};
pub use rprop::{Rprop, RpropOptions};
#[doc(hidden)]
pub use rule::Capturable;
pub use rule::{Rule, Step};
pub use sgd::{SGD, SGDOptions};
pub use state::{OptimizerState, ParameterState, Stateful};
pub use update_bn::update_bn;
