#!/usr/bin/env python3
"""Write activations, losses and samplings of torch.nn.functional and gradients of their inputs, computed by PyTorch in f64, as JSON lines.

    python tools/oracle/torch_nn_functional.py crates/rustorch-nn/tests/fixtures

A line of activations.jsonl, losses.jsonl or vision.jsonl has "op", the function's name; "args", its other arguments by name; "inputs", tensors; "output";
and "grads", one for each input, null of those that have none: gradients of the sum of the output times weights, 0.25 + 0.5 · (i % 5 − 2)
of element i. Tensors are {"shape", "data"}, integers with "dtype": "i64"; what is not finite is a string. Lines with "refused": true have
inputs that PyTorch refuses. Inputs are multiples of 1/64, which f32 holds.
"""

import json
import os
import sys

import torch

F = torch.nn.functional
lines = []
generator = torch.Generator().manual_seed(20)
INF, NAN = float("inf"), float("nan")


def normal(*shape, scale=2.0):
    x = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
    return (x * 64).round() / 64


def uniform(low, high, *shape):
    """Strictly between the bounds."""
    x = torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low
    return ((x * 64).round() / 64).clamp(low + 1 / 64, high - 1 / 64)


def integers(low, high, *shape):
    return torch.randint(low, high, shape, generator=generator)


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


def stored(x):
    if x is None:
        return None
    number = lambda v: v if isinstance(v, int) or abs(v) < INF else str(v)
    flat = [number(v) for v in x.detach().flatten().tolist()]
    whole = lambda v: int(v) if isinstance(v, float) and v == int(v) and str(v) != "-0.0" else v
    data = [v if isinstance(v, str) else whole(v) for v in flat]
    fields = {"shape": list(x.shape), "data": data}
    return fields | ({"dtype": "i64"} if x.dtype == torch.int64 else {})


def case(op, inputs, constant=(), call=None, is_refused=False, **args):
    """A line. Inputs at the positions `constant` have no gradient; `call` stands for the function of the name."""
    f = call or getattr(F, op)
    leaves = [x.clone().requires_grad_(x.is_floating_point() and i not in constant) for i, x in enumerate(inputs)]
    line = {"op": op, "args": args, "inputs": [stored(x) for x in inputs]}
    if is_refused:
        try:
            f(*leaves, **args)
        except (RuntimeError, ValueError, IndexError):
            lines.append(line | {"refused": True})
            return
        raise AssertionError(f"PyTorch takes {line}")
    output = f(*leaves, **args)
    weights = (torch.arange(output.numel(), dtype=torch.float64) % 5 - 2) * 0.5 + 0.25
    wanted = [x for x in leaves if x.requires_grad]
    grads = iter(torch.autograd.grad(output, wanted, weights.reshape(output.shape), allow_unused=True) if wanted else ())
    grads = [stored(next(grads)) if x.requires_grad else None for x in leaves]
    lines.append(line | {"output": stored(output), "grads": grads})


