//! Recurrent parts, as architectures describe them.

use super::Linear;
use rustorch_core::HeadBroadcast;

/// A gated delta network: a short causal convolution of queries, keys and values, the gated delta rule over them, and a gated norm of each
/// head. Sizes are those of the metadata (`ssm.*`).
#[derive(Clone, Copy, Debug)]
pub struct DeltaNet {
    /// Projection to queries, keys and values, one behind the other.
    pub qkv: Linear,
    /// Projection to the gate of the results.
    pub gate: Linear,
    /// The convolution's kernels, `[channels, kernel]`.
    pub convolution: &'static str,
    /// Where decays and the strengths of updates come from.
    pub rates: DeltaRates,
    /// Added to what decays are computed from, with its suffix.
    pub dt_bias: &'static str,
    /// The factor of each head's decay, with its suffix if any.
    pub a: &'static str,
    /// The weight of the norm of each head's results.
    pub norm: &'static str,
    /// Projection of the heads' results.
    pub output: Linear,
    /// Which queries and keys go with each head of values.
    pub broadcast: HeadBroadcast,
}

/// The projections that give each head its decay (alpha) and the strength of its update (beta).
#[derive(Clone, Copy, Debug)]
pub enum DeltaRates {
    /// Two of them.
    Separate {
        /// To beta.
        beta: Linear,
        /// To alpha.
        alpha: Linear,
    },
    /// One: for each head of keys the betas of its heads of values, then their alphas.
    Interleaved(Linear),
}
