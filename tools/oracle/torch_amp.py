#!/usr/bin/env python3
"""Write the scales of PyTorch's GradScaler and the weights of a training with it, some of whose losses are infinite or NaN.

    python tools/oracle/torch_amp.py crates/rustorch-nn/tests/fixtures/amp.jsonl

The model is a Linear of doubles that starts at zero, data are those of `torch_curves.py`. Each line has "options", the steps whose loss is multiplied by
an infinity ("infinite") or NaN ("nan"), and after each of 100 steps "scales", "trackers" and "weights": the weight's numbers, then the bias's.
"""

import json
import sys

import torch
from torch_curves import uniform

STEPS = 100
INFINITE, NAN = [0, 3, 20, 21, 22, 77], [41, 95]
CASES = [
    {"init_scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 5},
    {"init_scale": 1000.0, "growth_factor": 1.7, "backoff_factor": 0.3, "growth_interval": 3},
    # It grows until it would be infinite.
    {"init_scale": 1e37, "growth_factor": 3.0, "backoff_factor": 0.9, "growth_interval": 2},
]


def main(path):
    x, y = uniform(1, STEPS, 3), uniform(2, STEPS, 2)
    with open(path, "w") as file:
        for options in CASES:
            model = torch.nn.Linear(3, 2).double()
            torch.nn.init.zeros_(model.weight), torch.nn.init.zeros_(model.bias)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
            scaler = torch.amp.GradScaler("cpu", **options)
            scales, trackers, weights = [], [], []
            for step in range(STEPS):
                optimizer.zero_grad()
                loss = ((model(x[step]) - y[step]) ** 2).mean()
                loss = loss * (float("inf") if step in INFINITE else float("nan") if step in NAN else 1.0)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                state = scaler.state_dict()
                scales.append(state["scale"])
                trackers.append(state["_growth_tracker"])
                weights.append(model.weight.flatten().tolist() + model.bias.tolist())
            file.write(json.dumps({"options": options, "infinite": INFINITE, "nan": NAN, "scales": scales, "trackers": trackers, "weights": weights}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
