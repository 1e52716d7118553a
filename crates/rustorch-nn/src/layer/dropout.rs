//! Dropout of elements and of channels.

use super::options::{of_layer, spatial_name};
use crate::{ExtraRepr, Layer, Module, Training};
use rustorch_tensor::{Error, Result, Tensor};

/// Checks a probability.
fn expect_probability(layer: &'static str, p: f64) -> Result<()> {
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    Err(Error::argument(layer, format!("p must be a probability, from 0 to 1, and is {p}")))
}

/// What PyTorch's layers say and ours never are.
fn not_inplace<M>(_: &M, extra: &mut ExtraRepr) {
    extra.named("inplace", &false);
}

/// While training, elements become zero with probability `p` and the others are divided by 1 − p, as `torch.nn.Dropout`.
///
/// Srivastava et al.: *Dropout: A Simple Way to Prevent Neural Networks from Overfitting*, 2014.
///
/// ```
/// use rustorch_nn::{Dropout, Layer, Module};
/// use rustorch_tensor::{DType, Tensor};
/// let (dropout, x) = (Dropout::new(0.5)?, Tensor::ones([100], DType::F32)?);
/// assert!(dropout.forward(&x)?.to_vec::<f32>()?.iter().all(|y| [0.0, 2.0].contains(y)));
/// dropout.eval();
/// assert_eq!(dropout.forward(&x)?.to_vec::<f32>()?, [1.0; 100]);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
#[module(extra_repr = not_inplace)]
pub struct Dropout {
    #[module(repr)]
    p: f64,
    training: Training,
}

impl Dropout {
    /// # Errors
    /// If `p` is no probability.
    pub fn new(p: f64) -> Result<Dropout> {
        expect_probability("Dropout", p)?;
        Ok(Dropout { p, training: Training::default() })
    }
}

impl Layer for Dropout {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.dropout(self.p, self.training.get()).map_err(of_layer(self.type_name()))
    }
}

/// While training, whole channels become zero with probability `p` and the others are divided by 1 − p, as `torch.nn.Dropout2d`:
/// `[n, c, size..]` with `N` spatial dimensions, or without `n`. As in PyTorch, three dimensions for `Dropout2d` are `[n, c, l]`.
///
/// Tompson et al.: *Efficient Object Localization Using Convolutional Networks*, 2015.
///
/// ```
/// use rustorch_nn::{Dropout2d, Layer};
/// use rustorch_tensor::{DType, Tensor};
/// let y = Dropout2d::new(0.5)?.forward(&Tensor::ones([10, 10, 2, 2], DType::F32)?)?.to_vec::<f32>()?;
/// assert!(y.chunks(4).all(|channel| channel == [0.0; 4] || channel == [2.0; 4]));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
#[module(type_name = spatial_name::<N>(["Dropout1d", "Dropout2d", "Dropout3d"]))]
#[module(extra_repr = not_inplace)]
pub struct ChannelDropout<const N: usize> {
    #[module(repr)]
    p: f64,
    training: Training,
}

/// [`ChannelDropout`] over sequences.
pub type Dropout1d = ChannelDropout<1>;
/// [`ChannelDropout`] over images.
pub type Dropout2d = ChannelDropout<2>;
/// [`ChannelDropout`] over volumes.
pub type Dropout3d = ChannelDropout<3>;

impl<const N: usize> ChannelDropout<N> {
    /// # Errors
    /// If `p` is no probability.
    pub fn new(p: f64) -> Result<ChannelDropout<N>> {
        expect_probability(spatial_name::<N>(["Dropout1d", "Dropout2d", "Dropout3d"]), p)?;
        Ok(ChannelDropout { p, training: Training::default() })
    }
}

impl<const N: usize> Layer for ChannelDropout<N> {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let ndim = x.ndim();
        if ndim != N + 1 && ndim != N + 2 {
            let message = format!("takes {} dimensions, or {} without a batch", N + 2, N + 1);
            return Err(Error::shape(self.type_name(), message, [x.shape()]));
        }
        if !self.training.get() {
            return Ok(x.clone());
        }
        let is_batch = ndim == N + 2 || N == 2;
        let channels = if is_batch { 2 } else { 1 };
        let mut shape = vec![1; ndim];
        shape[..channels].copy_from_slice(&x.dims()[..channels]);
        let mask = Tensor::ones(shape, (x.dtype(), x.device())).and_then(|ones| ones.dropout(self.p, true));
        mask.and_then(|mask| x.mul(&mask)).map_err(of_layer(self.type_name()))
    }
}

