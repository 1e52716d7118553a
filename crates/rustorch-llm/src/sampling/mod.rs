//! Choosing the next token from a model's logits.
//!
//! The steps and their order are those of llama.cpp's default chain: bias, penalties for recent tokens, top-k, top-p,
//! min-p, temperature, and a draw from what is left. The draw comes from a counter-based generator (Philox 4x32-10):
//! the n-th choice of a seed uses the n-th block, on any machine and with any number of threads.
//!
//! ```
//! use rustorch_llm::sampling::{Sampler, SamplerConfig};
//!
//! let mut greedy = Sampler::new(SamplerConfig::greedy())?;
//! assert_eq!(greedy.sample(&[0.5, 2.0, 1.0], &[])?, 1);
//!
//! let config = SamplerConfig { temperature: 1.0, seed: 7, ..SamplerConfig::default() };
//! let mut sampler = Sampler::new(config.clone())?;
//! let mut again = Sampler::new(config)?;
//! for _ in 0..10 {
//!     assert_eq!(sampler.sample(&[0.5, 2.0, 1.0], &[])?, again.sample(&[0.5, 2.0, 1.0], &[])?);
//! }
//! # Ok::<(), rustorch_llm::sampling::SamplingError>(())
//! ```

mod candidates;
mod config;

pub use candidates::Candidate;
pub use config::{SamplerConfig, SamplingError};

use candidates::Candidates;
use rustorch_core::{PhiloxKey, unit_f64};

/// Chooses tokens. Its buffers are reused, so after the first token nothing is allocated.
#[derive(Clone, Debug)]
pub struct Sampler {
    config: SamplerConfig,
    /// How many tokens were chosen.
    step: u64,
    logits: Vec<f32>,
    recent: Vec<u32>,
    candidates: Candidates,
}

impl Sampler {
    /// A sampler at the start of its seed's sequence.
    ///
    /// # Errors
    /// [`SamplingError::OutOfRange`] where a setting is.
    pub fn new(config: SamplerConfig) -> Result<Sampler, SamplingError> {
        config.validate()?;
        Ok(Sampler {
            config,
            step: 0,
            logits: Vec::new(),
            recent: Vec::new(),
            candidates: Candidates::default(),
        })
    }

    /// The settings.
    pub fn config(&self) -> &SamplerConfig {
        &self.config
    }

    /// Goes back to the start of the seed's sequence.
    pub fn reset(&mut self) {
        self.step = 0;
    }

    /// Chooses a token. `logits` has one entry per token of the vocabulary; `recent` are the tokens so far, the latest
    /// last, of which the last `repeat_last_n` are penalized (ids outside `logits` are ignored).
    ///
    /// A NaN logit counts as −∞: the token is never chosen. Tokens with +∞ are chosen from alone, all alike. At
    /// temperature 0 the greatest logit wins, the smallest id among equals. Each call that succeeds uses one block of
    /// random bits, however many candidates there are.
    ///
    /// # Errors
    /// [`SamplingError::Empty`] without logits, [`SamplingError::NoCandidate`] where all are NaN or −∞.
    pub fn sample(&mut self, logits: &[f32], recent: &[u32]) -> Result<u32, SamplingError> {
        let chosen = if self.config.temperature == 0.0 {
            if self.changes_logits() {
                self.adjust(logits, recent);
                greatest(&self.logits)
            } else {
                greatest(logits)
            }
        } else {
            self.prepare(logits, recent);
            let [low, high, ..] = PhiloxKey { seed: self.config.seed, offset: self.step }.block(0);
            self.candidates.pick(unit_f64(low, high))
        };
        let token = chosen.ok_or_else(|| no_candidate(logits))?;
        self.step = self.step.wrapping_add(1);
        Ok(token)
    }

    /// The tokens that [`Sampler::sample`] would choose from, with their probabilities, likeliest first where top-k or
    /// top-p sorted them. Uses no random bits. At temperature 0 it is the one token.
    ///
    /// # Errors
    /// As [`Sampler::sample`].
    pub fn distribution(&mut self, logits: &[f32], recent: &[u32]) -> Result<&[Candidate], SamplingError> {
        self.prepare(logits, recent);
        if self.candidates.as_slice().is_empty() {
            Err(no_candidate(logits))
        } else {
            Ok(self.candidates.as_slice())
        }
    }

    fn changes_logits(&self) -> bool {
        self.config.penalizes() || !self.config.logit_bias.is_empty()
    }

    fn prepare(&mut self, logits: &[f32], recent: &[u32]) {
        let greedy = self.config.temperature == 0.0;
        let top_k = if greedy { 1 } else { self.config.top_k };
        if self.changes_logits() {
            self.adjust(logits, recent);
            self.candidates.fill(&self.logits, top_k);
        } else {
            self.candidates.fill(logits, top_k);
        }
        self.candidates.top_p(self.config.top_p);
        self.candidates.min_p(self.config.min_p);
        self.candidates.softmax(if greedy { 1.0 } else { self.config.temperature });
    }

    /// Writes the logits with bias and penalties to `self.logits`.
    fn adjust(&mut self, logits: &[f32], recent: &[u32]) {
        let Sampler { config, logits: adjusted, recent: window, .. } = self;
        adjusted.clear();
        adjusted.extend_from_slice(logits);
        for &(id, bias) in &config.logit_bias {
            if let Some(logit) = adjusted.get_mut(id as usize) {
                *logit += bias;
            }
        }
        if !config.penalizes() {
            return;
        }
        window.clear();
        window.extend_from_slice(&recent[recent.len().saturating_sub(config.repeat_last_n)..]);
        window.sort_unstable();
        for occurrences in window.chunk_by(|a, b| a == b) {
            let Some(logit) = adjusted.get_mut(occurrences[0] as usize) else { continue };
            if *logit <= 0.0 {
                *logit *= config.repeat_penalty;
            } else {
                *logit /= config.repeat_penalty;
            }
            *logit -= occurrences.len() as f32 * config.frequency_penalty + config.presence_penalty;
        }
    }
}

/// Position of the greatest logit that is neither NaN nor −∞, the first of equals.
fn greatest(logits: &[f32]) -> Option<u32> {
    let mut best = f32::NEG_INFINITY;
    let mut found = None;
    for (&logit, id) in logits.iter().zip(0u32..) {
        if logit > best {
            best = logit;
            found = Some(id);
        }
    }
    found
}

fn no_candidate(logits: &[f32]) -> SamplingError {
    if logits.is_empty() {
        return SamplingError::Empty;
    }
    let nan = logits.iter().filter(|logit| logit.is_nan()).count();
    SamplingError::NoCandidate { count: logits.len(), nan }
}
