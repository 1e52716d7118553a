#!/usr/bin/env python3
"""Time single operations on tensors against PyTorch's, in turn, and print medians and ratios.

    benches/peers/torch_tensors.py [--threads 1 2] [--only PATTERN] [--rounds 5] [--quick] [--untuned] [--json FILE]

Needs PyTorch and a C compiler. Builds `rustorch-tensor`'s benchmark `tensors`, which lists the cases: a name says operation, dtype, shapes and
further arguments. Each round runs both, one right after the other; ratios are taken round by round, and below 1 RusTorch is faster. Spread is how far
the ratios of the rounds lie apart; where it is more than 15 %, the case is run again, twice at most, and the calmest run counts.

The share of the limit is what the CPU would need at least, of what RusTorch takes: multiply-adds of `f32` and `f64` at the rate at which registers
multiply, or the bytes of operands and results at the rate at which memory is read, whichever takes longer (`limits.c`). Operations whose operands
and results fit into caches have the former alone, and many have none. Writing costs more than reading, so that copies end below 100 %; Winograd's
convolutions may end above.

PyTorch is tuned: MKL is told that the CPU is Intel's, for it leaves AVX-512 unused on others, and malloc keeps large blocks instead of giving them
back to the system after each operation. `--untuned` measures what a user gets.
"""

import collections
import json
import math
import os
import re
import statistics
import subprocess
import time

from side_by_side import build, limits, options, tune, untuned

# Bytes that caches may hold: what is less is not read from memory.
CACHES = 8 << 20


class NamedCase:
    """What the name of a case says; dtypes are those of a library."""

    def __init__(self, name, library):
        parts = name.split("/")
        self.operation, self.dtype, self.library = parts[0], parts[1], library
        self.shapes = [[int(n) for n in shape.split("x")] for shape in parts[2].split(",")]
        self.argument = int(parts[3]) if len(parts) > 3 else None

    def type(self):
        names = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "c64": "complex64", "i8": "int8", "i64": "int64"}
        return getattr(self.library, names[self.dtype])