def activations():
    special = tensor(0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0, 20.0, 20.5, -20.0, 88.0, -88.0, 1000.0, -1000.0)
    endless = tensor(INF, -INF, NAN)
    x = normal(3, 4)

    def pointwise(op, variants=({},), call=None):
        for args in variants:
            for inputs in (x, special, torch.zeros(0, 2, dtype=torch.float64), tensor(1.5)[0]):
                case(op, [inputs], call=call, **args)
            # Derivatives have no common sense there.
            case(op, [endless], constant=(0,), call=call, **args)

    for op in "relu relu6 selu silu mish hardswish sigmoid tanh tanhshrink softsign logsigmoid".split():
        pointwise(op)
    # PyTorch's own gradient has 1/6 in single precision (hardsigmoid_backward in aten/src/ATen/native/cpu/Activation.cpp).
    pointwise("hardsigmoid", call=lambda x: F.relu6(x + 3) / 6)
    pointwise("leaky_relu", ({"negative_slope": 0.01}, {"negative_slope": -0.5}, {"negative_slope": 0.0}))
    pointwise("elu", ({"alpha": 1.0}, {"alpha": 0.25}))
    pointwise("celu", ({"alpha": 1.0}, {"alpha": 2.5}))
    pointwise("gelu", ({"approximate": "none"}, {"approximate": "tanh"}))
    pointwise("hardtanh", ({"min_val": -1.0, "max_val": 1.0}, {"min_val": -0.5, "max_val": 3.0}))
    pointwise("hardshrink", ({"lambd": 0.5}, {"lambd": 3.0}))
    pointwise("softshrink", ({"lambd": 0.5}, {"lambd": 0.0}))
    pointwise("softplus", ({"beta": 1.0, "threshold": 20.0}, {"beta": 0.5, "threshold": 2.0}, {"beta": 3.0, "threshold": 200.0}))
    pointwise("threshold", ({"threshold": 0.5, "value": 20.0}, {"threshold": -3.0, "value": -1.0}))
    pointwise("rrelu", ({"lower": 0.125, "upper": 0.3125, "training": False},))
    for shape in ([4], [3, 4], [2, 4, 3], [2, 4, 2, 2]):
        case("prelu", [normal(*shape), tensor(0.25)])
        if len(shape) > 1:
            case("prelu", [normal(*shape), normal(4)])
    case("prelu", [special, tensor(-0.5)])
    case("prelu", [tensor(-1.5)[0], tensor(0.25)])
    case("prelu", [tensor(INF, -1.0), tensor(0.25)])
    case("prelu", [x, normal(3)], is_refused=True)
    case("prelu", [normal(4), normal(4)], is_refused=True)
    case("prelu", [x, normal(1, 4)], is_refused=True)
    for op in ("softmax", "softmin", "log_softmax"):
        for dim in (0, 1, -1):
            case(op, [normal(2, 3, 2)], dim=dim)
        case(op, [tensor(1000.0, -1000.0, 999.0)], dim=0)
        case(op, [tensor(1.0, 2.0)], dim=1, is_refused=True)
    case("softmax2d", [normal(2, 3, 2, 2)], call=torch.nn.Softmax2d())
    case("softmax2d", [normal(3, 2, 2)], call=torch.nn.Softmax2d())
    case("softmax2d", [normal(3, 2)], call=torch.nn.Softmax2d(), is_refused=True)
    case("glu", [normal(3, 4)], dim=-1)
    case("glu", [normal(2, 4, 3)], dim=1)
    case("glu", [normal(3, 4)], dim=0, is_refused=True)
    case("hardtanh", [x], min_val=1.0, max_val=-1.0, is_refused=True)
    case("softshrink", [x], lambd=-0.5, is_refused=True)
    case("celu", [x], alpha=0.0, is_refused=True)


REDUCTIONS = ("none", "mean", "sum")


def weighted(op, inputs, names=("weight",), constant=(), is_refused=False, **args):
    """A loss with weights, inputs that have no gradient, which follow the others; "weights" has their names."""
    n = len(inputs) - len(names)

    def call(*inputs, weights, **args):
        return getattr(F, op)(*inputs[:n], **dict(zip(weights, inputs[n:])), **args)

    constant = (*constant, *range(n, len(inputs)))
    case(op, inputs, constant, call, is_refused, weights=list(names), **args)


def regression():
    x, y = normal(3, 4), normal(3, 4)
    steps, zeros = tensor(0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 1000.0, -1000.0), torch.zeros(9, dtype=torch.float64)
    pairs = [(x, y), (steps, zeros), (tensor(1.5)[0], tensor(0.25)[0]), (torch.zeros(0, 2, dtype=torch.float64),) * 2]
    endless = (tensor(INF, -INF, NAN, 1.0), tensor(0.0, 0.0, 0.0, INF))
    for op, variants in (("l1_loss", ({},)), ("mse_loss", ({},)), ("smooth_l1_loss", ({"beta": 1.0}, {"beta": 0.5}, {"beta": 0.0})),
                         ("huber_loss", ({"delta": 1.0}, {"delta": 0.5}))):
        for args in variants:
            for reduction in REDUCTIONS:
                for pair in pairs:
                    case(op, pair, **args, reduction=reduction)
            case(op, endless, (0, 1), **args, reduction="none")
    case("smooth_l1_loss", (tensor(INF, -INF, 2.0**100), tensor(0.0, 0.0, 0.0)), beta=1.0, reduction="none")
    case("smooth_l1_loss", (x, y), beta=-1.0, reduction="mean", is_refused=True)
    case("huber_loss", (x, y), delta=0.0, reduction="mean", is_refused=True)


