//! Losses of distances between vectors.

use crate::functional::{self, TripletMarginOptions};
use rustorch_tensor::{Reduction, Result, Tensor};
use std::fmt;

losses! {
    /// With the cosine `c` of the angle between rows: `1 − c` where the target is 1, `max(0, c − margin)` where it is −1, as
    /// `torch.nn.CosineEmbeddingLoss`.
    ///
    /// ```
    /// use rustorch_nn::CosineEmbeddingLoss;
    /// use rustorch_tensor::Tensor;
    /// let (a, b) = (Tensor::new([[3.0f32, 4.0]])?, Tensor::new([[1.0f32, 0.0]])?);
    /// let loss = CosineEmbeddingLoss::default().forward(&a, &b, &Tensor::new([1.0f32])?)?;
    /// assert!((loss.item()?.to_f64() - 0.4).abs() < 1e-6);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    CosineEmbeddingLoss {
        /// What the cosine may be where the target is −1: 0.
        margin: f64 = 0.0,
    } (input1, input2, target) => cosine_embedding_loss;
}

/// `max(0, d(anchor, positive) − d(anchor, negative) + margin)` with the p-norm of differences of rows, as
/// `torch.nn.TripletMarginLoss`.
///
/// ```
/// use rustorch_nn::TripletMarginLoss;
/// use rustorch_tensor::Tensor;
/// let anchor = Tensor::new([[0.0f32, 0.0]])?;
/// let (positive, negative) = (Tensor::new([[3.0f32, 4.0]])?, Tensor::new([[0.0f32, 2.0]])?);
/// let loss = TripletMarginLoss::default().forward(&anchor, &positive, &negative)?;
/// assert!((loss.item()?.to_f64() - 4.0).abs() < 1e-5);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, rustorch_macros::Module)]
pub struct TripletMarginLoss {
    /// Its arguments.
    #[module(skip)]
    pub options: TripletMarginOptions,
}

impl TripletMarginLoss {
    /// The loss of rows `[n, features]`, or of one, `[features]`.
    ///
    /// # Errors
    /// As [`triplet_margin_loss`](functional::triplet_margin_loss).
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Result<Tensor> {
        functional::triplet_margin_loss(anchor, positive, negative, &self.options)
    }
}

/// As [`TripletMarginLoss`], with a distance of the caller's, as `torch.nn.TripletMarginWithDistanceLoss`.
///
/// ```
/// use rustorch_nn::TripletMarginWithDistanceLoss;
/// use rustorch_tensor::{Result, Tensor};
/// let largest = |a: &Tensor, b: &Tensor| -> Result<Tensor> { a.sub(b)?.norm(f64::INFINITY, -1, false) };
/// let anchor = Tensor::new([[0.0f32, 0.0]])?;
/// let (positive, negative) = (Tensor::new([[3.0f32, 4.0]])?, Tensor::new([[0.0f32, 2.0]])?);
/// let loss = TripletMarginWithDistanceLoss::new(largest).forward(&anchor, &positive, &negative)?;
/// assert_eq!(loss.item()?.to_f64(), 3.0);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Copy, rustorch_macros::Module)]
pub struct TripletMarginWithDistanceLoss<F> {
    /// The distance of two inputs.
    #[module(skip)]
    pub distance: F,
    /// By how much the negative shall be farther: 1; positive.
    pub margin: f64,
    /// Whether the distance of positive and negative counts where it is less than that of anchor and negative: no.
    pub swap: bool,
    /// What becomes of the losses: their mean.
    #[module(skip)]
    pub reduction: Reduction,
}

impl<F: Fn(&Tensor, &Tensor) -> Result<Tensor>> TripletMarginWithDistanceLoss<F> {
    /// With a distance and PyTorch's defaults.
    pub fn new(distance: F) -> TripletMarginWithDistanceLoss<F> {
        TripletMarginWithDistanceLoss { distance, margin: 1.0, swap: false, reduction: Reduction::Mean }
    }

    /// The loss.
    ///
    /// # Errors
    /// As [`triplet_margin_with_distance_loss`](functional::triplet_margin_with_distance_loss).
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Result<Tensor> {
        let TripletMarginWithDistanceLoss { distance, margin, swap, reduction } = self;
        functional::triplet_margin_with_distance_loss(
            anchor, positive, negative, distance, *margin, *swap, *reduction,
        )
    }
}

impl<F> fmt::Debug for TripletMarginWithDistanceLoss<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TripletMarginWithDistanceLoss")
            .field("margin", &self.margin)
            .field("swap", &self.swap)
            .field("reduction", &self.reduction)
            .finish_non_exhaustive()
    }
}