class Case(NamedCase):
    def __init__(self, name):
        import torch

        self.torch = torch
        super().__init__(name, torch)

    def operand(self, i):
        if self.dtype in ["i8", "i64"]:
            return self.torch.randint(-4, 4, self.shapes[i]).to(self.type())
        return self.torch.randn(self.shapes[i]).to(self.type())

    def indices(self, i, below):
        return self.torch.randint(0, below, self.shapes[i])

    def call(self):
        """The function that the name says."""
        torch, n = self.torch, self.argument
        made = {
            "arange": lambda: torch.arange(0.0, float(math.prod(self.shapes[0])), 1.0),
            "rand": lambda: torch.rand(self.shapes[0], dtype=self.type()),
            "randn": lambda: torch.randn(self.shapes[0], dtype=self.type()),
            "randperm": lambda: torch.randperm(math.prod(self.shapes[0])),
        }
        if self.operation in made:
            return made[self.operation]
        if self.operation.startswith("attention"):
            q, k = self.operand(0), self.operand(len(self.shapes) - 1)
            return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=self.operation == "attention_causal")
        if self.operation.startswith("conv"):
            return self.convolution()
        x = self.operand(0)
        for family in [self.indexing, self.statistics, self.contractions]:
            if call := family(x):
                return call
        prepared = {"log": torch.abs, "sqrt": torch.abs, "copy_t": lambda x: x.T, "copy_heads": lambda x: x.transpose(1, 2)}
        prepared |= {"cholesky": self.positive, "solve": self.positive, "matmul_tn": lambda x: x.T, "add_t": lambda x: x.T}
        x = prepared.get(self.operation, lambda x: x)(x)
        one = self.of_one(x, n)
        if self.operation in one:
            return one[self.operation]
        if self.operation in ["gather", "index_select", "embedding", "scatter_add"]:
            index, source = self.indices(1, x.shape[n or 0]), x.clone()
            return {
                "gather": lambda: x.gather(n, index),
                "index_select": lambda: x.index_select(n, index),
                "embedding": lambda: torch.nn.functional.embedding(index, x),
                "scatter_add": lambda: x.scatter_add(n, index, source),
            }[self.operation]
        y = self.operand(1)
        if self.operation == "matmul" and self.dtype == "i8":
            # Sums in 32 bits, where RusTorch's wrap.
            return lambda: torch._int_mm(x, y)
        return {
            "matmul": lambda: x @ y,
            "int_mm": lambda: torch._int_mm(x, y),
            "matmul_tn": lambda: x @ y,
            "linear": lambda: torch.nn.functional.linear(x, y),
            "add": lambda: x + y,
            "logaddexp": lambda: torch.logaddexp(x, y),
            "add_t": lambda: x + y,
            "cat": lambda: torch.cat([x, y], n),
            "solve": lambda: torch.linalg.solve(x, y),
        }[self.operation]

    def of_one(self, x, n):
        """Operations of one tensor, some with a number."""
        torch, F = self.torch, self.torch.nn.functional
        mask, zero = (x > 0, torch.zeros_like(x)) if self.operation == "where" else (None, None)
        weight, bias = (torch.ones(x.shape[-1]), torch.zeros(x.shape[-1])) if self.operation == "layer_norm" else (None, None)
        plain = ["exp", "log", "sqrt", "sin", "tanh", "sigmoid", "relu"]
        calls = {name: lambda f=getattr(torch, name): f(x) for name in plain}
        return calls | {
            "add_scalar": lambda: x + 1.5,
            "gelu": lambda: F.gelu(x),
            "gelu_tanh": lambda: F.gelu(x, approximate="tanh"),
            "silu": lambda: F.silu(x),
            "where": lambda: torch.where(mask, x, zero),
            "to_bf16": lambda: x.to(torch.bfloat16),
            "to_f16": lambda: x.to(torch.float16),
            "to_f32": lambda: x.to(torch.float32),
            "to_i64": lambda: x.to(torch.int64),
            "sum": lambda: x.sum() if n is None else x.sum(n),
            "mean": lambda: x.mean(n),
            "max": lambda: x.amax(n),
            "argmax": lambda: x.argmax(n),
            "var": lambda: x.var(n),
            "norm": lambda: torch.linalg.vector_norm(x, dim=n),
            "softmax": lambda: x.softmax(n),
            "log_softmax": lambda: x.log_softmax(n),
            "layer_norm": lambda: F.layer_norm(x, x.shape[-1:], weight, bias),
            "cumsum": lambda: x.cumsum(n),
            "cumprod": lambda: x.cumprod(n),
            "copy_t": lambda: x.contiguous(),
            "copy_heads": lambda: x.contiguous(),
            "flip": lambda: x.flip(n),
            "roll": lambda: x.roll(5, n),
            "pad": lambda: F.pad(x, (1, 1, 1, 1)),
            "tril": lambda: x.tril(),
            "sort": lambda: x.sort(n)[0],
            "topk": lambda: x.topk(n)[0],
            "max_pool2d": lambda: F.max_pool2d(x, n),
            "avg_pool2d": lambda: F.avg_pool2d(x, n),
            "adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(x, n),
            "cholesky": lambda: torch.linalg.cholesky(x),
            "qr": lambda: torch.linalg.qr(x)[0],
        }

    def indexing(self, x):
        if self.operation.endswith("_slice"):
            part = x[1:-1, ::2].clone()
            return {
                "get_slice": lambda: x[1:-1, ::2],
                "copy_slice": lambda: x[1:-1, ::2].clone(memory_format=self.torch.contiguous_format),
                "set_slice": lambda: x.__setitem__((slice(1, -1), slice(None, None, 2)), part),
                "fill_slice": lambda: x.__setitem__((slice(1, -1), slice(None, None, 2)), 1.5),
            }[self.operation]
        if self.operation in ["get_rows", "set_rows", "take", "put"]:
            index = self.indices(1, x.shape[0])
            part = x[index]
            return {
                "get_rows": lambda: x[index],
                "set_rows": lambda: x.__setitem__(index, part),
                "take": lambda: x.take(index),
                "put": lambda: x.put(index, part),
            }[self.operation]
        if self.operation == "get_columns":
            index = self.indices(1, x.shape[1])
            return lambda: x[:, index]
        if self.operation.endswith("_points"):
            index = self.indices(1, x.shape[0]), self.indices(1, x.shape[1])
            part = x[index]
            return {
                "get_points": lambda: x[index],
                "set_points": lambda: x.__setitem__(index, part),
                "add_points": lambda: x.index_put(index, part, accumulate=True),
            }[self.operation]
        if self.operation not in ["get_mask", "get_rows_by_mask", "fill_mask", "set_mask", "nonzero"]:
            return None
        mask = x > 0
        if self.operation == "get_rows_by_mask":
            mask = mask[:, 0]
            return lambda: x[mask]
        part = x[mask]
        return {
            "get_mask": lambda: x[mask],
            "fill_mask": lambda: x.__setitem__(mask, 1.5),
            "set_mask": lambda: x.__setitem__(mask, part),
            "nonzero": lambda: mask.nonzero(),
        }.get(self.operation)

    def statistics(self, x):
        torch, n = self.torch, self.argument
        if self.operation in ["searchsorted", "bucketize"]:
            edges, values = x.sort(-1)[0], self.operand(1)
            return {"searchsorted": lambda: torch.searchsorted(edges, values), "bucketize": lambda: torch.bucketize(values, edges)}[self.operation]
        # RusTorch's has inverse and counts, too.
        return {
            "unique": lambda: torch.unique(x, return_inverse=True, return_counts=True),
            "bincount": lambda x=x + 4: torch.bincount(x),
            "histc": lambda: torch.histc(x, n, -4, 4),
            "median": lambda: x.median(n),
            "quantile": lambda: x.quantile(0.3, n),
            "mode": lambda: x.mode(n),
            "cummax": lambda: x.cummax(n),
            "logcumsumexp": lambda: x.logcumsumexp(n),
            "diff": lambda: x.diff(dim=n),
            "cov": lambda: torch.cov(x),
        }.get(self.operation)

    def contractions(self, x):
        torch, n = self.torch, self.argument
        if self.operation == "einsum_diagonal":
            return lambda: torch.einsum("iij->j", x)
        if self.operation == "matrix_exp":
            return lambda x=x * 0.1: torch.linalg.matrix_exp(x)
        if len(self.shapes) < 2:
            return None
        y = self.operand(1)
        equations = {"einsum": "bij,bjk->bik", "einsum_heads": "bqhd,bkhd->bhqk", "einsum_outer": "i,j->ij", "einsum_sum": "ij,ij->"}
        if equation := equations.get(self.operation):
            return lambda: torch.einsum(equation, x, y)
        return {
            "tensordot": lambda: torch.tensordot(x, y, ([1, 2], [1, 0])),
            "cdist": lambda: torch.cdist(x, y, n),
            "kron": lambda: torch.kron(x, y),
        }.get(self.operation)

    def positive(self, x):
        return x @ x.T + self.torch.eye(len(x))

    def convolution(self):
        """Padded so that a stride of one keeps sizes, depthwise where a filter has one channel."""
        torch, x, weight = self.torch, self.operand(0), self.operand(1)
        stride, padding, groups = self.argument or 1, weight.shape[2] // 2, x.shape[1] if weight.shape[1] == 1 else 1
        forward = {3: torch.conv1d, 4: torch.conv2d, 5: torch.conv3d}[x.ndim]
        if self.operation in ["conv1d", "conv2d", "conv3d"]:
            return lambda: forward(x, weight, stride=stride, padding=padding, groups=groups)
        grad = torch.ones_like(forward(x, weight, stride=stride, padding=padding, groups=groups))
        gradient = {"conv2d_data": torch.nn.grad.conv2d_input, "conv2d_weight": torch.nn.grad.conv2d_weight}[self.operation]
        args = (x.shape, weight) if self.operation == "conv2d_data" else (x, weight.shape)
        return lambda: gradient(*args, grad, stride=stride, padding=padding, groups=groups)


