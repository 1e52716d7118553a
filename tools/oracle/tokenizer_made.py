#!/usr/bin/env python3
"""Writes crates/rustorch-llm/tests/fixtures/tokenizer/made.json: vocabularies that this script makes, and what llama.cpp makes of texts with them.

    python3 tools/oracle/tokenizer_made.py DATA      (needs llama-cpp-python, gguf, numpy, sentencepiece)

`ugm` is a Unigram model that sentencepiece trains on DATA's tinyshakespeare and the texts of `corpus.json`, with a few rules of normalisation; where the vocabulary
is used as it was trained, sentencepiece has to give llama.cpp's ids for nearly all texts. (No text has the beginning of a user-defined token before what a rule
replaces: llama.cpp takes it for the token and misses the rule; sentencepiece does not.) `rwkv` has all bytes, and words of these texts; `whitespace` is byte-pair encoding of words without the white space between them (jina-embeddings-v2-base-zh), letters and
merges of these texts. Of each way to use a vocabulary
the ids of the corpus, plain and with special tokens, are kept as their number and hash (`digest` of `tokenizer.py`).
"""

import base64
import collections
import io
import json
import os
import re
import sys
import tempfile

import gguf
import sentencepiece

from tokenizer import FIXTURES, Vocab, digest

# Of the texts on the left those on the right are made: full width, ligatures, a composition, white space, and what vanishes.
RULES = {
    **{chr(c): chr(c - 0xFEE0) for c in range(0xFF01, 0xFF5F)},
    "ﬁ": "fi", "ﬂ": "fl", "…": "...", "½": " 1/2", "²": "2", "\u212b": "Å", "e\u0301": "é", "n\u0303": "ñ", "か\u3099": "が", "ｶﾞ": "ガ",
    "\u00a0": " ", "\u3000": " ", "\u2009": " ", "\t": " ", "\n": " ", "\r": " ", "\u200b": "", "\ufeff": "", "\u0001": "",
}


def train(texts, folder):
    rules = os.path.join(folder, "rules.tsv")
    with open(rules, "w", encoding="utf-8") as f:
        for before, after in sorted(RULES.items()):
            f.write(" ".join(f"{ord(c):X}" for c in before) + "\t" + " ".join(f"{ord(c):X}" for c in after) + "\n")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=600, model_type="unigram", normalization_rule_tsv=rules, character_coverage=0.98,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>", user_defined_symbols=["@@0", "Caesar"], num_threads=1, minloglevel=2,
    )
    return model.getvalue()


def types(processor):
    def of(i):
        if processor.is_unknown(i):
            return gguf.TokenType.UNKNOWN
        if processor.is_control(i):
            return gguf.TokenType.CONTROL
        return gguf.TokenType.USER_DEFINED if processor.id_to_piece(i) in ("@@0", "Caesar") else gguf.TokenType.NORMAL

    return [int(of(i)) for i in range(len(processor))]


