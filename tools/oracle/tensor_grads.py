#!/usr/bin/env python3
"""Write the gradients that PyTorch's autograd gives, as JSON lines.

    python tools/oracle/tensor_grads.py crates/rustorch-tensor/tests/fixtures/grads.jsonl

A line is as in tensor_ops.py with one field more:

    {"op", "attrs", "inputs": [TENSOR...], "outputs": [TENSOR], "grads": [TENSOR or null...]}

All floating tensors are f64. The scalar that is differentiated is sum_i cos(i) * output[i] over the flattened first output (so that no two
elements weigh the same). `grads` has one entry per input, null where the input is not floating. For an input with "view" it is the gradient of
the stored tensor, not of the view.
"""

import json
import sys

import numpy as np
import torch
import torch.nn.functional as F

from tensor_ops import apply_view, encode

rng = np.random.default_rng(7)
lines = []


def x(*shape, low=None, high=None):
    """Normal, or uniform in [low, high)."""
    values = rng.standard_normal(shape) if low is None else rng.uniform(low, high, shape)
    return torch.tensor(values)


def ids(values):
    return torch.tensor(values, dtype=torch.int64)


def case(op, f, inputs, attrs=None, views=()):
    views = list(views) + [None] * (len(inputs) - len(views))
    leaves = [t.clone().requires_grad_(t.is_floating_point()) for t in inputs]
    out = f(*[apply_view(t, v) for t, v in zip(leaves, views)])
    (out.reshape(-1) * torch.cos(torch.arange(out.numel(), dtype=torch.float64))).sum().backward()
    grads = [encode(t.grad) if t.requires_grad and t.grad is not None else None for t in leaves]
    assert all(g is not None for g, t in zip(grads, inputs) if t.is_floating_point()), op
    row = {"op": op, "attrs": attrs or {}, "inputs": [encode(t, v) for t, v in zip(inputs, views)], "outputs": [encode(out)], "grads": grads}
    lines.append(json.dumps(row, separators=(",", ":")))


def pointwise():
    anywhere = dict(neg=torch.neg, abs=torch.abs, exp=torch.exp, expm1=torch.expm1, square=torch.square, sin=torch.sin, cos=torch.cos, tan=torch.tan, atan=torch.atan,
                    sinh=torch.sinh, cosh=torch.cosh, tanh=torch.tanh, asinh=torch.asinh, sigmoid=torch.sigmoid, relu=F.relu, gelu=F.gelu,
                    gelu_tanh=lambda t: F.gelu(t, approximate="tanh"), silu=F.silu, softplus=F.softplus, erf=torch.erf, floor=torch.floor, sign=torch.sign)
    positive = dict(log=torch.log, log2=torch.log2, log10=torch.log10, log1p=torch.log1p, sqrt=torch.sqrt, rsqrt=torch.rsqrt, reciprocal=torch.reciprocal)
    inside = dict(asin=torch.asin, acos=torch.acos, atanh=torch.atanh)
    for name, f in anywhere.items():
        case(name, f, [x(2, 3)])
    for name, f in positive.items():
        case(name, f, [x(2, 3, low=0.2, high=4)])
    for name, f in inside.items():
        case(name, f, [x(5, low=-0.9, high=0.9)])
    case("acosh", torch.acosh, [x(5, low=1.2, high=4)])
    case("tanh", torch.tanh, [x(3, 4)], views=[[["transpose", 0, 1]]])
    case("exp", torch.exp, [x(3, 6)], views=[[["slice", 1, 1, 6, 2]]])
    case("sin", torch.sin, [x(1, 3)], views=[[["expand", [4, 3]]]])
    case("exp", torch.exp, [x()])
    shapes = (([2, 3], [2, 3]), ([3, 1], [1, 4]), ([], [2, 2]), ([4], [2, 1, 4]))
    for name, f in dict(add=torch.add, sub=torch.sub, mul=torch.mul, div=torch.div, maximum=torch.maximum, minimum=torch.minimum, atan2=torch.atan2).items():
        for a, b in shapes[: 4 if name in ("add", "mul", "div") else 2]:
            case(name, f, [x(*a), x(*b, low=0.5, high=2)])
    case("pow", torch.pow, [x(2, 3, low=0.3, high=2), x(3)])
    for e in (2.0, 3.0, 0.5, -1.0):
        case("pow", lambda t: torch.pow(t, e), [x(4, low=0.3, high=2)], {"scalar": e})
    case("where", torch.where, [torch.tensor([[True], [False]]), x(2, 3), x(3)])
    case("clamp", lambda t: torch.clamp(t, -0.5, 0.5), [x(8)], {"min": -0.5, "max": 0.5})
    case("masked_fill", lambda t, m: torch.masked_fill(t, m, -1.5), [x(2, 3), torch.tensor([True, False, True])], {"value": -1.5})