def binary():
    p, y, x = uniform(0, 1, 3, 4), uniform(0, 1, 3, 4), normal(3, 4)
    classes = integers(0, 2, 3, 4).double()
    edges = tensor(0.0, 0.0, 1.0, 1.0, 0.5, 0.5), tensor(0.0, 1.0, 0.0, 1.0, 0.0, 0.25)
    far, ends = tensor(1000.0, -1000.0, 1000.0, -1000.0, 0.0, -0.0), tensor(1.0, 1.0, 0.0, 0.0, 1.0, 0.0)
    for reduction in REDUCTIONS:
        op = "binary_cross_entropy"
        weighted(op, (p, y), (), reduction=reduction)
        weighted(op, edges, (), constant=(1,), reduction=reduction)
        for shape in ([3, 4], [4], [3, 1]):
            weighted(op, (p, y, uniform(0, 2, *shape)), reduction=reduction)
        op = "binary_cross_entropy_with_logits"
        weighted(op, (x, y), (), reduction=reduction)
        weighted(op, (far, ends), (), reduction=reduction)
        for shape in ([3, 4], [4]):
            weighted(op, (x, y, uniform(0, 2, *shape)), reduction=reduction)
            weighted(op, (x, y, uniform(0, 3, *shape)), ("pos_weight",), reduction=reduction)
        weighted(op, (far, ends, tensor(2.5)), ("pos_weight",), reduction=reduction)
        weighted(op, (x, y, uniform(0, 2, 3, 1), uniform(0, 3, 4)), ("weight", "pos_weight"), reduction=reduction)
        case("soft_margin_loss", (x, classes * 2 - 1), (1,), reduction=reduction)
        # PyTorch's overflows from 710 on.
        case("soft_margin_loss", (tensor(100.0, -100.0, 0.0), tensor(1.0, 1.0, -1.0)), (1,), reduction=reduction)
        op = "multilabel_soft_margin_loss"
        weighted(op, (x, classes), (), constant=(1,), reduction=reduction)
        weighted(op, (x, y), (), reduction=reduction)
        weighted(op, (x, classes, uniform(0, 2, 4)), constant=(1,), reduction=reduction)
        weighted(op, (normal(4), tensor(0.0, 1.0, 1.0, 0.0)), (), reduction=reduction)
    for op in ("binary_cross_entropy", "binary_cross_entropy_with_logits"):
        weighted(op, (p, normal(4)), (), reduction="mean", is_refused=True)
        weighted(op, (p, y, normal(5)), reduction="mean", is_refused=True)
    for bad in (-0.5, 1.5, NAN):
        weighted("binary_cross_entropy", (tensor(0.5, bad), tensor(0.0, 1.0)), (), reduction="mean", is_refused=True)
    for bad in (-0.5, 1.5):
        weighted("binary_cross_entropy", (tensor(0.5, 0.5), tensor(0.0, bad)), (), reduction="mean", is_refused=True)
    weighted("binary_cross_entropy_with_logits", (x, y, normal(5)), ("pos_weight",), reduction="mean", is_refused=True)
    case("soft_margin_loss", (x, normal(5)), reduction="mean", is_refused=True)


