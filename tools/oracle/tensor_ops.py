#!/usr/bin/env python3
"""Write the expected results of tensor operations, computed by PyTorch, as JSON lines.

    python tools/oracle/tensor_ops.py crates/rustorch-tensor/tests/fixtures/ops.jsonl

One line is one case:

    {"op": NAME, "attrs": {...}, "inputs": [TENSOR...], "outputs": [TENSOR...]}

TENSOR = {"dtype", "shape", "data"}: `data` is base64 of the little-endian elements in row-major order (bool: one byte, complex: re, im).
An input may have "view": a list of steps applied to that contiguous tensor before the op sees it:
["transpose", a, b], ["slice", dim, start, end, step], ["expand", [sizes]], ["permute", [dims]].
Dtypes: bool u8 i8 i16 i32 u32 i64 f16 bf16 f32 f64 c64 c128.

Result dtype and shape are those of PyTorch run in the input dtype. Values of inexact results are computed in f64 (c128) and rounded once to the
result dtype, so that they are right to the last place and a tolerance needs to allow for one side's error only.
The line "type_promotion" has tables in its attrs and no tensors: rows are the left, columns the right dtype, null is what PyTorch refuses
(mixes of u32 with other integers) and "c32" its complex of halves.
"""

import base64
import json
import math
import sys
import warnings

import numpy as np
import torch

warnings.filterwarnings("ignore")
DTYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "u32": torch.uint32,
    "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
    "c64": torch.complex64, "c128": torch.complex128,
}
NAMES = {v: k for k, v in DTYPES.items()}
FLOATS, INTS = ["f32", "f64", "f16", "bf16"], ["u8", "i8", "i16", "i32", "i64"]
NAN, INF = math.nan, math.inf
rng = np.random.default_rng(20240607)
lines: list[str] = []


def encode(t: torch.Tensor, view=None) -> dict:
    c = t.detach().resolve_conj().contiguous()
    raw = c.view(torch.uint8).numpy().tobytes() if c.dim() and c.numel() else c.reshape(-1).view(torch.uint8).numpy().tobytes()
    out = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data": base64.b64encode(raw).decode()}
    return out | ({"view": view} if view else {})


def apply_view(t: torch.Tensor, view) -> torch.Tensor:
    for step in view or []:
        name, args = step[0], step[1:]
        if name == "transpose":
            t = t.transpose(*args)
        elif name == "permute":
            t = t.permute(*args)
        elif name == "expand":
            t = t.expand(*args)
        else:
            dim, start, end, stride = args
            t = t[(slice(None),) * dim + (slice(start, end, stride),)]
    return t


def emit(op, attrs, inputs, outputs, views=()):
    views = list(views) + [None] * (len(inputs) - len(views))
    row = {"op": op, "attrs": attrs, "inputs": [encode(t, v) for t, v in zip(inputs, views)], "outputs": [encode(t) for t in outputs]}
    lines.append(json.dumps(row, separators=(",", ":")))


def widen(t):
    if not isinstance(t, torch.Tensor):
        return t
    return t.to(torch.complex128) if t.is_complex() else t.double() if t.is_floating_point() else t


def case(op, f, inputs, attrs=None, views=(), exact=False):
    """Runs `f` in the inputs' dtype (dtype, shape) and in f64 (values), checks that the two agree, and writes the line."""
    views = list(views) + [None] * (len(inputs) - len(views))
    seen = [apply_view(t, v) for t, v in zip(inputs, views)]
    plain = f(*seen)
    plain = list(plain) if isinstance(plain, (tuple, list)) else [plain]
    outs = plain
    if not exact and any(t.is_floating_point() or t.is_complex() for t in plain):
        wide = f(*[widen(t) for t in seen])
        wide = list(wide) if isinstance(wide, (tuple, list)) else [wide]
        outs = [w.to(p.dtype) for w, p in zip(wide, plain)]
        for w, p in zip(outs, plain):
            tol = {torch.float16: 2e-2, torch.bfloat16: 1e-1}.get(p.dtype, 1e-4)
            assert w.shape == p.shape, op
            if not torch.allclose(widen(w), widen(p), rtol=tol, atol=tol, equal_nan=True):
                print(f"note: {op} {NAMES[p.dtype]} {attrs}: PyTorch in the dtype itself is far from f64: {p.flatten()[:20]} {w.flatten()[:20]}")
                outs = plain if p.is_complex() else outs
    emit(op, attrs or {}, inputs, outs, views)


def tensor(values, dtype="f32"):
    return torch.tensor(values, dtype=DTYPES[dtype])


def normal(shape, dtype="f32", scale=1.0):
    x = rng.standard_normal(shape) * scale
    if dtype.startswith("c"):
        x = x + 1j * rng.standard_normal(shape) * scale
    return torch.tensor(x).to(DTYPES[dtype])


def integers(shape, dtype, low, high):
    return torch.tensor(rng.integers(low, high, shape)).to(DTYPES[dtype])


def any_values(shape, dtype):
    if dtype == "bool":
        return integers(shape, dtype, 0, 2)
    return integers(shape, dtype, 0 if dtype.startswith("u") else -9, 10) if dtype in INTS + ["u32"] else normal(shape, dtype)


# ---------------------------------------------------------------- pointwise


