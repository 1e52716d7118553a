#!/usr/bin/env python3
"""Writes crates/rustorch-llm/tests/fixtures/embeddings.json: the vectors and scores that llama.cpp gives texts with small embedders and rerankers.

    python3 tools/oracle/llama_embeddings.py crates/rustorch-llm/tests/fixtures/embeddings.json      (needs llama-cpp-python, gguf, numpy)

The models are those of `archs/encoders.py` with vocabularies that this script makes of the texts, of each kind that such models have; `llama_archs.py` makes
their files, and the tests make them again. A model is {"name", "metadata", "embedding", "tensors"} and

    {"vectors": {pooling: base64 of little-endian f32, text after text}}      of an embedder; with "none" a row for each token
    {"ids": the tokens of the query and each text, "scores", "exact_scores": base64}      of a reranker, the first score of each pair

Computed as `llama-embedding` does, but one text at a time: default context parameters, so keys in f16 and GELU from ggml's table; `exact_scores` with keys in
f32 and GELU computed exactly. A query and a text are one input by the rules of its `main` where the model has no template for them, and by those of the server
(`format_prompt_rerank`) where it has.
"""

import ctypes
import json
import sys
import tempfile
from pathlib import Path

import gguf
import llama_cpp as L
import numpy as np

from archs import ENCODERS
from llama_archs import ExactGelu, base, log, make

QUERY = "Who is the king of the grey sea?"
TEXTS = [
    "Yes.",
    "The king",
    "A grey sea",
    "the old king of the grey sea is dead",
    "Nobody knows the way home.",
    "The Sea Is Grey, and the king is old!",
    "café olé, naïve coöperation",
    "the sea the sea the sea the sea the sea",
    "Who is there? Nobody is there, said the king.",
    "snow falls on the harbour, and the ships stay where they are",
    "3.14159 is not 22/7, whatever they say",
    "The queen of the grey sea is his sister; she has never seen him.",
    "A ship came home in the morning. It had no captain and no crew, but a letter for the king.",
    "“Quotes” — and dashes… and 雪",
    "king",
    "In the harbour an old woman sells fish, bread and news: who has died, who was born, who has come home and who never will.",
    "It is said that the king of the grey sea sits on a chair of salt, and that whoever asks him the way is shown the wrong one, for he has forgotten it himself.",
    "    spaces   before,  between    and behind   ",
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty",
    "When the tide goes out the stones of the old town can be seen. Children look for coins there, and sometimes find one with a head that nobody knows. "
    "They say it is the king. The king, when he was asked, said it was his father, who had been the king of the grey sea before him, and would be again.",
]
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def words():
    """Words of the texts, the frequent ones first."""
    counts = {}
    for text in [QUERY, *TEXTS]:
        for word in "".join(c if c.isalpha() and c.isascii() else " " for c in text.lower()).split():
            counts[word] = counts.get(word, 0) + 1
    return sorted(counts, key=lambda word: (-counts[word], word))


def letters():
    return sorted({c for text in [QUERY, *TEXTS] for c in text if c.isascii() and c != " "})


def vocabulary(model, tokens, types, **rest):
    return {"tokenizer.ggml.model": model, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types} | {
        f"tokenizer.ggml.{key}": value for key, value in rest.items()
    }


def wpm():
    """Beginnings of words have "▁" in GGUF files, and continuations nothing."""
    small = [c for c in letters() if not c.isupper()]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = special + ["▁" + c for c in small] + [c for c in small if c.isalpha()] + ["▁" + w for w in words()[:40] if len(w) > 1] + ["s", "ing", "er", "ever"]
    tokens = list(dict.fromkeys(tokens))
    types = [CONTROL, UNKNOWN] + [CONTROL] * 3 + [NORMAL] * (len(tokens) - 5)
    return vocabulary("bert", tokens, types, bos_token_id=2, unknown_token_id=1, seperator_token_id=3, padding_token_id=0, mask_token_id=4)


def ugm():
    """As XLM-RoBERTa's: the likelier a token the higher its score."""
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "▁"] + letters() + ["▁" + w for w in words()[:40]] + ["ing", "er", "th"]
    tokens = list(dict.fromkeys(tokens))
    types = [CONTROL] * 3 + [UNKNOWN] + [NORMAL] * (len(tokens) - 4)
    scores = [0.0] * 4 + [-2.0 - i / 64 - (4 if len(t) == 1 else 0) for i, t in enumerate(tokens[4:])]
    return vocabulary(
        "t5", tokens, types, scores=scores, bos_token_id=0, padding_token_id=1, eos_token_id=2, seperator_token_id=2, unknown_token_id=3,
        add_bos_token=True, add_eos_token=True, add_sep_token=True, add_space_prefix=True, remove_extra_whitespaces=True,
    )


def spm():
    """As Gemma's: bytes for what has no token, and the longer tokens by score."""
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{byte:02X}>" for byte in range(256)] + ["▁"] + letters()
    parts = sorted({("▁" + w)[:n] for w in words()[:30] for n in range(2, len(w) + 2)}, key=lambda t: (len(t), t))
    types = [CONTROL] * 3 + [UNKNOWN] + [BYTE] * 256 + [NORMAL] * (len(tokens) - 260 + len(parts))
    tokens += parts
    scores = [0.0] * 260 + [-float(i) for i in range(len(tokens) - 260)]
    return vocabulary(
        "llama", tokens, types, scores=scores, bos_token_id=2, eos_token_id=1, unknown_token_id=3, padding_token_id=0,
        add_bos_token=True, add_eos_token=True, add_space_prefix=False,
    )


