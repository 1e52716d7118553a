"""Methods that are a few lines of others: stacking, splitting, special functions, sums without NaN, windows."""

import math

import torch
from torch_methods import TURNED, case, integers, normal, refused, tensor

NAN, INF = math.nan, math.inf
FLOATS = ("f32", "f64", "f16", "bf16")


def stacking():
    groups = ([(), ()], [(3,), (3,)], [(2, 3), (2, 3)], [(2, 3, 4), (2, 3, 4)], [(), (1,)], [(0,), (0,)])
    for op in ("hstack", "vstack", "dstack", "column_stack"):
        f = getattr(torch, op)
        for shapes in groups:
            case(op, lambda *x: f(x), [normal(s, "f64") for s in shapes])
        case(op, lambda *x: f(x), [normal((2, 3)), integers((2, 3))])
        refused(op, lambda *x: f(x), [normal((2, 3)), normal((4, 5))])
        refused(op, lambda *x: f(x), [normal((2, 3)), normal((2, 3, 1, 1))])
    case("hstack", lambda *x: torch.hstack(x), [normal((2,)), normal((3,))])
    case("hstack", lambda *x: torch.hstack(x), [normal((2, 1), "f64"), normal((2, 3), "f64").T.contiguous()], views=[None, TURNED])
    case("vstack", lambda *x: torch.vstack(x), [normal((3,)), normal((2, 3))])
    case("column_stack", lambda *x: torch.column_stack(x), [normal((3,)), normal((3, 2)), normal((3,))])
    case("dstack", lambda *x: torch.dstack(x), [normal((2, 3)), normal((2, 3, 2))])
    for n in (1, 2, 3):
        for shape in ((), (3,), (2, 3), (2, 3, 4), (2, 1, 3, 2), (0,)):
            case(f"atleast_{n}d", getattr(torch, f"atleast_{n}d"), [normal(shape, "f64")])
    case("broadcast_tensors", lambda *x: torch.broadcast_tensors(*x), [normal((3, 1), "f64"), normal((4,), "f64"), normal((), "f64")])
    refused("broadcast_tensors", lambda *x: torch.broadcast_tensors(*x), [normal((3,)), normal((4,))])
    for shape, parts, dim in (((7,), 3, 0), ((2, 5), 2, 1), ((2, 5), 7, -1), ((0, 3), 2, 0), ((6,), 1, 0)):
        case("tensor_split", lambda x: torch.tensor_split(x, parts, dim), [normal(shape, "f64")], {"sections": parts, "dim": dim})
    refused("tensor_split", lambda x: torch.tensor_split(x, 0), [normal((3,))], {"sections": 0, "dim": 0})


def diagonals():
    for shapes in ([(2, 3), (1, 1)], [(2,), (), (3, 1)], [(0, 2), (2, 2)], [(2, 0), (1, 2)], [(3, 3)]):
        case("block_diag", lambda *x: torch.block_diag(*x), [normal(s, "f64") for s in shapes])
    case("block_diag", lambda *x: torch.block_diag(*x), [integers((2, 2)), normal((1, 2))])
    refused("block_diag", lambda *x: torch.block_diag(*x), [normal((2, 2, 2))])
    for shape in ((3,), (2, 3), (2, 1, 4), (0,), (2, 0), (0, 2)):
        for offset in (0, 1, -2):
            case("diag_embed", lambda x: torch.diag_embed(x, offset), [normal(shape, "f64")], {"offset": offset})
    case("diag_embed", torch.diag_embed, [normal((3, 2))], {"offset": 0}, views=[TURNED])
    refused("diag_embed", torch.diag_embed, [normal(())], {"offset": 0})


