//! How far a model's probabilities are from those of another one: the Kullback–Leibler divergence.

use super::moments::Moments;
use super::perplexity::of_tokens;
use super::{ChunkRunner, Estimate, EvaluateError, LogProbsReader};
use crate::LanguageModel;
use rustorch_tensor::Tensor;

/// Probabilities of the base whose logarithms are not above this contribute nothing.
const LEAST_LOG_PROB: f32 = -16.0;

/// What was measured on the tokens scored so far. *Base* is the model whose log probabilities are in the file.
#[derive(Clone, Debug, Default)]
pub struct KlDivergence {
    nll: Moments,
    base_nll: Moments,
    /// Sums of products of both.
    nll_products: f64,
    divergence: Moments,
    probability_difference: Moments,
    /// Of its square.
    square_difference: Moments,
    same_top: usize,
    divergences: Vec<f32>,
    differences: Vec<f32>,
}

impl KlDivergence {
    /// How many tokens were scored.
    pub fn tokens(&self) -> usize {
        self.divergences.len()
    }

    /// The model's perplexity.
    pub fn perplexity(&self) -> Estimate {
        self.nll.estimate().exp()
    }

    /// The base's perplexity.
    pub fn base_perplexity(&self) -> Estimate {
        self.base_nll.estimate().exp()
    }

    /// The logarithm of the ratio of the model's perplexity to the base's.
    pub fn log_ratio(&self) -> Estimate {
        self.nll.estimate().minus(self.base_nll.estimate(), self.covariance())
    }

    /// The ratio of the model's perplexity to the base's.
    pub fn ratio(&self) -> Estimate {
        self.log_ratio().exp()
    }

    /// The model's perplexity less the base's.
    pub fn difference(&self) -> Estimate {
        let (own, base) = (self.perplexity(), self.base_perplexity());
        own.minus(base, own.value * base.value * self.covariance())
    }

    /// The correlation of both models' log likelihoods.
    pub fn correlation(&self) -> f64 {
        self.covariance() / (self.nll.estimate().uncertainty * self.base_nll.estimate().uncertainty)
    }

    /// The mean divergence of a token's distribution from the base's, in nats.
    pub fn mean(&self) -> Estimate {
        self.divergence.estimate()
    }

    /// The divergences of all tokens.
    pub fn divergences(&self) -> Distribution {
        Distribution::of(&self.divergences)
    }

    /// By how much the probability of the text's token exceeds that of the base: the mean.
    pub fn probability_difference(&self) -> Estimate {
        self.probability_difference.estimate()
    }

    /// The root of its mean square.
    pub fn rms_probability_difference(&self) -> Estimate {
        let square = self.square_difference.estimate();
        let value = square.value.sqrt();
        let uncertainty = if value > 0.0 { 0.5 / value * square.uncertainty } else { 0.0 };
        Estimate { value, uncertainty }
    }

    /// The differences of all tokens' probabilities.
    pub fn probability_differences(&self) -> Distribution {
        Distribution::of(&self.differences)
    }

    /// The share of tokens for which both models take the same one to be the likeliest.
    pub fn same_top(&self) -> Estimate {
        let count = self.tokens().max(1) as f64;
        let value = self.same_top as f64 / count;
        Estimate { value, uncertainty: (value * (1.0 - value) / (count - 1.0).max(1.0)).sqrt() }
    }

    /// Of the means of both negative log likelihoods.
    fn covariance(&self) -> f64 {
        let count = self.tokens().max(1) as f64;
        (self.nll_products / count - self.nll.mean() * self.base_nll.mean()) / (count - 1.0).max(1.0)
    }

    /// Takes the logits `[rows, vocabulary]`, the base's log probabilities of the same shape, and the tokens that follow.
    fn push(&mut self, logits: &Tensor, base: &Tensor, next: &[u32]) -> Result<(), EvaluateError> {
        let log_probs = logits.log_softmax(-1)?;
        let terms = base.exp()?.mul(&base.sub(&log_probs)?)?;
        let divergences = base.gt(LEAST_LOG_PROB)?.where_cond(&terms, 0.0f32)?.sum(-1, false)?;
        let same = log_probs.argmax(-1, false)?.eq(&base.argmax(-1, false)?)?;
        self.same_top += same.to_vec::<bool>()?.into_iter().filter(|&same| same).count();
        for divergence in divergences.to_vec::<f32>()? {
            self.divergence.push(divergence.into());
            self.divergences.push(divergence);
        }
        for (own, base) in of_tokens(&log_probs, next)?.into_iter().zip(of_tokens(base, next)?) {
            let (nll, base_nll) = (-f64::from(own), -f64::from(base));
            self.nll.push(nll);
            self.base_nll.push(base_nll);
            self.nll_products += nll * base_nll;
            let difference = own.exp() - base.exp();
            self.probability_difference.push(difference.into());
            self.square_difference.push(f64::from(difference).powi(2));
            self.differences.push(difference);
        }
        Ok(())
    }
}

/// Values in their order.
#[derive(Clone, Debug)]
pub struct Distribution {
    sorted: Vec<f32>,
}

impl Distribution {
    fn of(values: &[f32]) -> Distribution {
        let mut sorted = values.to_vec();
        sorted.sort_by(f32::total_cmp);
        Distribution { sorted }
    }

    /// The value below which a fraction of all are, between two of them by linear interpolation: 0 gives the least, 0.5 the median, 1 the largest. Of no
    /// values 0.
    pub fn quantile(&self, fraction: f32) -> f32 {
        let Some(last) = self.sorted.len().checked_sub(1) else { return 0.0 };
        let place = fraction.clamp(0.0, 1.0) * last as f32;
        let below = (place as usize).min(last);
        let share = place - below as f32;
        (1.0 - share) * self.sorted[below] + share * self.sorted[(below + 1).min(last)]
    }
}

/// The divergence of a model from the one whose log probabilities `base` has, over the text of these. `observe` is called after each chunk with how many
/// there were and what was measured so far.
///
/// # Errors
/// If the vocabularies differ, the file cannot be read, or the model cannot be run.
pub fn kl_divergence(
    model: &LanguageModel,
    base: &mut LogProbsReader,
    observe: &mut dyn FnMut(usize, &KlDivergence),
) -> Result<KlDivergence, EvaluateError> {
    let vocabulary = model.model().config().vocabulary;
    if base.vocabulary() != vocabulary {
        return Err(EvaluateError::Vocabulary { base: base.vocabulary(), model: vocabulary });
    }
    let chunks = base.chunks().clone();
    let mut runner = ChunkRunner::new(model, chunks.context())?;
    let mut so_far = KlDivergence::default();
    for (i, chunk) in chunks.iter().enumerate() {
        runner.score(chunk, chunks.scored(), &mut |logits, next| {
            let base = Tensor::from_slice(&base.read(next.len())?, [next.len(), vocabulary])?;
            so_far.push(&logits, &base.to_device(logits.device())?, next)
        })?;
        observe(i + 1, &so_far);
    }
    Ok(so_far)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let values = Distribution::of(&[4.0, 1.0, 2.0, 8.0]);
        assert_eq!([0.0, 0.5, 1.0].map(|f| values.quantile(f)), [1.0, 3.0, 8.0]);
        assert_eq!(values.quantile(0.25), 1.75);
        assert_eq!(Distribution::of(&[]).quantile(0.5), 0.0);
    }
}
