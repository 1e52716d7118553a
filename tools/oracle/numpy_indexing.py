#!/usr/bin/env python3
"""Write random indices, and what NumPy reads and writes there, as JSON lines; for some, gradients by PyTorch.

    python tools/oracle/numpy_indexing.py crates/rustorch-tensor/tests/fixtures/indexing.jsonl

The array counts from 0, has the shape "shape", and then its dimensions in the order "order". "index" is a list of integers, ["slice", start, end,
step], "ellipsis", "none", "true", "false", ["ints", shape, elements] and ["mask", shape, elements]. A line has

- "error": NumPy's exception, or
- "read": shape and elements of the part; "value": shape and elements of what is written there, "written": all elements of the array after it, and
  where no place is there twice "added": all elements after adding instead;
- "grads": where PyTorch reads the same and no place is there twice, the gradients of the array in reading, and of array and value in writing, where
  the gradient of the result counts from 1.
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch

rng = np.random.default_rng(17)


def pick(*choices):
    return choices[rng.integers(len(choices))]


def bound(n):
    return pick(None, int(rng.integers(-n - 2, n + 3)))


def sliced(n):
    return ["slice", bound(n), bound(n), int(pick(1, 1, 2, 3))]


def array(kind, shape, elements):
    return [kind, list(shape), np.asarray(elements).reshape(-1).tolist()]


def random_index(dims):
    """A list for an array of these dimensions, of which one in eight is wrong somewhere."""
    wrong = rng.random() < 0.125
    tensors = rng.random() < 0.7
    common = pick((), (3,), (1,), (2, 3), (2, 1), (0,))
    items, dim, ellipsis = [], 0, False
    while dim < len(dims):
        n, kind = dims[dim], rng.random()
        if kind < 0.08:
            items.append("none")
        elif kind < 0.13 and tensors:
            items.append(pick("true", "true", "false"))
        elif kind < 0.25 and not ellipsis:
            items.append("ellipsis")
            ellipsis = True
            dim += int(rng.integers(0, len(dims) - dim + 1))
        elif kind < 0.45 and n > 0:
            items.append(int(rng.integers(-n, n)))
            dim += 1
        elif kind < 0.7 or not tensors:
            items.append(sliced(n))
            dim += 1
        elif kind < 0.9:
            shape = pick(common, tuple(int(pick(d, 1)) for d in common), common[1:])
            if n == 0:
                shape = (0,)
            items.append(array("ints", shape, rng.integers(-n, n, shape) if n else np.zeros(shape, int)))
            dim += 1
        else:
            covered = dims[dim : dim + int(pick(1, 1, 2))]
            items.append(array("mask", covered, rng.random(covered) < 0.5))
            dim += len(covered)
        if rng.random() < 0.15:
            break
    if wrong:
        spoil(items, dims)
    return items


def spoil(items, dims):
    kind, at = rng.integers(5), int(rng.integers(len(items) + 1))
    if kind == 0:
        items += [["slice", None, None, 1]] * (len(dims) + 1)
    elif kind == 1:
        items.insert(0, int(pick(99, -99)))
    elif kind == 2:
        items.insert(0, array("ints", (2,), [0, pick(99, -99)]))
    elif kind == 3:
        items.insert(0, array("mask", (dims[0] + 1,), [True] * (dims[0] + 1)))
    else:
        items.insert(at, "ellipsis")
        items.append("ellipsis")


def index_of(items, tensor):
    def one(item):
        if isinstance(item, int):
            return item
        if isinstance(item, str):
            return {"ellipsis": Ellipsis, "none": None, "true": True, "false": False}[item]
        kind, *rest = item
        if kind == "slice":
            return slice(*rest)
        shape, elements = rest
        dtype = bool if kind == "mask" else np.int64
        a = np.array(elements, dtype).reshape(shape)
        return torch.from_numpy(a) if tensor else a

    return tuple(one(item) for item in items)


def flat(a):
    return [list(a.shape), np.asarray(a).reshape(-1).tolist()]


def gradients(x, items, value, read_shape):
    index = index_of(items, True)
    count = lambda t: torch.arange(1, t.numel() + 1, dtype=torch.float64).reshape(t.shape)
    try:
        leaf = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        part = leaf[index]
        if tuple(part.shape) != tuple(read_shape):
            return None
        (reading,) = torch.autograd.grad(part, leaf, count(part)) if part.requires_grad else (None,)
        source = torch.tensor(value, dtype=torch.float64, requires_grad=True)
        whole = leaf * 1
        whole[index] = source
        writing = torch.autograd.grad(whole, [leaf, source], count(whole), allow_unused=True)
    except (IndexError, RuntimeError, ValueError, TypeError):
        return None
    listed = lambda t, like: [0.0] * like.size if t is None else t.reshape(-1).tolist()
    return [listed(reading, x), listed(writing[0], x), listed(writing[1], value)]


def line():
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 3, 4, 5], int(rng.integers(1, 5))))
    if rng.random() < 0.05:
        shape = shape[:-1] + (0,)
    order = [int(i) for i in (rng.permutation(len(shape)) if rng.random() < 0.4 else range(len(shape)))]
    base = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    x = base.transpose(order)
    items = random_index(x.shape)
    row = {"shape": list(shape), "order": order, "index": items}
    index = index_of(items, False)
    try:
        read = x[index]
    except (IndexError, ValueError) as error:
        return row | {"error": f"{type(error).__name__}: {error}"}
    read = np.asarray(read)
    value_shape = tuple(int(pick(n, n, 1)) for n in read.shape)[int(rng.integers(0, 2)) * (rng.random() < 0.3) :]
    value = 1000 + np.arange(int(np.prod(value_shape)), dtype=np.int64).reshape(value_shape)
    written = x.copy()
    written[index] = value
    row |= {"read": flat(read), "value": flat(value), "written": written.reshape(-1).tolist()}
    if len(set(read.reshape(-1).tolist())) == read.size:
        added = x.copy()
        added[index] += value
        row["added"] = added.reshape(-1).tolist()
        if found := gradients(x.astype(float), items, value.astype(float), read.shape):
            row["grads"] = found
    return row


def main():
    rows = [line() for _ in range(400)]
    Path(sys.argv[1]).write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    errors, grads = (sum(key in row for row in rows) for key in ("error", "grads"))
    print(f"{len(rows)} indices, {errors} errors, {grads} with gradients; numpy {np.__version__}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
