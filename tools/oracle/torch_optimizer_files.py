#!/usr/bin/env python3
"""Write the state dicts of PyTorch's optimizers, in a file of `torch.save`, with the steps before and after.

    python tools/oracle/torch_optimizer_files.py crates/rustorch/tests/data/optimizers.pt

Each entry is an optimizer: its "state" after three steps with other options than the defaults, the parameters "before" the next three, their
"grads", and the parameters "after". Parameters are doubles in two groups; those of "NamedAdam" were given with names.
"""

import sys

import torch

CASES = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "Adam": {"lr": 0.1, "betas": (0.8, 0.9), "amsgrad": True},
    "AdamW": {"lr": 0.1, "weight_decay": 0.2},
    "Adamax": {"lr": 0.1},
    "NAdam": {"lr": 0.1, "decoupled_weight_decay": True, "weight_decay": 0.1},
    "RAdam": {"lr": 0.1},
    "RMSprop": {"lr": 0.1, "momentum": 0.5, "centered": True},
    "Rprop": {"lr": 0.1, "etas": (0.4, 1.3)},
    "Adagrad": {"lr": 0.1, "lr_decay": 0.01, "initial_accumulator_value": 0.1},
    "Adadelta": {"lr": 0.5, "rho": 0.8},
    "ASGD": {"lr": 0.1, "t0": 2.0},
    "Adafactor": {"lr": 0.1, "weight_decay": 0.1},
    "Muon": {"lr": 0.1, "adjust_lr_fn": "match_rms_adamw"},
    "NamedAdam": {"lr": 0.1},
}
SHAPES = {"matrix": (2, 3), "vector": (3,), "scalar": (), "tall": (4, 2)}


def main(path):
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    entries = {}
    for name, options in CASES.items():
        shapes = {key: shape for key, shape in SHAPES.items() if name != "Muon" or len(shape) == 2}
        parameters = {key: torch.nn.Parameter(torch.randn(shape)) for key, shape in shapes.items()}
        named = [pair if name == "NamedAdam" else pair[1] for pair in parameters.items()]
        groups = [{"params": named[:1]}, {"params": named[1:], "lr": 0.05}]
        optimizer = getattr(torch.optim, name.removeprefix("Named"))(groups, **options)

        def step():
            grads = {key: torch.randn(x.shape) for key, x in parameters.items()}
            for key, x in parameters.items():
                x.grad = grads[key].clone()
            optimizer.step()
            return grads

        for _ in range(3):
            step()
        copy = lambda: {key: x.detach().clone() for key, x in parameters.items()}
        # The tensors of a state dict are those that later steps change.
        state, before = torch.utils._pytree.tree_map(lambda x: x.clone() if torch.is_tensor(x) else x, optimizer.state_dict()), copy()
        entries[name] = {"state": state, "before": before, "grads": [step() for _ in range(3)], "after": copy()}
    torch.save(entries, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
