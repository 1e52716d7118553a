//! Losses.

use crate::Tensor;
use crate::autograd::autocast;
use crate::dispatch::run_all;
use rustorch_core::{CrossEntropy, Error, Op, Result, promote_types};
use smallvec::SmallVec;

/// What becomes of the losses of rows, PyTorch's `reduction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// They are returned as they are.
    None,
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
}

/// The arguments of [`Tensor::cross_entropy`], with PyTorch's names and defaults.
#[derive(Clone, Debug)]
pub struct CrossEntropyOptions {
    /// A weight for each class.
    pub weight: Option<Tensor>,
    /// Rows whose target is this class have no loss: −100. Of targets that are classes only.
    pub ignore_index: i64,
    /// What becomes of the losses of rows: [`Reduction::Mean`].
    pub reduction: Reduction,
    /// How much of each target is spread evenly over the classes, from 0 to 1: 0.
    pub label_smoothing: f64,
}

impl Default for CrossEntropyOptions {
    fn default() -> CrossEntropyOptions {
        CrossEntropyOptions {
            weight: None,
            ignore_index: -100,
            reduction: Reduction::default(),
            label_smoothing: 0.0,
        }
    }
}

impl Tensor {
    /// The cross entropy of logits of shape `[n, classes, ..]`, or `[classes]` of one row, with a target, as
    /// `torch.nn.functional.cross_entropy`: neither softmax nor its logarithm is stored, for the gradient neither.
    ///
    /// The target is classes, integers of the shape of the logits without their dimension, or probabilities of their shape. The
    /// mean is that of the rows that are not ignored, weighted with the weights of their classes; with probabilities, that of all
    /// rows. Floats of different dtypes are promoted; 16-bit floats are computed and summed in `F32`.
    ///
    /// ```
    /// # use rustorch_tensor::{CrossEntropyOptions, Tensor};
    /// let logits = Tensor::new([[0.0f32, 0.0], [3.0f32.ln(), 0.0]])?;
    /// let loss = logits.cross_entropy(&Tensor::new([1i64, 0])?, &CrossEntropyOptions::default())?;
    /// assert!((loss.item()?.to_f64() - (2f64.ln() + (4f64 / 3.0).ln()) / 2.0).abs() < 1e-6);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a class is out of range, shapes or dtypes do not fit, `label_smoothing` is not from 0 to 1, or `ignore_index` is
    /// given for probabilities.
    pub fn cross_entropy(&self, target: &Tensor, options: &CrossEntropyOptions) -> Result<Tensor> {
        const NAME: &str = CrossEntropy::NAME;
        let CrossEntropyOptions { weight, ignore_index, reduction, label_smoothing } = options;
        let axis = usize::from(self.ndim() > 1);
        let has_classes = !target.dtype().is_float();
        if !has_classes && *ignore_index >= 0 {
            return Err(Error::argument(
                NAME,
                format!(
                    "ignore_index is {ignore_index}, but a target of probabilities has no classes to ignore"
                ),
            ));
        }
        if !self.dtype().is_float() {
            return Err(Error::dtype(NAME, "needs floating-point logits", [self.dtype()]));
        }
        let mut floats = (!has_classes).then_some(target).into_iter().chain(weight);
        let common = floats.try_fold(self.dtype(), |common, x| promote_types(common, x.dtype()));
        let Some(dtype) = common.filter(|dtype| dtype.is_float()) else {
            let dtypes = [self.dtype(), target.dtype()].into_iter().chain(weight.as_ref().map(Tensor::dtype));
            return Err(Error::dtype(NAME, "logits, probabilities and weights must be real floats", dtypes));
        };
        let logits = self.to_dtype(dtype)?;
        let target =
            if has_classes { target.to_index(NAME)?.into_owned() } else { target.to_dtype(dtype)? };
        let cast = weight.as_ref().map(|weight| weight.to_dtype(dtype)).transpose()?;
        let args: SmallVec<[&Tensor; 3]> = [&logits, &target].into_iter().chain(&cast).collect();
        let op = CrossEntropy { axis, ignore_index: *ignore_index, label_smoothing: *label_smoothing };
        let results = run_all(&Op::CrossEntropy(op), &args)?;
        let losses = &results[0];
        let loss = match (reduction, results.get(3)) {
            (Reduction::None, _) => losses.clone(),
            (Reduction::Sum, _) => losses.sum_all()?,
            (Reduction::Mean, None) => losses.sum_all()?.div(losses.numel() as f64)?,
            (Reduction::Mean, Some(weights)) => {
                // Only a weight that requires a gradient has one by way of the divisor.
                let constant = !weight.as_ref().is_some_and(Tensor::requires_grad);
                let weights = if constant { weights.detach() } else { weights.clone() };
                losses.sum_all()?.div(&weights.sum_all()?)?
            }
        };
        // Mixed precision leaves losses in single precision.
        if autocast::is_active() { Ok(loss) } else { loss.to_dtype(dtype) }
    }
}
