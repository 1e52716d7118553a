//! What a tensor is for, by its name: what quantization goes by.

/// What a tensor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Category {
    TokenEmbedding,
    Output,
    AttentionQuery,
    AttentionKey,
    /// Values of attention, and what is fused with them: the errors that weigh most.
    AttentionValue,
    AttentionOutput,
    FfnUp,
    FfnGate,
    FfnDown,
    Other,
}

impl Category {
    pub(super) fn of(name: &str) -> Category {
        const PARTS: [(&str, Category); 9] = [
            ("attn_qkv.weight", Category::AttentionValue),
            ("attn_kv_b.weight", Category::AttentionValue),
            ("attn_v.weight", Category::AttentionValue),
            ("attn_k.weight", Category::AttentionKey),
            ("attn_q.weight", Category::AttentionQuery),
            ("attn_output.weight", Category::AttentionOutput),
            ("ffn_up", Category::FfnUp),
            ("ffn_gate", Category::FfnGate),
            ("ffn_down", Category::FfnDown),
        ];
        match name {
            "output.weight" => Category::Output,
            "token_embd.weight" | "per_layer_token_embd.weight" => Category::TokenEmbedding,
            _ => PARTS.iter().find(|(part, _)| name.contains(part)).map_or(Category::Other, |(_, of)| *of),
        }
    }
}

/// Parts of the names of matrices that are small, or whose errors nothing makes good: they are left as they are.
const LEFT: &[&str] = &[
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
];

/// Whether a tensor is one that llama.cpp quantizes: a matrix of weights, or several of experts. `shape` is outermost first.
pub(super) fn is_quantizable(name: &str, shape: &[usize]) -> bool {
    let dims = shape.iter().skip_while(|&&dim| dim == 1).count();
    dims >= 2
        && name.ends_with("weight")
        && !matches!(name, "position_embd.weight" | "token_types.weight")
        && !LEFT.iter().any(|part| name.contains(part))
}

/// The number in `blk.N.`.
pub(super) fn layer(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split_once('.')?.0.parse().ok()
}