def least_seconds(case, call, family, read_rate, f32_rate):
    """What the limits allow, `None` where they say nothing."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        result = call()
    result = [part for part in (result if isinstance(result, (tuple, list)) else [result]) if case.torch.is_tensor(part)]
    written = sum(part.numel() * part.element_size() for part in result)
    size = case.torch.empty(0, dtype=case.type()).element_size()
    # Of what is indexed, as much is read as is written.
    read = written if family == "indexing" or case.operation in ["gather", "index_select", "embedding"] else sum(size * math.prod(shape) for shape in case.shapes)
    seconds = (read + written) / read_rate if read + written > CACHES else 0
    if rate := {"f32": f32_rate, "f64": f32_rate / 2}.get(case.dtype):
        seconds = max(seconds, counter.get_total_flops() / rate)
    return seconds or None


def theirs(call, seconds):
    """The median of seconds per call: as the benchmark's `median`."""
    call()
    start = time.perf_counter()
    for _ in range(8):
        call()
    calls = max(1, int(200e-6 / ((time.perf_counter() - start) / 8)))
    samples, end = [], time.perf_counter() + seconds
    while (start := time.perf_counter()) < end or len(samples) < 3:
        for _ in range(calls):
            call()
        samples.append((time.perf_counter() - start) / calls)
    return statistics.median(samples)


