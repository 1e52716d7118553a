#!/usr/bin/env python3
"""Write how PyTorch prints tensors, as JSON lines {"input": TENSOR, "repr": text}; TENSOR as in tensor_ops.py.

    python tools/oracle/tensor_display.py crates/rustorch-tensor/tests/fixtures/display.jsonl

A line may have "options", some of those of torch.set_printoptions, by which it is printed. Large inputs are not stored: {"input": {"dtype", "shape", "arange": [start, step]}} is start + step * index over row-major indices, computed in f64.
"""

import json
import sys

import torch

from tensor_ops import DTYPES, INF, NAN, encode

lines = []


def show(values, dtype="f32", shape=None):
    t = torch.tensor(values, dtype=DTYPES[dtype])
    t = t if shape is None else t.reshape(shape)
    lines.append(json.dumps({"input": encode(t), "repr": repr(t)}, separators=(",", ":")))


def show_arange(shape, dtype, start, step, **options):
    n = torch.Size(shape).numel()
    t = (torch.arange(n, dtype=torch.float64) * step + start).to(DTYPES[dtype]).reshape(shape)
    torch.set_printoptions(profile="default")
    torch.set_printoptions(**options)
    row = {"input": {"dtype": dtype, "shape": shape, "arange": [start, step]}, "repr": repr(t)} | ({"options": options} if options else {})
    lines.append(json.dumps(row, separators=(",", ":")))


def main():
    # Scalars and empty tensors of every dtype.
    for d in DTYPES:
        show(1, d)
        show([], d)
        show([0, 1, 1], d)
    for shape in ([0, 3], [2, 0], [2, 0, 3]):
        for d in ("f32", "i64"):
            show([], d, shape)
    for v in (0.0, -0.0, 2.5, -1.0, 3.14159265, 1e-5, 1e8, 1e9, 123456.0, 99999.5, INF, -INF, NAN, 1e-45, 3.4e38):
        show(v)
    # Floats: integral values, fixed point, scientific when max/min or the size asks for it.
    for values in (
        [1.0, 2.0, 3.0], [1.0, 2.5], [1.0, 1000.0], [1.0, 10000.0, 100000.0], [99999999.0, 1.0], [1e8, 1.0], [1e9, 1e10],
        [0.1, 0.22, 0.333], [0.001, 1.0], [0.0001, 1.0], [0.00009, 1.0], [1e-4, 1e-3], [1e-5, 1e-6], [0.0, 1e-5], [1000.5, 1.5], [1001.5, 1.25], [12345.678, 1.5],
        [123456.789, 0.5], [1e8 + 0.5, 0.5], [1e10, 0.5], [-1.5, 2.0], [-1.0, 2.0], [-100.0, 3.0], [0.0, 0.0], [-0.0, 0.0], [NAN, 1.0], [NAN, 1.5], [INF, -1.0],
        [INF, -2.25], [NAN, NAN], [-INF, INF, NAN], [NAN, 1e10, 0.5], [1e-30, 1e30], [3.4e38, -1e-38], [0.99999, 1.0], [0.999999, 2.00001], [1.00001, 1.0]):
        show(values)
    show([[1.0, 2.0], [3.0, 4.0]])
    show([[1.5, -2.0], [NAN, 1e5]])
    show([float(i) for i in range(24)], shape=[2, 3, 4])
    show([i / 7 for i in range(16)], shape=[2, 1, 2, 4])
    show([0.5], shape=[1, 1, 1])
    # Long rows wrap at 80 columns.
    show([i / 3 for i in range(30)])
    show(list(range(60)), "i64")
    show([i % 3 == 0 for i in range(40)], "bool")
    show([i * 1e6 for i in range(40)], shape=[2, 20])
    # Other dtypes.
    for d in ("f64", "f16", "bf16"):
        show([1.0, 2.5, -0.125], d)
        show([[1.0, 2.0], [1000.0, NAN]], d)
        show([0.1, 1000.0], d)
    show([1e-300, 1.0], "f64")
    for d in ("i8", "i16", "i32", "i64"):
        show([-5, 0, 100], d)
        show([[1, 20], [-3, 4]], d)
    show([2**62, -1], "i64")
    show([255, 7], "u8")
    show([[True, False], [False, False]], "bool")
    for d in ("c64", "c128"):
        show(1.5 - 2j, d)
        show([1 + 2j, -0.5 + 0.25j], d)
        show([1 + 0j, 2 - 1j], d)
        show([[1 + 2j, 3 - 4j], [100 + 0j, -0.001j]], d)
        show([complex(NAN, 1), complex(INF, -INF), 1e-8j], d)
    # More than 1000 elements are summarised: three at each end of every dimension.
    show_arange([1001], "f32", 0, 1)
    show_arange([1000], "i64", 0, 1)
    show_arange([2000], "i64", -1000, 1)
    show_arange([1500], "f32", 0, 0.01)
    show_arange([40, 40], "f32", 0, 1)
    show_arange([40, 40], "f64", -3, 0.125)
    show_arange([2, 1000], "i32", 0, 1)
    show_arange([600, 2], "f32", 0.5, 1)
    show_arange([3, 20, 20], "f16", 0, 0.5)
    show_arange([8, 2, 10, 10], "u8", 0, 0.1)
    show_arange([7, 200], "f32", 1e6, 1e6)
    show_arange([1, 1, 1200], "bf16", 0, 1)
    # By options.
    for precision in (0, 1, 2, 8):
        for sci_mode in (None, True, False):
            for start, step in ((0, 1), (0.5, 0.25), (-3, 1e5), (0, 0), (1e-6, 0.1), (-1.5, 1e9)):
                show_arange([3], "f32", start, step, precision=precision, sci_mode=sci_mode)
            show_arange([2, 2], "c64", 0, 1.5, precision=precision, sci_mode=sci_mode)
    for linewidth in (1, 10, 40, 200):
        show_arange([2, 20], "f32", 0, 0.5, linewidth=linewidth)
        show_arange([0, 3], "f32", 0, 1, linewidth=linewidth)
    for threshold, edgeitems in ((0, 1), (10, 2), (39, 3), (40, 3), (10, 20), (10**9, 1)):
        show_arange([5, 8], "i64", 0, 1, threshold=threshold, edgeitems=edgeitems)
        show_arange([40], "f32", 0, 0.5, threshold=threshold, edgeitems=edgeitems, linewidth=30)
    torch.set_printoptions(profile="default", sci_mode=None)
    with open(sys.argv[1], "w") as out:
        out.write("\n".join(lines) + "\n")
    print(f"{len(lines)} cases, {sum(map(len, lines)) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
