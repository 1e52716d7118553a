"""The cases of torch_grad.py where there is no derivative, or where formulas divide by zero or meet infinities: what PyTorch answers."""

import math

import torch
import torch.nn.functional as F
from torch_grad import integers, point, tensor
from grad_cases.ops import scores, sdpa

INF, NAN = math.inf, math.nan
# Not 20: PyTorch takes softplus to be linear above it in the first derivative, and from it on in the second.
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 19.9, 20.5, 100.0, -100.0, 800.0, -800.0, 1e-300, INF, -INF, NAN]
EDGES32 = [0.0, -0.0, 1.0, -1.0, 20.0, 25.0, 90.0, -90.0, INF, -INF, NAN]


def functions():
    everywhere = dict(
        neg=torch.neg, abs=torch.abs, sign=torch.sign, floor=torch.floor, round=torch.round, square=torch.square, exp=torch.exp, expm1=torch.expm1,
        log=torch.log, log2=torch.log2, log10=torch.log10, log1p=torch.log1p, sqrt=torch.sqrt, rsqrt=torch.rsqrt, reciprocal=torch.reciprocal,
        sin=torch.sin, cos=torch.cos, asin=torch.asin, acos=torch.acos, atan=torch.atan, sinh=torch.sinh, cosh=torch.cosh, tanh=torch.tanh,
        asinh=torch.asinh, acosh=torch.acosh, atanh=torch.atanh, erf=torch.erf, erfinv=torch.erfinv, sigmoid=torch.sigmoid, relu=F.relu,
        gelu=F.gelu, silu=F.silu, softplus=F.softplus, angle=torch.angle, gelu_tanh=lambda x: F.gelu(x, approximate="tanh"))
    for name, f in everywhere.items():
        point(name, "edges", f, [tensor(EDGES)])
        if name in ("exp", "relu", "gelu", "gelu_tanh", "silu", "softplus", "sigmoid", "tanh", "sqrt", "log"):
            point(name, "edges", f, [tensor(EDGES32, "f32")])
    for name in ("abs", "sqrt", "log", "reciprocal", "angle"):
        point(name, "complex zero", everywhere[name], [tensor([0j, 1 + 0j, -1 + 0j, 1j], "c128")])
    point("angle", "the negative axis", torch.angle, [tensor([-1.0, -0.0, 0.0, 3.0])])


def pairs():
    a = [0.0, 0.0, 1.0, -1.0, 0.0, 2.0, INF, -INF, NAN, 1.0, INF]
    b = [0.0, 1.0, 0.0, 0.0, -1.0, 2.0, 1.0, 1.0, 1.0, NAN, INF]
    functions = dict(add=torch.add, sub=torch.sub, mul=torch.mul, div=torch.div, maximum=torch.maximum, minimum=torch.minimum, atan2=torch.atan2,
                     remainder=torch.remainder)
    for name, f in functions.items():
        point(name, "zeros, ties, infinities", f, [tensor(a), tensor(b)])
        point(name, "zeros, ties, infinities", f, [tensor(a), tensor(b)], needs=[True, False])
        point(name, "zeros, ties, infinities", f, [tensor(a), tensor(b)], needs=[False, True])
    point("maximum", "ties, broadcast", torch.maximum, [tensor([[1.0], [2.0]]), tensor([1.0, 2.0, 3.0])])
    # A division whose square overflows.
    point("div", "large and small", torch.div, [tensor([1e200, 1e-200, 1.0]), tensor([1e200, 1e-200, 1e-200])])
    base = [0.0, 0.0, 0.0, 0.0, 0.0, -2.0, -2.0, -2.0, 1.0, INF, INF, 2.0, NAN, 2.0, 0.0]
    power = [0.0, 1.0, 2.0, 0.5, -1.0, 2.0, 0.5, 0.0, INF, 0.0, 2.0, -INF, 1.0, NAN, 3.0]
    for needs in ([True, True], [True, False], [False, True]):
        point("pow", "zeros and negative bases", torch.pow, [tensor(base), tensor(power)], needs=needs)
    for exponent in (0, 1, 2, 3, -1, 0.5, 1.5, 2.0, 1.0, 0.0):
        # PyTorch's power of −1/2 is its rsqrt, −inf at −0, where IEEE 754 has inf.
        low = 0.0 if isinstance(exponent, float) else -0.0
        point("pow", "zeros and negative bases", lambda x: torch.pow(x, exponent), [tensor([0.0, low, -2.0, 1.0, INF, NAN])], {"scalar": exponent})
    for number in (0, 1, 2.0):
        point("pow", "exponents of a scalar", lambda x: number**x, [tensor([0.0, 1.0, 2.5, -1.0, INF])], {"scalar": number, "reverse": True})
    point("pow", "complex zeros", torch.pow, [tensor([0j, 0j, 1 + 1j], "c128"), tensor([2 + 0j, 1 + 1j, 0j], "c128")])
    point("div", "a zero divided by", lambda x: 2 / x, [tensor([0.0, INF, 1e-200])], {"scalar": 2, "reverse": True})
    for scalar in (1, 0.0):
        point("maximum", "a scalar tie", lambda x: torch.maximum(x, torch.tensor(float(scalar), dtype=x.dtype)), [tensor([1.0, 0.0, NAN, 2.0])], {"scalar": scalar})
        point("minimum", "a scalar tie", lambda x: torch.minimum(x, torch.tensor(float(scalar), dtype=x.dtype)), [tensor([1.0, 0.0, NAN, 2.0])], {"scalar": scalar})
    gates = [0.0, -0.0, 30.0, -30.0, INF, -INF, NAN]
    for name, f in dict(swiglu=F.silu, geglu=F.gelu, reglu=F.relu).items():
        point(name, "edges of the gate", lambda gate, up: f(gate) * up, [tensor(gates), tensor([2.0] * len(gates))])
    for name, low, high in (("both", -1, 1), ("min", -1, None), ("max", None, 1)):
        attrs = {k: v for k, v in (("min", low), ("max", high)) if v is not None}
        point("clamp", "at the bounds", lambda x: torch.clamp(x, low, high), [tensor([-1.0, 1.0, 0.0, -2.0, 2.0, INF, -INF, NAN])], attrs)
    point("clamp", "equal bounds", lambda x: torch.clamp(x, 1, 1), [tensor([1.0, 0.0, 2.0])], {"min": 1, "max": 1})
    point("lerp", "ends that are equal, infinite", lambda a, b: torch.lerp(a, b, 0.25), [tensor([1.0, NAN, 0.0]), tensor([1.0, 1.0, 0.0])], {"weight": 0.25})


