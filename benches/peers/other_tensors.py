"""What comparisons of `torch_tensors.py`'s cases with libraries besides PyTorch share: their options, and the cases of a file in turn."""

import json
import os
import re
import subprocess
import sys

from side_by_side import build, options
from torch_tensors import Ours, compare


def compare_with(library, doc, call_of, prepare=lambda threads: None):
    """Times the cases of a file against a library: `call_of(name, threads)` gives the function that is timed, or `None` where there is none.
    Each number of threads is a process of its own, which `prepare` readies."""
    parser = options(doc, seconds=0.1)
    parser.add_argument("file", help="what torch_tensors.py --json wrote")
    parser.add_argument("--above", type=float, default=1.05)
    args = parser.parse_args()
    with open(args.file) as file:
        measured = json.load(file)
    if len(args.threads) > 1:
        rows = []
        for threads in args.threads:
            part = f"{args.json or args.file}.{threads}.part"
            command = [sys.executable, sys.argv[0], args.file, "--above", str(args.above), "--threads", str(threads), "--only", args.only]
            subprocess.run([*command, "--rounds", str(args.rounds), "--seconds", str(args.seconds), "--json", part], check=True)
            with open(part) as file:
                rows += json.load(file)
            os.remove(part)
    else:
        threads, rows = args.threads[0], []
        prepare(threads)
        names = list(dict.fromkeys(row["case"] for row in measured if row["ratio"] > args.above and re.search(args.only, row["case"])))
        ours = Ours(build("rustorch-tensor", "tensors"), threads)
        print(f"{'case':<44} {'threads':>7} {'RusTorch µs':>12} {f'{library} µs':>15} {'ratio':>7} {'spread':>7}")
        for name in names:
            call = call_of(name, threads)
            if call is None:
                print(f"{name:<44} {threads:>7} {'not compared':>12}", flush=True)
                continue
            mine, other, ratio, spread = compare(name, call, ours, args)
            rows.append({"case": name, "threads": threads, "rustorch_us": mine, f"{library.lower()}_us": other, "ratio": ratio, "spread": spread})
            print(f"{name:<44} {threads:>7} {mine:>12.2f} {other:>15.2f} {ratio:>7.2f} {spread:>7.0%}", flush=True)
        ours.end()
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)
