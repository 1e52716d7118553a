"""What most architectures have."""

BASE = {
    "tokenizer.ggml.model": "no_vocab",
    "vocab_size": 128,
    "context_length": 256,
    "embedding_length": 64,
    "feed_forward_length": 96,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "rope.freq_base": 5000.0,
}
RMS = {"attention.layer_norm_rms_epsilon": 0.0625}
LAYER_NORM = {"attention.layer_norm_epsilon": 0.0625}
# Heads that are wider than their share of the embedding.
WIDE = {"attention.key_length": 32, "attention.value_length": 32}
YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32}
EXPERTS = {"expert_count": 8, "expert_used_count": 2}
GROUPS = {"expert_group_count": 4, "expert_group_used_count": 2}

# Patterns of `drop`.
# What llama.cpp asks for of every architecture, and converters write beside block types of two scales only.
SCALES = r"\.(scale|input_scale)$"
QKV_BIAS = r"attn_(q|k|v|qkv)\.bias$"
OUTPUT_BIAS = r"attn_output\.bias$"
FFN_BIAS = r"ffn_(gate|up|down)\.bias$"
BIASES = [QKV_BIAS, OUTPUT_BIAS, FFN_BIAS, r"^output\.bias$"]
ROPE_FREQS = r"^rope_freqs\.weight$"
TIED = r"^output\.weight$"
# The head of rerankers.
HEAD = r"^cls(_norm)?\."

FUSED_QKV = {"attn_qkv": ["attn_q", "attn_k", "attn_v"]}
SPLIT_EXPERTS = {"ffn_gate_up_exps": ["ffn_gate_exps", "ffn_up_exps"]}


def table(arch, layers, *parts, drop=(), embedding=None, **rest):
    """A model of `layers` blocks whose metadata is that of all `parts`; later ones win, and `None` removes a key.

    `embedding` is the reach of the embedding table's values: small enough, where the table gives the logits, too, that the best id is not mostly the token
    before; large enough elsewhere that layers do not forget the token. Unless given it is one of two numbers that do.
    """
    metadata = BASE | {"block_count": layers}
    for part in parts:
        metadata = metadata | part
    metadata = {key: value for key, value in metadata.items() if value is not None}
    return {"arch": arch, "metadata": metadata, "drop": [SCALES, *drop], "embedding": embedding} | rest