def bpe(**rest):
    """As Qwen's: all bytes, and words joined letter by letter."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_letters = [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]
    merges = {}
    for word in words()[:30]:
        for n in range(1, len(word) + 1):
            word_with_space = "Ġ" + word
            merges[f"{word_with_space[:n]} {word_with_space[n]}"] = word_with_space[: n + 1]
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = byte_letters + list(merges.values()) + special
    first = len(tokens) - 3
    types = [NORMAL] * first + [CONTROL] * 3
    return vocabulary("gpt2", tokens, types, pre="qwen2", merges=list(merges), eos_token_id=first, bos_token_id=first, padding_token_id=first, **rest)


TEMPLATE = "<|im_start|>system\nIs it an answer?<|im_end|>\n<|im_start|>user\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n"
MODELS = {
    "bert": (wpm(), ["none", "mean", "cls", "last"]),
    "nomic-bert": (wpm(), ["mean"]),
    "jina-bert-v2": (bpe(add_bos_token=True, add_eos_token=True), ["mean"]),
    "gemma-embedding": (spm(), ["mean", "none"]),
    "qwen3-embedding": (bpe(add_eos_token=True), ["last"]),
    "bert-reranker": (ugm(), ["rank"]),
    "jina-reranker": (wpm(), ["rank"]),
    "qwen3-reranker": (bpe(**{"add_eos_token": False}) | {"tokenizer.chat_template.rerank": TEMPLATE}, ["rank"]),
}
POOLINGS = {"none": 0, "mean": 1, "cls": 2, "last": 3, "rank": 4}


class Model:
    def __init__(self, path, pooling, exact=False):
        self.model = L.llama_model_load_from_file(str(path).encode(), L.llama_model_default_params())
        if not self.model:
            raise SystemExit("llama.cpp does not load the file")
        self.vocab = L.llama_model_get_vocab(self.model)
        params = L.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_threads, params.n_threads_batch = 512, 512, 512, 1, 1
        params.embeddings, params.pooling_type = True, POOLINGS[pooling]
        if exact:
            self.gelu = ExactGelu()
            params.cb_eval = self.gelu.callback
            params.type_k = params.type_v = int(gguf.GGMLQuantizationType.F32)
            params.flash_attn_type = L.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.pooling, self.context = pooling, L.llama_init_from_model(self.model, params)

    def encode(self, text, add_special=True, parse_special=True):
        data = text.encode()
        out = (L.llama_token * (len(data) + 16))()
        return list(out[: L.llama_tokenize(self.vocab, data, len(data), out, len(out), add_special, parse_special)])

    def pair(self, query, text):
        template = L.llama_model_chat_template(self.model, b"rerank")
        if template:
            return self.encode(template.decode().replace("{query}", query).replace("{document}", text), add_special=False)
        between = ""
        if L.llama_vocab_get_add_eos(self.vocab):
            between += L.llama_vocab_get_text(self.vocab, L.llama_vocab_eos(self.vocab)).decode()
        if L.llama_vocab_get_add_sep(self.vocab):
            between += L.llama_vocab_get_text(self.vocab, L.llama_vocab_sep(self.vocab)).decode()
        return self.encode(query + between + text)

    def vectors(self, ids):
        L.llama_memory_clear(L.llama_get_memory(self.context), True)
        batch = L.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, 1
        if L.llama_decode(self.context, batch):
            raise SystemExit("llama_decode fails")
        width = L.llama_model_n_cls_out(self.model) if self.pooling == "rank" else L.llama_model_n_embd_out(self.model)
        if self.pooling == "none":
            rows = [L.llama_get_embeddings_ith(self.context, i) for i in range(len(ids))]
        else:
            rows = [L.llama_get_embeddings_seq(self.context, 0)]
        rows = np.stack([np.ctypeslib.as_array(row, (width,)) for row in rows])
        if not np.isfinite(rows).all():
            raise SystemExit("vectors are not finite")
        return rows


def model(name, folder):
    vocabulary, poolings = MODELS[name]
    table = ENCODERS[name]
    metadata = {key: value for key, value in table["metadata"].items() if key != "vocab_size"} | {"context_length": 512} | vocabulary
    path = Path(folder) / f"{name}.gguf"
    line = {"name": name} | make(path, table["arch"], table | {"metadata": metadata})
    if poolings == ["rank"]:
        oracle, exact = Model(path, "rank"), Model(path, "rank", exact=True)
        ids = [oracle.pair(QUERY, text) for text in TEXTS]
        scores, exact_scores = (np.array([of.vectors(pair)[0, 0] for pair in ids]) for of in (oracle, exact))
        gap = np.diff(np.sort(exact_scores)).min()
        print(f"{name}: nearest scores differ by {gap:.1e}, exact ones by {np.abs(scores - exact_scores).max():.1e} from others")
        return line | {"ids": ids, "scores": base(scores), "exact_scores": base(exact_scores)}
    vectors = {}
    for pooling in poolings:
        oracle = Model(path, pooling)
        # All vectors of tokens would be most of the file.
        texts = TEXTS[:4] if pooling == "none" else TEXTS
        rows = np.concatenate([oracle.vectors(oracle.encode(text)) for text in texts])
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        near = np.sort((unit @ unit.T)[np.triu_indices(len(unit), 1)])
        print(f"{name}, {pooling}: cosines {near[0]:.4f} to {near[-1]:.4f}")
        vectors[pooling] = base(rows)
    return line | {"vectors": vectors}


def main(path):
    L.llama_log_set(log, ctypes.c_void_p(0))
    L.llama_backend_init()
    with tempfile.TemporaryDirectory() as folder:
        models = [model(name, folder) for name in MODELS]
    parts = [json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in models]
    head = json.dumps({"query": QUERY, "texts": TEXTS}, ensure_ascii=False)
    Path(path).write_text(f'{head[:-1]}, "models": [\n' + ",\n".join(parts) + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
