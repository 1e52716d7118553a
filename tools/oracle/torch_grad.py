#!/usr/bin/env python3
"""Write first and second gradients of tensor operations, computed by PyTorch's autograd, as JSON lines.

    python tools/oracle/torch_grad.py crates/rustorch-tensor/tests/fixtures/grad.jsonl

One line is one case:

    {"op": NAME, "attrs": {...}, "inputs": [TENSOR...], "needs": [BOOL...], "outputs": [TENSOR...], "seeds": [TENSOR|null...],
     "grads": [TENSOR|null...], "second": {"seeds": [TENSOR|null...], "grads": [TENSOR|null...], "of_seeds": [TENSOR|null...]}}

TENSOR is that of tensor_ops.py, and so are most names and attrs. Of the other keys:

- "needs": for each input, whether its gradient is asked for.
- "seeds": for each output, the gradient given to the backward pass; null for an output that takes no part.
- "grads": for each input, its gradient; null is not asked for or, as everywhere below, unused, which counts as zero.
- "second": the first gradients, computed with create_graph, are differentiated again. "seeds": for each input, the gradient given to its
  gradient. "grads": for each input, the gradient of Σ <seed, gradient>. "of_seeds" (may be absent): for each output, the same with respect
  to the seed of the first pass. Without the key, PyTorch has no second derivative, or none was asked for.
- attrs["point"]: the case is of values where there is no derivative, and tells which.

Gradients of f32, c64 and 16-bit inputs are computed in f64 (c128) from the rounded inputs and rounded once, except where a case is plain: those of
casts, at points, and of 16 bits where PyTorch rounds results that its gradients are computed from.
"""

import json
import sys

import numpy as np
import torch
from tensor_ops import DTYPES, NAMES, encode, widen

rng = np.random.default_rng(20261123)
NARROW = ("f16", "bf16", "f32", "c64")
lines: list[str] = []
without_second: set[str] = set()


def tensor(values, dtype="f64"):
    return torch.tensor(values, dtype=DTYPES[dtype])


def normal(shape, dtype="f64", scale=1.0):
    x = rng.standard_normal(shape) * scale
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal(shape) * scale
    return torch.tensor(x).to(DTYPES[dtype])


def positive(shape, dtype="f64"):
    return torch.tensor(rng.uniform(0.4, 2.5, shape)).to(DTYPES[dtype])


def integers(values):
    return torch.tensor(values, dtype=torch.int64)


def random_seed(t):
    return normal(tuple(t.shape), "c128" if t.is_complex() else "f64").to(t.dtype)


def steady_seed(t):
    """1, 1.25, 1.5...: seeds that change no sign and are no zero."""
    return (1 + 0.25 * torch.arange(t.numel(), dtype=torch.float64)).reshape(t.shape).to(t.dtype)


def derive(f, inputs, needs, seeds, seconds, second):
    """Outputs, seeds, gradients and, if there are any, second seeds, gradients of the inputs and of the seeds."""
    leaves = [t.detach().clone().requires_grad_(need) for t, need in zip(inputs, needs)]
    outs = f(*leaves)
    outs = list(outs) if isinstance(outs, (tuple, list)) else [outs]
    seeds = seeds(outs) if callable(seeds) else seeds
    given = [None if s is None else s.detach().to(o.dtype).clone().requires_grad_(second) for s, o in zip(seeds, outs)]
    wanted = [x for x, need in zip(leaves, needs) if need]
    roots = [(o, s) for o, s in zip(outs, given) if s is not None]
    found = torch.autograd.grad([o for o, _ in roots], wanted, [s for _, s in roots], create_graph=second, retain_graph=True, allow_unused=True)
    place = iter(found)
    grads = [next(place) if need else None for need in needs]
    if not second:
        return outs, given, grads, None
    seconds = seconds(grads) if callable(seconds) else seconds
    live = [(g, s) for g, s in zip(grads, seconds) if s is not None]
    if not live:
        return outs, given, grads, None
    sources = wanted + [s for s in given if s is not None]
    more = torch.autograd.grad([g for g, _ in live], sources, [s.to(g.dtype) for g, s in live], allow_unused=True)
    place = iter(more)
    of_inputs = [next(place) if need else None for need in needs]
    of_seeds = [None if s is None else next(place) for s in given]
    return outs, given, grads, (seconds, of_inputs, of_seeds)


def case(op, f, inputs, attrs=None, needs=None, second=True, seeds=None, plain=False, seed=random_seed):
    """Differentiates `f` and writes the line. `seeds`: the outputs that get one; without, all that require a gradient."""
    needs = [t.is_floating_point() or t.is_complex() for t in inputs] if needs is None else needs

    def choose(outs):
        return [seed(o) if o.requires_grad and (seeds is None or i in seeds) else None for i, o in enumerate(outs)]

    def again(grads):
        return [None if g is None or not g.requires_grad else seed(g) for g in grads]

    try:
        result = derive(f, inputs, needs, choose, again, second)
    except RuntimeError as error:
        if not second or "not implemented" not in str(error) and "not require grad" not in str(error):
            raise
        without_second.add(op)
        result = derive(f, inputs, needs, choose, again, False)
    outs, given, grads, more = result
    if not plain and any(NAMES[t.dtype] in NARROW for t in inputs):
        wide = derive(f, [widen(t) for t in inputs], needs, given, more and more[0], more is not None)
        narrow = lambda ws, ps: [None if w is None else w.to(p.dtype) for w, p in zip(ws, ps)]
        outs, grads = narrow(wide[0], outs), narrow(wide[2], grads)
        if more:
            more = (more[0], narrow(wide[3][1], more[1]), narrow(wide[3][2], more[2]))
    full = lambda t: torch.zeros(t.shape, dtype=t.dtype) if t._is_zerotensor() else t.detach().resolve_neg().clone(memory_format=torch.contiguous_format)
    write = lambda ts: [None if t is None else encode(full(t)) for t in ts]
    row = {"op": op, "attrs": attrs or {}, "inputs": write(inputs), "needs": needs, "outputs": write(outs), "seeds": write(given), "grads": write(grads)}
    if more:
        row["second"] = dict(zip(("seeds", "grads", "of_seeds"), map(write, more)))
    lines.append(json.dumps(row, separators=(",", ":")))


def point(op, why, f, inputs, attrs=None, **more):
    """A case of values where there is no derivative."""
    case(op, f, inputs, {"point": why} | (attrs or {}), seed=steady_seed, plain=True, **more)


def main():
    from grad_cases import ops, points, structure

    torch.manual_seed(0)
    torch.set_num_threads(1)
    for section in ops.SECTIONS + structure.SECTIONS + points.SECTIONS:
        before, at = sum(map(len, lines)), len(lines)
        section()
        print(f"{section.__name__}: {len(lines) - at} cases, {(sum(map(len, lines)) - before) / 1000:.0f} kB")
    with open(sys.argv[1], "w") as out:
        out.write("\n".join(lines) + "\n")
    print(f"{len(lines)} cases, {sum(map(len, lines)) / 1000:.0f} kB, torch {torch.__version__}; no second derivative of {sorted(without_second)}")


if __name__ == "__main__":
    # The modules of cases import this one by its name.
    sys.modules["torch_grad"] = sys.modules[__name__]
    main()