def likelihood():
    for reduction in REDUCTIONS:
        # Cross entropy has a fixture of its own, torch_cross_entropy.py's: here is that arguments arrive.
        for op, more in (("nll_loss", {}), ("cross_entropy", {"label_smoothing": 0.25})):
            for ignore_index in (-100, 1):
                args = {"ignore_index": ignore_index, "reduction": reduction} | more
                for shape, target in (([4, 3], [4]), ([3], []), ([2, 3, 2], [2, 2]), ([2, 3, 2, 2], [2, 2, 2])):
                    if op == "cross_entropy" and shape != [4, 3]:
                        continue
                    target = integers(0, 3, *target)
                    weighted(op, (normal(*shape), target), (), **args)
                    if len(shape) < 4:
                        weighted(op, (normal(*shape), target, uniform(0, 2, 3)), **args)
        ignored = torch.tensor([1, -100, 1, -100])
        weighted("nll_loss", (normal(4, 3), ignored), (), ignore_index=-100, reduction=reduction)
        infinite = torch.full((4, 3), -INF, dtype=torch.float64)
        weighted("nll_loss", (infinite, torch.full((4,), -100)), (), ignore_index=-100, reduction=reduction)
        probabilities = uniform(0, 1, 4, 3)
        weighted("cross_entropy", (normal(4, 3), probabilities), (), constant=(1,), ignore_index=-100, label_smoothing=0.0, reduction=reduction)
    args = {"ignore_index": -100, "reduction": "mean"}
    for target in (torch.tensor([0, 3, 1, 1]), torch.tensor([0, -1, 1, 1]), torch.tensor([0, 1]), torch.tensor([[0, 1, 1, 2]]), normal(4)):
        weighted("nll_loss", (normal(4, 3), target), (), **args, is_refused=True)
    weighted("nll_loss", (normal(4, 3), integers(0, 3, 4), normal(4)), **args, is_refused=True)
    for reduction in (*REDUCTIONS, "batchmean"):
        x, y = normal(3, 4), uniform(0, 1, 3, 4)
        for pair in ((x, y), (x, uniform(0, 1, 4)), (normal(4), uniform(0, 1, 4))):
            case("kl_div", pair, log_target=False, reduction=reduction)
        case("kl_div", (x, normal(3, 4)), log_target=True, reduction=reduction)
        case("kl_div", (tensor(-1.0, -2.0, -0.5), tensor(0.0, 1.0, 0.5)), (1,), log_target=False, reduction=reduction)
    case("kl_div", (x, normal(5)), log_target=False, reduction="mean", is_refused=True)
    for reduction in REDUCTIONS:
        x, rate, counts = normal(3, 4), uniform(0, 5, 3, 4), integers(0, 5, 3, 4).double()
        for full in (False, True):
            for log_input, input in ((True, x), (False, rate)):
                args = {"log_input": log_input, "full": full, "eps": 1e-8, "reduction": reduction}
                case("poisson_nll_loss", (input, counts), (1,), **args)
                case("poisson_nll_loss", (input, rate.flip(0)), **args)
            args = {"full": full, "eps": 1e-6, "reduction": reduction}
            for shape in ([3, 4], [3], [3, 1]):
                case("gaussian_nll_loss", (x, rate, uniform(0, 3, *shape)), **args)
            case("gaussian_nll_loss", (tensor(0.5, 1.0), tensor(0.25, 1.0), tensor(0.0, 1.0)), **args)
            case("gaussian_nll_loss", (tensor(0.5, 1.0), tensor(0.25, 1.0), tensor(0.25, 2.0)), full=full, eps=0.5, reduction=reduction)
    case("poisson_nll_loss", (tensor(0.0), tensor(2.0)), log_input=False, full=False, eps=1e-8, reduction="sum")
    case("gaussian_nll_loss", (x, rate, uniform(0, 3, 4)), **args, is_refused=True)
    case("gaussian_nll_loss", (x, rate, -rate), **args, is_refused=True)


