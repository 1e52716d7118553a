"""einsum and other products; distances."""

import torch
from torch_methods import DTYPES, TURNED, case, integers, normal, refused, tensor

NAN, INF = float("nan"), float("inf")


def einsum():
    def run(equation, inputs, **more):
        case("einsum", lambda *t: torch.einsum(equation, *t), inputs, {"equation": equation}, **more)

    n = lambda *shape, d="f32": normal(shape, d)
    for d in ("f32", "f64", "c64", "c128", "f16", "bf16"):
        run("ij,jk->ik", [n(2, 3, d=d).abs().to(DTYPES[d]), n(3, 4, d=d).abs().to(DTYPES[d])], grad=d not in ("f16", "bf16"))
        run("bij,bjk->bik", [n(2, 3, 4, d=d).abs().to(DTYPES[d]), n(2, 4, 2, d=d).abs().to(DTYPES[d])], grad=d == "c128")
    for d in ("u8", "i8", "i16", "i32", "i64"):
        run("ij,jk->ki", [integers((2, 3), d), integers((3, 4), d)])
    for equation, shapes in (
        ("i,i->", [(4,), (4,)]), ("i,j->ij", [(3,), (2,)]), ("i,j->ji", [(3,), (2,)]), ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]), ("ij->j", [(2, 3)]),
        ("ii", [(3, 3)]), ("ii->i", [(3, 3)]), ("iij->j", [(2, 2, 3)]), ("iji->ij", [(2, 3, 2)]), ("iii->i", [(3, 3, 3)]), ("iijj->ij", [(2, 2, 3, 3)]),
        ("ij,ij->ij", [(2, 3), (2, 3)]), ("ij,j", [(2, 3), (3,)]), ("ba,cb", [(2, 3), (4, 2)]), ("Ba,aC", [(2, 3), (3, 4)]), (" i j , j k -> i k ", [(2, 3), (3, 2)]),
        ("bhid,bhjd->bhij", [(2, 2, 3, 4), (2, 2, 5, 4)]), ("bhij,bhjd->bihd", [(2, 2, 3, 5), (2, 2, 5, 2)]), ("bn,anm,bm->ba", [(2, 3), (4, 3, 5), (2, 5)]),
        ("ab,bc,cd,de->ae", [(2, 3), (3, 4), (4, 2), (2, 3)]), ("ij,jk,kl,lm,mn,no,op->ip", [(2, 2)] * 7), ("i,i,i,i,i,i,i,i->i", [(3,)] * 8),
        ("a,b,c,d->dcba", [(2,), (3,), (2,), (2,)]), ("ijk,jk->i", [(2, 3, 4), (3, 4)]), ("ijk,ilk->jl", [(2, 3, 4), (2, 5, 4)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]), ("...ij->...ji", [(2, 3, 4)]), ("i...->...", [(2, 3, 4)]), ("...", [(2, 3)]), ("...->", [(2, 3)]),
        ("...i,...i->...", [(2, 4), (4,)]), ("a...b,b...->a...", [(2, 3, 4), (4, 3)]), ("...a,...b->ba...", [(3, 2), (3, 4)]), ("i...,i->...i", [(2, 3), (2,)]),
        ("ij,jk->ik", [(2, 1), (3, 4)]), ("ij,ij->i", [(2, 1), (1, 3)]), ("ij,kj->ik", [(1, 1), (3, 4)]), ("i,i,i->", [(1,), (4,), (4,)]),
        ("ij,jk->ik", [(2, 0), (0, 3)]), ("ij,jk->ik", [(0, 3), (3, 2)]), ("ij->i", [(2, 0)]), (",->", [(), ()]), (",i->i", [(), (3,)]), ("->", [()]), ("...,...", [(), (2, 2)]),
        ("ij,k->k", [(2, 3), (4,)]), ("ij,k->", [(2, 3), (4,)]), ("ij,jk,ki->", [(2, 3), (3, 4), (4, 2)]), ("ab,cd->", [(2, 3), (4, 2)]),
    ):
        run(equation, [normal(s, "f64") for s in shapes])
    run("ij->i", [integers((2, 3), "i32")])
    run("ii->i", [integers((3, 3), "i32")])
    for equation in ("ij,k->k", "ij,k->ijk", "ij,k,l->kl"):
        run(equation, [integers((2, 3), "i32"), *[integers((4,), "i32") for _ in equation.split(",")[1:]]])
    run("ij->i", [tensor([[True, False], [True, True]], "bool")])
    run("ij,ij->ij", [tensor([[True, False], [True, True]], "bool")] * 2)
    run("ij,jk->ik", [n(3, 2), n(4, 3)], views=[TURNED, TURNED])
    run("ij,kj->ik", [n(5, 6), n(4, 3)], views=[[["slice", 1, 0, 6, 2]]])
    run("bij,jk->bik", [n(1, 3, 2), n(2, 2)], views=[[["expand", [4, 3, 2]]]])
    run("ij,j->i", [tensor([[1.0, NAN], [2.0, 3.0]]), tensor([1.0, INF])], grad=False)
    x = normal((2, 3))
    for equation, inputs in (
        ("ij,jk->ik", [x]), ("ij->ik", [x]), ("ij->ii", [x]), ("ijk->i", [x]), ("i->i", [x]), ("ij,jk->ik", [x, normal((2, 3))]), ("ii", [x]), ("i1->i", [x]), ("i..j", [x]),
        ("i...j...", [x]), ("ij->...i...", [x]), ("i->->i", [normal((2,))]), ("ij,jk->ik", [x, normal((3, 2), "f64")]), ("...ijk", [x]), ("ii->i", [normal((1, 3))]),
    ):
        refused("einsum", lambda *t: torch.einsum(equation, *t), inputs, {"equation": equation})


