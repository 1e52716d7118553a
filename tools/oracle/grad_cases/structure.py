"""The cases of torch_grad.py for indexing, joining, views and linear algebra."""

import torch
import torch.nn.functional as F
from torch_grad import case, integers, normal, positive, tensor

BOTH = ("f64", "f32")


def indexing():
    twice, once = integers([[0, 2], [1, 1], [3, 0]]), integers([[0, 2], [3, 1], [3, 0]])
    for d in (*BOTH, "c128"):
        x, s = normal((3, 4), d), normal((3, 2), d)
        case("index_select", lambda x, i: x.index_select(1, i), [x, integers([2, 0, 2])], {"dim": 1})
        case("gather", lambda x, i: x.gather(1, i), [x, twice], {"dim": 1})
        case("scatter", lambda x, i, s: x.scatter(1, i, s), [x, once, s], {"dim": 1})
        case("scatter_add", lambda x, i, s: x.scatter_add(1, i, s), [x, twice, s], {"dim": 1})
    x = normal((3, 4))
    case("index_select", lambda x, i: x.index_select(0, i), [x, integers([2, 2])], {"dim": 0})
    case("gather", lambda x, i: x.gather(0, i), [x, integers([[2, 0], [1, 2]])], {"dim": 0})
    case("gather", lambda x, i: x.gather(0, i), [x, torch.zeros(0, 4, dtype=torch.int64)], {"dim": 0})
    case("take_along_dim", lambda x, i: x.take_along_dim(i, 1), [x, integers([[0, 3]])], {"dim": 1})
    case("take_along_dim", lambda x, i: x.take_along_dim(i), [x, integers([0, 5, 5, 11])])
    case("scatter", lambda x, i: x.scatter(1, i, 2.5), [x, once], {"dim": 1, "value": 2.5})
    # Sources larger than the index: PyTorch's own backward refuses them.
    case("scatter", lambda x, i, s: x.scatter(0, i, s[:2, :2]), [x, integers([[2, 0], [1, 2]]), normal((3, 3))], {"dim": 0})
    case("scatter_add", lambda x, i, s: x.scatter_add(0, i, s[:2, :2]), [x, integers([[2, 0], [2, 2]]), normal((3, 3))], {"dim": 0})
    case("scatter_add", lambda x, i, s: x.scatter_add(1, i, s), [x, twice, normal((3, 2))], {"dim": 1}, needs=[False, False, True])
    case("index_add", lambda x, i, s: x.index_add(0, i, s), [x, integers([1, 2, 1]), normal((3, 4))], {"dim": 0})
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            attrs = {"dim": 1, "reduce": reduce, "include_self": include_self}
            f = lambda x, i, s: x.scatter_reduce(1, i, s[:, :2], reduce, include_self=include_self)
            case("scatter_reduce", f, [positive((3, 4)), twice, positive((3, 2))], attrs)
            case("scatter_reduce", f, [positive((3, 4)), twice, positive((3, 3))], attrs)
            case("scatter_reduce", f, [positive((3, 4), "f32"), twice, positive((3, 2), "f32")], attrs)
            case("scatter_reduce", f, [positive((3, 4)), twice, positive((3, 2))], attrs, needs=[False, False, True])
    case("embedding", F.embedding, [integers([[0, 2], [2, 3]]), normal((4, 2))])
    case("embedding", F.embedding, [integers(1), normal((4, 2), "f32")])


