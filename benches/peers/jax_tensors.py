#!/usr/bin/env python3
"""Time cases of `torch_tensors.py` against JAX's compiled functions, in turn, and print medians and ratios.

    benches/peers/jax_tensors.py FILE [--above 1.05] [--threads 1 2] [--only PATTERN] [--rounds 5] [--json FILE]

Needs JAX. FILE is what `torch_tensors.py --json` wrote: of its cases those are run in which RusTorch took more than so many times PyTorch's time, with
any number of threads. Ratios are as there: below 1 RusTorch is faster.

Functions are compiled before they are timed, and write into donated operands where PyTorch writes in place. JAX has as many threads as the process may
use CPUs, so that each number of threads is a process of its own.
"""

import math
import os

from other_tensors import compare_with
from torch_tensors import NamedCase


class Case(NamedCase):
    def __init__(self, name):
        import jax
        import numpy

        self.jax, self.jnp = jax, jax.numpy
        self.random = numpy.random.default_rng(0)
        super().__init__(name, jax.numpy)

    def operand(self, i):
        values = self.random.integers(-4, 4, self.shapes[i]) if self.dtype in ["i8", "i64"] else self.random.standard_normal(self.shapes[i])
        return self.jnp.asarray(values).astype(self.type())

    def indices(self, i, below):
        return self.jnp.asarray(self.random.integers(0, below, self.shapes[i]))

    def compiled(self, function, *operands):
        """A call that ends when the result is there."""
        run = self.jax.jit(function)
        return lambda: self.jax.block_until_ready(run(*operands))

    def in_place(self, function, x, *operands):
        """The same, into the first operand."""
        run, kept = self.jax.jit(function, donate_argnums=0), [x + 0]

        def call():
            kept[0] = self.jax.block_until_ready(run(kept[0], *operands))

        return call

    def call(self):
        """The function that the name says, `None` where it is not written here."""
        jnp, lax, n = self.jnp, self.jax.lax, self.argument
        if self.operation == "arange":
            count = math.prod(self.shapes[0])
            return self.compiled(lambda start: start + jnp.arange(count, dtype=self.type()), jnp.zeros((), self.type()))
        if self.operation.startswith("attention"):
            q, k = (jnp.swapaxes(self.operand(i), 1, 2) for i in (0, len(self.shapes) - 1))
            causal = self.operation == "attention_causal"
            return self.compiled(lambda q, k: self.jax.nn.dot_product_attention(q, k, k, is_causal=causal), q, k)
        if self.operation.startswith("conv"):
            return self.convolution()
        x = self.operand(0)
        one = {
            "exp": jnp.exp, "log": lambda x: jnp.log(jnp.abs(x)), "sin": jnp.sin, "tanh": jnp.tanh, "sigmoid": self.jax.nn.sigmoid,
            "silu": self.jax.nn.silu, "relu": self.jax.nn.relu, "add_scalar": lambda x: x + 1.5,
            "gelu": lambda x: self.jax.nn.gelu(x, approximate=False), "gelu_tanh": self.jax.nn.gelu,
            "sum": lambda x: x.sum(n), "mean": lambda x: x.mean(n), "max": lambda x: x.max(n), "argmax": lambda x: x.argmax(n),
            "softmax": lambda x: self.jax.nn.softmax(x, n), "log_softmax": lambda x: self.jax.nn.log_softmax(x, n),
            "layer_norm": lambda x: self.jax.nn.standardize(x, -1, epsilon=1e-5),
            "cumsum": lambda x: x.cumsum(n), "cumprod": lambda x: x.cumprod(n), "flip": lambda x: jnp.flip(x, n),
            "copy_slice": lambda x: x[1:-1, ::2], "median": lambda x: jnp.median(x, n), "diff": lambda x: jnp.diff(x, axis=n),
            "cov": jnp.cov, "logcumsumexp": lambda x: lax.cumlogsumexp(x, n), "cummax": lambda x: lax.cummax(x, n),
            "qr": lambda x: jnp.linalg.qr(x)[0], "cholesky": lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(len(x), dtype=x.dtype)),
        }
        if self.operation in one:
            return self.compiled(one[self.operation], x)
        if self.operation in ["set_slice", "fill_slice"]:
            part = x[1:-1, ::2] + 0 if self.operation == "set_slice" else jnp.asarray(1.5, x.dtype)
            return self.in_place(lambda x, part: x.at[1:-1, ::2].set(part), x, part)
        if self.operation in ["set_points", "add_points"]:
            index = self.indices(1, x.shape[0]), self.indices(1, x.shape[1])
            change = lambda x, i, j, part: x.at[i, j].set(part) if self.operation == "set_points" else x.at[i, j].add(part)
            return self.in_place(change, x, *index, x[index])
        if self.operation in ["take", "get_rows", "embedding", "index_select"]:
            return self.compiled(lambda x, index: jnp.take(x, index, n or 0, mode="clip"), x, self.indices(1, x.shape[n or 0]))
        if self.operation in ["put", "set_rows"]:
            index = self.indices(1, x.shape[0])
            return self.in_place(lambda x, index, part: x.at[index].set(part), x, index, x[index])
        if self.operation in ["gather", "scatter_add"]:
            index = self.indices(1, x.shape[n])
            if self.operation == "gather":
                return self.compiled(lambda x, index: jnp.take_along_axis(x, index, n), x, index)
            places = [jnp.arange(size).reshape([-1 if d == axis else 1 for d in range(x.ndim)]) for axis, size in enumerate(x.shape)]
            return self.compiled(lambda x, index: x.at[tuple(index if axis == n else place for axis, place in enumerate(places))].add(x), x, index)
        if len(self.shapes) < 2:
            return None
        y = self.operand(1)
        equations = {"einsum": "bij,bjk->bik", "einsum_heads": "bqhd,bkhd->bhqk", "einsum_outer": "i,j->ij", "einsum_sum": "ij,ij->"}
        if equation := equations.get(self.operation):
            return self.compiled(lambda x, y: jnp.einsum(equation, x, y), x, y)
        if self.operation == "bucketize":
            x = jnp.sort(x)
        if self.operation == "solve":
            x = x @ x.T + jnp.eye(len(x), dtype=x.dtype)
        wide = {"preferred_element_type": jnp.int32} if self.dtype == "i8" else {}
        two = {
            "matmul": lambda x, y: jnp.matmul(x, y, **wide),
            "matmul_tn": lambda x, y: x.T @ y,
            "linear": lambda x, y: x @ y.T,
            "add": lambda x, y: x + y,
            "add_t": lambda x, y: x.T + y,
            "logaddexp": jnp.logaddexp,
            "cat": lambda x, y: jnp.concatenate([x, y], n),
            "solve": jnp.linalg.solve,
            "bucketize": jnp.searchsorted,
            "tensordot": lambda x, y: jnp.tensordot(x, y, ([1, 2], [1, 0])),
            "kron": jnp.kron,
            "cdist": lambda x, y: jnp.linalg.norm(x[:, None] - y, n, axis=-1),
        }
        return self.compiled(two[self.operation], x, y) if self.operation in two else None

    def convolution(self):
        """As PyTorch's."""
        jnp, lax, x, weight = self.jnp, self.jax.lax, self.operand(0), self.operand(1)
        stride, groups, spatial = self.argument or 1, x.shape[1] if weight.shape[1] == 1 else 1, x.ndim - 2
        padding = [(weight.shape[2] // 2,) * 2] * spatial
        forward = lambda x, weight: lax.conv_general_dilated(x, weight, [stride] * spatial, padding, feature_group_count=groups)
        if self.operation in ["conv1d", "conv2d", "conv3d"]:
            return self.compiled(forward, x, weight)
        grad = jnp.ones_like(forward(x, weight))
        of = 0 if self.operation == "conv2d_data" else 1
        return self.compiled(lambda x, weight, grad: self.jax.vjp(forward, x, weight)[1](grad)[of], x, weight, grad)


def prepare(threads):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)


if __name__ == "__main__":
    compare_with("JAX", __doc__, lambda name, threads: Case(name).call(), prepare)