def reductions():
    for name, f in dict(sum=torch.sum, mean=torch.mean, prod=torch.prod, logsumexp=torch.logsumexp, amax=torch.amax, amin=torch.amin, var=torch.var, std=torch.std).items():
        extra = {"correction": 1} if name in ("var", "std") else {}
        for dim, keep in ((0, False), (-1, True)) + (() if name == "prod" else (([0, 2], False),)):
            case(name, lambda t: f(t, dim=dim, keepdim=keep), [x(2, 3, 2)], {"dim": dim, "keepdim": keep} | extra)
        if name not in ("logsumexp", "amax", "amin"):
            case(name, f, [x(2, 3)], extra)
    case("prod", lambda t: torch.prod(t, dim=1), [torch.tensor([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0], [1.0, 2.0, 4.0]], dtype=torch.float64)], {"dim": 1, "keepdim": False})
    case("max_dim", lambda t: torch.max(t, 1)[0], [x(3, 4)], {"dim": 1, "keepdim": False})
    case("cumsum", lambda t: torch.cumsum(t, 1), [x(2, 4)], {"dim": 1})
    case("cumprod", lambda t: torch.cumprod(t, 1), [x(2, 4)], {"dim": 1})


def products_and_norms():
    for a, b in (((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 2, 3), (2, 3, 2)), ((3, 1, 2, 3), (2, 3, 2)), ((2, 2, 3), (3,)), ((2, 2, 3), (3, 4))):
        case("matmul", torch.matmul, [x(*a), x(*b)])
    case("matmul", torch.matmul, [x(3, 2), x(4, 3)], views=[[["transpose", 0, 1]], [["transpose", 0, 1]]])
    case("bmm", torch.bmm, [x(2, 2, 3), x(2, 3, 2)])
    case("linear", F.linear, [x(2, 2, 3), x(4, 3), x(4)])
    for dim in (0, 1, -1):
        case("softmax", lambda t: torch.softmax(t, dim), [x(2, 3, 2)], {"dim": dim})
        case("log_softmax", lambda t: torch.log_softmax(t, dim), [x(2, 3, 2)], {"dim": dim})
    for sizes in ([4], [3, 4]):
        attrs = {"normalized_shape": sizes, "eps": 1e-5}
        case("layer_norm", lambda t, w, b: F.layer_norm(t, sizes, w, b, 1e-5), [x(2, 3, 4), x(*sizes), x(*sizes)], attrs)
        case("rms_norm", lambda t, w: F.rms_norm(t, sizes, w, 1e-5), [x(2, 3, 4), x(*sizes)], attrs)
    case("layer_norm", lambda t: F.layer_norm(t, [5], None, None, 1e-5), [x(2, 5)], {"normalized_shape": [5], "eps": 1e-5})
    sdpa = F.scaled_dot_product_attention
    qkv = lambda h, kv: [x(1, h, 3, 4), x(1, kv, 3, 4), x(1, kv, 3, 4)]
    case("scaled_dot_product_attention", sdpa, [x(1, 2, 3, 4), x(1, 2, 5, 4), x(1, 2, 5, 4)])
    case("scaled_dot_product_attention", lambda q, k, v: sdpa(q, k, v, is_causal=True), qkv(2, 2), {"is_causal": True})
    case("scaled_dot_product_attention", lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True), qkv(4, 2), {"is_causal": True, "enable_gqa": True})
    case("scaled_dot_product_attention", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), [*qkv(2, 2), x(3, 3)], {"attn_mask": True})
    case("scaled_dot_product_attention", lambda q, k, v: sdpa(q, k, v, scale=0.3), qkv(2, 2), {"scale": 0.3})
    for reduction in ("mean", "sum"):
        case("cross_entropy", lambda t, i: F.cross_entropy(t, i, reduction=reduction), [x(4, 5), ids([0, 4, 2, 2])], {"reduction": reduction})
        case("mse_loss", lambda a, b: F.mse_loss(a, b, reduction=reduction), [x(2, 3), x(2, 3)], {"reduction": reduction})


