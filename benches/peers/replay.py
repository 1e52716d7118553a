#!/usr/bin/env python3
"""Time captured functions against the same functions run eagerly and against PyTorch's eager ones, in turn, and print medians and ratios.

    benches/peers/replay.py [--threads 1 2] [--rounds 5] [--seconds 0.5] [--only PATTERN] [--json FILE]

Needs PyTorch. Builds `rustorch-tensor`'s benchmark `replay`, which has the same cases. Ratios are taken round by round: eager / program is how much
a program saves, program / PyTorch below 1 means that RusTorch is faster.
"""

import json
import re
import statistics
import time

import torch
from side_by_side import build, options, samples


def mlp(batch):
    weights, bias = [torch.rand(64, 64) for _ in range(4)], torch.rand(64)
    x = torch.rand(batch, 64)

    def run():
        y = x
        for w in weights:
            y = (y @ w + bias).relu()
        return y

    return run


def pointwise(elements):
    x = torch.rand(elements)
    return lambda: (-(x * 2 + 1).abs().sqrt()).exp()


def pointwise_of_four(elements):
    x, a, b, c = (torch.rand(elements) for _ in range(4))
    return lambda: (x * a + b - c).abs()


CASES = {
    "mlp_4x64/1": lambda: mlp(1),
    "mlp_4x64/32": lambda: mlp(32),
    "pointwise_6/1e7": lambda: pointwise(10_000_000),
    "pointwise_of_4/1e7": lambda: pointwise_of_four(10_000_000),
    "pointwise_6/64": lambda: pointwise(64),
}


@torch.no_grad()
def theirs(run, seconds):
    """The median time of a call, in µs."""
    run()
    start = time.perf_counter()
    run()
    repeats = max(1, int(1e-3 / max(time.perf_counter() - start, 1e-7)))
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        times.append((time.perf_counter() - start) / repeats)
    return statistics.median(times) * 1e6


def main():
    parser = options(__doc__)
    args = parser.parse_args()
    program, rows = build("rustorch-tensor", "replay"), []
    print(f"{'case':<18} {'threads':>7} {'PyTorch µs':>11} {'eager µs':>10} {'program µs':>11} {'eager / program':>16} {'program / PyTorch':>18}")
    for threads in args.threads:
        torch.set_num_threads(threads)
        for name in (name for name in CASES if re.search(args.only, name)):
            run = CASES[name]()
            ours = lambda which: statistics.median(samples(program, f"{name}/{which}", args.seconds, threads)) * 1e6
            rounds = [(theirs(run, args.seconds), ours("eager"), ours("program")) for _ in range(args.rounds)]
            peer, eager, captured = (statistics.median(column) for column in zip(*rounds))
            saves = statistics.median(eager / captured for _, eager, captured in rounds)
            ratio = statistics.median(captured / peer for peer, _, captured in rounds)
            rows.append({"case": name, "threads": threads, "torch_us": peer, "eager_us": eager, "program_us": captured, "eager_to_program": saves, "program_to_torch": ratio})
            print(f"{name:<18} {threads:>7} {peer:>11.2f} {eager:>10.2f} {captured:>11.2f} {saves:>16.2f} {ratio:>18.2f}", flush=True)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