def unary():
    F = torch.nn.functional
    specials = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-3, -3.75, 10.0, -20.0, INF, -INF, NAN, 1e-6]
    rounding = dict(neg=torch.neg, abs=torch.abs, sign=torch.sign, floor=torch.floor, ceil=torch.ceil, round=torch.round, trunc=torch.trunc,
                    square=torch.square)
    smooth = dict(
        exp=torch.exp, expm1=torch.expm1, log=torch.log, log2=torch.log2, log10=torch.log10, log1p=torch.log1p, sqrt=torch.sqrt, rsqrt=torch.rsqrt,
        reciprocal=torch.reciprocal, sin=torch.sin, cos=torch.cos, tan=torch.tan, asin=torch.asin, acos=torch.acos, atan=torch.atan,
        sinh=torch.sinh, cosh=torch.cosh, tanh=torch.tanh, asinh=torch.asinh, acosh=torch.acosh, atanh=torch.atanh, sigmoid=torch.sigmoid,
        relu=F.relu, gelu=F.gelu, gelu_tanh=lambda x: F.gelu(x, approximate="tanh"), silu=F.silu, softplus=F.softplus, erf=torch.erf)
    tests = dict(logical_not=torch.logical_not, isnan=torch.isnan, isinf=torch.isinf, isfinite=torch.isfinite)
    for name, f in {**rounding, **smooth, **tests}.items():
        for d in FLOATS:
            # At an infinity, inf * 0 in these three is an accident of the formula, not a definition.
            case(name, f, [tensor([v for v in specials if name not in ("gelu", "gelu_tanh", "silu") or not math.isinf(v)], d)])
        if name in smooth:
            # Inside the domain: (0, 1) for asin and its like, above 1 for acosh.
            x = normal((35,), scale=3.0)
            x = x.abs() if name.startswith(("log", "sqrt", "rsqrt")) else torch.sigmoid(x) if name in ("asin", "acos", "atanh") else x
            case(name, f, [x.abs() + 1 if name == "acosh" else x])
        case(name, f, [tensor(0.75)])
        if name in ("neg", "exp", "relu", "isnan"):
            case(name, f, [torch.empty(0, 3)])
            case(name, f, [normal((4, 6))], views=[[["transpose", 0, 1]]])
            case(name, f, [normal((5, 6))], views=[[["slice", 1, 1, 6, 2]]])
            case(name, f, [normal((1, 5))], views=[[["expand", [3, 5]]]])
        # Integers: some ops keep the dtype, the smooth ones give f32.
        if name in ("neg", "abs", "sign", "square", "relu"):
            for d in INTS:
                case(name, f, [tensor([0, 1, 2, 100, 127] if d == "u8" else [0, 1, -1, 100, -100, 127], d)], exact=True)
        if name in ("exp", "sqrt", "sigmoid", "tanh", "sin", "reciprocal", "log1p", "erf"):
            case(name, f, [tensor([0, 1, 2, 9], "i64")], exact=True)
            case(name, f, [tensor([0, 1, 2, 9], "u8")], exact=True)
        if name in ("floor", "ceil", "round", "trunc", "isnan", "isfinite"):
            case(name, f, [tensor([0, -3, 7], "i32")], exact=True)
        if name == "logical_not":
            case(name, f, [tensor([True, False, True], "bool")])
            case(name, f, [tensor([0, -3, 7], "i32")])
    case("bitwise_not", torch.bitwise_not, [tensor([True, False], "bool")])
    for d in INTS:
        case("bitwise_not", torch.bitwise_not, [tensor([0, 1, 77], d)])
    both = dict(neg=torch.neg, square=torch.square, reciprocal=torch.reciprocal, exp=torch.exp, log=torch.log, sqrt=torch.sqrt, sin=torch.sin,
                cos=torch.cos, tanh=torch.tanh, abs=torch.abs, conj=lambda x: torch.conj(x).resolve_conj(), real=torch.real, imag=torch.imag, angle=torch.angle)
    for name, f in both.items():
        for d in ("c64", "c128"):
            case(name, f, [tensor([1 + 2j, -0.5 + 0.25j, 3 - 4j, -2 - 1j, 1j, -1 + 0j, 2 + 0j], d)])
    case("angle", torch.angle, [tensor([1.0, -1.0, 0.0, -3.5])])