class Ours:
    """The benchmark, asked for one median after the other."""

    def __init__(self, program, threads):
        environment = untuned()
        environment |= {"RUSTORCH_THREADS": str(threads)}
        self.process = subprocess.Popen([program, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def median(self, name, seconds):
        print(name, seconds, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the benchmark failed at {name}")
        return float(answer)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def compare(name, call, ours, args):
    """Medians of both in µs, the median of the ratios of the rounds, and how far those lie apart."""
    best = None
    for _ in range(3):
        rounds = [(theirs(call, args.seconds), ours.median(name, args.seconds)) for _ in range(args.rounds)]
        ratios = [mine / other for other, mine in rounds]
        ratio = statistics.median(ratios)
        # Of five rounds, without the farthest on either side.
        middle = sorted(ratios)[1:-1] if len(ratios) >= 5 else ratios
        spread = (max(middle) - min(middle)) / ratio
        if best is None or spread < best[3]:
            other, mine = (statistics.median(column) * 1e6 for column in zip(*rounds))
            best = (mine, other, ratio, spread)
        if spread <= 0.15:
            break
    return best


def main():
    parser = options(__doc__, seconds=0.3)
    parser.add_argument("--quick", action="store_true", help="a tenth of a second for each: ten minutes in all")
    parser.add_argument("--untuned", action="store_true", help="PyTorch as it is installed")
    args = parser.parse_args()
    if not args.untuned and "RUSTORCH_BENCH_TUNED" not in os.environ:
        tune()
    if args.quick:
        args.seconds = min(args.seconds, 0.1)

    import torch

    program = build("rustorch-tensor", "tensors")
    listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout
    cases = [line.split("\t") for line in listed.splitlines()]
    cases = [(family, name) for family, name in cases if re.search(args.only, name)]
    rows = []
    print(f"{'case':<44} {'threads':>7} {'RusTorch µs':>12} {'PyTorch µs':>12} {'ratio':>7} {'spread':>7} {'of limit':>8}")
    for threads in args.threads:
        torch.set_num_threads(threads)
        rates = limits(threads)
        ours = Ours(program, threads)
        for family, name in cases:
            with torch.no_grad():
                case = Case(name)
                call = case.call()
                least = least_seconds(case, call, family, *rates)
                mine, other, ratio, spread = compare(name, call, ours, args)
            row = {"family": family, "case": name, "threads": threads, "rustorch_us": mine, "torch_us": other}
            share = least and least * 1e6 / mine
            rows.append(row | {"ratio": ratio, "spread": spread, "share_of_limit": share})
            print(f"{name:<44} {threads:>7} {mine:>12.2f} {other:>12.2f} {ratio:>7.2f} {spread:>7.0%} {f'{share:.0%}' if share else '':>8}", flush=True)
        ours.end()
    families = collections.defaultdict(list)
    for row in rows:
        for family in [row["family"], "all"]:
            families[family, row["threads"]].append(math.log(row["ratio"]))
    print(f"\n{'family':<30} {'threads':>7} {'cases':>6} {'geometric mean':>15}")
    for (family, threads), logs in families.items():
        print(f"{family:<30} {threads:>7} {len(logs):>6} {math.exp(statistics.mean(logs)):>15.2f}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