def tensordot():
    def run(shapes, dims, d="f64", **more):
        attrs = {"count": dims} if isinstance(dims, int) else {"left": dims[0], "right": dims[1]}
        case("tensordot", lambda a, b: torch.tensordot(a, b, dims), [normal(s, d) for s in shapes], attrs, **more)

    for d in ("f64", "f32", "c128"):
        run(((2, 3, 4), (4, 3, 5)), ([1, 2], [1, 0]), d)
    run(((2, 3), (3, 4)), 1)
    run(((2, 3, 4), (3, 4)), 2)
    run(((2, 3), (4,)), 0)
    run(((), ()), 0)
    run(((2, 3), (3, 2)), ([-1], [-2]))
    run(((3, 2), (3, 2)), ([0, 1], [0, 1]), views=[TURNED, TURNED])
    run(((2, 1), (3, 4)), ([1], [0]))
    run(((2, 3), (1, 4)), ([1], [0]))
    run(((2, 0), (0, 4)), 1)
    run(((2, 3), (0, 3)), ([1], [1]))
    case("tensordot", lambda a, b: torch.tensordot(a, b, 1), [integers((2, 3), "i32"), integers((3, 2), "i32")], {"count": 1})
    for shapes, dims in ((((2, 3), (4, 2)), 1), (((2, 3), (3, 2)), ([0, 1], [0])), (((2, 3), (3, 2)), ([5], [0])), (((2, 2), (2, 2)), ([0, 0], [0, 1])), (((2,), (2,)), 2)):
        attrs = {"count": dims} if isinstance(dims, int) else {"left": dims[0], "right": dims[1]}
        refused("tensordot", lambda a, b: torch.tensordot(a, b, dims), [normal(s) for s in shapes], attrs)


def plus_matmul():
    for op, shapes in (("addmm", [(2, 4), (2, 3), (3, 4)]), ("baddbmm", [(5, 2, 4), (5, 2, 3), (5, 3, 4)])):
        f = getattr(torch, op)

        def run(inputs, beta, alpha, **more):
            case(op, lambda x, a, b: f(x, a, b, beta=beta, alpha=alpha), inputs, {"beta": beta, "alpha": alpha}, **more)

        for d in ("f64", "f32", "c128", "c64"):
            run([normal(s, d) for s in shapes], 0.5, -2.0)
        for d in ("f16", "bf16"):
            run([normal(s, d).abs() for s in shapes], 0.5, 1.5, grad=False)
        for d in ("u8", "i32", "i64"):
            run([integers(s, d) for s in shapes], 2, 3)
        run([normal(s, "f64") for s in shapes], 1, 1)
        for lead in ((4,), (1, 4), (2, 1), ()):
            run([normal(lead, "f64"), *[normal(s, "f64") for s in shapes[1:]]], 1.0, 0.5)
        run([torch.full(shapes[0], NAN), *[normal(s) for s in shapes[1:]]], 0, 1, grad=False)
        run([torch.full(shapes[0], NAN), *[normal(s) for s in shapes[1:]]], 1, 1, grad=False)
        empty = [tuple(0 if n == 3 else n for n in s) for s in shapes]
        run([normal(s, "f64") for s in empty], 2.0, 1.0)
        turn = [["transpose", -1, -2]]
        run([normal((*s[:-2], s[-1], s[-2])) for s in shapes], 2.0, 1.0, views=[turn] * 3)
        bad = [normal(s) for s in shapes]
        refused(op, f, [normal((7, *shapes[0])), *bad[1:]], {"beta": 1, "alpha": 1})
        refused(op, f, [bad[0], bad[2], bad[2]], {"beta": 1, "alpha": 1})
        refused(op, f, [bad[0].double(), *bad[1:]], {"beta": 1, "alpha": 1})
        refused(op, f, [bad[0][0], *[x[0] for x in bad[1:]]], {"beta": 1, "alpha": 1})
    refused("baddbmm", torch.baddbmm, [normal((2, 2)), normal((2, 2, 2)), normal((3, 2, 2))], {"beta": 1, "alpha": 1})


