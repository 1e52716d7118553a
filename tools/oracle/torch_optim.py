#!/usr/bin/env python3
"""Write the parameters after each of 50 steps of PyTorch's optimizers, in every configuration of its own tests (`optim_db`).

    python tools/oracle/torch_optim.py crates/rustorch-nn/tests/fixtures/optim.jsonl crates/rustorch-nn/tests/fixtures/optim.bin
    python tools/oracle/torch_optim.py crates/rustorch-nn/tests/fixtures/optim_real.jsonl crates/rustorch-nn/tests/fixtures/optim_real.bin real

The second set is of optimizers that take real parameters only, in 20 steps. The first line names the parameters with shapes and dtypes; every other one
is a configuration: "optimizer", "parameters" that it has, "options" by name with pairs as lists and words as numbers. The binary file has, as little-endian doubles, the parameters' first values, the gradients of all steps, and for each configuration the parameters
after each step. Complex numbers are pairs.
"""

import json
import sys

import numpy as np
import torch
from torch.testing._internal.common_optimizers import optim_db

OPTIMIZERS = ["SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adagrad", "Adadelta", "ASGD"]
REAL_OPTIMIZERS = ["Adafactor", "Muon"]
PARAMETERS = {"matrix": ((2, 3), "f64"), "vector": ((3,), "f64"), "scalar": ((), "f64"), "complex": ((2,), "c128")}
REAL_PARAMETERS = {"matrix": ((2, 3), "f64"), "vector": ((3,), "f64"), "scalar": ((), "f64"), "tall": ((4, 3), "f64"), "volume": ((2, 3, 2), "f64")}
STEPS, REAL_STEPS = 50, 20
# Muon computes in BF16: with some seeds a sum falls so near the middle of two of its values that the order of additions decides.
SEED, REAL_SEED = 12, 1
# Options that `optim_db` leaves alone.
MORE = {"Adam": [{"weight_decay": 0.1, "decoupled_weight_decay": True}, {"betas": (0.8, 0.9), "eps": 1e-3}], "SGD": [{"lr": 0.1, "momentum": 0.5, "dampening": 0.1, "weight_decay": 0.2}], "RMSprop": [{"alpha": 0.5, "momentum": 0.9}], "Adafactor": [{"eps": (0.5, 2.0), "lr": 0.5}], "Muon": [{"nesterov": False}]}
# How it computes, not what.
HOW = {"foreach", "fused", "capturable", "differentiable"}
# The numbers of options that are words.
WORDS = {"original": 0, "match_rms_adamw": 1, "spectral_unclamped": 2}


def draw(rng, scale, parameters):
    def numbers(shape, dtype):
        real = rng.standard_normal(shape) * scale
        return torch.tensor(real + 1j * rng.standard_normal(shape) * scale if dtype == "c128" else real)

    return {name: numbers(*meta) for name, meta in parameters.items()}


def flat(tensors):
    parts = [torch.view_as_real(x.detach()) if x.is_complex() else x.detach() for x in tensors.values()]
    return np.concatenate([part.reshape(-1).numpy() for part in parts])


def plain(value):
    return float(value) if isinstance(value, torch.Tensor) else list(map(plain, value)) if isinstance(value, tuple) else value


def configurations(optimizers):
    for info in optim_db:
        name = info.optim_cls.__name__
        if name not in optimizers:
            continue
        seen = []
        for case in [case.kwargs for case in info.optim_inputs_func(device="cpu")] + MORE.get(name, []):
            options = {key: plain(value) for key, value in case.items() if key not in HOW}
            if options not in seen:
                seen.append(options)
                yield name, info.optim_cls, options


def main(lines, binary, kind="all"):
    real = kind == "real"
    metas, optimizers, steps, seed = (REAL_PARAMETERS, REAL_OPTIMIZERS, REAL_STEPS, REAL_SEED) if real else (PARAMETERS, OPTIMIZERS, STEPS, SEED)
    # States such as ASGD's rate are of the default dtype.
    torch.set_default_dtype(torch.float64)
    rng = np.random.default_rng(seed)
    first = draw(rng, 1.0, metas)
    grads = [draw(rng, 0.5, metas) for _ in range(steps)]
    # No gradient at one place now and then.
    for step in range(0, steps, 7):
        grads[step]["vector"][step % 3] = 0.0
    data = [flat(first)] + [flat(grad) for grad in grads]
    heads = [{"parameters": [[name, shape, dtype] for name, (shape, dtype) in metas.items()], "steps": steps}]
    for name, cls, options in configurations(optimizers):
        parameters = {key: torch.nn.Parameter(value.clone()) for key, value in first.items()}
        arguments = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
        own = {key: value for key, value in parameters.items() if name != "Muon" or value.dim() == 2}
        if name != "Muon":
            arguments["foreach"] = False
        optimizer = cls(list(own.values()), **arguments)
        for grad in grads:
            for key, parameter in parameters.items():
                parameter.grad = grad[key].clone()
            optimizer.step()
            data.append(flat(parameters))
        heads.append({"optimizer": name, "parameters": list(own), "options": {key: WORDS.get(value, value) if isinstance(value, str) else value for key, value in options.items()}})
    with open(lines, "w") as file:
        file.writelines(json.dumps(head) + "\n" for head in heads)
    np.concatenate(data).astype("<f8").tofile(binary)


if __name__ == "__main__":
    main(*sys.argv[1:])
