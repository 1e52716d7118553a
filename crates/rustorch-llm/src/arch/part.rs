//! The parts that architectures are made of.
//!
//! Parts hand two tensors `[n, embedding]` along: the *residual stream*, and a *branch*, which starts as the residual stream. A part
//! computes the next branch from the branch, and [`Part::Add`] adds it to the residual stream. Tensor names lack the prefix `blk.N.` of
//! a block, and `.weight`.

use super::{Attention, DeltaNet, Experts, Factor, LatentAttention, Mlp};

/// One step of a model.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// The rows of a table that the token ids choose.
    Embedding(&'static str),
    /// Adds the rows of a table that the positions choose.
    PositionEmbedding(&'static str),
    /// Adds the first row of a table of token types: that of a single text.
    TokenType(&'static str),
    /// Normalisation.
    Norm(Norm),
    /// Attention over the tokens so far.
    Attention(Attention),
    /// Attention over latent vectors.
    LatentAttention(LatentAttention),
    /// A gated delta network: a recurrence with a state instead of attention.
    DeltaNet(DeltaNet),
    /// A short causal convolution between two gates: `out(c · conv(b · x))` of the three that `shortconv.in_proj` gives.
    ShortConv,
    /// Mamba: a scan whose decays, inputs and outputs depend on the token, behind a short causal convolution (tensors `ssm_*`).
    Mamba,
    /// Mamba 2: the same with one decay for each head, and a norm of its results where the file has it.
    Mamba2,
    /// The recurrence of RWKV 7, over its input and the one before it (tensors `time_mix_*`).
    RwkvTimeMix,
    /// The feed-forward network of RWKV 7, over its input and the one before it (tensors `channel_mix_*`).
    RwkvChannelMix,
    /// A feed-forward network.
    Mlp(Mlp),
    /// A mixture of experts.
    Experts(Experts),
    /// Parts that depend on whether the file has a tensor.
    IfTensor {
        /// The tensor.
        tensor: &'static str,
        /// The parts with it.
        then: &'static [Part],
        /// The parts without it.
        otherwise: &'static [Part],
    },
    /// Branches that start alike; their sum.
    Parallel(&'static [&'static [Part]]),
    /// The branch becomes part of the residual stream.
    Add,
    /// The branch becomes the residual stream.
    Replace,
    /// A factor from the metadata.
    Scale(Factor),
    /// A factor that is a tensor of one element, where the file has it.
    ScaleBy(&'static str),
    /// Makes an embedding for each block, of a width of its own, of the token ids and the branch, which stays as it is.
    PerLayerEmbedding(PerLayerEmbedding),
    /// The branch, projected to that width, times the block's embedding, and projected back.
    PerLayerInput(PerLayerInput),
    /// A step of alternating updates between several residual streams (AltUp).
    AltUp(AltUp),
    /// Two linear layers, as wide between them as their tensors are.
    LowRank(Linear, Linear),
    /// `cap · tanh(x / cap)` by the cap under a metadata key; nothing without the key.
    SoftCap(&'static str),
    /// The layer that gives the logits.
    Output(Output),
}

/// Normalisation of vectors.
#[derive(Clone, Copy, Debug)]
pub struct Norm {
    /// How.
    pub kind: NormKind,
    /// The weight; all ones if not given.
    pub tensor: Option<&'static str>,
    /// Whether a layer norm adds a bias of the same name.
    pub bias: Bias,
}

/// What a vector is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// `x / √(mean(x²) + eps)`.
    Rms,
    /// `(x − mean) / √(variance + eps)`.
    Layer,
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

/// Embeddings for each block: `(table[id] · √width + norm(projection(x) / √embedding)) / √2`.
#[derive(Clone, Copy, Debug)]
pub struct PerLayerEmbedding {
    /// The table, `[vocabulary, blocks · width]`.
    pub table: &'static str,
    /// The projection of the branch.
    pub projection: Linear,
    /// The norm of what is projected.
    pub norm: Norm,
}

/// `projection(gelu(gate(x)) · embedding of the block)`.
#[derive(Clone, Copy, Debug)]
pub struct PerLayerInput {
    /// Projection to the width of the block's embedding.
    pub gate: Linear,
    /// Projection back.
    pub projection: Linear,
}

/// A step of alternating updates (AltUp, Baykal et al. 2023): of several residual streams a block computes one and predicts the others.
/// Their number and which one it is are in the metadata (`altup.*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AltUp {
    /// Makes the other streams from the branch, each by a matrix and of the branch's length (`altup_proj`).
    Expand,
    /// Predicts all streams from each other. The one that the block computes becomes the residual stream.
    Predict,
    /// Corrects the predictions by what the block has computed. The branch becomes the corrected stream of the block, times
    /// `altup_correct_scale`.
    Correct,
    /// Adds the branch to all streams but the first.
    AddToOthers,
    /// Makes the mean of all streams the residual stream, the others each by a matrix and of the block's stream's length
    /// (`altup_unembd_proj`).
    Merge,
}

/// The layer that gives the logits.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// The layer.
    pub linear: Linear,
    /// The table of embeddings, which serves where the file lacks the layer's matrix (tied weights).
    pub tied: Option<&'static str>,
}

impl NormKind {
    /// The metadata key of what is added to the mean square or the variance.
    pub(crate) const fn epsilon_key(self) -> &'static str {
        match self {
            NormKind::Rms => "attention.layer_norm_rms_epsilon",
            NormKind::Layer => "attention.layer_norm_epsilon",
        }
    }
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
        Norm { kind: NormKind::Rms, tensor: Some(tensor), bias: Bias::None }
    }

    /// Layer norm with a weight.
    pub const fn layer(tensor: &'static str) -> Norm {
        Norm { kind: NormKind::Layer, tensor: Some(tensor), bias: Bias::None }
    }

    /// Layer norm with a weight and a bias.
    pub const fn biased_layer(tensor: &'static str) -> Norm {
        Norm { bias: Bias::Required, ..Norm::layer(tensor) }
    }
}

impl Part {
    /// RMS norm with a weight, as a part.
    pub const fn rms(tensor: &'static str) -> Part {
        Part::Norm(Norm::rms(tensor))
    }

    /// Layer norm with a weight, as a part.
    pub const fn layer_norm(tensor: &'static str) -> Part {
        Part::Norm(Norm::layer(tensor))
    }

    /// Layer norm with a weight and a bias, as a part.
    pub const fn biased_layer_norm(tensor: &'static str) -> Part {
        Part::Norm(Norm::biased_layer(tensor))
    }
}
