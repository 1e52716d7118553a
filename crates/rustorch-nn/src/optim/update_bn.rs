//! Statistics of batch normalization for averaged parameters.

use crate::module::{Mode, Module};
use crate::{Member, Training};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{Result, Tensor};

/// Computes the running means and variances of all [`BatchNorm`](crate::BatchNorm)s anew, as the mean over batches, as
/// `torch.optim.swa_utils.update_bn`. `forward` runs the model on a batch. A model without such layers sees no batch.
///
/// ```
/// use rustorch_nn::optim::update_bn;
/// use rustorch_nn::{BatchNorm1d, Layer};
/// use rustorch_tensor::Tensor;
/// let model = BatchNorm1d::new(1)?;
/// let batches = [Tensor::new([[1.0f32], [3.0]])?, Tensor::new([[5.0f32], [7.0]])?];
/// update_bn(&model, batches.into_iter().map(Ok), |x| model.forward(&x))?;
/// assert_eq!(model.running_mean.as_ref().unwrap().tensor().to_vec::<f32>()?, [4.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
///
/// # Errors
/// Those of batches and of the model. What trains, and what does not, is as before then, too.
pub fn update_bn<M: Module, B>(
    model: &M,
    batches: impl IntoIterator<Item = Result<B>>,
    mut forward: impl FnMut(B) -> Result<Tensor>,
) -> Result<()> {
    let norms: Vec<(String, &dyn Module)> =
        model.named_modules().into_iter().filter(|(_, module)| is_batch_norm(*module)).collect();
    if norms.is_empty() {
        return Ok(());
    }
    no_grad(|| {
        for (name, buffer) in norms.iter().flat_map(|(_, norm)| norm.named_buffers()) {
            buffer.tensor().fill_(if name == "running_var" { 1.0 } else { 0.0 })?;
        }
        let mut flags = Vec::new();
        flags_of(model, &mut flags);
        let before: Vec<Mode> = flags.iter().map(|flag| flag.mode()).collect();
        flags.iter().for_each(|flag| flag.set_mode(Mode::Cumulative));
        let result = batches.into_iter().try_for_each(|batch| forward(batch?).map(drop));
        flags.iter().zip(before).for_each(|(flag, mode)| flag.set_mode(mode));
        result
    })
}

fn is_batch_norm(module: &dyn Module) -> bool {
    matches!(module.type_name(), "BatchNorm1d" | "BatchNorm2d" | "BatchNorm3d")
}

fn flags_of<'a>(module: &'a dyn Module, flags: &mut Vec<&'a Training>) {
    module.visit_members(&mut |_, member| match member {
        Member::Training(flag) => flags.push(flag),
        Member::Module(module) => flags_of(module, flags),
        Member::Parameter(_) | Member::Buffer(_) => {}
    });
}
