#!/usr/bin/env python3
"""Write the learning rates (and momenta) of PyTorch's schedules over 300 steps.

    python tools/oracle/torch_schedules.py crates/rustorch-nn/tests/fixtures/schedules.jsonl crates/rustorch-nn/tests/fixtures/schedules.bin

Each line names a schedule; its numbers are in the binary file as little-endian doubles: for each step from 0 the rates of two groups, that began
at 0.5 and 0.02, and the momentum. Measures of ReduceLROnPlateau are those of `measure`.
"""

import json
import math
import sys

import numpy as np
import torch
from torch.optim import lr_scheduler as s

STEPS = 300


def measure(step):
    return 1.0 / (1 + 0.1 * min(step, 40)) + 0.01 * (step % 3)


SCHEDULES = {
    "lambda": lambda o: s.LambdaLR(o, lambda t: 0.95**t),
    "multiplicative": lambda o: s.MultiplicativeLR(o, lambda t: 1 - 1 / (t + 9)),
    "step": lambda o: s.StepLR(o, 30),
    "step 7 0.9": lambda o: s.StepLR(o, 7, 0.9),
    "multistep": lambda o: s.MultiStepLR(o, [10, 10, 150], 0.5),
    "constant": lambda o: s.ConstantLR(o),
    "constant 0.25 40": lambda o: s.ConstantLR(o, 0.25, 40),
    "linear": lambda o: s.LinearLR(o),
    "linear 0.1 0.7 50": lambda o: s.LinearLR(o, 0.1, 0.7, 50),
    "exponential": lambda o: s.ExponentialLR(o, 0.97),
    "polynomial": lambda o: s.PolynomialLR(o),
    "polynomial 100 2": lambda o: s.PolynomialLR(o, 100, 2.0),
    "cosine": lambda o: s.CosineAnnealingLR(o, 300),
    "cosine 40 0.001": lambda o: s.CosineAnnealingLR(o, 40, 0.001),
    "restarts": lambda o: s.CosineAnnealingWarmRestarts(o, 25),
    "restarts 10 2 0.01": lambda o: s.CosineAnnealingWarmRestarts(o, 10, 2, 0.01),
    "cyclic": lambda o: s.CyclicLR(o, 0.01, 0.1, 20),
    "cyclic 2": lambda o: s.CyclicLR(o, 0.01, 0.1, 10, 30, "triangular2", base_momentum=0.5, max_momentum=0.95),
    "cyclic exp": lambda o: s.CyclicLR(o, 0.01, 0.1, 15, mode="exp_range", gamma=0.99, cycle_momentum=False),
    "onecycle": lambda o: s.OneCycleLR(o, 0.3, 301),
    "onecycle linear": lambda o: s.OneCycleLR(o, 0.3, 301, pct_start=0.2, anneal_strategy="linear", div_factor=10.0),
    "onecycle three": lambda o: s.OneCycleLR(o, 0.3, 301, three_phase=True, final_div_factor=100.0, base_momentum=0.7),
    "plateau": lambda o: s.ReduceLROnPlateau(o),
    "plateau max": lambda o: s.ReduceLROnPlateau(o, "max", 0.5, 3, 0.05, "abs", 4, 0.001),
    "sequential": lambda o: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1.0, 20), s.CosineAnnealingLR(o, 200, 1e-4), s.ExponentialLR(o, 0.9)], [20, 220]),
    "chained": lambda o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 30), s.ExponentialLR(o, 0.99), s.StepLR(o, 100)]),
}


def run(name, make):
    parameters = [torch.nn.Parameter(torch.zeros(1, dtype=torch.float64)) for _ in range(2)]
    optimizer = torch.optim.SGD([{"params": [parameters[0]]}, {"params": [parameters[1]], "lr": 0.02}], lr=0.5, momentum=0.6)
    schedule = make(optimizer)
    numbers = []
    for step in range(STEPS + 1):
        numbers += [group["lr"] for group in optimizer.param_groups] + [optimizer.param_groups[0]["momentum"]]
        if step < STEPS:
            optimizer.step()
            schedule.step(measure(step)) if name.startswith("plateau") else schedule.step()
    assert all(math.isfinite(x) for x in numbers), name
    return numbers


def main(lines, binary):
    numbers = []
    with open(lines, "w") as file:
        for name, make in SCHEDULES.items():
            numbers += run(name, make)
            file.write(json.dumps({"schedule": name}) + "\n")
    np.array(numbers, "<f8").tofile(binary)


if __name__ == "__main__":
    main(*sys.argv[1:])
