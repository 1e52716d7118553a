"""The regular cases of torch_grad.py: every differentiable operation where it has a derivative."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch_grad import case, integers, normal, positive, rng, tensor

BOTH = ("f64", "f32")


def unary():
    anywhere = dict(
        neg=torch.neg, abs=torch.abs, sign=torch.sign, floor=torch.floor, ceil=torch.ceil, round=torch.round, trunc=torch.trunc, square=torch.square,
        exp=torch.exp, expm1=torch.expm1, reciprocal=torch.reciprocal, sin=torch.sin, cos=torch.cos, tan=torch.tan, atan=torch.atan, sinh=torch.sinh,
        cosh=torch.cosh, tanh=torch.tanh, asinh=torch.asinh, sigmoid=torch.sigmoid, relu=F.relu, gelu=F.gelu,
        gelu_tanh=lambda x: F.gelu(x, approximate="tanh"), silu=F.silu, softplus=F.softplus, erf=torch.erf, angle=torch.angle)
    above_zero = dict(log=torch.log, log2=torch.log2, log10=torch.log10, log1p=torch.log1p, sqrt=torch.sqrt, rsqrt=torch.rsqrt)
    within_one = dict(asin=torch.asin, acos=torch.acos, atanh=torch.atanh, erfinv=torch.erfinv)
    for d in BOTH:
        for name, f in anywhere.items():
            case(name, f, [tensor([[-2.3, -0.7, -0.1], [0.2, 0.9, 1.7]], d)])
        for name, f in above_zero.items():
            case(name, f, [tensor([0.05, 0.4, 1.0, 2.5, 70.0], d)])
        for name, f in within_one.items():
            case(name, f, [tensor([-0.9, -0.3, 0.02, 0.6], d)])
        case("acosh", torch.acosh, [tensor([1.1, 2.0, 9.0], d)])
        for name in ("exp", "tanh", "gelu"):
            case(name, anywhere[name], [torch.empty(0, 3, dtype=tensor(0.0, d).dtype)])
            case(name, anywhere[name], [tensor(0.3, d)])
    plane = [1 + 2j, -0.5 + 0.25j, 0.3 - 0.4j, -2 - 1j, 0.5 + 0j]
    everywhere = ("neg", "abs", "square", "exp", "reciprocal", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "sigmoid", "angle")
    for name, f in {**anywhere, **above_zero, **within_one, "acosh": torch.acosh, "conj": lambda x: torch.conj(x).resolve_conj(), "real": torch.real,
                    "imag": torch.imag}.items():
        if name in everywhere or name in ("log", "log2", "log10", "sqrt", "rsqrt", "asin", "acos", "atanh", "acosh", "conj", "real", "imag"):
            case(name, f, [tensor(plane, "c128")])


def binary():
    functions = dict(add=torch.add, sub=torch.sub, mul=torch.mul, div=torch.div, pow=torch.pow, maximum=torch.maximum, minimum=torch.minimum,
                     atan2=torch.atan2, remainder=torch.remainder)
    for name, f in functions.items():
        draw = positive if name == "pow" else normal
        for d in BOTH:
            case(name, f, [draw((2, 3), d), draw((2, 3), d)])
        for s, t in (((2, 1), (1, 3)), ((3,), (2, 3)), ((2, 2), ()), ((), (3,)), ((0, 2), (1, 2))):
            case(name, f, [draw(s), draw(t)])
        for needs in ([True, False], [False, True]):
            case(name, f, [draw((2, 3)), draw((3,))], needs=needs)
        scalars = (2, 0.5, -1.5) if name != "pow" else (0, 1, 2, 3, -1, 0.5, -2.5, 1.7)
        for scalar in scalars if name not in ("maximum", "minimum", "atan2") else ():
            case(name, lambda x: f(x, scalar), [draw((5,))], {"scalar": scalar})
    # Quotients that are rounded across an integer.
    case("remainder", torch.remainder, [tensor([1.0, 0.3, -0.6]), tensor([0.1, -0.1, 0.2])])
    for scalar in (0.5, -1):
        other = torch.tensor(float(scalar), dtype=torch.float64)
        case("maximum", lambda x: torch.maximum(x, other), [normal((5,))], {"scalar": scalar})
        case("minimum", lambda x: torch.minimum(x, other), [normal((5,))], {"scalar": scalar})
        case("atan2", lambda x: torch.atan2(x, other), [normal((5,))], {"scalar": scalar})
    for scalar in (2, 0.5):
        case("sub", lambda x: scalar - x, [normal((3,))], {"scalar": scalar, "reverse": True})
        case("div", lambda x: scalar / x, [positive((3,))], {"scalar": scalar, "reverse": True})
        case("pow", lambda x: scalar**x, [normal((3,))], {"scalar": scalar, "reverse": True})
    for name in ("add", "sub", "mul", "div", "pow"):
        f = functions[name]
        case(name, f, [normal((2, 2), "c128"), normal((2, 2), "c128")])
        case(name, f, [normal((2, 1), "c128"), normal((3,), "c128")])
        case(name, f, [positive((3,)), normal((3,), "c128")])
        case(name, f, [normal((3,), "c128"), normal((3,))])
        case(name, lambda x: f(x, 1.5), [normal((3,), "c128")], {"scalar": 1.5})
        case(name, lambda x: f(x, 0.5 - 1j), [normal((3,), "c128")], {"scalar": {"re": 0.5, "im": -1.0}})
        case(name, lambda x: f(x, 0.5 - 1j), [positive((3,))], {"scalar": {"re": 0.5, "im": -1.0}})
        # The gradient of the narrower operand is narrow.
        case(name, f, [positive((3,), "f32"), positive((3,), "f64")], plain=True)
        case(name, f, [positive((3,), "f64"), positive((1,), "f32")], plain=True)
    case("pow", lambda x: (0.5 + 1j) ** x, [normal((3,), "c128")], {"scalar": {"re": 0.5, "im": 1.0}, "reverse": True})
    case("complex", torch.complex, [normal((3,)), normal((3,))])
    case("complex", torch.complex, [normal((3,)), normal((3,))], needs=[False, True])
    case("polar", torch.polar, [positive((3,)), normal((3,))])
    case("polar", torch.polar, [positive((3,)), normal((3,))], needs=[True, False])


def selection():
    cond = torch.tensor([[True], [False], [True]])
    for d in (*BOTH, "c128"):
        case("where", torch.where, [cond, normal((3, 2), d), normal((2,), d)])
        case("masked_fill", lambda x, m: x.masked_fill(m, -1.5), [normal((3, 2), d), cond], {"value": -1.5})
    case("where", torch.where, [cond, normal((3, 2)), normal(())], needs=[False, True, False])
    case("where", torch.where, [cond, normal((1, 2), "f32"), normal((3, 1), "f64")], plain=True)
    for d in BOTH:
        x = tensor([-3.0, -0.6, 0.1, 0.8, 4.0], d)
        case("clamp", lambda x: x.clamp(-0.5, 1), [x], {"min": -0.5, "max": 1})
        case("clamp", lambda x: x.clamp_min(-0.5), [x], {"min": -0.5})
        case("clamp", lambda x: x.clamp_max(1), [x], {"max": 1})
        case("clamp", lambda x: x.clamp(1, -1), [x], {"min": 1, "max": -1})
        case("lerp", lambda a, b: torch.lerp(a, b, 0.3), [normal((3,), d), normal((3,), d)], {"weight": 0.3})
        case("lerp", torch.lerp, [normal((2, 3), d), normal((3,), d), normal((2, 1), d)])
        glus = dict(swiglu=F.silu, geglu=F.gelu, geglu_tanh=lambda x: F.gelu(x, approximate="tanh"), reglu=F.relu)
        for name, f in glus.items():
            case(name, lambda gate, up: f(gate) * up, [normal((2, 3), d), normal((2, 3), d)])
        case("swiglu", lambda gate, up: F.silu(gate) * up, [normal((2, 3), d), normal((2, 3), d)], needs=[False, True])
    for a, b in (("f32", "f64"), ("f64", "f32"), ("f32", "bf16"), ("bf16", "f32"), ("f64", "c128"), ("c128", "c64"), ("c64", "c128"), ("f32", "f32")):
        to = tensor(0.0, b).dtype
        case("cast", lambda x: x.to(to), [normal((4,), a)], {"to": [b]}, plain=True)
    case("masked_select", torch.masked_select, [normal((2, 3)), torch.tensor([[True, False, True], [False, True, True]])])


def reductions():
    axes = ((None, False), (0, False), (-1, True), ([0, 2], False), ([1], True))
    plain = dict(sum=torch.sum, mean=torch.mean, amax=torch.amax, amin=torch.amin, logsumexp=torch.logsumexp)
    for name, f in plain.items():
        for dim, keepdim in axes:
            every = list(range(3)) if dim is None else dim
            case(name, lambda x: f(x, dim=every, keepdim=keepdim), [normal((2, 3, 2))], {"dim": dim, "keepdim": keepdim})
        case(name, lambda x: f(x, dim=[0]), [normal((5,), "f32")], {"dim": 0})
        case(name, lambda x: f(x, dim=[]) if name in ("sum", "mean") else f(x, dim=0), [normal(())], {"dim": None})
    for name in ("sum", "mean"):
        case(name, lambda x: plain[name](x, dim=0), [normal((2, 2), "c128")], {"dim": 0})
        case(name, lambda x: plain[name](x, dim=1), [torch.zeros(0, 2, dtype=torch.float64)], {"dim": 1})
    no_zero = positive((3, 4))
    for zeros in ((), ((0, 1),), ((0, 1), (0, 2)), ((0, 0), (1, 3), (2, 1), (2, 2))):
        x = no_zero.clone()
        for i, j in zeros:
            x[i, j] = 0
        case("prod", torch.prod, [x], {"dim": None})
        case("prod", lambda x: x.prod(1, keepdim=True), [x], {"dim": 1, "keepdim": True})
        case("prod", lambda x: x.prod(0), [x], {"dim": 0})
        case("cumprod", lambda x: x.cumprod(1), [x], {"dim": 1})
        case("cumprod", lambda x: x.cumprod(0), [x], {"dim": 0})
    case("prod", lambda x: x.prod(0), [positive((4,), "f32")], {"dim": 0})
    case("prod", lambda x: x.prod(0), [normal((3, 2), "c128")], {"dim": 0})
    case("cumprod", lambda x: x.cumprod(0), [normal((3, 2), "c128")], {"dim": 0})
    case("cumprod", lambda x: x.cumprod(0), [positive((4,), "f32")], {"dim": 0})
    case("cumprod", lambda x: x.cumprod(0), [normal(())], {"dim": 0})
    for name, f in (("max_dim", torch.max), ("min_dim", torch.min)):
        for dim, keepdim in ((0, False), (1, True), (-1, False)):
            case(name, lambda x: tuple(f(x, dim, keepdim)), [normal((3, 4))], {"dim": dim, "keepdim": keepdim})
        case(name, lambda x: tuple(f(x, 0)), [normal((4,), "f32")], {"dim": 0})
    for name, f in (("var", torch.var), ("std", torch.std)):
        for dim, keepdim, correction in ((None, False, 1), (1, True, 0), ([0, 2], False, 2), (0, False, 0.5)):
            case(name, lambda x: f(x, dim=dim, keepdim=keepdim, correction=correction), [normal((2, 3, 2))],
                 {"dim": dim, "keepdim": keepdim, "correction": correction})
        case(name, lambda x: f(x, dim=0), [normal((5,), "f32")], {"dim": 0})
    for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf, -math.inf, -1.0):
        name = {math.inf: "inf", -math.inf: "-inf"}.get(p, p)
        case("norm", lambda x: torch.linalg.vector_norm(x, p, dim=1), [normal((2, 3))], {"p": name, "dim": 1}, second=p != 0.0)
        case("norm", lambda x: torch.linalg.vector_norm(x, p, keepdim=True), [normal((2, 3))], {"p": name, "dim": None, "keepdim": True}, second=p != 0.0)
        if p:
            case("norm", lambda x: torch.linalg.vector_norm(x, p, dim=0), [normal((3, 2), "c128")], {"p": name, "dim": 0})
    for dim in (0, 1, -1):
        case("cumsum", lambda x: x.cumsum(dim), [normal((2, 3))], {"dim": dim})
    case("cumsum", lambda x: x.cumsum(0), [normal((3,), "c128")], {"dim": 0})
    case("cumsum", lambda x: x.cumsum(0), [normal((4,), "f32")], {"dim": 0})


def matmuls():
    shapes = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((2, 2, 3), (3,)), ((3,), (2, 3, 2)), ((2, 2, 3), (3, 2)), ((2, 3), (2, 3, 2)),
              ((2, 2, 3), (2, 3, 2)), ((2, 1, 2, 3), (3, 3, 2)), ((1, 2, 3), (2, 2, 3, 1)), ((0, 3), (3, 2)), ((2, 0), (0, 3))]
    for a, b in shapes:
        case("matmul", torch.matmul, [normal(a), normal(b)])
        if 0 not in a:
            case("matmul", torch.matmul, [normal(a, "c128"), normal(b, "c128")])
    case("matmul", torch.matmul, [normal((2, 3), "f32"), normal((3, 2), "f32")])
    case("matmul", torch.matmul, [normal((2, 3)), normal((3, 2))], needs=[False, True])
    case("matmul", torch.matmul, [normal((2, 3)), normal((3, 2))], needs=[True, False])
    case("bmm", torch.bmm, [normal((2, 2, 3)), normal((2, 3, 2))])
    case("outer", torch.outer, [normal((2,)), normal((3,))])
    for d in BOTH:
        for x in ((3,), (2, 3), (2, 2, 3)):
            case("linear", F.linear, [normal(x, d), normal((4, 3), d)])
            case("linear", F.linear, [normal(x, d), normal((4, 3), d), normal((4,), d)])
        for name, f in dict(relu=F.relu, gelu=F.gelu, silu=F.silu, tanh=torch.tanh).items():
            case("linear_activated", lambda x, w, b: f(F.linear(x, w, b)), [normal((2, 3), d), normal((4, 3), d), normal((4,), d)], {"activation": name})
        ids = integers([[1, 0], [2, 1], [1, 2]])
        for k in (1, 2):
            case("mul_mat_id", lambda x, w, i: torch.einsum("tkn,tkmn->tkm", x.expand(3, 2, 2), w[i]), [normal((3, k, 2), d), normal((3, 4, 2), d), ids])


def convolutions():
    for n, conv in ((1, F.conv1d), (2, F.conv2d), (3, F.conv3d)):
        sizes, kernel = ((5,), (4, 3), (3, 2, 2))[n - 1], ((3,), (2, 2), (2, 1, 2))[n - 1]
        options = [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 2}, {"groups": 2, "padding": 1}, {"stride": [2, 1, 2][:n], "padding": [0, 1, 1][:n]}]
        for attrs in options:
            groups = attrs.get("groups", 1)
            inputs = [normal((1 + (n == 1), 2, *sizes)), normal((2, 2 // groups, *kernel)), normal((2,))]
            case(f"conv{n}d", lambda x, w, b: conv(x, w, b, **attrs), inputs, attrs)
        case(f"conv{n}d", lambda x, w: conv(x, w), [normal((1, 2, *sizes), "f32"), normal((1, 2, *kernel), "f32")])
        case(f"conv{n}d", lambda x, w: conv(x, w), [normal((2, *sizes)), normal((3, 2, *kernel))])
        case(f"conv{n}d", lambda x, w, b: conv(x, w, b), [normal((1, 2, *sizes)), normal((1, 2, *kernel)), normal((1,))], needs=[False, True, True])
        case(f"conv{n}d", lambda x, w: conv(x, w, padding="same"), [normal((1, 1, *sizes)), normal((1, 1, *kernel))], {"padding": "same"})
    for n, conv in ((1, F.conv_transpose1d), (2, F.conv_transpose2d), (3, F.conv_transpose3d)):
        sizes, kernel = (3, 2, 2)[:n], (3, 2, 2)[:n]
        for attrs in ({}, {"stride": 2, "padding": 1, "output_padding": 1}, {"dilation": 2}, {"groups": 2}):
            groups = attrs.get("groups", 1)
            inputs = [normal((1 + (n == 1), 2, *sizes)), normal((2, 2 // groups, *kernel)), normal((2,))]
            case(f"conv_transpose{n}d", lambda x, w, b: conv(x, w, b, **attrs), inputs, attrs)
        case(f"conv_transpose{n}d", lambda x, w: conv(x, w), [normal((1, 2, *sizes), "f32"), normal((2, 1, *kernel), "f32")])


def pooling():
    maxima = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
    means = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
    to_max = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}
    to_mean = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
    for n in (1, 2, 3):
        shape = (1, 1, *((5,), (5, 4), (3, 3, 3))[n - 1])
        base = {"n": n, "kernel": [2] * n}
        for attrs in ({}, {"stride": [1] * n}, {"padding": [1] * n, "ceil_mode": True}, {"dilation": [2] * n, "stride": [1] * n}):
            options = {k: v if isinstance(v, bool) else tuple(v) for k, v in attrs.items()}
            case("max_pool", lambda x: maxima[n](x, 2, return_indices=True, **options), [normal(shape)], base | attrs)
        for attrs in ({}, {"stride": [1] * n}, {"padding": [1] * n, "ceil_mode": True}, {"padding": [1] * n, "count_include_pad": False}):
            options = {k: v if isinstance(v, bool) else tuple(v) for k, v in attrs.items()}
            case("avg_pool", lambda x: means[n](x, 2, **options), [normal(shape)], base | attrs)
        if n > 1:
            case("avg_pool", lambda x: means[n](x, 2, divisor_override=3), [normal(shape)], base | {"divisor": 3})
        for size in ([2] * n, [3, 1, 2][:n]):
            case("adaptive_max_pool", lambda x: to_max[n](x, size, return_indices=True), [normal(shape)], {"n": n, "size": size})
            case("adaptive_avg_pool", lambda x: to_mean[n](x, size), [normal(shape)], {"n": n, "size": size})
        case("max_pool", lambda x: maxima[n](x, 2, return_indices=True), [normal(shape, "f32")], base)
        case("avg_pool", lambda x: means[n](x, 2), [normal(shape, "f32")], base)
    for mode, n in (("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 1), ("nearest-exact", 2), ("linear", 1), ("bilinear", 2), ("trilinear", 3),
                    ("bicubic", 2), ("area", 1), ("area", 2)):
        shape = (1, 1, *((4,), (3, 4), (2, 3, 2))[n - 1])
        corners = (False, True) if mode in ("linear", "bilinear", "trilinear", "bicubic") else (None,)
        for align in corners:
            for target in ({"size": [5, 3, 3][:n]}, {"scale_factor": [2.0] * n}):
                attrs = {"mode": mode} | target | ({"align_corners": True} if align else {})
                options = {k: tuple(v) if n > 1 or k == "size" else v[0] for k, v in target.items()}
                case("interpolate", lambda x: F.interpolate(x, mode=mode, align_corners=align, **options), [normal(shape)], attrs)


def norms():
    for d in BOTH:
        for name, f in (("softmax", F.softmax), ("log_softmax", F.log_softmax)):
            for shape, dim in (((2, 3), 1), ((2, 3), 0), ((), 0), ((2, 0), 1)):
                case(name, lambda x: f(x, dim), [normal(shape, d)], {"dim": dim})
        for shape, sizes in (((2, 4), [4]), ((2, 2, 3), [2, 3])):
            attrs = {"normalized_shape": sizes, "eps": 1e-3}
            x, w, b = normal(shape, d), normal(sizes, d), normal(sizes, d)
            case("layer_norm", lambda x: F.layer_norm(x, sizes, None, None, 1e-3), [x], attrs)
            case("layer_norm", lambda x, w, b: F.layer_norm(x, sizes, w, b, 1e-3), [x, w, b], attrs)
            case("rms_norm", lambda x: F.rms_norm(x, sizes, None, 1e-3), [x], attrs)
            case("rms_norm", lambda x, w: F.rms_norm(x, sizes, w, 1e-3), [x, w], attrs)
            added = lambda x, y, w: (x + y, F.rms_norm(x + y, sizes, w, 1e-3))
            case("add_rms_norm", added, [x, normal(shape, d), w], attrs)
            case("add_rms_norm", added, [x, normal(shape, d), w], attrs, seeds=[1])
        case("layer_norm", lambda x, w, b: F.layer_norm(x, [4], w, b, 1e-3), [normal((2, 4), d), normal((4,), d), normal((4,), d)],
             {"normalized_shape": [4], "eps": 1e-3}, needs=[False, True, True])
        x, w, b, mean, var = normal((3, 2, 2), d), normal((2,), d), normal((2,), d), normal((2,), d), positive((2,), d)
        for training in (True, False):
            attrs = {"training": training, "eps": 1e-3, "momentum": 0.2}
            if training:
                case("batch_norm", lambda x: F.batch_norm(x, None, None, None, None, True, 0.2, 1e-3), [x], attrs | {"with": []})
                case("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0.2, 1e-3), [x, w, b], attrs | {"with": ["weight", "bias"]})

            def with_running(x, m, v, w, b):
                m, v = m.clone(), v.clone()
                y = F.batch_norm(x, m, v, w, b, training, 0.2, 1e-3)
                return (y, m, v) if training else y

            names = {"with": ["running_mean", "running_var", "weight", "bias"]}
            case("batch_norm", with_running, [x, mean, var, w, b], attrs | names, needs=[True, False, False, True, True])
            if not training:
                case("batch_norm", lambda x, m, v: F.batch_norm(x, m, v, None, None, False, 0.2, 1e-3), [x, mean, var],
                     attrs | {"with": ["running_mean", "running_var"]}, needs=[True, False, False])
        def with_statistics(x, w, b):
            axes = [i for i in range(x.dim()) if i != 1]
            return F.batch_norm(x, None, None, w, b, True, 0.2, 1e-3), x.mean(axes), x.var(axes, correction=0)

        for seeds in (None, [1], [2], [0, 2]):
            case("batch_norm_training", with_statistics, [x, w, b], {"eps": 1e-3}, seeds=seeds)
        for groups in (1, 2):
            attrs = {"groups": groups, "eps": 1e-3}
            x, w, b = normal((2, 4, 2), d), normal((4,), d), normal((4,), d)
            case("group_norm", lambda x: F.group_norm(x, groups, None, None, 1e-3), [x], attrs | {"with": []})
            case("group_norm", lambda x, w, b: F.group_norm(x, groups, w, b, 1e-3), [x, w, b], attrs | {"with": ["weight", "bias"]})
        case("instance_norm", lambda x, w, b: F.instance_norm(x, None, None, w, b, True, 0.1, 1e-3), [normal((2, 2, 3), d), normal((2,), d), normal((2,), d)],
             {"training": True, "eps": 1e-3, "with": ["weight", "bias"]})


def scores(q, k, v, *, scale, mask=None, causal=None, window=None, softcap=None):
    """Attention by its definition."""
    k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    s = (q @ k.transpose(-2, -1)) * scale
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    row, column = torch.arange(s.shape[-2])[:, None] + (causal or 0), torch.arange(s.shape[-1])
    seen = torch.ones(s.shape[-2:], dtype=torch.bool)
    if causal is not None:
        seen &= column <= row
    if window is not None:
        seen &= column > row - window
    if mask is not None and mask.dtype == torch.bool:
        seen = seen & mask
    elif mask is not None:
        s = s + mask
    none = ~seen.any(-1, keepdim=True)
    weights = torch.softmax(s.masked_fill(~seen & ~none, -math.inf), -1)
    return weights.masked_fill(none, 0) @ v


def sdpa(*args, **options):
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(*args, **options)


def attention():
    name = "scaled_dot_product_attention"
    for d in BOTH:
        q, k, v = normal((2, 1, 3, 2), d), normal((2, 1, 4, 2), d), normal((2, 1, 4, 1), d)
        case(name, sdpa, [q, k, v])
        case(name, lambda q, k, v: sdpa(q, k, v, scale=0.25, is_causal=True), [q, k, v], {"scale": 0.25, "is_causal": True})
        mask = torch.tensor([[True, False, True, True], [True, True, True, False], [True, False, False, False]])
        case(name, lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), [q, k, v, mask], {"attn_mask": True})
        for shape in ((3, 4), (2, 1, 3, 4), (2, 1, 1, 4)):
            case(name, lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), [q, k, v, normal(shape, d)], {"attn_mask": True})
        case(name, lambda q, k, v, m: sdpa(q, k, v, attn_mask=m), [q, k, v, normal((3, 4), d)], {"attn_mask": True}, needs=[True, False, True, False])
        shared = [normal((1, 4, 2, 3), d), normal((1, 2, 2, 3), d), normal((1, 2, 2, 2), d)]
        case(name, lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True), shared, {"is_causal": True, "enable_gqa": True})
        for attrs in ({}, {"causal": 2}, {"causal": 0, "window": 2}, {"window": 3}, {"softcap": 1.5}, {"causal": 1, "window": 2, "softcap": 0.75}):
            case("attention", lambda q, k, v: scores(q, k, v, scale=0.5, **attrs), [normal((4, 3, 2), d), normal((2, 4, 2), d), normal((2, 4, 2), d)], {"scale": 0.5} | attrs)
        case("attention", lambda q, k, v, m: scores(q, k, v, scale=0.5, softcap=1.5, mask=m),
             [normal((4, 3, 2), d), normal((2, 4, 2), d), normal((2, 4, 2), d), normal((4, 3, 4), d)], {"scale": 0.5, "softcap": 1.5})
    case(name, sdpa, [normal((3, 2)), normal((4, 2)), normal((4, 2))])

    for style in ("pairs", "halves"):
        for rotated, scale in ((4, 1.0), (2, 0.25)):
            positions = [0, 3, 8]

            def rope(x):
                theta = torch.tensor(np.array(positions)[:, None] * scale * 1e4 ** (-np.arange(0, rotated, 2) / rotated))
                cos, sin = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
                x, rest = x[..., :rotated], x[..., rotated:]
                if style == "pairs":
                    a, b = x[..., 0::2], x[..., 1::2]
                    turned = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
                else:
                    a, b = x.chunk(2, -1)
                    turned = torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
                return torch.cat([turned, rest], -1)

            case("rope", rope, [normal((2, 3, 4), "f32")], {"style": style, "rotated": rotated, "base": 1e4, "freq_scale": scale, "positions": positions})


def narrow():
    """16 bits and complex numbers of f32. PyTorch's layer_norm in 16 bits rounds more often than ours."""
    functions = dict(exp=torch.exp, tanh=torch.tanh, gelu=F.gelu, silu=F.silu, relu=F.relu, sigmoid=torch.sigmoid, softplus=F.softplus, abs=torch.abs)
    for d in ("bf16", "f16"):
        more = dict(second=False, plain=True)
        for name, f in functions.items():
            case(name, f, [normal((4,), d)], **more)
        for name, f in dict(add=torch.add, mul=torch.mul, div=torch.div, maximum=torch.maximum).items():
            case(name, f, [normal((3,), d), positive((2, 1), d)], **more)
        case("mul", torch.mul, [normal((3,), d), normal((3,), "f32")], **more)
        case("sum", lambda x: x.sum(0), [normal((3, 2), d)], {"dim": 0}, **more)
        case("mean", lambda x: x.mean(1), [normal((3, 2), d)], {"dim": 1}, **more)
        case("matmul", torch.matmul, [normal((2, 3), d), normal((3, 2), d)], **more)
        case("linear", F.linear, [normal((2, 3), d), normal((4, 3), d), normal((4,), d)], **more)
        case("softmax", lambda x: F.softmax(x, 1), [normal((2, 3), d)], {"dim": 1}, **more)
        case("log_softmax", lambda x: F.log_softmax(x, 1), [normal((2, 3), d)], {"dim": 1}, **more)
        case("layer_norm", lambda x, w, b: F.layer_norm(x, [4], w, b, 1e-3), [normal((2, 4), d), normal((4,), d), normal((4,), d)],
             {"normalized_shape": [4], "eps": 1e-3}, second=False)
        case("embedding", F.embedding, [integers([[0, 2], [1, 3]]), normal((4, 2), d)], **more)
        case("gather", lambda x, i: x.gather(1, i), [normal((2, 3), d), integers([[0, 2], [1, 0]])], {"dim": 1}, **more)
        case("norm", lambda x: torch.linalg.vector_norm(x, 2.0, dim=0), [normal((3, 2), d)], {"p": 2.0, "dim": 0}, **more)
    for name in ("exp", "tanh", "abs", "sqrt"):
        case(name, getattr(torch, name), [normal((3,), "c64")])
    case("mul", torch.mul, [normal((3,), "c64"), normal((2, 1), "f32")])
    case("matmul", torch.matmul, [normal((2, 3), "c64"), normal((3, 2), "c64")])


SECTIONS = [unary, binary, selection, reductions, matmuls, convolutions, pooling, norms, attention, narrow]
