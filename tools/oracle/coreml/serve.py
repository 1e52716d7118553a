#!/usr/bin/env python3
"""Evaluate a package again and again, for a test that runs it in the place of Core ML: `rustorch-coreml/tests/it/oracle.rs`.

    serve.py MODEL.mlpackage [FUNCTION]

Reads the bytes of all inputs of the function (`main` if none is named) from standard input, in the order of its description, and writes those of all outputs, until its input ends. If
the function has states, a number is before the inputs, of 64 bits: the states of each number begin with zeros, and are as the last evaluation with it left them. A
package in which something is wrong is refused: the process ends with 1, and says why.
"""

import sys

import numpy as np

import mlpackage_oracle as oracle

FEATURE = oracle.proto.FeatureTypes_pb2.ArrayFeatureType
DTYPES = {FEATURE.FLOAT32: np.float32, FEATURE.FLOAT16: np.float16, FEATURE.INT32: np.int32}


def features(described):
    """Names, dtypes and shapes of inputs or outputs."""
    arrays = [(feature.name, feature.type.multiArrayType) for feature in described]
    return [(name, np.dtype(DTYPES[array.dataType]), tuple(array.shape)) for name, array in arrays]


def main():
    np.seterr(all="ignore")
    oracle.install_extra()
    model, weights, errors = oracle.read_package(sys.argv[1])
    errors += oracle.lint(model, str(weights))
    if errors:
        sys.exit("\n".join(errors))
    function = sys.argv[2] if len(sys.argv) > 2 else "main"
    described = next((of for of in model.description.functions if of.name == function), model.description)
    inputs, outputs = features(described.input), features(described.output)
    states = {}
    while True:
        given, number = {}, None
        if described.state:
            data = sys.stdin.buffer.read(8)
            if not data:
                return
            number = int.from_bytes(data, sys.byteorder)
        for name, dtype, shape in inputs:
            count = int(np.prod(shape))
            data = sys.stdin.buffer.read(count * dtype.itemsize)
            if not data and not given:
                return
            given[name] = np.frombuffer(data, dtype).reshape(shape)
        results, states[number], _ = oracle.evaluate(model, str(weights), given, states.get(number), function)
        for name, dtype, shape in outputs:
            sys.stdout.buffer.write(np.ascontiguousarray(np.asarray(results[name]).reshape(shape), dtype).tobytes())
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
