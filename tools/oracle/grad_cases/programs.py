"""The steps of random programs: how PyTorch runs one, and how one is drawn. torch_programs.py makes the programs."""

import torch
import torch.nn.functional as F

UNARY = dict(
    neg=torch.neg, abs=torch.abs, sign=torch.sign, floor=torch.floor, round=torch.round, square=torch.square, exp=torch.exp, expm1=torch.expm1,
    log=torch.log, log1p=torch.log1p, sqrt=torch.sqrt, rsqrt=torch.rsqrt, reciprocal=torch.reciprocal, sin=torch.sin, cos=torch.cos, tan=torch.tan,
    asin=torch.asin, atan=torch.atan, sinh=torch.sinh, cosh=torch.cosh, tanh=torch.tanh, asinh=torch.asinh, sigmoid=torch.sigmoid, relu=F.relu,
    gelu=F.gelu, silu=F.silu, softplus=F.softplus, erf=torch.erf)
BINARY = dict(add=torch.add, sub=torch.sub, mul=torch.mul, div=torch.div, pow=torch.pow, maximum=torch.maximum, minimum=torch.minimum,
              atan2=torch.atan2, remainder=torch.remainder)
REDUCE = dict(sum=torch.sum, mean=torch.mean, amax=torch.amax, amin=torch.amin, logsumexp=torch.logsumexp)
VIEWS = ("reshape", "transpose", "permute", "expand", "narrow", "slice", "select", "diagonal", "unfold", "unsqueeze", "squeeze")
# What two libraries may round differently. The others are exact, or rounded once.
EXACT = ("neg", "abs", "sign", "floor", "round", "relu", "square", "reciprocal")
FUZZY = {*UNARY, "pow", "atan2", "remainder", *REDUCE, "prod", "var", "std", "cumsum", "cumprod", "matmul", "softmax", "log_softmax"} - {*EXACT, "amax", "amin"}


def tensor_of(attr, dtype):
    return torch.tensor(attr["data"], dtype=dtype).reshape(attr["shape"])


def run_step(op, args, attrs):
    """The result; None of a step in place."""
    x = args[0]
    y = args[1] if len(args) > 1 else None
    dim, value = attrs.get("dim"), attrs.get("value")
    index = tensor_of(attrs["index"], torch.int64) if "index" in attrs else None
    mask = tensor_of(attrs["mask"], torch.bool) if "mask" in attrs else None
    if op in UNARY:
        return UNARY[op](x)
    if op in BINARY:
        return BINARY[op](x, y if y is not None else value)
    if op in REDUCE:
        return REDUCE[op](x, dim=dim, keepdim=attrs["keepdim"])
    if op in ("var", "std"):
        return getattr(torch, op)(x, dim=dim, correction=attrs["correction"], keepdim=attrs["keepdim"])
    match op:
        case "prod": return x.prod(dim, attrs["keepdim"])
        case "cumsum" | "cumprod" | "softmax" | "log_softmax": return getattr(x, op)(dim)
        case "matmul": return x @ y
        case "where": return torch.where(x > 0, y, args[2])
        case "masked_fill": return x.masked_fill(mask, value)
        case "gather": return x.gather(dim, index)
        case "index_select": return x.index_select(dim, index)
        case "scatter_add": return x.scatter_add(dim, index, y)
        case "cat" | "stack": return getattr(torch, op)(args, dim)
        case "copy": return x.clone()
        case "contiguous": return x.contiguous()
        case "detach": return x.detach()
        case "clamp": return x.clamp(attrs["min"], attrs["max"])
        case "flip": return x.flip(dim)
        case "tril": return x.tril(attrs["diagonal"])
        case "reshape" | "expand": return getattr(x, op)(attrs["sizes"])
        case "permute": return x.permute(attrs["dims"])
        case "transpose": return x.transpose(*attrs["dims"])
        case "narrow": return x.narrow(dim, attrs["start"], attrs["len"])
        case "slice": return x[(slice(None),) * dim + (slice(attrs["start"], attrs["end"], attrs["step"]),)]
        case "select": return x.select(dim, attrs["at"])
        case "diagonal": return x.diagonal(attrs["offset"], *attrs["dims"])
        case "unfold": return x.unfold(dim, attrs["size"], attrs["step"])
        case "unsqueeze" | "squeeze": return getattr(x, op)(dim)
        case "add_" | "sub_" | "mul_" | "div_": getattr(x, op)(y if y is not None else value)
        case "copy_": x.copy_(y)
        case "fill_": x.fill_(value)
        case "masked_fill_": x.masked_fill_(mask, value)
        case "index_copy_": x.index_copy_(dim, index, y)
        case _: raise KeyError(op)
    return None


def stored(t):
    return {"shape": list(t.shape), "data": t.flatten().tolist()}


