#!/usr/bin/env python3
"""Time this checkout against another revision of it, in turn, and print medians and ratios.

    benches/revisions.py REVISION [--bench PACKAGE/BENCH...] [--model MODEL.gguf...]

Builds the benchmarks and, with models, `rustorch-cli` of both, each from its own sources, and takes the cases that both have. Machines drift: each
round runs the old program, the new one and the old one once more; ratios are taken round by round. The old one's ratio to itself says what a
ratio means on this machine. A ratio above 1 means that the new one takes longer.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "benches/peers"))
from side_by_side import build, samples, untuned

BENCHES = ["rustorch-tensor/eager", "rustorch-tensor/replay", "rustorch-nn/training"]


def build_cli(checkout):
    """The path of the program that runs models."""
    subprocess.run(["cargo", "build", "--release", "-p", "rustorch-cli"], check=True, cwd=checkout)
    return os.path.join(checkout, "target/release/rustorch-cli")


def cases(program):
    """The names of a benchmark's cases, in order."""
    listed = subprocess.run([program, "--bench", "--list"], check=True, capture_output=True, text=True, env=untuned()).stdout
    return [line.removesuffix(": benchmark") for line in listed.splitlines() if line.endswith(": benchmark")]


def tokens(program, model, threads):
    """The time of a token of each test, in seconds."""
    command = [program, "bench", "--json", "-b", "cpu", "-m", model, "-t", str(threads), "-p", "128", "-n", "16", "-r", "1"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {f"{os.path.basename(model)} {m['test']}": 1 / m["median"] for m in report["measurements"]}


def compare(rounds, threads, measure):
    """Figures by name, of what measures the old program (0) or the new one (1)."""
    runs = [[measure(which) for which in (0, 1, 0)] for _ in range(rounds)]
    for name in runs[0][0]:
        old, new, again = ([r[i][name] for r in runs] for i in range(3))
        itself = [a / o for o, a in zip(old, again)]
        row = {
            "name": name,
            "threads": threads,
            "old_us": 1e6 * statistics.median(old + again),
            "new_us": 1e6 * statistics.median(new),
            "ratio": statistics.median(2 * n / (o + a) for o, n, a in zip(old, new, again)),
            "old_to_itself": statistics.median(itself),
            "old_to_itself_farthest": max(abs(x - 1) for x in itself),
        }
        print(
            f"{name:40} {threads:7} {row['old_us']:12.2f} {row['new_us']:12.2f} {row['ratio']:8.3f}"
            f" {row['old_to_itself']:8.3f} {row['old_to_itself_farthest']:8.3f}",
            flush=True,
        )
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="the other revision, as git names it")
    parser.add_argument("--checkout", help="a folder for a worktree of it that is kept [default: a temporary one]")
    parser.add_argument("--bench", nargs="*", default=BENCHES, help=f"benchmarks to run [default: {' '.join(BENCHES)}]")
    parser.add_argument("--model", action="append", default=[], help="a GGUF file to run")
    parser.add_argument("--only", default="", help="cases whose names match this pattern")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of measuring each case in each round")
    parser.add_argument("--json", help="a file for the figures")
    args = parser.parse_args()
    checkout = os.path.abspath(args.checkout or tempfile.mkdtemp())
    if not os.path.exists(os.path.join(checkout, "Cargo.toml")):
        subprocess.run(["git", "worktree", "add", "--detach", checkout, args.revision], check=True, cwd=ROOT)
    try:
        benches = [[build(*bench.split("/"), place) for place in (checkout, ROOT)] for bench in args.bench]
        programs = [build_cli(place) for place in (checkout, ROOT)] if args.model else []
        print(f"{'':40} {'threads':>7} {'old µs':>12} {'new µs':>12} {'new/old':>8} {'old/old':>8} {'farthest':>8}   medians of {args.rounds} rounds")
        rows = []
        for bench in benches:
            old = cases(bench[0])
            for name in cases(bench[1]):
                if name not in old or not re.search(args.only, name):
                    continue
                for threads in args.threads:
                    time = lambda i: {name: statistics.median(samples(bench[i], name, args.seconds, threads))}
                    rows += compare(args.rounds, threads, time)
        for model in args.model:
            for threads in args.threads:
                rows += compare(args.rounds, threads, lambda i: tokens(programs[i], model, threads))
    finally:
        if not args.checkout:
            subprocess.run(["git", "worktree", "remove", "--force", checkout], check=True, cwd=ROOT)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)


main()
