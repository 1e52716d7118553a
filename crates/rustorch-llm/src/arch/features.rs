//! What an architecture is made of, in the field's words.

use super::{
    Activation, Architecture, Attention, Experts, Mlp, MlpGate, Norm, NormKind, NormSpan, Part, RouterInput,
    Scores,
};

impl Architecture {
    /// What the architecture is made of, each once, in the order in which its parts have it: `RMS norm`, `RoPE`, `SwiGLU`, ..
    pub fn features(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        if !self.causal {
            found.push("encoder");
        }
        if let Some(windows) = self.windows {
            found.push(if windows.chunked { "chunked attention" } else { "sliding window" });
        }
        let blocks = self.kinds.iter().copied();
        for parts in std::iter::once(self.embedding).chain(blocks).chain([self.output]) {
            collect(parts, &mut found);
        }
        let rotates = |parts: &&[Part]| attentions(parts).iter().any(|attention| attention.rope.is_some());
        if self.kinds.iter().any(rotates) && !self.kinds.iter().all(rotates) {
            found.push("layers without RoPE");
        }
        let mut features: Vec<&'static str> = Vec::new();
        for feature in found {
            if !features.contains(&feature) {
                features.push(feature);
            }
        }
        features
    }
}

/// The attention among these parts, that of branches too.
fn attentions(parts: &[Part]) -> Vec<&Attention> {
    let mut found = Vec::new();
    for part in parts {
        match part {
            Part::Attention(attention) => found.push(attention),
            Part::IfTensor { then, otherwise, .. } => {
                found.extend(attentions(then));
                found.extend(attentions(otherwise));
            }
            Part::Parallel(branches) => {
                branches.iter().for_each(|branch| found.extend(attentions(branch)));
            }
            _ => {}
        }
    }
    found
}

fn collect(parts: &[Part], found: &mut Vec<&'static str>) {
    for part in parts {
        match part {
            Part::Embedding(_) | Part::Output(_) | Part::Add | Part::Replace => {}
            Part::TokenType(_) => found.push("token types"),
            Part::PositionEmbedding(_) => found.push("learned positions"),
            Part::IfTensor { then, otherwise, .. } => {
                collect(then, found);
                collect(otherwise, found);
            }
            Part::Norm(Norm { kind, .. }) => found.push(match kind {
                NormKind::Rms => "RMS norm",
                NormKind::Layer => "layer norm",
            }),
            Part::Attention(part) => attention(part, found),
            Part::DeltaNet(_) => found.extend(["gated delta rule", "causal short convolution"]),
            Part::LatentAttention(part) => {
                found.extend(["multi-head latent attention", "RoPE"]);
                found.extend(part.rope.factors.then_some("RoPE factors"));
            }
            Part::ShortConv => found.push("causal short convolution"),
            Part::Mamba => found.extend(["Mamba", "causal short convolution"]),
            Part::Mamba2 => found.extend(["Mamba 2", "causal short convolution"]),
            Part::RwkvTimeMix => found.push("RWKV 7"),
            Part::RwkvChannelMix => found.push("squared ReLU without a gate"),
            Part::Mlp(part) => found.extend(mlp(part)),
            Part::Experts(part) => experts(part, found),
            Part::Parallel(branches) => {
                if branches.len() > 1 && branches.iter().any(|branch| !attentions(branch).is_empty()) {
                    found.push("parallel residual");
                }
                branches.iter().for_each(|branch| collect(branch, found));
            }
            Part::Scale(_) => found.push("scales"),
            Part::ScaleBy(_) => found.push("layer scale"),
            Part::AltUp(_) => found.push("AltUp"),
            Part::LowRank(..) => found.push("LAuReL"),
            Part::SoftCap(_) => found.push("logit soft cap"),
            Part::PerLayerEmbedding(_) | Part::PerLayerInput(_) => found.push("per-layer embeddings"),
        }
    }
}

fn attention(part: &Attention, found: &mut Vec<&'static str>) {
    if let Some(rope) = part.rope {
        found.push("RoPE");
        if rope.factors {
            found.push("RoPE factors");
        }
    }
    if let Some(norm) = part.query_norm {
        found.push(match norm.span {
            NormSpan::Head | NormSpan::EachHead => "QK norm of each head",
            NormSpan::AllHeads => "QK norm of all heads",
        });
    }
    let rest = [
        (part.alibi.is_some(), "ALiBi"),
        (part.clamp.is_some(), "clamped QKV"),
        (part.norm_after_rope, "QK norm after RoPE"),
        (part.value_norm, "V norm"),
        (part.softcap.is_some(), "attention soft cap"),
        (part.sinks.is_some(), "attention sinks"),
        (part.temperature.is_some(), "attention temperature"),
        (part.gated, "output gate"),
    ];
    found.extend(rest.iter().filter(|(has, _)| *has).map(|(_, feature)| *feature));
}

fn mlp(part: &Mlp) -> Vec<&'static str> {
    let mut found = vec![match (part.shared, part.sigmoid_gate, part.gate, part.activation) {
        (true, Some(_), ..) => "gated shared expert",
        (true, None, ..) => "shared expert",
        (false, _, MlpGate::None, activation) => plain(activation),
        (false, _, _, activation) => gated(activation),
    }];
    found.extend(part.sparsity.map(|_| "activation sparsity"));
    found
}

fn experts(part: &Experts, found: &mut Vec<&'static str>) {
    found.push("mixture of experts");
    found.push(if part.gate.is_some() { gated(part.activation) } else { plain(part.activation) });
    found.extend(part.latent.map(|_| "experts of a smaller width"));
    match part.scores {
        _ if part.by_metadata => found.push("softmax or sigmoid router"),
        Scores::SoftmaxOfChosen => found.push("softmax after top-k"),
        Scores::Sigmoid => found.push("sigmoid router"),
        Scores::Softmax => {}
    }
    if part.selection_bias.is_some() {
        found.push("selection bias");
    }
    if part.router_input != RouterInput::Branch {
        found.push("router with a norm of its own");
    }
}

fn gated(activation: Activation) -> &'static str {
    match activation {
        Activation::Silu => "SwiGLU",
        Activation::Named => "GeGLU or SwiGLU",
        Activation::GeluTanh => "GeGLU",
        Activation::ReluSquared => "squared ReGLU",
        Activation::ClampedSwiglu { .. } => "clamped SwiGLU",
    }
}

fn plain(activation: Activation) -> &'static str {
    match activation {
        Activation::Silu | Activation::ClampedSwiglu { .. } => "SiLU without a gate",
        Activation::GeluTanh | Activation::Named => "GELU without a gate",
        Activation::ReluSquared => "squared ReLU without a gate",
    }
}
