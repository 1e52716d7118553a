#!/usr/bin/env python3
"""Compare the Core ML package of a ResNet-18 with what coremltools writes for the same layers: how many operations each has.

    cargo run --release --example export_resnet -- resnet.mlpackage    # prints how long it took
    benches/peers/coreml_emit.py resnet.mlpackage

Needs torch and coremltools 9.0 (`tools/oracle/coreml/requirements.txt`). Constants are not counted.
"""

import collections
import pathlib
import sys
import time

import coremltools as ct
import torch
from coremltools.proto import Model_pb2
from torch import nn


class Block(nn.Module):
    """A basic block, whose first convolution may halve the image."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    before = 64
    for after, stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
        layers += [Block(before, after, stride), Block(after, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).eval()


def operations(model):
    """How many operations of each kind a program has, without constants."""
    function = next(iter(model.mlProgram.functions.values()))
    block = next(iter(function.block_specializations.values()))
    return collections.Counter(op.type for op in block.operations if op.type != "const")


def main():
    x = torch.zeros(1, 3, 224, 224)
    traced = torch.jit.trace(resnet18(), x)
    started = time.perf_counter()
    converted = ct.convert(
        traced,
        inputs=[ct.TensorType(shape=x.shape)],
        convert_to="mlprogram",
        compute_precision=ct.precision.FLOAT32,
        minimum_deployment_target=ct.target.macOS12,
        skip_model_load=True,
    )
    seconds = time.perf_counter() - started
    theirs = operations(converted.get_spec())
    print(f"coremltools {ct.__version__}: {theirs.total()} operations in {seconds:.2f} s: {dict(theirs.most_common())}")
    for path in sys.argv[1:]:
        model = Model_pb2.Model()
        model.ParseFromString((pathlib.Path(path) / "Data/com.apple.CoreML/model.mlmodel").read_bytes())
        ours = operations(model)
        print(f"{path}: {ours.total()} operations, {ours.total() / theirs.total():.2f} of coremltools': {dict(ours.most_common())}")


main()
