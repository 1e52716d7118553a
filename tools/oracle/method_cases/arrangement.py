"""Moving, repeating and selecting elements; grids, diagonals, differences."""

import torch
import torch.nn.functional as F
from torch_methods import DTYPES, TURNED, case, integers, normal, refused, tensor

NAN, INF = float("nan"), float("inf")
ALL = ("bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128")


def values(shape, d):
    return normal(shape, d) if d[0] in "fc" or d == "bf16" else integers(shape, d, 0, 2 if d == "bool" else 9)


def of_every_dtype(op, f, shape, attrs, others=(), **more):
    for d in ALL:
        case(op, f, [values(shape, d), *others], attrs, grad=d in ("f32", "f64", "c128"), **more)


def moving():
    for source, destination in (([0], [-1]), ([0, 1], [1, 2]), ([-1, 0], [0, -1]), ([], []), ([1], [1])):
        attrs = {"source": source, "destination": destination}
        case("movedim", lambda x: x.movedim(source, destination), [normal((2, 3, 4), "f64")], attrs)
    case("movedim", lambda x: x.movedim([0], [1]), [integers((2, 3), "i32")], {"source": [0], "destination": [1]}, views=[TURNED])
    for source, destination in (([0], [0, 1]), ([0, 0], [0, 1]), ([0, 1], [1, 1]), ([3], [0])):
        refused("movedim", lambda x: x.movedim(source, destination), [normal((2, 3))], {"source": source, "destination": destination})

    of_every_dtype("tile", lambda x: x.tile((2, 3)), (2, 2), {"dims": [2, 3]})
    for dims in ((3,), (2, 1, 2), (0,), (1, 0), ()):
        case("tile", lambda x: x.tile(dims), [normal((2, 3), "f64")], {"dims": list(dims)})
    case("tile", lambda x: x.tile((2,)), [normal((), "f64")], {"dims": [2]})
    case("tile", lambda x: x.tile((2,)), [normal((0, 2))], {"dims": [2]})
    case("tile", lambda x: x.tile((2, 1)), [normal((2, 3), "f64")], {"dims": [2, 1]}, views=[TURNED])

    of_every_dtype("rot90", lambda x: torch.rot90(x, 1, (0, 1)), (2, 3), {"times": 1, "dims": [0, 1]})
    for times in (-5, -1, 0, 2, 3, 4):
        for dims in ((0, 1), (1, 0), (-1, 0), (1, 2)):
            case("rot90", lambda x: torch.rot90(x, times, dims), [normal((2, 3, 2), "f64")], {"times": times, "dims": list(dims)})
    case("rot90", lambda x: torch.rot90(x, 1, (0, 1)), [normal((0, 3))], {"times": 1, "dims": [0, 1]})
    case("rot90", lambda x: torch.rot90(x, 3, (0, 1)), [normal((2, 3))], {"times": 3, "dims": [0, 1]}, views=[TURNED])
    for x, dims in ((normal((3,)), (0, 1)), (normal((2, 2)), (0, 0)), (normal((2, 2)), (0, 2)), (normal((2, 2)), (1, -1)), (normal(()), (0, -1))):
        refused("rot90", lambda x: torch.rot90(x, 1, dims), [x], {"times": 1, "dims": list(dims)})

    for d in ALL:
        case("meshgrid", lambda *t: torch.meshgrid(*t, indexing="ij"), [values((2,), d), values((3,), d)], {"indexing": "ij"}, grad=d in ("f32", "c128"))
    for shapes in (((2,), (3,), (2,)), ((3,),), ((), (2,)), ((0,), (2,)), ((2,), (3,))):
        for indexing in ("ij", "xy"):
            case("meshgrid", lambda *t: torch.meshgrid(*t, indexing=indexing), [normal(s, "f64") for s in shapes], {"indexing": indexing})
    case("meshgrid", lambda *t: torch.meshgrid(*t, indexing="xy"), [normal((6,), "f64"), normal((2,), "f64")], {"indexing": "xy"}, views=[[["slice", 0, 0, 6, 2]]])
    refused("meshgrid", lambda *t: torch.meshgrid(*t, indexing="ij"), [normal((2,)), normal((2, 2))], {"indexing": "ij"})
    refused("meshgrid", lambda *t: torch.meshgrid(*t, indexing="ij"), [normal((2,)), normal((2,), "f64")], {"indexing": "ij"})


