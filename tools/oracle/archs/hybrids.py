"""Decoders with recurrent layers: short convolutions, Mamba, RWKV."""

from .common import BIASES, EXPERTS, FFN_BIAS, LAYER_NORM, OUTPUT_BIAS, QKV_BIAS, RMS, ROPE_FREQS, TIED, WIDE, table
from .experts import SIGMOID

NO_ATTENTION = {"attention.head_count": 0, "attention.head_count_kv": None, "rope.freq_base": None}
MAMBA = {"ssm.conv_kernel": 4, "ssm.state_size": 16, "ssm.inner_size": 128, "ssm.time_step_rank": 8}
MAMBA2 = {"ssm.conv_kernel": 4, "ssm.state_size": 16, "ssm.inner_size": 128, "ssm.time_step_rank": 8, "ssm.group_count": 2}

TABLES = {
    # Layers without kv heads are convolutions.
    "lfm2": table("lfm2", 4, RMS, {"attention.head_count_kv": [0, 0, 2, 0], "shortconv.l_cache": 3}, drop=[*BIASES, TIED, r"^dense_"]),
    "lfm2moe": table(
        "lfm2moe",
        4,
        RMS,
        EXPERTS,
        {
            "attention.head_count_kv": [0, 0, 2, 0],
            "shortconv.l_cache": 3,
            "expert_feed_forward_length": 32,
            "expert_gating_func": SIGMOID,
            "leading_dense_block_count": 1,
        },
        drop=[*BIASES, TIED, r"^dense_"],
    ),
    "mamba": table("mamba", 3, RMS, NO_ATTENTION, MAMBA, {"feed_forward_length": 0, "ssm.dt_b_c_rms": False}, drop=[TIED]),
    # Falcon Mamba.
    "mamba-norms": table("mamba", 2, RMS, NO_ATTENTION, MAMBA, {"feed_forward_length": 0, "ssm.dt_b_c_rms": True}),
    "mamba2": table("mamba2", 3, RMS, NO_ATTENTION, MAMBA2, {"feed_forward_length": 0}),
    # Layers without kv heads are Mamba; every other layer has experts.
    "jamba": table(
        "jamba",
        4,
        RMS,
        EXPERTS,
        MAMBA,
        {"attention.head_count_kv": [0, 0, 2, 0], "rope.freq_base": None, "feed_forward_length": 32},
        drop=BIASES,
        dense=[0, 2],
    ),
    "granitehybrid": table(
        "granitehybrid",
        4,
        RMS,
        EXPERTS,
        MAMBA2,
        {
            "attention.head_count_kv": [0, 0, 2, 0],
            "feed_forward_length": 32,
            "expert_shared_feed_forward_length": 64,
            "rope.scaling.finetuned": False,
            "attention.scale": 0.4,
            "embedding_scale": 6.0,
            "residual_scale": 0.5,
            "logit_scale": 4.0,
        },
        drop=[QKV_BIAS, OUTPUT_BIAS, FFN_BIAS, ROPE_FREQS],
        embedding=0.25,
    ),
    # Attention and Mamba side by side in every layer.
    "falcon-h1": table("falcon-h1", 3, RMS, WIDE, MAMBA2, drop=[*BIASES, ROPE_FREQS]),
    # Each layer is one of Mamba, attention and a feed-forward network.
    "nemotron_h": table(
        "nemotron_h",
        4,
        RMS,
        LAYER_NORM,
        WIDE,
        MAMBA2,
        {"attention.head_count_kv": [0, 0, 2, 0], "feed_forward_length": [0, 96, 0, 0], "rope.freq_base": None},
        drop=[QKV_BIAS, OUTPUT_BIAS, FFN_BIAS],
    ),
    "nemotron_h_moe": table(
        "nemotron_h_moe",
        4,
        RMS,
        LAYER_NORM,
        WIDE,
        MAMBA2,
        EXPERTS,
        {
            "attention.head_count_kv": [0, 0, 2, 0],
            "feed_forward_length": [0, 32, 0, 0],
            "rope.freq_base": None,
            "expert_feed_forward_length": 32,
            "expert_shared_feed_forward_length": 64,
            "expert_shared_count": 1,
            "expert_weights_norm": True,
            "expert_weights_scale": 1.5,
            "moe_latent_size": 32,
        },
        drop=[QKV_BIAS, OUTPUT_BIAS],
    ),
    "rwkv7": table(
        "rwkv7",
        3,
        LAYER_NORM,
        NO_ATTENTION,
        {
            # llama.cpp's kernel takes heads of whole vector registers.
            "embedding_length": 128,
            "wkv.head_size": 64,
            "attention.decay_lora_rank": 32,
            "attention.iclr_lora_rank": 32,
            "attention.value_residual_mix_lora_rank": 32,
            "attention.gate_lora_rank": 32,
        },
    ),
}
