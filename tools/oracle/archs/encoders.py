"""Encoders, embedders and rerankers: what is compared are hidden states and what pooling makes of them."""

from .common import BIASES, FUSED_QKV, HEAD, LAYER_NORM, RMS, ROPE_FREQS, TIED, WIDE, table

# `pooling_type`.
MEAN, CLS, LAST, RANK = 1, 2, 3, 4
ENCODER = {"attention.causal": False}
BERT = {"attention.head_count_kv": None, "rope.freq_base": None, "tokenizer.ggml.token_type_count": 2}
MODERN = {
    "attention.head_count_kv": None,
    "attention.sliding_window": 8,
    "attention.sliding_window_pattern": 3,
    "rope.freq_base": 80000.0,
    "rope.freq_base_swa": 5000.0,
    "rope.scaling.type": "none",
}

ENCODERS = {
    "bert": table("bert", 3, LAYER_NORM, ENCODER, BERT, {"pooling_type": CLS}, drop=[HEAD]),
    # bge-reranker: the head of XLM-RoBERTa.
    "bert-reranker": table("bert", 2, LAYER_NORM, ENCODER, BERT, {"pooling_type": RANK, "tokenizer.ggml.token_type_count": 1}),
    "nomic-bert": table(
        "nomic-bert",
        3,
        LAYER_NORM,
        ENCODER,
        BERT,
        {"pooling_type": MEAN, "rope.freq_base": 5000.0},
        drop=BIASES,
        fuse=FUSED_QKV,
    ),
    # Every other layer has experts.
    "nomic-bert-moe": table(
        "nomic-bert-moe",
        3,
        LAYER_NORM,
        ENCODER,
        BERT,
        {"pooling_type": MEAN, "rope.freq_base": 5000.0, "expert_count": 8, "expert_used_count": 2, "moe_every_n_layers": 2},
        fuse=FUSED_QKV,
    ),
    "jina-bert-v2": table(
        "jina-bert-v2",
        3,
        LAYER_NORM,
        ENCODER,
        BERT,
        {"pooling_type": MEAN},
        drop=[HEAD, r"attn_(q|k)_norm\.", r"attn_norm_2\.", r"ffn_up\.bias$"],
        fuse={"ffn_up": ["ffn_up", "ffn_gate"]},
    ),
    # The one for code: norms of queries and keys, and one more after the attention.
    "jina-bert-v2-code": table("jina-bert-v2", 2, LAYER_NORM, ENCODER, BERT, {"pooling_type": MEAN}, drop=[HEAD, r"ffn_up\.bias$"]),
    "jina-reranker": table(
        "jina-bert-v2",
        2,
        LAYER_NORM,
        ENCODER,
        BERT,
        {"pooling_type": RANK},
        drop=[r"attn_(q|k)_norm\.", r"attn_norm_2\.", r"ffn_up\.bias$"],
        fuse={"ffn_up": ["ffn_up", "ffn_gate"]},
    ),
    # Every third layer sees all, the others a window to both sides.
    "modern-bert": table(
        "modern-bert",
        4,
        LAYER_NORM,
        ENCODER,
        MODERN,
        {"pooling_type": CLS},
        drop=[HEAD, r"^blk\.0\.attn_norm\."],
    ),
    "modern-bert-reranker": table(
        "modern-bert",
        4,
        LAYER_NORM,
        ENCODER,
        MODERN,
        {"pooling_type": RANK, "classifier.pooling_type": MEAN, "hidden_activation": "silu"},
        drop=[r"^blk\.0\.attn_norm\."],
    ),
    "gemma-embedding": table(
        "gemma-embedding",
        7,
        RMS,
        WIDE,
        {
            "pooling_type": MEAN,
            "attention.sliding_window": 8,
            "rope.freq_base": 80000.0,
            "dense_2_feat_in": 64,
            "dense_2_feat_out": 96,
            "dense_3_feat_in": 96,
            "dense_3_feat_out": 64,
        },
        drop=[*BIASES, TIED],
    ),
    "llama-embed": table("llama-embed", 3, RMS, ENCODER, {"pooling_type": MEAN, "rope.dimension_count": 16}, drop=[*BIASES, ROPE_FREQS, TIED]),
    "qwen3-embedding": table("qwen3", 2, RMS, WIDE, {"pooling_type": LAST}, drop=[*BIASES, HEAD, TIED]),
    "qwen3-reranker": table("qwen3", 2, RMS, WIDE, {"pooling_type": RANK, "classifier.output_labels": ["yes", "no"]}, drop=[*BIASES, TIED]),
}
