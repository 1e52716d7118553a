#!/usr/bin/env python3
"""Write the losses of five small trainings in PyTorch: an MLP, LeNet, an LSTM, a GPT with norms before its blocks, and a VAE.

    python tools/oracle/torch_curves.py crates/rustorch-nn/tests/fixtures/curves.jsonl crates/rustorch-nn/tests/fixtures/curves.bin

Everything is computed in doubles. Data are numbers of SplitMix64, which the tests draw again. Each line is a training: "model", "parameters" with
names and shapes, and the "losses" of 200 steps. The binary file has for each, as little-endian doubles, the parameters' initial values, which PyTorch
drew, and those after 100 steps; then the noise of the VAE.
"""

import json
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

STEPS, STORED = 200, 100
BATCH = 16


def uniform(stream, *shape):
    """Multiples of 2⁻²⁴ from 0 to 1: the outputs of SplitMix64 whose state starts at `stream` · 2³²."""
    golden, first, second = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
    z = np.uint64(stream << 32) + np.arange(1, np.prod(shape) + 1, dtype=np.uint64) * golden
    z = (z ^ (z >> np.uint64(30))) * first
    z = (z ^ (z >> np.uint64(27))) * second
    z = (z ^ (z >> np.uint64(31))) >> np.uint64(40)
    return torch.from_numpy(z.astype(np.float64) / 2.0**24).reshape(shape)


def integers(stream, below, *shape):
    return (uniform(stream, *shape) * below).long()


def rows(step, *data):
    """The batch of a step out of 64 rows."""
    start = step * BATCH % 64
    return [x[start : start + BATCH] for x in data]


class Mlp(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
        self.x, self.y = uniform(1, 64, 16), integers(2, 10, 64)

    def loss(self, step):
        x, y = rows(step, self.x, self.y)
        return F.cross_entropy(self(x), y)

    def optimizer(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


class LeNet(nn.Sequential):
    def __init__(self):
        convolutions = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
        super().__init__(*convolutions, nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        self.x, self.y = uniform(3, 64, 1, 16, 16), integers(4, 10, 64)

    def loss(self, step):
        x, y = rows(step, self.x, self.y)
        return F.cross_entropy(self(x), y)

    def optimizer(self):
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.out = nn.Embedding(12, 8), nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 12)
        self.text = integers(5, 12, 64, 11)

    def loss(self, step):
        (text,) = rows(step, self.text)
        y, _ = self.lstm(self.embedding(text[:, :-1]))
        return F.cross_entropy(self.out(y).reshape(-1, 12), text[:, 1:].reshape(-1))

    def optimizer(self):
        return torch.optim.RMSprop(self.parameters(), lr=2e-3)

    def clip(self):
        nn.utils.clip_grad_norm_(self.parameters(), 0.1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.attn, self.proj, self.fc, self.out = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x):
        heads = [y.unflatten(-1, (2, 8)).transpose(1, 2) for y in self.attn(self.ln_1(x)).split(16, -1)]
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).flatten(-2))
        return x + self.out(F.gelu(self.fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe, self.h, self.ln_f, self.head = nn.Embedding(12, 16), nn.Embedding(10, 16), nn.ModuleList([Block(), Block()]), nn.LayerNorm(16), nn.Linear(16, 12)
        self.text = integers(6, 12, 64, 11)

    def loss(self, step):
        (text,) = rows(step, self.text)
        x = self.wte(text[:, :-1]) + self.wpe(torch.arange(10))
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.head(self.ln_f(x)).reshape(-1, 12), text[:, 1:].reshape(-1))

    def optimizer(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-3, weight_decay=0.1)

    def schedule(self, optimizer):
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)


class Vae(nn.Module):
    """Kingma, Welling: *Auto-Encoding Variational Bayes*, 2014."""

    def __init__(self):
        super().__init__()
        self.encoder, self.mean, self.log_variance = nn.Linear(16, 24), nn.Linear(24, 4), nn.Linear(24, 4)
        self.decoder, self.out = nn.Linear(4, 24), nn.Linear(24, 16)
        self.x = uniform(7, 64, 16)
        # Read as floats by the tests in `F32`, too.
        self.noise = torch.randn(STEPS, BATCH, 4).double()

    def loss(self, step):
        (x,) = rows(step, self.x)
        hidden = torch.tanh(self.encoder(x))
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        z = mean + self.noise[step] * torch.exp(0.5 * log_variance)
        logits = self.out(torch.tanh(self.decoder(z)))
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
        return (F.binary_cross_entropy_with_logits(logits, x, reduction="sum") + divergence) / BATCH

    def optimizer(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def flat(parameters):
    return np.concatenate([x.detach().reshape(-1).numpy().copy() for x in parameters])


def main(lines, binary):
    heads, data = [], []
    for model in (Mlp, LeNet, Lstm, Gpt, Vae):
        torch.manual_seed(0)
        model = model().double()
        data.append(flat(model.parameters()))
        optimizer = model.optimizer()
        schedule = model.schedule(optimizer) if hasattr(model, "schedule") else None
        losses = []
        for step in range(STEPS):
            optimizer.zero_grad()
            loss = model.loss(step)
            loss.backward()
            if hasattr(model, "clip"):
                model.clip()
            optimizer.step()
            if schedule:
                schedule.step()
            losses.append(float(loss.detach()))
            if step + 1 == STORED:
                data.append(flat(model.parameters()))
        parameters = [[name, list(x.shape)] for name, x in model.named_parameters()]
        heads.append({"model": type(model).__name__, "parameters": parameters, "losses": losses})
    data.append(model.noise.reshape(-1).numpy())
    with open(lines, "w") as file:
        file.writelines(json.dumps(head) + "\n" for head in heads)
    np.concatenate(data).astype("<f8").tofile(binary)


if __name__ == "__main__":
    main(*sys.argv[1:])
