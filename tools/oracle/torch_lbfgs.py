#!/usr/bin/env python3
"""Write the parameters after each step of PyTorch's L-BFGS, in the configurations of its own tests (`optim_db`) and more.

    python tools/oracle/torch_lbfgs.py crates/rustorch-nn/tests/fixtures/lbfgs.jsonl

The loss is Rosenbrock's function, with 10 for 100, of a vector of two elements plus the square of a matrix minus [[1, 2, 3]], in doubles: with 100,
one rounding of the start grows to 6e-7 in PyTorch itself. Each line is a configuration: "options" by name with words as numbers, and "steps": the
vector and the matrix after each, with the loss and how many times it was evaluated so far.
"""

import json
import sys

import torch

CASES = [
    {},
    {"lr": 0.01},
    {"tolerance_grad": 1e-6},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "max_iter": 3, "history_size": 2},
    {"line_search_fn": "strong_wolfe", "max_eval": 4},
    {"line_search_fn": "strong_wolfe", "lr": 0.1, "tolerance_change": 1e-3},
    {"line_search_fn": "strong_wolfe", "maximize": True},
    {"lr": 0.01, "maximize": True, "max_iter": 4},
    {"lr": 0.5, "max_iter": 4, "history_size": 2},
]
WORDS = {"strong_wolfe": 1}
STEPS = 6


def main(path):
    with open(path, "w") as file:
        for options in CASES:
            vector = torch.nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.float64))
            matrix = torch.nn.Parameter(torch.zeros(1, 3, dtype=torch.float64))
            optimizer = torch.optim.LBFGS([vector, matrix], **options)
            sign, count, steps = (-1.0 if options.get("maximize") else 1.0), 0, []

            def closure():
                nonlocal count
                count += 1
                optimizer.zero_grad()
                a, b = vector[0], vector[1]
                loss = (1 - a) ** 2 + 10 * (b - a * a) ** 2 + ((matrix - torch.tensor([[1.0, 2.0, 3.0]])) ** 2).sum()
                loss = loss * sign
                loss.backward()
                return loss

            for _ in range(STEPS):
                loss = float(optimizer.step(closure).detach())
                steps.append({"vector": vector.tolist(), "matrix": matrix[0].tolist(), "loss": loss, "count": count})
            named = {key: WORDS.get(value, value) if isinstance(value, str) else value for key, value in options.items()}
            file.write(json.dumps({"options": named, "steps": steps}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