def write(path, model, tokens, scores, kinds, **metadata):
    writer = gguf.GGUFWriter(path, "t5")
    writer.add_context_length(512)
    writer.add_embedding_length(8)
    writer.add_block_count(1)
    writer.add_feed_forward_length(8)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_relative_attn_buckets_count(8)
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    for key, value in metadata.items():
        if key == "pre":
            writer.add_tokenizer_pre(value)
        elif key == "merges":
            writer.add_token_merges(value)
        elif isinstance(value, bytes):
            writer.add_precompiled_charsmap(value)
        else:
            writer.add_bool(f"tokenizer.ggml.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def digests(path, texts):
    vocab = Vocab(path)
    ids = {special: [vocab.encode(text, special) for text in texts] for special in (False, True)}
    pieces = [vocab.piece(token).hex() for token in range(vocab.model.n_vocab())]
    vocab.close()
    return ids[False], {"plain": digest(ids[False]), "special": digest(ids[True])}, pieces


def ugm(texts, shakespeare, folder):
    trained = train(shakespeare.splitlines() + [line for text in texts for line in re.split(r"[\n\r\0]", text)], folder)
    processor = sentencepiece.SentencePieceProcessor(model_proto=trained)
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(trained)
    charsmap = proto.normalizer_spec.precompiled_charsmap
    tokens, scores, kinds = [p.piece for p in proto.pieces], [p.score for p in proto.pieces], types(processor)
    path, cases = os.path.join(folder, "ugm.gguf"), []
    for prefix in (True, False):
        for merge in (True, False):
            write(path, "t5", tokens, scores, kinds, add_space_prefix=prefix, remove_extra_whitespaces=merge, charsmap=charsmap)
            ids, expected, _ = digests(path, texts)
            cases.append({"add_space_prefix": prefix, "remove_extra_whitespaces": merge} | expected)
            if prefix and merge:
                # It drops a last "▁", and takes another of two equally likely ways.
                same = sum(processor.encode(text) == found for text, found in zip(texts, ids))
                print(f"sentencepiece gives the same ids for {same} of {len(texts)} texts")
                assert same > 0.99 * len(texts)
    return {"tokens": tokens, "scores": scores, "types": kinds, "charsmap": base64.b64encode(charsmap).decode(), "cases": cases}


def escaped(data):
    special = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r", 0x5C: "\\\\"}
    text = "".join(special.get(b, chr(b) if 0x20 <= b < 0x7F else f"\\x{b:02x}") for b in data)
    return text


def rwkv(texts, shakespeare, folder):
    words = collections.Counter(re.findall(r" ?\w+|\s+|[^\w\s]+", shakespeare + "".join(texts)))
    words = [word.encode() for word, _ in words.most_common(300)]
    tokens = ["<|rwkv_tokenizer_end_of_text|>"] + [escaped(bytes([b])) for b in range(256)] + [escaped(w) for w in words if len(w) > 1]
    path = os.path.join(folder, "rwkv.gguf")
    write(path, "rwkv", tokens, [0.0] * len(tokens), [3] + [1] * (len(tokens) - 1))
    _, expected, pieces = digests(path, texts)
    return {"tokens": tokens, "pieces": pieces} | expected


def whitespace(texts, shakespeare, folder):
    words = collections.Counter(re.findall(r"\w+", shakespeare + "".join(texts)))
    letters = collections.Counter("".join(texts) + shakespeare)
    tokens = ["<unk>", "<s>", "</s>"] + [c for c, _ in letters.most_common(300) if not c.isspace() and c != "\0"]
    merges = {}
    for word, _ in words.most_common(200):
        if all(c in tokens for c in word):
            for n in range(1, len(word)):
                merges[f"{word[:n]} {word[n]}"] = word[: n + 1]
    tokens = list(dict.fromkeys(tokens + list(merges.values())))
    path, cases = os.path.join(folder, "whitespace.gguf"), []
    for lowercase in (None, True):
        flags = {} if lowercase is None else {"normalizer.lowercase": lowercase}
        write(path, "whitespace", tokens, [0.0] * len(tokens), [2, 3, 3] + [1] * (len(tokens) - 3), pre="whitespace", merges=list(merges), **flags)
        _, expected, _ = digests(path, texts)
        cases.append({"lowercase": bool(lowercase)} | expected)
    return {"tokens": tokens, "merges": list(merges), "cases": cases}


def main(data):
    texts = json.load(open(os.path.join(FIXTURES, "corpus.json"), encoding="utf-8"))
    shakespeare = open(os.path.join(data, "text/tinyshakespeare.txt"), encoding="utf-8").read()[:200_000]
    with tempfile.TemporaryDirectory() as folder:
        made = {"ugm": ugm(texts, shakespeare, folder), "rwkv": rwkv(texts, shakespeare, folder), "whitespace": whitespace(texts, shakespeare, folder)}
    with open(os.path.join(FIXTURES, "made.json"), "w", encoding="utf-8") as f:
        json.dump(made, f, ensure_ascii=False)
        f.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
