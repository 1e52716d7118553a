"""Probability distributions: densities, entropies, moments, divergences."""

import math

import mpmath
import torch
import torch.distributions as D
from torch_methods import TURNED, case, integers, normal, refused, rng, tensor

NAN, INF = math.nan, math.inf


class Digamma(torch.autograd.Function):
    """PyTorch's digamma, of which the gradient has all digits; PyTorch's has about ten."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return DIGAMMA(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        exact = [float(mpmath.psi(1, v)) for v in x.double().flatten().tolist()]
        return grad * torch.tensor(exact, dtype=x.dtype).reshape(x.shape)


DIGAMMA = torch.digamma
torch.digamma = torch.Tensor.digamma = lambda x: Digamma.apply(x)


def positive(shape, d="f32"):
    return normal(shape, "f64", 0.7).exp().to(normal((1,), d).dtype)


def unit(shape, d="f32"):
    return normal(shape, "f64", 1.5).sigmoid().to(normal((1,), d).dtype)


def simplex(shape, d="f32"):
    return normal(shape, "f64").softmax(-1).to(normal((1,), d).dtype)


def bounds(shape, d="f32"):
    return normal(shape, d) + 8


def counts(shape, d="f32"):
    return integers(shape, d, 0, 12)


def covariance(shape, d="f32"):
    a = normal(shape, "f64")
    return (a @ a.mT / 2 + torch.eye(shape[-1], dtype=torch.float64)).to(normal((1,), d).dtype)


def tril(shape, d="f32"):
    return torch.linalg.cholesky(covariance(shape, "f64")).to(normal((1,), d).dtype)


# Of each: PyTorch's constructor, the parameters, and values of the support.
SCALAR = {
    "Normal": (D.Normal, (normal, positive), normal),
    "LogNormal": (D.LogNormal, (normal, positive), positive),
    "Laplace": (D.Laplace, (normal, positive), normal),
    "Uniform": (D.Uniform, (normal, bounds), None),
    "Exponential": (D.Exponential, (positive,), positive),
    "Gamma": (D.Gamma, (positive, positive), positive),
    "Beta": (D.Beta, (positive, positive), unit),
    "Bernoulli": (D.Bernoulli, (unit,), lambda s, d="f32": integers(s, d, 0, 2)),
    "Bernoulli(logits)": (lambda x: D.Bernoulli(logits=x), (normal,), lambda s, d="f32": integers(s, d, 0, 2)),
    "Poisson": (D.Poisson, (positive,), counts),
    "Binomial": (D.Binomial, (lambda s, d="f32": integers(s, d, 12, 20), unit), counts),
}
WITHOUT_ENTROPY, WITHOUT_KL = ("Poisson", "Binomial"), ("Binomial",)


def of_parameters(name, make, parameters, d, *shapes):
    """Moments and the entropy of parameters of these shapes."""
    these = [p(s, d) for p, s in zip(parameters, shapes)]
    n = len(these)
    case(f"{name}.mean", lambda *p: make(*p).mean + 0, these)
    case(f"{name}.variance", lambda *p: make(*p).variance + 0, these)
    case(f"{name}.stddev", lambda *p: make(*p).stddev + 0, these)
    if name not in WITHOUT_ENTROPY:
        case(f"{name}.entropy", lambda *p: make(*p).entropy(), these)
    if name not in WITHOUT_KL:
        others = [p(s, d) for p, s in zip(parameters, shapes[::-1] if n == 2 else shapes)]
        if name == "Uniform":
            # Of an interval within the other's, and of one that is not.
            others = [these[0] - 1, these[1] + 1]
            case(f"{name}.kl", lambda *p: D.kl_divergence(make(*p[:n]), make(*p[n:])), others + these, grad=False)
        case(f"{name}.kl", lambda *p: D.kl_divergence(make(*p[:n]), make(*p[n:])), these + others)


def scalars():
    for name, (make, parameters, value) in SCALAR.items():
        n = len(parameters)
        for d in ("f32", "f64"):
            density = lambda *x: make(*x[:n]).log_prob(x[n])
            for shapes, of_value in ((((3, 4), (4,)), (2, 3, 4)), (((), ()), (5,)), (((3, 1), (1, 2)), ()), (((0, 3), (3,)), (0, 3))):
                if name == "Beta" and 0 in of_value:
                    # PyTorch's check of the parameters fails.
                    continue
                of_parameters(name, make, parameters, d, *shapes[:n])
                these = [p(s, d) for p, s in zip(parameters, shapes)]
                values = value(of_value, d) if value else (these[0] + (these[1] - these[0]) * 0.3)
                case(f"{name}.log_prob", density, these + [values])
        these = [p((4, 3), "f64") for p in parameters]
        values = value((3, 4), "f64") if value else (these[0] + (these[1] - these[0]) * 0.3).T.contiguous()
        case(f"{name}.log_prob", density, these + [values], views=[TURNED] * n)


def edges():
    def density(name, *inputs, grad=False):
        make, parameters, _ = SCALAR[name]
        n = len(parameters)
        case(f"{name}.log_prob", lambda *x: make(*x[:n]).log_prob(x[n]), list(inputs), grad=grad, exact=True)

    for d in ("f32", "f64"):
        t = lambda *x: tensor(list(x), d)
        density("Normal", t(0.0, 1e3, 0.0), t(1e-3, 1.0, 1.0), t(0.0, 1e3, INF))
        density("Uniform", t(0.0, 0.0, -1.0), t(1.0, 1.0, 1.0), t(0.0, 1.0, 0.5))
        density("Exponential", t(1.0, 2.0), t(0.0, INF))
        density("Gamma", t(1.0, 0.5, 2.0, 100.0), t(1.0, 1.0, 3.0, 10.0), t(0.0, 0.0, 0.0, 10.0))
        density("Beta", t(1.0, 2.0, 0.5, 1.0), t(1.0, 1.0, 2.0, 1.0), t(0.0, 0.0, 0.0, 1.0))
        density("Bernoulli", t(0.0, 1.0, 0.0, 1.0, 0.5), t(0.0, 1.0, 1.0, 0.0, 1.0))
        density("Bernoulli(logits)", t(40.0, -40.0, 25.0, INF, -INF), t(1.0, 1.0, 0.0, 0.0, 1.0))
        density("Poisson", t(0.0, 0.0, 3.0, 1e3), t(0.0, 2.0, 0.0, 1e3))
        density("Binomial", t(0.0, 5.0, 5.0), t(0.5, 0.0, 1.0), t(0.0, 0.0, 5.0))
        p, q = t(0.0, 1.0, 0.5, 0.0, 0.5, 1.0), t(0.0, 1.0, 0.0, 0.5, 1.0, 0.0)
        case("Bernoulli.kl", lambda p, q: D.kl_divergence(D.Bernoulli(p), D.Bernoulli(q)), [p, q], grad=False, exact=True)
        case("Bernoulli.entropy", lambda p: D.Bernoulli(p).entropy(), [p], grad=False, exact=True)


def categorical():
    for d in ("f32", "f64"):
        for op, of, make in (("Categorical", positive, lambda p: D.Categorical(p)), ("Categorical(logits)", normal, lambda p: D.Categorical(logits=p))):
            for shape, of_value in (((5,), (3,)), ((2, 3, 4), (3,)), ((3, 4), (2, 3)), ((1, 4), ()), ((3, 1), (3,)), ((0, 3), (2, 0)))[: 6 if of is positive else 5]:
                x, y = of(shape, d), of(shape, d)
                case(f"{op}.log_prob", lambda p, v: make(p).log_prob(v), [x, integers(of_value, "i64", 0, shape[-1])])
                case(f"{op}.entropy", lambda p: make(p).entropy(), [x])
                case(f"{op}.probs", lambda p: make(p).probs + 0, [x])
                case(f"{op}.kl", lambda p, q: D.kl_divergence(make(p), make(q)), [x, y])
                case(f"{op}.mean", lambda p: make(p).mean, [x], grad=False)
        p, q = tensor([[0.0, 0.5, 0.5], [1.0, 0.0, 1.0]], d), tensor([[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]], d)
        case("Categorical.kl", lambda p, q: D.kl_divergence(D.Categorical(p), D.Categorical(q)), [p, q], grad=False, exact=True)
        case("Categorical.entropy", lambda p: D.Categorical(p).entropy(), [p], grad=False, exact=True)
        case("Categorical.log_prob", lambda p, v: D.Categorical(p).log_prob(v), [p, tensor([0.0, 2.0], d)], grad=False, exact=True)
        z = tensor([[-INF, 0.0, 1.0], [500.0, -500.0, 0.0]], d)
        case("Categorical(logits).entropy", lambda p: D.Categorical(logits=p).entropy(), [z], grad=False, exact=True)
        case("Categorical(logits).log_prob", lambda p, v: D.Categorical(logits=p).log_prob(v), [z, integers((2,), "i64", 0, 1)], grad=False, exact=True)


def dirichlet():
    for d in ("f32", "f64"):
        for shape, of_value in (((4,), (4,)), ((2, 3), (2, 3)), ((2, 3), (5, 1, 3)), ((1,), (1,))):
            a, b = positive(shape, d), positive(shape, d)
            case("Dirichlet.log_prob", lambda a, v: D.Dirichlet(a).log_prob(v), [a, simplex(of_value, d)])
            for what in ("mean", "variance"):
                case(f"Dirichlet.{what}", lambda a: getattr(D.Dirichlet(a), what), [a])
            case("Dirichlet.entropy", lambda a: D.Dirichlet(a).entropy(), [a])
            case("Dirichlet.kl", lambda a, b: D.kl_divergence(D.Dirichlet(a), D.Dirichlet(b)), [a, b])
        a, v = tensor([[1.0, 1.0, 3.0], [2.0, 1.0, 0.5]], d), tensor([[0.0, 1.0, 0.0], [0.0, 0.5, 0.5]], d)
        case("Dirichlet.log_prob", lambda a, v: D.Dirichlet(a).log_prob(v), [a, v], grad=False, exact=True)


def multivariate_normal():
    forms = {
        "covariance": (covariance, lambda l, m: D.MultivariateNormal(l, m)),
        "precision": (covariance, lambda l, m: D.MultivariateNormal(l, precision_matrix=m)),
        "scale_tril": (tril, lambda l, m: D.MultivariateNormal(l, scale_tril=m)),
    }
    for d in ("f32", "f64"):
        for form, (matrices, make) in forms.items():
            name, attrs = "MultivariateNormal", {"by": form}
            for loc, matrix, value in (((3,), (3, 3), (3,)), ((2, 3), (3, 3), (4, 2, 3)), ((3,), (2, 3, 3), (3,)), ((4, 1, 2), (3, 2, 2), (4, 3, 2)), ((1,), (1, 1), (5, 1))):
                these = [normal(loc, d), matrices(matrix, d)]
                others = [normal(loc, d), matrices(matrix, d)]
                case(f"{name}.log_prob", lambda l, m, v: make(l, m).log_prob(v), these + [normal(value, d)], attrs)
                case(f"{name}.entropy", lambda l, m: make(l, m).entropy(), these, attrs)
                case(f"{name}.mean", lambda l, m: make(l, m).mean + 0, these, attrs)
                case(f"{name}.variance", lambda l, m: make(l, m).variance + 0, these, attrs)
                case(f"{name}.covariance", lambda l, m: make(l, m).covariance_matrix + 0 * l.sum(), these, attrs | {"unbroadcast": True}, grad=False)
                case(f"{name}.kl", lambda a, b, c, e: D.kl_divergence(make(a, b), make(c, e)), these + others, attrs)


def xlogy():
    for d in ("f32", "f64", "f16", "bf16"):
        a, b = [0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 2.0, -1.0, NAN, 2.0, INF], [0.0, 1.0, -1.0, INF, NAN, 0.0, 3.0, INF, 1.0, -1.0, 2.0]
        case("xlogy", torch.xlogy, [tensor(a, d), tensor(b, d)], grad=False)
        case("xlogy", torch.xlogy, [normal((3, 1), d), positive((4,), d)])
    case("xlogy", torch.xlogy, [tensor([0.0, 0.0, 2.0], "f64"), tensor([0.0, 2.0, 3.0], "f64")], grad=False)
    case("xlogy", torch.xlogy, [integers((4,)), positive((4,))])
    case("xlogy", torch.xlogy, [integers((4,)), integers((4,), low=1)], exact=True)


def invalid():
    for name, make, parameters in (
        ("Normal", D.Normal, [[0.0], [0.0]]), ("Normal", D.Normal, [[NAN], [1.0]]), ("Normal", D.Normal, [[0.0, 1.0], [1.0, NAN]]),
        ("LogNormal", D.LogNormal, [[0.0], [-1.0]]), ("Laplace", D.Laplace, [[0.0], [-1.0]]), ("Uniform", D.Uniform, [[1.0], [1.0]]),
        ("Exponential", D.Exponential, [[0.0]]), ("Gamma", D.Gamma, [[0.0], [1.0]]), ("Gamma", D.Gamma, [[1.0], [-1.0]]), ("Beta", D.Beta, [[1.0], [0.0]]),
        ("Beta", D.Beta, [[0.0], [1.0]]), ("Bernoulli", D.Bernoulli, [[1.5]]), ("Bernoulli", D.Bernoulli, [[NAN]]), ("Poisson", D.Poisson, [[-1.0]]),
        ("Binomial", D.Binomial, [[-1.0], [0.5]]), ("Binomial", D.Binomial, [[1.5], [0.5]]), ("Binomial", D.Binomial, [[2.0], [1.5]]),
        ("Dirichlet", D.Dirichlet, [[0.0, 1.0]]), ("Dirichlet", D.Dirichlet, [1.0]), ("Categorical", D.Categorical, [[-1.0, 2.0]]),
        ("Categorical", D.Categorical, [[0.0, 0.0]]), ("Categorical", D.Categorical, [[INF, 1.0]]), ("Categorical", D.Categorical, [1.0]),
        ("Normal", D.Normal, [[0.0, 1.0], [1.0, 2.0, 3.0]]),
        ("MultivariateNormal", D.MultivariateNormal, [[0.0, 1.0], [[1.0, 2.0], [0.0, 1.0]]]),
    ):
        refused(name, make, [tensor(p) for p in parameters])
    for name, make, parameters, value in (
        ("Normal", D.Normal, [0.0, 1.0], NAN), ("LogNormal", D.LogNormal, [0.0, 1.0], -1.0), ("Laplace", D.Laplace, [0.0, 1.0], NAN),
        ("Uniform", D.Uniform, [0.0, 1.0], 1.5), ("Exponential", D.Exponential, [1.0], -1.0), ("Gamma", D.Gamma, [1.0, 1.0], -1.0),
        ("Beta", D.Beta, [1.0, 1.0], 1.5), ("Bernoulli", D.Bernoulli, [0.5], 0.5), ("Poisson", D.Poisson, [1.0], -1.0), ("Poisson", D.Poisson, [1.0], 0.5),
        ("Binomial", D.Binomial, [3.0, 0.5], 4.0), ("Dirichlet", D.Dirichlet, [[1.0, 1.0]], [0.5, 0.6]), ("Dirichlet", D.Dirichlet, [[1.0, 1.0]], [1.5, -0.5]),
        ("Dirichlet", D.Dirichlet, [[1.0, 1.0]], [0.2, 0.3, 0.5]), ("Categorical", D.Categorical, [[1.0, 1.0]], 2.0), ("Categorical", D.Categorical, [[1.0, 1.0]], -1.0),
        ("Categorical", D.Categorical, [[1.0, 1.0]], 0.5),
    ):
        refused(f"{name}::log_prob", lambda *x: make(*x[:-1]).log_prob(x[-1]), [tensor(p) for p in parameters] + [tensor(value)])
    for weights, attrs in (
        ([1.0, -1.0], (1, True)), ([0.0, 0.0], (1, True)), ([INF, 1.0], (1, True)), ([NAN, 1.0], (1, True)), ([1.0, 2.0], (3, False)), ([1.0, 2.0], (0, True)),
        ([[1.0, 2.0], [0.0, 0.0]], (1, False)), ([[[1.0]]], (1, True)), (1.0, (1, True)), ([1, 2], (1, True)),
    ):
        x = torch.tensor(weights)
        refused("multinomial", lambda x: torch.multinomial(x, *attrs), [x], {"samples": attrs[0], "replacement": attrs[1]})
    refused("poisson", torch.poisson, [tensor([-1.0])])
    refused("poisson", torch.poisson, [integers((2,))])


def of_all_counts(distribution, last):
    """The entropy, summed over counts up to `last`; of those that are not possible nothing."""
    count = torch.arange(last + 1.0, dtype=torch.float64).reshape(-1, *[1] * len(distribution.batch_shape))
    possible = count <= distribution.total_count if isinstance(distribution, D.Binomial) else torch.tensor(True)
    log_prob = distribution.log_prob(torch.where(possible, count, 0))
    return -torch.where(possible, log_prob.exp() * log_prob, 0).sum(0)


def entropies_of_counts():
    """PyTorch has that of equal `total_count` alone, and none of Poisson's."""
    state = rng.bit_generator.state
    for d in ("f32", "f64"):
        for rate in ([0.25, 4.0, 99.0], [[101.0], [150.0]], 1.5, []):
            case("Poisson.entropy", lambda r: of_all_counts(D.Poisson(r.double()), 500).to(r.dtype), [tensor(rate, d)])
        case("Poisson.entropy", lambda r: torch.zeros_like(r), [tensor([0.0], d)], grad=False)
        case("Binomial::entropy", lambda n, p: D.Binomial(n, p).entropy(), [tensor([7.0, 7.0], d), tensor([0.2, 0.5], d)], {"values": True})
        for n, p in (([3.0, 40.0, 0.0], [0.3, 0.9, 0.5]), ([[5.0], [2.0]], [0.125, 0.75])):
            case("Binomial::entropy", lambda n, p: of_all_counts(D.Binomial(n.double(), p.double(), validate_args=False), 40).to(p.dtype), [tensor(n, d), tensor(p, d)], {"values": True})
        case("Binomial::entropy", lambda n, p: torch.zeros_like(p), [tensor([4.0, 4.0], d), tensor([0.0, 1.0], d)], {"values": True}, grad=False)
    # Later files keep their numbers.
    rng.bit_generator.state = state


SECTIONS = (scalars, edges, categorical, dirichlet, multivariate_normal, xlogy, invalid, entropies_of_counts)