def binary():
    div = lambda mode: lambda a, b: torch.div(a, b, rounding_mode=mode)
    arith = dict(add=torch.add, sub=torch.sub, mul=torch.mul, div=torch.div, floor_divide=div("floor"), trunc_divide=div("trunc"),
                 remainder=torch.remainder, pow=torch.pow, maximum=torch.maximum, minimum=torch.minimum)
    compare = dict(eq=torch.eq, ne=torch.ne, lt=torch.lt, le=torch.le, gt=torch.gt, ge=torch.ge)
    av = [0.0, 1.0, -1.0, 7.5, -7.5, 7.5, -7.5, INF, -INF, NAN, 2.0, 0.0, 5.0]
    bv = [1.0, 0.0, 3.0, 2.0, 2.0, -2.0, -2.0, 2.0, 3.0, 1.0, NAN, 0.0, 5.0]
    for name, f in {**arith, "atan2": torch.atan2, **compare}.items():
        for d in FLOATS:
            case(name, f, [tensor(av, d), tensor(bv, d)])
        a, b = (normal(s).abs() + 0.1 if name == "pow" else normal(s) for s in ((3, 1), (1, 4)))
        case(name, f, [a, b])
    for name in ("sub", "maximum", "lt"):
        f = {**arith, **compare}[name]
        for s, t in (([], [2, 3]), ([5], [2, 1, 5]), ([0, 3], [1, 3]), ([1], [1]), ([2, 0], [1]), ([37], [37])):
            case(name, f, [normal(s), normal(t)])
        case(name, f, [normal((4, 3)), normal((3, 4))], views=[None, [["transpose", 0, 1]]])
        case(name, f, [normal((4, 6)), normal((6,))], views=[[["slice", 1, 0, 6, 2]], [["slice", 0, 1, 4, 1]]])
    for d in INTS:
        a = tensor([7, 100, 3, 1, 0, 127] if d == "u8" else [7, -7, 7, -7, 0, 127], d)
        b = tensor([2, 100, 5, 9, 3, 1] if d == "u8" else [2, 2, -2, -2, 3, 1], d)
        for name in ("add", "sub", "mul", "div", "floor_divide", "trunc_divide", "remainder", "maximum", "minimum"):
            case(name, arith[name], [a, b], exact=True)
        case("pow", torch.pow, [tensor([0, 1, 2, 3, 5], d), tensor([0, 5, 6, 3, 2], d)], exact=True)
        for name, f in dict(bitwise_and=torch.bitwise_and, bitwise_or=torch.bitwise_or, bitwise_xor=torch.bitwise_xor).items():
            case(name, f, [a, b])
        case("bitwise_left_shift", torch.bitwise_left_shift, [tensor([1, 3, 5], d), tensor([0, 2, 4], d)])
        case("bitwise_right_shift", torch.bitwise_right_shift, [tensor([100, 64, 5], d), tensor([0, 2, 4], d)])
        for name in ("eq", "lt", "ge"):
            case(name, compare[name], [a, b])
    case("bitwise_right_shift", torch.bitwise_right_shift, [tensor([-100, -1], "i32"), tensor([2, 1], "i32")])
    t, u = tensor([True, True, False, False], "bool"), tensor([True, False, True, False], "bool")
    for name, f in dict(bitwise_and=torch.bitwise_and, bitwise_or=torch.bitwise_or, bitwise_xor=torch.bitwise_xor, add=torch.add, mul=torch.mul,
                        maximum=torch.maximum, eq=torch.eq, lt=torch.lt, div=torch.div, logical_and=torch.logical_and, logical_or=torch.logical_or,
                        logical_xor=torch.logical_xor).items():
        case(name, f, [t, u], exact=True)
    for name, f in dict(logical_and=torch.logical_and, logical_or=torch.logical_or, logical_xor=torch.logical_xor).items():
        case(name, f, [tensor([0.0, 1.5, NAN, -2.0]), tensor([1, 0, 3, 0], "i64")])
    for d in ("c64", "c128"):
        a, b = tensor([1 + 2j, -0.5 + 0.25j, 3 - 4j], d), tensor([2 - 1j, 0.5 + 1j, -1 - 1j], d)
        for name in ("add", "sub", "mul", "div", "pow", "eq", "ne"):
            case(name, {**arith, **compare}[name], [a, b])
    mixed = [("i32", "f32"), ("i64", "f16"), ("bool", "u8"), ("u8", "i8"), ("i8", "i64"), ("f16", "bf16"), ("bf16", "f32"), ("f32", "c64"), ("i64", "c64"),
             ("f64", "c64"), ("bool", "f32"), ("bool", "bf16")]
    for da, db in mixed:
        for name in ("add", "mul", "div"):
            case(name, arith[name], [any_values((3,), da), any_values((3,), db) + (1 if db != "bool" else 0)], exact=True)
        if not db.startswith("c"):
            case("lt", torch.lt, [any_values((5,), da), any_values((5,), db)])
    # A 0-d tensor of the same category does not widen; one of a higher category does.
    for da, db in (("f32", "f64"), ("i8", "i64"), ("i64", "f64"), ("f16", "f32"), ("u8", "i16"), ("bool", "i64"), ("bf16", "f64"), ("f32", "c128")):
        case("add", torch.add, [any_values((4,), da), any_values((), db)], exact=True)
    # Python scalars: attrs.scalar is a number or {"re", "im"}; "reverse" puts the scalar first.
    for d in ("bool", "u8", "i64", "f16", "bf16", "f32", "c64"):
        for scalar in (True, 3, 2.5):
            for name in ("add", "mul", "div"):
                case(name, lambda x, f=arith[name], s=scalar: f(x, s), [any_values((3,), d)], {"scalar": scalar}, exact=True)
    for name, g in dict(sub=lambda x: 2.5 - x, div=lambda x: 2.5 / x, pow=lambda x: 2.5**x).items():
        case(name, g, [tensor([1.0, 2.0, -0.5])], {"scalar": 2.5, "reverse": True})
    for e in (0.5, 2.0, 3.0, -1.0, -2.0, 0.0, 1.7):
        case("pow", lambda x, e=e: torch.pow(x, e), [tensor([0.25, 1.0, 3.0, 9.0])], {"scalar": e})
    case("pow", lambda x: torch.pow(x, 3), [tensor([-2, 0, 5], "i64")], {"scalar": 3}, exact=True)


