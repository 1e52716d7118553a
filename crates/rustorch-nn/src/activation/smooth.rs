//! Smooth activations.

use crate::functional::GeluApproximation;

activations! {
    /// `x · Φ(x)` with the normal distribution Φ, as `torch.nn.GELU`.
    ///
    /// Hendrycks, Gimpel: *Gaussian Error Linear Units (GELUs)*, 2016.
    ///
    /// ```
    /// use rustorch_nn::{GELU, Layer, functional::GeluApproximation};
    /// use rustorch_tensor::Tensor;
    /// let x = Tensor::new([-1.0f32, 1.0])?;
    /// let y = GELU::default().forward(&x)?;
    /// assert!(y.allclose(&Tensor::new([-0.158_655f32, 0.841_345])?, 1e-5, 0.0, false)?);
    /// let y = GELU { approximate: GeluApproximation::Tanh }.forward(&x)?;
    /// assert!(y.allclose(&Tensor::new([-0.158_808f32, 0.841_192])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    GELU {
        /// How it is computed: [`GeluApproximation::None`].
        #[module(skip, repr)]
        approximate: GeluApproximation = GeluApproximation::None,
    } => gelu;

    /// `x · sigmoid(x)`, as `torch.nn.SiLU`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, SiLU};
    /// use rustorch_tensor::Tensor;
    /// let y = SiLU.forward(&Tensor::new([-1.0f32, 1.0])?)?;
    /// assert!(y.allclose(&Tensor::new([-0.268_941f32, 0.731_059])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    SiLU => silu;

    /// `x · tanh(softplus(x))`, as `torch.nn.Mish`.
    ///
    /// Misra: *Mish: A Self Regularized Non-Monotonic Neural Activation Function*, 2019.
    ///
    /// ```
    /// use rustorch_nn::{Layer, Mish};
    /// use rustorch_tensor::Tensor;
    /// let y = Mish.forward(&Tensor::new([-1.0f32, 1.0])?)?;
    /// assert!(y.allclose(&Tensor::new([-0.303_401f32, 0.865_098])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Mish => mish;

    /// `1 / (1 + exp(−x))`, as `torch.nn.Sigmoid`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, Sigmoid};
    /// use rustorch_tensor::Tensor;
    /// let y = Sigmoid.forward(&Tensor::new([0.0f32, 1.0])?)?;
    /// assert!(y.allclose(&Tensor::new([0.5f32, 0.731_059])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Sigmoid => sigmoid;

    /// The hyperbolic tangent, as `torch.nn.Tanh`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, Tanh};
    /// use rustorch_tensor::Tensor;
    /// let y = Tanh.forward(&Tensor::new([0.0f32, 1.0])?)?;
    /// assert!(y.allclose(&Tensor::new([0.0f32, 0.761_594])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Tanh => tanh;

    /// `x − tanh(x)`, as `torch.nn.Tanhshrink`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, Tanhshrink};
    /// use rustorch_tensor::Tensor;
    /// let y = Tanhshrink.forward(&Tensor::new([0.0f32, 1.0])?)?;
    /// assert!(y.allclose(&Tensor::new([0.0f32, 0.238_406])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Tanhshrink => tanhshrink;

    /// `log(1 + exp(beta · x)) / beta`, and `x` where `beta · x` is above the threshold, as `torch.nn.Softplus`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, Softplus};
    /// use rustorch_tensor::Tensor;
    /// let y = Softplus::default().forward(&Tensor::new([0.0f32, 50.0])?)?;
    /// assert!(y.allclose(&Tensor::new([0.693_147f32, 50.0])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Softplus {
        /// How sharp the bend is: 1.
        #[module(repr)]
        beta: f64 = 1.0,
        /// Above which the result is `x`: 20.
        #[module(repr)]
        threshold: f64 = 20.0,
    } => softplus;

    /// `x / (1 + |x|)`, as `torch.nn.Softsign`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, Softsign};
    /// use rustorch_tensor::Tensor;
    /// assert_eq!(Softsign.forward(&Tensor::new([-1.0f32, 3.0])?)?.to_vec::<f32>()?, [-0.5, 0.75]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    Softsign => softsign;

    /// `log(sigmoid(x))`, as `torch.nn.LogSigmoid`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, LogSigmoid};
    /// use rustorch_tensor::Tensor;
    /// let y = LogSigmoid.forward(&Tensor::new([-100.0f32, 0.0])?)?;
    /// assert!(y.allclose(&Tensor::new([-100.0f32, -0.693_147])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    LogSigmoid => logsigmoid;
}
