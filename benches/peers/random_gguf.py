#!/usr/bin/env python3
"""Write a language model with random weights and the sizes of a known one, in F16: the speed of a model does not depend on its weights.

    benches/peers/random_gguf.py tinyllama-1.1b tinyllama-f16.gguf
    rustorch-cli quantize tinyllama-f16.gguf tinyllama-Q4_K_M.gguf Q4_K_M

Needs `pip install gguf numpy`. There is no tokenizer (`no_vocab`): `llama_cpp.py` and the programs that it runs make their own ids.
"""

import argparse
from dataclasses import dataclass

import gguf
import numpy as np


@dataclass
class Shape:
    """Sizes as Hugging Face's `config.json` has them; `experts`: how many there are and how many a token takes, of `hidden` columns each."""

    architecture: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head: int
    hidden: int
    vocabulary: int
    context: int
    rope_base: float
    epsilon: float
    tied: bool
    experts: tuple[int, int] | None = None


SHAPES = {
    "tinyllama-1.1b": Shape("llama", 22, 2048, 32, 4, 64, 5632, 32000, 2048, 1e4, 1e-5, False),
    "llama-3.2-1b": Shape("llama", 16, 2048, 32, 8, 64, 8192, 128256, 131072, 5e5, 1e-5, True),
    "qwen2.5-0.5b": Shape("qwen2", 24, 896, 14, 2, 64, 4864, 151936, 32768, 1e6, 1e-6, True),
    "qwen3-0.6b": Shape("qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 40960, 1e6, 1e-6, True),
    # Layers of Qwen3-30B-A3B, a sixth of them, with half of the experts.
    "qwen3moe-8x64": Shape("qwen3moe", 8, 2048, 32, 4, 128, 768, 151936, 40960, 1e6, 1e-6, False, experts=(64, 8)),
}


def tensors_of(shape):
    """The names and dimensions of all tensors, rows first."""
    queries, keys = shape.heads * shape.head, shape.kv_heads * shape.head
    yield "token_embd.weight", (shape.vocabulary, shape.width)
    for layer in range(shape.layers):
        tensors = {
            "attn_norm.weight": (shape.width,),
            "attn_q.weight": (queries, shape.width),
            "attn_k.weight": (keys, shape.width),
            "attn_v.weight": (keys, shape.width),
            "attn_output.weight": (shape.width, queries),
            "ffn_norm.weight": (shape.width,),
        }
        if shape.architecture == "qwen2":
            tensors |= {"attn_q.bias": (queries,), "attn_k.bias": (keys,), "attn_v.bias": (keys,)}
        if shape.architecture.startswith("qwen3"):
            tensors |= {"attn_q_norm.weight": (shape.head,), "attn_k_norm.weight": (shape.head,)}
        if shape.experts is None:
            suffix, stack = "", ()
        else:
            suffix, stack = "_exps", shape.experts[:1]
            tensors["ffn_gate_inp.weight"] = (*stack, shape.width)
        for part in ("gate", "up"):
            tensors[f"ffn_{part}{suffix}.weight"] = (*stack, shape.hidden, shape.width)
        tensors[f"ffn_down{suffix}.weight"] = (*stack, shape.width, shape.hidden)
        for name, dimensions in tensors.items():
            yield f"blk.{layer}.{name}", dimensions
    yield "output_norm.weight", (shape.width,)
    if not shape.tied:
        yield "output.weight", (shape.vocabulary, shape.width)


def dtype(name, dimensions):
    """Vectors and routers stay in F32, as llama.cpp's converters leave them."""
    return np.float32 if len(dimensions) == 1 or "ffn_gate_inp" in name else np.float16


def write_metadata(writer, shape):
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(shape.vocabulary)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_rope_dimension_count(shape.head)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    if shape.experts is not None:
        writer.add_expert_count(shape.experts[0])
        writer.add_expert_used_count(shape.experts[1])
        writer.add_expert_feed_forward_length(shape.hidden)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("output")
    args = parser.parse_args()
    shape = SHAPES[args.shape]
    writer = gguf.GGUFWriter(args.output, shape.architecture)
    writer.add_name(f"{args.shape}, random weights")
    write_metadata(writer, shape)
    tensors = list(tensors_of(shape))
    for name, dimensions in tensors:
        kind = np.dtype(dtype(name, dimensions))
        writer.add_tensor_info(name, dimensions, kind, int(np.prod(dimensions)) * kind.itemsize)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    rng = np.random.default_rng(0)
    for name, dimensions in tensors:
        # One by one: all of them would not fit into memory.
        values = rng.standard_normal(dimensions, np.float32)
        if name.endswith("norm.weight"):
            values = 1 + 0.05 * values
        else:
            values /= np.sqrt(dimensions[-1])
        writer.write_tensor_data(values.astype(dtype(name, dimensions)))
    writer.close()


main()
