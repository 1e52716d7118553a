//! Attention, as architectures describe it.

use super::{Factor, Linear, Norm, NormKind};
use rustorch_core::RopeStyle;

/// Grouped-query attention. Its window, heads and their sizes are those of the block in the metadata.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// Projection to queries.
    pub query: Linear,
    /// Projection to keys.
    pub key: Linear,
    /// Projection to values.
    pub value: Linear,
    /// One layer that has the rows of the three, where the file has it.
    pub fused: Linear,
    /// Norm of the queries.
    pub query_norm: Option<HeadNorm>,
    /// Norm of the keys.
    pub key_norm: Option<HeadNorm>,
    /// Whether the values of each head are divided by their root mean square. Where the file has no projection to values, they are the keys.
    pub value_norm: bool,
    /// Whether queries and keys are rotated before their norms.
    pub norm_after_rope: bool,
    /// Rotary position embedding, if any.
    pub rope: Option<Rope>,
    /// The factor of the scores.
    pub scale: Factor,
    /// The metadata key of a limit of the absolute values of queries, keys and values, which have none without it.
    pub clamp: Option<&'static str>,
    /// ALiBi: the largest slope's exponent, `2^-max/n` for the first of `n` heads, by which scores decrease with the distance of the key;
    /// 0 is none.
    pub alibi: Option<Factor>,
    /// The metadata key of a soft cap of the scores, which have none without it.
    pub softcap: Option<&'static str>,
    /// A score of each head that takes part in the softmax and has no value: `[heads]`.
    pub sinks: Option<&'static str>,
    /// How queries far from the beginning are scaled up, if they are.
    pub temperature: Option<Temperature>,
    /// Whether the projection to queries gives each head a gate behind its query, whose sigmoid is a factor of the head's result.
    pub gated: bool,
    /// Projection of the heads' results.
    pub output: Linear,
}

/// Multi-head latent attention (DeepSeek 2): keys and values of all heads are made of one latent vector for each token, which is what the
/// cache holds, with a rotated part that all heads share. Projections from the latent vector to keys and values are applied to queries and
/// results instead.
#[derive(Clone, Copy, Debug)]
pub struct LatentAttention {
    /// Projection to queries, where these have no latent vector.
    pub query: Linear,
    /// Projection to the queries' latent vector, its norm, and the projection from there.
    pub query_latent: (Linear, Norm, Linear),
    /// Projection to the latent vector of keys and values, and to the rotated part of keys.
    pub latent: Linear,
    /// Norm of the latent vector.
    pub latent_norm: Norm,
    /// The projection from the latent vector to the keys of each head, transposed: `[heads, latent, key]`.
    pub key: Linear,
    /// The projection from the latent vector to the values of each head: `[heads, value, latent]`.
    pub value: Linear,
    /// Rotation of the last elements of queries and keys.
    pub rope: Rope,
    /// Projection of the heads' results.
    pub output: Linear,
}

/// Rotary position embedding of queries and keys.
#[derive(Clone, Copy, Debug)]
pub struct Rope {
    /// Which elements are rotated together.
    pub style: RopeStyle,
    /// Whether frequencies are divided by factors, where the file has them: `rope_freqs`, or `rope_factors_long` where the context is longer
    /// than the original one and `rope_factors_short` where not.
    pub factors: bool,
    /// What differs in blocks that have a window.
    pub windowed: WindowedRope,
    /// Whether YaRN's magnitude is no factor of what is rotated, but the attention's business.
    pub without_magnitude: bool,
}

/// Rotation in blocks that have a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WindowedRope {
    /// As in others, but for a base of their own where the metadata has one (`rope.freq_base_swa`).
    Same,
    /// Never scaled for a longer context, and without factors.
    Unscaled {
        /// The base where the metadata has none; that of other blocks if not given.
        base: Option<f32>,
    },
}

/// The factor of queries: `1 + scale · ln(1 + ⌊position / floor⌋)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Temperature {
    /// As the metadata says; 1 where it does not.
    Metadata,
    /// By these, with positions from 1.
    Fixed {
        /// The scale.
        scale: f32,
        /// The floor.
        floor: usize,
    },
}

/// Normalisation of queries or keys, with a bias where the file has it.
#[derive(Clone, Copy, Debug)]
pub struct HeadNorm {
    /// How.
    pub kind: NormKind,
    /// The weight; all ones if not given.
    pub tensor: Option<&'static str>,
    /// Of what.
    pub span: NormSpan,
    /// Whether there is none where the file lacks the weight.
    pub optional: bool,
}

/// What is normalised together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormSpan {
    /// Each head, with one weight for all: `[length]`.
    Head,
    /// Each head, with a weight of its own: `[heads, length]`.
    EachHead,
    /// All heads together: `[heads · length]`.
    AllHeads,
}

impl HeadNorm {
    /// Layer norm of each head with a weight of its own.
    pub const fn layer(tensor: &'static str) -> HeadNorm {
        HeadNorm { kind: NormKind::Layer, tensor: Some(tensor), span: NormSpan::EachHead, optional: false }
    }

    /// RMS norm of each head without a weight.
    pub const UNWEIGHTED: HeadNorm =
        HeadNorm { kind: NormKind::Rms, tensor: None, span: NormSpan::Head, optional: false };

    /// Where the file has it.
    pub const fn optional(self) -> HeadNorm {
        HeadNorm { optional: true, ..self }
    }

    /// RMS norm of each head.
    pub const fn rms(tensor: &'static str) -> HeadNorm {
        HeadNorm { kind: NormKind::Rms, tensor: Some(tensor), span: NormSpan::Head, optional: false }
    }

    /// RMS norm of all heads together.
    pub const fn whole(tensor: &'static str) -> HeadNorm {
        HeadNorm { kind: NormKind::Rms, tensor: Some(tensor), span: NormSpan::AllHeads, optional: false }
    }
}

impl Rope {
    /// Rotation that is the same in all blocks.
    pub const fn new(style: RopeStyle) -> Rope {
        Rope { style, factors: false, windowed: WindowedRope::Same, without_magnitude: false }
    }

    /// With frequency factors, where the file has them.
    pub const fn with_factors(self) -> Rope {
        Rope { factors: true, ..self }
    }
}
