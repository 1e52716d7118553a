#!/usr/bin/env python3
"""Write the state dicts of PyTorch's averaged models, and the statistics that `update_bn` gives them.

    python tools/oracle/torch_average.py crates/rustorch-nn/tests/fixtures/average.jsonl

The first line has the state dicts of a model, a Linear and a BatchNorm1d in doubles, in five steps, and three batches. Every other line is an average:
"kind" with its "decay", "use_buffers", the averaged model's state dicts after each step ("states"), and after `update_bn` over the batches ("bn").
"""

import json
import sys

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, get_swa_multi_avg_fn, update_bn

STEPS = 5
CASES = [("swa", None, False), ("swa", None, True), ("ema", 0.9, False), ("ema", 0.9, True), ("ema", 0.3, False)]


def model():
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))


def plain(state):
    return {name: x.tolist() for name, x in state.items()}


def main(path):
    # The share of a model in the mean is of the default dtype.
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    trained, states = model(), []
    for step in range(STEPS):
        # Batches move the buffers, noise moves the parameters.
        trained(torch.randn(4, 3) + step)
        with torch.no_grad():
            for parameter in trained.parameters():
                parameter.add_(torch.randn(parameter.shape))
        states.append({name: x.clone() for name, x in trained.state_dict().items()})
    batches = [torch.randn(n, 3) for n in (4, 6, 3)]
    lines = [{"states": [plain(state) for state in states], "batches": [x.tolist() for x in batches]}]
    for kind, decay, use_buffers in CASES:
        function = get_swa_multi_avg_fn() if kind == "swa" else get_ema_multi_avg_fn(decay)
        # The integer average divides integers, which PyTorch refuses for equal weights.
        if kind == "swa" and use_buffers:
            function = lambda averages, xs, n: [a.copy_(a + (x - a) / (n + 1)) for a, x in zip(averages, xs)]
        averaged = AveragedModel(model(), multi_avg_fn=function, use_buffers=use_buffers)
        current, after = model(), []
        for state in states:
            current.load_state_dict(state)
            averaged.update_parameters(current)
            after.append(plain(averaged.state_dict()))
        averaged.eval()
        update_bn(batches, averaged)
        lines.append({"kind": kind, "decay": decay, "use_buffers": use_buffers, "states": after, "bn": plain(averaged.state_dict())})
    with open(path, "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main(*sys.argv[1:])