def products():
    for d in ("f64", "f32", "c128", "c64", "i32", "u8", "i64"):
        x = normal((3, 4), d) if d[0] in "fc" else integers((3, 4), d, 0, 2)
        case("trace", torch.trace, [x])
        case("trace", torch.trace, [x], views=[TURNED])
    case("trace", torch.trace, [torch.zeros(0, 3)])
    case("trace", torch.trace, [tensor([[NAN, 1.0], [2.0, 3.0]])], grad=False)
    refused("trace", torch.trace, [normal((3,))])
    refused("trace", torch.trace, [normal((2, 2, 2))])

    def cross(inputs, dim=-1, **more):
        case("cross", lambda a, b: torch.linalg.cross(a, b, dim=dim), inputs, {"dim": dim}, **more)

    for d in ("f64", "f32", "f16", "bf16", "c128", "c64"):
        cross([normal((2, 3), d), normal((2, 3), d)], grad=d not in ("f16", "bf16"))
    for d in ("i8", "i32", "i64"):
        cross([integers((2, 3), d), integers((2, 3), d)])
    cross([normal((3, 4), "f64"), normal((3, 1), "f64")], 0)
    cross([normal((3, 2), "f64"), normal((3, 2), "f64")], views=[TURNED, TURNED])
    cross([normal((0, 3)), normal((0, 3))])
    cross([tensor([1.0, NAN, INF]), tensor([1.0, 2.0, 3.0])], grad=False)
    refused("cross", torch.linalg.cross, [normal((2, 2)), normal((2, 2))], {"dim": -1})
    refused("cross", torch.linalg.cross, [normal((2, 3)), normal((3,))], {"dim": -1})
    refused("cross", torch.linalg.cross, [normal(()), normal(())], {"dim": -1})
    refused("cross", lambda a, b: torch.linalg.cross(a, b, dim=3), [normal((2, 3)), normal((2, 3))], {"dim": 3})

    for d in ("f64", "f32", "f16", "bf16", "c128", "i32", "u8"):
        both = [normal((2, 3), d), normal((3, 2), d)] if d[0] in "fbc" else [integers((2, 3), d), integers((3, 2), d)]
        case("kron", torch.kron, both, grad=d not in ("f16", "bf16"))
    for a, b in (((2,), (3,)), ((), (2, 2)), ((2, 3), (2,)), ((2,), (1, 2, 3)), ((), ()), ((0, 2), (2, 2))):
        case("kron", torch.kron, [normal(a, "f64"), normal(b, "f64")])
    case("kron", torch.kron, [normal((2, 3)), normal((2, 2))], views=[TURNED, TURNED])
    case("kron", torch.kron, [integers((2, 2), "i32"), normal((2, 1))])


def cdist():
    for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF):
        f = lambda a, b: torch.cdist(a, b, p)
        attrs = {"p": "inf" if p == INF else p}
        for d in ("f64", "f32"):
            case("cdist", f, [normal((3, 4), d), normal((2, 4), d)], attrs)
        case("cdist", f, [normal((2, 1, 3, 2), "f64"), normal((3, 4, 2), "f64")], attrs)
        case("cdist", f, [normal((4, 3), "f64"), normal((4, 2), "f64")], attrs, views=[TURNED, TURNED])
        for a, b in (((0, 3), (2, 3)), ((2, 3), (0, 3)), ((2, 0), (3, 0))):
            case("cdist", f, [normal(a), normal(b)], attrs, grad=False)
        if p != INF:
            # Whose largest of NaNs depends on PyTorch's vectors.
            case("cdist", f, [tensor([[1.0, NAN], [0.0, INF]]), tensor([[1.0, 2.0]])], attrs, grad=False)
    # A point that both have.
    x = normal((3, 4), "f64")
    for p in (1.0, 2.0, 3.0, INF):
        case("cdist", lambda a, b: torch.cdist(a, b, p), [x, torch.cat([x[1:2], normal((1, 4), "f64")])], {"p": "inf" if p == INF else p})
    case("cdist", lambda a, b: torch.cdist(a, b, 2.0), [normal((30, 3), "f64"), normal((2, 3), "f64")], {"p": 2.0})
    x = integers((27, 2), "f64", -3, 4)
    case("cdist", lambda a, b: torch.cdist(a, b, 2.0), [x, x[:3].clone()], {"p": 2.0})
    for shapes, p in ((((2, 3), (2, 4)), 2.0), (((3,), (2, 3)), 2.0), (((2, 3), (2, 3)), -1.0)):
        refused("cdist", lambda a, b: torch.cdist(a, b, p), [normal(s) for s in shapes], {"p": p})
    refused("cdist", torch.cdist, [integers((2, 3)), integers((2, 3))], {"p": 2.0})


SECTIONS = (einsum, tensordot, plus_matmul, products, cdist)
