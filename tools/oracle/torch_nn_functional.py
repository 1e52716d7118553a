#!/usr/bin/env python3
"""Write activations and losses of torch.nn.functional and gradients of their inputs, computed by PyTorch in f64, as JSON lines.

    python tools/oracle/torch_nn_functional.py crates/rustorch-nn/tests/fixtures

A line of activations.jsonl or losses.jsonl has "op", the function's name; "args", its other arguments by name; "inputs", tensors; "output";
and "grads", one for each input, null of those that have none: gradients of the sum of the output times weights, 0.25 + 0.5 · (i % 5 − 2)
of element i. Tensors are {"shape", "data"}, integers with "dtype": "i64"; what is not finite is a string. Lines with "refused": true have
inputs that PyTorch refuses. Inputs are multiples of 1/64, which f32 holds.
"""

import json
import os
import sys

import torch

F = torch.nn.functional
lines = []
generator = torch.Generator().manual_seed(20)
INF, NAN = float("inf"), float("nan")


def normal(*shape, scale=2.0):
    x = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
    return (x * 64).round() / 64


def uniform(low, high, *shape):
    """Strictly between the bounds."""
    x = torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low
    return ((x * 64).round() / 64).clamp(low + 1 / 64, high - 1 / 64)


def integers(low, high, *shape):
    return torch.randint(low, high, shape, generator=generator)


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def stored(x):
    if x is None:
        return None
    number = lambda v: v if isinstance(v, int) or abs(v) < INF else str(v)
    flat = [number(v) for v in x.detach().flatten().tolist()]
    whole = lambda v: int(v) if isinstance(v, float) and v == int(v) and str(v) != "-0.0" else v
    data = [v if isinstance(v, str) else whole(v) for v in flat]
    fields = {"shape": list(x.shape), "data": data}
    return fields | ({"dtype": "i64"} if x.dtype == torch.int64 else {})


def case(op, inputs, constant=(), call=None, **args):
    """A line. Inputs at the positions `constant` have no gradient; `call` stands for the function of the name."""
    f = call or getattr(F, op)
    leaves = [x.clone().requires_grad_(x.is_floating_point() and i not in constant) for i, x in enumerate(inputs)]
    line = {"op": op, "args": args, "inputs": [stored(x) for x in inputs]}
    try:
        output = f(*leaves, **args)
    except (RuntimeError, ValueError, IndexError):
        lines.append(line | {"refused": True})
        return
    weights = (torch.arange(output.numel(), dtype=torch.float64) % 5 - 2) * 0.5 + 0.25
    wanted = [x for x in leaves if x.requires_grad]
    grads = iter(torch.autograd.grad(output, wanted, weights.reshape(output.shape), allow_unused=True) if wanted else ())
    grads = [stored(next(grads)) if x.requires_grad else None for x in leaves]
    lines.append(line | {"output": stored(output), "grads": grads})


def activations():
    special = tensor(0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0, 20.0, 20.5, -20.0, 88.0, -88.0, 1000.0, -1000.0)
    endless = tensor(INF, -INF, NAN)
    x = normal(3, 4)

    def pointwise(op, variants=({},), call=None):
        for args in variants:
            for inputs in (x, special, torch.zeros(0, 2, dtype=torch.float64), tensor(1.5)[0]):
                case(op, [inputs], call=call, **args)
            # Derivatives have no common sense there.
            case(op, [endless], constant=(0,), call=call, **args)

    for op in "relu relu6 selu silu mish hardswish sigmoid tanh tanhshrink softsign logsigmoid".split():
        pointwise(op)
    # PyTorch's own gradient has 1/6 in single precision (hardsigmoid_backward in aten/src/ATen/native/cpu/Activation.cpp).
    pointwise("hardsigmoid", call=lambda x: F.relu6(x + 3) / 6)
    pointwise("leaky_relu", ({"negative_slope": 0.01}, {"negative_slope": -0.5}, {"negative_slope": 0.0}))
    pointwise("elu", ({"alpha": 1.0}, {"alpha": 0.25}))
    pointwise("celu", ({"alpha": 1.0}, {"alpha": 2.5}))
    pointwise("gelu", ({"approximate": "none"}, {"approximate": "tanh"}))
    pointwise("hardtanh", ({"min_val": -1.0, "max_val": 1.0}, {"min_val": -0.5, "max_val": 3.0}))
    pointwise("hardshrink", ({"lambd": 0.5}, {"lambd": 3.0}))
    pointwise("softshrink", ({"lambd": 0.5}, {"lambd": 0.0}))
    pointwise("softplus", ({"beta": 1.0, "threshold": 20.0}, {"beta": 0.5, "threshold": 2.0}, {"beta": 3.0, "threshold": 200.0}))
    pointwise("threshold", ({"threshold": 0.5, "value": 20.0}, {"threshold": -3.0, "value": -1.0}))
    pointwise("rrelu", ({"lower": 0.125, "upper": 0.3125, "training": False},))
    for shape in ([4], [3, 4], [2, 4, 3], [2, 4, 2, 2]):
        case("prelu", [normal(*shape), tensor(0.25)])
        if len(shape) > 1:
            case("prelu", [normal(*shape), normal(4)])
    case("prelu", [special, tensor(-0.5)])
    case("prelu", [tensor(-1.5)[0], tensor(0.25)])
    case("prelu", [tensor(INF, -1.0), tensor(0.25)])
    case("prelu", [x, normal(3)])
    case("prelu", [normal(4), normal(4)])
    case("prelu", [x, normal(1, 4)])
    for op in ("softmax", "softmin", "log_softmax"):
        for dim in (0, 1, -1):
            case(op, [normal(2, 3, 2)], dim=dim)
        case(op, [tensor(1000.0, -1000.0, 999.0)], dim=0)
        case(op, [tensor(1.0, 2.0)], dim=1)
    case("softmax2d", [normal(2, 3, 2, 2)], call=torch.nn.Softmax2d())
    case("softmax2d", [normal(3, 2, 2)], call=torch.nn.Softmax2d())
    case("softmax2d", [normal(3, 2)], call=torch.nn.Softmax2d())
    case("glu", [normal(3, 4)], dim=-1)
    case("glu", [normal(2, 4, 3)], dim=1)
    case("glu", [normal(3, 4)], dim=0)
    case("hardtanh", [x], min_val=1.0, max_val=-1.0)
    case("softshrink", [x], lambd=-0.5)
    case("celu", [x], alpha=0.0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, cases in (("activations", activations),):
        lines.clear()
        cases()
        with open(os.path.join(sys.argv[1], name + ".jsonl"), "w") as out:
            out.write("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