def rotary():
    """As the "rope" lines of tensor_ops.py."""
    for style in ("pairs", "halves"):
        positions, dim, base = [0, 1, 5], 4, 1e4
        theta = torch.tensor(np.array(positions)[:, None] * base ** (-np.arange(0, dim, 2) / dim))
        cos, sin = theta.cos()[:, None, :], theta.sin()[:, None, :]

        def turn(t):
            a, b = (t[..., 0::2], t[..., 1::2]) if style == "pairs" else (t[..., : dim // 2], t[..., dim // 2 :])
            p, q = a * cos - b * sin, a * sin + b * cos
            return torch.stack((p, q), -1).flatten(-2) if style == "pairs" else torch.cat((p, q), -1)

        case("rope", turn, [x(3, 2, dim)], {"style": style, "positions": positions, "base": base, "rotated": dim, "freq_scale": 1.0})


def indexing():
    case("gather", lambda t, i: torch.gather(t, 1, i), [x(3, 4), ids([[0, 0], [3, 1], [2, 2]])], {"dim": 1})
    case("take_along_dim", lambda t, i: torch.take_along_dim(t, i, 0), [x(3, 2), ids([[2, 0], [2, 1]])], {"dim": 0})
    case("scatter", lambda t, i, s: torch.scatter(t, 1, i, s), [x(2, 4), ids([[0, 3], [2, 1]]), x(2, 2)], {"dim": 1})
    case("scatter_add", lambda t, i, s: torch.scatter_add(t, 1, i, s), [x(2, 3), ids([[0, 0, 2], [1, 1, 1]]), x(2, 3)], {"dim": 1})
    case("index_select", lambda t, i: torch.index_select(t, 0, i), [x(3, 2), ids([2, 0, 2])], {"dim": 0})
    case("index_add", lambda t, i, s: torch.index_add(t, 0, i, s), [x(3, 2), ids([2, 0, 2]), x(3, 2)], {"dim": 0})
    case("embedding", F.embedding, [ids([[1, 3], [1, 0]]), x(4, 3)])
    case("cat", lambda *t: torch.cat(t, 1), [x(2, 1), x(2, 3), x(2, 0)], {"dim": 1})
    case("stack", lambda *t: torch.stack(t, 1), [x(2, 3), x(2, 3)], {"dim": 1})
    for pad in ([1, 2], [-1, 1, 0, 2]):
        case("pad", lambda t: F.pad(t, pad, value=0.5), [x(2, 3)], {"pad": pad, "value": 0.5})
    case("sort", lambda t: torch.sort(t, 1)[0], [x(2, 4)], {"dim": 1, "descending": False})
    case("topk", lambda t: torch.topk(t, 2, 1)[0], [x(2, 4)], {"k": 2, "dim": 1, "largest": True})
    case("tril", lambda t: torch.tril(t, -1), [x(3, 3)], {"diagonal": -1})
    case("triu", lambda t: torch.triu(t, 1), [x(2, 3)], {"diagonal": 1})
    case("flip", lambda t: torch.flip(t, [1]), [x(2, 3)], {"dims": [1]})
    case("roll", lambda t: torch.roll(t, [1], [1]), [x(2, 3)], {"shifts": [1], "dims": [1]})
    case("repeat", lambda t: t.repeat(2, 3), [x(2, 2)], {"repeats": [2, 3]})


def main():
    torch.set_num_threads(1)
    for section in (pointwise, reductions, products_and_norms, rotary, indexing):
        section()
    with open(sys.argv[1], "w") as out:
        out.write("\n".join(lines) + "\n")
    print(f"{len(lines)} cases, {sum(map(len, lines)) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
