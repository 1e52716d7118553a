#!/usr/bin/env python3
"""Time rustorch-cli against llama.cpp's and ik_llama.cpp's llama-bench on the same files, in turn, and print medians and ratios.

    cargo build --release
    benches/peers/llama_cpp.py --llama-bench PATH/llama-bench [--ik-llama-bench PATH/llama-bench] MODEL.gguf...

Each peer runs as it is by default and with its other choice of repacking (`--repack 0`, `-rtr 1`); of each test the fastest counts, also of
several builds of llama.cpp (`--llama-bench` again). What was fastest in no test of the first round is left out of the others. Machines drift: each round runs all programs, one right after the other, and the ratio is
taken round by round. Spread is how far the ratios of the rounds lie apart; where it is more than 15 %, the model is run again, once, and the calmer run
counts. Of generation, the share of the rate at which as many threads read memory is printed, too (`limits.c`, which needs a C compiler): a token
reads the file once (not so with a mixture of experts, of which it reads those that are chosen). Speed does not depend on the values of the weights, so random
ones serve (`random_gguf.py`).

`--isa avx2` has our program do without AVX-512; the llama-bench beside it is one built without (`-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON
-DGGML_F16C=ON -DGGML_BMI2=ON`). `--isa avxvnni` adds AVX-VNNI, where the CPU has it; beside it, the same with `-DGGML_AVX_VNNI=ON`; `--isa avx512`
leaves out AMX.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess

from side_by_side import limits

FOLDER = os.path.dirname(os.path.abspath(__file__))


def ours(args, model, threads, numerics):
    command = [args.rustorch, "bench", "--json", "-m", model, "-t", str(threads), "-p", str(args.prompt), "-n", str(args.generate), "-d", str(args.depth), "-r", "1", "--numerics", numerics]
    env = {**os.environ, "RUSTORCH_ISA": args.isa} if args.isa else None
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout)
    return {m["test"].split(" ")[0]: m["median"] for m in report["measurements"]}


def llama_bench(program, model, threads, *options):
    command = [program, "-m", model, "-t", str(threads), "-r", "1", "-o", "json", *options]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {f"tg{m['n_gen']}" if m["n_gen"] else f"pp{m['n_prompt']}": m["avg_ts"] for m in report}


class Peer:
    """The choices of a peer, of which the fastest counts."""

    def __init__(self, choices):
        self.choices = choices

    def __call__(self, args, model, threads):
        runs = [choice(args, model, threads) for choice in self.choices]
        best = {test: max(range(len(runs)), key=lambda i: runs[i][test]) for test in runs[0]}
        self.choices = [self.choices[i] for i in sorted(set(best.values()))]
        return {test: runs[i][test] for test, i in best.items()}


def llama_cpp(program, repack, args, model, threads):
    test = ["-p", str(args.prompt), "-n", str(args.generate), "-d", str(args.depth)]
    return llama_bench(program, model, threads, *test, "--repack", repack)


def ik_llama_cpp(repack, args, model, threads):
    # It has no depth; it generates behind a prompt instead.
    test = ["-p", "0", "-n", "0", "-gp", f"{args.depth},{args.generate}"] if args.depth else ["-p", str(args.prompt), "-n", str(args.generate)]
    return llama_bench(args.ik_llama_bench, model, threads, *test, "-rtr", repack)


def choices_of_peers(args):
    """Each peer with all of its choices."""
    programs = [functools.partial(llama_cpp, program, repack) for program in args.llama_bench for repack in ("1", "0")]
    peers = {"llama.cpp": Peer(programs)}
    if args.ik_llama_bench:
        peers["ik_llama.cpp"] = Peer([functools.partial(ik_llama_cpp, repack) for repack in ("0", "1")])
    return peers


def compare(args, ours, model, threads):
    """A row for each test and each way of ours."""
    peers = choices_of_peers(args)
    rounds = [{name: run(args, model, threads) for name, run in (ours | peers).items()} for _ in range(args.rounds)]
    rows = []
    for test in rounds[0][next(iter(peers))]:
        speeds = {name: statistics.median(r[name][test] for r in rounds) for name in ours | peers}
        best = [max(r[name][test] for name in peers) for r in rounds]
        for name in ours:
            ratios = [r[name][test] / peer for r, peer in zip(rounds, best)]
            ratio = statistics.median(ratios)
            row = {"model": os.path.basename(model), "threads": threads, "test": test, "depth": args.depth, "numerics": name, "rustorch": speeds[name]}
            row |= {peer: speeds[peer] for peer in peers} | {"ratio": ratio, "spread": (max(ratios) - min(ratios)) / ratio}
            if test.startswith("tg"):
                row["share_of_read_rate"] = speeds[name] * os.path.getsize(model) / args.read_rate[threads]
            rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--llama-bench", required=True, action="append", help="llama.cpp's program; several, of which the fastest counts")
    parser.add_argument("--ik-llama-bench", help="ik_llama.cpp's program")
    parser.add_argument("--rustorch", default=os.path.join(FOLDER, "../../target/release/rustorch-cli"))
    parser.add_argument("--isa", choices=["portable", "avx2", "avxvnni", "avx512"], help="an instruction set below the best of this CPU, for our program")
    parser.add_argument("--numerics", nargs="+", choices=["ggml", "fast", "f32"], default=["ggml"], help="how our program rounds: each way has a row")
    parser.add_argument("--depth", type=int, default=0, help="tokens of context before generation, without a prompt of its own")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the prompt")
    parser.add_argument("--generate", type=int, default=128, help="tokens to generate")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round with a prompt of 128 and 16 tokens")
    parser.add_argument("--json", help="a file for the figures")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.prompt, args.generate = 1, 128, 16
    if args.depth:
        args.prompt = 0
    ways = {numerics: functools.partial(ours, numerics=numerics) for numerics in args.numerics}
    peers = list(choices_of_peers(args))
    args.read_rate = {threads: limits(threads)[0] for threads in args.threads}
    print("memory is read at", ", ".join(f"{rate / 1e9:.1f} GB/s by {threads}" for threads, rate in args.read_rate.items()))
    titles = "".join(f"{name:>13}" for name in ["rustorch", *peers])
    print(f"{'model':32} {'threads':>7} {'test':>6} {'numerics':>8}{titles} {'ratio':>6} {'spread':>6} {'of read rate':>12}   (tokens/s, medians of {args.rounds}; ratio to the fastest peer)")
    rows = []
    for model in args.models:
        for threads in dict.fromkeys(args.threads):
            found = compare(args, ways, model, threads)
            if max(row["spread"] for row in found) > 0.15:
                found = min(found, compare(args, ways, model, threads), key=lambda rows: max(row["spread"] for row in rows))
            for row in found:
                speeds = "".join(f"{row[name]:13.1f}" for name in ["rustorch", *peers])
                share = f"{row['share_of_read_rate']:12.0%}" if "share_of_read_rate" in row else ""
                print(f"{row['model']:32} {threads:7} {row['test']:>6} {row['numerics']:>8}{speeds} {row['ratio']:6.2f} {row['spread']:6.0%} {share}", flush=True)
            rows += found
            if args.json:
                with open(args.json, "w") as file:
                    json.dump(rows, file, indent=1)


main()
