#!/usr/bin/env python3
"""Write the logits and the greedy continuation that llama.cpp computes for each model, as JSON lines.

    python tools/oracle/llama_logits.py crates/rustorch-llm/tests/fixtures/logits.jsonl ../shared/data/models/*.gguf ../shared/data/archs/*.gguf

Needs `pip install llama-cpp-python==0.3.36 numpy`. A line is

    {"model", "tokens", "logits", "greedy", "margin"}

`logits` is base64 of the little-endian f32 logits after the last of `tokens`; `greedy` are the 32 ids that follow at temperature 0, and `margin` is
the least difference between the best and the second logit on that way: where it is tiny, another order of summation may choose otherwise.
Decoded on the CPU by one thread, all tokens one by one: llama.cpp's products of several rows sum some types in another order than those of one, so
that a batch gives it other logits, and some models another continuation.
"""

import base64
import ctypes
import json
import os
import sys

import llama_cpp as L
import numpy as np


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def quiet(level, text, data):
    pass


def decode(context, ids, position, vocabulary):
    """The logits after the last of `ids`."""
    batch = L.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, position + i, 1, 0
        batch.logits[i] = i + 1 == len(ids)
    status = L.llama_decode(context, batch)
    L.llama_batch_free(batch)
    if status:
        raise SystemExit(f"llama_decode answers {status}")
    return np.ctypeslib.as_array(L.llama_get_logits_ith(context, -1), (vocabulary,)).copy()


def describe(path):
    model = L.llama_model_load_from_file(path.encode(), L.llama_model_default_params())
    params = L.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch, params.n_threads, params.n_threads_batch = 128, 64, 64, 1, 1
    context = L.llama_init_from_model(model, params)
    vocabulary = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    tokens = [1] + [(i * 37 + 11) % vocabulary for i in range(15)]
    for i, token in enumerate(tokens):
        first = last = decode(context, [token], i, vocabulary)
    greedy, margin = [], np.inf
    for i in range(32):
        second, best = np.sort(last)[-2:]
        margin = min(margin, float(best - second))
        greedy.append(int(last.argmax()))
        last = decode(context, [greedy[-1]], len(tokens) + i, vocabulary)
    L.llama_free(context)
    L.llama_model_free(model)
    return {
        "model": os.path.basename(path),
        "tokens": tokens,
        "logits": base64.b64encode(first.astype("<f4").tobytes()).decode(),
        "greedy": greedy,
        "margin": margin,
    }


def main():
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    L.llama_backend_init()
    with open(sys.argv[1], "w") as out:
        for path in sys.argv[2:]:
            out.write(json.dumps(describe(path)) + "\n")


main()
