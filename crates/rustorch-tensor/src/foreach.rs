//! Operations over many tensors at once, as PyTorch's `torch._foreach_*` and fused optimizers: one call, one pass over memory.

use crate::Tensor;
use crate::dispatch::{run_into_all, run_many};
use rustorch_core::{DType, ForeachMul, Op, Result, TotalNorm};
pub use rustorch_core::{OptimizerKind, OptimizerRule, OptimizerStep};
use smallvec::SmallVec;

/// A step of an optimizer over all parameters of a group: writes parameters, master copies and states in place. The arguments are those
/// of [`OptimizerStep`].
///
/// ```
/// use rustorch_tensor::Tensor;
/// use rustorch_tensor::foreach::{OptimizerRule, OptimizerStep, optimizer_step_};
/// let rule = OptimizerRule::Sgd { momentum: 0.5, dampening: 0.0, nesterov: false };
/// let step = OptimizerStep { rule, weight_decay: 0.0, maximize: false, master: false };
/// let (lr, t) = (Tensor::scalar(0.1)?, Tensor::scalar(1.0)?);
/// let (x, grad, buf) = (Tensor::new([1.0f32, 2.0])?, Tensor::new([10.0f32, -10.0])?, Tensor::new([0.0f32, 0.0])?);
/// optimizer_step_(&step, &[&lr, &t, &x, &grad, &buf])?;
/// assert_eq!(x.to_vec::<f32>()?, [0.0, 3.0]);
/// assert_eq!(buf.to_vec::<f32>()?, [10.0, -10.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If the arguments do not fit, or gradients are recorded and one of them has a history: run it under
/// [`no_grad`](crate::autograd::no_grad). If a device fails while it writes, parameters and states may be partly written; after any other
/// error they are as they were.
#[cfg_attr(debug_assertions, track_caller)]
pub fn optimizer_step_(step: &OptimizerStep, args: &[&Tensor]) -> Result<()> {
    let parameters = args.len().saturating_sub(OptimizerStep::SCALARS) / step.args_per_parameter();
    let outs: SmallVec<[&Tensor; 8]> =
        (0..parameters * step.results_per_parameter()).map(|i| args[step.overwritten(i)]).collect();
    run_into_all(&Op::OptimizerStep(step.clone()), args, &outs)
}

/// The norm of order `ord` of the elements of all tensors as one vector, as `torch.nn.utils.get_total_norm`: a tensor of no dimensions,
/// `F32` of 16-bit floats. The tensors are floats of one dtype; an infinite order is for the largest magnitude.
///
/// ```
/// use rustorch_tensor::{Tensor, foreach::total_norm};
/// let (a, b) = (Tensor::new([2.0f32, -3.0])?, Tensor::new([[6.0f32]])?);
/// assert_eq!(total_norm(&[&a, &b], 2.0)?.to_vec::<f32>()?, [7.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// If there is no tensor, dtypes differ, or the order is not above 0.
pub fn total_norm(tensors: &[&Tensor], ord: f64) -> Result<Tensor> {
    run_many(&Op::TotalNorm(TotalNorm { ord }), tensors)
}

/// Multiplies tensors in place with one factor, as `torch._foreach_mul_`: floats of one dtype, and a tensor of no dimensions, of their dtype
/// or for 16-bit floats `F32`.
///
/// # Errors
/// As [`optimizer_step_`].
#[cfg_attr(debug_assertions, track_caller)]
pub fn mul_(tensors: &[&Tensor], factor: &Tensor) -> Result<()> {
    let args: SmallVec<[&Tensor; 8]> = [factor].into_iter().chain(tensors.iter().copied()).collect();
    run_into_all(&Op::ForeachMul(ForeachMul { found_inf: false }), &args, tensors)
}

/// As [`mul_`]; returns an `F32` of no dimensions: 1 if a NaN or an infinity was among the elements, else 0, as
/// `torch._amp_foreach_non_finite_check_and_unscale_`.
///
/// ```
/// use rustorch_tensor::{Tensor, foreach::unscale_};
/// let (a, b) = (Tensor::new([2.0f32])?, Tensor::new([f32::NAN, 4.0])?);
/// let inverse_scale = Tensor::scalar(0.5)?;
/// assert_eq!(unscale_(&[&a], &inverse_scale)?.to_vec::<f32>()?, [0.0]);
/// assert_eq!(a.to_vec::<f32>()?, [1.0]);
/// assert_eq!(unscale_(&[&a, &b], &inverse_scale)?.to_vec::<f32>()?, [1.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As [`optimizer_step_`].
#[cfg_attr(debug_assertions, track_caller)]
pub fn unscale_(tensors: &[&Tensor], inverse_scale: &Tensor) -> Result<Tensor> {
    let found_inf = Tensor::zeros((), (DType::F32, inverse_scale.device()))?;
    let args: SmallVec<[&Tensor; 8]> = [inverse_scale].into_iter().chain(tensors.iter().copied()).collect();
    let outs: Vec<&Tensor> = tensors.iter().copied().chain([&found_inf]).collect();
    run_into_all(&Op::ForeachMul(ForeachMul { found_inf: true }), &args, &outs)?;
    Ok(found_inf)
}
