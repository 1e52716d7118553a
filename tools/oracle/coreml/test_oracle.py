#!/usr/bin/env python3
"""Show that damaged packages are not accepted: each kind of damage, done to a package that is, has to be noticed. So has another value of each constant
parameter of each operation, in some package.

    test_oracle.py FOLDER

FOLDER is that of `oracle_cases`.
"""

import json
import pathlib
import shutil
import struct
import sys
import tempfile

import numpy as np

import evaluate
import mlpackage_oracle as oracle

PB = oracle.PB


def operation(model, kind):
    block = next(iter(model.mlProgram.functions["main"].block_specializations.values()))
    return next(op for op in block.operations if op.type == kind)


def block_of(model):
    return next(iter(model.mlProgram.functions["main"].block_specializations.values()))


def const(model, value):
    """The constant operation that `value`, an operation's parameter, is bound to."""
    name = value.arguments[0].name
    return next(op for op in block_of(model).operations if op.outputs[0].name == name)


def swap_operations(model):
    operations = block_of(model).operations
    last, first = PB.Operation(), PB.Operation()
    last.CopyFrom(operations[-1])
    first.CopyFrom(operations[0])
    operations[0].CopyFrom(last)
    operations[-1].CopyFrom(first)


def rename_opset(model):
    function = model.mlProgram.functions["main"]
    function.opset = "CoreML6"


def newer_opset(model):
    function = model.mlProgram.functions["main"]
    function.block_specializations["CoreML8"].CopyFrom(function.block_specializations[function.opset])
    del function.block_specializations[function.opset]
    function.opset = "CoreML8"


def first_weight(model):
    return next(op for op in block_of(model).operations if op.attributes["val"].WhichOneof("value") == "blobFileValue")


def move(model, by):
    first_weight(model).attributes["val"].blobFileValue.offset += by


def transposed(model, kind, parameter):
    bools = const(model, operation(model, kind).inputs[parameter]).attributes["val"].immediateValue.tensor.bools
    bools.values[:] = [not bools.values[0]]


# Damage to the model of the perceptron.
MODEL = {
    "specification version 5": lambda m: setattr(m, "specificationVersion", 5),
    "specification version 99": lambda m: setattr(m, "specificationVersion", 99),
    "program version": lambda m: setattr(m.mlProgram, "version", 2),
    "opset without a block": rename_opset,
    "opset newer than the version": newer_opset,
    "input dtype": lambda m: setattr(m.description.input[0].type.multiArrayType, "dataType", 131104),
    "input shape": lambda m: m.description.input[0].type.multiArrayType.shape.__setitem__(0, 77),
    "input name": lambda m: setattr(m.description.input[0], "name", "other"),
    "output name": lambda m: setattr(m.description.output[0], "name", "other"),
    "output dtype": lambda m: setattr(m.description.output[0].type.multiArrayType, "dataType", 131104),
    "output shape": lambda m: m.description.output[0].type.multiArrayType.shape.__setitem__(0, 77),
    "no output": lambda m: block_of(m).outputs.pop(),
    "input as output": lambda m: block_of(m).outputs.__setitem__(0, "input_0"),
    "name that is no identifier": lambda m: setattr(operation(m, "softmax").outputs[0], "name", "soft max"),
    "name defined twice": lambda m: setattr(operation(m, "softmax").outputs[0], "name", operation(m, "matmul").outputs[0].name),
    "operation without a name": lambda m: operation(m, "softmax").attributes.pop("name"),
    "unknown operation": lambda m: setattr(operation(m, "softmax"), "type", "softermax"),
    "another operation": lambda m: setattr(operation(m, "relu"), "type", "tanh"),
    "missing parameter": lambda m: operation(m, "matmul").inputs.pop("y"),
    "unknown parameter": lambda m: operation(m, "relu").inputs["z"].CopyFrom(operation(m, "relu").inputs["x"]),
    "undefined operand": lambda m: setattr(operation(m, "relu").inputs["x"].arguments[0], "name", "nothing"),
    "order of operations": swap_operations,
    "declared dtype": lambda m: setattr(operation(m, "relu").outputs[0].type.tensorType, "dataType", PB.INT32),
    "declared shape": lambda m: setattr(operation(m, "relu").outputs[0].type.tensorType.dimensions[0].constant, "size", 77),
    "transposition": lambda m: transposed(m, "matmul", "transpose_y"),
    "blob offset": lambda m: move(m, 64),
    "blob offset of another weight": lambda m: move(m, 2 * 64 + 6 * 32 * 4),
    "blob path": lambda m: setattr(first_weight(m).attributes["val"].blobFileValue, "fileName", "weight.bin"),
}


def patched(offset, bytes_):
    def change(weights):
        path = weights / "weight.bin"
        data = bytearray(path.read_bytes())
        data[offset : offset + len(bytes_)] = bytes_
        path.write_bytes(data)

    return change


def truncate(weights):
    path = weights / "weight.bin"
    path.write_bytes(path.read_bytes()[:-8])


# Damage to its weights.
WEIGHTS = {
    "blob version": patched(4, struct.pack("<I", 1)),
    "sentinel": patched(64, b"\0\0\0\0"),
    "blob dtype": patched(68, struct.pack("<I", 3)),
    "blob length": patched(72, struct.pack("<Q", 1 << 40)),
    "data offset": patched(80, struct.pack("<Q", 129)),
    "one weight": patched(128, struct.pack("<f", 1.5)),
    "end of the file": truncate,
}


