#!/usr/bin/env python3
"""Writes crates/rustorch-llm/tests/fixtures/sampling/distributions.json.

The distribution that each chain of samplers leaves, by plain numpy in double precision:
bias -> penalties -> top-k -> top-p -> min-p -> temperature -> softmax (llama.cpp's default order).

    python3 tools/oracle/sampling.py        (needs numpy)
"""
import json, os
import numpy as np

OUT = os.path.join(os.path.dirname(__file__), "../../crates/rustorch-llm/tests/fixtures/sampling/distributions.json")


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def chain(logits, recent, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repeat_penalty=1.0, repeat_last_n=64,
          presence_penalty=0.0, frequency_penalty=0.0, logit_bias=()):
    x = np.array(logits, dtype=np.float64)
    for i, b in logit_bias:
        x[i] += b
    last = recent[-repeat_last_n:] if repeat_last_n else []
    for token in sorted(set(last)):
        n = last.count(token)
        x[token] = x[token] * repeat_penalty if x[token] <= 0 else x[token] / repeat_penalty
        x[token] -= n * frequency_penalty + presence_penalty
    order = np.argsort(-x, kind="stable")
    if top_k:
        order = order[:top_k]
    if top_p < 1:
        order = order[: int(np.searchsorted(np.cumsum(softmax(x[order])), top_p)) + 1]
    p = softmax(x[order])
    order = order[p >= min_p * p.max()]
    p = softmax(x[order] / temperature)
    return {int(i): float(q) for i, q in zip(order, p)}


rng = np.random.default_rng(1234)
small = [round(float(v), 3) for v in rng.normal(size=12)]
large = [round(float(v), 3) for v in rng.normal(size=3000) * 3]
recent = [3, 5, 3, 7, 3, 0, 11, 5]
configs = [
    {},
    {"temperature": 0.5},
    {"temperature": 2.5},
    {"top_k": 4},
    {"top_p": 0.7},
    {"min_p": 0.15},
    {"repeat_penalty": 1.4},
    {"repeat_penalty": 1.4, "repeat_last_n": 3},
    {"presence_penalty": 0.8, "frequency_penalty": 0.3},
    {"logit_bias": [[2, 3.5], [4, -2.0]]},
    {"temperature": 0.8, "top_k": 8, "top_p": 0.9, "min_p": 0.05, "repeat_penalty": 1.2, "frequency_penalty": 0.2},
]
cases = [{"logits": "small", "recent": recent, "config": c, "probabilities": chain(small, recent, **c)} for c in configs]
for c in [{"top_k": 40}, {"top_k": 100, "top_p": 0.9}, {"top_p": 0.5}, {"top_p": 0.95, "temperature": 0.7},
          {"min_p": 0.1}, {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}]:
    cases.append({"logits": "large", "recent": [], "config": c, "probabilities": chain(large, [], **c)})
with open(OUT, "w") as f:
    json.dump({"small": small, "large": large, "cases": cases}, f)
    f.write("\n")
print(len(cases), "cases", os.path.getsize(OUT), "bytes")
