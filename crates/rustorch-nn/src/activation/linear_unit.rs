//! Rectified linear units and their variants: the identity above 0.

use crate::{ExtraRepr, Layer, Parameter, Training, functional};
use rustorch_tensor::{Error, Result, Tensor, TensorOptions};

activations! {
    /// `max(x, 0)`, as `torch.nn.ReLU`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, ReLU};
    /// use rustorch_tensor::Tensor;
    /// assert_eq!(ReLU.forward(&Tensor::new([-2.0f32, 3.0])?)?.to_vec::<f32>()?, [0.0, 3.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ReLU => relu;

    /// `min(max(x, 0), 6)`, as `torch.nn.ReLU6`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, ReLU6};
    /// use rustorch_tensor::Tensor;
    /// assert_eq!(ReLU6.forward(&Tensor::new([-2.0f32, 3.0, 9.0])?)?.to_vec::<f32>()?, [0.0, 3.0, 6.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ReLU6 => relu6;

    /// `x` where it is positive, else `negative_slope · x`, as `torch.nn.LeakyReLU`.
    ///
    /// ```
    /// use rustorch_nn::{Layer, LeakyReLU};
    /// use rustorch_tensor::Tensor;
    /// let y = LeakyReLU { negative_slope: 0.25 }.forward(&Tensor::new([-2.0f32, 3.0])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [-0.5, 3.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    LeakyReLU {
        /// The slope below 0: 0.01.
        #[module(repr)]
        negative_slope: f64 = 0.01,
    } => leaky_relu;

    /// `x` where it is positive, else `alpha · (exp(x) − 1)`, as `torch.nn.ELU`.
    ///
    /// Clevert et al.: *Fast and Accurate Deep Network Learning by Exponential Linear Units (ELUs)*, 2015.
    ///
    /// ```
    /// use rustorch_nn::{ELU, Layer};
    /// use rustorch_tensor::Tensor;
    /// let y = ELU::default().forward(&Tensor::new([-1.0f32, 2.0])?)?;
    /// assert!(y.allclose(&Tensor::new([-0.632_121f32, 2.0])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ELU {
        /// The result tends to −alpha: 1.
        #[module(repr)]
        alpha: f64 = 1.0,
    } => elu;

    /// `1.0507 · elu(x)` with α = 1.6733, as `torch.nn.SELU`.
    ///
    /// Klambauer et al.: *Self-Normalizing Neural Networks*, 2017.
    ///
    /// ```
    /// use rustorch_nn::{Layer, SELU};
    /// use rustorch_tensor::Tensor;
    /// let y = SELU.forward(&Tensor::new([-1.0f32, 2.0])?)?;
    /// assert!(y.allclose(&Tensor::new([-1.111_331f32, 2.101_402])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    SELU => selu;

    /// `x` where it is positive, else `alpha · (exp(x / alpha) − 1)`, as `torch.nn.CELU`.
    ///
    /// Barron: *Continuously Differentiable Exponential Linear Units*, 2017.
    ///
    /// ```
    /// use rustorch_nn::{CELU, Layer};
    /// use rustorch_tensor::Tensor;
    /// let y = CELU { alpha: 2.0 }.forward(&Tensor::new([-2.0f32, 2.0])?)?;
    /// assert!(y.allclose(&Tensor::new([-1.264_241f32, 2.0])?, 1e-5, 0.0, false)?);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    CELU {
        /// The result tends to −alpha: 1.
        #[module(repr)]
        alpha: f64 = 1.0,
    } => celu;
}

/// `x` where it is positive, else `weight · x` with slopes that are learned, as `torch.nn.PReLU`.
///
/// He et al.: *Delving Deep into Rectifiers*, 2015.
///
/// ```
/// use rustorch_nn::{Layer, PReLU};
/// use rustorch_tensor::{DType, Tensor};
/// let y = PReLU::new(1, 0.25, DType::F32)?.forward(&Tensor::new([-2.0f32, 3.0])?)?;
/// assert_eq!(y.to_vec::<f32>()?, [-0.5, 3.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
#[module(extra_repr = Self::describe)]
pub struct PReLU {
    /// `[num_parameters]`
    pub weight: Parameter,
}

impl PReLU {
    /// With one slope, or one for each index of dimension 1, which all start with the value `init`. PyTorch's are one and 0.25 unless
    /// given.
    ///
    /// # Errors
    /// If `num_parameters` is 0, the dtype is none of floats, or memory does not suffice.
    pub fn new(num_parameters: usize, init: f64, options: impl Into<TensorOptions>) -> Result<PReLU> {
        if num_parameters == 0 {
            return Err(Error::argument(
                "PReLU",
                "num_parameters must be 1 or the number of channels, and is 0",
            ));
        }
        Ok(PReLU { weight: Parameter::new(Tensor::full([num_parameters], init, options)?)? })
    }

    fn describe(&self, extra: &mut ExtraRepr) {
        extra.named("num_parameters", &self.weight.tensor().numel());
    }
}

impl Layer for PReLU {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::prelu(x, &self.weight.tensor())
    }
}

/// `x` where it is positive, else `slope · x`, as `torch.nn.RReLU`: while training the slope of each element is random, uniform in
/// `[lower, upper)`, else it is `(lower + upper) / 2`.
///
/// Xu et al.: *Empirical Evaluation of Rectified Activations in Convolutional Network*, 2015.
///
/// ```
/// use rustorch_nn::{Layer, Module, RReLU};
/// use rustorch_tensor::Tensor;
/// let rrelu = RReLU::new(0.25, 0.75)?;
/// let x = Tensor::new([-2.0f32, 3.0])?;
/// assert!((-1.5..=-0.5).contains(&rrelu.forward(&x)?.to_vec::<f32>()?[0]));
/// rrelu.eval();
/// assert_eq!(rrelu.forward(&x)?.to_vec::<f32>()?, [-1.0, 3.0]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
pub struct RReLU {
    #[module(repr)]
    lower: f64,
    #[module(repr)]
    upper: f64,
    training: Training,
}

impl RReLU {
    /// With slopes between these.
    ///
    /// # Errors
    /// If `lower` is above `upper`, or either is not finite.
    pub fn new(lower: f64, upper: f64) -> Result<RReLU> {
        functional::expect_slopes("RReLU", lower, upper)?;
        Ok(RReLU { lower, upper, training: Training::default() })
    }
}

impl Default for RReLU {
    /// With slopes between 1/8 and 1/3.
    fn default() -> RReLU {
        RReLU { lower: 1.0 / 8.0, upper: 1.0 / 3.0, training: Training::default() }
    }
}

impl Layer for RReLU {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        functional::rrelu(x, self.lower, self.upper, self.training.get())
    }
}