def joining():
    for d in (*BOTH, "c128"):
        for dim in (0, -1):
            case("cat", lambda *t: torch.cat(t, dim), [normal((2, 2), d), normal((2, 2), d), normal((2, 2), d)], {"dim": dim})
            case("stack", lambda *t: torch.stack(t, dim), [normal((2, 3), d), normal((2, 3), d)], {"dim": dim})
        case("pad", lambda x: F.pad(x, [1, 2], value=0.5), [normal((2, 3), d)], {"pad": [1, 2], "value": 0.5})
        case("tril", lambda x: x.tril(0), [normal((3, 3), d)], {"diagonal": 0})
        case("triu", lambda x: x.triu(1), [normal((2, 2, 3), d)], {"diagonal": 1})
    case("cat", lambda *t: torch.cat(t, 0), [normal((2, 3)), normal((0, 3)), normal((1, 3))], {"dim": 0}, needs=[True, True, False])
    case("cat", lambda *t: torch.cat(t, 0), [normal((2,), "f32"), normal((1,), "f64")], {"dim": 0}, plain=True)
    case("pad", lambda x: F.pad(x, [-1, 2, 1, -1]), [normal((3, 3))], {"pad": [-1, 2, 1, -1], "value": 0})
    case("tril", lambda x: x.tril(-1), [normal((2, 3))], {"diagonal": -1})
    case("flip", lambda x: x.flip([0, 1]), [normal((2, 3))], {"dims": [0, 1]})
    case("roll", lambda x: x.roll([1, -1], [0, 1]), [normal((2, 3))], {"shifts": [1, -1], "dims": [0, 1]})
    case("repeat", lambda x: x.repeat(2, 1, 3), [normal((2, 2))], {"repeats": [2, 1, 3]})
    case("repeat_interleave", lambda x: x.repeat_interleave(3, 1), [normal((2, 2))], {"times": 3, "dim": 1})
    for d in BOTH:
        for down in (False, True):
            case("sort", lambda x: tuple(x.sort(1, down)), [normal((2, 4), d)], {"dim": 1, "descending": down})
            case("topk", lambda x: tuple(x.topk(2, 1, down)), [normal((2, 4), d)], {"k": 2, "dim": 1, "largest": down})
    case("sort", lambda x: tuple(x.sort(0)), [normal((3, 2))], {"dim": 0, "descending": False})
    case("sort", lambda x: tuple(x.sort(0)), [normal(())], {"dim": 0, "descending": False})
    case("topk", lambda x: tuple(x.topk(1, 0)), [normal((3, 2))], {"k": 1, "dim": 0, "largest": True})


def views():
    for d in ("f64", "c128"):
        x = normal((2, 3, 4), d)
        case("reshape", lambda x: x.reshape(4, 6), [x], {"sizes": [4, 6]})
        case("permute", lambda x: x.permute(2, 0, 1), [x], {"dims": [2, 0, 1]})
        case("transpose", lambda x: x.transpose(0, -1), [x], {"dims": [0, -1]})
        case("expand", lambda x: x.expand(2, 3, 4), [normal((1, 3, 1), d)], {"sizes": [2, 3, 4]})
        case("expand", lambda x: x.expand(2, 2, 3), [normal((3,), d)], {"sizes": [2, 2, 3]})
        case("narrow", lambda x: x.narrow(1, 1, 2), [x], {"dim": 1, "start": 1, "len": 2})
        case("slice", lambda x: x[:, :, 1:4:2], [x], {"dim": 2, "start": 1, "end": 4, "step": 2})
        case("select", lambda x: x.select(1, -1), [x], {"dim": 1, "index": -1})
        case("diagonal", lambda x: x.diagonal(1, 0, 2), [x], {"offset": 1, "dims": [0, 2]})
        case("unfold", lambda x: x.unfold(2, 3, 1), [x], {"dim": 2, "size": 3, "step": 1})
        case("contiguous", lambda x: x.contiguous(), [x])
        case("copy", lambda x: x.clone(), [x])
    x = normal((2, 3, 4))
    case("slice", lambda x: x[:, :, 0:4:3], [x], {"dim": 2, "start": 0, "end": 4, "step": 3})
    case("slice", lambda x: x[:, :, 0:2:3], [x], {"dim": 2, "start": 0, "end": 2, "step": 3})
    case("slice", lambda x: x[:, 2:2], [x], {"dim": 1, "start": 2, "end": 2, "step": 1})
    case("slice", lambda x: x[0:7:3], [normal((8,))], {"dim": 0, "start": 0, "end": 7, "step": 3})
    case("diagonal", lambda x: x.diagonal(-1), [normal((3, 4))], {"offset": -1, "dims": [0, 1]})
    case("unfold", lambda x: x.unfold(0, 2, 2), [normal((5, 2))], {"dim": 0, "size": 2, "step": 2})
    case("squeeze", lambda x: x.squeeze(1), [normal((2, 1, 3))], {"dim": 1})
    case("unsqueeze", lambda x: x.unsqueeze(-1), [normal((2, 3))], {"dim": -1})
    case("flatten", lambda x: x.flatten(1, 2), [x], {"start": 1, "end": 2})
    case("unflatten", lambda x: x.unflatten(2, (2, -1)), [x], {"dim": 2, "sizes": [2, -1]})
    case("t", lambda x: x.t(), [normal((2, 3))])
    case("chunk", lambda x: x.chunk(2, 1), [x], {"chunks": 2, "dim": 1})
    case("split", lambda x: x.split(3, 2), [x], {"size": 3, "dim": 2})
    case("split", lambda x: x.split(3, 2), [x], {"size": 3, "dim": 2}, seeds=[1])
    case("unbind", lambda x: x.unbind(0), [x], {"dim": 0})
    z = normal((2, 3), "c128")
    case("view_as_real", torch.view_as_real, [z])
    case("view_as_complex", torch.view_as_complex, [normal((2, 3, 2))])
    case("real", torch.real, [normal((3,))])


