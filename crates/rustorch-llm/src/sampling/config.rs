//! Settings of a sampler, and what can be wrong with them.

use thiserror::Error;

/// How to choose the next token. The defaults are llama.cpp's.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerConfig {
    /// Divides the logits: below 1 the likely tokens gain, above 1 the unlikely ones. 0 takes the most likely token.
    pub temperature: f32,
    /// Keep this many most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the most likely tokens until their probabilities sum to this; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens at least this times as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Divides positive logits of recent tokens and multiplies negative ones; 1 does nothing.
    pub repeat_penalty: f32,
    /// How many of the last tokens count as recent for all penalties; 0 turns penalties off.
    pub repeat_last_n: usize,
    /// Subtracted from the logits of recent tokens.
    pub presence_penalty: f32,
    /// Subtracted from the logits of recent tokens once per occurrence.
    pub frequency_penalty: f32,
    /// Added to the logits of single tokens; −∞ forbids a token.
    pub logit_bias: Vec<(u32, f32)>,
    /// Same seed, same choices.
    pub seed: u64,
}

impl Default for SamplerConfig {
    fn default() -> Self {
        SamplerConfig {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

/// What is wrong with a sampler's settings, or with the logits it was given.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// A setting is out of range.
    #[error("{name} = {value} is out of range: it must be {range}")]
    OutOfRange {
        /// The field of [`SamplerConfig`].
        name: &'static str,
        /// Its value.
        value: f32,
        /// What is allowed, in words.
        range: &'static str,
    },
    /// The model gave no logits.
    #[error("there are no logits to choose from")]
    Empty,
    /// No token can be chosen: all logits are NaN or −∞.
    #[error(
        "all {count} logits are NaN or -infinity ({nan} NaN); the model's computation went wrong, or every token is forbidden"
    )]
    NoCandidate {
        /// Number of logits.
        count: usize,
        /// How many of them are NaN.
        nan: usize,
    },
}

impl SamplerConfig {
    /// Always the most likely token.
    pub fn greedy() -> SamplerConfig {
        SamplerConfig { temperature: 0.0, ..SamplerConfig::default() }
    }

    /// # Errors
    /// [`SamplingError::OutOfRange`] for the first setting that is.
    pub fn validate(&self) -> Result<(), SamplingError> {
        let unit = |v: f32| (0.0..=1.0).contains(&v);
        for (name, value, good, range) in [
            (
                "temperature",
                self.temperature,
                self.temperature.is_finite() && self.temperature >= 0.0,
                "a number from 0 up",
            ),
            ("top_p", self.top_p, unit(self.top_p), "between 0 and 1"),
            ("min_p", self.min_p, unit(self.min_p), "between 0 and 1"),
            (
                "repeat_penalty",
                self.repeat_penalty,
                self.repeat_penalty.is_finite() && self.repeat_penalty > 0.0,
                "a number above 0",
            ),
            ("presence_penalty", self.presence_penalty, self.presence_penalty.is_finite(), "a finite number"),
            (
                "frequency_penalty",
                self.frequency_penalty,
                self.frequency_penalty.is_finite(),
                "a finite number",
            ),
        ] {
            if !good {
                return Err(SamplingError::OutOfRange { name, value, range });
            }
        }
        for &(_, value) in &self.logit_bias {
            if value.is_nan() || value == f32::INFINITY {
                let range = "a finite number or -infinity";
                return Err(SamplingError::OutOfRange { name: "logit_bias", value, range });
            }
        }
        Ok(())
    }

    /// Whether recent tokens change the logits.
    pub(super) fn penalizes(&self) -> bool {
        self.repeat_last_n > 0
            && (self.repeat_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0)
    }
}
