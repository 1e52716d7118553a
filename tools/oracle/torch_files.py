#!/usr/bin/env python3
"""Writes the .pt files that PyTorch makes for the tests of rustorch-formats, and reads ours.

    pip install torch numpy
    torch_files.py crates/rustorch-formats/tests/data/torch
    cargo test -p rustorch-formats --test it torch && \\
        torch_files.py --check target/tmp/torch crates/rustorch-formats/tests/data/torch

- tensors: every dense dtype, 0-d and empty ones.
- views: tensors that share a storage, transposed, expanded, with steps.
- checkpoint: the state dicts of a model and of Adam and SGD after a step, parameters, and all of Python's values that
  checkpoints have.
- protocol4: by another protocol. deflated: the checkpoint, compressed by another program.
- legacy: from before PyTorch 1.6. script: TorchScript.

Beside each is a .txt of what PyTorch reads in it, see `show`. `--check` reads what our tests wrote of the same values with
`weights_only=True` and compares.
"""
import collections
import json
import struct
import sys
import warnings
import zipfile
from pathlib import Path

import torch

DTYPES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.uint32: "u32",
    torch.int64: "i64", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
    torch.complex64: "c64", torch.complex128: "c128",
}
READABLE = ["tensors", "views", "checkpoint", "protocol4", "deflated"]


def values(dtype, shape, seed):
    x = torch.randint(-100, 100, shape, generator=torch.Generator().manual_seed(seed))
    if dtype is torch.bool:
        return x > 0
    if dtype.is_complex:
        return torch.complex(x / 8, -x / 4).to(dtype)
    return (x.abs() if dtype in (torch.uint8, torch.uint32) else x / 8 if dtype.is_floating_point else x).to(dtype)


def show(value):
    """A line of text for a value, the same as the tests make of what they read."""
    if isinstance(value, torch.Tensor):
        flat = value.detach().contiguous().reshape(-1)
        data = flat.view(torch.uint8).numpy().tobytes().hex() if flat.numel() else ""
        kind = "parameter" if isinstance(value, torch.nn.Parameter) else "tensor"
        return (f"{kind}({DTYPES[value.dtype]}, {list(value.shape)}, {list(value.stride())}, {value.storage_offset()}, "
                f"{value.untyped_storage().nbytes()}, {show(value.requires_grad)}, {data})")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{show(key)}: {show(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (set, frozenset)):
        return "set(" + ", ".join(sorted(map(show, value))) + ")"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(show, value)) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(show, value)) + "]"
    if isinstance(value, float):
        return "float(" + struct.pack(">d", value).hex() + ")"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes):
        return f"bytes({value.hex()})"
    if isinstance(value, torch.dtype):
        return f"dtype({DTYPES[value]})"
    if isinstance(value, torch.device):
        return f"device({value})"
    assert value is None or isinstance(value, (bool, int)), type(value)
    return str(value)


def checkpoint():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3, amsgrad=True)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(values(torch.float32, (4, 3), 1)).square().sum().backward()
    adam.step()
    sgd.step()
    scheduler = torch.optim.lr_scheduler.MultiStepLR(sgd, [10, 20])
    attributes = values(torch.float32, (2,), 9)
    attributes.note = "an attribute"
    return {
        "model": model.state_dict(), "adam": adam.state_dict(), "sgd": sgd.state_dict(), "scheduler": scheduler.state_dict(),
        "parameter": torch.nn.Parameter(values(torch.float32, (2, 2), 3)), "frozen": torch.nn.Parameter(torch.ones(1), False),
        "requires_grad": values(torch.float64, (2,), 4).requires_grad_(), "attributes": attributes,
        "epoch": 3, "loss": 0.1, "name": "žluťoučký \"kůň\"\n🐎", "done": False, "nothing": None, "empty": [[], (), {}, ""],
        "integers": [0, 255, 256, 65536, -1, -(2**31), 2**31, -(2**63), 2**63 - 1], "floats": [0.0, -0.0, 1e308, float("inf")],
        "nested": [(1, [2, (3, {"four": 5})])], 7: "seven", (1, "two"): True, "shape": torch.Size([2, 3]), "dtype": torch.bfloat16,
        "device": torch.device("cuda", 1), "bytes": bytes(range(256)), "set": {1, 2, 3}, "many": list(range(2500)),
        "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
    }


def write(directory):
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for i, (dtype, name) in enumerate(DTYPES.items()):
        tensors |= {name: values(dtype, (2, 3), i), f"scalar.{name}": values(dtype, (), 20 + i), f"empty.{name}": values(dtype, (2, 0), 0)}
    torch.save(tensors, directory / "tensors.pt")
    base = values(torch.float32, (4, 6), 1)
    views = {
        "base": base, "same": base, "transposed": base.t(), "row": base[1], "column": base[:, 2], "steps": base[::2, 1::2],
        "expanded": base[0, :1].expand(3, 2), "permuted": base.view(2, 2, 6).permute(2, 0, 1), "list": [base[2:], base.flatten()[5:9]],
        "apart": base.clone(),
    }
    torch.save(views, directory / "views.pt")
    torch.save(checkpoint(), directory / "checkpoint.pt")
    small = {"model": torch.nn.Linear(2, 2).state_dict(), "set": {1}, "frozen": frozenset({2}), "bytes": b"\x00\xff", "integer": -(2**40), "text": "x" * 300}
    torch.save(small, directory / "protocol4.pt", pickle_protocol=4)
    with zipfile.ZipFile(directory / "checkpoint.pt") as source:
        with zipfile.ZipFile(directory / "deflated.pt", "w", zipfile.ZIP_DEFLATED) as target:
            for name in source.namelist():
                target.writestr(name, source.read(name))
    for name in READABLE:
        # PyTorch's own restricted machine knows protocol 2 only.
        text = show(torch.load(directory / f"{name}.pt", weights_only=name != "protocol4")) + "\n"
        if name == "deflated":
            assert text == (directory / "checkpoint.txt").read_text()
        else:
            (directory / f"{name}.txt").write_text(text)
    torch.save(small["model"], directory / "legacy.pt", _use_new_zipfile_serialization=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(torch.nn.Linear(1, 1), torch.ones(1, 1)), directory / "script.pt")


def check(ours, fixtures):
    for name in READABLE:
        found = torch.load(ours / f"{name}.pt", weights_only=True)
        expected = "checkpoint" if name == "deflated" else name
        assert show(found) == (fixtures / f"{expected}.txt").read_text().removesuffix("\n"), name
        if name == "views":
            assert found["base"].untyped_storage().data_ptr() == found["steps"].untyped_storage().data_ptr()
            assert found["base"].untyped_storage().data_ptr() != found["apart"].untyped_storage().data_ptr()
            found["row"].zero_()
            assert not found["base"][1].any()
        if name == "checkpoint":
            model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
            model.load_state_dict(found["model"])
            torch.optim.AdamW(model.parameters(), amsgrad=True).load_state_dict(found["adam"])
            torch.optim.SGD(model.parameters()).load_state_dict(found["sgd"])
    odd = torch.load(ours / "odd.pt", weights_only=True)
    assert (odd.dtype, odd.shape, odd.untyped_storage().nbytes()) == (torch.float32, (1,), 7)
    print("PyTorch reads the same in", *sorted(path.name for path in ours.iterdir()))


if sys.argv[1] == "--check":
    check(Path(sys.argv[2]), Path(sys.argv[3]))
else:
    write(Path(sys.argv[1]))
