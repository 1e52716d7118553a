"""Writes small models whose matrices together have every type that weights can have, quantized by ggml.

    python tools/oracle/block_models.py crates/rustorch-llm/tests/fixtures/block_models libggml-base.so

Needs `pip install gguf numpy` and ggml's library, for example that of `pip install llama-cpp-python==0.3.36`. What llama.cpp computes
with them is `block_models.jsonl`, by `llama_logits.py`.

One layer of width 256; `no_vocab`: prompts are ids. The block types are dealt to the matrices of four models, those whose sums RusTorch takes in
another order than ggml to one of their own (`scaled`); the fifth model is dense, in F32, F16 and BF16. Weights are random with a spread for each row and column and some outliers, as trained ones have, and so
large that what a layer adds decides the next token, not the token before.
"""

import ctypes
import sys
from pathlib import Path

import gguf
import numpy as np

WIDTH, HEAD = 256, 64
# Of each model the seed, the width of keys and values, that of the feed-forward network, the number of tokens, and the types of its `matrices`.
# Of the seeds 0 to 3 those are taken that leave the largest margins between the best and the second token.
MODELS = {
    "classic": (0, 128, 256, 256, "Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 IQ4_NL MXFP4 Q8_0 Q4_0"),
    "k": (1, 128, 256, 256, "Q6_K Q2_K Q3_K Q4_K Q5_K TQ1_0 TQ2_0 Q6_K Q4_K"),
    "iq": (1, 128, 256, 256, "IQ4_XS IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ1_S IQ1_M IQ3_S IQ4_XS"),
    "scaled": (1, 128, 256, 256, "NVFP4 Q1_0 Q2_0 NVFP4 Q2_0 NVFP4 Q1_0 Q2_0 NVFP4"),
    "dense": (2, 64, 64, 64, "F16 F16 BF16 F32 BF16 F32 F16 BF16 F32"),
}
# ggml's newest type, which gguf-py 0.19.0 does not know yet: its number, and the values and bytes of a block.
Q2_0 = 42
gguf.GGML_QUANT_SIZES[Q2_0] = (64, 18)


def matrix(rng, rows, columns):
    """Values of about 2 / sqrt(columns)."""
    x = rng.standard_normal((rows, columns)) * np.exp(0.4 * rng.standard_normal((rows, 1)) + 0.4 * rng.standard_normal(columns))
    x *= np.where(rng.random(x.shape) < 0.01, 4, 1)
    return (x * 2 / np.sqrt(columns * (x * x).mean())).astype(np.float32)


def quantized(library, x, kind):
    """The blocks of a matrix, by ggml; values count alike where a type asks how much they do."""
    if kind == gguf.GGMLQuantizationType.F32:
        return x
    rows, columns = x.shape
    block, size = gguf.GGML_QUANT_SIZES[kind]
    out = np.zeros((rows, columns // block * size), np.uint8)
    pointer = lambda a: a.ctypes.data_as(ctypes.c_void_p)
    weights = np.ones(columns, np.float32)
    written = library.ggml_quantize_chunk(ctypes.c_int(kind), pointer(x), pointer(out), ctypes.c_int64(0), ctypes.c_int64(rows),
                                          ctypes.c_int64(columns), pointer(weights))
    assert written == out.nbytes, (kind, written, out.nbytes)
    return out


def matrices(kv, ff, vocabulary):
    """Names, and rows and columns: a row makes an output."""
    return {
        "token_embd": (vocabulary, WIDTH),
        "blk.0.attn_q": (WIDTH, WIDTH),
        "blk.0.attn_k": (kv, WIDTH),
        "blk.0.attn_v": (kv, WIDTH),
        "blk.0.attn_output": (WIDTH, WIDTH),
        "blk.0.ffn_gate": (ff, WIDTH),
        "blk.0.ffn_up": (ff, WIDTH),
        "blk.0.ffn_down": (WIDTH, ff),
        "output": (vocabulary, WIDTH),
    }


def write(path, library, seed, kv, ff, vocabulary, kinds):
    rng = np.random.default_rng(seed)
    w = gguf.GGUFWriter(path, "llama")
    w.add_name(path.stem)
    w.add_context_length(256)
    w.add_embedding_length(WIDTH)
    w.add_block_count(1)
    w.add_feed_forward_length(ff)
    w.add_head_count(WIDTH // HEAD)
    w.add_head_count_kv(kv // HEAD)
    w.add_rope_dimension_count(HEAD)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(vocabulary)
    w.add_tokenizer_model("no_vocab")
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        w.add_tensor(f"{name}.weight", np.exp(0.2 * rng.standard_normal(WIDTH)).astype(np.float32))
    for (name, shape), kind in zip(matrices(kv, ff, vocabulary).items(), kinds.split(), strict=True):
        kind = Q2_0 if kind == "Q2_0" else gguf.GGMLQuantizationType[kind]
        w.add_tensor(f"{name}.weight", quantized(library, matrix(rng, *shape), kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main(folder, library):
    library = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    for name, parameters in MODELS.items():
        write(Path(folder) / f"{name}.gguf", library, *parameters)


main(*sys.argv[1:])
