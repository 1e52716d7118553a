#!/usr/bin/env python3
"""Write which dtypes llama.cpp gives the matrices of small models in each mixture, and what their data is, as JSON lines.

    python tools/oracle/llama_quantize.py crates/rustorch-llm/tests/fixtures/quantize.jsonl

Needs `pip install llama-cpp-python==0.3.36 gguf numpy`. Each model has metadata and names of tensors as its architecture has them; matrices are narrow. `archs/weights.py` fills
them, and `importance` makes the importance matrix. A line is a model,

    {"name", "metadata", "tensors", "mixtures": {MIXTURE: {"plain", "weighted"}}}

with the dtypes of its matrices without and with importances: a character each, '0' + ggml's id; null where llama.cpp refuses. Mixtures of the model `data` also have "fnv", the
hash of each matrix's data, and "error", its square error, and of both the "weighted_" ones, the error weighted by importances; null where gguf-py does not know the type.
"""

import ctypes
import json
import struct
import sys
import tempfile
from pathlib import Path

import gguf
import llama_cpp as L
import numpy as np
from gguf.quants import dequantize

from archs.weights import fnv1a, splitmix64, tensor
from llama_archs import write

MIXTURES = {name.removeprefix("LLAMA_FTYPE_MOSTLY_").removeprefix("LLAMA_FTYPE_ALL_"): value for name, value in vars(L).items() if name.startswith("LLAMA_FTYPE_") and value < 1024}
# llama.cpp reads it, and quantizes nothing to it.
del MIXTURES["NVFP4"]


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def quiet(level, text, data):
    pass


def importance(name, count):
    """Between 1/64 and 16, exact in f32."""
    z = splitmix64(fnv1a(name + ".importance"), count)
    return ((z & np.uint64(1023)).astype(np.float32) + 1) * np.exp2(-((z >> np.uint64(10)) % np.uint64(7)).astype(np.float32)) / np.float32(64)


PARTS = ("attn_q", "attn_k", "attn_v", "ffn_down", "attn_output", "ffn_gate", "ffn_up")


def dense(architecture, layers, heads, kv_heads, columns, tied=False, norms=()):
    metadata = {
        "general.architecture": architecture, f"{architecture}.block_count": layers, f"{architecture}.context_length": 64,
        f"{architecture}.embedding_length": columns, f"{architecture}.feed_forward_length": columns, f"{architecture}.attention.head_count": heads,
        f"{architecture}.attention.head_count_kv": kv_heads, f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5, f"{architecture}.vocab_size": 2,
        f"{architecture}.attention.key_length": 64, f"{architecture}.attention.value_length": 64,
    }
    if architecture == "falcon":
        metadata["falcon.attention.layer_norm_epsilon"] = 1e-5
    if architecture == "gemma3":
        metadata["gemma3.attention.sliding_window"] = 8
    tensors = {"token_embd.weight": [2, columns], "output_norm.weight": [columns]}
    if not tied:
        tensors["output.weight"] = [2, columns]
    for i in range(layers):
        for part in PARTS if layers < 80 else PARTS[2:4]:
            tensors[f"blk.{i}.{part}.weight"] = [2, columns]
        for part in ("attn_norm", "ffn_norm", *norms):
            tensors[f"blk.{i}.{part}.weight"] = [columns]
    return metadata, tensors


def moe(architecture, layers, experts, columns):
    metadata, tensors = dense(architecture, layers, 8, 4, columns)
    metadata |= {f"{architecture}.expert_count": experts, f"{architecture}.expert_used_count": 2, f"{architecture}.expert_feed_forward_length": columns}
    for i in range(layers):
        for part in ("gate", "up", "down"):
            del tensors[f"blk.{i}.ffn_{part}.weight"]
            tensors[f"blk.{i}.ffn_{part}_exps.weight"] = [experts, 1, columns]
        tensors[f"blk.{i}.ffn_gate_inp.weight"] = [experts, columns]
    return metadata, tensors


MODELS = {
    "llama": dense("llama", 17, 8, 4, 256),
    "llama, many heads to a key": dense("llama", 16, 8, 1, 256),
    "llama 70B": dense("llama", 80, 8, 1, 256),
    "llama, unusual columns": dense("llama", 9, 8, 4, 96),
    # No block divides them.
    "llama, columns of no block": dense("llama", 9, 8, 4, 80),
    "llama, tied": dense("llama", 9, 8, 4, 256, tied=True),
    "mixtral": moe("llama", 9, 8, 256),
    "qwen3moe": moe("qwen3moe", 17, 16, 256),
    "gemma3": dense("gemma3", 26, 4, 1, 256, tied=True, norms=("attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm")),
    "falcon": dense("falcon", 17, 8, 4, 256),
}
# One block, whose matrices are larger; of 3 dimensions, too.
DATA = ("data", ({**moe("qwen3moe", 1, 3, 512)[0]}, {
    "token_embd.weight": [8, 512], "output_norm.weight": [512], "output.weight": [8, 512],
    "blk.0.attn_q.weight": [24, 512], "blk.0.attn_k.weight": [24, 512], "blk.0.attn_v.weight": [24, 512], "blk.0.attn_output.weight": [24, 512],
    "blk.0.ffn_gate_exps.weight": [3, 8, 512], "blk.0.ffn_up_exps.weight": [3, 8, 512], "blk.0.ffn_down_exps.weight": [3, 8, 512],
    "blk.0.ffn_gate_inp.weight": [3, 512], "blk.0.attn_norm.weight": [512], "blk.0.ffn_norm.weight": [512],
}))


