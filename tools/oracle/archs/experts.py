"""Decoders with mixtures of experts."""

from .common import BIASES, EXPERTS, GROUPS, RMS, ROPE_FREQS, SPLIT_EXPERTS, WIDE, YARN, table

# `expert_gating_func`.
SIGMOID = 2
# The first layer is dense, two shared experts stand in one, and the weights of the chosen ones are scaled.
ROUTED = {"expert_feed_forward_length": 32, "expert_shared_count": 2, "leading_dense_block_count": 1, "expert_weights_scale": 1.5}
LATENT = {
    "attention.head_count_kv": 1,
    "attention.kv_lora_rank": 32,
    "attention.key_length": 48,
    "attention.value_length": 32,
    "attention.key_length_mla": 32,
    "attention.value_length_mla": 32,
    "rope.dimension_count": 16,
}

TABLES = {
    # Mixtral.
    "llama-moe": table("llama", 3, RMS, EXPERTS, {"rope.dimension_count": 16}, drop=[*BIASES, ROPE_FREQS]),
    "granitemoe": table(
        "granitemoe",
        3,
        RMS,
        EXPERTS,
        {
            "feed_forward_length": 32,
            "expert_shared_feed_forward_length": 64,
            "rope.dimension_count": 16,
            "attention.scale": 0.4,
            "embedding_scale": 6.0,
            "residual_scale": 0.5,
            "logit_scale": 4.0,
        },
        drop=[*BIASES, ROPE_FREQS],
        embedding=0.25,
    ),
    # Without a shared expert.
    "granitemoe-routed": table("granitemoe", 3, RMS, EXPERTS, {"feed_forward_length": 32, "rope.dimension_count": 16, "logit_scale": 4.0}, drop=[*BIASES, ROPE_FREQS, r"_shexp\."]),
    "olmoe": table("olmoe", 3, RMS, EXPERTS, {"attention.head_count_kv": 4, "feed_forward_length": 32}, drop=BIASES),
    "gpt-oss": table(
        "gpt-oss",
        3,
        RMS,
        EXPERTS,
        YARN,
        {
            "attention.key_length": 16,
            "attention.value_length": 16,
            "attention.sliding_window": 8,
            "expert_feed_forward_length": 32,
        },
        copies=["F16", "MXFP4"],
    ),
    "deepseek": table("deepseek", 4, RMS, EXPERTS, ROUTED, drop=BIASES),
    # Keys and values of a latent: 16 elements that do not rotate and 16 that do, of which all heads share the latter.
    "deepseek2": table(
        "deepseek2",
        3,
        RMS,
        EXPERTS,
        GROUPS,
        YARN,
        ROUTED,
        LATENT,
        {
            "attention.q_lora_rank": 32,
            "expert_gating_func": SIGMOID,
            "expert_weights_norm": True,
            "rope.scaling.yarn_log_multiplier": 0.0707,
        },
        split=SPLIT_EXPERTS,
    ),
    # V2-Lite, which llama.cpp knows by its number of layers: softmax, and no latent for queries.
    "deepseek2-lite": table(
        "deepseek2",
        27,
        RMS,
        EXPERTS,
        YARN,
        ROUTED,
        LATENT,
        {"embedding_length": 32, "feed_forward_length": 64, "rope.scaling.yarn_log_multiplier": 0.0707},
        drop=[r"exp_probs_b"],
        split=SPLIT_EXPERTS,
    ),
    "glm4moe": table(
        "glm4moe",
        3,
        RMS,
        WIDE,
        EXPERTS,
        GROUPS,
        ROUTED,
        {"rope.dimension_count": 16, "expert_gating_func": SIGMOID, "expert_weights_norm": True},
    ),
    "minimax-m2": table(
        "minimax-m2",
        3,
        RMS,
        WIDE,
        EXPERTS,
        {"feed_forward_length": 32, "expert_feed_forward_length": 32, "rope.dimension_count": 16, "expert_gating_func": SIGMOID},
        drop=BIASES,
    ),
    "ernie4_5-moe": table(
        "ernie4_5-moe",
        3,
        RMS,
        EXPERTS,
        {
            "expert_feed_forward_length": 32,
            "expert_shared_count": 1,
            "expert_shared_feed_forward_length": 64,
            "interleave_moe_layer_step": 1,
            "leading_dense_block_count": 1,
        },
        drop=BIASES,
    ),
    "hunyuan-moe": table(
        "hunyuan-moe",
        3,
        RMS,
        WIDE,
        EXPERTS,
        {"feed_forward_length": 32, "expert_feed_forward_length": 32, "expert_shared_feed_forward_length": 64, "expert_shared_count": 1},
        drop=BIASES,
    ),
    # Every other layer has experts; every fourth neither rotates nor attends in chunks.
    "llama4": table(
        "llama4",
        5,
        RMS,
        EXPERTS,
        {"expert_used_count": 1, "expert_feed_forward_length": 32, "interleave_moe_layer_step": 2, "rope.dimension_count": 16},
        drop=BIASES,
    ),
    "dots1": table(
        "dots1",
        3,
        RMS,
        WIDE,
        EXPERTS,
        GROUPS,
        ROUTED,
        {"attention.head_count_kv": 4, "expert_gating_func": SIGMOID, "expert_weights_norm": True},
        drop=BIASES,
    ),
    "bailingmoe2": table(
        "bailingmoe2",
        3,
        RMS,
        EXPERTS,
        GROUPS,
        ROUTED,
        {
            "expert_shared_feed_forward_length": 64,
            "rope.dimension_count": 8,
            "expert_gating_func": SIGMOID,
            "expert_weights_norm": True,
        },
    ),
}
