//! Negative log likelihoods and divergences.

use crate::Buffer;
use crate::functional::{self, KLDivReduction};
use rustorch_tensor::{CrossEntropyOptions, Reduction, Result, Tensor};

/// The negative log likelihood of classes by their logits, as `torch.nn.CrossEntropyLoss`: see [`Tensor::cross_entropy`].
///
/// ```
/// use rustorch_nn::CrossEntropyLoss;
/// use rustorch_tensor::Tensor;
/// let logits = Tensor::new([[0.0f32, 0.0], [3.0f32.ln(), 0.0]])?;
/// let loss = CrossEntropyLoss::default().forward(&logits, &Tensor::new([1i64, 0])?)?;
/// assert!((loss.item()?.to_f64() - (2f64.ln() + (4f64 / 3.0).ln()) / 2.0).abs() < 1e-6);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
pub struct CrossEntropyLoss {
    /// `[classes]`: none.
    pub weight: Option<Buffer>,
    /// Rows whose target is this class have no loss: −100.
    pub ignore_index: i64,
    /// What becomes of the losses: their mean.
    #[module(skip)]
    pub reduction: Reduction,
    /// How much of each target is spread evenly over the classes, from 0 to 1: 0.
    pub label_smoothing: f64,
}

impl Default for CrossEntropyLoss {
    /// With PyTorch's defaults.
    fn default() -> CrossEntropyLoss {
        let CrossEntropyOptions { weight: _, ignore_index, reduction, label_smoothing } =
            CrossEntropyOptions::default();
        CrossEntropyLoss { weight: None, ignore_index, reduction, label_smoothing }
    }
}

impl CrossEntropyLoss {
    /// The loss of logits `[n, classes, ..]` with classes, or with probabilities.
    ///
    /// # Errors
    /// As [`Tensor::cross_entropy`].
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let &CrossEntropyLoss { ref weight, ignore_index, reduction, label_smoothing } = self;
        let weight = weight.as_ref().map(Buffer::tensor);
        input.cross_entropy(target, &CrossEntropyOptions { weight, ignore_index, reduction, label_smoothing })
    }
}

/// `−weight[target] · input[target]`, where the input is log-probabilities, as `torch.nn.NLLLoss`.
///
/// ```
/// use rustorch_nn::NLLLoss;
/// use rustorch_tensor::Tensor;
/// let log_probabilities = Tensor::new([[-0.5f32, -1.0], [-2.0, -0.25]])?;
/// let loss = NLLLoss::default().forward(&log_probabilities, &Tensor::new([1i64, 0])?)?;
/// assert_eq!(loss.item()?.to_f64(), 1.5);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug, rustorch_macros::Module)]
pub struct NLLLoss {
    /// `[classes]`: none.
    pub weight: Option<Buffer>,
    /// Rows whose target is this class have no loss: −100.
    pub ignore_index: i64,
    /// What becomes of the losses: their mean, weighted.
    #[module(skip)]
    pub reduction: Reduction,
}

impl Default for NLLLoss {
    /// With PyTorch's defaults.
    fn default() -> NLLLoss {
        NLLLoss { weight: None, ignore_index: -100, reduction: Reduction::Mean }
    }
}

impl NLLLoss {
    /// The loss of log-probabilities `[n, classes, ..]`, or `[classes]` of one row, with classes.
    ///
    /// # Errors
    /// As [`nll_loss`](functional::nll_loss).
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        let weight = self.weight.as_ref().map(Buffer::tensor);
        functional::nll_loss(input, target, weight.as_ref(), self.ignore_index, self.reduction)
    }
}

/// The Kullback-Leibler divergence `target · (log(target) − input)`, where the input is log-probabilities, as `torch.nn.KLDivLoss`.
///
/// ```
/// use rustorch_nn::{KLDivLoss, functional::KLDivReduction};
/// use rustorch_tensor::Tensor;
/// let (x, y) = (Tensor::new([[0.5f32, 0.5]])?.log()?, Tensor::new([[1.0f32, 0.0]])?);
/// let loss = KLDivLoss { reduction: KLDivReduction::BatchMean, ..Default::default() }.forward(&x, &y)?;
/// assert!((loss.item()?.to_f64() - 2f64.ln()).abs() < 1e-6);
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, rustorch_macros::Module)]
pub struct KLDivLoss {
    /// What becomes of the terms: their mean. The divergence is [`KLDivReduction::BatchMean`].
    #[module(skip)]
    pub reduction: KLDivReduction,
    /// Whether the target is log-probabilities, too: no.
    pub log_target: bool,
}

impl KLDivLoss {
    /// The loss.
    ///
    /// # Errors
    /// As [`kl_div`](functional::kl_div).
    pub fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
        functional::kl_div(input, target, self.reduction, self.log_target)
    }
}

losses! {
    /// `exp(input) − target · input`, the negative log likelihood of counts by the logarithm of their rate, as
    /// `torch.nn.PoissonNLLLoss`.
    ///
    /// ```
    /// use rustorch_nn::PoissonNLLLoss;
    /// use rustorch_tensor::Tensor;
    /// let loss = PoissonNLLLoss::default().forward(&Tensor::new([0.0f32])?, &Tensor::new([3.0f32])?)?;
    /// assert_eq!(loss.item()?.to_f64(), 1.0);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    PoissonNLLLoss {
        /// Whether the input is the logarithm of the rate; else the loss is `input − target · log(input + eps)`: yes.
        log_input: bool = true,
        /// Whether Stirling's term is added: no.
        full: bool = false,
        /// What keeps the logarithm finite: 1e-8.
        eps: f64 = 1e-8,
    } (input, target) => poisson_nll_loss;

    /// `(log(var) + (input − target)² / var) / 2`, as `torch.nn.GaussianNLLLoss`.
    ///
    /// ```
    /// use rustorch_nn::GaussianNLLLoss;
    /// use rustorch_tensor::Tensor;
    /// let (x, y, var) = (Tensor::new([3.0f32])?, Tensor::new([1.0f32])?, Tensor::new([1.0f32])?);
    /// assert_eq!(GaussianNLLLoss::default().forward(&x, &y, &var)?.item()?.to_f64(), 2.0);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    GaussianNLLLoss {
        /// Whether `log(2π) / 2` is added: no.
        full: bool = false,
        /// The least variance: 1e-6.
        eps: f64 = 1e-6,
    } (input, target, var) => gaussian_nll_loss;
}
