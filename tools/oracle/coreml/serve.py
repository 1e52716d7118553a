#!/usr/bin/env python3
"""Evaluate a package again and again, for a test that runs it in the place of Core ML: `rustorch-coreml/tests/it/oracle.rs`.

    serve.py MODEL.mlpackage

Reads from standard input the number of a function, of 64 bits, in the order of the package's names, and the bytes of all its inputs, in the order of its description, and writes those of
all outputs, until its input ends. If the function has states, a number is before the inputs, of 64 bits: the states of each number begin with zeros, and are as the last evaluation
with it left them, of whichever function. Where the upper half of the function's number is 1, a state is written, and where it is 2, one is read: behind the number of the states is that of
the state, in the order of the description, of 64 bits, and then its bytes, or nothing. A package in which something is wrong is refused: the process ends with 1, and says why.
"""

import sys

import numpy as np

import mlpackage_oracle as oracle

FEATURE = oracle.proto.FeatureTypes_pb2.ArrayFeatureType
DTYPES = {FEATURE.FLOAT32: np.float32, FEATURE.FLOAT16: np.float16, FEATURE.INT32: np.int32}


def features(described):
    """Names, dtypes and shapes of inputs, outputs or states."""
    types = [(feature.name, feature.type) for feature in described]
    arrays = [(name, type.multiArrayType if type.HasField("multiArrayType") else type.stateType.arrayType) for name, type in types]
    return [(name, np.dtype(DTYPES[array.dataType]), tuple(array.shape)) for name, array in arrays]


def main():
    np.seterr(all="ignore")
    oracle.install_extra()
    model, weights, errors = oracle.read_package(sys.argv[1])
    errors += oracle.lint(model, str(weights))
    if errors:
        sys.exit("\n".join(errors))
    names = sorted(model.mlProgram.functions)
    described = {function.name: function for function in model.description.functions} or {names[0]: model.description}
    states, read = {}, sys.stdin.buffer.read
    while data := read(8):
        way, function = divmod(int.from_bytes(data, sys.byteorder), 1 << 32)
        function = names[function]
        inputs, outputs = features(described[function].input), features(described[function].output)
        number = int.from_bytes(read(8), sys.byteorder) if described[function].state else None
        if way:
            name, dtype, shape = features(described[function].state)[int.from_bytes(read(8), sys.byteorder)]
            held = states.setdefault(number, {})
            if way == 1:
                held[name] = np.frombuffer(read(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)
            else:
                sys.stdout.buffer.write(np.ascontiguousarray(held.get(name, np.zeros(shape)), dtype).tobytes())
                sys.stdout.buffer.flush()
            continue
        given = {name: np.frombuffer(read(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape) for name, dtype, shape in inputs}
        results, after, _ = oracle.evaluate(model, str(weights), given, states.get(number), function)
        states[number] = {**states.get(number, {}), **after}
        for name, dtype, shape in outputs:
            sys.stdout.buffer.write(np.ascontiguousarray(np.asarray(results[name]).reshape(shape), dtype).tobytes())
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
