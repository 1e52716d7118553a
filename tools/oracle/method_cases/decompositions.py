"""Singular values and eigenvalues, by what does not depend on signs, phases and order of vectors; pseudoinverses, least squares, ranks."""

import torch
from torch_methods import DTYPES, TURNED, case, integers, normal, refused, tensor

NAN = float("nan")
WIDE = ("f64", "c128")


def ranks(x):
    """Weights by which each vector counts differently."""
    return torch.arange(1, x.shape[-1] + 1).to(x.dtype).unsqueeze(-2)


def svd_of(full, values):
    def f(a):
        u, s, vh = torch.linalg.svd(a, full_matrices=full)
        k = s.shape[-1]
        thin = u[..., :k]
        weights = s.unsqueeze(-2) if values else ranks(thin)
        return s, (thin * weights) @ vh[..., :k, :], u.mH @ u, vh @ vh.mH

    return f


def svd():
    def run(a, full=False, values=False, grad=False, **more):
        case("linalg.svd", svd_of(full, values), [a], {"full": full, "values_as_weights": values}, grad=grad, **more)

    for d in DTYPES:
        if d not in ("f32", "f64", "c64", "c128"):
            continue
        for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2), (2, 2, 2, 3), (1, 1), (7, 2), (1, 3)):
            run(normal(shape, d), grad=d in WIDE)
            run(normal(shape, d), full=True, values=True)
            case("linalg.svdvals", torch.linalg.svdvals, [normal(shape, d)], grad=d in WIDE)
        run(normal((4, 3), d), views=[TURNED], grad=d in WIDE)
        # Of rank 1; zero; with equal values.
        for a in (torch.ones(3, 2), torch.zeros(2, 3), torch.eye(3)):
            run(a.to(DTYPES[d]), values=True)
            case("linalg.svdvals", torch.linalg.svdvals, [a.to(DTYPES[d])], grad=False)
        for shape in ((0, 0), (0, 3), (3, 0), (2, 0, 2), (0, 2, 2)):
            for full in (False, True):
                run(torch.zeros(shape, dtype=DTYPES[d]), full=full, values=True)
    for bad in (normal((3,)), integers((2, 2))):
        refused("linalg.svd", torch.linalg.svd, [bad], {"full": False})


def eigh_of(upper, symmetric, values):
    def f(a):
        a = (a + a.mH) / 2 if symmetric else a
        l, q = torch.linalg.eigh(a, UPLO="U" if upper else "L")
        weights = l.unsqueeze(-2) if values else ranks(q)
        return l, (q * weights) @ q.mH, q.mH @ q

    return f


def eigh():
    def run(a, upper=False, symmetric=True, values=False, grad=False, **more):
        attrs = {"upper": upper, "symmetric": symmetric, "values_as_weights": values}
        case("linalg.eigh", eigh_of(upper, symmetric, values), [a], attrs, grad=grad, **more)
        alone = lambda a: torch.linalg.eigvalsh((a + a.mH) / 2 if symmetric else a, UPLO="U" if upper else "L")
        case("linalg.eigvalsh", alone, [a], attrs, grad=grad, **more)

    for d in ("f32", "f64", "c64", "c128"):
        for shape in ((3, 3), (2, 2, 2), (1, 1), (2, 2, 3, 3)):
            for upper in (False, True):
                run(normal(shape, d), upper, grad=d in WIDE)
        for upper in (False, True):
            # Of which one triangle is read.
            run(normal((3, 3), d), upper, symmetric=False)
            run(normal((4, 4), d), upper, symmetric=False, views=[TURNED])
        for a in (torch.ones(3, 3), torch.zeros(2, 2), torch.eye(3)):
            run(a.to(DTYPES[d]), values=True)
        for shape in ((0, 0), (2, 0, 0), (0, 2, 2)):
            run(torch.zeros(shape, dtype=DTYPES[d]), values=True)
    for bad in (normal((3,)), normal((2, 3)), integers((2, 2))):
        refused("linalg.eigh", torch.linalg.eigh, [bad], {"upper": False, "symmetric": False})


def eig():
    def vectors(a):
        l, v = torch.linalg.eig(a)
        return l.exp().sum(-1), (v * l.exp().unsqueeze(-2)) @ torch.linalg.inv(v), (v.abs().square() * l.abs().unsqueeze(-2)).sum(-1)

    def alone(a):
        l = torch.linalg.eigvals(a)
        return l.exp().sum(-1), l.abs().square().sum(-1)

    for d in ("f32", "f64", "c64", "c128"):
        for shape in ((3, 3), (2, 2, 2), (1, 1), (2, 2, 3, 3)):
            case("linalg.eig", vectors, [normal(shape, d)], grad=d in WIDE)
            case("linalg.eigvals", alone, [normal(shape, d)], grad=d in WIDE)
        case("linalg.eig", vectors, [normal((4, 4), d)], views=[TURNED], grad=d in WIDE)
        # A turn, whose eigenvalues are a pair; and one with no two eigenvectors.
        case("linalg.eig", vectors, [tensor([[0.0, -2.0], [2.0, 0.0]]).to(DTYPES[d])], grad=d in WIDE)
        case("linalg.eigvals", alone, [tensor([[2.0, 1.0], [0.0, 2.0]]).to(DTYPES[d])], grad=False)
        for shape in ((0, 0), (2, 0, 0), (0, 2, 2)):
            case("linalg.eig", vectors, [torch.zeros(shape, dtype=DTYPES[d])], grad=False)
    for bad in (normal((3,)), normal((2, 3)), integers((2, 2)), tensor([[1.0, NAN], [2.0, 3.0]])):
        refused("linalg.eig", torch.linalg.eig, [bad])


