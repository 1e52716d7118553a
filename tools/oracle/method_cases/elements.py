"""Functions of elements that are composed of others."""

import math

import torch
from torch_methods import DTYPES, TURNED, case, integers, normal, refused, tensor

NAN, INF = math.nan, math.inf
FLOATS, INTS = ("f32", "f64", "f16", "bf16"), ("u8", "i8", "i16", "i32", "i64")
A = [0.0, -0.0, 1.0, -1.0, 7.5, -7.5, 7.5, INF, -INF, NAN, 2.0, INF, -INF, 5.0, -3.0, 1e30, NAN, NAN]
B = [1.0, 2.0, 0.0, 3.0, 2.0, 2.0, -2.0, 2.0, 3.0, 1.0, NAN, INF, -INF, 5.0, -INF, 3e30, INF, NAN]


def layouts(op, f, binary=True, scale=1.0):
    """Strided, broadcast, empty, 0-d."""
    n = lambda *shape: normal(shape, "f64", scale)
    if not binary:
        for x, view in ((n(3, 4), TURNED), (n(5, 6), [["slice", 1, 1, 6, 2]]), (n(1, 3), [["expand", [2, 3]]]), (n(), None), (n(0, 3), None)):
            case(op, f, [x], views=[view])
        return
    case(op, f, [n(3, 4), n(4, 3)], views=[None, TURNED])
    case(op, f, [n(3, 1), n(4)])
    case(op, f, [n(), n(2, 3)])
    case(op, f, [n(), n()])
    case(op, f, [n(0, 3), n(1, 3)])


def unary():
    for d in FLOATS:
        case("exp2", torch.exp2, [tensor([0.0, -0.0, 1.0, -1.0, 0.5, 10.25, -20.5, INF, -INF, NAN], d)], grad=False)
        case("frac", torch.frac, [tensor([0.0, 1.0, -1.0, 0.5, 10.25, -20.5, INF, -INF, NAN, 1e-3], d)], grad=False)
    for d in ("f32", "c64", "c128"):
        case("exp2", torch.exp2, [normal((6,), d)])
    for d in ("bool", *INTS):
        case("exp2", torch.exp2, [integers((5,), d, 0, 2 if d == "bool" else 9)], exact=True)
    for op, f in (("exp2", torch.exp2), ("frac", torch.frac)):
        layouts(op, f, binary=False)
    refused("frac", torch.frac, [integers((2,))])
    refused("frac", torch.frac, [normal((2,), "c64")])

    for d in FLOATS:
        x = tensor([0.0, 1.5, NAN, INF, -INF, -2.5], d)
        for attrs in ({"nan": 0.0}, {"nan": 2.5, "posinf": 4.0}, {"nan": -1.0, "posinf": 1.0, "neginf": -2.0}, {"nan": NAN}):
            f = lambda x: torch.nan_to_num(x, attrs["nan"], attrs.get("posinf"), attrs.get("neginf"))
            case("nan_to_num", f, [x], {k: v for k, v in attrs.items() if not math.isnan(v)}, exact=True, grad=d == "f64")
    z = torch.complex(tensor([1.0, NAN, INF, -INF, 2.0]), tensor([NAN, 1.0, -INF, INF, 3.0]))
    case("nan_to_num", torch.nan_to_num, [z], {"nan": 0.0}, exact=True, grad=False)
    case("nan_to_num", torch.nan_to_num, [normal((3,), "c128")], {"nan": 0.0})
    for d in ("bool", *INTS):
        case("nan_to_num", torch.nan_to_num, [integers((3,), d, 0, 2)], {"nan": 0.0})
    layouts("nan_to_num", lambda x: torch.nan_to_num(x, NAN), binary=False)


