#!/usr/bin/env python3
"""Write the expected results of interpolation and its backward, computed by PyTorch, as JSON lines.

    python tools/oracle/torch_interpolate.py crates/rustorch-tensor/tests/fixtures/interpolate.jsonl

The format is that of tensor_ops.py. A case "interpolate" has two inputs, x and the gradient of the output, and two outputs, the result and the gradient
of x. Values between elements are computed in f64 and rounded once; of "nearest" and "nearest-exact" in the precision in which PyTorch computes places.
The gradient is the transpose of the forward function, which is linear: PyTorch's own backward finds other places than its forward in some cases of
"nearest" (told as notes).
The case "places" has many lengths: [length, outputs, factor or null, mode, dtype, spatial dimensions, sum over i of (i + 1) * place of output i].
A case "refused" has arguments that PyTorch refuses, too.
"""

import json
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F
from tensor_ops import DTYPES, apply_view, encode

rng = np.random.default_rng(20250302)
lines: list[str] = []
NAN, INF = float("nan"), float("inf")


def normal(shape, dtype="f32"):
    return torch.tensor(rng.standard_normal(shape)).to(DTYPES[dtype])


def function(attrs):
    args = {k: attrs[k] for k in ("size", "scale_factor", "mode", "recompute_scale_factor") if attrs.get(k) is not None}
    if attrs.get("align_corners"):
        args["align_corners"] = True
    return lambda x: F.interpolate(x, **args)


def emit(op, attrs, inputs, outputs, views=()):
    views = list(views) + [None] * (len(inputs) - len(views))
    row = {"op": op, "attrs": attrs, "inputs": [encode(t, v) for t, v in zip(inputs, views)], "outputs": [encode(t) for t in outputs]}
    lines.append(json.dumps(row, separators=(",", ":")))


def case(attrs, x, view=None, grad_view=None):
    f = function(attrs)
    seen = apply_view(x, view)
    nearest = attrs["mode"].startswith("nearest")
    wide = seen.to(torch.float32 if nearest and x.dtype != torch.float64 else torch.float64).clone().requires_grad_(True)
    y = f(wide)
    shape = list(y.shape)
    if grad_view:
        shape[-1], shape[-2] = shape[-2], shape[-1]
    grad = normal(shape, next(k for k, v in DTYPES.items() if v == x.dtype))
    g = apply_view(grad, grad_view).to(wide.dtype)
    gx = torch.zeros_like(wide)
    if wide.numel():
        y.backward(g)
        gx = wide.grad
        n = wide.dim() - 2
        spatial = wide.shape[2:]
        basis = torch.eye(math.prod(spatial), dtype=wide.dtype).view(-1, 1, *spatial)
        jacobian = f(basis).flatten(1)
        transposed = (g.flatten(2) @ jacobian.T).view(wide.shape)
        if not torch.allclose(gx, transposed, rtol=1e-5, atol=1e-6):
            print(f"note: PyTorch's backward is not the transpose of its forward: {attrs} of {list(x.shape)}")
            gx = transposed
    try:
        plain = f(seen)
        assert (plain.dtype, plain.shape) == (x.dtype, y.shape), attrs
        assert not nearest or torch.equal(plain, y.detach().to(x.dtype)) or seen.isnan().any(), attrs
    except (RuntimeError, NotImplementedError) as error:
        assert "not implemented" in str(error), error
        print(f"note: {attrs}: {error}")
    emit("interpolate", attrs, [x, grad], [y.detach().to(x.dtype), gx.to(x.dtype)], [view, grad_view])


MODES = {1: ["nearest", "nearest-exact", "linear", "area"], 2: ["nearest", "nearest-exact", "bilinear", "bicubic", "area"],
         3: ["nearest", "nearest-exact", "trilinear", "area"]}
LENGTHS = {1: [7], 2: [4, 5], 3: [2, 3, 3]}
SIZES = {1: ([1], [5], [7], [16]), 2: ([7, 9], [2, 3], [4, 5], [1, 8]), 3: ([4, 2, 5], [1, 6, 3])}
FACTORS = {1: ([2.0], [0.6], [1.1], [2.05], [3.3]), 2: ([2.0, 1.5], [0.6, 1.1], [1.05, 2.1]), 3: ([1.5, 2.0, 0.7], [1.1, 1.0, 2.05])}


def every_mode():
    for n in (1, 2, 3):
        x = lambda: normal([1, 1] + LENGTHS[n])
        for mode in MODES[n]:
            corners = (False, True) if "linear" in mode or mode == "bicubic" else (False,)
            for align in corners:
                extra = {"align_corners": True} if align else {}
                for size in SIZES[n]:
                    case({"mode": mode, "size": size} | extra, x())
                for factor in FACTORS[n]:
                    case({"mode": mode, "scale_factor": factor} | extra, x())
                case({"mode": mode, "scale_factor": FACTORS[n][-1], "recompute_scale_factor": True} | extra, x())


