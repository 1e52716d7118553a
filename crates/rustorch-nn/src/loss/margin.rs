//! Losses of scores that shall differ by a margin.

use crate::{Buffer, functional};
use rustorch_tensor::{Reduction, Result, Tensor};

losses! {
    /// `max(0, −target · (input1 − input2) + margin)` with targets of −1 and 1, as `torch.nn.MarginRankingLoss`.
    ///
    /// ```
    /// use rustorch_nn::MarginRankingLoss;
    /// use rustorch_tensor::Tensor;
    /// let (a, b, y) = (Tensor::new([1.0f32, 4.0])?, Tensor::new([2.0f32, 2.0])?, Tensor::new([1.0f32, 1.0])?);
    /// assert_eq!(MarginRankingLoss::default().forward(&a, &b, &y)?.item()?.to_f64(), 0.5);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    MarginRankingLoss {
        /// By how much the inputs shall differ: 0.
        margin: f64 = 0.0,
    } (input1, input2, target) => margin_ranking_loss;

    /// `input` where the target is 1, and `max(0, margin − input)` where it is −1, as `torch.nn.HingeEmbeddingLoss`.
    ///
    /// ```
    /// use rustorch_nn::HingeEmbeddingLoss;
    /// use rustorch_tensor::Tensor;
    /// let (x, y) = (Tensor::new([3.0f32, 0.5])?, Tensor::new([1.0f32, -1.0])?);
    /// assert_eq!(HingeEmbeddingLoss::default().forward(&x, &y)?.item()?.to_f64(), 1.75);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    HingeEmbeddingLoss {
        /// What distances shall be at least where the target is −1: 1.
        margin: f64 = 1.0,
    } (input, target) => hinge_embedding_loss;

    /// `Σ max(0, 1 − input[y] + input[i]) / classes` over the classes `y` of a row's target and the classes `i` that it has not,
    /// as `torch.nn.MultiLabelMarginLoss`.
    ///
    /// ```
    /// use rustorch_nn::MultiLabelMarginLoss;
    /// use rustorch_tensor::Tensor;
    /// let (x, y) = (Tensor::new([[0.1f32, 0.2, 0.4, 0.8]])?, Tensor::new([[3i64, 0, -1, 1]])?);
    /// let loss = MultiLabelMarginLoss::default().forward(&x, &y)?;
    /// assert!((loss.item()?.to_f64() - 0.85).abs() < 1e-6);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    MultiLabelMarginLoss {} (input, target) => multilabel_margin_loss;
}

/// `Σ weight[y] · max(0, margin − input[y] + input[i])ᵖ / classes` over the classes `i` other than the target `y`, as
/// `torch.nn.MultiMarginLoss`.
///
/// ```
/// use rustorch_nn::MultiMarginLoss;
/// use rustorch_tensor::Tensor;
/// let (x, y) = (Tensor::new([[0.1f32, 0.2, 0.4, 0.8]])?, Tensor::new([3i64])?);
/// let loss = MultiMarginLoss::default().forward(&x, &y)?;
/// assert!((loss.item()?.to_f64() - 0.325).abs() < 1e-6);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
pub struct MultiMarginLoss {
    /// The power, 1 or 2: 1.
    pub p: i64,
    /// By how much the target's score shall be above others: 1.
    pub margin: f64,
    /// `[classes]`: none.
    pub weight: Option<Buffer>,
    /// What becomes of the losses: their mean.
    #[module(skip)]
    pub reduction: Reduction,
}

impl Default for MultiMarginLoss {
    /// With PyTorch's defaults.
    fn default() -> MultiMarginLoss {
        MultiMarginLoss { p: 1, margin: 1.0, weight: None, reduction: Reduction::Mean }
    }
}

impl MultiMarginLoss {
    /// The loss of scores `[n, classes]` with classes `[n]`.
    ///
    /// # Errors
    /// As [`multi_margin_loss`](functional::multi_margin_loss).
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let weight = self.weight.as_ref().map(Buffer::tensor);
        functional::multi_margin_loss(input, target, self.p, self.margin, weight.as_ref(), self.reduction)
    }
}
