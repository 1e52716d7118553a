#!/usr/bin/env python3
"""Write random programs of tensor operations with their gradients, computed by PyTorch's autograd, as JSON lines.

    python tools/oracle/torch_programs.py crates/rustorch-tensor/tests/fixtures/programs.jsonl [COUNT SEED]

One line is one program:

    {"leaves": [TENSOR...], "needs": [BOOL...], "steps": [[OP, [ARGUMENT...], ATTRS, NO_GRAD]...], "outputs": [NUMBER...],
     "values": [TENSOR...], "grads": [TENSOR|null...], "second": [TENSOR|null...], "error": [STAGE, MESSAGE]}

TENSOR is that of tensor_ops.py, all of f64. Values are numbered: the leaves first, then the result of each step whose name has no _ at its end. Those
with one write argument 0 in place, and make no value. NO_GRAD is 1 for a step without recording. Of the other keys:

- "values": what the outputs hold at the end. "grads": the gradients of the leaves that need one, for the seeds of `seed_of`.
- "second" (may be absent): the first gradients, computed with create_graph, are differentiated again, each with a seed of `seed_of`, whose numbers go
  on after the outputs'. Without the key no first gradient depends on a leaf.
- "error" (may be absent): PyTorch refuses the program, and where: "forward", "first", "second". Values and gradients are then those of the program as if
  a write had not touched what was saved before it, and views made without recording were detached; absent where PyTorch refuses that too.

What copy_ and fill_ overwrite has no gradient. PyTorch gives it zeros, which are NaN behind a function whose derivative is infinite or NaN; expected is
then the other, computed with a new tensor in the place of the written one.

Not drawn are prod and cumprod of infinities, where PyTorch's formulas divide infinities; and square roots by pow, of which PyTorch's of -inf is NaN; and
views without recording that change nothing, which here are the tensor itself.
Programs whose results depend on the last bits of one of their operations are left out: a comparison of numbers that are equal but for rounding.
"""

import json
import random
import sys
from contextlib import nullcontext

import torch
from grad_cases.programs import FUZZY, VIEWS, draw, run_step
from tensor_ops import encode

COUNT, SEED = 500, 20261124
# The part of programs that PyTorch may refuse.
ERRORS = 0.12
rng = random.Random()
TOLD = ("leaf Variable", "no_grad mode", "written-to tensor refers", "inference")


def seed_of(shape, number):
    """The seed of a tensor: not zero, of both signs, exact."""
    count = torch.Size(shape).numel()
    return torch.tensor([((7 * i + 3 * number) % 11 - 5.5) / 4 for i in range(count)], dtype=torch.float64).reshape(shape)


class Program:
    """The leaves and steps so far."""

    def __init__(self, leaves, needs):
        self.leaves, self.needs, self.steps, self.outputs = leaves, needs, [], []

    def start(self):
        return [t.clone().requires_grad_(need) for t, need in zip(self.leaves, self.needs)]

    def run(self, detached=False, cut=False, noise=None):
        leaves = self.start()
        values = list(leaves)
        for step in self.steps:
            if cut and step[0] in ("copy_", "fill_") and not step[3]:
                target, source = values[step[1][0]], values[step[1][-1]]
                written = torch.full_like(target, step[2]["value"]) if step[0] == "fill_" else source.expand(target.shape).clone()
                values[step[1][0]] = written
                continue
            result = execute(step, values)
            if result is None:
                continue
            if detached and step[3] and step[0] in VIEWS:
                result = result.detach()
            if noise is not None and step[0] in FUZZY:
                result = result * (1 + 4e-16 * torch.randn(result.shape, dtype=torch.float64, generator=noise))
            values.append(result)
        return leaves, values


def execute(step, values):
    with torch.no_grad() if step[3] else nullcontext():
        return run_step(step[0], [values[i] for i in step[1]], step[2])


