//! Activations along a dimension.

activations! {
    /// `exp(x) / Σ exp(x)` along a dimension, as `torch.nn.Softmax`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, Softmax};
    /// use rustorch_tensor::Tensor;
    /// let y = Softmax { dim: -1 }.forward(&Tensor::new([[0.0f32, 3f32.ln()]])?)?;
    /// assert!(y.allclose(&Tensor::new([[0.25f32, 0.75]])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Softmax {
        /// The dimension, from the last if negative.
        #[module(repr)]
        dim: isize,
    } => softmax;

    /// `softmax(−x)` along a dimension, as `torch.nn.Softmin`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, Softmin};
    /// use rustorch_tensor::Tensor;
    /// let y = Softmin { dim: -1 }.forward(&Tensor::new([[0.0f32, 3f32.ln()]])?)?;
    /// assert!(y.allclose(&Tensor::new([[0.75f32, 0.25]])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Softmin {
        /// The dimension, from the last if negative.
        #[module(repr)]
        dim: isize,
    } => softmin;

    /// `x − log Σ exp(x)` along a dimension, as `torch.nn.LogSoftmax`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, LogSoftmax};
    /// use rustorch_tensor::Tensor;
    /// let y = LogSoftmax { dim: -1 }.forward(&Tensor::new([[0.0f32, 3f32.ln()]])?)?;
    /// assert!(y.exp()?.allclose(&Tensor::new([[0.25f32, 0.75]])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    LogSoftmax {
        /// The dimension, from the last if negative.
        #[module(repr)]
        dim: isize,
    } => log_softmax;

    /// [`Softmax`] over the channels of `[n, channels, height, width]` or `[channels, height, width]`, as `torch.nn.Softmax2d`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, Softmax2d};
    /// use rustorch_tensor::Tensor;
    /// let y = Softmax2d.forward(&Tensor::new([[[0.0f32]], [[3f32.ln()]]])?)?;
    /// assert!(y.allclose(&Tensor::new([[[0.25f32]], [[0.75]]])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Softmax2d => softmax2d;

    /// `a · sigmoid(b)` with the halves `a` and `b` of the input along a dimension, as `torch.nn.GLU`.
    ///
    /// Dauphin et al.: *Language Modeling with Gated Convolutional Networks*, 2016.
    ///
    /// ```
    /// use rustorch_nn::{GLU, Layer};
    /// use rustorch_tensor::Tensor;
    /// let y = GLU::default().forward(&Tensor::new([[4.0f32, 6.0, 0.0, 0.0]])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    GLU {
        /// The dimension that is split: the last.
        #[module(repr)]
        dim: isize = -1,
    } => glu;
}