def dtypes_and_layouts():
    for mode in MODES[2]:
        for dtype in ("f64", "f16", "bf16"):
            case({"mode": mode, "size": [5, 7]}, normal([1, 2, 3, 4], dtype))
        case({"mode": mode, "size": 3}, normal([0, 2, 3, 4]))
        case({"mode": mode, "scale_factor": 1.7}, normal([2, 3, 4, 2]), [["permute", [0, 3, 1, 2]]])
        case({"mode": mode, "size": [5, 7]}, normal([2, 1, 4, 3], "f64"), [["transpose", 2, 3]], [["transpose", 2, 3]])
        case({"mode": mode, "size": [2, 9]}, normal([1, 2, 7, 4], "f16"), [["slice", 2, 1, 7, 2]])


def specials():
    for mode in ("nearest", "nearest-exact", "bilinear", "area"):
        x = normal([1, 1, 3, 4])
        x[0, 0, 1, 1], x[0, 0, 2, 3], x[0, 0, 0, 0] = NAN, INF, -0.0
        seen = function({"mode": mode, "size": [4, 6]})(x)
        emit("interpolate", {"mode": mode, "size": [4, 6]}, [x], [seen])


def places():
    cases = []
    for _ in range(300):
        n = int(rng.integers(1, 400))
        factor = None
        outputs = int(rng.integers(1, 1200))
        if rng.random() < 0.6:
            factor = float(rng.choice([rng.uniform(0.05, 4), 1.1, 1.5, 2.0, 0.5, 1 / 3, 2.5, 0.7, 1.3, 1.001, 2.003]))
            outputs = math.floor(n * factor)
            if outputs < 1:
                continue
        dims, dtype = int(rng.integers(1, 4)), str(rng.choice(["f32", "f64"]))
        if dims == 2 and outputs < 128:
            dtype = "f32"  # In small planes PyTorch finds places in single precision, whatever the dtype.
        mode = str(rng.choice(["nearest", "nearest-exact"]))
        x = torch.arange(n).to(DTYPES[dtype]).view(*[1] * (dims + 1), n)
        target = {"size": [1] * (dims - 1) + [outputs]} if factor is None else {"scale_factor": [1.0] * (dims - 1) + [factor]}
        y = F.interpolate(x, mode=mode, **target).flatten().long()
        cases.append([n, outputs, factor, mode, dtype, dims, int((y * torch.arange(1, outputs + 1)).sum())])
    emit("places", {"cases": cases}, [], [])


def refusals():
    def refused(attrs, shape):
        try:
            function(attrs)(torch.zeros(shape))
        except (RuntimeError, ValueError, NotImplementedError):
            emit("refused", attrs | {"shape": shape}, [], [])
            return
        raise AssertionError(f"PyTorch takes {attrs} of {shape}")

    refused({"mode": "linear", "size": [3, 3]}, [1, 1, 4, 4])
    refused({"mode": "bilinear", "size": [3]}, [1, 1, 4])
    refused({"mode": "bicubic", "size": [3, 3, 3]}, [1, 1, 4, 4, 4])
    refused({"mode": "trilinear", "size": [3, 3]}, [1, 1, 4, 4])
    refused({"mode": "nearest", "size": [3]}, [1, 4])
    refused({"mode": "nearest", "size": [3, 3]}, [1, 1, 4])
    refused({"mode": "nearest", "size": [3], "align_corners": True}, [1, 1, 4])
    refused({"mode": "area", "size": [3], "align_corners": True}, [1, 1, 4])
    refused({"mode": "nearest", "size": [0]}, [1, 1, 4])
    refused({"mode": "bilinear", "size": [2, 0]}, [1, 1, 4, 4])
    refused({"mode": "nearest", "scale_factor": [0.1]}, [1, 1, 4])
    refused({"mode": "nearest", "scale_factor": [2.0, 2.0]}, [1, 1, 4])
    refused({"mode": "nearest", "scale_factor": [-1.0]}, [1, 1, 4])
    refused({"mode": "nearest", "size": [3]}, [1, 1, 0])
    refused({"mode": "nearest", "size": [3], "recompute_scale_factor": True}, [1, 1, 4])


def main():
    torch.set_num_threads(1)
    for section in (every_mode, dtypes_and_layouts, specials, places, refusals):
        section()
    with open(sys.argv[1], "w") as out:
        out.write("\n".join(lines) + "\n")
    print(f"{len(lines)} cases, {sum(map(len, lines)) / 1000:.0f} kB, torch {torch.__version__}")


if __name__ == "__main__":
    main()
