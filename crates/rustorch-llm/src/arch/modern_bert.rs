//! ModernBERT: pre-norm without biases, rotary positions, GeGLU, and windows to both sides in all blocks but each third.

use super::common::{ATTENTION, DECODER, GEGLU};
use super::{Activation, Architecture, Mlp, MlpGate, Part, RankedRows, Ranking, Windows};

pub(super) const MODERN_BERT: Architecture = Architecture {
    name: "modern-bert",
    models: "ModernBERT",
    embedding: &[Part::Embedding("token_embd"), Part::layer_norm("token_embd_norm")],
    kinds: &[&[
        // The first block starts from what is normalised already.
        Part::IfTensor { tensor: "attn_norm", then: &[Part::layer_norm("attn_norm")], otherwise: &[] },
        Part::Attention(ATTENTION),
        Part::Add,
        Part::layer_norm("ffn_norm"),
        Part::Mlp(Mlp { gate: MlpGate::InUp, activation: Activation::Named, ..GEGLU }),
        Part::Add,
    ]],
    output: &[Part::layer_norm("output_norm")],
    windows: Some(Windows { first_is_full: true, ..Windows::new(None, 3) }),
    causal: false,
    ranking: Ranking { rows: RankedRows::Mean, gelu: true, softmax: false },
    ..DECODER
};