/// While training, elements become −1.758 (what SELU gives for −∞) with probability `p`, and all are scaled and shifted so that mean 0 and
/// variance 1 stay, as `torch.nn.AlphaDropout`.
///
/// Klambauer et al.: *Self-Normalizing Neural Networks*, 2017.
///
/// ```
/// use rustorch_nn::{AlphaDropout, Layer};
/// use rustorch_tensor::{DType, Tensor};
/// let y = AlphaDropout::new(0.2)?.forward(&Tensor::randn([100_000], DType::F32)?)?;
/// assert!(y.mean(.., false)?.item()?.to_f64().abs() < 0.05);
/// assert!((y.var(.., 1.0, false)?.item()?.to_f64() - 1.0).abs() < 0.05);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
#[module(extra_repr = not_inplace)]
pub struct AlphaDropout {
    #[module(repr)]
    p: f64,
    training: Training,
}

impl AlphaDropout {
    /// # Errors
    /// If `p` is no probability.
    pub fn new(p: f64) -> Result<AlphaDropout> {
        expect_probability("AlphaDropout", p)?;
        Ok(AlphaDropout { p, training: Training::default() })
    }
}

impl Layer for AlphaDropout {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let p = if self.training.get() { self.p } else { 0.0 };
        alpha_dropout(x, p, x.dims()).map_err(of_layer(self.type_name()))
    }
}

/// While training, whole channels become what [`AlphaDropout`] makes of single elements, as `torch.nn.FeatureAlphaDropout`: `[n, c, ..]`.
///
/// ```
/// use rustorch_nn::{FeatureAlphaDropout, Layer};
/// use rustorch_tensor::{DType, Tensor};
/// let y = FeatureAlphaDropout::new(0.5)?.forward(&Tensor::ones([10, 10, 3], DType::F32)?)?.to_vec::<f32>()?;
/// assert!(y.chunks(3).all(|channel| channel == [channel[0]; 3]));
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Debug, rustorch_macros::Module)]
#[module(extra_repr = not_inplace)]
pub struct FeatureAlphaDropout {
    #[module(repr)]
    p: f64,
    training: Training,
}

impl FeatureAlphaDropout {
    /// # Errors
    /// If `p` is no probability.
    pub fn new(p: f64) -> Result<FeatureAlphaDropout> {
        expect_probability("FeatureAlphaDropout", p)?;
        Ok(FeatureAlphaDropout { p, training: Training::default() })
    }
}

impl Layer for FeatureAlphaDropout {
    #[rustorch_macros::observed]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if x.ndim() < 2 {
            return Err(Error::shape(self.type_name(), "takes [n, c, ..]", [x.shape()]));
        }
        let mut channels = vec![1; x.ndim()];
        channels[..2].copy_from_slice(&x.dims()[..2]);
        let p = if self.training.get() { self.p } else { 0.0 };
        alpha_dropout(x, p, &channels).map_err(of_layer(self.type_name()))
    }
}

/// Alpha dropout with a mask of a shape that broadcasts.
fn alpha_dropout(x: &Tensor, p: f64, mask: &[usize]) -> Result<Tensor> {
    // The product of SELU's two constants.
    const ALPHA: f64 = 1.758_099_340_847_376_6;
    if p == 0.0 {
        return Ok(x.clone());
    }
    if p == 1.0 {
        return x.mul(0.0);
    }
    let a = 1.0 / ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)).sqrt();
    let kept = Tensor::bernoulli(1.0 - p, mask, (x.dtype(), x.device()))?;
    // a · x + α · a · p where it is kept, else −α · a · (1 − p)
    let shift = kept.sub(1.0)?.mul(ALPHA * a)?.add(ALPHA * a * p)?;
    x.mul(&kept.mul(a)?)?.add(&shift)
}
