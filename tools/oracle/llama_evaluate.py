#!/usr/bin/env python3
"""Write what llama.cpp's llama-perplexity and llama-imatrix find, as JSON lines and in their own file formats.

    LLAMA_CPP=BIN python tools/oracle/llama_evaluate.py crates/rustorch-llm/tests/fixtures/evaluate

Needs numpy, gguf and, in the folder BIN, llama-perplexity, llama-imatrix and llama-quantize, which no package has. They are built of the source that PyPI's
llama-cpp-python carries:

    pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36 && tar xf llama_cpp_python-0.3.36.tar.gz
    cmake -S llama_cpp_python-0.3.36/vendor/llama.cpp -B build -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF && cmake --build build -t llama-perplexity llama-imatrix llama-quantize

The text is `text.txt` in the folder. `perplexity.json` is of the embedded model (`crates/rustorch-cli/assets/shakespeare.gguf`) and of a copy that was Q4_0, both
made F32 by llama-quantize: running and final perplexities, and the divergence of the copy from the model. `base.dat` is a file of --kl-divergence-base over two short
chunks, `imatrix.gguf` and `imatrix.dat` are the model's activation statistics in both formats. Weights, keys and values are f32 everywhere, and there is no flash attention: over so few tokens, llama.cpp's
own kernels for the same rounded ones differ by 1e-3. A line of `imatrix.jsonl` is a model of `architectures.jsonl` with the
tokenizer of its first line:

    {"name", "chunks", "weights": {NAME: {"counts", "total", "ramp"}}}

where `total` is the sum of all sums of squares, and `ramp` that of their products with 1, 2, 3, ..
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np

from archs.weights import tensor

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "crates/rustorch-cli/assets/shakespeare.gguf"
# One of each way in which weights are multiplied with activations.
ARCHITECTURES = ["llama", "phi3-short", "qwen2moe", "deepseek2", "gemma3n", "qwen35moe", "gpt-oss", "mamba2", "rwkv7", "granitehybrid", "lfm2moe"]
CONTEXT, CHUNKS = 96, 6
EXACT = ("-t", 1, "-ctk", "f32", "-ctv", "f32", "-fa", "off")


def tool(name, *args, until=""):
    """What a program tells. Some end before their last lines are written; so it runs again until a pattern is in them."""
    command = [str(Path(os.environ["LLAMA_CPP"]) / name), *map(str, args)]
    for _ in range(20):
        done = subprocess.run(command, capture_output=True, text=True)
        told = done.stdout + done.stderr
        if done.returncode:
            raise SystemExit(f"{command}:\n{told}")
        if re.search(until, told):
            return told
    raise SystemExit(f"{command} never tells {until}")


def perplexity(model, *args):
    """The perplexities after each chunk, the last one, and its standard error."""
    told = tool("llama-perplexity", "-m", model, *EXACT, *args, until="PPL = ")
    final = re.search(r"PPL = ([\d.]+) \+/- ([\d.]+)", told)
    return {"running": [float(x) for x in re.findall(r"\[\d+\]([\d.]+),", told)], "perplexity": float(final[1]), "uncertainty": float(final[2])}


FIGURE = r"\s*:\s*(-?[\d.]+)\s*%?\s*(?:±\s*([\d.]+))?\s*(%)?"


def divergence(model, base):
    """All figures by the names that llama-perplexity gives them; shares are fractions of 1."""
    told = tool("llama-perplexity", "-m", model, *EXACT, "-c", CONTEXT, "-b", CONTEXT, "--kl-divergence-base", base, "--kl-divergence", until="Same top p: ")
    found = {}
    for line in told[told.index("=== Perplexity statistics") :].splitlines():
        match = re.match(r"(.*\S)" + FIGURE + r"\s*%?\s*$", line)
        if match and not line.startswith("llama"):
            scale = 0.01 if "%" in line[len(match[1]) :] else 1
            found[" ".join(match[1].split())] = [scale * float(x) for x in match.groups()[1:3] if x]
    return found


def statistics(path):
    return {t.name: np.array(t.data, dtype=np.float64) for t in gguf.GGUFReader(path).tensors}


def vocabulary():
    """Characters of the text and some pairs of letters, 128 tokens in all."""
    texts = ["<unk>", "<s>", "</s>", "\u2581", "\n", *map(chr, range(33, 127))]
    pairs = ["th", "he", "in", "er", "an", "re", "nd", "at", "on", "nt", "ha", "es", "st", "en", "ed", "to", "it", "ou", "ea", "hi", "is", "or", "ti", "as", "te", "et", "ng", "of", "al", "de"]
    texts += pairs[: 128 - len(texts)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": texts,
        "tokenizer.ggml.scores": [-float(i) for i in range(len(texts))],
        "tokenizer.ggml.token_type": [2, 3, 3, *[1] * (len(texts) - 3)],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
    }


def write(path, header, tokenizer):
    kind = gguf.GGUFValueType
    types = {bool: (kind.BOOL, kind.BOOL), int: (kind.UINT32, kind.INT32), float: (kind.FLOAT32, kind.FLOAT32), str: (kind.STRING, kind.STRING)}
    metadata = {key: value for key, value in header["metadata"].items() if not key.startswith("tokenizer.")} | tokenizer
    writer = gguf.GGUFWriter(path, metadata.pop("general.architecture"))
    for key, value in metadata.items():
        if isinstance(value, list):
            writer.add_key_value(key, value, kind.ARRAY, types[type(value[0])][1])
        else:
            writer.add_key_value(key, value, types[type(value)][0])
    for name, shape in header["tensors"].items():
        writer.add_tensor(name, tensor(name, shape, header["embedding"]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def digest(path):
    found = statistics(path)
    weights = {}
    for name, sums in found.items():
        if name.endswith(".in_sum2"):
            sums, base = sums.reshape(-1), name.removesuffix(".in_sum2")
            ramp = float((sums * np.arange(1, len(sums) + 1)).sum())
            weights[base] = {"counts": [int(x) for x in found[base + ".counts"].reshape(-1)], "total": float(f"{sums.sum():.7g}"), "ramp": float(f"{ramp:.7g}")}
    return weights


def main(folder):
    text = folder / "text.txt"
    chunks = ("-f", text, "-c", CONTEXT, "-b", CONTEXT, "--chunks", CHUNKS)
    with tempfile.TemporaryDirectory() as temporary:
        model, rounded, copy, base, made = (Path(temporary) / name for name in ("f32.gguf", "q4_0.gguf", "copy.gguf", "base.dat", "made.gguf"))
        tool("llama-quantize", "--allow-requantize", MODEL, model, "F32", 1)
        tool("llama-quantize", "--allow-requantize", MODEL, rounded, "Q4_0", 1)
        tool("llama-quantize", "--allow-requantize", rounded, copy, "F32", 1)
        found = {"context": CONTEXT, "chunks": CHUNKS, "model": perplexity(model, *chunks, "--kl-divergence-base", base), "copy": perplexity(copy, *chunks)}
        found["divergence"] = divergence(copy, base)
        (folder / "perplexity.json").write_text(json.dumps(found, indent=1) + "\n")
        perplexity(model, "-f", text, "-c", 16, "-b", 16, "--chunks", 2, "--kl-divergence-base", folder / "base.dat")
        os.chdir(folder)
        chunks = ("-f", text.name, *chunks[2:], *EXACT, "--no-ppl")
        tool("llama-imatrix", "-m", model, *chunks, "-o", "imatrix.gguf", "--output-format", "gguf")
        tool("llama-imatrix", "-m", model, *chunks, "-o", "imatrix.dat", "--output-format", "dat")
        headers = [json.loads(line) for line in (ROOT / "crates/rustorch-llm/tests/fixtures/architectures.jsonl").read_text().splitlines()]
        headers = {header["name"]: header for header in headers}
        lines = [json.dumps({"tokenizer": vocabulary()}, ensure_ascii=False)]
        for name in ARCHITECTURES:
            write(made, headers[name], vocabulary())
            tool("llama-imatrix", "-m", made, "-f", text.name, "-c", 32, "-b", 32, "--chunks", 4, *EXACT, "--no-ppl", "-o", base, "--output-format", "gguf")
            lines.append(json.dumps({"name": name, "context": 32, "chunks": 4, "weights": digest(base)}))
        (folder / "imatrix.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
