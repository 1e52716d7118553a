#!/usr/bin/env python3
"""Time decompositions of f32 matrices of 512 by 512 against PyTorch's, in turn, and print best times and ratios.

    benches/peers/torch_linalg.py

Needs PyTorch. Machines drift, and others may use them: each round runs both, one right after the other, and takes the best time of each; the ratio
is taken round by round. A ratio below 1 means that RusTorch is faster.
"""

import argparse
import time

import torch
from side_by_side import build, in_turn, samples

OPS = {
    "cholesky": lambda a, b: torch.linalg.cholesky(a),
    "lu": lambda a, b: torch.linalg.lu_factor(a),
    "solve": lambda a, b: torch.linalg.solve(a, b),
    "inverse": lambda a, b: torch.linalg.inv(a),
    "qr": lambda a, b: torch.linalg.qr(a),
}


def theirs(f, a, b, seconds):
    """The best time of a call, in ms."""
    for _ in range(5):
        f(a, b)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        f(a, b)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def ours(program, name, threads, seconds):
    """The best sample of the benchmark, in ms."""
    return min(samples(program, f"512/{name}/{threads}", seconds, threads)) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring, for each program in each round")
    args = parser.parse_args()
    program = build("rustorch-cpu", "linalg")
    torch.manual_seed(1)
    noise = torch.rand(512, 512) - 0.5
    positive = (noise + noise.T) / 2 + 130 * torch.eye(512)
    print(f"{'operation':10} {'threads':>7} {'rustorch':>9} {'PyTorch':>9} {'ratio':>6}   (ms, medians of the best of {args.rounds} rounds)")
    for threads in [1, 2]:
        torch.set_num_threads(threads)
        for name, f in OPS.items():
            a, b = positive, torch.rand(512, 1)
            peer = lambda: theirs(f, a, b, args.seconds)
            other, mine, ratio = in_turn(args.rounds, peer, lambda: ours(program, name, threads, args.seconds))
            print(f"{name:10} {threads:7} {mine:9.2f} {other:9.2f} {ratio:6.2f}", flush=True)


main()
