//! Perplexity: the exponential of the mean negative log likelihood of a text's tokens.

use super::moments::Moments;
use super::{ChunkRunner, Chunks, Estimate, EvaluateError, LogProbsWriter};
use crate::LanguageModel;
use rustorch_tensor::Tensor;

/// The likelihood of the tokens scored so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Perplexity {
    nll: Moments,
}

impl Perplexity {
    /// The perplexity.
    pub fn estimate(&self) -> Estimate {
        self.nll.estimate().exp()
    }

    /// The mean negative log likelihood of a token, in nats: the perplexity's logarithm.
    pub fn nll(&self) -> Estimate {
        self.nll.estimate()
    }

    /// How many tokens were scored.
    pub fn tokens(&self) -> usize {
        self.nll.count()
    }
}

/// The perplexity of a text. `observe` is called after each chunk with how many there were and the perplexity so far; `base` takes the log
/// probabilities of all tokens, with which [`kl_divergence`](super::kl_divergence) compares another model.
///
/// # Errors
/// If the model has no logits, cannot be run, or the log probabilities cannot be written.
pub fn perplexity(
    model: &LanguageModel,
    chunks: &Chunks,
    mut base: Option<&mut LogProbsWriter>,
    observe: &mut dyn FnMut(usize, &Perplexity),
) -> Result<Perplexity, EvaluateError> {
    let mut runner = ChunkRunner::new(model, chunks.context())?;
    let mut so_far = Perplexity::default();
    for (i, chunk) in chunks.iter().enumerate() {
        runner.score(chunk, chunks.scored(), &mut |logits, next| {
            let log_probs = logits.log_softmax(-1)?;
            for log_prob in of_tokens(&log_probs, next)? {
                so_far.nll.push(-f64::from(log_prob));
            }
            match &mut base {
                Some(base) => base.write(&log_probs.to_vec()?),
                None => Ok(()),
            }
        })?;
        observe(i + 1, &so_far);
    }
    Ok(so_far)
}

/// Of the rows of `x: [rows, vocabulary]` the value of a token each.
pub(super) fn of_tokens(x: &Tensor, tokens: &[u32]) -> Result<Vec<f32>, EvaluateError> {
    let tokens: Vec<i64> = tokens.iter().map(|&id| id.into()).collect();
    let index = Tensor::from_slice(&tokens, [tokens.len(), 1])?.to_device(x.device())?;
    Ok(x.gather(-1, &index)?.to_vec()?)
}