def promotion():
    def result(f):
        try:
            return NAMES.get(f().dtype, "c32")
        except (RuntimeError, TypeError):
            return None

    names, one = list(DTYPES), lambda d: torch.ones(2, dtype=DTYPES[d])
    zero_d = lambda d: torch.ones((), dtype=DTYPES[d])
    scalars = {"bool": True, "int": 3, "float": 2.5, "complex": 1j}
    attrs = {
        "dtypes": names,
        "add": [[result(lambda: one(a) + one(b)) for b in names] for a in names],
        "add_0d": [[result(lambda: one(a) + zero_d(b)) for b in names] for a in names],
        "div": [[result(lambda: one(a) / one(b)) for b in names] for a in names],
        "add_scalar": {k: [result(lambda: one(a) + s) for a in names] for k, s in scalars.items()},
        "div_scalar": {k: [result(lambda: one(a) / s) for a in names] for k, s in scalars.items()},
        "sum": [result(lambda: one(a).sum()) for a in names],
        "mean": [result(lambda: one(a).mean()) for a in names],
        "exp": [result(lambda: one(a).exp()) for a in names],
        "cumsum": [result(lambda: one(a).cumsum(0)) for a in names],
        "matmul": [result(lambda: one(a) @ one(a)) for a in names],
    }
    lines.append(json.dumps({"op": "type_promotion", "attrs": attrs, "inputs": [], "outputs": []}, separators=(",", ":")))


def select_and_cast():
    cond = tensor([[True], [False], [True]], "bool")
    for da, db in (("f32", "f32"), ("f16", "f32"), ("i64", "f32"), ("i32", "i64"), ("bool", "bool"), ("c64", "c64")):
        case("where", torch.where, [cond, any_values((3, 4), da), any_values((4,), db)], exact=True)
    case("where", torch.where, [cond, normal((4, 3)), normal(())], views=[None, [["transpose", 0, 1]]], exact=True)
    x = [-INF, -3.0, -0.5, 0.0, 0.5, 3.0, INF, NAN]
    for lo, hi in ((-1.0, 1.0), (None, 0.25), (0.25, None), (2.0, -2.0)):
        attrs = {k: v for k, v in (("min", lo), ("max", hi)) if v is not None}
        for d in ("f32", "bf16"):
            case("clamp", lambda t: torch.clamp(t, lo, hi), [tensor(x, d)], attrs, exact=True)
    for d in ("i64", "u8", "i8"):
        case("clamp", lambda t: torch.clamp(t, 2, 5), [tensor([0, 2, 3, 5, 99], d)], {"min": 2, "max": 5}, exact=True)
    case("clamp", lambda t: torch.clamp(t, 0.5, 1.5), [tensor([0, 1, 2], "i64")], {"min": 0.5, "max": 1.5}, exact=True)
    # One line per source dtype, one output per target dtype (attrs.to). Floats that go to integers are in range of every integer type.
    for d in DTYPES:
        if d == "bool":
            x = tensor([False, True], d)
        elif d in INTS + ["u32"]:
            info = torch.iinfo(DTYPES[d])
            x = tensor([0, 1, 2, 65, 100, 127] + [v for v in (-1, -100, 200, 255, 300, 70000, 16777217, -40000, info.min, info.max) if info.min <= v <= info.max], d)
        else:
            x = tensor([0.0, 0.3, 1.0, 1.9, 2.5, 3.5, 99.7, 126.99, 1e-7] + ([2.5 + 0.5j] if d.startswith("c") else []), d)
        emit("cast", {"to": list(DTYPES)}, [x], [x.to(t) for t in DTYPES.values()])
    x = tensor([1e5, -1e5, 65504.0, 65519.9, 65520.0, 6e-8, 2.9e-8, -1e-40, 1.0009765625, 1.00048828125, 1.00146484375, 3.4e38, INF, -INF, NAN, -3.7, -100.2, 1.00390625, 1.01171875])
    emit("cast", {"to": ["f16", "bf16", "f64", "bool"]}, [x], [x.to(DTYPES[t]) for t in ("f16", "bf16", "f64", "bool")])
    x = tensor([-3.7, -100.2, -0.9, 100.9, -127.5])
    emit("cast", {"to": ["i8", "i16", "i32", "i64"]}, [x], [x.to(DTYPES[t]) for t in ("i8", "i16", "i32", "i64")])
    x = tensor([1e308, 1e39, -1e-50, 1 + 2**-25, 0.1, 1 + 2**-11 + 2**-30], "f64")
    emit("cast", {"to": ["f32", "f16", "bf16"]}, [x], [x.to(DTYPES[t]) for t in ("f32", "f16", "bf16")])


# ---------------------------------------------------------------- reductions and scans


