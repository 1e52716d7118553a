#!/usr/bin/env python3
"""Time this checkout against another revision of it, in turn, and print medians and ratios.

    benches/revisions.py REVISION [--model MODEL.gguf...]

Builds `rustorch-tensor`'s benchmark `eager` (this checkout's source of it, in both) and, with models, `rustorch-cli`. Machines drift: each
round runs the old program, the new one and the old one once more; ratios are taken round by round. The old one's ratio to itself says what a
ratio means on this machine. A ratio above 1 means that the new one takes longer.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BENCH = "crates/rustorch-tensor/benches/eager.rs"


def build(checkout, models):
    """The benchmark's program and the one that runs models."""
    command = ["cargo", "bench", "-p", "rustorch-tensor", "--bench", "eager", "--no-run"]
    said = subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True, cwd=checkout).stderr
    bench = os.path.join(checkout, re.search(r"\((target/\S+)\)", said).group(1))
    if models:
        subprocess.run(["cargo", "build", "--release", "-p", "rustorch-cli"], check=True, cwd=checkout)
    return bench, os.path.join(checkout, "target/release/rustorch-cli")


def operations(program, pattern, seconds):
    """The median time of each operation, in ns."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--bench", pattern, "--noplot", "--warm-up-time", "0.1", "--measurement-time", str(seconds), "--sample-size", "20"]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"CRITERION_HOME": folder})
        times = {}
        for path, _, files in os.walk(folder):
            if os.path.basename(path) == "new" and "benchmark.json" in files:
                with open(os.path.join(path, "benchmark.json")) as file:
                    name = json.load(file)["full_id"]
                with open(os.path.join(path, "sample.json")) as file:
                    sample = json.load(file)
                times[name] = statistics.median(t / n for t, n in zip(sample["times"], sample["iters"]))
        return times


def tokens(program, model, threads):
    """The time of a token of each test, in ns."""
    command = [program, "bench", "--json", "-b", "cpu", "-m", model, "-t", str(threads), "-p", "128", "-n", "16", "-r", "1"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {f"{os.path.basename(model)} {m['test']} t{threads}": 1e9 / m["median"] for m in report["measurements"]}


def compare(rounds, measure):
    """Medians of (old, new, new / old, old / old again), by name."""
    runs = [[measure(which) for which in (0, 1, 0)] for _ in range(rounds)]
    for name in runs[0][0]:
        old, new, again = ([r[i][name] for r in runs] for i in range(3))
        ratio = statistics.median(2 * n / (o + a) for o, n, a in zip(old, new, again))
        itself = [a / o for o, a in zip(old, again)]
        yield name, statistics.median(old + again), statistics.median(new), ratio, statistics.median(itself), max(abs(x - 1) for x in itself)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="the other revision, as git names it")
    parser.add_argument("--checkout", help="a folder for a worktree of it that is kept [default: a temporary one]")
    parser.add_argument("--model", action="append", default=[], help="a GGUF file to run")
    parser.add_argument("--only", default="", help="operations whose names match this pattern")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring each operation in each round")
    parser.add_argument("--json", help="a file for the figures")
    args = parser.parse_args()
    checkout = os.path.abspath(args.checkout or tempfile.mkdtemp())
    if not os.path.exists(os.path.join(checkout, "Cargo.toml")):
        subprocess.run(["git", "worktree", "add", "--detach", checkout, args.revision], check=True, cwd=ROOT)
    try:
        shutil.copy(os.path.join(ROOT, BENCH), os.path.join(checkout, BENCH))
        programs = build(checkout, args.model), build(ROOT, args.model)
        rows = list(compare(args.rounds, lambda i: operations(programs[i][0], args.only, args.seconds)))
        for model in args.model:
            for threads in (1, 2):
                rows += compare(args.rounds, lambda i: tokens(programs[i][1], model, threads))
    finally:
        if not args.checkout:
            subprocess.run(["git", "worktree", "remove", "--force", checkout], check=True, cwd=ROOT)
    print(f"{'':40} {'old':>12} {'new':>12} {'new/old':>8} {'old/old':>8} {'farthest':>8}   (ns, medians of {args.rounds} rounds)")
    for name, old, new, ratio, itself, farthest in rows:
        print(f"{name:40} {old:12.1f} {new:12.1f} {ratio:8.3f} {itself:8.3f} {farthest:8.3f}")
    if args.json:
        keys = ("name", "old_ns", "new_ns", "ratio", "old_to_itself", "old_to_itself_farthest")
        with open(args.json, "w") as file:
            json.dump([dict(zip(keys, row)) for row in rows], file, indent=1)


main()
