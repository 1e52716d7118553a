#!/usr/bin/env python3
"""Write the expected results of pooling and its backward, computed by PyTorch, as JSON lines.

    python tools/oracle/torch_pool.py crates/rustorch-tensor/tests/fixtures/pool.jsonl

The format is that of tensor_ops.py. Operations are named without their number of dimensions, which is attrs["n"]. Cases of floats have two inputs, x
and the gradient of the output, and the gradient of x as last output; cases of integers have neither. Maximum pooling has the indices as second output.
Values are computed in f64 and rounded once. A case "refused" names an operation and arguments that PyTorch refuses, too.
"""

import json
import sys

import numpy as np
import torch
import torch.nn.functional as F
from tensor_ops import DTYPES, apply_view, encode, widen

rng = np.random.default_rng(20250301)
lines: list[str] = []
NAN, INF = float("nan"), float("inf")


def normal(shape, dtype="f32"):
    # Few digits, so that fixtures in f64 are exact in narrower types and ties occur.
    return torch.tensor(np.round(rng.standard_normal(shape) * 4) / 4).to(DTYPES[dtype])


def integers(shape, dtype):
    return torch.tensor(rng.integers(0 if dtype == "u8" else -100, 100, shape)).to(DTYPES[dtype])


def function(op, attrs):
    """The pooling as a function of x."""
    n = attrs["n"]
    if op.startswith("adaptive"):
        size = tuple(attrs["size"])
        if op == "adaptive_max_pool":
            return lambda x: getattr(F, f"adaptive_max_pool{n}d")(x, size, return_indices=True)
        return lambda x: getattr(F, f"adaptive_avg_pool{n}d")(x, size)
    kernel, stride = tuple(attrs["kernel"]), attrs.get("stride")
    args = dict(stride=None if stride is None else tuple(stride), padding=tuple(attrs.get("padding", [0] * n)), ceil_mode=attrs.get("ceil_mode", False))
    if op == "max_pool":
        args["dilation"] = tuple(attrs.get("dilation", [1] * n))
        return lambda x: getattr(F, f"max_pool{n}d")(x, kernel, return_indices=True, **args)
    args["count_include_pad"] = attrs.get("count_include_pad", True)
    if attrs.get("divisor") is not None:
        args["divisor_override"] = attrs["divisor"]
    return lambda x: getattr(F, f"avg_pool{n}d")(x, kernel, **args)


def case(op, attrs, x, view=None, grad_view=None):
    f = function(op, attrs)
    seen = apply_view(x, view)
    floating = x.is_floating_point()
    wide = widen(seen).clone().requires_grad_(floating)
    outs = f(wide)
    outs = list(outs) if isinstance(outs, tuple) else [outs]
    inputs, views = [x], [view]
    if floating:
        shape = list(outs[0].shape)
        if grad_view:
            shape[-1], shape[-2] = shape[-2], shape[-1]
        grad = normal(shape, next(k for k, v in DTYPES.items() if v == x.dtype))
        outs[0].backward(widen(apply_view(grad, grad_view)))
        outs.append(wide.grad)
        inputs, views = [x, grad], [view, grad_view]
    outs = [o.detach().to(x.dtype) if o.is_floating_point() else o for o in outs]
    try:
        # PyTorch in the dtype itself has to agree about dtypes, shapes and indices.
        plain = f(seen)
        plain = list(plain) if isinstance(plain, tuple) else [plain]
        for p, o in zip(plain, outs):
            assert (p.dtype, p.shape) == (o.dtype, o.shape), (op, attrs)
            if not p.is_floating_point():
                assert torch.equal(p, o), (op, attrs)
    except (RuntimeError, NotImplementedError) as error:
        assert "not implemented" in str(error), error
        print(f"note: {op} {attrs}: {error}")
    row = {
        "op": op,
        "attrs": attrs,
        "inputs": [encode(t, v) for t, v in zip(inputs, views)],
        "outputs": [encode(t) for t in outs],
    }
    lines.append(json.dumps(row, separators=(",", ":")))


