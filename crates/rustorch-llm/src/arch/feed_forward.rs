//! Feed-forward networks, as architectures describe them.

use super::Linear;

/// `down(act(gate(x)) · up(x))`, or without a gate `down(act(up(x)))`.
#[derive(Clone, Copy, Debug)]
pub struct Mlp {
    /// The gate, if any.
    pub gate: MlpGate,
    /// Projection to the inner width.
    pub up: Linear,
    /// Projection back.
    pub down: Linear,
    /// The activation.
    pub activation: Activation,
    /// Gates are made 0 where they are not above their mean and so many standard deviations, which is taken from the others.
    pub sparsity: Option<f32>,
    /// Whether it is an expert that all tokens use, whose inner width is that of its tensors.
    pub shared: bool,
    /// A vector whose dot product with `x`, through a sigmoid, is a factor of the result.
    pub sigmoid_gate: Option<&'static str>,
    /// Whether scales that a file keeps beside these weights count. llama.cpp passes them over in some architectures.
    pub scaled: bool,
}

/// The gate of a feed-forward network.
#[derive(Clone, Copy, Debug)]
pub enum MlpGate {
    /// There is none.
    None,
    /// A layer of its own.
    Separate(Linear),
    /// The first half of the rows of `up`.
    InUp,
}

/// What comes between the projections of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// GELU by its tanh approximation.
    GeluTanh,
    /// What the metadata names (`hidden_activation`): GELU unless that is SiLU.
    Named,
    /// `max(x, 0)²`.
    ReluSquared,
    /// `x · sigmoid(alpha · x) · (up + 1)` of a gate `x` of at most `limit`, and of `up` between `−limit` and `limit`.
    ClampedSwiglu {
        /// The sigmoid's factor.
        alpha: f32,
        /// The limit.
        limit: f32,
    },
}

/// A mixture of experts: for each token, the weighted sum of the `expert_used_count` networks whose router scores are the largest.
#[derive(Clone, Copy, Debug)]
pub struct Experts {
    /// The router.
    pub router: Linear,
    /// What the router sees.
    pub router_input: RouterInput,
    /// How scores become weights.
    pub scores: Scores,
    /// Whether the weights of the chosen experts are scaled to sum to 1.
    pub normalize: bool,
    /// Whether the metadata says how scores become weights, and whether these are scaled, where it says so.
    pub by_metadata: bool,
    /// Added to the weights for the choice of experts alone, where the file has it: the name with its suffix.
    pub selection_bias: Option<&'static str>,
    /// Whether the weights are factors of what the experts see instead of what they give.
    pub weigh_inputs: bool,
    /// Projections of what the experts see to a smaller width, and of what they give back from there, where the file has them.
    pub latent: Option<[Linear; 2]>,
    /// The experts' gates, `[experts, ff, dim]`, if they have any.
    pub gate: Option<Linear>,
    /// The experts' gated values, `[experts, ff, dim]`.
    pub up: Linear,
    /// Gates and gated values in one tensor, `[experts, 2 · ff, dim]`, where the file has it.
    pub fused: Linear,
    /// The experts' projections back, `[experts, dim, ff]`.
    pub down: Linear,
    /// The activation.
    pub activation: Activation,
}

/// What a router sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterInput {
    /// What the experts see.
    Branch,
    /// The RMS norm of the residual stream, over the root of its width, times a vector.
    NormedResidual {
        /// The vector's name, with its suffix.
        scale: &'static str,
    },
}

/// How a router's scores become weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scores {
    /// Softmax over all experts.
    Softmax,
    /// Softmax over the chosen experts.
    SoftmaxOfChosen,
    /// The sigmoid of each.
    Sigmoid,
}