def reductions():
    def over(f, dims, keep):
        return (lambda x: f(x)) if dims is None else (lambda x: f(x, dim=dims, keepdim=keep))

    # A permutation of distinct values keeps max, min and their indices free of ties in every dtype.
    distinct = lambda shape: torch.tensor(rng.permutation(int(np.prod(shape))).reshape(shape) / 7.0 - 4.0).float()
    several = dict(sum=torch.sum, mean=torch.mean, logsumexp=torch.logsumexp, amax=torch.amax, amin=torch.amin)
    single = dict(prod=torch.prod, any=torch.any, all=torch.all, argmax=torch.argmax, argmin=torch.argmin)
    for name, f in {**several, **single}.items():
        x = distinct((2, 3, 4)) if name not in ("prod", "any", "all") else normal((2, 3, 4)).round(decimals=1)
        dims = [None, 0, -1] + ([[0, 2], [1, 2]] if name in several else [1])
        for dim in [d for d in dims if not (name == "logsumexp" and d is None)]:
            for keep in ([False] if dim is None else [False, True] if dim in (0, [0, 2]) else [True]):
                case(name, over(f, dim, keep), [x], {} if dim is None else {"dim": dim, "keepdim": keep})
        case(name, over(f, 0, False), [x], {"dim": 0, "keepdim": False}, views=[[["permute", [2, 0, 1]]]])
        case(name, over(f, 1, False), [x], {"dim": 1, "keepdim": False}, views=[[["slice", 2, 0, 4, 2]]])
        case(name, over(f, 0, False), [tensor(2.5)], {"dim": 0, "keepdim": False})
        for d in ("f64", "f16", "bf16"):
            case(name, over(f, -1, False), [x[0].to(DTYPES[d])], {"dim": -1, "keepdim": False})
        if name in ("sum", "mean", "prod", "any", "all"):
            case(name, f, [torch.empty(0, 3)])
            case(name, over(f, 0, False), [torch.empty(0, 3)], {"dim": 0, "keepdim": False})
        if name in ("sum", "prod", "any", "all", "amax", "argmin"):
            for d in INTS + (["bool"] if name != "argmin" else []):
                y = torch.tensor(rng.permutation(12).reshape(3, 4)).to(DTYPES[d])
                case(name, over(f, 1, False), [y], {"dim": 1, "keepdim": False}, exact=True)
        if name in ("sum", "mean", "prod"):
            for d in ("c64", "c128"):
                case(name, over(f, 1, False), [normal((2, 3), d)], {"dim": 1, "keepdim": False})
        if name not in ("any", "all"):
            case(name, over(f, 1, False), [tensor([[1.0, NAN, 2.0], [3.0, INF, 4.0], [-INF, 0.0, 5.0]])], {"dim": 1, "keepdim": False})
    case("logsumexp", over(torch.logsumexp, 1, False), [tensor([[1000.0, 1000.5], [-1000.0, -1001.0], [-INF, -INF]])], {"dim": 1, "keepdim": False})
    for n in (1, 15, 16, 17, 100, 333):
        case("sum", torch.sum, [normal((n,))])
    case("sum", torch.sum, [tensor([200, 200, 200], "u8")], exact=True)
    for name, f in (("max_dim", torch.max), ("min_dim", torch.min)):
        for dim in (0, 2):
            case(name, lambda x: tuple(f(x, dim)), [distinct((2, 3, 4))], {"dim": dim, "keepdim": False})
        case(name, lambda x: tuple(f(x, 1, keepdim=True)), [torch.tensor(rng.permutation(12).reshape(3, 4))], {"dim": 1, "keepdim": True})
    for name, f in (("var", torch.var), ("std", torch.std)):
        for dim, corr, keep in ((None, 1, False), (0, 1, False), (-1, 0, True), ([0, 2], 1, False), (1, 2, False)):
            case(name, lambda x: f(x, dim=dim, correction=corr, keepdim=keep), [normal((2, 3, 4)) + 10],
                 {"correction": corr} | ({} if dim is None else {"dim": dim, "keepdim": keep}))
        case(name, lambda x: f(x, dim=0, correction=1), [normal((6, 2), "f16")], {"dim": 0, "keepdim": False, "correction": 1})
        case(name, lambda x: f(x, dim=1, correction=1), [normal((3, 4))], {"dim": 1, "keepdim": False, "correction": 1}, views=[[["transpose", 0, 1]]])
        case(name, lambda x: f(x, dim=0, correction=1), [normal((1, 2))], {"dim": 0, "keepdim": False, "correction": 1})
    for name, f in (("cumsum", torch.cumsum), ("cumprod", torch.cumprod)):
        for dim in (0, 1, -1):
            case(name, lambda x: f(x, dim), [normal((2, 3, 4))], {"dim": dim})
        case(name, lambda x: f(x, 0), [normal((3, 4))], {"dim": 0}, views=[[["transpose", 0, 1]]])
        case(name, lambda x: f(x, 0), [torch.empty(0)], {"dim": 0})
        case(name, lambda x: f(x, 0), [tensor(3.0)], {"dim": 0})
        for d in ("f64", "bf16", "c64"):
            case(name, lambda x: f(x, 1), [normal((2, 4), d)], {"dim": 1})
        for d in ("i32", "u8", "bool"):
            case(name, lambda x: f(x, 1), [integers((2, 5), d, 0, 3)], {"dim": 1}, exact=True)


# ---------------------------------------------------------------- products, softmax, norms, attention


