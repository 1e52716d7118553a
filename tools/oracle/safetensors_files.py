#!/usr/bin/env python3
"""Writes the safetensors files that the Python library makes for the tests of rustorch-formats, and reads ours.

    pip install torch safetensors huggingface_hub
    safetensors_files.py crates/rustorch-formats/tests/data/safetensors
    cargo test -p rustorch-formats --test it safetensors && \\
        safetensors_files.py --check target/tmp/safetensors crates/rustorch-formats/tests/data/safetensors

- dtypes: a tensor of every dtype that both know, 0-d and empty tensors.
- tied: a model whose output layer shares its weight with the embedding, by `save_model`.
- sharded: five tensors in files of at most 128 bytes, with their index.

Beside each is a .tsv of what PyTorch reads in it: name, dtype, shape, bytes. `--check` reads what our tests wrote from the
same tensors with the Python library and compares.
"""
import json
import sys
from pathlib import Path

import torch
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors import safe_open
from safetensors.torch import load_file, load_model, save_file, save_model

DTYPES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.uint32: "u32",
    torch.int64: "i64", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
    torch.complex64: "c64",
}


def values(dtype, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-100, 100, shape, generator=generator)
    if dtype is torch.bool:
        return x > 0
    if dtype is torch.complex64:
        return torch.complex(x / 8, x / 3)
    return (x.abs() if dtype in (torch.uint8, torch.uint32) else x / 8 if dtype.is_floating_point else x).to(dtype)


def raw(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def describe(tensors):
    lines = []
    for name, tensor in sorted(tensors.items()):
        shape = "x".join(map(str, tensor.shape))
        lines.append("\t".join([name, DTYPES[tensor.dtype], shape, raw(tensor).hex()]) + "\n")
    return "".join(lines)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(4, 3)
        self.norm = torch.nn.LayerNorm(3)
        self.lm_head = torch.nn.Linear(3, 4, bias=False)
        self.embed.weight.data = values(torch.float32, (4, 3), 5)
        self.lm_head.weight = self.embed.weight


def load_sharded(path):
    tensors = {}
    for file in sorted(set(json.loads(path.read_text())["weight_map"].values())):
        tensors.update(load_file(path.with_name(file)))
    return tensors


def write(directory):
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {f"t.{name}": values(dtype, (2, 3), i) for i, (dtype, name) in enumerate(DTYPES.items())}
    tensors |= {f"scalar.{name}": values(dtype, (), 50 + i) for i, (dtype, name) in enumerate(DTYPES.items())}
    tensors |= {f"empty.{name}": values(dtype, (2, 0, 3), 0) for dtype, name in DTYPES.items()}
    tensors["žluťoučký \"kůň\" \\ 🐎"] = values(torch.float32, (1,), 99)
    save_file(tensors, directory / "dtypes.safetensors", metadata={"format": "pt"})
    (directory / "dtypes.tsv").write_text(describe(tensors))

    save_model(Tied(), directory / "tied.safetensors")
    (directory / "tied.tsv").write_text(describe(load_file(directory / "tied.safetensors")))

    tensors = {f"layer.{i}.weight": values(torch.float32, (4, i + 1), i) for i in range(5)}
    split = split_torch_state_dict_into_shards(tensors, max_shard_size=128)
    for file, names in split.filename_to_tensors.items():
        save_file({name: tensors[name] for name in names}, directory / file, metadata={"format": "pt"})
    index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    (directory / "model.tsv").write_text(describe(tensors))


def check(ours, fixtures):
    assert describe(load_file(ours / "dtypes.safetensors")) == (fixtures / "dtypes.tsv").read_text()
    with safe_open(ours / "dtypes.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}, file.metadata()
    model = Tied()
    model.embed.weight.data.zero_()
    missing, unexpected = load_model(model, ours / "tied.safetensors")
    assert (list(missing), list(unexpected)) == ([], [])
    assert torch.equal(model.lm_head.weight, values(torch.float32, (4, 3), 5))
    with safe_open(ours / "tied.safetensors", "pt") as file:
        assert file.metadata() == {"lm_head.weight": "embed.weight"}, file.metadata()
    sharded = load_sharded(ours / "model.safetensors.index.json")
    assert describe(sharded) == (fixtures / "model.tsv").read_text()
    print("the Python library reads the same in", *sorted(path.name for path in ours.iterdir()))


if sys.argv[1] == "--check":
    check(Path(sys.argv[2]), Path(sys.argv[3]))
else:
    write(Path(sys.argv[1]))
