#!/usr/bin/env python3
"""Write the expected results of batch, instance and group normalisation, computed by PyTorch, as JSON lines.

    python tools/oracle/torch_channel_norm.py crates/rustorch-tensor/tests/fixtures/channel_norm.jsonl

The format is that of tensor_ops.py. Inputs are x and those of weight, bias, running mean and running variance that attrs["with"] names, in this order.
Outputs are the result and, where they are updated, the running mean and variance afterwards. Values are computed in f64 and rounded once.
A case "refused" names an operation and arguments that PyTorch refuses, too.
"""

import json
import sys

import numpy as np
import torch
import torch.nn.functional as F
from tensor_ops import DTYPES, NAMES, apply_view, encode

rng = np.random.default_rng(20250303)
lines: list[str] = []


def normal(shape, dtype="f32", shift=0.0):
    return torch.tensor(rng.standard_normal(shape) + shift).to(DTYPES[dtype])


def function(op, attrs):
    """The normalisation of x with a dict of parameters."""
    eps = attrs.get("eps", 1e-5)
    if op == "group_norm":
        return lambda x, p: F.group_norm(x, attrs["groups"], p.get("weight"), p.get("bias"), eps)
    f, flag = (F.batch_norm, "training") if op == "batch_norm" else (F.instance_norm, "use_input_stats")
    return lambda x, p: f(x, p.get("running_mean"), p.get("running_var"), p.get("weight"), p.get("bias"), momentum=attrs.get("momentum", 0.1), eps=eps,
                          **{flag: attrs["training"]})


def case(op, attrs, x, view=None, parameters=None):
    names = attrs["with"]
    seen = apply_view(x, view)
    c = seen.shape[1]
    dtype = parameters or NAMES[x.dtype]
    given = {name: normal([c], dtype).square() + 0.5 if name == "running_var" else normal([c], dtype) for name in names}
    wide = {name: t.double().clone() for name, t in given.items()}
    y = function(op, attrs)(seen.double(), wide)
    outs = [y.to(x.dtype)]
    if attrs.get("training") and "running_mean" in names:
        outs += [wide[name].to(given[name].dtype) for name in ("running_mean", "running_var")]
    plain = function(op, attrs)(seen, {name: t.clone() for name, t in given.items()})
    assert (plain.dtype, plain.shape) == (outs[0].dtype, outs[0].shape), (op, attrs)
    inputs = [x] + [given[name] for name in names]
    row = {"op": op, "attrs": attrs, "inputs": [encode(t, view if i == 0 else None) for i, t in enumerate(inputs)], "outputs": [encode(t) for t in outs]}
    lines.append(json.dumps(row, separators=(",", ":")))


def refused(op, attrs, shape, parameters):
    try:
        function(op, attrs)(torch.zeros(shape), {name: torch.ones(n) for name, n in parameters.items()})
    except (RuntimeError, ValueError, IndexError):
        attrs = attrs | {"norm": op, "shape": shape, "parameters": list(parameters.items())}
        lines.append(json.dumps({"op": "refused", "attrs": attrs, "inputs": [], "outputs": []}))
        return
    raise AssertionError(f"PyTorch takes {op} {attrs} of {shape}")


WEIGHTS, RUNNING = ["weight", "bias"], ["running_mean", "running_var"]
SHAPES = ([6, 3], [3, 4, 5], [2, 3, 4, 3], [2, 2, 2, 3, 2])


def batch():
    for shape in SHAPES:
        case("batch_norm", {"training": True, "with": WEIGHTS + RUNNING}, normal(shape, shift=1))
        case("batch_norm", {"training": True, "with": []}, normal(shape))
        case("batch_norm", {"training": False, "with": WEIGHTS + RUNNING}, normal(shape, shift=1))
        case("batch_norm", {"training": False, "with": RUNNING}, normal(shape))
    for training in (False, True):
        attrs = {"training": training, "with": WEIGHTS + RUNNING, "momentum": 0.3, "eps": 1e-3}
        case("batch_norm", attrs, normal([2, 3, 4], "f64"))
        for dtype in ("f16", "bf16"):
            case("batch_norm", attrs, normal([4, 3, 5], dtype))
            case("batch_norm", attrs, normal([4, 3, 5], dtype), parameters="f32")
        case("batch_norm", attrs | {"with": ["weight"] + RUNNING}, normal([2, 3, 4]))
        case("batch_norm", attrs | {"with": ["bias"] + RUNNING}, normal([2, 3, 4]))
        # Channels last, and every second sample.
        case("batch_norm", attrs, normal([2, 3, 4, 5]), [["permute", [0, 3, 1, 2]]])
        case("batch_norm", attrs, normal([5, 3, 4]), [["slice", 0, 1, 5, 2]])
        # A large mean costs digits where the variance is a difference of squares.
        case("batch_norm", attrs, normal([2, 2, 6], shift=300))
        case("batch_norm", attrs, normal([0, 3, 4]))