def products():
    pairs = [((2, 3), (3, 4)), ((7,), (7,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (5, 3, 4)), ((3, 1, 2, 3), (4, 3, 2)), ((5, 2, 3), (3,)),
             ((3,), (5, 3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0, 2, 3), (3, 2)), ((1, 1), (1, 1)), ((17, 33), (33, 19)), ((1, 40), (40, 9))]
    for a, b in pairs:
        case("matmul", torch.matmul, [normal(a), normal(b)])
    T = [["transpose", 0, 1]]
    case("matmul", torch.matmul, [normal((3, 2)), normal((3, 4))], views=[T, None])
    case("matmul", torch.matmul, [normal((2, 3)), normal((4, 3))], views=[None, T])
    case("matmul", torch.matmul, [normal((6, 5)), normal((9, 6))], views=[T, T])
    case("matmul", torch.matmul, [normal((4, 2, 3)), normal((4, 3, 5))], views=[[["slice", 0, 0, 4, 2]], [["slice", 0, 1, 4, 2]]])
    case("matmul", torch.matmul, [normal((2, 5, 3)), normal((1, 3, 4))], views=[None, [["expand", [2, 3, 4]]]])
    for d in ("f64", "f16", "bf16", "i32", "i64", "c64", "c128"):
        g = lambda s: integers(s, d, -9, 10) if d.startswith("i") else normal(s, d)
        case("matmul", torch.matmul, [g((3, 5)), g((5, 4))])
        case("bmm", torch.bmm, [g((2, 3, 4)), g((2, 4, 2))])
    case("bmm", torch.bmm, [normal((3, 2, 4)), normal((3, 4, 5))])
    case("linear", torch.nn.functional.linear, [normal((2, 3, 4)), normal((5, 4)), normal((5,))])
    case("linear", torch.nn.functional.linear, [normal((4,)), normal((5, 4))])
    case("outer", torch.outer, [normal((3,)), normal((4,))])


def norms_and_attention():
    F = torch.nn.functional
    for name, f in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        for dim in (-1, 0, 1):
            case(name, lambda x: f(x, dim), [normal((2, 3, 5), scale=3)], {"dim": dim})
        case(name, lambda x: f(x, 0), [tensor(3.0)], {"dim": 0})
        case(name, lambda x: f(x, 1), [torch.empty(3, 0)], {"dim": 1})
        case(name, lambda x: f(x, 1), [tensor([[1e4, 1e4, -1e4], [-INF, 0.0, 1.0], [1e-8, 0.0, -1e-8]])], {"dim": 1})
        case(name, lambda x: f(x, 1), [normal((4, 3))], {"dim": 1}, views=[[["transpose", 0, 1]]])
        case(name, lambda x: f(x, 0), [normal((67,))], {"dim": 0})
        for d in ("f64", "f16", "bf16"):
            case(name, lambda x: f(x, 1), [normal((2, 5), d)], {"dim": 1})
    for shape, n in (((2, 3, 5), 1), ((2, 3, 5), 2), ((2, 33), 1), ((6,), 1)):
        sizes = list(shape[-n:])
        x, w, b = normal(shape, scale=2) + 1, normal(sizes), normal(sizes)
        for eps in (1e-5, 1e-3):
            case("layer_norm", lambda x, w, b: F.layer_norm(x, sizes, w, b, eps), [x, w, b], {"normalized_shape": sizes, "eps": eps})
            case("rms_norm", lambda x, w: F.rms_norm(x, sizes, w, eps), [x, w], {"normalized_shape": sizes, "eps": eps})
        case("layer_norm", lambda x: F.layer_norm(x, sizes, None, None, 1e-5), [x], {"normalized_shape": sizes, "eps": 1e-5})
        case("rms_norm", lambda x: F.rms_norm(x, sizes, None, 1e-6), [x], {"normalized_shape": sizes, "eps": 1e-6})
    for d in ("f64", "f16", "bf16"):
        x, w, b = normal((3, 8), d), normal((8,), d), normal((8,), d)
        case("layer_norm", lambda x, w, b: F.layer_norm(x, [8], w, b, 1e-5), [x, w, b], {"normalized_shape": [8], "eps": 1e-5})
        case("rms_norm", lambda x, w: F.rms_norm(x, [8], w, 1e-5), [x, w], {"normalized_shape": [8], "eps": 1e-5})
    sdpa = F.scaled_dot_product_attention
    q, k, v = normal((2, 2, 5, 4)), normal((2, 2, 7, 4)), normal((2, 2, 7, 4))
    case("scaled_dot_product_attention", sdpa, [q, k, v])
    case("scaled_dot_product_attention", lambda q, k, v: sdpa(q, k, v, scale=0.25), [q, k, v], {"scale": 0.25})
    # For lengths that differ PyTorch's causal mask is aligned to the top left.
    case("scaled_dot_product_attention", lambda q, k, v: sdpa(q, k, v, is_causal=True), [q, k, v], {"is_causal": True})
    case("scaled_dot_product_attention", lambda q, k, v: sdpa(q, k, v, is_causal=True), [q, k[:, :, :5], v[:, :, :5]], {"is_causal": True})
    mask = integers((5, 7), "bool", 0, 2)
    mask[:, 0] = True
    # attn_mask is the fourth input.
    case("scaled_dot_product_attention", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), [q, k, v, mask], {"attn_mask": True})
    case("scaled_dot_product_attention", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), [q, k, v, normal((2, 1, 5, 7))], {"attn_mask": True})
    gq, gk, gv = normal((1, 4, 3, 8)), normal((1, 2, 3, 8)), normal((1, 2, 3, 6))
    case("scaled_dot_product_attention", lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True), [gq, gk, gv], {"is_causal": True, "enable_gqa": True})
    case("scaled_dot_product_attention", lambda q, k, v: sdpa(q, k, v), [normal((5, 8)), normal((3, 8)), normal((3, 8))])
    case("scaled_dot_product_attention", lambda q, k, v: sdpa(q, k, v, is_causal=True), [normal((1, 4, 2, 8)), normal((1, 4, 2, 8)), normal((1, 4, 2, 8))],
         {"is_causal": True}, views=[[["transpose", 1, 2]]] * 3)
    for d in ("f64", "f16", "bf16"):
        case("scaled_dot_product_attention", lambda q, k, v: sdpa(q, k, v, is_causal=True), [normal((1, 2, 4, 8), d) for _ in range(3)], {"is_causal": True})


