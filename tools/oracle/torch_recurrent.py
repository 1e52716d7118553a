#!/usr/bin/env python3
"""Write the results and gradients of recurrences with a state, by their formulas in PyTorch's f64, as JSON lines.

    python tools/oracle/torch_recurrent.py crates/rustorch-tensor/tests/fixtures/recurrent.jsonl

The format is that of tensor_ops.py. Inputs are those of the operation in its order, outputs the result along the sequence and the next state, in f64 also of inputs
in f32. Lines with f64 inputs have "cotangents" of both outputs and the "grads" of all inputs. Each formula is checked against another program first: convolutions
against F.conv1d, the gated delta rule against transformers' function, scans and RWKV 7 against the unrolled sums and matrices that they stand for.
"""

import json
import sys

import numpy as np
import torch
import torch.nn.functional as F
from tensor_ops import encode
from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule

rng = np.random.default_rng(20261124)
lines: list[str] = []


def normal(*shape):
    return torch.tensor(rng.standard_normal(shape))


def uniform(low, high, *shape):
    return torch.tensor(rng.uniform(low, high, shape))


def unit(x):
    return x / x.norm(dim=-1, keepdim=True)


def near(got, want, tolerance):
    assert got.shape == want.shape and (got - want).abs().max() <= tolerance * (1 + want.abs().max()), (got, want)


def causal_conv1d(attrs, x, weight, state, bias=None):
    z = torch.cat([state, x], 1)
    kernel, seq = weight.shape[1], x.shape[1]
    y = sum(z[:, i : i + seq] * weight[:, i] for i in range(kernel))
    if bias is not None:
        y = y + bias
    return [F.silu(y) if attrs["silu"] else y, z[:, seq:]]


def check_conv(attrs, outs, x, weight, state, bias=None):
    z = torch.cat([state, x], 1).transpose(1, 2)
    y = F.conv1d(z, weight[:, None], bias, groups=x.shape[2]).transpose(1, 2)
    near(outs[0], F.silu(y) if attrs["silu"] else y, 1e-12)


def gated_delta_rule(attrs, q, k, v, g, beta, state):
    heads = v.shape[2]
    index = torch.arange(heads)
    index = index % q.shape[2] if attrs["broadcast"] == "tiled" else index // (heads // q.shape[2])
    q, k = q[:, :, index], k[:, :, index]
    out = []
    for t in range(q.shape[1]):
        decay = g[:, t].exp()
        state = state * (decay[..., None, None] if g.ndim == 3 else decay[..., None])
        delta = beta[:, t, :, None] * (v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], state))
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], delta)
        out.append(torch.einsum("bhk,bhkv->bhv", q[:, t], state) / q.shape[3] ** 0.5)
    return [torch.stack(out, 1), state]


def check_delta(attrs, outs, q, k, v, g, beta, state):
    if g.ndim == 4:
        return
    if attrs["broadcast"] == "tiled":
        repeat = v.shape[2] // q.shape[2]
        q, k = q.repeat(1, 1, repeat, 1), k.repeat(1, 1, repeat, 1)
    out, last = torch_recurrent_gated_delta_rule(q, k, v, g, beta, initial_state=state, output_final_state=True)
    near(outs[0], out, 1e-5)
    near(outs[1], last.double(), 1e-5)


def ssm_scan(attrs, x, dt, a, b, c, state):
    repeat = x.shape[2] // b.shape[2]
    b, c = b.repeat_interleave(repeat, 2), c.repeat_interleave(repeat, 2)
    out = []
    for t in range(x.shape[1]):
        decay = (dt[:, t] * a).exp()[..., None, None] if a.ndim == 1 else (dt[:, t, :, None] * a).exp()[:, :, None]
        state = state * decay + torch.einsum("bh,bhp,bhn->bhpn", dt[:, t], x[:, t], b[:, t])
        out.append(torch.einsum("bhpn,bhn->bhp", state, c[:, t]))
    return [torch.stack(out, 1), state]


def check_scan(attrs, outs, x, dt, a, b, c, state):
    """The last position from all before it, each decayed by the exponential of a sum."""
    repeat = x.shape[2] // b.shape[2]
    a = a[:, None] if a.ndim == 1 else a
    decays = dt[..., None] * a
    total = decays.flip(1).cumsum(1).flip(1)
    after = total - decays
    terms = torch.einsum("bth,bthp,bthn->bthpn", dt, x, b.repeat_interleave(repeat, 2)) * after.exp()[:, :, :, None]
    last = state * total[:, 0].exp()[:, :, None] + terms.sum(1)
    near(outs[1], last, 1e-12)
    near(outs[0][:, -1], torch.einsum("bhpn,bhn->bhp", last, c[:, -1].repeat_interleave(repeat, 1)), 1e-12)


def rwkv_wkv7(attrs, r, w, k, v, a, b, state):
    out = []
    for t in range(r.shape[1]):
        along = torch.einsum("bhk,bhkv->bhv", a[:, t], state)
        state = state * w[:, t, ..., None] + torch.einsum("bhk,bhv->bhkv", k[:, t], v[:, t]) + torch.einsum("bhk,bhv->bhkv", b[:, t], along)
        out.append(torch.einsum("bhk,bhkv->bhv", r[:, t], state))
    return [torch.stack(out, 1), state]


