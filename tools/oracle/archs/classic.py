"""Decoders from before 2024: LayerNorm, learned positions, ALiBi, ungated networks, parallel residuals."""

from .common import BIASES, LAYER_NORM, RMS, TIED, table

LEARNED_POSITIONS = {"attention.head_count_kv": None, "rope.freq_base": None}
ALIBI = {"rope.freq_base": None}
BAICHUAN = {"rope.dimension_count": 8, "embedding_length": 32, "feed_forward_length": 32}

TABLES = {
    "gpt2": table("gpt2", 3, LAYER_NORM, LEARNED_POSITIONS),
    "gptneox": table("gptneox", 3, LAYER_NORM, {"attention.head_count_kv": None, "rope.dimension_count": 8, "use_parallel_residual": True}),
    "gptneox-serial": table("gptneox", 2, LAYER_NORM, {"attention.head_count_kv": None, "rope.dimension_count": 8, "use_parallel_residual": False}),
    # 40B: a norm of its own for each half.
    "falcon": table("falcon", 3, LAYER_NORM),
    "falcon-7b": table("falcon", 2, LAYER_NORM, {"attention.head_count_kv": 1}, drop=[r"attn_norm_2\.", TIED]),
    "mpt": table(
        "mpt",
        3,
        LAYER_NORM,
        ALIBI,
        {"attention.max_alibi_bias": 8.0, "attention.clamp_kqv": 0.75},
        drop=[r"^position_embd\.", r"attn_k_norm\.", r"\.act\.scales$", TIED],
    ),
    "bloom": table("bloom", 3, LAYER_NORM, ALIBI, {"attention.head_count_kv": 4}),
    "starcoder": table("starcoder", 3, LAYER_NORM, LEARNED_POSITIONS, {"attention.head_count_kv": 1}, drop=[TIED]),
    "starcoder2": table("starcoder2", 3, LAYER_NORM),
    "stablelm": table(
        "stablelm", 3, LAYER_NORM, {"rope.dimension_count": 8, "use_parallel_residual": False}, drop=[r"attn_(q|k)_norm\."]
    ),
    # 12B: norms of each head with weights of their own.
    "stablelm-parallel": table(
        "stablelm", 2, LAYER_NORM, {"rope.dimension_count": 8, "use_parallel_residual": True}, drop=[*BIASES, r"ffn_norm\."]
    ),
    "phi2": table("phi2", 3, LAYER_NORM, {"attention.head_count_kv": 4, "rope.dimension_count": 8}),
    # llama.cpp knows the 7B, which rotates, by its 32 layers, and the 13B, which has ALiBi, by its 40.
    "baichuan": table("baichuan", 32, RMS, BAICHUAN, drop=BIASES),
    "baichuan-alibi": table("baichuan", 40, RMS, BAICHUAN, drop=BIASES),
    "nemotron": table("nemotron", 3, LAYER_NORM, {"rope.dimension_count": 8, "rope.scaling.type": "linear", "rope.scaling.factor": 2.0}),
    "olmo": table("olmo", 3, LAYER_NORM, {"attention.clamp_kqv": 0.75}, drop=[*BIASES, TIED]),
}