def rope():
    """Rotary embedding of x [tokens, heads, dim], in numpy's f64. "pairs" turns (x0,x1), (x2,x3), …; "halves" turns (x0, x[r/2]), …"""
    for style in ("pairs", "halves"):
        for positions, heads, dim, rotated, base, scale in (([0, 1, 2, 5], 2, 8, 8, 1e4, 1.0), ([100, 4000], 1, 16, 16, 5e5, 1.0), ([3], 3, 6, 4, 1e4, 1.0), ([7, 8], 1, 4, 4, 1e4, 0.25)):
            x = normal((len(positions), heads, dim))
            theta = np.array(positions)[:, None] * scale * base ** (-np.arange(0, rotated, 2) / rotated)
            cos, sin = np.cos(theta)[:, None, :], np.sin(theta)[:, None, :]
            y, out = x.double().numpy(), x.double().numpy().copy()
            a, b = (slice(0, rotated, 2), slice(1, rotated, 2)) if style == "pairs" else (slice(0, rotated // 2), slice(rotated // 2, rotated))
            out[..., a], out[..., b] = y[..., a] * cos - y[..., b] * sin, y[..., a] * sin + y[..., b] * cos
            emit("rope", {"style": style, "positions": positions, "base": base, "rotated": rotated, "freq_scale": scale}, [x], [torch.tensor(out).float()])


# ---------------------------------------------------------------- indexing, shape, order


def indexing():
    x, i = normal((4, 5)), integers((4, 3), "i64", 0, 5)
    case("gather", lambda x, i: torch.gather(x, 1, i), [x, i], {"dim": 1}, exact=True)
    case("gather", lambda x, i: torch.gather(x, 0, i), [x, integers((2, 5), "i64", 0, 4)], {"dim": 0}, exact=True)
    case("gather", lambda x, i: torch.gather(x, 0, i), [x, integers((3, 2), "i64", 0, 5)], {"dim": 0}, views=[[["transpose", 0, 1]]], exact=True)
    case("gather", lambda x, i: torch.gather(x, 2, i), [integers((2, 3, 4), "i32", -9, 9), integers((2, 2, 2), "i64", 0, 4)], {"dim": 2}, exact=True)
    case("gather", lambda x, i: torch.gather(x, 0, i), [x, torch.empty(0, 5, dtype=torch.int64)], {"dim": 0}, exact=True)
    case("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), [x, integers((4, 2), "i64", 0, 5)], {"dim": 1}, exact=True)
    case("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 0), [x, integers((2, 1), "i64", 0, 4)], {"dim": 0}, exact=True)
    case("take_along_dim", lambda x, i: torch.take_along_dim(x, i), [x, integers((6,), "i64", 0, 20)], exact=True)
    # scatter: indices are distinct along the dimension, as the order of writes is not defined. Inputs: self, index, src.
    p = torch.tensor(np.stack([rng.permutation(5)[:3] for _ in range(4)]))
    case("scatter", lambda x, i, s: torch.scatter(x, 1, i, s), [x, p, normal((4, 3))], {"dim": 1}, exact=True)
    case("scatter", lambda x, i: torch.scatter(x, 1, i, 2.5), [x, p], {"dim": 1, "value": 2.5}, exact=True)
    case("scatter", lambda x, i, s: torch.scatter(x, 0, i, s), [integers((5, 2), "i64", 0, 9), torch.tensor([[0, 3], [4, 1]]), integers((2, 2), "i64", 50, 60)], {"dim": 0}, exact=True)
    case("scatter_add", lambda x, i, s: torch.scatter_add(x, 1, i, s), [x, i, normal((4, 3))], {"dim": 1})
    case("scatter_add", lambda x, i, s: torch.scatter_add(x, 0, i, s), [integers((3, 2), "i64", 0, 9), integers((5, 2), "i64", 0, 3), integers((5, 2), "i64", 0, 9)], {"dim": 0}, exact=True)
    for dim in (0, 1):
        case("index_select", lambda x, i: torch.index_select(x, dim, i), [x, tensor([2, 0, 2], "i64")], {"dim": dim}, exact=True)
    case("index_select", lambda x, i: torch.index_select(x, 1, i), [normal((2, 3, 2), "bf16"), tensor([2, 1], "i32")], {"dim": 1}, exact=True)
    case("index_select", lambda x, i: torch.index_select(x, 0, i), [x, tensor([3, 3], "i64")], {"dim": 0}, views=[[["transpose", 0, 1]]], exact=True)
    case("index_add", lambda x, i, s: torch.index_add(x, 0, i, s), [x, tensor([1, 3, 1], "i64"), normal((3, 5))], {"dim": 0})
    case("masked_fill", lambda x, m: torch.masked_fill(x, m, -1.5), [x, tensor([True, False, False, True, False], "bool")], {"value": -1.5}, exact=True)
    # embedding: indices, weight.
    case("embedding", torch.nn.functional.embedding, [integers((2, 3), "i64", 0, 6), normal((6, 4))], exact=True)
    case("embedding", torch.nn.functional.embedding, [integers((), "i64", 0, 6), normal((6, 4), "f16")], exact=True)
    case("embedding", torch.nn.functional.embedding, [torch.empty(0, dtype=torch.int64), normal((6, 4))], exact=True)


def shaping():
    for dim in (0, 1, -1):
        case("cat", lambda *t: torch.cat(t, dim), [normal((2, 3)) for _ in range(3)], {"dim": dim}, exact=True)
        case("stack", lambda *t: torch.stack(t, dim), [normal((2, 3)) for _ in range(2)], {"dim": dim}, exact=True)
    case("cat", lambda *t: torch.cat(t, 0), [normal((2, 3)), normal((0, 3)), normal((1, 3))], {"dim": 0}, exact=True)
    case("cat", lambda *t: torch.cat(t, 1), [normal((2, 3)), normal((4, 2))], {"dim": 1}, views=[None, [["transpose", 0, 1]]], exact=True)
    case("cat", lambda *t: torch.cat(t, 0), [integers((2,), "i64", 0, 9), normal((1,)), integers((2,), "bool", 0, 2)], {"dim": 0}, exact=True)
    case("stack", lambda *t: torch.stack(t, 0), [tensor(1.0), tensor(2.0)], {"dim": 0}, exact=True)
    # attrs.pad as in torch.nn.functional.pad: last dimension first, (before, after) each; negative crops.
    for pad, value in (([1, 2], 0.0), ([0, 1, 2, 0], -1.5), ([1, 1, 1, 1, 1, 1], 7.0), ([-1, 2], 0.5), ([0, 0, -1, -1], 0.0)):
        case("pad", lambda x: torch.nn.functional.pad(x, pad, value=value), [normal((2, 3, 2)) if len(pad) == 6 else normal((3, 4))], {"pad": pad, "value": value}, exact=True)
    case("pad", lambda x: torch.nn.functional.pad(x, [1, 1], value=9), [integers((2, 2), "i32", 0, 5)], {"pad": [1, 1], "value": 9}, exact=True)
    distinct = lambda shape: torch.tensor(rng.permutation(int(np.prod(shape))).reshape(shape) / 7.0 - 4.0)
    for shape, dim in (((7,), 0), ((3, 6), -1), ((5, 3), 0), ((2, 4, 3), 1), ((70,), 0)):
        for down in (False, True):
            case("sort", lambda x: tuple(torch.sort(x, dim, descending=down)), [distinct(shape).float()], {"dim": dim, "descending": down}, exact=True)
        case("argsort", lambda x: torch.argsort(x, dim), [distinct(shape).float()], {"dim": dim, "descending": False}, exact=True)
    for d in ("f64", "f16", "bf16", "i64", "i32", "u8"):
        x = (distinct((3, 6)) * 7 + 28).to(DTYPES[d])
        case("sort", lambda x: tuple(torch.sort(x, 1)), [x], {"dim": 1, "descending": False}, exact=True)
        case("topk", lambda x: tuple(torch.topk(x, 3, 1)), [x], {"k": 3, "dim": 1, "largest": True}, exact=True)
    case("sort", lambda x: tuple(torch.sort(x, 0)), [distinct((3, 4)).float()], {"dim": 0, "descending": False}, views=[[["transpose", 0, 1]]], exact=True)
    # NaN is greater than every number; equal values keep their order when the sort is stable.
    for down in (False, True):
        x = tensor([2.0, NAN, -INF, 0.5, INF, -1.0])
        case("sort", lambda x: tuple(torch.sort(x, 0, descending=down)), [x], {"dim": 0, "descending": down}, exact=True)
        case("sort", lambda x: tuple(torch.sort(x, dim=0, descending=down, stable=True)), [tensor([2, 1, 2, 1, 3, 1, 2], "i64")], {"dim": 0, "descending": down, "stable": True}, exact=True)
    case("sort", lambda x: tuple(torch.sort(x, 0)), [torch.empty(0)], {"dim": 0, "descending": False}, exact=True)
    case("sort", lambda x: tuple(torch.sort(x, 0)), [tensor(3.0)], {"dim": 0, "descending": False}, exact=True)
    for k, dim, largest in ((1, 0, True), (4, 0, False), (2, 1, False), (0, 1, True)):
        case("topk", lambda x: tuple(torch.topk(x, k, dim, largest)), [distinct((5, 4)).float()], {"k": k, "dim": dim, "largest": largest}, exact=True)
    for name, f in (("tril", torch.tril), ("triu", torch.triu)):
        for diagonal in (0, 1, -2):
            case(name, lambda x: f(x, diagonal), [normal((4, 5))], {"diagonal": diagonal}, exact=True)
        case(name, lambda x: f(x, 0), [integers((2, 3, 3), "i64", 1, 9)], {"diagonal": 0}, exact=True)
        case(name, lambda x: f(x, 0), [normal((3, 4))], {"diagonal": 0}, views=[[["transpose", 0, 1]]], exact=True)
    case("flip", lambda x: torch.flip(x, [0, 1]), [normal((2, 3))], {"dims": [0, 1]}, exact=True)
    case("roll", lambda x: torch.roll(x, [1, -1], [0, 1]), [normal((2, 3))], {"shifts": [1, -1], "dims": [0, 1]}, exact=True)
    case("repeat", lambda x: x.repeat(2, 1, 3), [normal((2, 2))], {"repeats": [2, 1, 3]}, exact=True)
    # Factories have no inputs.
    for start, end, step in ((0, 5, 1), (1, 8, 3), (5, 0, -2), (0.0, 1.0, 0.25), (0, 2, 0.5)):
        emit("arange", {"start": start, "end": end, "step": step}, [], [torch.arange(start, end, step)])
    for start, end, steps in ((0.0, 1.0, 5), (-2.0, 3.0, 7), (1.0, 1.0, 1), (0.0, 1.0, 0)):
        emit("linspace", {"start": start, "end": end, "steps": steps}, [], [torch.linspace(start, end, steps)])


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    sections = (unary, binary, promotion, select_and_cast, reductions, products, norms_and_attention, rope, indexing, shaping)
    for section in sections:
        before, at = sum(map(len, lines)), len(lines)
        section()
        print(f"{section.__name__}: {len(lines) - at} cases, {(sum(map(len, lines)) - before) / 1000:.0f} kB")
    with open(sys.argv[1], "w") as out:
        out.write("\n".join(lines) + "\n")
    print(f"{len(lines)} cases, {sum(map(len, lines)) / 1000:.0f} kB, torch {torch.__version__}")


if __name__ == "__main__":
    main()
