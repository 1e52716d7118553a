//! Losses of decisions between two classes.

use crate::{Buffer, functional};
use rustorch_tensor::{Reduction, Result, Tensor};

/// `−weight · (target · log(input) + (1 − target) · log(1 − input))` with logarithms not below −100, as `torch.nn.BCELoss`.
///
/// ```
/// use rustorch_nn::BCELoss;
/// use rustorch_tensor::{Reduction, Tensor};
/// let (x, y) = (Tensor::new([0.5f32, 0.0])?, Tensor::new([1.0f32, 1.0])?);
/// let losses = BCELoss { reduction: Reduction::None, ..Default::default() }.forward(&x, &y)?;
/// assert_eq!(losses.to_vec::<f32>()?, [2f32.ln(), 100.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, Default, rustorch_macros::Module)]
pub struct BCELoss {
    /// A factor of each loss, which broadcasts: none.
    pub weight: Option<Buffer>,
    /// What becomes of the losses: their mean.
    #[module(skip)]
    pub reduction: Reduction,
}

impl BCELoss {
    /// The loss of probabilities.
    ///
    /// # Errors
    /// As [`binary_cross_entropy`](functional::binary_cross_entropy).
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let weight = self.weight.as_ref().map(Buffer::tensor);
        functional::binary_cross_entropy(input, target, weight.as_ref(), self.reduction)
    }
}

/// The [`BCELoss`] of `sigmoid(input)`, without overflow, as `torch.nn.BCEWithLogitsLoss`.
///
/// ```
/// use rustorch_nn::BCEWithLogitsLoss;
/// use rustorch_tensor::{Reduction, Tensor};
/// let (x, y) = (Tensor::new([-1000.0f32, 1000.0])?, Tensor::new([1.0f32, 1.0])?);
/// let losses = BCEWithLogitsLoss { reduction: Reduction::None, ..Default::default() }.forward(&x, &y)?;
/// assert_eq!(losses.to_vec::<f32>()?, [1000.0, 0.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, Default, rustorch_macros::Module)]
pub struct BCEWithLogitsLoss {
    /// A factor of each loss, which broadcasts: none.
    pub weight: Option<Buffer>,
    /// A factor of the losses of targets of 1, which broadcasts: none.
    pub pos_weight: Option<Buffer>,
    /// What becomes of the losses: their mean.
    #[module(skip)]
    pub reduction: Reduction,
}

impl BCEWithLogitsLoss {
    /// The loss of logits.
    ///
    /// # Errors
    /// As [`binary_cross_entropy_with_logits`](functional::binary_cross_entropy_with_logits).
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let [weight, pos_weight] =
            [&self.weight, &self.pos_weight].map(|weight| weight.as_ref().map(Buffer::tensor));
        let (weight, pos_weight) = (weight.as_ref(), pos_weight.as_ref());
        functional::binary_cross_entropy_with_logits(input, target, weight, pos_weight, self.reduction)
    }
}

/// The mean over classes of `−weight · (target · log σ(input) + (1 − target) · log σ(−input))`, as
/// `torch.nn.MultiLabelSoftMarginLoss`: `[n, classes]` → `[n]`, before the reduction.
///
/// ```
/// use rustorch_nn::MultiLabelSoftMarginLoss;
/// use rustorch_tensor::Tensor;
/// let (x, y) = (Tensor::new([[0.0f32, 0.0]])?, Tensor::new([[1.0f32, 0.0]])?);
/// let loss = MultiLabelSoftMarginLoss::default().forward(&x, &y)?;
/// assert!((loss.item()?.to_f64() - 2f64.ln()).abs() < 1e-6);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, Default, rustorch_macros::Module)]
pub struct MultiLabelSoftMarginLoss {
    /// `[classes]`: none.
    pub weight: Option<Buffer>,
    /// What becomes of the losses: their mean.
    #[module(skip)]
    pub reduction: Reduction,
}

impl MultiLabelSoftMarginLoss {
    /// The loss.
    ///
    /// # Errors
    /// As [`multilabel_soft_margin_loss`](functional::multilabel_soft_margin_loss).
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let weight = self.weight.as_ref().map(Buffer::tensor);
        functional::multilabel_soft_margin_loss(input, target, weight.as_ref(), self.reduction)
    }
}

losses! {
    /// `log(1 + exp(−target · input))` with targets of −1 and 1, as `torch.nn.SoftMarginLoss`.
    ///
    /// ```
    /// use rustorch_nn::SoftMarginLoss;
    /// use rustorch_tensor::{Reduction, Tensor};
    /// let (x, y) = (Tensor::new([0.0f32, 1000.0])?, Tensor::new([1.0f32, -1.0])?);
    /// let losses = SoftMarginLoss { reduction: Reduction::None }.forward(&x, &y)?;
    /// assert_eq!(losses.to_vec::<f32>()?, [2f32.ln(), 1000.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    SoftMarginLoss {} (input, target) => soft_margin_loss;
}
