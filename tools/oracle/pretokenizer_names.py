#!/usr/bin/env python3
"""Writes crates/rustorch-llm/tests/fixtures/tokenizer/pretokenizers.json: every name of a pre-tokenizer that llama.cpp knows, and what it implies.

    python3 tools/oracle/pretokenizer_names.py [SDIST]      (needs llama-cpp-python, gguf, numpy; without SDIST pip)

The names are those that `src/llama-vocab.cpp` compares `tokenizer.ggml.pre` with, in the source distribution of the llama-cpp-python that is installed
(SDIST, or what `pip download` gets). Of each: whether the begin- and end-of-text tokens are added, and whether a separator stands between two texts, as the
library says of a vocabulary that leaves it open.
"""

import importlib.metadata
import json
import os
import re
import struct
import subprocess
import sys
import tarfile
import tempfile

import llama_cpp as L

from tokenizer import FIXTURES, PLACEHOLDER, Vocab, pairs_vocab


def source(folder, sdist=None):
    if sdist is None:
        version = importlib.metadata.version("llama-cpp-python")
        command = ["download", "--no-deps", "--no-binary", "llama-cpp-python", "-d", folder, f"llama-cpp-python=={version}"]
        subprocess.run([sys.executable, "-m", "pip", *command], check=True, stdout=subprocess.DEVNULL)
        sdist = next(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".tar.gz"))
    with tarfile.open(sdist) as archive:
        member = next(m for m in archive if m.name.endswith("/vendor/llama.cpp/src/llama-vocab.cpp"))
        return archive.extractfile(member).read().decode()


def main(*sdist):
    with tempfile.TemporaryDirectory() as folder:
        names = set(re.findall(r'tokenizer_pre == "([^"]+)"', source(folder, *sdist)))
        assert len(names) > 85
        template, path = os.path.join(folder, "pairs.gguf"), os.path.join(folder, "named.gguf")
        pairs_vocab(template)
        data = open(template, "rb").read()
        old = struct.pack("<Q", len(PLACEHOLDER)) + PLACEHOLDER.encode()
        found = {}
        for name in sorted(names):
            open(path, "wb").write(data.replace(old, struct.pack("<Q", len(name)) + name.encode()))
            vocab = Vocab(path)
            found[name] = {key: bool(getattr(L, f"llama_vocab_get_{key}")(vocab.vocab)) for key in ("add_bos", "add_eos", "add_sep")}
            vocab.close()
    with open(os.path.join(FIXTURES, "pretokenizers.json"), "w", encoding="utf-8") as f:
        lines = [f"{json.dumps(name)}: {json.dumps(implied)}" for name, implied in found.items()]
        f.write("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(found)} names")


if __name__ == "__main__":
    main(*sys.argv[1:])
