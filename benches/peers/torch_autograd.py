#!/usr/bin/env python3
"""Time forward and backward passes against PyTorch's, in turn, and print medians and ratios.

    benches/peers/torch_autograd.py [--threads 1 2] [--only PATTERN] [--untuned] [--json FILE]

Needs PyTorch. Builds `rustorch-tensor`'s benchmark `autograd`. Machines drift: each round runs PyTorch and RusTorch one right after the other and
takes the median of each; the ratio is taken round by round, and the median of these is printed. A ratio below 1 means that RusTorch is faster.
PyTorch is tuned as by `torch_tensors.py`; `--untuned` measures what a user gets.
"""

import json
import os
import re
import statistics
import time

import torch
import torch.nn.functional as F
from side_by_side import build, in_turn, options, samples, tune


def leaf(*dims, scale=1.0):
    return (torch.randn(dims) * scale).requires_grad_(True)


def cases():
    """Of each case its leaves, its forward pass, and whether the result is a scalar. Without leaves there is no backward pass."""
    g = leaf(16)
    yield "scale_shift_sum/16", [g], lambda: (g * 2 + 1).sum(), True
    r, start = leaf(8, 8, scale=0.3), torch.eye(8)

    def recurrence():
        y = start
        for _ in range(20):
            y = torch.tanh(y @ r)
        return y.sum()

    yield "recurrence_20/8x8", [r], recurrence, True
    x = leaf(4096, 4096)
    yield "softmax/4096x4096", [x], lambda: torch.softmax(x, -1), False
    n, w, b = leaf(4096, 1024), leaf(1024), leaf(1024)
    yield "layer_norm/4096x1024", [n, w, b], lambda: F.layer_norm(n, (1024,), w, b), False
    i, w2, b2 = leaf(8, 64, 56, 56), leaf(64), leaf(64)
    yield "batch_norm/8x64x56x56", [i, w2, b2], lambda: F.batch_norm(i, None, None, w2, b2, training=True), False
    yield "group_norm/8x64x56x56", [i, w2, b2], lambda: F.group_norm(i, 8, w2, b2), False
    q, k, v = leaf(12, 512, 64), leaf(12, 512, 64), leaf(12, 512, 64)
    yield "attention/12x512x64", [q, k, v], lambda: F.scaled_dot_product_attention(q, k, v), False
    yield "attention_causal/12x512x64", [q, k, v], lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), False
    m, o = leaf(512, 512), leaf(512, 512)
    yield "matmul/512x512", [m, o], lambda: m @ o, False
    e = leaf(1_000_000)
    yield "gelu/1000000", [e], lambda: F.gelu(e), False
    yield "dropout/1000000", [e], lambda: F.dropout(e, 0.1), False
    logits, target = leaf(2048, 32_000), torch.randint(0, 32_000, (2048,))
    yield "cross_entropy/2048x32000", [logits], lambda: F.cross_entropy(logits, target), True
    constant = logits.detach()
    # The logits need no gradient: the forward pass alone.
    yield "cross_entropy_forward/2048x32000", [], lambda: F.cross_entropy(constant, target), True


CONVOLUTIONS = "lenet_1 lenet_2 vgg_first resnet_stem resnet_1 resnet_2 resnet_3 resnet_4 pointwise depthwise grouped audio".split()

# Cases that are timed against another of our own: convolutions against their three kernels, and checkpoints against a pass without.
OWN = [(f"conv_{name}/autograd", f"conv_{name}/kernels") for name in CONVOLUTIONS] + [("gpt/checkpointed", "gpt/plain")]


def theirs(leaves, forward, is_scalar, seconds):
    """The median time of both passes, in µs."""
    grad = None if is_scalar else torch.ones_like(forward())
    times, end, warm = [], time.perf_counter() + seconds + 0.1, time.perf_counter() + 0.1
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        y = forward()
        if leaves:
            y.backward(grad)
        taken = time.perf_counter() - start
        for x in leaves:
            x.grad = None
        if start > warm:
            times.append(taken)
    return statistics.median(times) * 1e6


def ours(program, name, seconds, threads):
    """The median time of both passes, in µs."""
    return statistics.median(samples(program, name, seconds, threads)) * 1e6


def main():
    parser = options(__doc__)
    parser.add_argument("--untuned", action="store_true", help="PyTorch as it is installed")
    args = parser.parse_args()
    if not args.untuned and "RUSTORCH_BENCH_TUNED" not in os.environ:
        tune()
    program = build("rustorch-tensor", "autograd")
    rows = []
    print(f"{'case':<30} {'threads':>7} {'PyTorch µs':>12} {'RusTorch µs':>12} {'ratio':>7}")
    for threads in args.threads:
        torch.set_num_threads(threads)
        for name, leaves, forward, is_scalar in cases():
            if not re.search(args.only, name):
                continue
            peer = lambda: theirs(leaves, forward, is_scalar, args.seconds)
            other, mine, ratio = in_turn(args.rounds, peer, lambda: ours(program, name, args.seconds, threads))
            rows.append({"case": name, "threads": threads, "torch_us": other, "rustorch_us": mine, "ratio": ratio})
            print(f"{name:<30} {threads:>7} {other:>12.2f} {mine:>12.2f} {ratio:>7.2f}", flush=True)
    print(f"\n{'case':<30} {'threads':>7} {'base µs':>12} {'RusTorch µs':>12} {'ratio':>7}")
    for threads in args.threads:
        for name, base in OWN:
            if not re.search(args.only, name):
                continue
            own = lambda case: lambda: ours(program, case, args.seconds, threads)
            other, mine, ratio = in_turn(args.rounds, own(base), own(name))
            rows.append({"case": name, "threads": threads, "base": base, "base_us": other, "rustorch_us": mine, "ratio": ratio})
            print(f"{name:<30} {threads:>7} {other:>12.2f} {mine:>12.2f} {ratio:>7.2f}", flush=True)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
