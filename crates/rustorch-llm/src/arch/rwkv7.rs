//! RWKV 7: a recurrence and a feed-forward network, each over its input and the one before it.

use super::common::{DECODER, LAYER_NORM_OUTPUT};
use super::{Architecture, LeftOut, Part};

pub(super) const RWKV7: Architecture = Architecture {
    name: "rwkv7",
    models: "RWKV 7",
    embedding: &[Part::Embedding("token_embd"), Part::biased_layer_norm("token_embd_norm")],
    kinds: &[&[
        Part::biased_layer_norm("attn_norm"),
        Part::RwkvTimeMix,
        Part::Add,
        Part::biased_layer_norm("attn_norm_2"),
        Part::RwkvChannelMix,
        Part::Add,
    ]],
    output: LAYER_NORM_OUTPUT,
    left_out: &[
        LeftOut { tensors: "blk.0.time_mix_v0.weight", reason: FIRST },
        LeftOut { tensors: "blk.0.time_mix_v1.weight", reason: FIRST },
        LeftOut { tensors: "blk.0.time_mix_v2.weight", reason: FIRST },
    ],
    ..DECODER
};

const FIRST: &str = "mixes the first block's values into those of other blocks";
