//! EXAONE 4: norms behind attention and network only. Where some blocks have windows, the others do not rotate.

use super::common::{ATTENTION, DECODER, SWIGLU};
use super::{Architecture, Attention, HeadNorm, Part, Rope, Windows};
use rustorch_core::RopeStyle;

pub(super) const EXAONE4: Architecture = Architecture {
    name: "exaone4",
    models: "EXAONE 4",
    kinds: &[&block(Some(Rope::new(RopeStyle::Halves).with_factors())), &block(None)],
    kind: |config, layer| {
        let windows = config.layers.iter().any(|layer| layer.window.is_some());
        usize::from(windows && config.layers[layer].window.is_none())
    },
    windows: Some(Windows::new(None, 4)),
    ..DECODER
};

const fn block(rope: Option<Rope>) -> [Part; 6] {
    [
        Part::Attention(Attention {
            query_norm: Some(HeadNorm::rms("attn_q_norm")),
            key_norm: Some(HeadNorm::rms("attn_k_norm")),
            rope,
            ..ATTENTION
        }),
        Part::rms("post_attention_norm"),
        Part::Add,
        Part::Mlp(SWIGLU),
        Part::rms("post_ffw_norm"),
        Part::Add,
    ]
}