def differentiate(program, **more):
    """The outputs, the first and the second gradients, and the error with its stage that ended it."""
    found = {"values": None, "grads": None, "second": None}
    stage = "forward"
    try:
        leaves, values = program.run(**more)
        outs = [values[i] for i in program.outputs]
        found["values"] = [t.detach().clone() for t in outs]
        stage = "first"
        wanted = [t for t in leaves if t.requires_grad and t.is_leaf]
        roots = [(t, seed_of(t.shape, i)) for i, t in enumerate(outs) if t.grad_fn is not None]
        if not roots or not wanted:
            raise LookupError
        first = torch.autograd.grad([t for t, _ in roots], wanted, [s for _, s in roots], create_graph=True, allow_unused=True)
        found["grads"] = [None if g is None else g.detach().clone() for g in first]
        stage = "second"
        roots = [(g, seed_of(g.shape, len(outs) + i)) for i, g in enumerate(first) if g is not None and g.requires_grad]
        if roots:
            found["second"] = list(torch.autograd.grad([g for g, _ in roots], wanted, [s for _, s in roots], allow_unused=True))
    except RuntimeError as error:
        return found, [stage, str(error).split("\n")[0]]
    return found, None


def permissive(program, **more):
    """As `differentiate`, of a program whose saved tensors no write reaches."""
    keep = lambda t: t.detach().clone()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        return differentiate(program, **more)


def same(a, b, beside_nan=False):
    """Whether two results agree, none counting as zeros, and are not so large that rounding alone makes them differ; or only where the first is a number."""
    for key in a:
        for x, y in zip(a[key] or b[key] or [], b[key] or a[key] or []):
            x, y = (torch.zeros(()) if a[key] is None or x is None else x), (torch.zeros(()) if b[key] is None or y is None else y)
            y = torch.where(x.isnan(), x, y) if beside_nan else y
            if not torch.allclose(x.double(), y.double(), rtol=1e-9, atol=1e-11, equal_nan=True):
                return False
            if any(v.abs() > 1e6 for v in x.flatten() if v.isfinite()):
                return False
    return True


def leaf():
    rank = rng.choice([0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5])
    shape = [rng.choice([1, 2, 2, 3, 3] if rank < 4 else [1, 1, 2]) for _ in range(rank)]
    if shape and rng.random() < 0.02:
        shape[rng.randrange(rank)] = 0
    special = rng.random() < 0.15
    pick = lambda: rng.choice([0.0, 0.0, float("inf"), -float("inf"), float("nan")]) if special and rng.random() < 0.2 else round(rng.gauss(0, 1), 3)
    return torch.tensor([pick() for _ in range(torch.Size(shape).numel())], dtype=torch.float64).reshape(shape)


def has_history(t):
    """Whether a gradient passes through a tensor; not where PyTorch cannot say, of a view made without recording whose base was written since."""
    try:
        return t.grad_fn is not None
    except RuntimeError:
        return False


def compose():
    """A program that PyTorch runs, or at whose last step it raises."""
    leaves = [leaf() for _ in range(rng.choice([1, 2, 2, 3, 3, 4]))]
    needs = [True] + [rng.random() < 0.7 for _ in leaves[1:]]
    program = Program(leaves, needs)
    values = program.start()
    # What no later step names, and the memory that each value has.
    retired, memory = set(), list(range(len(values)))
    length = rng.choice([3, 4, 5, 6, 8, 10, 12, 15, 20, 30])
    no_grad = illegal = 0
    for _ in range(40 * length):
        if len(program.steps) == length or illegal:
            break
        no_grad = no_grad - 1 if no_grad else rng.choice([1, 2, 3]) if rng.random() < 0.03 else 0
        step = draw(rng, values, len(leaves), retired, memory)
        if step is None:
            continue
        step.append(int(no_grad > 0))
        try:
            result = execute(step, values)
        except (RuntimeError, IndexError) as error:
            illegal = any(told in str(error) for told in TOLD) and rng.random() < 0.3
            if illegal:
                program.steps.append(step)
            continue
        if result is not None and (result.numel() > 36 or result.dtype != torch.float64):
            continue
        if step[3] and step[0] in VIEWS and (result.shape, result.stride()) == (values[step[1][0]].shape, values[step[1][0]].stride()):
            continue
        program.steps.append(step)
        if result is None:
            continue
        owner = [i for i, v in enumerate(values) if v.untyped_storage().data_ptr() == result.untyped_storage().data_ptr() and v.numel()]
        memory.append(memory[owner[0]] if owner else len(values))
        values.append(result)
        if owner and rng.random() < 0.6:
            retired.add(step[1][0])
    if len(program.steps) < 3:
        return None
    live = [i for i, v in enumerate(values) if has_history(v) and i >= len(leaves) and i not in retired]
    if not live:
        return None
    program.outputs = sorted({live[-1]} | set(rng.sample(live, min(len(live), rng.choice([0, 1, 2, 2, 3])))))
    return program