def manifest(change):
    def apply(package):
        path = package / "Manifest.json"
        text = json.loads(path.read_text())
        change(text)
        path.write_text(json.dumps(text))

    return apply


# Damage to its manifest.
MANIFEST = {
    "manifest version": manifest(lambda t: t.__setitem__("fileFormatVersion", "2.0.0")),
    "manifest root": manifest(lambda t: t.__setitem__("rootModelIdentifier", "nobody")),
    "manifest author": manifest(lambda t: next(iter(t["itemInfoEntries"].values())).pop("author")),
}


def changed(value):
    """Another value of a constant parameter: of each element if it holds booleans, else of the first."""
    value = np.asarray(value)
    if value.dtype.kind == "U":
        return str(value) + "_other"
    if value.dtype.kind == "b":
        return ~value
    other = value.copy().reshape(-1)
    other[0] = 0 if np.isinf(other[0]) else other[0] * 3 + 1
    return other.reshape(value.shape)


def immediate(constant, value):
    """Has a constant of the program hold a value."""
    held = constant.attributes["val"]
    held.immediateValue.Clear()
    tensor = held.immediateValue.tensor
    if isinstance(value, str):
        tensor.strings.values.append(value)
    elif value.dtype.kind == "b":
        tensor.bools.values.extend(value.ravel().tolist())
    elif value.dtype == np.float32:
        tensor.floats.values.extend(value.ravel().tolist())
    elif value.dtype == np.int32:
        tensor.ints.values.extend(value.ravel().tolist())
    else:
        tensor.bytes.values = value.tobytes()


def parameters(model):
    """Where constants are given to operations: an index, a parameter's name, the number among arguments of that name, the constant's index."""
    operations = block_of(model).operations
    constants = {op.outputs[0].name: i for i, op in enumerate(operations) if op.type == "const"}
    for i, op in enumerate(operations):
        for name, value in op.inputs.items():
            for number, argument in enumerate(value.arguments):
                if argument.name in constants:
                    yield i, name, number, constants[argument.name]


def with_changed_parameter(model, weights, place):
    """A copy of a model in which one operation has another constant for a parameter, and the others the same ones."""
    at, name, number, constant = place
    damaged = type(model)()
    damaged.CopyFrom(model)
    block = block_of(damaged)
    other = type(block.operations[0])()
    other.CopyFrom(block.operations[constant])
    context = oracle.L.TranscriptionContext(str(weights))
    immediate(other, changed(oracle.L._load_value(context, other.attributes["val"])))
    other.outputs[0].name = "damaged_0"
    block.operations[at].inputs[name].arguments[number].name = "damaged_0"
    block.operations.insert(at, other)
    return damaged


# How many packages are tried for a parameter.
TRIES = 60


def unnoticed_parameters(folder):
    """Parameters of operations, (operation, name), of which another value is noticed in no package; and how many there are."""
    tried, seen = {}, set()
    for path in sorted(folder.glob("*.mlpackage")):
        name = path.stem
        model, weights, _ = oracle.read_package(str(path))
        if "main" not in model.mlProgram.functions:
            continue
        runs = None
        for place in parameters(model):
            key = (block_of(model).operations[place[0]].type, place[1])
            if key in seen or tried.get(key, 0) >= TRIES:
                continue
            tried[key] = tried.get(key, 0) + 1
            runs = runs or evaluate.runs_of(folder, name)
            if evaluate.check_model(with_changed_parameter(model, weights, place), weights, runs):
                seen.add(key)
    return sorted(set(tried) - seen), len(tried)


def noticed(folder, name, change):
    """Whether a package with a change is refused."""
    with tempfile.TemporaryDirectory() as place:
        package = pathlib.Path(place) / "damaged.mlpackage"
        shutil.copytree(folder / f"{name}.mlpackage", package)
        change(package)
        try:
            return bool(evaluate.check(package, evaluate.runs_of(folder, name)))
        except (KeyError, OSError, struct.error):
            return True


def in_model(change):
    def apply(package):
        path = package / oracle.SPEC_DIR / "model.mlmodel"
        model = oracle.proto.Model_pb2.Model()
        model.ParseFromString(path.read_bytes())
        change(model)
        path.write_bytes(model.SerializeToString())

    return apply


def main():
    folder = pathlib.Path(sys.argv[1])
    np.seterr(all="ignore")
    oracle.install_extra()
    damage = {what: in_model(change) for what, change in MODEL.items()}
    damage |= {what: (lambda p, change=change: change(p / oracle.SPEC_DIR / "weights")) for what, change in WEIGHTS.items()}
    damage |= MANIFEST
    assert not noticed(folder, "mlp", lambda package: None), "the undamaged package is refused"
    unnoticed = [what for what, change in damage.items() if not noticed(folder, "mlp", change)]
    for what in unnoticed:
        print(f"not noticed: {what}")
    print(f"{len(damage) - len(unnoticed)} of {len(damage)} kinds of damage noticed")
    without, count = unnoticed_parameters(folder)
    for kind, parameter in without:
        print(f"not noticed: another {parameter} of {kind}")
    print(f"another value noticed of {count - len(without)} of {count} parameters of operations")
    return 1 if unnoticed or without else 0


if __name__ == "__main__":
    sys.exit(main())
