"""Decoders whose feed-forward networks are dense."""

from .common import BIASES, FFN_BIAS, FUSED_QKV, LAYER_NORM, OUTPUT_BIAS, QKV_BIAS, RMS, ROPE_FREQS, TIED, WIDE, YARN, table

TABLES = {
    # Llama 3's factors, and the biases of kin that are converted to this architecture.
    "llama": table("llama", 3, RMS, {"rope.dimension_count": 16}),
    "llama-linear": table(
        "llama", 3, RMS, WIDE, {"rope.dimension_count": 32, "rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, drop=[*BIASES, ROPE_FREQS, TIED]
    ),
    # Scales beside all matrices, as files of NVFP4 have them.
    "llama-scales": table("llama", 2, RMS, {"rope.dimension_count": 16}, drop=[*BIASES, ROPE_FREQS], keep=[r"\.scale$"]),
    "mistral3": table(
        "mistral3",
        3,
        RMS,
        WIDE,
        YARN,
        {
            "rope.dimension_count": 32,
            "rope.scaling.yarn_beta_fast": 0.5,
            "rope.scaling.yarn_beta_slow": 0.06,
            "rope.scaling.yarn_log_multiplier": 1.0,
            "rope.scaling.original_context_length": 16,
            "attention.temperature_scale": 0.25,
        },
        drop=[*BIASES, ROPE_FREQS],
    ),
    # Every fourth layer does not rotate.
    "smollm3": table("smollm3", 5, RMS, {"rope.dimension_count": 16}, drop=[*BIASES, TIED]),
    "granite": table(
        "granite",
        3,
        RMS,
        {"rope.dimension_count": 16, "attention.scale": 0.4, "embedding_scale": 6.0, "residual_scale": 0.5, "logit_scale": 4.0},
        drop=[ROPE_FREQS],
        embedding=0.25,
    ),
    "arcee": table("arcee", 3, RMS, {"rope.dimension_count": 16}, drop=BIASES),
    "minicpm": table(
        "minicpm",
        3,
        RMS,
        {
            "embedding_scale": 6.0,
            "residual_scale": 0.5,
            "logit_scale": 4.0,
            "rope.scaling.type": "longrope",
            "rope.scaling.original_context_length": 32,
        },
        drop=BIASES,
        embedding=0.25,
    ),
    "internlm2": table("internlm2", 3, RMS, drop=BIASES),
    "exaone": table("exaone", 3, RMS, {"rope.dimension_count": 16}, drop=BIASES),
    "exaone4": table("exaone4", 3, RMS, {"attention.key_length": 16, "attention.value_length": 16}, drop=[*BIASES, TIED]),
    # Windows are for the 32B's 64 layers only: three of four, and the fourth does not rotate.
    "exaone4-64": table(
        "exaone4",
        64,
        RMS,
        {
            "embedding_length": 64,
            "feed_forward_length": 32,
            "attention.key_length": 16,
            "attention.value_length": 16,
            "attention.sliding_window": 8,
            "attention.sliding_window_pattern": [i % 4 != 3 for i in range(64)],
        },
        drop=BIASES,
    ),
    # Half of each head rotates.
    "chatglm": table("chatglm", 3, RMS, {"rope.dimension_count": 8}, drop=[OUTPUT_BIAS], fuse=FUSED_QKV),
    "orion": table("orion", 3, LAYER_NORM, drop=BIASES),
    "glm4": table("glm4", 3, RMS, WIDE, {"rope.dimension_count": 16}, drop=[OUTPUT_BIAS]),
    "hunyuan-dense": table(
        "hunyuan-dense",
        3,
        RMS,
        WIDE,
        {"rope.scaling.type": "none", "rope.scaling.factor": 1.0, "rope.scaling.original_context_length": 256},
        drop=[*BIASES, TIED],
    ),
    "ernie4_5": table("ernie4_5", 3, RMS, drop=[QKV_BIAS, OUTPUT_BIAS]),
    "seed_oss": table("seed_oss", 3, RMS, WIDE, drop=[FFN_BIAS]),
    "olmo2": table("olmo2", 3, RMS, {"attention.head_count_kv": 2}, drop=BIASES),
    # OLMo 3: three of four layers have a window and rotate without YaRN.
    "olmo2-windows": table(
        "olmo2",
        5,
        RMS,
        YARN,
        {
            "rope.scaling.yarn_attn_factor": 1.25,
            "attention.sliding_window": 8,
            "attention.sliding_window_pattern": [True, True, True, False, True],
        },
        drop=BIASES,
    ),
    "command-r": table("command-r", 3, LAYER_NORM, {"logit_scale": 0.25, "rope.scaling.type": "none"}, drop=BIASES),
    # Three of four layers have a window and rotate, the fourth neither.
    "cohere2": table(
        "cohere2",
        5,
        LAYER_NORM,
        {"logit_scale": 0.25, "attention.sliding_window": 8, "rope.dimension_count": 16, "rope.scaling.type": "none"},
        drop=BIASES,
    ),
    # Long factors: the context of 128 is beyond the original one.
    "phi3": table(
        "phi3",
        3,
        RMS,
        {
            "rope.dimension_count": 12,
            "rope.scaling.original_context_length": 32,
            "rope.scaling.attn_factor": 1.25,
            "attention.sliding_window": 8,
        },
        drop=BIASES,
        fuse=FUSED_QKV,
    ),
    "phi3-short": table(
        "phi3",
        2,
        RMS,
        {"rope.dimension_count": 16, "rope.scaling.original_context_length": 256, "rope.scaling.attn_factor": 1.25, "attention.sliding_window": 8},
        drop=BIASES,
        fuse=FUSED_QKV,
    ),
}
