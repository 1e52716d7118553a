#!/usr/bin/env python3
"""Write results and gradients of methods that are composed of operations, computed by PyTorch, as JSON lines.

    python tools/oracle/torch_methods.py crates/rustorch-tensor/tests/fixtures/methods

Each module of method_cases gives one file. A line is that of tensor_ops.py, and may have two keys more:

- "seeds": for each output, the gradient given to the backward pass; null for an output that has none.
- "grads": for each input (after its views), its gradient; null has none.

Results and gradients are computed in f64 (c128) from the rounded inputs and rounded once. attrs["values"] says that the result's shape depends on
values, so that a capture is refused. A line of the op "refused" has in attrs["op"] what PyTorch refuses.
"""

import json
import pathlib
import sys

import numpy as np
import torch
from tensor_ops import DTYPES, apply_view, encode, tensor, widen

rng = np.random.default_rng(20261126)
lines: list[str] = []
TURNED = [["transpose", 0, 1]]
__all__ = ["case", "integers", "normal", "refused", "tensor", "DTYPES", "TURNED"]


def normal(shape, dtype="f32", scale=1.0):
    x = rng.standard_normal(shape) * scale
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal(shape) * scale
    return torch.tensor(x).to(DTYPES[dtype])


def integers(shape, dtype="i64", low=0, high=10):
    return torch.tensor(rng.integers(low, high, shape)).to(DTYPES[dtype])


def listed(outs):
    return list(outs) if isinstance(outs, (tuple, list)) else [outs]


def differentiable(t):
    return t.is_floating_point() or t.is_complex()


def full(t):
    """A copy whose elements are in order."""
    return torch.empty(t.shape, dtype=t.dtype).copy_(t.detach())


def gradients(f, inputs, outs):
    """Seeds and gradients, or nothing where no output has a history."""
    leaves = [widen(t).detach().clone().requires_grad_(differentiable(t)) for t in inputs]
    wide = listed(f(*leaves))
    if not any(o.requires_grad for o in wide):
        return None
    seeds = [normal(tuple(o.shape), "c128" if o.is_complex() else "f64").to(o.dtype) if o.requires_grad else None for o in wide]
    seeds = [None if s is None else widen(s.to(p.dtype)) for s, p in zip(seeds, outs)]
    wanted = [x for x in leaves if x.requires_grad]
    roots = [(o, s) for o, s in zip(wide, seeds) if s is not None]
    found = torch.autograd.grad([o for o, _ in roots], wanted, [s.to(o.dtype) for o, s in roots], allow_unused=True)
    place = iter(found)
    grads = [next(place) if x.requires_grad else None for x in leaves]
    return [None if s is None else s.to(p.dtype) for s, p in zip(seeds, outs)], [None if g is None else full(g).to(t.dtype) for g, t in zip(grads, inputs)]


def case(op, f, inputs, attrs=None, views=(), grad=True, exact=False):
    """Writes the results of `f` and, if `grad` and it has some, gradients. `exact`: as computed in the inputs' own dtype."""
    views = list(views) + [None] * (len(inputs) - len(views))
    seen = [apply_view(t, v) for t, v in zip(inputs, views)]
    plain = listed(f(*seen))
    wide = plain if exact else listed(f(*[widen(t) for t in seen]))
    outs = [w.to(p.dtype) for w, p in zip(wide, plain)]
    for w, p in zip(outs, plain):
        tol = {torch.float16: 2e-2, torch.bfloat16: 1e-1}.get(p.dtype, 1e-4)
        assert w.shape == p.shape, (op, attrs)
        assert torch.allclose(widen(w), widen(p), rtol=tol, atol=tol, equal_nan=True), (op, attrs, w, p)
    row = {"op": op, "attrs": attrs or {}, "inputs": [encode(full(t), v) for t, v in zip(inputs, views)], "outputs": [encode(full(t)) for t in outs]}
    if grad and any(differentiable(t) for t in inputs):
        if found := gradients(f, seen, outs):
            row["seeds"], row["grads"] = ([None if t is None else encode(full(t)) for t in ts] for ts in found)
    lines.append(json.dumps(row, separators=(",", ":")))


def refused(op, f, inputs, attrs=None):
    """Writes what PyTorch refuses."""
    try:
        f(*inputs)
    except (RuntimeError, IndexError, ValueError, TypeError, ZeroDivisionError):
        row = {"op": "refused", "attrs": {"op": op} | (attrs or {}), "inputs": [encode(full(t)) for t in inputs], "outputs": []}
        lines.append(json.dumps(row, separators=(",", ":")))
        return
    raise AssertionError((op, attrs, "is not refused"))


def main():
    import method_cases

    torch.manual_seed(0)
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for name, sections in method_cases.MODULES.items():
        lines.clear()
        for section in sections:
            section()
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        print(f"{name}: {len(lines)} cases, {sum(map(len, lines)) / 1000:.0f} kB, torch {torch.__version__}")


if __name__ == "__main__":
    # The modules of cases import this one by its name.
    sys.modules["torch_methods"] = sys.modules[__name__]
    main()