def margins():
    a, b, sides = normal(3, 4), normal(3, 4), integers(0, 2, 3, 4).double() * 2 - 1
    x = normal(3, 4)
    for reduction in REDUCTIONS:
        for margin in (0.0, 0.5):
            args = {"margin": margin, "reduction": reduction}
            case("margin_ranking_loss", (a, b, sides), (2,), **args)
            # At the margin.
            case("margin_ranking_loss", (tensor(1.0, 2.0, 1.5), tensor(1.0, 1.5, 2.0), tensor(1.0, 1.0, -1.0)), (2,), **args)
            case("margin_ranking_loss", (a, normal(3, 1), sides[:1]), (2,), **args)
            case("cosine_embedding_loss", (a, b, tensor(1.0, -1.0, -1.0)), (2,), **args)
            case("cosine_embedding_loss", (a, a, tensor(1.0, -1.0, 0.0)), (2,), **args)
            case("cosine_embedding_loss", (a[0], b[0], tensor(-1.0)[0]), (2,), **args)
            case("cosine_embedding_loss", (a * 0, b, tensor(1.0, -1.0, 1.0)), (2,), **args)
            case("hinge_embedding_loss", (x, sides), (1,), margin=margin + 0.5, reduction=reduction)
        case("hinge_embedding_loss", (tensor(1.0, 1.0, 0.0, 0.25), tensor(1.0, -1.0, -1.0, 0.0)), (1,), margin=1.0, reduction=reduction)
        for p in (1, 2):
            for margin in (1.0, 0.5):
                args = {"p": p, "margin": margin, "reduction": reduction}
                weighted("multi_margin_loss", (x, integers(0, 4, 3)), (), **args)
                weighted("multi_margin_loss", (x, integers(0, 4, 3), uniform(0, 2, 4)), **args)
                # At the margin.
                weighted("multi_margin_loss", (tensor(1.0, 0.5, 0.0), torch.tensor(0)), (), **args)
            weighted("multi_margin_loss", (tensor(1.0, 0.5, 0.0), torch.tensor([2])), (), **args)
        for lists in ([[0, 2, -1, 1], [3, -1, 0, 0], [-1, 1, 2, 3]], [[0, 1, 2, 3], [3, 2, -1, -1], [1, -1, -1, -1]],
                      [[2, 2, 0, -1], [0, 0, 0, 0], [-1, -1, -1, -1]]):
            case("multilabel_margin_loss", (x, torch.tensor(lists)), reduction=reduction)
        case("multilabel_margin_loss", (tensor(1.0, 0.5, 0.0), torch.tensor([0, -1, 2])), reduction=reduction)
        for swap in (False, True):
            for p, margin in ((1.0, 1.0), (3.0, 1.0), (2.0, 2.5)):
                args = {"margin": margin, "p": p, "eps": 1e-6, "swap": swap, "reduction": reduction}
                case("triplet_margin_loss", (a, b, x), **args)
            case("triplet_margin_loss", (a[0], b[0], x[0]), **args)
            case("triplet_margin_loss", (a, b, x[:1]), **args)
            op, distance = "triplet_margin_with_distance_loss", lambda x, y: (x - y).square().sum(-1)
            call = lambda *x, **args: F.triplet_margin_with_distance_loss(*x, distance_function=distance, **args)
            case(op, (a, b, x), (), call, margin=2.0, swap=swap, reduction=reduction)
    mean = {"reduction": "mean"}
    case("margin_ranking_loss", (a, b, sides[0]), (2,), margin=0.0, **mean, is_refused=True)
    case("margin_ranking_loss", (a, normal(3, 5), sides), (2,), margin=0.0, **mean, is_refused=True)
    case("hinge_embedding_loss", (a, normal(5)), (1,), margin=1.0, **mean, is_refused=True)
    case("cosine_embedding_loss", (a, b, sides), (2,), margin=0.0, **mean, is_refused=True)
    case("cosine_embedding_loss", (a, b[0], sides[0]), (2,), margin=0.0, **mean, is_refused=True)
    case("cosine_embedding_loss", (a, b, normal(4)), (2,), margin=0.0, **mean, is_refused=True)
    for bad in ([0, 4, 1], [0, -1, 1], [0, 1], [[0, 1, 2]]):
        weighted("multi_margin_loss", (x, torch.tensor(bad)), (), p=1, margin=1.0, **mean, is_refused=True)
    weighted("multi_margin_loss", (x, torch.tensor([0, 1, 2])), (), p=3, margin=1.0, **mean, is_refused=True)
    weighted("multi_margin_loss", (x, torch.tensor([0, 1, 2]), normal(5)), p=1, margin=1.0, **mean, is_refused=True)
    for bad in ([[0, 4, 1, 1]] * 3, [[0, -2, 1, 1]] * 3, [0, 1, 2, 3]):
        case("multilabel_margin_loss", (x, torch.tensor(bad)), **mean, is_refused=True)
    args |= {"margin": 1.0, "reduction": "mean"}
    case("triplet_margin_loss", (a, b[0], x), **args, is_refused=True)
    case("triplet_margin_loss", (a, b, x), **args | {"margin": -1.0}, is_refused=True)