def matrices(tensors):
    return {name: shape for name, shape in tensors.items() if len(shape) > 1}


SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def read(path):
    """ggml's id of the type, and the bytes up to the next tensor's, by name: gguf-py does not know every type."""
    data, at = path.read_bytes(), 24
    count, entries = struct.unpack_from("<QQ", data, 8)

    def text():
        nonlocal at
        (length,) = struct.unpack_from("<Q", data, at)
        at += 8 + length
        return data[at - length : at].decode()

    def skip(kind):
        nonlocal at
        if kind == 8:
            text()
        elif kind == 9:
            inner, length = struct.unpack_from("<IQ", data, at)
            at += 12
            for _ in range(length):
                skip(inner)
        else:
            at += SIZES[kind]

    for _ in range(entries):
        text()
        (kind,) = struct.unpack_from("<I", data, at)
        at += 4
        skip(kind)
    found = []
    for _ in range(count):
        name = text()
        (dims,) = struct.unpack_from("<I", data, at)
        shape = struct.unpack_from(f"<{dims}Q", data, at + 4)
        kind, offset = struct.unpack_from("<IQ", data, at + 4 + 8 * dims)
        at += 16 + 8 * dims
        found.append((name, shape[::-1], kind, offset))
    start = (at + 31) // 32 * 32
    return {name: (kind, data[start + offset :], shape) for name, shape, kind, offset in found}


BLOCKS = {41: (128, 18), 42: (64, 18)} | {int(t): size for t, size in gguf.GGML_QUANT_SIZES.items()}


def quantize(source, target, mixture, tensors, weighted=False):
    """What `read` gives of the result; None where llama.cpp refuses."""
    params = L.llama_model_quantize_default_params()
    params.ftype = mixture
    params.nthread = 1
    keep = []
    if weighted:
        shapes = matrices(tensors)
        entries = (L.llama_model_imatrix_data * (len(shapes) + 1))()
        for entry, (name, shape) in zip(entries, shapes.items()):
            values = importance(name, shape[-1] * (shape[0] if len(shape) == 3 else 1))
            keep.append((name.encode(), values))
            entry.name, entry.size = keep[-1][0], len(values)
            entry.data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        params.imatrix = entries
    if L.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)) != 0:
        return None
    return read(target)


def describe(found, tensors, weighted, with_data):
    """The entries of a mixture, and of the data if wanted."""
    prefix = "weighted_" if weighted else ""
    entries = {"weighted" if weighted else "plain": "".join(chr(ord("0") + found[name][0]) for name in matrices(tensors))}
    if with_data:
        hashes, errors = [], []
        for name, shape in matrices(tensors).items():
            kind, data, _ = found[name]
            block, size = BLOCKS[kind]
            data = data[: int(np.prod(shape)) // block * size]
            hashes.append(f"{fnv_bytes(data):016x}")
            if kind in (41, 42):
                errors.append(None)
                continue
            rows = np.frombuffer(data, dtype=np.uint8).reshape(*shape[:-1], -1)
            values = dequantize(rows, gguf.GGMLQuantizationType(kind)).astype(np.float64).reshape(shape)
            square = (values - tensor(name, shape, 0.25)) ** 2
            if weighted:
                weights = importance(name, shape[-1] * (shape[0] if len(shape) == 3 else 1))
                square = square * weights.reshape((shape[0], 1, shape[-1]) if len(shape) == 3 else (1, shape[-1]))
            errors.append(float(f"{square.sum():.9g}"))
        entries |= {prefix + "fnv": hashes, prefix + "error": errors}
    return entries


def main(path):
    L.llama_log_set(quiet, ctypes.c_void_p())
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source.gguf", Path(folder) / "target.gguf"
        for name, (metadata, tensors) in [*MODELS.items(), DATA]:
            write(source, metadata, tensors, 0.25)
            line = {"name": name, "metadata": metadata, "tensors": tensors, "mixtures": {}}
            for mixture, number in sorted(MIXTURES.items(), key=lambda item: item[1]):
                entries = line["mixtures"][mixture] = {}
                for weighted in (False, True):
                    found = quantize(source, target, number, tensors, weighted)
                    if found:
                        entries |= describe(found, tensors, weighted, name == "data")
                    else:
                        entries["weighted" if weighted else "plain"] = None
            lines.append(json.dumps(line, separators=(",", ":")))
    Path(path).write_text("\n".join(lines) + "\n")


def fnv_bytes(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


if __name__ == "__main__":
    main(sys.argv[1])
