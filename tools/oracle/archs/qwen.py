"""Qwen."""

from .common import BIASES, EXPERTS, HEAD, RMS, SPLIT_EXPERTS, TIED, WIDE, YARN, table

# Three of four layers are gated delta nets; the fourth rotates a quarter of each head.
DELTA_NETS = {
    "ssm.conv_kernel": 4,
    "ssm.state_size": 16,
    "ssm.group_count": 2,
    "ssm.time_step_rank": 4,
    "ssm.inner_size": 64,
    "full_attention_interval": 4,
    "rope.dimension_count": 8,
}
SECTIONS = {"rope.dimension_sections": [2, 1, 1, 0]}
SHARED_EXPERT = {"expert_feed_forward_length": 32, "expert_shared_feed_forward_length": 64}

TABLES = {
    "qwen2": table("qwen2", 3, RMS, YARN, drop=[r"^output\.bias$", TIED]),
    # llama.cpp passes over scales of its networks.
    "qwen2-scales": table("qwen2", 2, RMS, drop=[r"^output\.bias$"], keep=[r"\.scale$"]),
    # llama.cpp 0.3.36 does not read this architecture's epsilon: it is 0.
    "qwen2vl": table(
        "qwen2vl", 3, {"attention.layer_norm_rms_epsilon": 1e-12, "rope.dimension_sections": [2, 3, 3, 0]}, drop=[r"^output\.bias$"]
    ),
    "qwen2moe": table("qwen2moe", 3, RMS, EXPERTS, SHARED_EXPERT),
    "qwen3": table("qwen3", 3, RMS, WIDE, drop=[*BIASES, HEAD]),
    "qwen3vl": table("qwen3vl", 3, RMS, WIDE, {"rope.dimension_sections": [6, 5, 5, 0], "n_deepstack_layers": 3}, drop=[*BIASES, HEAD, TIED]),
    "qwen3moe": table("qwen3moe", 3, RMS, WIDE, EXPERTS, {"expert_feed_forward_length": 32}, drop=BIASES),
    "qwen3vlmoe": table(
        "qwen3vlmoe",
        3,
        RMS,
        WIDE,
        EXPERTS,
        {"expert_feed_forward_length": 32, "rope.dimension_sections": [6, 5, 5, 0], "n_deepstack_layers": 3},
        drop=BIASES,
    ),
    "qwen3next": table("qwen3next", 5, RMS, WIDE, EXPERTS, SHARED_EXPERT, DELTA_NETS, drop=[*BIASES, r"ssm_in\."], split=SPLIT_EXPERTS),
    "qwen35": table("qwen35", 5, RMS, WIDE, DELTA_NETS, SECTIONS, drop=[*BIASES, TIED]),
    # Gates and values of experts in one matrix.
    "qwen35moe": table("qwen35moe", 5, RMS, WIDE, EXPERTS, SHARED_EXPERT, DELTA_NETS, SECTIONS, drop=BIASES),
}