def check_rwkv(attrs, outs, r, w, k, v, a, b, state):
    """With the transition of a position as a matrix."""
    for t in range(r.shape[1]):
        state = (torch.diag_embed(w[:, t]) + b[:, t, ..., None] * a[:, t, :, None]) @ state + k[:, t, ..., None] * v[:, t, :, None]
        near(outs[0][:, t], (r[:, t, :, None] @ state)[:, :, 0], 1e-12)
    near(outs[1], state, 1e-12)


OPS = {"causal_conv1d": (causal_conv1d, check_conv), "gated_delta_rule": (gated_delta_rule, check_delta), "ssm_scan": (ssm_scan, check_scan),
       "rwkv_wkv7": (rwkv_wkv7, check_rwkv)}


def case(op, attrs, inputs, dtypes=(torch.float32, torch.float64)):
    formula, check = OPS[op]
    for dtype in dtypes:
        given = [x.to(dtype) for x in inputs]
        wide = [x.double().requires_grad_() for x in given]
        outs = formula(attrs, *wide)
        with torch.no_grad():
            check(attrs, outs, *wide)
        row = {"op": op, "attrs": attrs, "inputs": [encode(x) for x in given], "outputs": [encode(x) for x in outs]}
        if dtype is torch.float64:
            cotangents = [normal(*x.shape) for x in outs]
            grads = torch.autograd.grad(outs, wide, cotangents)
            row |= {"cotangents": [encode(x) for x in cotangents], "grads": [encode(x) for x in grads]}
        lines.append(json.dumps(row, separators=(",", ":")))


SINGLE, DOUBLE = [torch.float32], [torch.float64]


def convolutions():
    def inputs(b, t, c, k, bias):
        return [normal(b, t, c), normal(c, k), normal(b, k - 1, c)] + ([normal(c)] if bias else [])

    case("causal_conv1d", {"silu": False}, inputs(2, 9, 5, 4, False))
    case("causal_conv1d", {"silu": True}, inputs(2, 5, 18, 3, True))
    case("causal_conv1d", {"silu": True}, inputs(2, 1, 7, 4, True))
    case("causal_conv1d", {"silu": False}, inputs(1, 3, 4, 1, True))
    # More channels and positions than a task has.
    case("causal_conv1d", {"silu": True}, inputs(1, 1, 270, 4, False), SINGLE)
    case("causal_conv1d", {"silu": False}, inputs(1, 140, 3, 4, False), SINGLE)


def delta_rules():
    def inputs(b, t, h, hv, dk, dv, by_row=False):
        g = -uniform(0.01, 2, *([b, t, hv, dk] if by_row else [b, t, hv]))
        return [unit(normal(b, t, h, dk)), unit(normal(b, t, h, dk)), normal(b, t, hv, dv), g, uniform(0, 1, b, t, hv), normal(b, hv, dk, dv)]

    first = {"broadcast": "interleaved"}
    case("gated_delta_rule", first, inputs(2, 7, 2, 2, 8, 6))
    case("gated_delta_rule", first, inputs(1, 3, 2, 4, 5, 17))
    case("gated_delta_rule", {"broadcast": "tiled"}, inputs(1, 3, 2, 4, 5, 17))
    case("gated_delta_rule", first, inputs(2, 4, 2, 4, 7, 3, by_row=True))
    case("gated_delta_rule", first, inputs(1, 6, 1, 1, 22, 50), SINGLE)
    case("gated_delta_rule", first, inputs(1, 200, 1, 1, 4, 3), SINGLE)
    case("gated_delta_rule", first, inputs(1, 2, 1, 1, 7, 37), DOUBLE)


def scans():
    def inputs(b, t, h, p, n, groups, by_element):
        a = -uniform(0.1, 4, *([h, n] if by_element else [h]))
        return [normal(b, t, h, p), uniform(0.01, 1, b, t, h), a, normal(b, t, groups, n), normal(b, t, groups, n), normal(b, h, p, n)]

    case("ssm_scan", {}, inputs(2, 6, 4, 5, 7, 2, False))
    case("ssm_scan", {}, inputs(2, 5, 9, 1, 16, 1, True))
    case("ssm_scan", {}, inputs(1, 3, 4, 3, 5, 2, True))
    # Rows of a head in several tasks, and heads in several tasks.
    case("ssm_scan", {}, inputs(1, 2, 1, 18, 130, 1, False), SINGLE)
    case("ssm_scan", {}, inputs(1, 2, 130, 1, 17, 1, True), SINGLE)
    case("ssm_scan", {}, inputs(1, 200, 2, 2, 4, 1, False), SINGLE)


def rwkvs():
    def inputs(b, t, h, dk, dv):
        key = unit(normal(b, t, h, dk))
        r, w, k, v = normal(b, t, h, dk), uniform(0.55, 1, b, t, h, dk), normal(b, t, h, dk), normal(b, t, h, dv)
        return [r, w, k, v, -key, key * uniform(0, 1, b, t, h, dk), normal(b, h, dk, dv)]

    case("rwkv_wkv7", {}, inputs(2, 4, 2, 8, 6))
    case("rwkv_wkv7", {}, inputs(1, 3, 2, 5, 17))
    case("rwkv_wkv7", {}, inputs(1, 5, 1, 17, 40), SINGLE)
    case("rwkv_wkv7", {}, inputs(1, 200, 1, 4, 3), SINGLE)


if __name__ == "__main__":
    convolutions()
    delta_rules()
    scans()
    rwkvs()
    with open(sys.argv[1], "w") as file:
        file.write("\n".join(lines) + "\n")
