//! The cross entropy of a linear layer's result.

use super::options::{of_layer, options};
use crate::{Buffer, ExtraRepr, Layer, Linear, LinearOptions, Module};
use rustorch_tensor::{CrossEntropyOptions, Error, Reduction, Result, Tensor};

options! {
    /// How a [`LinearCrossEntropyLoss`] is made: the optional arguments of `torch.nn.LinearCrossEntropyLoss` with their defaults.
    LinearCrossEntropyLossOptions {
        /// The dimensions of targets beside that of the batch.
        out_features: into Vec<usize> = Vec::new();
        /// Whether the linear layer has a bias.
        bias: plain bool = false;
        /// `[num_classes]`: a factor of each class.
        weight: into Option<Buffer> = None;
        /// What becomes of the losses.
        reduction: plain Reduction = Reduction::Mean;
        /// Targets of this class have no loss; `None` is −100.
        ignore_index: into Option<i64> = None;
        /// How much of each target is spread evenly over the classes, from 0 to 1.
        label_smoothing: plain f64 = 0.0;
    }
}

/// The [`CrossEntropyLoss`](crate::CrossEntropyLoss) of logits that a linear layer computes, as `torch.nn.LinearCrossEntropyLoss`: `[n, in_features]` with classes
/// `[n, out_features..]` or probabilities `[n, num_classes, out_features..]`, or all without `n`. The logits are computed as a whole: PyTorch's
/// `options` for computing them in chunks, which change no number, are not there.
///
/// ```
/// use rustorch_nn::{LinearCrossEntropyLoss, Module};
/// use rustorch_tensor::{DType, Tensor};
/// let loss = LinearCrossEntropyLoss::new(3, 5)?;
/// assert_eq!(loss.named_parameters()[0].0, "linear.weight");
/// let value = loss.forward(&Tensor::zeros([2, 3], DType::F32)?, &Tensor::new([0i64, 4])?)?;
/// assert!((value.item()?.to_f64() - 5f64.ln()).abs() < 1e-6);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
#[module(extra_repr = Self::describe)]
pub struct LinearCrossEntropyLoss {
    /// `[num_classes]`
    pub weight: Option<Buffer>,
    /// From `in_features` to `num_classes · out_features`.
    pub linear: Linear,
    num_classes: usize,
    #[module(skip)]
    out_features: Vec<usize>,
    #[module(skip)]
    reduction: Reduction,
    #[module(skip)]
    ignore_index: Option<i64>,
    label_smoothing: f64,
}

impl LinearCrossEntropyLoss {
    /// The mean loss of a linear layer without a bias.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn new(in_features: usize, num_classes: usize) -> Result<LinearCrossEntropyLoss> {
        LinearCrossEntropyLoss::with(in_features, num_classes, LinearCrossEntropyLossOptions::default())
    }

    /// A loss.
    ///
    /// # Errors
    /// If the weight has not the shape `[num_classes]`, `label_smoothing` is not between 0 and 1, the dtype is none of floats, or memory
    /// does not suffice.
    pub fn with(
        in_features: usize,
        num_classes: usize,
        options: LinearCrossEntropyLossOptions,
    ) -> Result<LinearCrossEntropyLoss> {
        const NAME: &str = "LinearCrossEntropyLoss";
        let LinearCrossEntropyLossOptions {
            out_features,
            bias,
            weight,
            reduction,
            ignore_index,
            label_smoothing,
            tensor,
        } = options;
        if let Some(weight) = weight.as_ref().map(Buffer::tensor).filter(|x| x.dims() != [num_classes]) {
            return Err(Error::shape(NAME, format!("weight must be [{num_classes}]"), [weight.shape()]));
        }
        if !(0.0..=1.0).contains(&label_smoothing) {
            let message = format!("label_smoothing must be from 0 to 1, and is {label_smoothing}");
            return Err(Error::argument(NAME, message));
        }
        let width = out_features.iter().try_fold(num_classes, |width, &n| width.checked_mul(n));
        let width = width.ok_or_else(|| Error::argument(NAME, "out_features are too many"))?;
        let linear = Linear::with(in_features, width, LinearOptions::default().bias(bias).tensor(tensor))?;
        Ok(LinearCrossEntropyLoss {
            weight,
            linear,
            num_classes,
            out_features,
            reduction,
            ignore_index,
            label_smoothing,
        })
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        let reduction = match self.reduction {
            Reduction::None => "none",
            Reduction::Mean => "mean",
            Reduction::Sum => "sum",
        };
        extra
            .named("in_features", &self.linear.weight.tensor().dims()[1])
            .named("num_classes", &self.num_classes);
        extra.named("out_features", self.out_features.as_slice()).named("bias", &self.linear.bias.is_some());
        extra.text(format_args!("reduction={reduction}")).named("ignore_index", &self.ignore_index);
        // Of chunks, which are PyTorch's only.
        extra.named("label_smoothing", &self.label_smoothing).text("options=None");
    }

    /// The loss.
    ///
    /// # Errors
    /// If shapes or dtypes do not fit.
    #[rustorch_macros::observed]
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let forward = || {
            let logits = self.linear.forward(input)?;
            let mut shape = logits.dims()[..logits.ndim() - 1].to_vec();
            shape.push(self.num_classes);
            shape.extend(&self.out_features);
            let options = CrossEntropyOptions {
                weight: self.weight.as_ref().map(Buffer::tensor),
                ignore_index: self.ignore_index.unwrap_or(-100),
                reduction: self.reduction,
                label_smoothing: self.label_smoothing,
            };
            logits.reshape(shape)?.cross_entropy(target, &options)
        };
        if !matches!(input.ndim(), 1 | 2) {
            let message = "takes [n, in_features], or [in_features]";
            return Err(Error::shape(self.type_name(), message, [input.shape()]));
        }
        forward().map_err(of_layer(self.type_name()))
    }
}
