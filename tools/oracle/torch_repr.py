#!/usr/bin/env python3
"""Write how PyTorch's modules print, as JSON lines.

    python tools/oracle/torch_repr.py crates/rustorch-nn/tests/fixtures/display.jsonl

One line is one module, `{"module": NAME, "args": [...], "options": {...}, "repr": TEXT}`: those of torch_modules.py, activations and losses with
their defaults and with other arguments, and MODELS.
"""

import json
import sys

import torch
import torch_modules
from torch import nn

rows: dict[str, str] = {}


def frozen(value):
    """What JSON has as a list is a tuple in models."""
    return tuple(value) if isinstance(value, list) else value


def case(name, args, options, *_, **__):
    if name in torch_modules.BUILDERS and not hasattr(nn, name):
        return
    given = [frozen(value) for value in args]
    named = {key: frozen(value) for key, value in options.items()}
    module = (torch_modules.BUILDERS.get(name) or getattr(nn, name))(*given, **named)
    row = {"module": name, "args": args, "options": options, "repr": repr(module)}
    rows[json.dumps([name, args, options])] = json.dumps(row)


ACTIVATIONS = {
    "ReLU": [[]], "ReLU6": [[]], "SELU": [[]], "SiLU": [[]], "Mish": [[]], "Hardswish": [[]], "Hardsigmoid": [[]], "Sigmoid": [[]], "Tanh": [[]],
    "Tanhshrink": [[]], "Softsign": [[]], "LogSigmoid": [[]], "Softmax2d": [[]], "LeakyReLU": [[], [1e-5]], "ELU": [[], [0.25]],
    "CELU": [[], [1e20]], "GELU": [[], ["tanh"]], "Hardtanh": [[], [-2.5, 1e16]], "Hardshrink": [[], [0.1]], "Softshrink": [[], [1.0]],
    "Softplus": [[], [2.0, 10.0]], "Threshold": [[0.1, 20.0]], "RReLU": [[], [0.1, 0.2]], "PReLU": [[], [3]], "Softmax": [[1]], "Softmin": [[-1]],
    "LogSoftmax": [[0]], "GLU": [[], [1]],
}  # fmt: skip

LOSSES = """L1Loss MSELoss SmoothL1Loss HuberLoss CrossEntropyLoss NLLLoss BCELoss BCEWithLogitsLoss KLDivLoss PoissonNLLLoss GaussianNLLLoss CTCLoss
MarginRankingLoss HingeEmbeddingLoss CosineEmbeddingLoss TripletMarginLoss MultiMarginLoss MultiLabelMarginLoss SoftMarginLoss
MultiLabelSoftMarginLoss""".split()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.body = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.blocks = nn.ModuleList([Block(4), Block(4), Block(4), Block(4)])
        self.mixed = nn.ModuleList([nn.ReLU(), nn.Linear(4, 2), nn.Linear(4, 2), nn.ReLU()])
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Identity()})


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Identity()

    def extra_repr(self):
        return "factor=0.5, 3"


def models():
    floats = nn.ParameterList([torch.zeros(2, 3), torch.zeros((), dtype=torch.float64)])
    empty = [nn.Sequential(), nn.ModuleList(), nn.ModuleDict(), nn.ParameterList()]
    return [Net(), Scaled(), floats, nn.ParameterList([torch.zeros(1, dtype=torch.float16)]), *empty]


if __name__ == "__main__":
    torch_modules.case = case
    for family in torch_modules.FAMILIES:
        family()
    for name, calls in ACTIVATIONS.items():
        for args in calls:
            case(name, args, {})
    for name in LOSSES:
        case(name, [], {})
    lines = list(rows.values())
    lines += [json.dumps({"module": type(m).__name__, "args": [], "options": {}, "model": True, "repr": repr(m)}) for m in models()]
    with open(sys.argv[1], "w") as f:
        f.write("\n".join(lines) + "\n")
    print(f"{len(lines)} modules")
