//! Command R7B and A: Command R with windows in three of four blocks; the fourth does not rotate.

use super::command_r::{COHERE_ATTENTION, COHERE_OUTPUT};
use super::common::{DECODER, SWIGLU, full_or_windowed};
use super::{Architecture, Attention, Part, Windows};

pub(super) const COHERE2: Architecture = Architecture {
    name: "cohere2",
    models: "Command R7B and A, Aya",
    kinds: &[
        &[
            Part::layer_norm("attn_norm"),
            Part::Parallel(&[
                &[Part::Attention(Attention { rope: None, ..COHERE_ATTENTION })],
                &[Part::Mlp(SWIGLU)],
            ]),
            Part::Add,
        ],
        &[
            Part::layer_norm("attn_norm"),
            Part::Parallel(&[&[Part::Attention(COHERE_ATTENTION)], &[Part::Mlp(SWIGLU)]]),
            Part::Add,
        ],
    ],
    kind: full_or_windowed,
    output: COHERE_OUTPUT,
    windows: Some(Windows::new(None, 4)),
    ..DECODER
};