def elements():
    for d in FLOATS:
        edges = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, INF, -INF, NAN]
        for op, f in (("heaviside", torch.heaviside),):
            case(op, f, [tensor(edges, d), tensor([7.0], d)], grad=False)
        for op in ("signbit", "sgn", "sinc"):
            case(op, getattr(torch, op), [tensor(edges, d)], grad=False, exact=op == "signbit")
        case("logit", torch.logit, [tensor([0.0, 1.0, 0.5, 0.25, -1.0, 2.0, NAN], d)], grad=False)
        case("logit", lambda x: torch.logit(x, 0.125), [tensor([0.0, 1.0, 0.5, 0.25, -1.0, 2.0, NAN], d)], {"eps": 0.125}, grad=False)
        case("entr", torch.special.entr, [tensor([0.0, -0.0, 1.0, 0.5, 3.0, -1.0, INF, NAN], d)], grad=False)
        a, b = [0.0, 0.0, 0.0, 0.0, 2.0, 2.0, -1.0], [-1.0, INF, NAN, -2.0, -1.0, 1e-4, 3.0]
        case("xlog1py", torch.special.xlog1py, [tensor(a, d), tensor(b, d)], grad=False)
        case("addcmul", lambda x, a, b: torch.addcmul(x, a, b, value=0.5), [normal((3,), d), normal((2, 1), d), normal((3,), d)], {"value": 0.5}, grad=d in ("f32", "f64"))
        case("addcdiv", lambda x, a, b: torch.addcdiv(x, a, b, value=2.0), [normal((3,), d), normal((2, 1), d), normal((3,), d).abs() + 0.5], {"value": 2.0}, grad=d in ("f32", "f64"))
    for op, f in (("sinc", torch.sinc), ("sgn", torch.sgn)):
        case(op, f, [normal((2, 5), "f64")], views=[TURNED])
        case(op, f, [normal((0, 3))])
        case(op, f, [normal(())])
    for d in ("c64", "c128"):
        case("sgn", torch.sgn, [torch.cat([normal((5,), d), torch.zeros(1).to(normal((1,), d).dtype)])])
        case("addcmul", lambda x, a, b: torch.addcmul(x, a, b, value=1), [normal((3,), d) for _ in range(3)], {"value": 1.0})
        case("addcdiv", lambda x, a, b: torch.addcdiv(x, a, b, value=1), [normal((3,), d) for _ in range(3)], {"value": 1.0})
    unit = normal((3, 4), "f64").sigmoid()
    case("logit", torch.logit, [unit])
    case("entr", torch.special.entr, [unit])
    case("xlog1py", torch.special.xlog1py, [unit, normal((4,), "f64").exp()])
    case("xlog1py", torch.special.xlog1py, [integers((4,)), unit])
    for d in ("i32", "i64", "u8"):
        case("heaviside", torch.heaviside, [integers((5,), d, 0, 3), integers((5,), d, 0, 9)])
        case("signbit", torch.signbit, [integers((5,), d, 0, 3)])
        case("entr", torch.special.entr, [integers((4,), d, 0, 3)])
        case("sinc", torch.sinc, [integers((4,), d, 0, 3)])
        case("sgn", torch.sgn, [integers((4,), d, 0, 3)])
    case("addcmul", lambda x, a, b: torch.addcmul(x, a, b, value=3), [integers((3,)), integers((2, 1)), integers((3,))], {"value": 3})
    refused("heaviside", torch.heaviside, [normal((2,)), normal((2,), "f64")])
    refused("heaviside", torch.heaviside, [normal((2,), "c64"), normal((2,), "c64")])
    refused("signbit", torch.signbit, [normal((2,), "c64")])
    refused("entr", torch.special.entr, [normal((2,), "c64")])
    refused("addcdiv", lambda x, a, b: torch.addcdiv(x, a, b), [integers((2,)), integers((2,)), integers((2,), low=1)], {"value": 1})