def refused(op, attrs, shape):
    try:
        function(op, attrs)(torch.zeros(shape))
    except (RuntimeError, ValueError, IndexError):
        lines.append(json.dumps({"op": "refused", "attrs": attrs | {"pooling": op, "shape": shape}, "inputs": [], "outputs": []}))
        return
    raise AssertionError(f"PyTorch takes {op} {attrs} of {shape}")


LENGTHS = {1: [11], 2: [7, 6], 3: [4, 3, 5]}


def random_windows(op, n, count):
    """Arguments that PyTorch accepts, of every kind."""
    done = 0
    while done < count:
        pick = lambda low, high: [int(v) for v in rng.integers(low, high, n)]
        attrs = {"n": n, "kernel": pick(1, 5), "padding": pick(0, 3), "ceil_mode": bool(done % 2)}
        if done % 4 != 3:
            attrs["stride"] = pick(1, 5)
        if op == "max_pool" and done % 3 == 1:
            attrs["dilation"] = pick(1, 4)
        if op == "avg_pool":
            attrs["count_include_pad"] = bool(done // 2 % 2)
            if n > 1 and done % 5 == 4:
                attrs["divisor"] = 3
        x = normal([1, 1] + LENGTHS[n])
        try:
            outs = function(op, attrs)(x)
        except RuntimeError:
            continue
        values = outs[0] if isinstance(outs, tuple) else outs
        # What PyTorch gives for a window of nothing is no standard to keep.
        if values.numel() > 48 or torch.isinf(values).any():
            continue
        case(op, attrs, x)
        done += 1


def windows():
    for op in ("max_pool", "avg_pool"):
        for n in (1, 2, 3):
            random_windows(op, n, {1: 12, 2: 14, 3: 8}[n])
    # The last window must start inside the input or the padding before it.
    for op in ("max_pool", "avg_pool"):
        for length, kernel, stride, padding in ((4, 2, 5, 1), (5, 2, 5, 1), (6, 3, 2, 1), (7, 2, 2, 0), (3, 2, 3, 1), (5, 1, 3, 0), (9, 4, 5, 2)):
            for ceil_mode in (False, True):
                attrs = {"n": 1, "kernel": [kernel], "stride": [stride], "padding": [padding], "ceil_mode": ceil_mode}
                case(op, attrs, normal([1, length]))


def dtypes_and_layouts():
    plain = {"n": 2, "kernel": [3, 2], "stride": [2, 1], "padding": [1, 1]}
    for op in ("max_pool", "avg_pool"):
        for dtype in ("f64", "f16", "bf16"):
            case(op, plain, normal([2, 2, 6, 5], dtype))
        case(op, plain, normal([2, 6, 5]))
        case(op, plain, normal([0, 2, 6, 5]))
        case(op, plain | {"n": 1, "kernel": [3], "stride": [2], "padding": [1]}, normal([2, 9], "f64"))
        case(op, {"n": 3, "kernel": [2, 2, 2]}, normal([1, 4, 4, 4], "bf16"))
        # Channels last; every second row; rows as columns; one plane for all; and a gradient whose rows are columns.
        case(op, plain, normal([2, 6, 5, 2]), [["permute", [0, 3, 1, 2]]])
        case(op, plain, normal([2, 2, 13, 5], "f16"), [["slice", 2, 1, 13, 2]])
        case(op, plain, normal([2, 2, 5, 6], "f64"), [["transpose", 2, 3]], [["transpose", 2, 3]])
        case(op, plain, normal([2, 1, 6, 5]), [["expand", [2, 3, 6, 5]]])
    for dtype in ("u8", "i8", "i16", "i32", "i64"):
        case("max_pool", plain, integers([1, 2, 6, 5], dtype))
    for op in ("adaptive_max_pool", "adaptive_avg_pool"):
        for dtype in ("f64", "f16", "bf16"):
            case(op, {"n": 2, "size": [3, 2]}, normal([2, 2, 7, 5], dtype))
        case(op, {"n": 2, "size": [3, 4]}, normal([2, 7, 5]))
        case(op, {"n": 2, "size": [2, 3]}, normal([0, 2, 7, 5]))
        case(op, {"n": 2, "size": [3, 2]}, normal([2, 7, 5, 2]), [["permute", [0, 3, 1, 2]]])
        case(op, {"n": 2, "size": [3, 2]}, normal([2, 2, 5, 7], "f64"), [["transpose", 2, 3]], [["transpose", 2, 3]])


def adaptive():
    for op in ("adaptive_max_pool", "adaptive_avg_pool"):
        for n, sizes in ((1, ([1], [3], [4], [11], [13])), (2, ([1, 1], [3, 4], [7, 6], [5, 9])), (3, ([1, 1, 1], [2, 3, 4], [4, 1, 6]))):
            for size in sizes:
                case(op, {"n": n, "size": size}, normal([1, 1] + LENGTHS[n]))
        # A long row, summed by other code.
        case(op, {"n": 1, "size": [1]}, normal([1, 200], "f16"))


def specials():
    for dtype in ("f32", "f64", "f16", "bf16"):
        x = normal([1, 2, 5, 6], dtype)
        x[0, 0, 1, 2], x[0, 0, 3, 3], x[0, 0, 3, 4] = NAN, NAN, NAN
        x[0, 0, 4, 0], x[0, 0, 0, 5] = INF, -INF
        x[0, 1] = -INF
        x[0, 1, 2, 2], x[0, 1, 2, 3] = 0.0, -0.0
        case("max_pool", {"n": 2, "kernel": [2, 3], "stride": [1, 1], "padding": [1, 1]}, x)
        case("max_pool", {"n": 2, "kernel": [3, 3], "stride": [2, 2], "padding": [1, 1]}, x)
        case("adaptive_max_pool", {"n": 2, "size": [3, 4]}, x)
        case("avg_pool", {"n": 2, "kernel": [2, 2]}, x)


def refusals():
    for op in ("max_pool", "avg_pool"):
        refused(op, {"n": 1, "kernel": [3], "padding": [2]}, [1, 1, 8])
        refused(op, {"n": 1, "kernel": [9]}, [1, 1, 8])
        refused(op, {"n": 1, "kernel": [0]}, [1, 1, 8])
        refused(op, {"n": 2, "kernel": [2, 2], "stride": [0, 1]}, [1, 1, 8, 8])
        refused(op, {"n": 2, "kernel": [2, 2]}, [8, 8])
        refused(op, {"n": 2, "kernel": [2, 2]}, [1, 1, 1, 8, 8])
        refused(op, {"n": 2, "kernel": [2, 2]}, [1, 1, 0, 8])
        refused(op, {"n": 2, "kernel": [2, 2, 2]}, [1, 1, 8, 8])
        refused(op, {"n": 3, "kernel": [2, 2, 2]}, [1, 8, 8])
    refused("max_pool", {"n": 2, "kernel": [2, 2], "dilation": [0, 1]}, [1, 1, 8, 8])
    refused("max_pool", {"n": 2, "kernel": [3, 3], "dilation": [4, 1]}, [1, 1, 8, 8])
    refused("avg_pool", {"n": 2, "kernel": [2, 2], "divisor": 0}, [1, 1, 8, 8])
    for op in ("adaptive_max_pool", "adaptive_avg_pool"):
        refused(op, {"n": 2, "size": [2, 2]}, [8, 8])
        refused(op, {"n": 2, "size": [2, 2]}, [1, 1, 0, 8])
        refused(op, {"n": 2, "size": [2, 2, 2]}, [1, 1, 8, 8])


def main():
    torch.set_num_threads(1)
    for section in (windows, dtypes_and_layouts, adaptive, specials, refusals):
        section()
    with open(sys.argv[1], "w") as out:
        out.write("\n".join(lines) + "\n")
    print(f"{len(lines)} cases, {sum(map(len, lines)) / 1000:.0f} kB, torch {torch.__version__}")


if __name__ == "__main__":
    main()
