#!/usr/bin/env python3
"""Time decompositions of f32 matrices of 512 by 512 against PyTorch's, in turn, and print best times and ratios.

    benches/peers/torch_linalg.py

Needs PyTorch. Machines drift, and others may use them: each round runs both, one right after the other, and takes the best time of each; the ratio
is taken round by round. A ratio above 1 means that PyTorch takes longer.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time

import torch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
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


def ours(program, name, seconds):
    """The best sample of the benchmark, in ms."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--bench", f"^512/{name}$", "--noplot", "--warm-up-time", "0.1", "--measurement-time", str(seconds)]
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=os.environ | {"CRITERION_HOME": folder})
        with open(os.path.join(folder, "512", name, "new/sample.json")) as file:
            sample = json.load(file)
    return min(t / n for t, n in zip(sample["times"], sample["iters"])) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring, for each program in each round")
    args = parser.parse_args()
    build = ["cargo", "bench", "-p", "rustorch-cpu", "--bench", "linalg", "--no-run"]
    program = re.search(r"\((target/\S+)\)", subprocess.run(build, check=True, capture_output=True, text=True, cwd=ROOT).stderr).group(1)
    program = os.path.join(ROOT, program)
    torch.manual_seed(1)
    noise = torch.rand(512, 512) - 0.5
    positive = (noise + noise.T) / 2 + 130 * torch.eye(512)
    print(f"{'operation':10} {'threads':>7} {'rustorch':>9} {'PyTorch':>9} {'ratio':>6}   (ms, medians of the best of {args.rounds} rounds)")
    for threads in [1, 2]:
        torch.set_num_threads(threads)
        for name, f in OPS.items():
            a, b = positive, torch.rand(512, 1)
            rounds = [(ours(program, f"{name}/{threads}", args.seconds), theirs(f, a, b, args.seconds)) for _ in range(args.rounds)]
            a, b = (statistics.median(r[i] for r in rounds) for i in (0, 1))
            ratio = statistics.median(theirs / ours for ours, theirs in rounds)
            print(f"{name:10} {threads:7} {a:9.2f} {b:9.2f} {ratio:6.2f}", flush=True)


main()
