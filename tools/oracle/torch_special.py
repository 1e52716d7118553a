#!/usr/bin/env python3
"""Write erfc, the logarithm of the gamma function and its derivatives, and logaddexp, at ordinary and at hard points, by mpmath and PyTorch, as JSON lines.

    python tools/oracle/torch_special.py crates/rustorch-tensor/tests/fixtures/special.jsonl

The format is that of tensor_ops.py, a line for each function and dtype. Finite values are mpmath's with 300 bits, rounded once; PyTorch has to give
about the same. At poles and ends they are PyTorch's, but for trigamma at negative integers, where rounding of π gives PyTorch large numbers. A hard point of logaddexp is one where the result
is nearly zero, of which PyTorch has no digits.
"""

import json
import math
import sys

import mpmath
import numpy as np
import torch
from tensor_ops import DTYPES, encode

mpmath.mp.prec = 300
rng = np.random.default_rng(20261126)
# Of log|Γ| and of ψ, whose values lose their digits there unless they are computed with more.
ROOTS = {
    "lgamma": [1, 2, -2.4570247382208006, -2.7476826467274127, -3.1435808883499800, -3.9552942848585979, -4.0393618397405372],
    "digamma": [1.4616321449683623, -0.5040830082644554, -1.5734984731623905, -2.6107208684441447, -3.6352933664369010],
}
FUNCTIONS = {
    "erfc": (mpmath.erfc, torch.erfc),
    "lgamma": (lambda x: mpmath.log(abs(mpmath.gamma(x))), torch.lgamma),
    "digamma": (mpmath.digamma, torch.digamma),
    "trigamma": (lambda x: mpmath.psi(1, x), lambda x: torch.polygamma(1, x)),
}


def points(name, dtype):
    count = 1000 if dtype == "f64" else 300
    x = [rng.uniform(-30, 30, count), rng.uniform(-4, 4, count), 10 ** rng.uniform(-20, 4, count) * rng.choice([-1, 1], count)]
    if name == "erfc":
        x = [rng.uniform(-6, 27, count), rng.normal(size=count)]
    for root in ROOTS.get(name, []):
        x.append(root * (1 + rng.choice([-1, 1], 60) * 10 ** rng.uniform(-14, -1, 60)))
    ends = [0.0, -0.0, 0.5, 1.0, 2.0, -1.0, -2.0, -17.0, 1e15, 1e-300, 3e38, math.inf, -math.inf, math.nan]
    return torch.tensor(np.concatenate([*x, ends])).to(DTYPES[dtype])


def value(name, point, theirs):
    exact = FUNCTIONS[name][0]
    if name == "trigamma" and math.isfinite(point) and point <= 0 and point == math.floor(point):
        return math.inf
    if not math.isfinite(point) or not math.isfinite(theirs) and point == math.floor(point) and point <= 0:
        return theirs
    value = exact(mpmath.mpf(point))
    near = abs(float(value) - theirs) <= 1e-8 * (abs(float(value)) + 1e-3) or not math.isfinite(float(value)) or abs(point) < 1e-15
    assert near, (name, point, float(value), theirs)
    return value


def rounded(value, dtype):
    """To the nearest number of the dtype, once."""
    double = float(value)
    if dtype == "f64" or not math.isfinite(double) or not isinstance(value, mpmath.mpf):
        return double
    single = np.float32(double)
    others = [single, np.nextafter(single, np.float32(-math.inf)), np.nextafter(single, np.float32(math.inf))]
    return float(min((x for x in others if math.isfinite(x)), key=lambda x: abs(mpmath.mpf(float(x)) - value), default=single))


def pairs(dtype):
    """Numbers of every size; logarithms of p and nearly 1 - p, down to neighbours, in which all digits of a double may cancel; ends."""
    count = 400 if dtype == "f64" else 150
    p = np.concatenate([rng.uniform(0, 1, count), 10 ** rng.uniform(-30, 0, count), 10 ** rng.uniform(-290, -20, count // 2)])
    p = p[p < 1] if dtype == "f64" else p[(p < 1) & (p > 1e-30)]
    a, b = np.log(p), np.log1p(-p)
    nudged = b * (1 + rng.choice([-1, 1], len(b)) * 10 ** rng.uniform(-16, 0, len(b)))
    rows = [[a, b], [a, nudged], [nudged, a]]
    rows += [[rng.uniform(-30, 30, count), rng.uniform(-30, 30, count)], [rng.normal(size=count), rng.normal(size=count)]]
    rows += [[rng.normal(size=count) * 10 ** rng.uniform(-18, 2, count), -(10 ** rng.uniform(-2, 2, count))]]
    ends = [0.0, -0.0, 1.0, -1.0, 1000.0, -1000.0, 1e-300, 3e38, -3e38, math.inf, -math.inf, math.nan]
    rows += [np.array([(x, y) for x in ends for y in ends]).T]
    return [torch.tensor(np.concatenate(side)).to(DTYPES[dtype]) for side in zip(*rows)]


def log_add_exp(a, b, theirs):
    if not math.isfinite(a) or not math.isfinite(b) or abs(a - b) > 1e6:
        return theirs
    # Powers of numbers that are nearly 0, too, cancel.
    with mpmath.workprec(3000):
        exact = mpmath.log(mpmath.exp(mpmath.mpf(a)) + mpmath.exp(mpmath.mpf(b)))
    assert abs(float(exact) - theirs) <= 1e-15 * max(1, abs(theirs)), (a, b, float(exact), theirs)
    return exact


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        for name, (_, theirs) in FUNCTIONS.items():
            for dtype in ("f64", "f32"):
                x = points(name, dtype)
                all = [rounded(value(name, p, t), dtype) for p, t in zip(x.double().tolist(), theirs(x.double()).tolist())]
                row = {"op": name, "attrs": {}, "inputs": [encode(x)], "outputs": [encode(torch.tensor(all, dtype=torch.float64).to(x.dtype))]}
                file.write(json.dumps(row, separators=(",", ":")) + "\n")
        for dtype in ("f64", "f32"):
            a, b = pairs(dtype)
            points = zip(a.double().tolist(), b.double().tolist(), torch.logaddexp(a.double(), b.double()).tolist())
            all = torch.tensor([rounded(log_add_exp(*point), dtype) for point in points], dtype=torch.float64).to(a.dtype)
            row = {"op": "logaddexp", "attrs": {}, "inputs": [encode(a), encode(b)], "outputs": [encode(all)]}
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
