//! Architectures, each a declarative description that one decoder runs.
//!
//! A description says which tensors a block has, how they are named, and which variant of each part it uses. Everything
//! numeric (sizes, heads, frequencies) comes from the file's metadata. Adding an architecture made of known parts is one
//! new file with one constant.

mod llama;
mod qwen2;
mod qwen3;
mod qwen3moe;

use rustorch_core::{GluOp, RopeStyle};

/// A decoder-only transformer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Architecture {
    /// The name in `general.architecture`, and the prefix of the metadata keys.
    pub name: &'static str,
    /// The token embedding table.
    pub embedding: &'static str,
    /// One block; all are alike.
    pub block: Block,
    /// The norm after the last block.
    pub output_norm: &'static str,
    /// The layer that gives the logits. Where a file lacks its matrix, the embedding table serves (tied weights).
    pub output: Linear,
}

/// A pre-norm residual block: `x + attention(norm(x))`, then `x + feed_forward(norm(x))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// The attention half.
    pub attention: Attention,
    /// The feed-forward half.
    pub feed_forward: FeedForward,
}

/// Grouped-query attention with rotary positions. Names lack the `blk.N.` prefix and the `.weight` suffix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// RMS norm before it.
    pub norm: &'static str,
    /// Projection to queries.
    pub query: Linear,
    /// Projection to keys.
    pub key: Linear,
    /// Projection to values.
    pub value: Linear,
    /// RMS norm of each head's queries before rotation.
    pub query_norm: Option<&'static str>,
    /// RMS norm of each head's keys before rotation.
    pub key_norm: Option<&'static str>,
    /// Which elements are rotated together.
    pub rope: RopeStyle,
    /// Divisors of the rotation frequencies, shared by all blocks, used where the file has them.
    pub rope_factors: Option<&'static str>,
    /// Projection of the heads' results back to the residual stream.
    pub output: Linear,
}

/// A linear layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    /// The tensor's name.
    pub name: &'static str,
    /// Whether it has a bias.
    pub bias: Bias,
}

/// Whether a linear layer has a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// Never.
    None,
    /// Where the file has one.
    Optional,
    /// Always; a file without it is broken.
    Required,
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

/// The feed-forward half of a block. A file with experts in its metadata uses `experts`, any other `dense`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeedForward {
    /// RMS norm before it.
    pub norm: &'static str,
    /// The activation of the gate.
    pub gate: GluOp,
    /// The one network for all tokens, if the architecture has such files.
    pub dense: Option<Gated>,
    /// The networks chosen per token, if the architecture has such files.
    pub experts: Option<Experts>,
}

/// `down(act(gate(x)) · up(x))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gated {
    /// Projection to the gate.
    pub gate: Linear,
    /// Projection to the gated values.
    pub up: Linear,
    /// Projection back.
    pub down: Linear,
    /// Whether scales that a file keeps beside these weights count. llama.cpp passes them over in some architectures.
    pub scaled: bool,
}

/// A mixture of experts: the router's softmax picks `expert_used_count` networks for each token and weights their results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experts {
    /// The router.
    pub router: &'static str,
    /// The experts' gates, `[experts, ff, dim]`.
    pub gate: &'static str,
    /// The experts' gated values, `[experts, ff, dim]`.
    pub up: &'static str,
    /// The experts' projections back, `[experts, dim, ff]`.
    pub down: &'static str,
    /// Whether the weights of the chosen experts are scaled to sum to 1.
    pub normalize: bool,
}

impl Architecture {
    /// Every architecture that the decoder runs.
    pub const ALL: &'static [&'static Architecture] =
        &[&llama::LLAMA, &qwen2::QWEN2, &qwen3::QWEN3, &qwen3moe::QWEN3MOE];

    /// The architecture of this name.
    pub fn find(name: &str) -> Option<&'static Architecture> {
        Self::ALL.iter().copied().find(|a| a.name == name)
    }
}

/// The dense SwiGLU network that most architectures name alike.
const SWIGLU: Gated = Gated {
    gate: Linear::plain("ffn_gate"),
    up: Linear::plain("ffn_up"),
    down: Linear::plain("ffn_down"),
    scaled: true,
};

/// The mixture of SwiGLU networks that most architectures name alike.
const SWIGLU_EXPERTS: Experts = Experts {
    router: "ffn_gate_inp",
    gate: "ffn_gate_exps",
    up: "ffn_up_exps",
    down: "ffn_down_exps",
    normalize: true,
};
