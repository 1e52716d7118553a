#!/usr/bin/env python3
"""Write the expected results of torch.linalg, computed by PyTorch, as JSON lines.

    python tools/oracle/torch_linalg.py crates/rustorch-tensor/tests/fixtures/linalg.jsonl

The format is that of tensor_ops.py. Results are computed in f64 or c128 from inputs rounded to the case's dtype, and rounded once. attrs["cond"] is
the largest condition number of the matrices, by which a tolerance has to grow. A case "refused" names an operation, its inputs, and what PyTorch's
message says about the matrix: its number in the batch and, where it tells it, the order of the minor or the number of the diagonal element.
"""

import json
import re
import sys

import numpy as np
import torch
from tensor_ops import DTYPES, apply_view, encode, widen

rng = np.random.default_rng(20250911)
lines: list[str] = []
REAL = {"f32": "f32", "f64": "f64", "c64": "f32", "c128": "f64"}


def noise(shape, dtype):
    x = rng.standard_normal(shape)
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal(shape)
    return torch.tensor(x).to(DTYPES[dtype])


def conditioned(shape, dtype, cond):
    """Matrices whose singular values fall from 1 to 1 / cond."""
    *batch, m, n = shape
    k = min(m, n)
    u, _ = torch.linalg.qr(widen(noise((*batch, m, k), dtype)))
    v, _ = torch.linalg.qr(widen(noise((*batch, n, k), dtype)))
    s = torch.logspace(0, -np.log10(cond), k, dtype=torch.float64).to(u.dtype)
    return ((u * s) @ v.mH).to(DTYPES[dtype])


def positive(shape, dtype, cond):
    *batch, n, _ = shape
    u, _ = torch.linalg.qr(widen(noise(shape, dtype)))
    s = torch.logspace(0, -np.log10(cond), n, dtype=torch.float64).to(u.dtype)
    a = (u * s) @ u.mH
    return ((a + a.mH) / 2).to(DTYPES[dtype])


FUNCTIONS = {
    "cholesky": lambda attrs, a: torch.linalg.cholesky(a, upper=attrs["upper"]),
    "cholesky_solve": lambda attrs, b, l: torch.cholesky_solve(b, l),
    "solve": lambda attrs, a, b: torch.linalg.solve(a, b, left=attrs.get("left", True)),
    "solve_triangular": lambda attrs, a, b: torch.linalg.solve_triangular(
        a, b, upper=attrs["upper"], left=attrs.get("left", True), unitriangular=attrs.get("unit", False)
    ),
    "inv": lambda attrs, a: torch.linalg.inv(a),
    "det": lambda attrs, a: torch.linalg.det(a),
    "slogdet": lambda attrs, a: torch.linalg.slogdet(a),
    "qr": lambda attrs, a: torch.linalg.qr(a, mode=attrs["mode"]),
    "lu": lambda attrs, a: torch.linalg.lu(a),
    "lu_factor": lambda attrs, a: torch.linalg.lu_factor(a),
}


def results(op, attrs, inputs):
    out = FUNCTIONS[op](attrs, *inputs)
    return [out] if isinstance(out, torch.Tensor) else list(out)


def case(op, attrs, inputs, views=()):
    views = list(views) + [None] * (len(inputs) - len(views))
    seen = [apply_view(x, view) for x, view in zip(inputs, views)]
    wide = [widen(x) for x in seen]
    # Of triangular systems only one triangle counts, of right sides nothing.
    matrix = {"cholesky_solve": 1}.get(op, 0)
    a = wide[matrix]
    if op == "solve_triangular":
        a = torch.triu(a) if attrs["upper"] else torch.tril(a)
        if attrs.get("unit"):
            a = a - torch.diag_embed(torch.diagonal(a, dim1=-2, dim2=-1)) + torch.eye(a.shape[-1])
    if op == "cholesky_solve":
        a = a @ a.mH
    cond = float(torch.linalg.cond(a).max()) if a.numel() else 1.0
    if op in ("det", "slogdet") and not np.isfinite(cond):
        cond = 1.0
    outs = results(op, attrs, wide)
    plain = results(op, attrs, seen)
    rounded = []
    for o, p in zip(outs, plain):
        assert o.shape == p.shape and o.is_complex() == p.is_complex(), (op, attrs)
        rounded.append(o.to(p.dtype))
    row = {
        "op": op,
        "attrs": attrs | {"cond": cond},
        "inputs": [encode(x, view) for x, view in zip(inputs, views)],
        "outputs": [encode(o) for o in rounded],
    }
    lines.append(json.dumps(row, separators=(",", ":")))


def refused(op, attrs, inputs):
    try:
        results(op, attrs, inputs)
        raise AssertionError((op, attrs))
    except RuntimeError as error:
        text = str(error)
    told = {"op": op, "batch": None, "order": None} | attrs
    if found := re.search(r"Batch element (\d+)", text):
        told["batch"] = int(found.group(1))
    if found := re.search(r"order (\d+)|diagonal element (\d+)|U\[(?:\d+,)?(\d+),", text):
        told["order"] = int(next(g for g in found.groups() if g))
    row = {"op": "refused", "attrs": told, "inputs": [encode(x) for x in inputs], "outputs": []}
    lines.append(json.dumps(row, separators=(",", ":")))


