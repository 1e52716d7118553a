//! LLaMA 4: attention in chunks in three of four blocks, whose queries and keys are normalised behind their rotation; the fourth neither
//! rotates nor has chunks, and scales queries up with their distance from the beginning. In every few blocks experts, whose inputs are
//! weighted, beside a shared one.

use super::common::{DECODER, SHARED_EXPERT, SWIGLU_EXPERTS, pre_norm_routed};
use super::llama::LLAMA_ATTENTION;
use super::{Architecture, Attention, Experts, HeadNorm, Part, Scores, Temperature, Windows};

pub(super) const LLAMA4: Architecture = Architecture {
    name: "llama4",
    models: "LLaMA 4 Scout and Maverick (text)",
    kinds: &[
        &pre_norm_routed(
            Attention {
                rope: None,
                temperature: Some(Temperature::Fixed { scale: 0.1, floor: 8192 }),
                ..LLAMA_ATTENTION
            },
            ROUTED,
        ),
        &pre_norm_routed(
            Attention {
                query_norm: Some(HeadNorm::UNWEIGHTED),
                key_norm: Some(HeadNorm::UNWEIGHTED),
                norm_after_rope: true,
                ..LLAMA_ATTENTION
            },
            ROUTED,
        ),
        &pre_norm_routed(LLAMA_ATTENTION, ROUTED),
    ],
    // Maverick, which has 128 experts, does not normalise.
    kind: |config, layer| match (config.layers[layer].chunk, config.experts) {
        (None, _) => 0,
        (Some(_), Some(experts)) if experts.count == 128 => 2,
        (Some(_), _) => 1,
    },
    windows: Some(Windows { chunked: true, ..Windows::new(Some(8192), 4) }),
    ..DECODER
};

const ROUTED: &[Part] = &[Part::Parallel(&[
    &[Part::Experts(Experts {
        scores: Scores::Sigmoid,
        normalize: false,
        weigh_inputs: true,
        ..SWIGLU_EXPERTS
    })],
    &[Part::Mlp(SHARED_EXPERT)],
])];
