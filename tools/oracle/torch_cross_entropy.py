#!/usr/bin/env python3
"""Write cross entropies with their first and second gradients, computed by PyTorch, as JSON lines.

    python tools/oracle/torch_cross_entropy.py crates/rustorch-tensor/tests/fixtures/cross_entropy.jsonl

The format is that of torch_grad.py. Inputs are the logits, the target and, if there is one, the weight; attrs: "ignore_index", "label_smoothing",
"reduction".
"""

import math
import sys

import torch
import torch.nn.functional as F
import torch_grad
from torch_grad import case, normal, positive, rng, tensor

REDUCTIONS = ["mean", "sum", "none"]


def cross_entropy(shape, dtype, target, weighted, smoothing, ignore, reduction, logits=None, **more):
    """`target`: "classes" or "probabilities"; `ignore`: that of the first classes drawn, or the default."""
    logits = normal(shape, dtype, 2.0) if logits is None else logits
    axis = 1 if len(shape) > 1 else 0
    classes = shape[axis]
    if target == "classes":
        y = torch.tensor(rng.integers(0, classes, [n for i, n in enumerate(shape) if i != axis]), dtype=torch.int64)
        index = int(y.reshape(-1)[0]) if ignore == "first" and y.dim() else -100
        if ignore == "some" and y.dim():
            y.reshape(-1)[::2] = -100
        if ignore == "all":
            y[...] = -100
    else:
        y, index = torch.softmax(normal(shape, "f64"), axis).to(logits.dtype), -100
    weight = positive((classes,), dtype) if weighted else None
    attrs = {"ignore_index": index, "label_smoothing": smoothing, "reduction": reduction}

    def f(x, y, w=None):
        return F.cross_entropy(x, y, w, ignore_index=index, reduction=reduction, label_smoothing=smoothing)

    inputs = [logits, y] + ([weight] if weighted else [])
    # Of classes PyTorch has no gradient of the weight.
    needs = [True, target != "classes"] + ([target != "classes"] if weighted else [])
    case("cross_entropy", f, inputs, attrs, needs, **more)


def cases():
    for reduction in REDUCTIONS:
        for weighted in (False, True):
            for smoothing in (0.0, 0.3):
                for target, ignore in (("classes", "none"), ("classes", "some"), ("classes", "first"), ("probabilities", "none")):
                    options = (target, weighted, smoothing, ignore, reduction)
                    cross_entropy((3, 5), "f64", *options)
                    cross_entropy((3, 5), "f32", *options, second=False)
                    if reduction == "mean":
                        cross_entropy((2, 3, 2), "f64", *options)
                        cross_entropy((4,), "f64", *options)
                        cross_entropy((2, 3, 2, 2), "f32", *options, second=False)
                    if reduction == "sum" and ignore != "first":
                        cross_entropy((3, 4), "bf16", *options, second=False)
                        cross_entropy((3, 4), "f16", *options, second=False)
    # All ignored, empty batches, smoothing of everything, logits that differ much, and classes that cannot be.
    for reduction in REDUCTIONS:
        for target in ("classes", "probabilities"):
            cross_entropy((0, 3), "f32", target, False, 0.0, "none", reduction, second=False)
            cross_entropy((2, 3), "f64", target, True, 1.0, "some", reduction)
        cross_entropy((2, 3), "f32", "classes", True, 0.1, "all", reduction, second=False, plain=True)
        far = tensor([[1e4, -1e4, 9999.0], [-3e4, -3e4, -3e4], [300.0, 0.0, -300.0]], "f32")
        cross_entropy((3, 3), "f32", "classes", False, 0.0, "none", reduction, far, second=False)
        impossible = tensor([[-math.inf, 0.5, -math.inf], [1.0, -math.inf, -math.inf]], "f32")
        cross_entropy((2, 3), "f32", "classes", False, 0.0, "none", reduction, impossible, second=False, plain=True)
        never = tensor([[-math.inf] * 3, [1.0, 2.0, math.nan], [math.inf, 0.0, 1.0]], "f32")
        cross_entropy((3, 3), "f32", "classes", False, 0.0, "none", reduction, never, second=False, plain=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    cases()
    with open(sys.argv[1], "w") as out:
        out.write("\n".join(torch_grad.lines) + "\n")