def sums():
    for d in ("f32", "f64"):
        x = normal((3, 4), d)
        x[0, 1] = x[2, 3] = x[1, 1] = NAN
        for dim, keep in ((0, False), (1, True), ([0, 1], False)):
            attrs = {"dims": dim if isinstance(dim, list) else [dim], "keepdim": keep}
            case("nansum", lambda x: torch.nansum(x, dim, keep), [x], attrs)
            case("nanmean", lambda x: torch.nanmean(x, dim, keep), [x], attrs)
    case("nansum", lambda x: torch.nansum(x, 0), [integers((3,))], {"dims": [0], "keepdim": False})
    case("nanmean", lambda x: torch.nanmean(x, 0), [tensor([NAN, NAN])], {"dims": [0], "keepdim": False}, grad=False)
    refused("nanmean", lambda x: torch.nanmean(x, 0), [integers((3,))], {"dims": [0], "keepdim": False})
    for shape, dim in (((5,), 0), ((3, 4), 0), ((3, 4), -1), ((1,), 0), ((2, 0), 1)):
        case("trapezoid", lambda x: torch.trapezoid(x, dx=0.5, dim=dim), [normal(shape, "f64")], {"dx": 0.5, "dim": dim})
    case("trapezoid", lambda x: torch.trapezoid(x, dx=0.5, dim=0), [integers((5,))], {"dx": 0.5, "dim": 0})


def search():
    for d in ("f32", "i64", "u8"):
        x, test = integers((4, 5), d), integers((2, 3), d)
        case("isin", torch.isin, [x, test], grad=False)
        case("isin", torch.isin, [x, integers((0,), d)], grad=False)
    case("isin", torch.isin, [tensor([NAN, 1.0, INF]), tensor([NAN, INF])], grad=False)
    case("isin", torch.isin, [integers((3,)), tensor([0.5, 3.0, 4.0])], grad=False)
    case("isin", torch.isin, [integers(()), integers((9,))], grad=False)
    refused("isin", torch.isin, [normal((2,), "c64"), normal((2,), "c64")])


def powers():
    for d in ("f32", "f64", "c128"):
        a = normal((2, 3, 3), d, 0.5) + torch.eye(3)
        for n in (0, 1, 2, 3, 6, 11, -1, -3):
            case("linalg.matrix_power", lambda a: torch.linalg.matrix_power(a, n), [a.to(normal((1,), d).dtype)], {"n": n}, grad=d != "f32")
    case("linalg.matrix_power", lambda a: torch.linalg.matrix_power(a, 2), [normal((0, 0))], {"n": 2}, grad=False)
    refused("linalg.matrix_power", lambda a: torch.linalg.matrix_power(a, 2), [normal((2, 3))], {"n": 2})


def windows():
    w = torch.signal.windows
    more = {
        "exponential": {"tau": 2.5}, "gaussian": {"std": 1.75}, "kaiser": {"beta": 8.5}, "general_hamming": {"alpha": 0.6},
        "general_cosine": {"a": [0.5, 0.25, 0.125, 0.0625]},
    }
    for name in ("bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann", "kaiser", "nuttall"):
        for m in (0, 1, 2, 5, 12):
            for sym in (True, False):
                attrs = {"m": m, "sym": sym} | more.get(name, {})
                # An input, for the dtype.
                f = lambda like: getattr(w, name)(m, sym=sym, dtype=like.dtype, **more.get(name, {}))
                case(f"signal.windows.{name}", f, [normal((), "f64")], attrs, grad=False)
        refused(f"signal.windows.{name}", lambda like: getattr(w, name)(3, dtype=like.dtype, **more.get(name, {})), [integers(())], {"m": 3, "sym": True} | more.get(name, {}))
    refused("signal.windows.gaussian", lambda like: w.gaussian(3, std=0.0), [normal(())], {"m": 3, "sym": True, "std": 0.0})
    refused("signal.windows.kaiser", lambda like: w.kaiser(3, beta=-1.0), [normal(())], {"m": 3, "sym": True, "beta": -1.0})


SECTIONS = (stacking, diagonals, elements, sums, search, powers, windows)
