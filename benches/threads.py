#!/usr/bin/env python3
"""How the CPU's threads share the work of a language model: few and many of them, and beside a program that keeps one core busy.

    benches/threads.py MODEL.gguf [--threads 1 2 8] [--rounds 5] [--prompt 128] [--generate 24]

Builds `rustorch-cli`. Each round runs `bench` with every number of threads on the machine as it is, and with one thread for each core beside a
busy loop on one of them. Prints medians of tokens per second and of their ratios to one thread without the loop, which are taken round by round.
Needs Linux, to hold the loop on a core.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PROGRAM = os.path.join(ROOT, "target/release/rustorch-cli")


def tokens(options, threads):
    """Tokens per second of prompt and generation."""
    sizes = ["-p", str(options.prompt), "-n", str(options.generate), "-r", "1"]
    command = [PROGRAM, "bench", "--json", "-b", "cpu", "-m", options.model, "-t", str(threads), *sizes]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return [measured["median"] for measured in report["measurements"]]


@contextlib.contextmanager
def busy(core):
    """A loop on a core."""
    loop = subprocess.Popen(["taskset", "-c", str(core), "sh", "-c", "while :; do :; done"])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--generate", type=int, default=24)
    options = parser.parse_args()
    subprocess.run(["cargo", "build", "--release", "-p", "rustorch-cli"], check=True, cwd=ROOT)
    cores = sorted(os.sched_getaffinity(0))
    counts = sorted({1, *options.threads})
    beside = f"{len(cores)} beside a busy loop"
    runs = {name: [] for name in [*counts, beside]}
    for _ in range(options.rounds):
        for threads in counts:
            runs[threads].append(tokens(options, threads))
        with busy(cores[-1]):
            runs[beside].append(tokens(options, len(cores)))
    print(f"{'threads':<24} {'prompt t/s':>12} {'of one':>8} {'generation t/s':>16} {'of one':>8}")
    for name, rows in runs.items():
        cells = []
        for test, width in [(0, 12), (1, 16)]:
            median = statistics.median(row[test] for row in rows)
            ratio = statistics.median(row[test] / one[test] for row, one in zip(rows, runs[1]))
            cells.append(f"{median:>{width}.1f} {ratio:>8.2f}")
        print(f"{str(name):<24} {' '.join(cells)}")


if __name__ == "__main__":
    main()