def pinv():
    def run(a, atol=None, rtol=None, hermitian=False, **more):
        attrs = {"atol": atol, "rtol": rtol, "hermitian": hermitian}
        f = lambda a: torch.linalg.pinv((a + a.mH) / 2 if hermitian else a, atol=atol, rtol=rtol, hermitian=hermitian)
        case("linalg.pinv", f, [a], attrs, **more)
        f = lambda a: torch.linalg.matrix_rank((a + a.mH) / 2 if hermitian else a, atol=atol, rtol=rtol, hermitian=hermitian)
        case("linalg.matrix_rank", f, [a], attrs, grad=False, exact=True, views=more.get("views", ()))

    for d in ("f32", "f64", "c64", "c128"):
        wide = d in WIDE
        for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1)):
            run(normal(shape, d), grad=wide)
        run(normal((3, 3), d), hermitian=True, grad=wide)
        run(normal((2, 2, 2), d), hermitian=True, grad=wide)
        run(normal((4, 3), d), views=[TURNED], grad=wide)
        # Of rank 1, and zero; equal values.
        run(torch.ones(3, 2).to(DTYPES[d]), grad=wide)
        run(torch.eye(3).to(DTYPES[d]) * 2, grad=wide)
        run(torch.zeros(2, 3).to(DTYPES[d]), grad=False)
        for shape in ((0, 0), (0, 3), (3, 0), (2, 0, 3), (0, 2, 2)):
            run(torch.zeros(shape, dtype=DTYPES[d]), grad=False)
    falling = torch.diag(tensor([8.0, 1.0, 0.125, 1e-3]))
    for atol, rtol in ((0.5, None), (None, 0.2), (0.5, 0.01), (0.05, 0.2), (0.0, None), (2.0, None)):
        run(falling, atol, rtol, grad=False)
        run(falling * -1, atol, rtol, hermitian=True, grad=False)
    for op, f in (("linalg.pinv", torch.linalg.pinv), ("linalg.matrix_rank", torch.linalg.matrix_rank)):
        attrs = {"atol": None, "rtol": None, "hermitian": False}
        for bad in (normal((3,)), integers((2, 2))):
            refused(op, f, [bad], attrs)
        refused(op, lambda a: f(a, hermitian=True), [normal((2, 3))], attrs | {"hermitian": True})


def lstsq():
    def run(a, b, rcond=None, residuals=None, **more):
        # So that solutions keep most digits of the narrow dtypes.
        a = a + 3 * torch.eye(*a.shape[-2:], dtype=a.dtype)
        residuals = a.shape[-2] > a.shape[-1] if residuals is None else residuals

        def f(a, b):
            x = torch.linalg.lstsq(a, b, rcond=rcond, driver="gelsd")
            return (x.solution, x.residuals, x.rank, x.singular_values) if residuals else (x.solution, x.rank, x.singular_values)

        case("linalg.lstsq", f, [a, b], {"rcond": rcond, "residuals": residuals}, **more)

    for d in ("f32", "f64", "c64", "c128"):
        wide = d in WIDE
        for m, n in ((3, 3), (4, 2), (2, 4)):
            run(normal((m, n), d), normal((m, 2), d), grad=wide)
            run(normal((2, m, n), d), normal((2, m, 1), d), grad=wide)
        run(normal((4, 2), d), normal((4,), d), grad=wide)
        run(normal((3, 4, 2), d), normal((3, 4), d), grad=wide)
        run(normal((3, 4, 2), d), normal((1, 4, 2), d), grad=False)
        run(normal((1, 4, 2), d), normal((3, 4, 2), d), grad=False)
        run(torch.ones(3, 2).to(DTYPES[d]) - 3 * torch.eye(3, 2, dtype=DTYPES[d]), normal((3, 1), d), residuals=False, grad=False)
    run(torch.diag(tensor([4.0, 1.0, 0.0625]) - 3), normal((3, 2)), 0.1, grad=False)
    for a, b in (((4, 2), (3, 1)), ((4,), (4,)), ((4, 2), (2, 4, 1)), ((3, 4, 2), (2, 4, 1))):
        refused("linalg.lstsq", torch.linalg.lstsq, [normal(a), normal(b)], {"rcond": None})
    refused("linalg.lstsq", torch.linalg.lstsq, [normal((2, 2)), normal((2, 1), "f64")], {"rcond": None})


SECTIONS = (svd, eigh, eig, pinv, lstsq)
