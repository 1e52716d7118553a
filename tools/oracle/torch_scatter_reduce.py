#!/usr/bin/env python3
"""Write the results of PyTorch's scatter_reduce as JSON lines.

    python tools/oracle/torch_scatter_reduce.py crates/rustorch-tensor/tests/fixtures/scatter_reduce.jsonl

The format is that of tensor_ops.py. Inputs are the tensor, the index and the source; attrs: "dim", "reduce", "include_self".
"""

import json
import math
import sys
import warnings

import numpy as np
import torch
from tensor_ops import DTYPES, encode

warnings.filterwarnings("ignore")
rng = np.random.default_rng(20261123)
REDUCE = ["sum", "prod", "mean", "amax", "amin"]
# The tensor, the index, the source.
SHAPES = [([5], [9], [9]), ([4, 6], [3, 8], [3, 8]), ([4, 6], [7, 5], [8, 6]), ([2, 3, 4], [2, 5, 3], [2, 5, 4]), ([], [], []), ([3, 2], [0, 2], [0, 2])]


def numbers(shape, dtype):
    if dtype.is_floating_point:
        # Halves that are exact in every dtype, so that results do not depend on the order of sums.
        x = torch.from_numpy(rng.integers(-6, 7, shape).astype(np.float64)) / 2
    else:
        x = torch.from_numpy(rng.integers(0 if dtype == torch.uint8 else -5, 6, shape))
    return x.to(dtype)


def cases():
    for name in ["f32", "f64", "f16", "bf16", "i32", "i64", "u8"]:
        dtype = DTYPES[name]
        for reduce in REDUCE:
            for include_self in [True, False]:
                for own, index_shape, source_shape in SHAPES if name in ("f32", "i64") else SHAPES[1:3]:
                    for dim in range(max(len(own), 1)):
                        fits = all(i == dim or a <= b for i, (a, b) in enumerate(zip(index_shape, own)))
                        if not fits:
                            continue
                        x, source = numbers(own, dtype), numbers(source_shape, dtype)
                        len_ = own[dim] if own else 1
                        index = torch.from_numpy(np.asarray(rng.integers(0, len_, index_shape), dtype=np.int64))
                        yield x, index, source, dim, reduce, include_self
    for reduce in REDUCE:
        for include_self in [True, False]:
            x = torch.tensor([math.nan, 1.0, -0.0, math.inf, 2.0])
            source = torch.tensor([1.0, math.nan, 3.0, -math.inf, -1.0, 0.0])
            yield x, torch.tensor([0, 1, 1, 3, 3, 2]), source, 0, reduce, include_self


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        for x, index, source, dim, reduce, include_self in cases():
            y = torch.scatter_reduce(x, dim, index, source, reduce, include_self=include_self)
            attrs = {"dim": dim, "reduce": reduce, "include_self": include_self}
            row = {"op": "scatter_reduce", "attrs": attrs, "inputs": [encode(t) for t in (x, index, source)], "outputs": [encode(y)]}
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