def broadcast(a, b):
    """The common shape, if there is one."""
    a, b = ([1] * (max(len(a), len(b)) - len(s)) + list(s) for s in (a, b))
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b)):
        return None
    return [n if m == 1 else m for m, n in zip(a, b)]


class Drawn:
    """What the steps are drawn from."""

    def __init__(self, rng, values, leaves, retired, memory):
        self.rng, self.values, self.leaves, self.memory = rng, values, leaves, memory
        self.live = [i for i in range(len(values)) if i not in retired]

    def one(self):
        """A value: a recent one more often."""
        return self.rng.choice(self.live[-4:] if self.rng.random() < 0.6 else self.live)

    def fitting(self, shape):
        """A value that broadcasts with a shape."""
        fits = [i for i in self.live if (both := broadcast(self.values[i].shape, shape)) is not None and torch.Size(both).numel() <= 36]
        return self.rng.choice(fits) if fits else None

    def within(self, shape):
        """A value that broadcasts to a shape."""
        found = [i for i in self.live if broadcast(self.values[i].shape, shape) == list(shape)]
        return self.rng.choice(found) if found else None

    def target(self):
        """A value to write: mostly one that has its memory alone."""
        held = [self.memory[i] for i in self.live]
        alone = [i for i in self.live if held.count(self.memory[i]) == 1 and (i >= self.leaves or not self.values[i].requires_grad)]
        if alone and self.rng.random() < 0.9:
            return self.rng.choice(alone[-3:])
        return self.one()

    def number(self):
        return self.rng.choice([0.5, 2.0, -1.5, 3.0, 0.0, -1.0, 0.25])

    def mask(self, shape):
        shape = [1 if self.rng.random() < 0.2 else n for n in shape]
        return stored(torch.tensor([self.rng.random() < 0.4 for _ in range(torch.Size(shape).numel())]).reshape(shape))

    def index(self, shape, size):
        return stored(torch.tensor([self.rng.randrange(size) for _ in range(torch.Size(shape).numel())], dtype=torch.int64).reshape(shape))


def dims_of(rng, rank):
    return rng.sample(range(rank), rng.randint(1, rank)) if rank and rng.random() < 0.8 else list(range(rank))


def view(d, op):
    at = d.one()
    x, rng = d.values[at], d.rng
    shape, rank = list(x.shape), x.dim()
    if op == "reshape":
        count, sizes = x.numel(), []
        while count > 1 and len(sizes) < 4:
            sizes.append(rng.choice([n for n in range(1, count + 1) if count % n == 0]))
            count //= sizes[-1]
        return [op, [at], {"sizes": sizes + [-1] if count else shape}]
    if op == "expand":
        sizes = [rng.randint(1, 2) for _ in range(rng.randint(0, 1))] + [rng.choice([2, 3]) if n == 1 and rng.random() < 0.7 else n for n in shape]
        return [op, [at], {"sizes": sizes}]
    if op == "permute":
        return [op, [at], {"dims": rng.sample(range(rank), rank)}]
    if op == "unsqueeze":
        return [op, [at], {"dim": rng.randint(0, rank)}] if rank < 5 else None
    if not rank or op == "diagonal" and rank < 2:
        return None
    dim = rng.randrange(rank)
    size = shape[dim]
    if op == "transpose":
        return [op, [at], {"dims": [dim, rng.randrange(rank)]}]
    if op == "diagonal":
        return [op, [at], {"offset": rng.choice([0, 0, 1, -1]), "dims": rng.sample(range(rank), 2)}]
    if op == "squeeze":
        return [op, [at], {"dim": dim}]
    if not size:
        return None
    start = rng.randrange(size)
    attrs = {"narrow": {"start": start, "len": rng.randint(1, size - start)}, "select": {"at": start},
             "slice": {"start": start, "end": rng.randint(start + 1, size), "step": rng.choice([1, 2, 2])},
             "unfold": {"size": rng.randint(1, size), "step": rng.choice([1, 2])}}[op]
    return [op, [at], {"dim": dim} | attrs]


def write(d):
    at, rng = d.target(), d.rng
    x = d.values[at]
    op = rng.choice(["add_", "add_", "sub_", "mul_", "mul_", "div_", "copy_", "fill_", "masked_fill_", "index_copy_", "index_copy_"])
    if op == "fill_":
        return [op, [at], {"value": d.number()}]
    if op == "masked_fill_":
        return [op, [at], {"mask": d.mask(x.shape), "value": d.number()}]
    if op == "index_copy_":
        if not x.dim():
            return None
        dim = rng.randrange(x.dim())
        apart = lambda s: list(s[:dim]) + list(s[dim + 1:])
        found = [i for i in d.live if d.values[i].dim() == x.dim() and apart(d.values[i].shape) == apart(x.shape) and d.values[i].shape[dim] <= x.shape[dim]]
        if not found:
            return None
        source = rng.choice(found)
        y = d.values[source]
        return [op, [at, source], {"dim": dim, "index": {"shape": [y.shape[dim]], "data": rng.sample(range(x.shape[dim]), y.shape[dim])}}]
    if op in ("add_", "mul_", "div_") and rng.random() < 0.3:
        return [op, [at], {"value": d.number()}]
    source = d.within(x.shape)
    return None if source is None else [op, [at, source], {}]