def group():
    for shape, groups in (([2, 6], 2), ([2, 6], 3), ([2, 6, 4], 1), ([2, 6, 4], 3), ([1, 4, 3, 3], 2), ([1, 4, 2, 2, 3], 4)):
        case("group_norm", {"groups": groups, "with": WEIGHTS}, normal(shape, shift=1))
        case("group_norm", {"groups": groups, "with": []}, normal(shape))
    attrs = {"groups": 2, "with": WEIGHTS, "eps": 1e-3}
    case("group_norm", attrs, normal([2, 4, 3], "f64"))
    for dtype in ("f16", "bf16"):
        case("group_norm", attrs, normal([2, 4, 5], dtype))
        case("group_norm", attrs, normal([2, 4, 5], dtype), parameters="f32")
    case("group_norm", attrs | {"with": ["bias"]}, normal([2, 4, 3]))
    case("group_norm", attrs, normal([2, 3, 2, 4]), [["permute", [0, 3, 1, 2]]])
    case("group_norm", attrs, normal([2, 3, 4]), [["transpose", 1, 2]])
    case("group_norm", attrs, normal([0, 4, 3]))


def instance():
    for shape in SHAPES[1:]:
        case("instance_norm", {"training": True, "with": []}, normal(shape, shift=1))
        case("instance_norm", {"training": True, "with": WEIGHTS}, normal(shape))
        case("instance_norm", {"training": True, "with": WEIGHTS + RUNNING}, normal(shape, shift=1))
        case("instance_norm", {"training": False, "with": WEIGHTS + RUNNING}, normal(shape, shift=1))
    attrs = {"training": True, "with": WEIGHTS + RUNNING, "momentum": 0.3, "eps": 1e-3}
    case("instance_norm", attrs, normal([2, 3, 4], "f64"))
    case("instance_norm", attrs, normal([2, 3, 5], "f16"))
    case("instance_norm", attrs, normal([2, 4, 5, 3]), [["permute", [0, 3, 1, 2]]])


def refusals():
    train, use = {"training": True, "with": []}, {"training": False, "with": []}
    refused("batch_norm", train, [1, 3], {})
    refused("batch_norm", train, [1, 3, 1, 1], {})
    refused("batch_norm", use, [2, 3], {})
    refused("batch_norm", use, [2, 3], {"running_mean": 4, "running_var": 4})
    refused("batch_norm", train, [2, 3], {"weight": 4})
    refused("batch_norm", train, [2, 3], {"running_mean": 4, "running_var": 4})
    refused("batch_norm", train, [4], {})
    refused("instance_norm", train, [2, 3, 1], {})
    refused("instance_norm", train, [2, 3, 1], {"running_mean": 3, "running_var": 3})
    refused("instance_norm", train, [2, 3, 4], {"running_mean": 4, "running_var": 4})
    refused("instance_norm", use, [2, 3, 4], {})
    refused("instance_norm", train, [2, 3, 4], {"bias": 5})
    refused("group_norm", {"groups": 4, "with": []}, [2, 6, 3], {})
    refused("group_norm", {"groups": 2, "with": []}, [2, 6, 3], {"weight": 2})
    refused("group_norm", {"groups": 6, "with": []}, [1, 6], {})


def main():
    torch.set_num_threads(1)
    for section in (batch, group, instance, refusals):
        section()
    with open(sys.argv[1], "w") as out:
        out.write("\n".join(lines) + "\n")
    print(f"{len(lines)} cases, {sum(map(len, lines)) / 1000:.0f} kB, torch {torch.__version__}")


if __name__ == "__main__":
    main()