def untaken():
    cond = torch.tensor([True, False, True, False])
    point("where", "NaN not taken", torch.where, [cond, tensor([1.0, NAN, INF, INF]), tensor([NAN, 2.0, -INF, 3.0])])
    point("masked_fill", "NaN masked", lambda x, m: x.masked_fill(m, 0.0), [tensor([NAN, 1.0, INF, 2.0]), cond], {"value": 0.0})


def reductions():
    ties = tensor([[2.0, 1.0, 2.0], [0.0, 0.0, 0.0], [-1.0, NAN, 3.0], [NAN, NAN, 1.0], [INF, INF, -INF]])
    for name, f in (("amax", torch.amax), ("amin", torch.amin)):
        point(name, "ties and NaN", lambda x: f(x, 1), [ties], {"dim": 1})
        point(name, "ties", lambda x: f(x, (0, 1), keepdim=True), [ties[:2]], {"dim": [0, 1], "keepdim": True})
    for name, f in (("max_dim", torch.max), ("min_dim", torch.min)):
        # Of equal elements the first.
        point(name, "ties and NaN", lambda x: tuple(f(x, 1)), [ties], {"dim": 1})
    for name, f in (("logsumexp", lambda x: torch.logsumexp(x, 1)), ("softmax", lambda x: F.softmax(x, 1)), ("log_softmax", lambda x: F.log_softmax(x, 1))):
        rows = [[-INF, 0.0, 1.0], [-INF, -INF, 2.0], [1e4, 1e4, -1e4], [NAN, 0.0, 1.0]]
        point(name, "−inf among others", f, [tensor(rows)], {"dim": 1})
        for row in ([-INF] * 3, [INF, 0.0, 1.0], [INF, INF, 0.0], [INF, -INF, 0.0]):
            point(name, "rows of infinities", f, [tensor([row])], {"dim": 1})
    for name, f in (("var", torch.var), ("std", torch.std)):
        for correction in (0, 1):
            point(name, "no variance", lambda x: f(x, dim=1, correction=correction), [tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 2.0, INF], [1.0, NAN, 2.0]])],
                  {"dim": 1, "correction": correction})
        point(name, "one element", lambda x: f(x, dim=1), [tensor([[1.0], [2.0]])], {"dim": 1})
        point(name, "one element", lambda x: f(x, dim=1, correction=0), [tensor([[1.0], [2.0]])], {"dim": 1, "correction": 0})
        point(name, "less than the correction", lambda x: f(x, dim=1, correction=3), [tensor([[1.0, 2.0]])], {"dim": 1, "correction": 3})
    for p in (0.5, 1.0, 1.5, 2.0, 3.0, INF, -INF, -1.0):
        name = {INF: "inf", -INF: "-inf"}.get(p, p)
        norm = lambda x: torch.linalg.vector_norm(x, p, dim=1)
        point("norm", "zeros", norm, [tensor([[0.0, 0.0], [0.0, 3.0], [-1.0, 2.0]])], {"p": name, "dim": 1})
        point("norm", "ties", norm, [tensor([[2.0, -2.0, 2.0]])], {"p": name, "dim": 1})
        point("norm", "infinities", norm, [tensor([[INF, 1.0], [NAN, 1.0]])], {"p": name, "dim": 1})
        if p >= 1:
            point("norm", "complex zeros", norm, [tensor([[0j, 0j], [0j, 3 + 4j]], "c128")], {"p": name, "dim": 1})
    rows = [[2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]]
    for row in rows:
        point("prod", "zeros", lambda x: x.prod(1), [tensor([row])], {"dim": 1})
        point("prod", "zeros", torch.prod, [tensor(row)], {"dim": None})
        point("cumprod", "zeros", lambda x: x.cumprod(1), [tensor([row])], {"dim": 1})
    # PyTorch divides by the element, inf/inf, unless there is a zero anywhere in the tensor.
    for row in ([INF, 2.0, 3.0], [INF, 0.0, 1.0], [NAN, 2.0, 3.0], [NAN, 0.0, 3.0]):
        point("prod", "infinities", lambda x: x.prod(1), [tensor([row, [0.0, 1.0, 2.0]])], {"dim": 1}, second=False)
        # With zeros, PyTorch's two ways, with and without create_graph, differ at infinities.
        if 0.0 not in row:
            point("cumprod", "infinities", lambda x: x.cumprod(1), [tensor([row])], {"dim": 1})
    point("cumsum", "infinities", lambda x: x.cumsum(0), [tensor([1.0, INF, NAN, 2.0])], {"dim": 0})
    i = integers([[0, 0, 1]])
    for reduce in ("amax", "amin", "prod", "mean"):
        for include_self in (True, False):
            f = lambda x, i, s: x.scatter_reduce(1, i, s, reduce, include_self=include_self)
            attrs = {"dim": 1, "reduce": reduce, "include_self": include_self}
            # Without `include_self`, PyTorch counts elements in place among those that share a tie: none is equal here.
            mine = [1.0, 2.0, 3.0] if include_self else [7.0, 8.0, 9.0]
            for x, s in ((mine, [1.0, 1.0, 2.0]), (mine, [0.0, 2.0, 0.0]), ([4.0, 0.0, 3.0], [0.0, 2.0, 5.0]), ([0.0, 0.0, 3.0], [0.0, 2.0, 5.0])):
                if x[0] == s[0] and not include_self:
                    continue
                point("scatter_reduce", "ties and zeros", f, [tensor([x]), i, tensor([s])], attrs)