def ctc():
    def call(logits, targets, input_lengths, target_lengths, **args):
        """Of logits: PyTorch's gradient of log-probabilities is right only before log_softmax."""
        lengths = [torch.tensor(x if logits.dim() == 3 else x[0]) for x in (input_lengths, target_lengths)]
        return F.ctc_loss(logits.log_softmax(-1), targets, *lengths, **args)

    def add(logits, targets, inputs, outputs, constant=(), is_refused=False, **args):
        args = {"blank": 0, "reduction": "none", "zero_infinity": False} | args
        case("ctc_loss", (logits, torch.tensor(targets)), constant, call, is_refused, input_lengths=inputs, target_lengths=outputs, **args)

    x = normal(6, 3, 4)
    for reduction in REDUCTIONS:
        add(x, [[1, 2, 3], [1, 1, 2], [3, 3, 3]], [6, 6, 6], [3, 3, 3], reduction=reduction)
        add(x, [[1, 2, 3, 9], [2, 2, -1, 0], [3, 9, 9, 9]], [6, 4, 1], [3, 2, 1], reduction=reduction)
        add(x, [1, 2, 3, 1], [6, 4, 5], [3, 0, 1], reduction=reduction)
        add(x[:, 0], [1, 3], [6], [2], reduction=reduction)
        # Without an alignment: 2 2 needs three times.
        args = {"zero_infinity": True, "reduction": reduction}
        add(x, [[1, 2, 3], [2, 2, 1], [3, 1, 1]], [6, 2, 0], [3, 2, 2], **args)
        add(x, [[1, 2, 3], [2, 2, 1], [3, 1, 1]], [6, 2, 0], [3, 2, 2], (0,), **args | {"zero_infinity": False})
    add(x, [[0, 1], [1, 2], [2, 2]], [6, 6, 5], [2, 2, 2], blank=3)
    add(x, [[1, 2, 3]] * 3, [6, 0, 2], [0, 0, 0])
    add(normal(1, 1, 2), [[1]], [1], [1])
    # Logits that are far apart.
    add(x * 64, [[1, 2], [1, 1], [2, 3]], [6, 6, 6], [2, 2, 2])
    good = ([[1, 2], [1, 1], [2, 3]], [6, 6, 6], [2, 2, 2])
    add(x, *good, blank=4, is_refused=True)
    add(x, good[0], [7, 6, 6], good[2], is_refused=True)
    add(x, good[0], [6, 6], good[2], is_refused=True)
    add(x, *good[:2], [2, 2], is_refused=True)
    add(x, *good[:2], [3, 2, 2], is_refused=True)
    add(x, [1, 2, 3], *good[1:], is_refused=True)
    add(normal(6), *good, is_refused=True)


def empty():
    """Batches of no rows, and rows without labels."""
    none, rows, x = torch.zeros(0, 4, dtype=torch.float64), torch.zeros(0, dtype=torch.int64), normal(2, 4)
    for reduction in REDUCTIONS:
        args = {"reduction": reduction}
        weighted("nll_loss", (none, rows), (), ignore_index=-100, **args)
        weighted("binary_cross_entropy", (none, none), (), **args)
        weighted("multilabel_soft_margin_loss", (none, none), (), **args)
        if reduction == "none":
            # PyTorch's sums and means of these are memory that nothing was written to.
            weighted("multi_margin_loss", (none, rows), (), p=1, margin=1.0, **args)
            case("multilabel_margin_loss", (none, none.long()), **args)
        case("multilabel_margin_loss", (x, torch.full((2, 4), -1)), **args)
        case("cosine_embedding_loss", (none, none, rows.double()), (2,), margin=0.0, **args)
        case("gaussian_nll_loss", (none, none, none), full=False, eps=1e-6, **args)
        case("triplet_margin_loss", (none, none, none), margin=1.0, p=2.0, eps=1e-6, swap=True, **args)


