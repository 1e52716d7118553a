//! Command R and R+: attention and network side by side behind one layer norm, and scaled logits.

use super::common::{ADJACENT_ATTENTION, DECODER, OUTPUT, SWIGLU};
use super::{Architecture, Attention, Factor, HeadNorm, Part};

pub(super) const COMMAND_R: Architecture = Architecture {
    name: "command-r",
    models: "Command R and R+",
    kinds: &[
        &[
            Part::layer_norm("attn_norm"),
            Part::Parallel(&[&[Part::Attention(COHERE_ATTENTION)], &[Part::Mlp(SWIGLU)]]),
            Part::Add,
        ],
        &[
            Part::layer_norm("attn_norm"),
            Part::Parallel(&[
                &[Part::Attention(Attention {
                    query_norm: Some(HeadNorm::layer("attn_q_norm")),
                    key_norm: Some(HeadNorm::layer("attn_k_norm")),
                    ..COHERE_ATTENTION
                })],
                &[Part::Mlp(SWIGLU)],
            ]),
            Part::Add,
        ],
    ],
    // R+, whose queries and keys are normalised, is known by its number of blocks.
    kind: |config, _| usize::from(config.blocks >= 64),
    output: COHERE_OUTPUT,
    ..DECODER
};

/// Shared with Command R7B and A.
pub(super) const COHERE_ATTENTION: Attention = ADJACENT_ATTENTION;

/// Layer norm, and scaled logits.
pub(super) const COHERE_OUTPUT: &[Part] =
    &[Part::layer_norm("output_norm"), Part::Output(OUTPUT), Part::Scale(Factor::metadata("logit_scale"))];
