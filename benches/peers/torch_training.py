#!/usr/bin/env python3
"""Time steps of trainings against PyTorch's, in turn, and print medians and ratios; with --memory also what they need of memory.

    benches/peers/torch_training.py [--threads 1 2] [--only PATTERN] [--memory] [--json FILE]

Needs PyTorch. Builds `rustorch-nn`'s benchmark `training`, which has the same cases. A ratio below 1 means that RusTorch is faster, or needs less.
PyTorch's optimizers are its fused ones. Memory is by how much ten steps raise the most that a process of its own ever had.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from side_by_side import build, in_turn, options, samples

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = 4, 4, 256, 128, 256


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.attn_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.mlp_proj = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (part.view(b, t, HEADS, -1).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(WIDTH, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_proj(y.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, x):
        y = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.h:
            y = block(y)
        return F.linear(self.ln_f(y), self.wte.weight).view(-1, VOCABULARY)


def training(model, optimizer, x, classes):
    y = torch.randint(0, classes, (x.numel() if x.dtype == torch.int64 else len(x),))

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def passes(module, forward, grad, *leaves):
    def step():
        forward().backward(grad)
        module.zero_grad()
        for x in leaves:
            x.grad = None

    return step


def embedding():
    table, x = nn.Embedding(50257, 768), torch.randint(0, 50257, (2048,))
    return passes(table, lambda: table(x), torch.randn(2048, 768))


def lstm():
    layer, x = nn.LSTM(256, 256), torch.randn(64, 32, 256, requires_grad=True)
    return passes(layer, lambda: layer(x)[0], torch.randn(64, 32, 256), x)


def ten_million(optimizer):
    parameters = [torch.randn(1000, 1000, requires_grad=True) for _ in range(10)]
    for x in parameters:
        x.grad = torch.randn(1000, 1000)
    return optimizer(parameters).step


def mlp(optimizer):
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    return training(model, optimizer(model.parameters()), torch.randn(128, 784), 10)


def lenet():
    convolutions = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    model = nn.Sequential(*convolutions, nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    return training(model, torch.optim.SGD(model.parameters(), 0.03, 0.9, fused=True), torch.randn(64, 1, 28, 28), 10)


def gpt():
    model = Gpt()
    return training(model, torch.optim.AdamW(model.parameters(), fused=True), torch.randint(0, VOCABULARY, (16, CONTEXT)), VOCABULARY)


def scatter_add_rows():
    x, source, index = torch.randn(2048, 768), torch.randn(2048, 768), torch.randint(0, 2048, (2048, 1)).expand(2048, 768)
    return lambda: x.scatter_add(0, index, source)


def grid_sample(backward):
    x, grid = torch.randn(8, 32, 64, 64, requires_grad=backward), (torch.randn(8, 64, 64, 2) * 0.5).requires_grad_(backward)
    forward = lambda: F.grid_sample(x, grid, align_corners=False)
    return passes(nn.Identity(), forward, torch.randn(8, 32, 64, 64), x, grid) if backward else forward


def product(a, b):
    return lambda: a @ b


def adam(parameters):
    return torch.optim.Adam(parameters, fused=True)


def sgd(parameters):
    return torch.optim.SGD(parameters, fused=True)


def copies(x, *dims):
    return lambda: x.transpose(*dims).contiguous()


CASES = {
    "embedding/50257x768": embedding,
    "lstm/64x32x256": lstm,
    "adam_step/10M": lambda: ten_million(adam),
    "sgd_step/10M": lambda: ten_million(sgd),
    "mlp/adam": lambda: mlp(adam),
    "mlp/sgd": lambda: mlp(sgd),
    "lenet/sgd": lenet,
    "gpt/adamw": gpt,
    "scatter_add_rows/2048x768": scatter_add_rows,
    "grid_sample/8x32x64x64": lambda: grid_sample(False),
    "grid_sample/8x32x64x64/backward": lambda: grid_sample(True),
    "transpose_copy/4096x4096": lambda: copies(torch.randn(4096, 4096), 0, 1),
    "permute_heads/16x128x8x64": lambda: copies(torch.randn(16, 128, 8, 64), 1, 2),
    "weight_gradient/2048x256x1024": lambda: product(torch.randn(2048, 1024).T, torch.randn(2048, 256)),
    "matmul/2048": lambda: product(torch.randn(2048, 2048), torch.randn(2048, 2048)),
}
# Whose memory is looked at.
STEPS = ["mlp/adam", "lenet/sgd", "gpt/adamw", "lstm/64x32x256"]


def theirs(step, seconds):
    """The median time of a step, in ms."""
    times, begin = [], time.perf_counter()
    while (start := time.perf_counter()) < begin + 0.1 + seconds or len(times) < 3:
        step()
        if start > begin + 0.1:
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def peak():
    """The most memory that this process ever had, in bytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


def print_row(rows, name, threads, unit, other, mine, ratio):
    rows.append({"case": name, "threads": threads, "unit": unit, "torch": other, "rustorch": mine, "ratio": ratio})
    print(f"{name:<30} {threads:>7} {other:>12.2f} {mine:>12.2f} {ratio:>7.2f} {unit}", flush=True)


def main():
    parser = options(__doc__)
    parser.add_argument("--memory", action="store_true", help="compare peaks of memory as well")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.peak:
        torch.set_num_threads(args.threads[0])
        step, before = CASES[args.peak](), peak()
        for _ in range(10):
            step()
        return print(peak() - before)
    program, rows = build("rustorch-nn", "training"), []
    print(f"{'case':<30} {'threads':>7} {'PyTorch':>12} {'RusTorch':>12} {'ratio':>7}")
    for threads in args.threads:
        torch.set_num_threads(threads)
        for name in (name for name in CASES if re.search(args.only, name)):
            step = CASES[name]()
            mine = lambda: statistics.median(samples(program, name, args.seconds, threads)) * 1e3
            print_row(rows, name, threads, "ms", *in_turn(args.rounds, lambda: theirs(step, args.seconds), mine))
    for name in (name for name in STEPS if args.memory and re.search(args.only, name)):
        for threads in args.threads:
            said = lambda *command: int(subprocess.run([*command, "--peak", name], check=True, capture_output=True, text=True).stdout) / 2**20
            peer = lambda: said(sys.executable, __file__, "--threads", str(threads))
            print_row(rows, name, threads, "MiB", *in_turn(args.rounds, peer, lambda: said("env", f"RUSTORCH_THREADS={threads}", program)))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
