#!/usr/bin/env python3
"""Write the inverse error function at ordinary and at hard points, by mpmath and PyTorch, as JSON lines.

    python tools/oracle/torch_erfinv.py crates/rustorch-tensor/tests/fixtures/erfinv.jsonl

The format is that of tensor_ops.py, a line for each dtype. Values between −1 and 1 are mpmath's with 300 bits, rounded once; PyTorch has to give the
same to 1e-12 of them, and gives those at ±1 and beyond.
"""

import json
import math
import sys

import mpmath
import numpy as np
import torch
from tensor_ops import DTYPES, encode

mpmath.mp.prec = 300
rng = np.random.default_rng(20261122)


def points(dtype):
    bits = 53 if dtype == "f64" else 24
    near = [1 - 2.0**-k for k in range(1, bits + 1)]
    small = [2.0**-k for k in range(1, 120, 7)] + [0.0]
    some = rng.uniform(-1, 1, 100).tolist() + (1 - 2.0 ** rng.uniform(-bits, -1, 50)).tolist()
    ends = [1.0, -1.0, 1.5, -1.5, math.inf, -math.inf, math.nan]
    all = near + [-x for x in near] + small + [-x for x in small] + some + ends
    return torch.tensor(all, dtype=torch.float64).to(DTYPES[dtype])


def values(x):
    out = []
    for point, theirs in zip(x.double().tolist(), torch.erfinv(x.double()).tolist()):
        value = theirs
        if abs(point) < 1:
            value = float(mpmath.erfinv(mpmath.mpf(point)))
            assert abs(value - theirs) <= 1e-12 * abs(value), (point, value, theirs)
            value = math.copysign(value, point)
        out.append(value)
    return torch.tensor(out, dtype=torch.float64).to(x.dtype)


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        for dtype in ["f64", "f32"]:
            x = points(dtype)
            row = {"op": "erfinv", "attrs": {}, "inputs": [encode(x)], "outputs": [encode(values(x))]}
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
