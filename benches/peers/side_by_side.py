"""What the comparisons with other libraries share: RusTorch's benchmark programs, built and run one case at a time."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


TUNED = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 32), "MALLOC_TOP_PAD_": str(1 << 28)}


def tune():
    """Starts this script again, as a PyTorch that is tuned."""
    folder = tempfile.mkdtemp()
    source, library = os.path.join(folder, "tuned.c"), os.path.join(folder, "tuned.so")
    with open(source, "w") as file:
        file.write("int mkl_serv_intel_cpu_true(void) { return 1; }\nint mkl_serv_intel_cpu(void) { return 1; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    environment = os.environ | TUNED | {"LD_PRELOAD": library, "RUSTORCH_BENCH_TUNED": folder}
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def limits(threads):
    """What so many threads can do: bytes of memory that they read in a second, and operations on `f32` in registers."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "limits")
        source = os.path.join(ROOT, "benches/peers/limits.c")
        subprocess.run(["cc", "-O3", "-march=native", "-pthread", "-o", program, source], check=True)
        found = subprocess.run([program, str(threads)], check=True, capture_output=True, text=True, env=untuned()).stdout.split()
    return [1e9 * float(rate) for rate in found]


def untuned():
    """The environment without what tunes PyTorch."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" and name not in TUNED}


def options(doc, seconds=0.5):
    """The parser of a comparison's options, to which it may add its own."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=seconds, help="of measuring, for each program in each round")
    parser.add_argument("--only", default="", help="cases whose names match this pattern")
    parser.add_argument("--json", help="a file for the figures")
    return parser


def build(package, bench, checkout=ROOT):
    """The path of a benchmark's program."""
    command = ["cargo", "bench", "-p", package, "--bench", bench, "--no-run"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=checkout).stderr
    return os.path.join(checkout, re.search(r"Executable .* \((\S+)\)", said).group(1))


def samples(program, name, seconds, threads):
    """The times of a benchmark's samples, in seconds for one run."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--bench", f"^{name}$", "--noplot", "--warm-up-time", "0.1", "--measurement-time", str(seconds), "--sample-size", "10"]
        environment = untuned() | {"CRITERION_HOME": folder, "RUSTORCH_THREADS": str(threads)}
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT, env=environment)
        for path, _, files in os.walk(folder):
            if path.endswith("new") and "sample.json" in files:
                with open(os.path.join(path, "sample.json")) as file:
                    sample = json.load(file)
                return [t / n / 1e9 for t, n in zip(sample["times"], sample["iters"])]
    raise SystemExit(f"the benchmark has no case {name}")


def in_turn(rounds, theirs, ours):
    """Medians of both and of the ratios ours / theirs, which are taken round by round: machines drift."""
    times = [(theirs(), ours()) for _ in range(rounds)]
    ratio = statistics.median(mine / other for other, mine in times)
    return *(statistics.median(column) for column in zip(*times)), ratio
