#!/usr/bin/env python3
"""BPE beside Hugging Face's `tokenizers`, one thread each, and the time of long lines without a space.

    python benches/peers/hf_tokenizers.py ../shared/data/vocab ../shared/data/text/tinyshakespeare.txt

Needs `pip install tokenizers gguf numpy`. Encodes the text and this repository's source with the vocabularies of llama-bpe and qwen2: theirs from the same GGUF files, with the regular expressions that
the models were published with. Both have to give the same ids. Best of 5, in turn.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import gguf
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

ROOT = Path(__file__).resolve().parents[2]
PATTERNS = {
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


def theirs(path, name):
    fields = gguf.GGUFReader(path).fields
    texts = lambda key: [bytes(fields[key].parts[i]).decode() for i in fields[key].data]
    vocabulary = {text: i for i, text in enumerate(texts("tokenizer.ggml.tokens"))}
    merges = [tuple(merge.split(" ")) for merge in texts("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=name == "llama-bpe"))
    split = pre_tokenizers.Split(Regex(PATTERNS[name]), behavior="isolated", invert=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return tokenizer


def ours(program, model, path):
    """Ids and seconds."""
    said = subprocess.run([program, model, path, "--ids"], check=True, capture_output=True, text=True).stdout.splitlines()
    return [int(i) for i in said[-1].split()], float(next(line for line in said if line.startswith("seconds")).split()[1])


def main(vocabularies, text):
    subprocess.run(["cargo", "build", "--release", "-q", "-p", "rustorch-llm", "--example", "tokenize"], check=True, cwd=ROOT)
    program = ROOT / "target/release/examples/tokenize"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source.txt"
        files = subprocess.run(["git", "ls-files", "*.rs", "*.md", "*.py", "*.wgsl"], check=True, capture_output=True, text=True, cwd=ROOT).stdout.splitlines()
        source.write_text("".join((ROOT / file).read_text() for file in files))
        for name in PATTERNS:
            model = Path(vocabularies) / f"ggml-vocab-{name}.gguf"
            tokenizer = theirs(model, name)
            for path in (Path(text), source):
                content, times = path.read_text(), []
                for _ in range(5):
                    start = time.perf_counter()
                    encoding = tokenizer.encode(content, add_special_tokens=False)
                    times.append(time.perf_counter() - start)
                ids, seconds = ours(program, model, path)
                same = "the same ids" if ids == encoding.ids else "OTHER IDS"
                size = len(content.encode()) / 1e6
                print(f"{name:10} {path.name:20} {size:5.1f} MB: theirs {size / min(times):6.1f} MB/s, ours {size / seconds:6.1f} MB/s, {min(times) / seconds:5.1f} times as fast, {same}", flush=True)
            letters = "".join(c for c in Path(text).read_text() if c.isalpha()).lower()
            for kind, line in (("letters of the text", letters), ("one letter", "a" * 1000)):
                per_byte = []
                for length in (100_000, 10_000_000):
                    path = Path(folder) / "line.txt"
                    path.write_text((line * (length // len(line) + 1))[:length])
                    per_byte.append(ours(program, model, path)[1] / length * 1e9)
                print(f"{name:10} {kind}: {per_byte[0]:.1f} ns a byte of 100 kB, {per_byte[1]:.1f} of 10 MB: {per_byte[1] / per_byte[0]:.2f} times", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
