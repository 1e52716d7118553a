//! Muon.

use super::adam::running_mean;
use super::options::{OptionValue, options};
use super::rule::{expect, expect_not_negative, expect_real};
use super::{Optimizer, Rule, Step};
use rustorch_tensor::{DType, Error, Result, Tensor};

/// Steps along running means of gradients whose singular values are brought near 1, for the matrices of hidden layers, as
/// `torch.optim.Muon`. Jordan and others: *Muon: An optimizer for hidden layers in neural networks*, 2024.
///
/// Parameters must be real and have 2 dimensions: [`AdamW`](super::AdamW) is for the others, and for embeddings.
pub type Muon = Optimizer<MuonOptions>;

/// How the learning rate of [`Muon`] depends on the shape of a matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdjustLr {
    /// Times √max(1, rows / columns).
    #[default]
    Original,
    /// Times 0.2 √max(rows, columns): steps have the root mean square of [`AdamW`](super::AdamW)'s, so that its rate and decay suit. Liu
    /// and others: *Muon is Scalable for LLM Training*, 2025.
    MatchRmsAdamw,
    /// Times √(rows / columns). Bernstein: *Deriving Muon*, 2025.
    SpectralUnclamped,
}

impl AdjustLr {
    /// All, in the order of their numbers as options.
    const ALL: [AdjustLr; 3] = [AdjustLr::Original, AdjustLr::MatchRmsAdamw, AdjustLr::SpectralUnclamped];

    /// What the rate is multiplied by.
    fn factor(self, rows: f64, columns: f64) -> f64 {
        match self {
            AdjustLr::Original => (rows / columns).max(1.0).sqrt(),
            AdjustLr::MatchRmsAdamw => 0.2 * rows.max(columns).sqrt(),
            AdjustLr::SpectralUnclamped => (rows / columns).sqrt(),
        }
    }
}

/// The numbers 0, 1 and 2, in the order above.
impl OptionValue for AdjustLr {
    fn numbers(&self) -> Vec<(String, f64)> {
        vec![(String::new(), f64::from(*self as u8))]
    }

    fn set_number(&mut self, rest: &str, number: f64) -> bool {
        match AdjustLr::ALL.into_iter().find(|adjust| f64::from(*adjust as u8) == number) {
            Some(adjust) if rest.is_empty() => *self = adjust,
            _ => return false,
        }
        true
    }
}

options! {
    /// Options of [`Muon`], with PyTorch's defaults.
    MuonOptions {
        /// Learning rate: 1e-3.
        lr: f64 = 1e-3,
        /// How much weights decay, apart from their gradients: 0.1.
        weight_decay: f64 = 0.1,
        /// How much of the running mean of gradients remains: 0.95.
        momentum: f64 = 0.95,
        /// Whether to step along the mean that the next gradient would leave if it were as this one.
        nesterov: bool = true,
        /// The coefficients of a singular value's first, third and fifth power in each iteration: 3.4445, −4.775 and 2.0315.
        ns_coefficients: (f64, f64, f64) = (3.4445, -4.775, 2.0315),
        /// The least norm that the first matrix is divided by: 1e-7.
        eps: f64 = 1e-7,
        /// How many iterations of Newton and Schulz bring singular values near 1, less than 100: 5.
        ns_steps: usize = 5,
        /// How the learning rate depends on the shape.
        adjust_lr_fn: AdjustLr = AdjustLr::Original,
    }
}

/// The nearest values of 8 significant bits, in single precision.
fn round(x: &Tensor) -> Result<Tensor> {
    x.to_dtype(DType::BF16)?.to_dtype(DType::F32)
}

impl MuonOptions {
    /// A matrix with singular values near 1 and the same singular vectors. As in PyTorch each matrix is rounded to `BF16`, a sum with a
    /// matmul once: so they are multiplied in single precision, which takes their sums in full.
    fn orthogonalize(&self, x: &Tensor) -> Result<Tensor> {
        let (a, b, c) = self.ns_coefficients;
        let tall = x.dims()[0] > x.dims()[1];
        let x = round(&x.to_dtype(DType::F32)?)?;
        let mut x = if tall { x.t()? } else { x };
        let norm = round(&x.norm(2.0, [0, 1], false)?)?;
        x = round(&x.div(&round(&norm.clamp_min(self.eps)?)?)?)?;
        for _ in 0..self.ns_steps {
            let gram = round(&x.matmul(&x.t()?)?)?;
            let polynomial = round(&gram.mul(b)?.add(&gram.matmul(&gram)?.mul(c)?)?)?;
            x = round(&x.mul(a)?.add(&polynomial.matmul(&x)?)?)?;
        }
        if tall { x.t() } else { Ok(x) }
    }
}

impl Rule for MuonOptions {
    const NAME: &'static str = "Muon";

    fn check(&self) -> Result<()> {
        let options = [("lr", self.lr), ("weight_decay", self.weight_decay), ("eps", self.eps)];
        expect_not_negative(Self::NAME, &options)?;
        expect_not_negative(Self::NAME, &[("momentum", self.momentum)])?;
        expect(Self::NAME, "ns_steps", self.ns_steps as f64, self.ns_steps < 100, "less than 100")
    }

    fn check_parameter(&self, name: &str, parameter: &Tensor) -> Result<()> {
        if parameter.ndim() != 2 {
            let message = format!(
                "the parameter `{name}` has shape {}, it must have 2 dimensions: give it to another optimizer such as AdamW",
                parameter.shape()
            );
            return Err(Error::argument(Self::NAME, message));
        }
        expect_real(Self::NAME, name, parameter)
    }

    fn update(&self, step: &mut Step<'_>) -> Result<()> {
        let mean = running_mean(step, "momentum_buffer", self.momentum)?;
        let update = if self.nesterov { step.grad().lerp(&mean, self.momentum)? } else { mean };
        let x = step.parameter();
        let update = self.orthogonalize(&update)?.to_dtype(x.dtype())?;
        let factor = self.adjust_lr_fn.factor(x.dims()[0] as f64, x.dims()[1] as f64);
        step.decay(self.lr, self.weight_decay)?;
        x.sub_(&update.mul(self.lr * factor)?)
    }
}
