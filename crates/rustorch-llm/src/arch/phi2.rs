//! Phi 1, 1.5 and 2: attention and network side by side behind one norm, with biases everywhere.

use super::common::{ATTENTION, DECODER, GELU, LAYER_NORM_OUTPUT};
use super::{Architecture, Part};

pub(super) const PHI2: Architecture = Architecture {
    name: "phi2",
    models: "Phi 1, 1.5 and 2",
    kinds: &[&[
        Part::biased_layer_norm("attn_norm"),
        Part::Parallel(&[&[Part::Attention(ATTENTION)], &[Part::Mlp(GELU)]]),
        Part::Add,
    ]],
    output: LAYER_NORM_OUTPUT,
    ..DECODER
};
