//! The parts that architectures are made of.
//!
//! Parts hand two tensors `[n, embedding]` along: the *residual stream*, and a *branch*, which starts as the residual stream. A part
//! computes the next branch from the branch, and [`Part::Add`] adds it to the residual stream. Tensor names lack the prefix `blk.N.` of
//! a block, and `.weight`.

use super::Factor;
use rustorch_core::{GluOp, RopeStyle};

/// One step of a model.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// The rows of a table that the token ids choose.
    Embedding(&'static str),
    /// Normalisation.
    Norm(Norm),
    /// Attention over the tokens so far.
    Attention(Attention),
    /// A feed-forward network.
    Mlp(Mlp),
    /// A mixture of experts.
    Experts(Experts),
    /// Branches that start alike; their sum.
    Parallel(&'static [&'static [Part]]),
    /// The branch becomes part of the residual stream.
    Add,
    /// A factor from the configuration.
    Scale(Factor),
    /// The layer that gives the logits.
    Output(Output),
}

/// `x / √(mean(x²) + eps) · weight`.
#[derive(Clone, Copy, Debug)]
pub struct Norm {
    /// The weight.
    pub tensor: &'static str,
}

/// Grouped-query attention.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// Projection to queries.
    pub query: Linear,
    /// Projection to keys.
    pub key: Linear,
    /// Projection to values.
    pub value: Linear,
    /// Norm of the queries before rotation.
    pub query_norm: Option<Norm>,
    /// Norm of the keys before rotation.
    pub key_norm: Option<Norm>,
    /// Rotary position embedding.
    pub rope: Rope,
    /// The factor of the scores.
    pub scale: Factor,
    /// Projection of the heads' results.
    pub output: Linear,
}

/// Rotary position embedding of queries and keys.
#[derive(Clone, Copy, Debug)]
pub struct Rope {
    /// Which elements are rotated together.
    pub style: RopeStyle,
    /// Divisors of the frequencies, one tensor for all blocks, used where the file has them.
    pub factors: Option<&'static str>,
}

/// A linear layer.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    /// The tensor's name.
    pub name: &'static str,
    /// Whether it has a bias.
    pub bias: Bias,
}

/// Whether a layer has a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// Never.
    None,
    /// Where the file has one.
    Optional,
    /// Always; a file without it is broken.
    Required,
}

/// `down(act(gate(x)) · up(x))`.
#[derive(Clone, Copy, Debug)]
pub struct Mlp {
    /// Projection to the gate.
    pub gate: Linear,
    /// Projection to the gated values.
    pub up: Linear,
    /// Projection back.
    pub down: Linear,
    /// The activation of the gate.
    pub activation: GluOp,
    /// Whether scales that a file keeps beside these weights count. llama.cpp passes them over in some architectures.
    pub scaled: bool,
}

/// A mixture of experts: the router's softmax picks `expert_used_count` networks for each token and weights their results.
#[derive(Clone, Copy, Debug)]
pub struct Experts {
    /// The router.
    pub router: &'static str,
    /// The experts' gates, `[experts, ff, dim]`.
    pub gate: &'static str,
    /// The experts' gated values, `[experts, ff, dim]`.
    pub up: &'static str,
    /// The experts' projections back, `[experts, dim, ff]`.
    pub down: &'static str,
    /// The activation of the gates.
    pub activation: GluOp,
    /// Whether the weights of the chosen experts are scaled to sum to 1.
    pub normalize: bool,
}

/// The layer that gives the logits.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// The layer.
    pub linear: Linear,
    /// The table of embeddings, which serves where the file lacks the layer's matrix (tied weights).
    pub tied: Option<&'static str>,
}

impl Linear {
    /// A layer without bias.
    pub const fn plain(name: &'static str) -> Linear {
        Linear { name, bias: Bias::None }
    }

    /// A layer with a bias where the file has one.
    pub const fn maybe_biased(name: &'static str) -> Linear {
        Linear { name, bias: Bias::Optional }
    }

    /// A layer with a bias.
    pub const fn biased(name: &'static str) -> Linear {
        Linear { name, bias: Bias::Required }
    }
}

impl Norm {
    /// RMS norm with a weight.
    pub const fn rms(tensor: &'static str) -> Norm {
        Norm { tensor }
    }
}

impl Part {
    /// RMS norm with a weight, as a part.
    pub const fn rms(tensor: &'static str) -> Part {
        Part::Norm(Norm::rms(tensor))
    }
}