def other(d, op):
    at, rng = d.one(), d.rng
    x = d.values[at]
    shape, rank = list(x.shape), x.dim()
    if op == "where":
        a = d.fitting(shape)
        b = None if a is None else d.fitting(broadcast(shape, d.values[a].shape))
        return None if b is None else [op, [at, a, b], {}]
    if op == "matmul":
        found = [i for i in d.live if d.values[i].dim() and rank and d.values[i].shape[-2 if d.values[i].dim() > 1 else -1] == shape[-1]]
        return [op, [at, rng.choice(found)], {}] if found else None
    if op == "masked_fill":
        return [op, [at], {"mask": d.mask(shape), "value": d.number()}]
    if op == "clamp":
        return [op, [at], {"min": rng.choice([-1.0, -0.5, 0.0]), "max": rng.choice([0.5, 1.0, 2.0])}]
    if op == "flip":
        return [op, [at], {"dim": dims_of(rng, rank)}]
    if op == "tril":
        return [op, [at], {"diagonal": rng.choice([-1, 0, 1])}] if rank > 1 else None
    if op in ("copy", "contiguous", "detach"):
        return [op, [at], {}]
    if op == "stack":
        found = [i for i in d.live if list(d.values[i].shape) == shape]
        return [op, [at] + rng.choices(found, k=rng.randint(1, 2)), {"dim": rng.randint(0, rank)}] if rank < 5 else None
    if not rank:
        return None
    dim = rng.randrange(rank)
    if op == "cat":
        apart = lambda s: s[:dim] + s[dim + 1:]
        found = [i for i in d.live if d.values[i].dim() == rank and apart(list(d.values[i].shape)) == apart(shape)]
        return [op, [at] + rng.choices(found, k=rng.randint(1, 2)), {"dim": dim}]
    if op in ("gather", "index_select"):
        if not shape[dim]:
            return None
        count = rng.randint(1, 3)
        wanted = [count] if op == "index_select" else [rng.randint(1, n) if n else 0 for n in shape[:dim]] + [count] + [rng.randint(1, n) if n else 0 for n in shape[dim + 1:]]
        return [op, [at], {"dim": dim, "index": d.index(wanted, shape[dim])}]
    if op == "scatter_add":
        source = d.one()
        y = d.values[source]
        if y.dim() != rank or not shape[dim] or any(b > a for i, (a, b) in enumerate(zip(shape, y.shape)) if i != dim):
            return None
        return [op, [at, source], {"dim": dim, "index": d.index(list(y.shape), shape[dim])}]
    if op in ("prod", "cumprod") and not x.isfinite().all():
        return None
    if op == "prod":
        return [op, [at], {"dim": dim, "keepdim": rng.random() < 0.5}]
    return [op, [at], {"dim": dim}]


OTHER = ("where", "matmul", "matmul", "masked_fill", "clamp", "flip", "tril", "copy", "contiguous", "detach", "stack", "cat", "gather", "index_select",
         "scatter_add", "prod", "cumsum", "cumprod", "softmax", "log_softmax")


def draw(rng, values, leaves, retired, memory):
    """A step that may fit, or None."""
    d = Drawn(rng, values, leaves, retired, memory)
    kind = rng.random()
    if kind < 0.22:
        return [rng.choice(list(UNARY)), [d.one()], {}]
    if kind < 0.42:
        at, op = d.one(), rng.choice(["add", "sub", "mul", "mul", "div", *BINARY])
        if op == "pow" or rng.random() < 0.15:
            if op in ("maximum", "minimum", "atan2"):
                return None
            return [op, [at], {"value": rng.choice([2.0, 3.0, 0.75, -1.0]) if op in ("pow", "remainder") else d.number()}]
        b = d.fitting(values[at].shape)
        return None if b is None else [op, rng.sample([at, b], 2), {}]
    if kind < 0.62:
        return view(d, rng.choice(VIEWS))
    if kind < 0.72:
        at, op = d.one(), rng.choice([*REDUCE, "sum", "var", "std"])
        attrs = {"dim": dims_of(rng, values[at].dim()), "keepdim": rng.random() < 0.4}
        return [op, [at], attrs | ({"correction": rng.choice([0, 1])} if op in ("var", "std") else {})]
    if kind < 0.82:
        return write(d)
    return other(d, rng.choice(OTHER))
