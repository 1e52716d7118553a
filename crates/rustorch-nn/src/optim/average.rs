//! Averages of a model's parameters over steps.

use crate::module::Module;
use crate::{Buffer, Layer};
use rustorch_tensor::autograd::no_grad;
use rustorch_tensor::{DType, Error, Result, Tensor, expect_eager};

/// How an average follows a model: gets the average, to be written in place, the model's tensor, and how many models were averaged.
pub type AverageFn = Box<dyn Fn(&Tensor, &Tensor, u64) -> Result<()> + Send + Sync>;

/// The mean of all models, as `torch.optim.swa_utils.get_swa_multi_avg_fn`. Izmailov et al.: *Averaging Weights Leads to Wider Optima and Better
/// Generalization*, 2018.
pub fn swa_avg_fn() -> AverageFn {
    Box::new(|average, x, count| approach(average, x, 1.0 / (count as f64 + 1.0)))
}

/// The exponential mean, `decay · average + (1 − decay) · model`, as `torch.optim.swa_utils.get_ema_multi_avg_fn`.
///
/// # Errors
/// If the decay is not from 0 to 1.
pub fn ema_avg_fn(decay: f64) -> Result<AverageFn> {
    expect_decay("ema_avg_fn", decay)?;
    Ok(Box::new(move |average, x, _| approach(average, x, 1.0 - decay)))
}

pub(super) fn expect_decay(name: &'static str, decay: f64) -> Result<()> {
    match (0.0..=1.0).contains(&decay) {
        true => Ok(()),
        false => Err(Error::argument(name, format!("the decay is {decay}, it must be from 0 to 1"))),
    }
}

/// Moves an average towards a tensor by a share of the way. Integers, such as counts of batches, are rounded to zero.
pub(super) fn approach(average: &Tensor, x: &Tensor, share: f64) -> Result<()> {
    if average.dtype().is_float() || average.dtype().is_complex() {
        return average.copy_(&average.lerp(x, share)?);
    }
    let moved = average.to_dtype(DType::F64)?.lerp(&x.to_dtype(DType::F64)?, share)?;
    average.copy_(&moved.to_dtype(average.dtype())?)
}

/// Copies a tensor of another model into one's own, whatever their devices and dtypes.
pub(super) fn copy(to: &Tensor, from: &Tensor) -> Result<()> {
    to.copy_(&from.to_device(to.device())?.to_dtype(to.dtype())?)
}

/// A model whose parameters are averages of another one's, as `torch.optim.swa_utils.AveragedModel`; its state dict has the same names.
///
/// The first [`update_parameters`](Self::update_parameters) copies the parameters, and those after it average them. Buffers are copied, or
/// averaged, too. Where they are copied, [`update_bn`](super::update_bn) gives the averaged model statistics of its own.
///
/// ```
/// use rustorch_nn::optim::{AveragedModel, swa_avg_fn};
/// use rustorch_nn::{Layer, Linear};
/// use rustorch_tensor::{Tensor, autograd::no_grad};
/// let model = Linear::new(1, 1)?;
/// let averaged = AveragedModel::new(Linear::new(1, 1)?, swa_avg_fn())?;
/// for weight in [1.0, 2.0, 6.0] {
///     no_grad(|| model.weight.tensor().fill_(weight))?;
///     averaged.update_parameters(&model)?;
/// }
/// assert_eq!(averaged.module().weight.tensor().to_vec::<f32>()?, [3.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(rustorch_macros::Module)]
pub struct AveragedModel<M: Module> {
    n_averaged: Buffer,
    module: M,
    #[module(skip)]
    average: AverageFn,
    use_buffers: bool,
}

impl<M: Module> AveragedModel<M> {
    /// Averages in a model of its own: one like that to be averaged, on any device, of any dtype.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(module: M, average: AverageFn) -> Result<AveragedModel<M>> {
        let n_averaged = Buffer::new(&Tensor::zeros((), DType::I64)?);
        Ok(AveragedModel { n_averaged, module, average, use_buffers: false })
    }

    /// Whether buffers are averaged, too.
    #[must_use]
    pub fn use_buffers(self, use_buffers: bool) -> AveragedModel<M> {
        AveragedModel { use_buffers, ..self }
    }

    /// The model of averages.
    pub fn module(&self) -> &M {
        &self.module
    }

    /// How many models were averaged.
    ///
    /// # Errors
    /// If the count cannot be read from its device.
    pub fn n_averaged(&self) -> Result<u64> {
        Ok(self.n_averaged.tensor().item()?.to_f64() as u64)
    }

    /// Takes a model's parameters into the averages.
    ///
    /// # Errors
    /// If it has others, or ones of other shapes; nothing is changed then.
    pub fn update_parameters(&self, model: &M) -> Result<()> {
        expect_eager("AveragedModel.update_parameters")?;
        let count = self.n_averaged()?;
        let tensors = |module: &M| -> Vec<(String, Tensor, bool)> {
            let parameters = module.named_parameters().into_iter().map(|(name, x)| (name, x.tensor(), true));
            let buffers =
                module.named_buffers().into_iter().map(|(name, x)| (name, x.tensor(), self.use_buffers));
            parameters.chain(buffers).collect()
        };
        let (own, others) = (tensors(&self.module), tensors(model));
        let meta = |(name, x, _): &(String, Tensor, bool)| format!("`{name}` {}", x.shape());
        if !own.iter().map(meta).eq(others.iter().map(meta)) {
            let list = |all: &[(String, Tensor, bool)]| all.iter().map(meta).collect::<Vec<_>>().join(", ");
            let message = format!("the model has {}, the averages are {}", list(&others), list(&own));
            return Err(Error::argument("AveragedModel", message));
        }
        no_grad(|| {
            for ((_, average, averaged), (_, x, _)) in own.iter().zip(&others) {
                let (average, x) = (average.detach(), x.detach());
                match *averaged && count > 0 {
                    true => {
                        let x = x.to_device(average.device())?.to_dtype(average.dtype())?;
                        (self.average)(&average, &x, count)?;
                    }
                    false => copy(&average, &x)?,
                }
            }
            self.n_averaged.tensor().add_(1)
        })
    }
}

impl<M: Layer> Layer for AveragedModel<M> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.module.forward(x)
    }
}
