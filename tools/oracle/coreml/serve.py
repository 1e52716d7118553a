#!/usr/bin/env python3
"""Evaluate a package again and again, for a test that runs it in the place of Core ML: `rustorch-coreml/tests/it/oracle.rs`.

    serve.py MODEL.mlpackage

Reads the bytes of all inputs of the first function from standard input, in the order of its description, and writes those of all outputs, until its input ends. A
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
    inputs, outputs = features(model.description.input), features(model.description.output)
    while True:
        given = {}
        for name, dtype, shape in inputs:
            count = int(np.prod(shape))
            data = sys.stdin.buffer.read(count * dtype.itemsize)
            if not data and not given:
                return
            given[name] = np.frombuffer(data, dtype).reshape(shape)
        results, _, _ = oracle.evaluate(model, str(weights), given)
        for name, dtype, shape in outputs:
            sys.stdout.buffer.write(np.ascontiguousarray(np.asarray(results[name]).reshape(shape), dtype).tobytes())
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
