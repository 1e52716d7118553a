//! OLMo 2 and 3: norms behind attention and network only, and of all heads' queries and keys together. OLMo 3 has windows in three of four
//! blocks, which do not rotate for a longer context.

use super::common::{ATTENTION, DECODER, SWIGLU};
use super::{Architecture, Attention, HeadNorm, Part, Rope, WindowedRope, Windows};
use rustorch_core::RopeStyle;

pub(super) const OLMO2: Architecture = Architecture {
    name: "olmo2",
    models: "OLMo 2 and 3",
    kinds: &[&[
        Part::Attention(Attention {
            query_norm: Some(HeadNorm::whole("attn_q_norm")),
            key_norm: Some(HeadNorm::whole("attn_k_norm")),
            rope: Some(Rope {
                windowed: WindowedRope::Unscaled { base: None },
                ..Rope::new(RopeStyle::Halves)
            }),
            ..ATTENTION
        }),
        Part::rms("post_attention_norm"),
        Part::Add,
        Part::Mlp(SWIGLU),
        Part::rms("post_ffw_norm"),
        Part::Add,
    ]],
    windows: Some(Windows::new(None, 4)),
    ..DECODER
};