def diagonals():
    of_every_dtype("diag", lambda x: torch.diag(x, 1), (3,), {"diagonal": 1})
    of_every_dtype("diag", lambda x: torch.diag(x, 1), (2, 3), {"diagonal": 1})
    for k in (-3, -2, -1, 0, 2, 3):
        for shape in ((3,), (1,), (0,), (3, 4), (4, 3)):
            case("diag", lambda x: torch.diag(x, k), [normal(shape, "f64")], {"diagonal": k})
    case("diag", torch.diag, [tensor([NAN, INF, 1.0])], {"diagonal": 0}, grad=False)
    case("diag", torch.diag, [normal((6,), "f64")], {"diagonal": 0}, views=[[["slice", 0, 0, 6, 2]]])
    case("diag", torch.diag, [normal((2, 3), "f64")], {"diagonal": 0}, views=[TURNED])
    for shape in ((), (2, 2, 2)):
        refused("diag", torch.diag, [normal(shape)], {"diagonal": 0})
    for op in ("tril_indices", "triu_indices"):
        for rows, columns in ((3, 3), (2, 4), (4, 2), (0, 3), (3, 0), (1, 1)):
            for offset in (-5, -2, -1, 0, 1, 2, 5):
                f = lambda: getattr(torch, op)(rows, columns, offset)
                case(op, f, [], {"rows": rows, "columns": columns, "offset": offset})


def differences():
    for d in ALL:
        case("diff", lambda x: x.diff(1, 1), [values((2, 4), d)], {"n": 1, "dim": 1}, grad=d in ("f32", "f64", "c128"), exact=d in ("f16", "bf16"))
    for shape, n, dim in (((5,), 2, 0), ((5,), 5, 0), ((5,), 9, 0), ((5,), 0, 0), ((3, 4), 2, -2), ((1, 3), 1, 0), ((0, 3), 1, 0), ((0, 3), 1, 1), ((2, 1), 2, 1)):
        case("diff", lambda x: x.diff(n, dim), [normal(shape, "f64")], {"n": n, "dim": dim})
    case("diff", lambda x: x.diff(1, 0), [normal((3, 4), "f64")], {"n": 1, "dim": 0}, views=[TURNED])
    case("diff", lambda x: x.diff(1, 0), [tensor([1.0, NAN, INF, INF])], {"n": 1, "dim": 0}, grad=False)
    x, a, b = normal((2, 3), "f64"), normal((2, 1), "f64"), normal((2, 2), "f64")
    case("diff", lambda x, a: x.diff(1, 1, prepend=a), [x, a], {"n": 1, "dim": 1, "with": ["prepend"]})
    case("diff", lambda x, b: x.diff(2, 1, append=b), [x, b], {"n": 2, "dim": 1, "with": ["append"]})
    case("diff", lambda x, a, b: x.diff(1, 1, a, b), [x, a, b], {"n": 1, "dim": 1, "with": ["prepend", "append"]})
    refused("diff", lambda x: x.diff(1, 0), [normal(())], {"n": 1, "dim": 0})
    refused("diff", lambda x: x.diff(1, 2), [normal((2, 2))], {"n": 1, "dim": 2})
    refused("diff", lambda x, a: x.diff(1, 1, prepend=a), [x, normal((2,), "f64")], {"n": 1, "dim": 1, "with": ["prepend"]})


