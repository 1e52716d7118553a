"""Order statistics, histograms, covariances, search, distinct elements, running extrema."""

import torch
from torch_methods import DTYPES, TURNED, case, integers, normal, refused, tensor

NAN, INF = float("nan"), float("inf")
INTS, FLOATS = ("u8", "i8", "i16", "i32", "i64"), ("f16", "bf16", "f32", "f64")


def values(shape, d, high=6):
    return normal(shape, d) if d in FLOATS or d[0] == "c" else integers(shape, d, 0, 2 if d == "bool" else high)


def selections():
    """Of several equals PyTorch chooses one: values only."""
    for op, dtypes in (("median", (*INTS, *FLOATS)), ("mode", ("bool", *INTS, *FLOATS))):
        f = lambda x, dim, keepdim=False: getattr(torch, op)(x, dim, keepdim)[0]
        for d in dtypes:
            case(op, lambda x: f(x, 1), [values((3, 7), d, 4)], {"dim": 1}, grad=d in ("f32", "f64") and op == "median")
        for shape, dim, keepdim in (((2, 4, 3), 1, True), ((2, 4, 3), 0, False), ((4,), -1, True), ((), 0, False), ((1,), 0, False), ((0, 3), 1, False), ((6,), 0, False)):
            case(op, lambda x: f(x, dim, keepdim), [normal(shape, "f64")], {"dim": dim, "keepdim": keepdim}, grad=op == "median")
        case(op, lambda x: f(x, 1), [normal((4, 3), "f64")], {"dim": 1}, views=[TURNED], grad=op == "median")
        case(op, lambda x: f(x, 1), [normal((1, 5), "f64")], {"dim": 1}, views=[[["expand", [3, 5]]]], grad=op == "median")
        case(op, lambda x: f(x, 1), [tensor([[1.0, NAN, 2.0, NAN], [INF, -INF, 0.0, 0.0], [NAN, NAN, NAN, NAN]])], {"dim": 1}, grad=False)
        refused(op, lambda x: f(x, 1), [torch.zeros(2, 0)], {"dim": 1})
        refused(op, lambda x: f(x, 2), [normal((2, 3))], {"dim": 2})
        refused(op, lambda x: f(x, 0), [normal((2,), "c64")], {"dim": 0})
    refused("median", lambda x: torch.median(x, 0), [tensor([True], "bool")], {"dim": 0})
    case("mode", lambda x: torch.mode(x, 0)[0], [tensor([2, 5, 2, 5, 9], "i64")], {"dim": 0})
    case("mode", lambda x: torch.mode(x, 0)[0], [tensor([3.0, 1.0, 3.0, 2.0], "f64")], {"dim": 0})
    for d in (*INTS, *FLOATS):
        case("median_all", torch.median, [values((3, 4), d)], grad=d in ("f32", "f64"))
    for x in (normal(()), torch.zeros(0), tensor([1.0, NAN, 0.0])):
        case("median_all", torch.median, [x], grad=False)
    case("median_all", torch.median, [tensor([1.0, 2.0, 2.0, 2.0, 5.0], "f64")])
    case("median_all", torch.median, [normal((3, 5), "f64")], views=[TURNED])


