#!/usr/bin/env python3
"""Write derivatives of the digamma function by mpmath, compared with PyTorch's, as JSON lines.

    python tools/oracle/torch_polygamma.py crates/rustorch-tensor/tests/fixtures/polygamma.jsonl

The format is that of tensor_ops.py, a line for each order and dtype. Finite values are mpmath's with 300 bits, rounded once; PyTorch has to give about
the same. Left out are numbers beside a root, where terms cancel by more than half, and those whose value is out of the range of `f32`. At poles values
are PyTorch's, and at infinity, where PyTorch gives NaN, they are the limit.
"""

import json
import math
import sys

import mpmath
import numpy as np
import torch
from tensor_ops import DTYPES, encode
from torch_special import rounded

mpmath.mp.prec = 300
rng = np.random.default_rng(20261126)


def value(n, point, theirs):
    if point == math.inf:
        return math.copysign(0.0, 1 if n % 2 else -1)
    if math.isnan(point) or point <= 0 and point == math.floor(point):
        return theirs
    exact = mpmath.psi(n, mpmath.mpf(point))
    if point < 0 and 2 * abs(exact) < abs(mpmath.psi(n, 1 - mpmath.mpf(point))) or not 1e-30 < abs(exact) < 1e30:
        return None
    assert abs(float(exact) - theirs) <= 1e-9 * abs(theirs), (n, point, float(exact), theirs)
    return exact


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        for n in (2, 3, 4, 7, 12, 20):
            for dtype in ("f64", "f32"):
                x = [rng.uniform(-10, 10, 60), 10 ** rng.uniform(-3, 3, 60), [0.0, -1.0, -4.0, 0.5, 1.0, 25.0, math.inf, math.nan]]
                x = torch.tensor(np.concatenate(x)).to(DTYPES[dtype])
                theirs = torch.polygamma(n, x.double()).tolist()
                values = [value(n, p, t) for p, t in zip(x.double().tolist(), theirs)]
                x = x[[v is not None for v in values]]
                y = torch.tensor([rounded(v, dtype) for v in values if v is not None], dtype=torch.float64).to(x.dtype)
                row = {"op": "polygamma", "attrs": {"n": n}, "inputs": [encode(x)], "outputs": [encode(y)]}
                file.write(json.dumps(row, separators=(",", ":")) + "\n")
