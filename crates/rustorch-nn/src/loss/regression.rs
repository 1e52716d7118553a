//! Losses of differences.

losses! {
    /// `|input − target|`, as `torch.nn.L1Loss`.
    ///
    /// ```
    /// use rustorch_nn::L1Loss;
    /// use rustorch_tensor::Tensor;
    /// let (x, y) = (Tensor::new([1.0f32, 5.0])?, Tensor::new([2.0f32, 2.0])?);
    /// assert_eq!(L1Loss::default().forward(&x, &y)?.item()?.to_f64(), 2.0);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    L1Loss {} (input, target) => l1_loss;

    /// `(input − target)²`, as `torch.nn.MSELoss`.
    ///
    /// ```
    /// use rustorch_nn::MSELoss;
    /// use rustorch_tensor::{Reduction, Tensor};
    /// let (x, y) = (Tensor::new([1.0f32, 5.0])?, Tensor::new([2.0f32, 2.0])?);
    /// assert_eq!(MSELoss::default().forward(&x, &y)?.item()?.to_f64(), 5.0);
    /// let losses = MSELoss { reduction: Reduction::None }.forward(&x, &y)?;
    /// assert_eq!(losses.to_vec::<f32>()?, [1.0, 9.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    MSELoss {} (input, target) => mse_loss;

    /// With `d = |input − target|`: `d² / (2 · beta)` where `d < beta`, else `d − beta / 2`, as `torch.nn.SmoothL1Loss`.
    ///
    /// Girshick: *Fast R-CNN*, 2015.
    ///
    /// ```
    /// use rustorch_nn::SmoothL1Loss;
    /// use rustorch_tensor::Tensor;
    /// let (x, y) = (Tensor::new([1.0f32, 5.0])?, Tensor::new([1.5f32, 2.0])?);
    /// assert_eq!(SmoothL1Loss::default().forward(&x, &y)?.item()?.to_f64(), (0.125 + 2.5) / 2.0);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    SmoothL1Loss {
        /// Where the parabola ends: 1.
        beta: f64 = 1.0,
    } (input, target) => smooth_l1_loss;

    /// With `d = |input − target|`: `d² / 2` where `d ≤ delta`, else `delta · (d − delta / 2)`, as `torch.nn.HuberLoss`.
    ///
    /// ```
    /// use rustorch_nn::HuberLoss;
    /// use rustorch_tensor::{Reduction, Tensor};
    /// let (x, y) = (Tensor::new([1.0f32, 5.0])?, Tensor::new([1.5f32, 2.0])?);
    /// let losses = HuberLoss { delta: 2.0, reduction: Reduction::None }.forward(&x, &y)?;
    /// assert_eq!(losses.to_vec::<f32>()?, [0.125, 4.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    HuberLoss {
        /// Where the parabola ends: 1.
        delta: f64 = 1.0,
    } (input, target) => huber_loss;
}