TURNED = [["transpose", -2, -1]]
for dtype in ("f32", "f64", "c64", "c128"):
    bad = {"f32": 1e4, "f64": 1e8}[REAL[dtype]]
    conds = [4.0, bad]
    for upper in (False, True):
        for cond in conds:
            case("cholesky", {"upper": upper}, [positive((5, 5), dtype, cond)])
        case("cholesky", {"upper": upper}, [positive((2, 3, 4, 4), dtype, 4.0)], [[["permute", [1, 0, 3, 2]]]])
    case("cholesky_solve", {}, [noise((5, 2), dtype), torch.linalg.cholesky(positive((3, 5, 5), dtype, 4.0))])
    for cond in conds:
        case("solve", {}, [conditioned((5, 5), dtype, cond), noise((5, 3), dtype)])
        case("inv", {}, [conditioned((2, 5, 5), dtype, cond)])
        case("lu_factor", {}, [conditioned((5, 5), dtype, cond)])
        case("slogdet", {}, [conditioned((2, 5, 5), dtype, cond)])
        case("qr", {"mode": "reduced"}, [conditioned((6, 4), dtype, cond)])
    if REAL[dtype] == "f64":
        # The wide dtypes have the same code; the narrow ones take fewer bytes.
        continue
    for upper in (False, True):
        for left, unit in ((True, False), (False, False), (True, True), (False, True)):
            a = noise((2, 6, 6), dtype) + 4 * torch.eye(6).to(DTYPES[dtype])
            a = a / 8 if unit else a
            b = noise((3, 1, 6, 2) if left else (3, 1, 2, 6), dtype)
            case("solve_triangular", {"upper": upper, "left": left, "unit": unit}, [a, b], [TURNED])
    case("solve", {}, [conditioned((4, 4), dtype, 4.0), noise((4,), dtype)])
    case("solve", {}, [conditioned((3, 4, 4), dtype, 4.0), noise((3, 4), dtype)])
    case("solve", {}, [conditioned((3, 4, 4), dtype, 4.0), noise((2, 1, 8, 2), dtype)], [TURNED, [["slice", 2, 1, 8, 2]]])
    case("solve", {"left": False}, [conditioned((2, 1, 4, 4), dtype, 4.0), noise((3, 2, 4), dtype)])
    case("solve", {}, [conditioned((4, 4), dtype, 4.0), noise((2, 4, 2), dtype)], [[["expand", [2, 4, 4]]]])
    case("inv", {}, [conditioned((3, 4, 4), dtype, 4.0)], [TURNED])
    for op in ("det", "slogdet"):
        case(op, {}, [noise((2, 2, 4, 4), dtype)], [TURNED])
        case(op, {}, [torch.ones((3, 3)).to(DTYPES[dtype])])
    for mode in ("reduced", "complete"):
        for shape in ((2, 5, 3), (3, 5), (4, 4)):
            case("qr", {"mode": mode}, [noise(shape, dtype)], [TURNED])
    for shape in ((2, 5, 3), (2, 3, 5), (4, 4)):
        case("lu", {}, [noise(shape, dtype)], [TURNED])
    case("lu_factor", {}, [noise((2, 5, 3), dtype)])

# Larger than the panels of an implementation.
case("cholesky", {"upper": False}, [positive((36, 36), "f32", 4.0)])
case("qr", {"mode": "reduced"}, [conditioned((36, 20), "f32", 4.0)])

# Nothing, and batches of nothing.
for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
    x = torch.zeros(shape)
    case("cholesky", {"upper": False}, [x])
    case("inv", {}, [x])
    case("det", {}, [x])
    case("slogdet", {}, [x])
    case("solve", {}, [x, torch.zeros((*shape[:-1], 2))])
for shape in ((0, 3), (3, 0)):
    case("lu", {}, [torch.zeros(shape)])
    for mode in ("reduced", "complete"):
        case("qr", {"mode": mode}, [torch.zeros(shape)])

identity, singular = torch.eye(3), torch.tensor([[4.0, 2.0, 1.0], [2.0, 1.0, 7.0], [1.0, 0.5, 3.0]])
indefinite = torch.tensor([[2.0, 1.0, 0.0], [1.0, -3.0, 0.0], [0.0, 0.0, 1.0]])
refused("cholesky", {"upper": False}, [indefinite])
refused("cholesky", {"upper": True}, [torch.stack([identity, identity, indefinite, indefinite])])
refused("cholesky", {"upper": False}, [torch.zeros(1, 1)])
refused("cholesky", {"upper": False}, [torch.full((2, 2), float("nan"))])
for op in ("inv", "lu_factor"):
    refused(op, {}, [singular])
    refused(op, {}, [torch.stack([identity, singular])])
refused("solve", {}, [torch.stack([identity, singular]), torch.ones(2, 3, 1)])
refused("solve", {}, [singular, torch.ones(3)])
refused("inv", {}, [torch.zeros(2, 3)])
refused("det", {}, [torch.zeros(2, 3)])
refused("det", {}, [torch.zeros(3)])
refused("solve", {}, [identity, torch.ones(4, 1)])
refused("solve", {}, [identity, torch.ones(3, 1).double()])
refused("inv", {}, [torch.eye(3, dtype=torch.int64)])
refused("inv", {}, [torch.eye(3, dtype=torch.float16)])
refused("solve_triangular", {"upper": True}, [identity, torch.ones(3)])

with open(sys.argv[1], "w") as out:
    out.write("\n".join(lines) + "\n")
print(f"{len(lines)} cases")
