#!/usr/bin/env python3
"""Time training steps of GPT-2 (124 M parameters) on a GPU against PyTorch's eager ones, in turn, and print medians and the ratio.

    benches/peers/torch_gpt2.py [--device cuda] [--batch 8] [--steps 10] [--rounds 3] [--f32] [--program FILE]

Needs PyTorch with CUDA. Builds `rustorch`'s benchmark `gpt2`, which takes the same steps: batches of 1,024 tokens, AdamW (PyTorch's fused
one), `autocast` to BF16 unless `--f32`. --program names a benchmark that was built before. The share of the GPU's peak counts 6
operations for each parameter and token and those of attention, of what an 8192³ BF16 matmul reaches.
"""

import argparse
import re
import statistics
import subprocess
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from side_by_side import build, in_turn

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = 12, 12, 768, 1024, 50257


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.attn_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c_fc, self.mlp_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (part.view(b, t, HEADS, -1).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(WIDTH, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_proj(y.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, x, y):
        hidden = self.wte(x) + self.wpe(torch.arange(x.shape[1], device=x.device))
        for block in self.h:
            hidden = block(hidden)
        return F.cross_entropy(F.linear(self.ln_f(hidden), self.wte.weight).view(-1, VOCABULARY), y)


def stepper(device, batch, bf16):
    model = Gpt2().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, VOCABULARY, (batch, CONTEXT + 1), device=device)
    x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)

    def step():
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            loss = model(x, y)
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()

    return step


def timed(step, steps):
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def bf16_rate(device):
    """Operations per second of a large matmul."""
    a = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)

    def multiply():
        a @ a
        torch.cuda.synchronize()

    timed(multiply, 3)
    return 2 * 8192**3 / (timed(multiply, 10) / 1e3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--f32", action="store_true")
    parser.add_argument("--program")
    args = parser.parse_args()
    program = args.program or build("rustorch", "gpt2")
    command = [program, "--device", args.device, "--batch", str(args.batch), "--steps", str(args.steps)] + ["--f32"] * args.f32
    ours = lambda: float(re.search(r"([\d.]+) ms per step", subprocess.run(command, check=True, capture_output=True, text=True).stdout).group(1))
    step = stepper(args.device, args.batch, not args.f32)
    timed(step, 3)
    peer, mine, ratio = in_turn(args.rounds, lambda: timed(step, args.steps), ours)
    tokens = args.batch * CONTEXT
    operations = tokens * (6 * 124.4e6 + 6 * LAYERS * CONTEXT * WIDTH)
    rate = bf16_rate(args.device)
    print(f"{torch.cuda.get_device_name()}: PyTorch {peer:.1f} ms per step, {tokens / peer * 1e3:.0f} tokens/s, {operations / peer * 1e3 / rate:.0%} of the rate of a large BF16 matmul")
    print(f"RusTorch {mine:.1f} ms, {tokens / mine * 1e3:.0f} tokens/s, {operations / mine * 1e3 / rate:.0%}; PyTorch's speed × {1 / ratio:.2f}")
    print(f"PyTorch's peak of memory: {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