def binary():
    for op in ("fmod", "hypot", "logaddexp", "copysign", "fmin", "fmax"):
        f = getattr(torch, op)
        for d in FLOATS:
            # PyTorch's copysign has the sign of a NaN, and 16 bits no 1e30.
            pairs = [(a, b) for a, b in zip(A, B) if not (op == "copysign" and math.isnan(b)) and not (d == "f16" and abs(a) == 1e30)]
            case(op, f, [tensor([a for a, _ in pairs], d), tensor([b for _, b in pairs], d)], grad=False, exact=True)
            case(op, f, [normal((9,), d, 3.0), normal((9,), d, 2.0)], grad=d in ("f32", "f64"))
        layouts(op, f, scale=2.0)
        case(op, f, [normal((4,), "f16"), normal((4,))], grad=False)
        case(op, f, [normal((4,), "f32"), normal((), "f64")], grad=False)
        case(op, f, [normal((4,)), integers((4,), "i64", 1, 5)], grad=False)
        refused(op, f, [normal((2, 3)), normal((4,))])
    for d in INTS:
        a = tensor([7, 100, 3, 1, 0, 127] if d == "u8" else [7, -7, 7, -7, 0, 127], d)
        b = tensor([2, 100, 5, 9, 3, 1] if d == "u8" else [2, 2, -2, -2, 3, -1], d)
        for op in ("fmod", "copysign", "fmin", "fmax"):
            case(op, getattr(torch, op), [a, b], exact=True)
        refused("hypot", torch.hypot, [a, b])
        refused("logaddexp", torch.logaddexp, [a, b])
        refused("fmod", torch.fmod, [a, torch.zeros_like(a)])
    case("fmod", torch.fmod, [tensor([-128, -128], "i8"), tensor([-1, 3], "i8")], exact=True)
    t = tensor([True, True, False, False], "bool"), tensor([True, False, True, False], "bool")
    for op in ("copysign", "fmin", "fmax"):
        case(op, getattr(torch, op), list(t), exact=True)
    refused("fmod", torch.fmod, list(t))
    for op in ("fmod", "hypot", "copysign", "fmin", "fmax"):
        refused(op, getattr(torch, op), [normal((2,), "c64"), normal((2,), "c64")])
    for d in ("c64", "c128"):
        case("logaddexp", torch.logaddexp, [normal((5,), d), normal((5,), d)])
    for op, scalar in (("fmod", 2.5), ("fmod", -1.5), ("copysign", -2.0)):
        case(op, lambda x: getattr(torch, op)(x, scalar), [normal((6,), "f64", 4.0)], {"scalar": scalar})
    case("fmod", lambda x: torch.fmod(x, 3), [tensor([-7, 7, 3], "i32")], {"scalar": 3})
    # Where there is no derivative: zeros and equals.
    case("fmod", torch.fmod, [tensor([0.0, 3.0], "f64"), tensor([2.0, 3.0], "f64")])
    case("copysign", torch.copysign, [tensor([0.0, -1.0], "f64"), tensor([-2.0, 0.0], "f64")])
    for op in ("fmin", "fmax"):
        case(op, getattr(torch, op), [tensor([1.0, NAN, 2.0, -3.0], "f64"), tensor([1.0, 2.0, NAN, 5.0], "f64")])
    case("logaddexp", torch.logaddexp, [tensor([1.0, -INF, 800.0], "f64"), tensor([1.0, 2.0, -800.0], "f64")])


def closeness():
    a = tensor([1.0, 1.0, NAN, NAN, INF, INF, -INF, 0.0, 100.0, 1.0])
    b = tensor([1.0, 1.00002, NAN, 1.0, INF, -INF, -INF, 1e-9, 100.0005, INF])
    for rtol, atol in ((1e-5, 1e-8), (0.0, 0.0), (1e-3, 0.0), (0.0, 0.1)):
        for equal_nan in (False, True):
            attrs = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}
            f = lambda a, b: torch.isclose(a, b, **attrs)
            for d in ("f32", "f64"):
                case("isclose", f, [a.to(DTYPES[d]), b.to(DTYPES[d])], attrs)
    attrs = {"rtol": 0.0, "atol": 1.0, "equal_nan": False}
    f = lambda a, b: torch.isclose(a, b, **attrs)
    for d in ("u8", "i8", "i32", "i64", "bool"):
        case("isclose", f, [integers((4, 3), d, 0, 2 if d == "bool" else 5), integers((3,), d, 0, 2 if d == "bool" else 5)], attrs)
    for d in ("f16", "bf16", "c64", "c128"):
        case("isclose", f, [normal((2, 3), d), normal((3, 2), d)], attrs, views=[None, TURNED])
    case("isclose", f, [normal(()), normal((0, 2))], attrs)
    refused("isclose", f, [normal((2,)), normal((3,))], attrs)


SECTIONS = (unary, binary, closeness)
