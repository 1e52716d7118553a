//! LFM2: short convolutions between gates; attention where blocks have heads of keys and values.

use super::common::{DECODER, OUTPUT, SWIGLU, attention_or_no_kv_heads};
use super::qwen3::QWEN3_ATTENTION;
use super::{Architecture, Part, Windows};

pub(super) const LFM2: Architecture = Architecture {
    name: "lfm2",
    models: "LFM2",
    kinds: &[
        &block(Part::Attention(QWEN3_ATTENTION), Part::Mlp(SWIGLU)),
        &block(Part::ShortConv, Part::Mlp(SWIGLU)),
    ],
    kind: attention_or_no_kv_heads,
    // The norm before the output layer is named after the one that it stands behind in other models.
    output: &[Part::rms("token_embd_norm"), Part::Output(OUTPUT)],
    // In all blocks, where the metadata has one.
    windows: Some(Windows::new(None, usize::MAX)),
    ..DECODER
};

/// A block of pre-norm residual layers.
pub(super) const fn block(mixer: Part, feed_forward: Part) -> [Part; 6] {
    [Part::rms("attn_norm"), mixer, Part::Add, Part::rms("ffn_norm"), feed_forward, Part::Add]
}
