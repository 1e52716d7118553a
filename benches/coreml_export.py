#!/usr/bin/env python3
"""Measure the export of a GGUF model as a Core ML package: its time beside that of copying the result, and its memory beyond the mapped weights.

    cargo build --release
    benches/coreml_export.py --make tinyllama.gguf     # TinyLlama-1.1B's shape, random weights as in Q4_K_M
    benches/coreml_export.py tinyllama.gguf

Each round exports, and copies the package on the same disk, where each file is synced, as those of the export are. Memory is the largest `RssAnon` and `RssShmem` of
the process, which pages of the mapped file are no part of. Linux only.
"""

import argparse
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# TinyLlama-1.1B.
LAYERS, WIDTH, INNER, HEADS, KV_HEADS, VOCABULARY, CONTEXT = 22, 2048, 5632, 32, 4, 32000, 2048
# Types of GGUF tensors: their number, and of a block the values, bytes, and where its `f16` scales are.
F32, Q4_K, Q6_K = (0, 1, 4, ()), (12, 256, 144, (0, 2)), (14, 256, 210, (208,))


def tensors():
    """Names, dimensions (the first the innermost) and types, as llama.cpp's Q4_K_M mixes them."""
    kv = WIDTH // HEADS * KV_HEADS
    yield "token_embd.weight", (WIDTH, VOCABULARY), Q4_K
    for i in range(LAYERS):
        more = Q6_K if i < LAYERS // 8 or i >= 7 * LAYERS // 8 or (i - LAYERS // 8) % 3 == 2 else Q4_K
        for name, dims, kind in [
            ("attn_norm", (WIDTH,), F32),
            ("attn_q", (WIDTH, WIDTH), Q4_K),
            ("attn_k", (WIDTH, kv), Q4_K),
            ("attn_v", (WIDTH, kv), more),
            ("attn_output", (WIDTH, WIDTH), Q4_K),
            ("ffn_norm", (WIDTH,), F32),
            ("ffn_gate", (WIDTH, INNER), Q4_K),
            ("ffn_up", (WIDTH, INNER), Q4_K),
            ("ffn_down", (INNER, WIDTH), more),
        ]:
            yield f"blk.{i}.{name}.weight", dims, kind
    yield "output_norm.weight", (WIDTH,), F32
    yield "output.weight", (WIDTH, VOCABULARY), Q6_K


def text(s):
    s = s.encode()
    return struct.pack("<Q", len(s)) + s


def entry(key, value):
    """An entry of the metadata: integers are u32, a list has strings, floats or i32."""
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", 4, value)
    kind, pack = {str: (8, text), float: (6, lambda x: struct.pack("<f", x)), int: (5, lambda x: struct.pack("<i", x))}[type(value[0])]
    return text(key) + struct.pack("<IIQ", 9, kind, len(value)) + b"".join(map(pack, value))


def make(path):
    """Writes the model."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    tokens += [f"▁{i}" for i in range(VOCABULARY - len(tokens))]
    metadata = {
        "general.architecture": "llama",
        "general.name": "random weights",
        "llama.context_length": CONTEXT,
        "llama.embedding_length": WIDTH,
        "llama.block_count": LAYERS,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.rope.dimension_count": WIDTH // HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [float(-i) for i in range(VOCABULARY)],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - 259),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    rng = random.Random(0)
    listed, infos, offset = list(tensors()), b"", 0
    size = lambda dims, kind: dims[0] * (dims[1] if len(dims) > 1 else 1) // kind[1] * kind[2]
    for name, dims, kind in listed:
        infos += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind[0], offset)
        offset += -(-size(dims, kind) // 32) * 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(metadata)) + b"".join(entry(*pair) for pair in metadata.items()) + infos

    with open(path, "wb") as out:
        out.write(head + b"\0" * (-len(head) % 32))
        for _, dims, kind in listed:
            length = size(dims, kind)
            data = bytearray(struct.pack("<f", 1.0) * (length // 4) if kind is F32 else rng.randbytes(length))
            # Scales are small: 2⁻¹⁰ to 2⁻⁹.
            for place in kind[3]:
                data[place + 1 :: kind[2]] = b"\x14" * (length // kind[2])
            out.write(data + b"\0" * (-length % 32))


def rss(pid):
    """Bytes of a process that are no pages of a file."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def export(program, model, package, context):
    """Seconds, seconds of CPU, and the most memory."""
    before = os.times()
    started = time.perf_counter()
    process = subprocess.Popen([program, "export", "coreml", "-m", model, "-o", package, "--context", str(context)], stdout=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        most = max(most, rss(process.pid))
        time.sleep(0.002)
    seconds = time.perf_counter() - started
    if process.returncode != 0:
        raise SystemExit(f"{program} ended with {process.returncode}")
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, cpu, most


def copy(package, other):
    """Seconds of copying a package whose files are synced."""
    started = time.perf_counter()
    shutil.copytree(package, other)
    for path in other.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("--make", action="store_true", help="write it, with random weights")
    parser.add_argument("--rustorch", default=ROOT / "target/release/rustorch-cli")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.make:
        return make(args.model)
    rounds = []
    for _ in range(args.rounds):
        # Beside the model, on its disk.
        with tempfile.TemporaryDirectory(dir=pathlib.Path(args.model).resolve().parent) as folder:
            package = pathlib.Path(folder) / "a.mlpackage"
            seconds, cpu, memory = export(args.rustorch, args.model, package, args.context)
            size = sum(path.stat().st_size for path in package.rglob("*") if path.is_file())
            copied = copy(package, pathlib.Path(folder) / "b.mlpackage")
            rounds.append((seconds, cpu, copied, seconds / copied, memory / 2**20))
            print(f"export {seconds:.2f} s ({cpu:.2f} s of CPU), copy {copied:.2f} s, {memory / 2**20:.0f} MiB beyond the mapped weights", flush=True)
    seconds, cpu, copied, ratio, memory = (statistics.median(values) for values in zip(*rounds))
    print(f"medians: export {seconds:.2f} s ({cpu:.2f} s of CPU), copy of {size / 2**20:.0f} MiB {copied:.2f} s, ratio {ratio:.2f}, {memory:.0f} MiB")


main()
