#!/usr/bin/env python3
"""Time forward and backward passes of small graphs against PyTorch's and candle's, in turn, and print medians and ratios.

    benches/peers/small_graphs.py [--rounds 5] [--seconds 0.5] [--json FILE]

Needs PyTorch, and Cargo to fetch and build candle (`candle_autograd/`, outside of the workspace). Builds `rustorch-tensor`'s benchmark `autograd`.
One thread: no case has work for more. Machines drift: each round runs all three, one right after the other, and takes the median of each; ratios are
taken round by round, and their medians are printed. A ratio below 1 means that RusTorch is faster.
"""

import argparse
import json
import os
import statistics
import subprocess

import torch
from side_by_side import ROOT, build
from torch_autograd import cases, ours, theirs

CASES = ["scale_shift_sum/16", "recurrence_20/8x8"]


def build_candle(target):
    """The path of candle's program."""
    manifest = os.path.join(ROOT, "benches/peers/candle_autograd/Cargo.toml")
    subprocess.run(["cargo", "build", "--release", "--quiet", "--manifest-path", manifest, "--target-dir", target], check=True)
    return os.path.join(target, "release/candle-autograd")


def candle(program, name, seconds):
    """The median time of both passes, in µs."""
    environment = os.environ | {"RAYON_NUM_THREADS": "1"}
    said = subprocess.run([program, name, str(seconds)], check=True, capture_output=True, text=True, env=environment).stdout
    return statistics.median(json.loads(said)) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring, for each program in each round")
    parser.add_argument("--candle-target", default=os.path.join(ROOT, "target/candle"), help="the folder in which candle is built")
    parser.add_argument("--json", help="a file for the figures")
    args = parser.parse_args()
    program, candle_program = build("rustorch-tensor", "autograd"), build_candle(args.candle_target)
    torch.set_num_threads(1)
    rows = []
    print(f"{'case':<22} {'PyTorch µs':>11} {'candle µs':>11} {'RusTorch µs':>12} {'/ PyTorch':>10} {'/ candle':>9}")
    for name, leaves, forward, is_scalar in cases():
        if name not in CASES:
            continue
        rounds = [
            (theirs(leaves, forward, is_scalar, args.seconds), candle(candle_program, name, args.seconds), ours(program, name, args.seconds, 1))
            for _ in range(args.rounds)
        ]
        pytorch, peer, mine = (statistics.median(column) for column in zip(*rounds))
        to_pytorch, to_candle = (statistics.median(mine / times[i] for *times, mine in rounds) for i in range(2))
        print(f"{name:<22} {pytorch:>11.2f} {peer:>11.2f} {mine:>12.2f} {to_pytorch:>10.2f} {to_candle:>9.2f}", flush=True)
        row = {"case": name, "torch_us": pytorch, "candle_us": peer, "rustorch_us": mine}
        rows.append(row | {"ratio_to_torch": to_pytorch, "ratio_to_candle": to_candle})
        if len(rows) == len(CASES):
            # The others' tensors are large.
            break
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
