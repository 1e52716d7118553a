#!/usr/bin/env python3
"""Time rustorch-cli against llama.cpp's llama-bench on the same files, in turn, and print medians and ratios.

    cargo build --release
    benches/peers/llama_cpp.py --llama-bench PATH/llama-bench MODEL.gguf...

llama.cpp runs twice, as it is by default and with `--repack 0`; of each test the faster counts. Machines drift: each round runs all programs,
one right after the other, and the ratio is taken round by round. Speed does not depend on the values of the weights, so random ones serve.

`--isa avx2` has our program do without AVX-512; the llama-bench beside it is one built without (`-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON
-DGGML_F16C=ON -DGGML_BMI2=ON`). `--isa avxvnni` adds AVX-VNNI, where the CPU has it; beside it, the same with `-DGGML_AVX_VNNI=ON`.
"""

import argparse
import json
import os
import statistics
import subprocess


def ours(args, model, threads):
    command = [args.rustorch, "bench", "--json", "-m", model, "-t", str(threads), "-p", str(args.prompt), "-n", str(args.generate), "-d", str(args.depth), "-r", "1", "--numerics", args.numerics]
    env = {**os.environ, "RUSTORCH_ISA": args.isa} if args.isa else None
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout)
    return {m["test"].split(" ")[0]: m["median"] for m in report["measurements"]}


def theirs(args, model, threads):
    runs = [llama_bench(args, model, threads, repack) for repack in ("1", "0")]
    return {test: max(run[test] for run in runs) for test in runs[0]}


def llama_bench(args, model, threads, repack):
    command = [args.llama_bench, "-m", model, "-t", str(threads), "-p", str(args.prompt), "-n", str(args.generate), "-d", str(args.depth), "-r", "1", "-o", "json", "--repack", repack]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {f"pp{m['n_prompt']}" if m["n_prompt"] else f"tg{m['n_gen']}": m["avg_ts"] for m in report}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--llama-bench", required=True, help="llama.cpp's program")
    parser.add_argument("--rustorch", default=os.path.join(os.path.dirname(__file__), "../../target/release/rustorch-cli"))
    parser.add_argument("--isa", choices=["portable", "avx2", "avxvnni"], help="an instruction set below the best of this CPU, for our program")
    parser.add_argument("--numerics", choices=["ggml", "fast", "f32"], default="ggml", help="how our program rounds")
    parser.add_argument("--depth", type=int, default=0, help="tokens of context before each test")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the prompt")
    parser.add_argument("--generate", type=int, default=64, help="tokens to generate")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print(f"{'model':32} {'threads':>7} {'test':>7} {'rustorch':>10} {'llama.cpp':>10} {'ratio':>6}   (tokens/s, medians of {args.rounds})")
    for model in args.models:
        for threads in dict.fromkeys(args.threads):
            rounds = [(ours(args, model, threads), theirs(args, model, threads)) for _ in range(args.rounds)]
            for test in rounds[0][0]:
                a = [r[0][test] for r in rounds]
                b = [r[1][test] for r in rounds]
                ratio = statistics.median(x / y for x, y in zip(a, b))
                name = os.path.basename(model)
                print(f"{name:32} {threads:7} {test:>7} {statistics.median(a):10.1f} {statistics.median(b):10.1f} {ratio:6.2f}", flush=True)


main()
