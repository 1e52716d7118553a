#!/usr/bin/env python3
"""Write functions of complex numbers at ordinary and at hard points, by PyTorch and mpmath, as JSON lines.

    python tools/oracle/torch_complex.py crates/rustorch-tensor/tests/fixtures/complex.jsonl

The format is that of tensor_ops.py; one line for each dtype: op "functions", the points as input, and the outputs of the functions that attrs
["functions"] names, in order. Points are ordinary ones and those near the unit circle, small and large ones and those at the branch points in all
combinations, on the branch cuts with zeros of both signs, and infinities and NaN.

Values of finite points are mpmath's, with 6000 bits and rounded once, a part that is 0 taken for ±10⁻⁷⁰⁰: the sign of a result too small for its dtype
is then that of its zero. PyTorch has to give the same, to 4 units in the last place of each part, and gives infinities, NaN and poles itself. But not
acos: PyTorch's vectors compute π/2 − asin(z), which leaves no digits near 1 and on real numbers +0 for what C (annex G) and PyTorch on GPUs have as −0.
There the C library (numpy) stands in for it.
"""

import json
import math
import sys

import mpmath
import numpy as np
import torch
from tensor_ops import DTYPES, encode

mpmath.mp.prec = 6000
FUNCTIONS = ["asin", "acos", "atan", "asinh", "acosh", "atanh", "log", "sqrt", "tan", "tanh"]
NAN, INF = math.nan, math.inf
ZERO = mpmath.mpf(10) ** -700
rng = np.random.default_rng(20251122)


def points(dtype):
    eps, tiny, huge = (2.0**-52, 1e-300, 1e300) if dtype == "c128" else (2.0**-23, 1e-30, 1e30)
    near = 1e-8 if dtype == "c128" else 1e-4
    sizes = [0.0, tiny, 1e-20, 1e-5, 0.5, 1 - near, 1 - eps / 2, 1.0, 1 + eps, 1 + near, 2.0, 1e10, huge]
    few = [0.0, tiny, 0.5, 1.0, 2.0, huge]
    out = [complex(a, b) for a in sizes for b in sizes]
    out += [complex(s * a, t * b) for a in few for b in few for s, t in [(-1, 1), (1, -1), (-1, -1)]]
    ends = [INF, -INF, NAN]
    others = [0.0, -0.0, 1.0, -1.0]
    out += [complex(a, b) for a in ends for b in ends + others] + [complex(b, a) for a in ends for b in others]
    out += list(rng.normal(size=40) + 1j * rng.normal(size=40))
    angles = rng.uniform(-math.pi, math.pi, 40)
    out += list(np.cos(angles) + 1j * np.sin(angles)) + [complex(0.6, 0.8), complex(-0.8, 0.6)]
    return torch.tensor(out, dtype=torch.complex128).to(DTYPES[dtype])


def exact(name, z):
    lifted = [mpmath.mpf(v) if v else ZERO * math.copysign(1, v) for v in (z.real, z.imag)]
    return getattr(mpmath, name)(mpmath.mpc(*lifted))


def rounded(x, dtype):
    """Also below the normal numbers: mpmath's own conversion to float would flush some to zero without a sign."""
    if abs(x) < mpmath.mpf(2) ** -1080:
        return math.copysign(0.0, -1 if x < 0 else 1)
    return float(np.float32(float(x)) if dtype == "c64" else float(x))


def pole(name, z):
    return {"log": z == 0, "atanh": z in (1, -1), "atan": z in (1j, -1j)}.get(name, False)


def ulps(a, b):
    if math.isnan(a) or math.isnan(b):
        return 0 if math.isnan(a) and math.isnan(b) else INF
    if a == b == 0:
        return 0 if math.copysign(1, a) == math.copysign(1, b) else INF
    line = [(-1 if math.copysign(1, x) < 0 else 1) * int(np.float64(abs(x)).view(np.int64)) for x in (a, b)]
    return abs(line[0] - line[1])


def values(name, z, dtype):
    wide = z.to(torch.complex128)
    theirs = torch.from_numpy(np.arccos(wide.numpy())) if name == "acos" else getattr(torch, name)(wide)
    out = []
    for point, value in zip(wide.tolist(), theirs.tolist()):
        if math.isfinite(point.real) and math.isfinite(point.imag) and not pole(name, point):
            w = exact(name, point)
            want = complex(rounded(w.real, "c128"), rounded(w.imag, "c128"))
            off = max(ulps(value.real, want.real), ulps(value.imag, want.imag))
            assert off <= 4, (name, point, value, want)
            value = complex(rounded(w.real, dtype), rounded(w.imag, dtype))
        out.append(value)
    return torch.tensor(out, dtype=torch.complex128).to(DTYPES[dtype])


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        for dtype in ["c128", "c64"]:
            z = points(dtype)
            outs = [encode(values(name, z, dtype)) for name in FUNCTIONS]
            row = {"op": "functions", "attrs": {"functions": FUNCTIONS}, "inputs": [encode(z)], "outputs": outs}
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
