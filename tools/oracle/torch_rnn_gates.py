#!/usr/bin/env python3
"""Write the states and gradients of the gates of LSTM and GRU, by PyTorch's cells in f64, as JSON lines.

    python tools/oracle/torch_rnn_gates.py crates/rustorch-tensor/tests/fixtures/rnn_gates.jsonl

The format is that of tensor_ops.py. torch.lstm_cell gets the gates as its input, with a weight of one, and no weight for the hidden state; torch.gru_cell gets those of
the hidden state as its bias, row by row. Outputs are in f64, also of inputs in f32, f16 and bf16. Lines with f64 inputs have "cotangents" of the outputs and the "grads" of
all inputs; where a cotangent of the cell state is null, the gradients are those by the hidden state alone.
"""

import json
import sys

import numpy as np
import torch
from tensor_ops import encode

rng = np.random.default_rng(20261125)
lines: list[str] = []


def normal(*shape, scale=1.0):
    return torch.tensor(rng.standard_normal(shape)) * scale


def lstm(gates, cell):
    zero = torch.zeros_like(cell)
    wide = gates.shape[1]
    one = torch.eye(wide, dtype=gates.dtype)
    none = torch.zeros(wide, cell.shape[1], dtype=gates.dtype)
    return list(torch.lstm_cell(gates, (zero, cell), one, none, None, None))


def gru(x, gates, hidden):
    wide = x.shape[1]
    one = torch.eye(wide, dtype=x.dtype)
    none = torch.zeros(wide, hidden.shape[1], dtype=x.dtype)
    zero = torch.zeros(wide, dtype=x.dtype)
    rows = [torch.gru_cell(x[i : i + 1], hidden[i : i + 1], one, none, zero, gates[i]) for i in range(x.shape[0])]
    return [torch.cat(rows)]


OPS = {"lstm_gates": lstm, "gru_gates": gru}


def case(op, inputs, dtype, views=(), without_cell=False):
    given = [x.to(dtype) for x in inputs]
    wide = [x.double().requires_grad_() for x in given]
    views = list(views) + [None] * (len(inputs) - len(views))
    seen = [x if view is None else x.transpose(0, 1) for x, view in zip(wide, views)]
    outs = OPS[op](*seen)
    row = {"op": op, "attrs": {}, "inputs": [encode(x, view) for x, view in zip(given, views)], "outputs": [encode(x) for x in outs]}
    if dtype is torch.float64:
        cotangents = [normal(*x.shape) for x in outs]
        used = len(outs) - (1 if without_cell else 0)
        grads = torch.autograd.grad(outs[:used], seen, cotangents[:used])
        row |= {"cotangents": [encode(x) if i < used else None for i, x in enumerate(cotangents)], "grads": [encode(x) for x in grads]}
    lines.append(json.dumps(row, separators=(",", ":")))


def cases():
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        # The widest rows have more than a block in which the CPU computes, but do not fill a second.
        for n, h in ((1, 1), (3, 5)) if dtype.itemsize == 2 else ((1, 1), (3, 5), (1, 150)):
            for scale in (1.0,) if h == 150 else (1.0, 8.0):
                case("lstm_gates", [normal(n, 4 * h, scale=scale), normal(n, h)], dtype)
                case("gru_gates", [normal(n, 3 * h, scale=scale), normal(n, 3 * h, scale=scale), normal(n, h)], dtype)
    swapped = [["transpose", 0, 1]]
    case("lstm_gates", [normal(8, 4), normal(4, 2)], torch.float64, [swapped])
    case("gru_gates", [normal(9, 4), normal(4, 9), normal(3, 4)], torch.float64, [swapped, None, swapped])
    case("lstm_gates", [normal(4, 8), normal(4, 2)], torch.float64, without_cell=True)


if __name__ == "__main__":
    cases()
    with open(sys.argv[1], "w") as file:
        file.write("\n".join(lines) + "\n")