def well_posed(shape, dtype):
    """Matrices near a multiple of the identity, so that no result hangs on rounding."""
    return normal(shape, dtype, 0.5) + 2 * torch.eye(shape[-2], shape[-1], dtype=tensor(0.0, dtype).dtype)


def linalg():
    L = torch.linalg
    for d in ("f64", "c128", "f32"):
        every = d != "f32"
        a, batch, b = well_posed((3, 3), d), well_posed((2, 2, 2), d), normal((3, 2), d)
        for upper in (False, True):
            for x in (a, batch) if every else (a,):
                case("cholesky", lambda x: L.cholesky(x, upper=upper), [x @ x.mH + x.new_zeros(())], {"upper": upper})
            for left in (True, False):
                for unit in (False, True) if every else (False,):
                    case("solve_triangular", lambda a, b: L.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit),
                         [a, b if left else b.mT.contiguous()], {"upper": upper, "left": left, "unit": unit})
        case("solve_triangular", lambda a, b: L.solve_triangular(a, b, upper=True), [batch, normal((3, 1, 2, 1), d)], {"upper": True})
        # The other triangle does not count, though PyTorch's own formula has a gradient for it.
        case("cholesky_solve", lambda b, l: torch.cholesky_solve(b, l.tril()), [b, well_posed((3, 3), d).tril()])
        case("solve", L.solve, [a, b])
        case("solve", L.solve, [a, normal((3,), d)])
        case("solve", lambda a, b: L.solve(a, b, left=False), [a, normal((2, 3), d)], {"left": False})
        case("solve", L.solve, [batch, normal((2, 2), d)])
        case("solve", L.solve, [batch, normal((3, 1, 2, 1), d)])
        for name, f in (("inv", L.inv), ("det", L.det), ("slogdet", lambda x: tuple(L.slogdet(x)))):
            for x in (a, batch) if every else (a,):
                case(name, f, [x])
        case("det", L.det, [normal((1, 1), d)])
        for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2)):
            for seeds in (None, [0], [1]) if every else (None,):
                case("qr", lambda x: tuple(L.qr(x)), [well_posed(shape, d)], {"mode": "reduced"}, seeds=seeds)
            case("lu_factor", lambda x: tuple(L.lu_factor(x)), [normal(shape, d)])
            for seeds in (None, [1], [2]) if every else (None,):
                case("lu", lambda x: tuple(L.lu(x)), [normal(shape, d)], seeds=seeds)
        case("qr", lambda x: tuple(L.qr(x, mode="complete")), [well_posed((2, 3), d)], {"mode": "complete"})


SECTIONS = [indexing, joining, views, linalg]