def selecting():
    places = tensor([[0, -1, 3], [2, 2, -6]], "i64")
    of_every_dtype("take", lambda x, i: x.take(i), (2, 3), {}, [places])
    case("take", lambda x, i: x.take(i), [normal((2, 3), "f64"), tensor(-2, "i64")])
    case("take", lambda x, i: x.take(i), [normal((), "f64"), tensor([0, -1], "i64")])
    case("take", lambda x, i: x.take(i), [normal((0,), "f64"), torch.zeros(0, 2, dtype=torch.int64)])
    case("take", lambda x, i: x.take(i), [normal((2, 3), "f64"), places], views=[TURNED, TURNED])
    for bad in (6, -7):
        refused("take", lambda x, i: x.take(i), [normal((2, 3)), tensor([0, bad], "i64")])
    refused("take", lambda x, i: x.take(i), [normal((0,)), tensor([0], "i64")])
    refused("take", lambda x, i: x.take(i), [normal((3,)), tensor([0.0])])

    at = tensor([0, -1], "i64")
    of_every_dtype("index_fill", lambda x, i: x.index_fill(1, i, 1), (2, 3), {"dim": 1, "value": 1}, [at])
    case("index_fill", lambda x, i: x.index_fill(0, i, 2.5), [normal((3, 2), "f64"), tensor([1, 1], "i64")], {"dim": 0, "value": 2.5})
    case("index_fill", lambda x, i: x.index_fill(-1, i, 2.5), [normal((3, 2), "f64"), tensor(1, "i64")], {"dim": -1, "value": 2.5})
    case("index_fill", lambda x, i: x.index_fill(0, i, 2.5), [normal((), "f64"), tensor([0], "i64")], {"dim": 0, "value": 2.5})
    case("index_fill", lambda x, i: x.index_fill(0, i, 2.5), [normal((3, 2), "f64"), torch.zeros(0, dtype=torch.int64)], {"dim": 0, "value": 2.5})
    case("index_fill", lambda x, i: x.index_fill(1, i, 2.5), [normal((3, 0), "f64"), torch.zeros(0, dtype=torch.int64)], {"dim": 1, "value": 2.5})
    case("index_fill", lambda x, i: x.index_fill(1, i, 2.5), [tensor([[NAN, NAN], [1.0, INF]]), tensor([0], "i64")], {"dim": 1, "value": 2.5})
    # PyTorch's gradient of the value refuses negative indices.
    case("index_fill", lambda x, i, v: x.index_fill(1, i, v), [normal((2, 3), "f64"), tensor([0, 1], "i64"), normal((), "f64")], {"dim": 1})
    case("index_fill", lambda x, i, v: x.index_fill(0, i, v), [normal((2, 3), "f64"), tensor([0, 1], "i64"), normal((), "f64")], {"dim": 0}, views=[TURNED])
    for i, dim in ((3, 1), (-4, 1), (0, 2)):
        refused("index_fill", lambda x, i: x.index_fill(dim, i, 1), [normal((2, 3)), tensor([i], "i64")], {"dim": dim, "value": 1})
    refused("index_fill", lambda x, i, v: x.index_fill(1, i, v), [normal((2, 3)), at, normal((1,))], {"dim": 1})
    refused("index_fill", lambda x, i: x.index_fill(1, i, 1), [normal((2, 3)), tensor([[0]], "i64")], {"dim": 1, "value": 1})

    for shape in ((4,), (2, 3), (), (0,)):
        case("one_hot", lambda x: F.one_hot(x, 5), [integers(shape, "i64", 0, 5)], {"classes": 5})
    case("one_hot", lambda x: F.one_hot(x, 5), [integers((2, 3), "i64", 0, 5)], {"classes": 5}, views=[TURNED])
    case("one_hot", F.one_hot, [tensor([[0, 3], [1, 1]], "i64")], {"values": True})
    refused("one_hot", lambda x: F.one_hot(x, 3), [tensor([3], "i64")], {"classes": 3})
    refused("one_hot", lambda x: F.one_hot(x, 3), [tensor([-1], "i64")], {"classes": 3})
    refused("one_hot", F.one_hot, [tensor([-1], "i64")])
    refused("one_hot", F.one_hot, [torch.zeros(0, dtype=torch.int64)])
    refused("one_hot", lambda x: F.one_hot(x, 3), [tensor([1.0])], {"classes": 3})

    mask = tensor([[True, False, True], [False, True, True]], "bool")
    for d in ALL:
        f = lambda x, m, s: x.masked_scatter(m, s)
        case("masked_scatter", f, [values((2, 3), d), mask, values((5,), d)], grad=d in ("f32", "f64", "c128"))
    for x, m, s in (
        ((3,), mask, (2, 3)), ((2, 1), mask, (4,)), ((2, 3), mask[0], (4,)), ((2, 3), torch.zeros(2, 3, dtype=torch.bool), (0,)), ((0, 3), torch.zeros(0, 3, dtype=torch.bool), (0,)),
        ((), tensor(True, "bool"), (1,)), ((2, 3), tensor(True, "bool"), (6,)),
    ):
        case("masked_scatter", f, [normal(x, "f64"), m, normal(s, "f64")])
    case("masked_scatter", f, [normal((3, 2), "f64"), mask.t().contiguous(), normal((4, 2), "f64")], views=[None, None, TURNED])
    case("masked_scatter", f, [normal((3, 2), "f64"), mask, normal((4,), "f64")], views=[TURNED])
    case("masked_scatter", f, [torch.full((2, 3), NAN), mask, normal((4,))])
    refused("masked_scatter", f, [normal((2, 3)), mask, normal((3,))])
    refused("masked_scatter", f, [normal((2, 3)), mask, normal((0,))])
    refused("masked_scatter", f, [normal((2, 3)), mask, normal((5,), "f64")])
    refused("masked_scatter", f, [normal((2, 3)), mask.to(torch.int64), normal((5,))])


SECTIONS = (moving, diagonals, differences, selecting)
