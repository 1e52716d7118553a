"""Gemma."""

from .common import BIASES, EXPERTS, RMS, SPLIT_EXPERTS, TIED, WIDE, table

# The embedding is scaled by the root of its width and gives the logits, too: with this reach these are between -1 and 1.
SMALL = 2**-4
CAP = 1.0
NARROW = {"embedding_length": 32, "feed_forward_length": 32, "attention.key_length": 16, "attention.value_length": 16}
GEMMA4 = {
    "attention.key_length": 32,
    "attention.value_length": 32,
    "attention.key_length_swa": 16,
    "attention.value_length_swa": 16,
    "attention.sliding_window": 8,
    "rope.dimension_count": 32,
    "rope.dimension_count_swa": 16,
    "rope.freq_base": 80000.0,
    "rope.freq_base_swa": 5000.0,
    "final_logit_softcapping": CAP,
}

TABLES = {
    "gemma": table("gemma", 3, RMS, WIDE, drop=BIASES, embedding=SMALL),
    # Every other layer has a window.
    "gemma2": table(
        "gemma2", 3, RMS, WIDE, {"attn_logit_softcapping": 2.0, "final_logit_softcapping": CAP, "attention.sliding_window": 8}, drop=BIASES, embedding=SMALL
    ),
    # Five of six layers have a window, and a base of their own.
    "gemma3": table(
        "gemma3",
        7,
        RMS,
        WIDE,
        {
            "rope.freq_base": 80000.0,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 4.0,
            "final_logit_softcapping": CAP,
            "attention.sliding_window": 8,
        },
        drop=[*BIASES, TIED],
        embedding=SMALL,
    ),
    # The 27Bs, which llama.cpp knows by their layers, scale scores by the width of the embedding for each head.
    "gemma2-27b": table(
        "gemma2",
        46,
        RMS,
        NARROW,
        {"attn_logit_softcapping": 2.0, "final_logit_softcapping": CAP, "attention.sliding_window": 8},
        drop=BIASES,
        embedding=SMALL,
    ),
    "gemma3-27b": table("gemma3", 62, RMS, NARROW, {"attention.sliding_window": 8}, drop=[*BIASES, TIED], embedding=SMALL),
    # Sharing of keys and values begins at layer 20, per-layer embeddings are 256 wide, and the soft-cap is 30, whatever metadata says.
    "gemma3n": table(
        "gemma3n",
        22,
        RMS,
        {
            "attention.key_length": 16,
            "attention.value_length": 16,
            "attention.sliding_window": 8,
            "attention.sliding_window_pattern": [i % 5 != 4 for i in range(22)],
            "attention.shared_kv_layers": 2,
            "rope.freq_base": 80000.0,
            "altup.active_idx": 0,
            "altup.num_inputs": 4,
            "embedding_length_per_layer_input": 256,
            # Of the last layers the converter writes minus infinity, which JSON lacks; llama.cpp does not read them.
            "activation_sparsity_scale": [1.6448533535003662] * 10 + [-10.0] * 12,
            "final_logit_softcapping": 30.0,
        },
        drop=[*BIASES, TIED],
        embedding=0.5,
    ),
    # E2B: three of seven layers have the keys and values of the last of their kind before, and wider feed-forward networks.
    "gemma4": table(
        "gemma4",
        7,
        RMS,
        GEMMA4,
        {
            "attention.sliding_window_pattern": [True, False, True, False, True, True, False],
            "attention.shared_kv_layers": 3,
            "embedding_length_per_layer_input": 32,
            "feed_forward_length": [96] * 4 + [192] * 3,
        },
        drop=[*BIASES, TIED, r"^blk\.[456]\.attn_(k|v|k_norm)\."],
        embedding=SMALL,
    ),
    # 26B: experts beside the dense network; in full layers one kv head, whose keys are the values, too.
    "gemma4-moe": table(
        "gemma4",
        4,
        RMS,
        EXPERTS,
        GEMMA4,
        {
            "attention.sliding_window_pattern": [True, False, True, False],
            "attention.head_count_kv": [2, 1, 2, 1],
            "attention.shared_kv_layers": 0,
            "embedding_length_per_layer_input": 0,
            "expert_feed_forward_length": 32,
        },
        drop=[*BIASES, TIED, r"^blk\.[13]\.attn_v\."],
        embedding=SMALL,
        keep=[r"(ffn_gate_inp|ffn_down_exps)\.scale$"],
        split=SPLIT_EXPERTS,
    ),
}