def quantiles():
    for d in ("f32", "f64"):
        for how in ("linear", "lower", "higher", "midpoint", "nearest"):
            q = tensor([0.0, 0.1, 0.5, 0.25, 0.9, 1.0], d)
            f = lambda x, q: torch.quantile(x, q, 1, interpolation=how)
            case("quantile", lambda x: f(x, q), [normal((3, 6), d)], {"q": q.tolist(), "dim": 1, "how": how}, exact=d == "f32", grad=d == "f64")
            case("quantile", f, [normal((3, 6), d), q], {"dim": 1, "how": how}, exact=d == "f32", grad=d == "f64" and how not in ("linear",))
            case("quantile", lambda x: torch.quantile(x, 0.3, interpolation=how), [normal((2, 5), d)], {"scalar": 0.3, "how": how}, exact=d == "f32", grad=d == "f64")
    for shape, q, dim, keepdim in (((2, 3, 4), 0.4, 1, True), ((2, 3, 4), [0.2, 0.7], -1, True), ((2, 3, 4), [0.2], 0, False), ((2, 3), [0.5, 0.5], None, True), ((2, 3), 0.5, None, True),
                                   ((), 0.5, 0, True), ((), [0.5], None, False), ((1,), 0.7, 0, False), ((0, 3), 0.5, 1, False)):
        t = torch.tensor(q, dtype=torch.float64)
        attrs = {"q": q, "keepdim": keepdim, "how": "linear"} | ({} if dim is None else {"dim": dim})
        if shape == (0, 3):
            refused("quantile", lambda x: torch.quantile(x, t, dim, keepdim), [normal(shape, "f64")], attrs)
            continue
        case("quantile", lambda x: torch.quantile(x, t, dim, keepdim), [normal(shape, "f64")], attrs)
    case("quantile", lambda x: torch.quantile(x, 0.3, 1), [normal((4, 3), "f64")], {"scalar": 0.3, "dim": 1, "how": "linear"}, views=[TURNED])
    case("quantile", lambda x: torch.quantile(x, 0.3, 1), [tensor([[1.0, NAN, 0.0], [1.0, 2.0, 3.0]], "f64")], {"scalar": 0.3, "dim": 1, "how": "linear"}, grad=False)
    x = normal((4,), "f64")
    for q in (1.5, -0.1, NAN):
        if q == q:
            refused("quantile", lambda x: torch.quantile(x, q), [x], {"scalar": q, "how": "linear"})
    refused("quantile", lambda x, q: torch.quantile(x, q), [x, tensor([0.5, 2.0], "f64")], {"how": "linear"})
    refused("quantile", lambda x, q: torch.quantile(x, q), [x, tensor([0.5])], {"how": "linear"})
    refused("quantile", lambda x, q: torch.quantile(x, q), [x, tensor([[0.5]], "f64")], {"how": "linear"})
    refused("quantile", lambda x: torch.quantile(x, 0.5), [integers((3,))], {"scalar": 0.5, "how": "linear"})
    refused("quantile", lambda x: torch.quantile(x, 0.5), [normal((3,), "f16")], {"scalar": 0.5, "how": "linear"})


def counting():
    for d in ("bool", *INTS, *FLOATS):
        f = lambda x: torch.unique(x, return_inverse=True, return_counts=True)
        case("unique", f, [values((3, 4), d, 4)], {"values": True}, grad=False)
    for x, view in ((tensor([0.0, -0.0, INF, NAN, 1.0, -INF, NAN, 1.0]), None), (torch.zeros(0), None), (torch.zeros(2, 0), None), (normal(()), None), (integers((3, 4)), TURNED)):
        case("unique", f, [x], {"values": True}, views=[view], grad=False)
    refused("unique", torch.unique, [normal((3,), "c64")])

    for d in INTS:
        case("bincount", torch.bincount, [integers((9,), d, 0, 6)], {"minlength": 0, "values": True})
    for d in ("bool", *INTS, *FLOATS):
        case("bincount", torch.bincount, [integers((9,), "i64", 0, 6), values((9,), d)], {"minlength": 0, "values": True}, exact=True, grad=False)
    for minlength in (0, 3, 20):
        f = lambda x, *w: torch.bincount(x, *w, minlength=minlength)
        case("bincount", f, [tensor([1, 4, 4], "i64")], {"minlength": minlength, "values": True})
        case("bincount", f, [torch.zeros(0, dtype=torch.int64)], {"minlength": minlength, "values": True})
        case("bincount", f, [torch.zeros(0, dtype=torch.int64), torch.zeros(0)], {"minlength": minlength, "values": True})
    case("bincount", torch.bincount, [integers((8,), "i64", 0, 6)], {"minlength": 0, "values": True}, views=[[["slice", 0, 0, 8, 3]]])
    for bad in ([tensor([-1, 2], "i64")], [tensor([1.0])], [integers((2, 2))], [integers((3,)), normal((2,))]):
        refused("bincount", torch.bincount, bad, {"minlength": 0})

    for d in FLOATS:
        x = tensor([0.25, 0.5, 1.0, -0.5, 2.0, 1.75, 0.0, 1.0, NAN, INF, -INF, 3.5], d)
        case("histc", lambda x: torch.histc(x, 4, 0, 2), [x], {"bins": 4, "min": 0.0, "max": 2.0}, grad=False)
        case("histc", lambda x: torch.histc(x, 5), [normal((20,), d)], {"bins": 5, "min": 0.0, "max": 0.0}, grad=False, exact=True)
    for x in (tensor([1.0, 1.0]), torch.zeros(0), tensor(2.0), normal((3, 4))):
        case("histc", lambda x: torch.histc(x, 4), [x], {"bins": 4, "min": 0.0, "max": 0.0}, grad=False)
    case("histc", lambda x: torch.histc(x, 3, -1, 1), [normal((3, 4))], {"bins": 3, "min": -1.0, "max": 1.0}, views=[TURNED], grad=False)
    refused("histc", lambda x: torch.histc(x, 4), [tensor([1.0, INF])], {"bins": 4, "min": 0.0, "max": 0.0})
    refused("histc", lambda x: torch.histc(x, 4), [tensor([1.0, NAN])], {"bins": 4, "min": 0.0, "max": 0.0})
    refused("histc", lambda x: torch.histc(x, 0), [normal((2,))], {"bins": 0, "min": 0.0, "max": 0.0})
    refused("histc", lambda x: torch.histc(x, 3, 2, 1), [normal((2,))], {"bins": 3, "min": 2.0, "max": 1.0})
    refused("histc", lambda x: torch.histc(x, 3), [integers((2,))], {"bins": 3, "min": 0.0, "max": 0.0})


