#!/usr/bin/env python3
"""Compares `rustorch-cli perplexity` and `imatrix` with llama.cpp's programs on the first 20,000 tokens of a text.

    LLAMA_CPP=BIN python benches/peers/perplexity.py target/release/rustorch-cli TEXT MODEL.gguf COPY.gguf

BIN is a folder with llama-perplexity and llama-imatrix; `tools/oracle/llama_evaluate.py` says how they are built. Chunks have 512 tokens, and llama.cpp reads them token by token (`-ub 1`): its
kernels for several rows round in other ways, so that it differs from itself by more than 1e-3 with Q4_K_M; LLAMA_ARGS has other options, such as '-fa off'. Of the model and its
quantized copy it compares the perplexities, the divergence of the copy from the model with the log probabilities written by either program, and the
activation statistics of the model (llama-imatrix loses rows where a batch has several chunks). Fails where one differs by more than 1e-3; quantiles and shares of tokens, of which one that is rounded in another way
counts for much, are only shown.
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

CONTEXT, CHUNKS, LIMIT = 512, 39, 1e-3
OPTIONS = os.environ.get("LLAMA_ARGS", "-ub 1 -t 1").split()


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command}:\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def figure(text, name):
    match = re.search(re.escape(name) + r"\s*[:=]\s*(-?[\d.]+)(%)?", text)
    return float(match[1]) / (100 if match[2] or "Δp" in name or "Same" in name else 1)


def sums(path):
    return {tensor.name: np.array(tensor.data, dtype=np.float64) for tensor in gguf.GGUFReader(path).tensors}


def main(program, text, model, copy):
    folder = Path(os.environ["LLAMA_CPP"])

    def theirs(name, *args, until=""):
        # Its programs may end before their last lines are written.
        for _ in range(20):
            told = "".join(run(folder / name, *args))
            if until in told:
                return told
        raise SystemExit(f"{name} never tells {until}")

    ours = lambda *args: json.loads(run(program, "perplexity", *args, "--json", "-b", "cpu")[0])  # noqa: E731
    worst = 0

    def compare(what, ours, theirs, counts=True):
        nonlocal worst
        relative = abs(ours - theirs) / abs(theirs)
        worst = max(worst, relative if counts else 0)
        print(f"{what:58} {ours:12.6f} {theirs:12.6f} {relative:9.1e}")

    print(f"{'':58} {'rustorch':>12} {'llama.cpp':>12} {'relative':>9}")
    chunks = ("-f", text, "-c", CONTEXT, "--chunks", CHUNKS)
    with tempfile.TemporaryDirectory() as temporary:
        bases = {"rustorch": Path(temporary) / "ours", "llama.cpp": Path(temporary) / "theirs"}
        found = ours("-m", model, *chunks, "--kl-divergence-base", bases["rustorch"])
        compare("perplexity", found["perplexity"], figure(theirs("llama-perplexity", "-m", model, *chunks, *OPTIONS, "--kl-divergence-base", bases["llama.cpp"], until="PPL = "), "PPL"))
        compare("perplexity of the copy", ours("-m", copy, *chunks)["perplexity"], figure(theirs("llama-perplexity", "-m", copy, *chunks, *OPTIONS, until="PPL = "), "PPL"))
        for name, base in bases.items():
            found = ours("-m", copy, "--kl-divergence-base", base, "--kl-divergence")
            told = theirs("llama-perplexity", "-m", copy, "-c", CONTEXT, *OPTIONS, "--kl-divergence-base", base, "--kl-divergence", until="Same top p: ")
            for what, value, label in [
                ("ratio of perplexities", found["perplexity"]["ratio"]["value"], "Mean PPL(Q)/PPL(base)"),
                ("mean divergence", found["kl_divergence"]["mean"]["value"], "Mean    KLD"),
                ("99 % divergence", found["kl_divergence"]["p99"], "99.0%   KLD"),
                ("median divergence", found["kl_divergence"]["median"], "Median  KLD"),
                ("root mean square of Δp", found["probability_difference"]["rms"]["value"], "RMS Δp"),
                ("same likeliest token", found["probability_difference"]["same_top"]["value"], "Same top p"),
            ]:
                compare(f"{what} (log probabilities by {name})", value, figure(told, label), label.startswith("Mean"))
        paths = [Path(temporary) / name for name in ("ours.gguf", "theirs.gguf")]
        run(program, "imatrix", "-m", model, *chunks, "-o", paths[0], "-b", "cpu")
        theirs("llama-imatrix", "-m", model, *chunks, "-b", CONTEXT, "-o", paths[1], "--no-ppl")
        found, expected = map(sums, paths)
        assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
        for suffix in (".in_sum2", ".counts"):
            relative = max(float((np.abs(found[name] - expected[name]) / expected[name]).max()) for name in found if name.endswith(suffix))
            worst = max(worst, relative)
            print(f"{'largest difference of ' + suffix + ' of ' + str(len(found) // 2) + ' weights':58} {'':25} {relative:9.1e}")
    if worst > LIMIT:
        raise SystemExit(f"a figure differs by {worst:.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
