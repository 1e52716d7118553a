#!/usr/bin/env python3
"""Time decompositions of matrices of 512 by 512, and Fourier transforms, against PyTorch's, in turn, and print best times and ratios: f32, and
decompositions by singular values and eigenvalues also in f64.

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
SPECTRAL = {
    "svd": lambda a, b: torch.linalg.svd(a, full_matrices=False),
    "svdvals": lambda a, b: torch.linalg.svdvals(a),
    "eigh": lambda a, b: torch.linalg.eigh(a),
    "eigvalsh": lambda a, b: torch.linalg.eigvalsh(a),
    "eig": lambda a, b: torch.linalg.eig(a),
}


TRANSFORMS = {
    "complex": lambda n: (torch.randn(n, dtype=torch.complex64), torch.fft.fft),
    "real": lambda n: (torch.randn(n), torch.fft.rfft),
    "to real": lambda n: (torch.randn(n // 2 + 1, dtype=torch.complex64), lambda x: torch.fft.irfft(x, n, norm="forward")),
}


def theirs(f, arguments, seconds):
    """The best time of a call, in ms."""
    for _ in range(5):
        f(*arguments)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        f(*arguments)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def ours(program, group, name, threads, seconds):
    """The best sample of the benchmark, in ms."""
    return min(samples(program, f"{group}/{name}/{threads}", seconds, threads)) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring, for each program in each round")
    args = parser.parse_args()
    program = build("rustorch-cpu", "linalg")
    torch.manual_seed(1)
    noise = torch.rand(512, 512) - 0.5
    positive = (noise + noise.T) / 2 + 130 * torch.eye(512)
    # One matrix is decomposed by its values on one thread.
    groups = [("512", torch.float32, OPS, [1, 2]), ("512", torch.float32, SPECTRAL, [1]), ("512 f64", torch.float64, SPECTRAL, [1])]
    print(f"{'operation':12} {'threads':>7} {'rustorch':>9} {'PyTorch':>9} {'ratio':>6}   (ms, medians of the best of {args.rounds} rounds)")
    for group, dtype, ops, numbers in groups:
        for threads in numbers:
            torch.set_num_threads(threads)
            for name, f in ops.items():
                a = (positive if ops is OPS else noise + 130 * torch.eye(512)).to(dtype)
                b = torch.rand(512, 1, dtype=dtype)
                peer = lambda: theirs(f, (a, b), args.seconds)
                other, mine, ratio = in_turn(args.rounds, peer, lambda: ours(program, group, name, threads, args.seconds))
                label = name if dtype == torch.float32 else f"{name} f64"
                print(f"{label:12} {threads:7} {mine:9.2f} {other:9.2f} {ratio:6.2f}", flush=True)
    torch.set_num_threads(1)
    for power in range(10, 21, 2):
        for name, make in TRANSFORMS.items():
            x, f = make(1 << power)
            peer = lambda: theirs(f, (x,), args.seconds)
            other, mine, ratio = in_turn(args.rounds, peer, lambda: ours(program, "fft", f"{name} {1 << power}", 1, args.seconds))
            print(f"{name + ' 2^' + str(power):12} {1:7} {mine:9.4f} {other:9.4f} {ratio:6.2f}", flush=True)


main()
