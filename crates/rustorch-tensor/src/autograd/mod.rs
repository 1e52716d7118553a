//! Gradients, define-by-run: operations on tensors that require gradients are recorded as they run, and a backward pass goes
//! through the record from the results to the leaves.
//!
//! ```
//! use rustorch_tensor::{Tensor, autograd};
//!
//! // A line through points, by gradient descent.
//! let x = Tensor::new([0.0f32, 1.0, 2.0, 3.0])?;
//! let y = Tensor::new([1.0f32, 3.0, 5.0, 7.0])?;
//! let (slope, shift) = (Tensor::scalar(0.0f32)?, Tensor::scalar(0.0f32)?);
//! slope.requires_grad_(true)?;
//! shift.requires_grad_(true)?;
//! for _ in 0..500 {
//!     let loss = (&x * &slope + &shift - &y).square()?.mean_all()?;
//!     loss.backward()?;
//!     autograd::no_grad(|| {
//!         for weight in [&slope, &shift] {
//!             weight.sub_(&(weight.grad().unwrap() * 0.1))?;
//!             weight.zero_grad();
//!         }
//!         Ok::<_, rustorch_tensor::Error>(())
//!     })?;
//! }
//! assert!((slope.item()?.to_f64() - 2.0).abs() < 1e-3 && (shift.item()?.to_f64() - 1.0).abs() < 1e-3);
//! # Ok::<(), rustorch_tensor::Error>(())
//! ```
//!
//! The interface is that of PyTorch's autograd, names and rules. Gradients are computed by tensor operations, so that they can be
//! differentiated again (`create_graph`). Where the two differ, this refuses: no operation on the way to a leaf loses a gradient
//! silently. What has none ([`floor_divide`](crate::Tensor::floor_divide), say) is an error when it is recorded; memory that several tensors
//! share is not written in place while a gradient is recorded.
//!
//! | file | what |
//! |---|---|
//! | `history` | the pointer from a tensor to the node that made it |
//! | `node`, `saved`, `hooks` | operations as they ran, the tensors that they keep, functions called with gradients |
//! | `record`, `steps` | from an operation to a node, or to several |
//! | `engine`, `context`, `fit` | the backward pass |
//! | `rule` | the gradient of each operation |
//! | `tensor`, `mode`, `graph`, `function`, `custom`, `functional`, `checkpoint`, `autocast`, `gradcheck`, `anomaly` | what users see |

mod anomaly;
pub(crate) mod autocast;
mod checkpoint;
mod context;
mod custom;
mod engine;
mod fit;
mod function;
mod functional;
mod gradcheck;
mod graph;
mod history;
mod hooks;
pub(crate) mod leaf_log;
mod mode;
mod node;
pub(crate) mod record;
mod rule;
mod saved;
mod steps;
mod tensor;

pub use anomaly::DetectAnomaly;
pub(crate) use anomaly::caller;
pub use autocast::{Autocast, autocast};
pub use checkpoint::{checkpoint, checkpoint_sequential};
pub use custom::CustomBackward;
pub use function::{Function, FunctionContext, Gradients};
pub use functional::{hessian, hvp, jacobian, jvp, value_and_grad, vjp};
pub use gradcheck::{GradCheck, gradcheck, gradgradcheck};
pub use graph::{GradFn, Graph, GraphNode};
pub(crate) use history::History;
pub use hooks::HookHandle;
pub use mode::{GradMode, enable_grad, is_grad_enabled, no_grad, set_grad_enabled};
pub use record::{Results, apply};
pub use saved::{Packed, SavedTensorHooks};
pub use tensor::{BackwardOptions, GradOptions, backward, grad};
