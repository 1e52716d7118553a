#!/usr/bin/env python3
"""Write implicit derivatives of logarithms of gamma draws with respect to the concentration, by mpmath, as JSON lines.

    python tools/oracle/log_gamma_grad.py crates/rustorch-tensor/tests/fixtures/log_gamma_grad.jsonl

The format is that of tensor_ops.py: concentrations a and logarithms of draws x give -(dP/da) / (x p), where P is the distribution function and p its
derivative, differentiated numerically with 60 digits; distribution functions are power series.
"""

import json
import sys

import mpmath
import torch
from tensor_ops import encode

mpmath.mp.dps = 60


def distribution(a, x):
    """P(a, x), by its power series."""
    total = term = mpmath.mpf(1)
    n = 0
    while n < x - a or term > mpmath.mpf(10) ** -65 * total:
        n += 1
        term *= x / (a + n)
        total += term
    return mpmath.exp(a * mpmath.log(x) - x - mpmath.loggamma(a + 1)) * total


def derivative(a, log_x):
    a, log_x = mpmath.mpf(a), mpmath.mpf(log_x)
    x, step = mpmath.exp(log_x), a * mpmath.mpf(10) ** -20
    slope = (distribution(a + step, x) - distribution(a - step, x)) / (2 * step)
    return float(-slope / mpmath.exp(a * log_x - x - mpmath.loggamma(a)))


def main():
    points = []
    for a in (1e-3, 0.02, 0.1, 0.5, 0.999, 1.0, 1.5, 2.5, 7.0, 30.0, 100.0, 1e3, 9e3, 1.1e4, 1e5, 1e7):
        # Quantiles, by Wilson and Hilferty from 1 on, else by the power law at 0.
        for z in (-6, -3.5, -2, -1, -0.3, 0.01, 0.5, 1, 1.7, 3, 6):
            root = 1 - 1 / (9 * a) + z / (3 * a**0.5)
            if a >= 1 and root > 0.02:
                points.append((a, float(mpmath.log(a) + 3 * mpmath.log(root))))
            elif a < 1:
                p = mpmath.ncdf(z)
                points.append((a, float(mpmath.log(p) / a if p < 0.9 else mpmath.log(-mpmath.log(1 - p)))))
    points += [(0.01, -1e4), (1e-3, 3.0), (2.0, -40.0), (50.0, 2.0), (3.0, 4.0)]
    a, log_x = (torch.tensor(c, dtype=torch.float64) for c in zip(*points))
    want = torch.tensor([derivative(*p) for p in points], dtype=torch.float64)
    # PyTorch's approximation of the same has errors of about 10^-3, more in the tails of small concentrations.
    x = log_x.exp()
    near = (x > 1e-30) & (x < 1e30)
    theirs = torch._standard_gamma_grad(a, x) / x
    assert torch.allclose(theirs[near], want[near], rtol=0.1), (a[near], log_x[near], theirs[near], want[near])
    row = {"op": "log_gamma_grad", "attrs": {}, "inputs": [encode(a), encode(log_x)], "outputs": [encode(want)]}
    with open(sys.argv[1], "w") as file:
        file.write(json.dumps(row, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
