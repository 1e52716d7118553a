//! GPT-NeoX and Pythia: attention and network side by side, each behind a norm of its own, unless the metadata says otherwise.

use super::common::{ATTENTION, DECODER, GELU, LAYER_NORM_OUTPUT, pre_layer_norm};
use super::{Architecture, Part};

pub(super) const GPTNEOX: Architecture = Architecture {
    name: "gptneox",
    models: "GPT-NeoX, Pythia, Dolly 2, RedPajama-INCITE",
    kinds: &[
        &pre_layer_norm(ATTENTION, Part::Mlp(GELU)),
        &[
            Part::Parallel(&[
                &[Part::biased_layer_norm("attn_norm"), Part::Attention(ATTENTION)],
                &[Part::biased_layer_norm("ffn_norm"), Part::Mlp(GELU)],
            ]),
            Part::Add,
        ],
    ],
    kind: |config, _| usize::from(config.parallel_residual),
    output: LAYER_NORM_OUTPUT,
    ..DECODER
};