def searching():
    for right in (False, True):
        attrs = {"right": right}
        f = lambda s, v: torch.searchsorted(s, v, right=right)
        for d in (*INTS, *FLOATS):
            s, v = tensor([1, 3, 3, 5, 7, 7, 7], d), tensor([[0, 1, 2], [3, 7, 9]], d)
            case("searchsorted", f, [s, v], attrs, grad=False)
            case("bucketize", lambda v, s: torch.bucketize(v, s, right=right), [v, s], attrs, grad=False)
        for n in (1, 2, 3, 4, 8, 9, 17):
            case("searchsorted", f, [torch.sort(integers((n,), "i32", 0, 9))[0], torch.arange(-1, 10, dtype=torch.int32)], attrs)
        rows = torch.sort(normal((2, 3, 5)), -1)[0]
        case("searchsorted", f, [rows, normal((2, 3, 4))], attrs, grad=False)
        case("searchsorted", f, [rows, normal((3, 2, 4))], attrs, views=[None, TURNED], grad=False)
        case("searchsorted", f, [torch.sort(normal((4, 3)), 0)[0], normal((4, 3))], attrs, views=[TURNED, TURNED], grad=False)
        for s, v in ((torch.zeros(0), normal((2,))), (tensor([1.0]), torch.zeros(0, 2)), (tensor([1.0, 2.0]), tensor(1.5)), (tensor([-INF, 0.0, INF]), tensor([INF, -INF, NAN, 0.0]))):
            case("searchsorted", f, [s, v], attrs, grad=False)
        case("bucketize", lambda v, s: torch.bucketize(v, s, right=right), [tensor(2.0), tensor([1.0, 2.0])], attrs, grad=False)
    attrs = {"right": False}
    case("searchsorted", torch.searchsorted, [tensor([1, 2, 3], "i64"), tensor([1.5, 2.5])], attrs, grad=False)
    case("searchsorted", torch.searchsorted, [tensor([1.5, 2.5]), tensor([1, 2, 3], "u8")], attrs, grad=False)
    for s, v in ((normal((2, 3)), normal((3, 3))), (normal((2, 3)), normal((3,))), (tensor([1.0], "c64"), tensor([1.0], "c64")), (tensor([True], "bool"), tensor([True], "bool"))):
        refused("searchsorted", torch.searchsorted, [s, v], attrs)
    refused("bucketize", torch.bucketize, [normal((2,)), normal((2, 3))], attrs)