def structures():
    point("sort", "ties and NaN", lambda x: tuple(x.sort(dim=0, stable=True)), [tensor([2.0, 1.0, 2.0, NAN, 1.0, -INF])], {"dim": 0, "descending": False})
    q, k, v = tensor([[[1.0, 0.5], [0.0, -1.0]]]), tensor([[[0.5, 1.0], [1.0, 0.0], [-1.0, 2.0]]]), tensor([[[1.0], [2.0], [-1.0]]])
    none = torch.tensor([[True, False, True], [False, False, False]])
    point("attention", "a row without a key", lambda q, k, v, m: scores(q, k, v, scale=0.5, mask=m), [q, k, v, none], {"scale": 0.5})
    point("attention", "a row without a key", lambda q, k, v: scores(q, k, v, scale=0.5, window=1), [torch.cat([q, q, q], 1), k[:, :2], v[:, :2]], {"scale": 0.5, "window": 1})
    some = tensor([[0.5, -INF, 0.0], [-INF, 0.0, -INF]])
    point("attention", "−inf in the mask", lambda q, k, v, m: scores(q, k, v, scale=0.5, mask=m), [q, k, v, some], {"scale": 0.5})
    for mask in (none, torch.where(none, 0.0, -INF).double()):
        point("scaled_dot_product_attention", "a row without a key", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), [q, k, v, mask], needs=[True, True, True, False])
    for name, f in (("layer_norm", lambda x: F.layer_norm(x, [3], None, None, 1e-5)), ("rms_norm", lambda x: F.rms_norm(x, [3], None, 1e-5))):
        point(name, "constant rows", f, [tensor([[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]])], {"normalized_shape": [3], "eps": 1e-5})
        point(name, "infinities", f, [tensor([[INF, 0.0, 1.0], [NAN, 1.0, 2.0]])], {"normalized_shape": [3], "eps": 1e-5})
    pool = lambda x: F.max_pool1d(x, 2, return_indices=True)
    point("max_pool", "ties and NaN", pool, [tensor([[1.0, 1.0, NAN, 2.0, -INF, -INF]])], {"n": 1, "kernel": [2]})
    singular = [[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 0.0]], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [5.0, 7.0, 9.0]], [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 1.0]]]
    for a in singular:
        point("det", "a singular matrix", torch.linalg.det, [tensor(a)])
    point("det", "singular and regular matrices", torch.linalg.det, [tensor([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]])])
    # PyTorch's second derivative is by singular values, of which equal ones give NaN; without create_graph, where the rank is one less
    # than full, it gives zeros in place of cofactors.
    point("det", "a matrix of zeros", torch.linalg.det, [torch.zeros(2, 2, dtype=torch.float64)], second=False)


SECTIONS = [functions, pairs, untaken, reductions, structures]
