//! Piecewise linear activations with bounds.

activations! {
    /// `min(max(x, min_val), max_val)`, as `torch.nn.Hardtanh`.
    ///
    /// ```
    /// use rustorch_nn::{Hardtanh, Layer};
    /// use rustorch_tensor::Tensor;
    /// let y = Hardtanh::default().forward(&Tensor::new([-2.0f32, 0.5, 3.0])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, 0.5, 1.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Hardtanh {
        /// The lower bound: −1.
        #[module(repr)]
        min_val: f64 = -1.0,
        /// The upper bound: 1.
        #[module(repr)]
        max_val: f64 = 1.0,
    } => hardtanh;

    /// `x · min(max(x + 3, 0), 6) / 6`, as `torch.nn.Hardswish`.
    ///
    /// Howard et al.: *Searching for MobileNetV3*, 2019.
    ///
    /// ```
    /// use rustorch_nn::{Hardswish, Layer};
    /// use rustorch_tensor::Tensor;
    /// let y = Hardswish.forward(&Tensor::new([-4.0f32, 1.5, 5.0])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 1.125, 5.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Hardswish => hardswish;

    /// `min(max(x + 3, 0), 6) / 6`, as `torch.nn.Hardsigmoid`.
    ///
    /// ```
    /// use rustorch_nn::{Hardsigmoid, Layer};
    /// use rustorch_tensor::Tensor;
    /// let y = Hardsigmoid.forward(&Tensor::new([-4.0f32, 1.5, 5.0])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 0.75, 1.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Hardsigmoid => hardsigmoid;

    /// 0 where −`lambd` ≤ x ≤ `lambd`, else `x`, as `torch.nn.Hardshrink`.
    ///
    /// ```
    /// use rustorch_nn::{Hardshrink, Layer};
    /// use rustorch_tensor::Tensor;
    /// let y = Hardshrink::default().forward(&Tensor::new([-2.0f32, 0.5, 0.75])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [-2.0, 0.0, 0.75]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Hardshrink {
        /// The bound λ: 0.5.
        #[module(repr = value)]
        lambd: f64 = 0.5,
    } => hardshrink;

    /// 0 where −`lambd` ≤ x ≤ `lambd`, else `x − lambd · sign(x)`, as `torch.nn.Softshrink`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, Softshrink};
    /// use rustorch_tensor::Tensor;
    /// let y = Softshrink::default().forward(&Tensor::new([-2.0f32, 0.5, 0.75])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [-1.5, 0.0, 0.25]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Softshrink {
        /// The bound λ, not negative: 0.5.
        #[module(repr = value)]
        lambd: f64 = 0.5,
    } => softshrink;

    /// `x` where it is above a threshold, else `value`, as `torch.nn.Threshold`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, Threshold};
    /// use rustorch_tensor::Tensor;
    /// let y = Threshold { threshold: 0.5, value: 20.0 }.forward(&Tensor::new([-2.0f32, 0.5, 0.75])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [20.0, 20.0, 0.75]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Threshold {
        /// What `x` is compared with.
        #[module(repr)]
        threshold: f64,
        /// The result where `x` is not above the threshold.
        #[module(repr)]
        value: f64,
    } => threshold;
}