def losses():
    regression()
    binary()
    likelihood()
    margins()
    ctc()
    empty()


def vision():
    for mode in ("constant", "reflect", "replicate", "circular"):
        for shape, pads in (((2, 3, 5), (2, 1)), ((3, 5), (0, 3)), ((1, 2, 4, 5), (1, 2, 3, 0)), ((2, 4, 5), (1, 1, 2, 2)), ((1, 2, 3, 3, 4), (1, 2, 0, 1, 2, 2)), ((2, 5), (-1, 2))):
            case("pad", (normal(*shape),), pad=pads, mode=mode)
        if mode != "constant":
            case("pad", (normal(2, 5),), pad=(1, 1), mode=mode, value=3.0, is_refused=True)
            case("pad", (normal(5),), pad=(1, 1), mode=mode, is_refused=True)
            case("pad", (normal(2, 3),), pad=(1, 1, 1), mode=mode, is_refused=True)
    case("pad", (normal(2, 3),), pad=(1, 2, -1, 1), mode="constant", value=-2.5)
    case("pad", (normal(2, 3),), pad=(3, 0), mode="reflect", is_refused=True)
    case("pad", (normal(2, 3),), pad=(4, 0), mode="circular", is_refused=True)
    for padding in ("zeros", "border", "reflection"):
        for corners in (False, True):
            args = {"padding_mode": padding, "align_corners": corners}
            for mode in ("bilinear", "nearest", "bicubic"):
                case("grid_sample", (normal(2, 3, 5, 7), normal(2, 4, 3, 2, scale=1.0)), mode=mode, **args)
                case("grid_sample", (normal(1, 1, 3, 3), normal(1, 2, 6, 2, scale=5.0)), mode=mode, **args)
                case("grid_sample", (normal(1, 2, 1, 3), normal(1, 1, 5, 2, scale=1.0)), mode=mode, **args)
            for mode in ("bilinear", "nearest"):
                case("grid_sample", (normal(2, 2, 3, 5, 7), normal(2, 2, 3, 2, 3, scale=1.0)), mode=mode, **args)
    args = {"mode": "bilinear", "padding_mode": "zeros", "align_corners": False}
    for shapes in (((3, 5, 7), (4, 3, 2)), ((2, 3, 5, 7), (1, 4, 3, 2)), ((2, 3, 5, 7), (2, 4, 3, 3)), ((1, 1, 0, 3), (1, 2, 2, 2)), ((1, 1, 3, 3), (1, 2, 2, 2, 2))):
        case("grid_sample", [normal(*shape) for shape in shapes], **args, is_refused=True)
    for padding in ("zeros", "border", "reflection"):
        volumes = (normal(1, 2, 3, 4, 3), normal(1, 1, 2, 2, 3, scale=1.0))
        case("grid_sample", volumes, **args | {"mode": "bicubic", "padding_mode": padding})
    for corners in (False, True):
        for theta, size in (((2, 2, 3), (2, 3, 4, 5)), ((1, 2, 3), (1, 1, 1, 3)), ((2, 3, 4), (2, 1, 2, 3, 4)), ((1, 3, 4), (1, 1, 1, 1, 2))):
            case("affine_grid", (normal(*theta),), size=size, align_corners=corners)
    for theta, size in (((2, 2, 3), (1, 3, 4, 5)), ((1, 2, 2), (1, 1, 2, 3)), ((1, 2, 3), (1, 1, 2)), ((1, 2, 3), (1, 1, 0, 2)), ((1, 2, 3), (1, 1, 2, 2, 2))):
        case("affine_grid", (normal(*theta),), size=size, align_corners=False, is_refused=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, cases in (("activations", activations), ("losses", losses), ("vision", vision)):
        lines.clear()
        cases()
        with open(os.path.join(sys.argv[1], name + ".jsonl"), "w") as out:
            out.write("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
