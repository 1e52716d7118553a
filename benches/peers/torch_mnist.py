#!/usr/bin/env python3
"""The training of `cargo run --release -p rustorch --example mnist` in PyTorch: the same model, data and recipe, three seeds.

    python benches/peers/torch_mnist.py --data DIR [--threads 2]
"""

import argparse
import gzip
import os
import struct
import time

import numpy as np
import torch
from torch import nn

EPOCHS, BATCH = 12, 64


def load(folder, name):
    with gzip.open(os.path.join(folder, name + "-ubyte.gz")) as file:
        data = file.read()
    ndim = data[3]
    return torch.tensor(np.frombuffer(data, np.uint8, offset=4 + 4 * ndim).reshape(struct.unpack(f">{ndim}I", data[4 : 4 + 4 * ndim])))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    sets = []
    for part in ("train", "t10k"):
        images = load(arguments.data, part + "-images-idx3").float().unsqueeze(1)
        sets.append(((images / 255 - 0.1307) / 0.3081, load(arguments.data, part + "-labels-idx1").long()))
    (x, y), (test_x, test_y) = sets
    accuracies, began = [], time.perf_counter()
    for seed in range(3):
        torch.manual_seed(seed)
        model = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
        )  # fmt: skip
        optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * -(-len(x) // BATCH))
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(x)).split(BATCH):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
                scheduler.step()
        with torch.no_grad():
            accuracies.append(100 * (model(test_x).argmax(1) == test_y).float().mean().item())
        print(f"seed {seed}: {accuracies[-1]:.1f} % right")
    print(f"mean: {sum(accuracies) / 3:.2f} % in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