# Programs that were wrong once: leaves, steps, outputs.
INF, NAN = float("inf"), float("nan")
ONCE_WRONG = [
    ([0.75], [["var", [0], {"dim": [], "keepdim": False, "correction": 1}], ["square", [0], {}]], [1, 2]),
    ([[[0.0, 1.5], [NAN, -INF]]], [["cumprod", [0], {"dim": 0}]], [1]),
    ([[0.5, INF, NAN, -2.0], [0.25]], [["var", [0], {"dim": [0], "keepdim": False, "correction": 1}], ["minimum", [1, 2], {}], ["sin", [0], {}]], [3, 4]),
    ([[1.5, -1.5, 0.0], [[-INF], [INF]]], [["remainder", [0, 1], {}]], [2]),
]


def write(program, found, error):
    listed = lambda ts: [None if t is None else encode(torch.empty(t.shape, dtype=t.dtype).copy_(t.detach())) for t in ts]
    row = {"leaves": listed(program.leaves), "needs": program.needs, "steps": program.steps, "outputs": program.outputs}
    row |= {key: listed(ts) for key, ts in found.items() if ts is not None}
    return json.dumps(row | ({"error": error} if error else {}), separators=(",", ":"))


def main():
    torch.set_num_threads(1)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else COUNT
    rng.seed(int(sys.argv[3]) if len(sys.argv) > 3 else SEED)
    lines, errors, unsteady, writes, cuts = [], {"forward": 0, "first": 0, "second": 0}, 0, 0, 0
    known = [Program([torch.tensor(t, dtype=torch.float64) for t in leaves], [True] * len(leaves)) for leaves, _, _ in ONCE_WRONG]
    for program, (_, steps, outputs) in zip(known, ONCE_WRONG):
        program.steps, program.outputs = [[*step, 0] for step in steps], outputs
    while len(lines) < count:
        program = known.pop() if known else compose()
        if program is None:
            continue
        try:
            found, error = differentiate(program)
            allowed, refusal = permissive(program, detached=error is not None)
            overwritten, _ = permissive(program, detached=error is not None, cut=True)
            shaken, _ = permissive(program, detached=error is not None, noise=torch.Generator().manual_seed(1))
        except LookupError:
            continue
        if error and sum(errors.values()) >= ERRORS * count:
            continue
        if not same(allowed, shaken) or not error and not same(found, allowed):
            unsteady += 1
            continue
        if error:
            found = allowed if refusal is None else {}
            errors[error[0]] += 1
        if found and not same(found, overwritten) and same(found, overwritten, beside_nan=True):
            found = overwritten
            cuts += 1
        writes += any(step[0].endswith("_") for step in program.steps)
        lines.append(write(program, found, error))
    with open(sys.argv[1], "w") as out:
        out.write("\n".join(lines) + "\n")
    print(f"{count} programs, {writes} with writes, errors {errors}, {unsteady} left out, {cuts} with an overwritten NaN, {sum(map(len, lines)) / 1000:.0f} kB, torch {torch.__version__}")


if __name__ == "__main__":
    main()