def running():
    for op in ("cummax", "cummin"):
        f = lambda x, dim: tuple(getattr(torch, op)(x, dim))
        for d in ("bool", *INTS, *FLOATS):
            case(op, lambda x: f(x, 1), [values((2, 9), d, 4)], {"dim": 1}, grad=d in ("f32", "f64"))
        for shape, dim in (((4, 3), 0), ((2, 5, 3), -2), ((), 0), ((1,), 0), ((0, 3), 0), ((0, 3), 1), ((33,), 0)):
            case(op, lambda x: f(x, dim), [normal(shape, "f64")], {"dim": dim})
        case(op, lambda x: f(x, 1), [normal((5, 3), "f64")], {"dim": 1}, views=[TURNED])
        case(op, lambda x: f(x, 0), [tensor([1.0, INF, -INF, NAN, 5.0, NAN, 0.0])], {"dim": 0}, grad=False)
        refused(op, lambda x: f(x, 2), [normal((2, 3))], {"dim": 2})
        refused(op, lambda x: f(x, 0), [normal((2,), "c64")], {"dim": 0})
    f = lambda x, dim: torch.logcumsumexp(x, dim)
    for d in (*FLOATS, "c64", "c128"):
        case("logcumsumexp", lambda x: f(x, 1), [normal((2, 9), d)], {"dim": 1}, grad=d in ("f32", "f64", "c128"))
    for shape, dim in (((4, 3), 0), ((2, 5, 3), -2), ((), 0), ((1,), 0), ((0, 3), 0), ((0, 3), 1), ((33,), 0)):
        case("logcumsumexp", lambda x: f(x, dim), [normal(shape, "f64")], {"dim": dim})
    case("logcumsumexp", lambda x: f(x, 1), [normal((5, 3), "f64", 100.0)], {"dim": 1}, views=[TURNED])
    for x in ([1.0, NAN, 2.0], [-INF, -INF, 1.0, INF, 2.0, -INF], [1000.0, 1000.0, -1000.0]):
        case("logcumsumexp", lambda x: f(x, 0), [tensor(x)], {"dim": 0}, grad=False)
    refused("logcumsumexp", lambda x: f(x, 0), [integers((3,))], {"dim": 0})
    refused("logcumsumexp", lambda x: f(x, 2), [normal((2, 3))], {"dim": 2})


def covariances():
    for d in (*INTS, *FLOATS, "c64", "c128"):
        grad = d in ("f32", "f64", "c128")
        case("cov", torch.cov, [values((3, 6), d)], {"correction": 1}, grad=grad, exact=d in INTS)
        case("corrcoef", torch.corrcoef, [values((3, 6), d)], grad=grad, exact=d in INTS)
    fw, aw = tensor([1, 2, 0, 3, 1, 1], "i64"), tensor([0.5, 1.0, 2.0, 0.25, 0.0, 1.5], "f64")
    for correction in (0, 1, 2):
        attrs = {"correction": correction}
        case("cov", lambda x, f: torch.cov(x, correction=correction, fweights=f), [normal((2, 6), "f64"), fw], attrs | {"with": ["fweights"]})
        case("cov", lambda x, a: torch.cov(x, correction=correction, aweights=a), [normal((2, 6), "f64"), aw], attrs | {"with": ["aweights"]})
        case("cov", lambda x, f, a: torch.cov(x, correction=correction, fweights=f, aweights=a), [normal((2, 6), "f64"), fw, aw], attrs | {"with": ["fweights", "aweights"]})
        case("cov", lambda x: torch.cov(x, correction=correction), [normal((2, 3), "f64")], attrs)
    case("cov", lambda x, a: torch.cov(x, aweights=a), [normal((2, 6), "f32"), aw], {"correction": 1, "with": ["aweights"]}, grad=False)
    case("cov", lambda x, f: torch.cov(x, fweights=f), [normal((2, 6), "f16"), fw.int()], {"correction": 1, "with": ["fweights"]}, grad=False)
    case("cov", lambda x, a: torch.cov(x, aweights=a), [normal((2, 6), "c128"), aw], {"correction": 1, "with": ["aweights"]})
    for op, f in (("cov", torch.cov), ("corrcoef", torch.corrcoef)):
        attrs = {"correction": 1}
        for shape in ((5,), (1, 4), (), (3, 1), (2, 0)):
            case(op, f, [normal(shape, "f64")], attrs, grad=shape in ((5,), (1, 4)) and op == "cov")
        case(op, f, [normal((5, 3), "f64")], attrs, views=[TURNED])
        case(op, f, [tensor([[1.0, NAN, 2.0], [1.0, 2.0, 4.0]])], attrs, grad=False)
        refused(op, f, [normal((2, 2, 2))], attrs)
        refused(op, f, [tensor([[True, False]], "bool")], attrs)
    for name, w in (("fweights", fw[:2]), ("fweights", -fw), ("fweights", aw), ("aweights", -aw), ("aweights", fw), ("aweights", aw[:3])):
        refused("cov", lambda x, w: torch.cov(x, **{name: w}), [normal((2, 6), "f64"), w], {"correction": 1, "with": [name]})


SECTIONS = (selections, quantiles, counting, searching, running, covariances)
