#!/usr/bin/env python3
"""The training of `cargo run --release -p rustorch --example char_gpt` in PyTorch: the same model, data, recipe and measure.

    python benches/peers/torch_char_gpt.py --data tinyshakespeare.txt [--threads 2] [--compile]

It prints the validation loss over all of the last tenth of the text, and the time of 2,000 steps without that of validation.
"""

import argparse
import json
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, STEPS = 4, 4, 128, 64, 12, 2000


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.attn_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.mlp_proj = nn.Linear(4 * WIDTH, WIDTH, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0.0, 0.02 / math.sqrt(2 * LAYERS) if "proj" in name else 0.02)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (part.view(b, t, HEADS, -1).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(WIDTH, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_proj(y.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, characters):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        nn.init.normal_(self.wte.weight, 0.0, 0.02)
        nn.init.normal_(self.wpe.weight, 0.0, 0.02)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, x):
        y = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.h:
            y = block(y)
        return F.linear(self.ln_f(y), self.wte.weight)


def loss_of(model, x, y):
    logits = model(x)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))


@torch.no_grad()
def evaluate(model, text):
    rows = (len(text) - 1) // CONTEXT
    total = 0.0
    for start in range(0, rows, 64):
        n = min(64, rows - start)
        x, y = (text[start * CONTEXT + i :][: n * CONTEXT].view(n, CONTEXT) for i in (0, 1))
        total += loss_of(model, x, y).item() * n
    return total / rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    text = open(arguments.data).read()
    characters = sorted(set(text))
    place = {c: i for i, c in enumerate(characters)}
    ids = torch.tensor([place[c] for c in text])
    train, validation = ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :]
    model = Gpt(len(characters))
    step_model = torch.compile(model) if arguments.compile else model
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, 1.0, 100)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS - 100, 1e-4)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], [100])
    steps = torch.arange(CONTEXT)
    began = time.perf_counter()
    for step in range(STEPS):
        places = torch.randint(0, len(train) - CONTEXT - 1, (BATCH, 1)) + steps
        optimizer.zero_grad()
        loss_of(step_model, train[places], train[places + 1]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    seconds = time.perf_counter() - began
    result = {"validation": evaluate(model, validation), "seconds": seconds, "threads": arguments.threads, "compiled": arguments.compile}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
