#!/usr/bin/env python3
"""Check and evaluate every package of a folder that `cargo run --example oracle_cases -p rustorch-coreml -- FOLDER` wrote.

    evaluate.py FOLDER ACCEPTED.json

A package is accepted if `mlpackage_oracle.py` finds nothing wrong with it, evaluates each of its operations, and each result is within 1e-5 of the
largest value of RusTorch's on the CPU, and equal where it is not finite or an integer. A package with `f16` in it is evaluated twice: as it is, when 1e-2
is near enough, and with `f32` in its place, when 1e-3 is, since its constants are rounded. Runs of a package with states follow each other.
If all are accepted, their digests are written to ACCEPTED.json.
"""

import json
import pathlib
import sys

import numpy as np

import mlpackage_oracle as oracle

TOLERANCE = 1e-5
F16_TOLERANCE = 1e-2
# Of an `f16` program evaluated in `f32`.
ROUNDED_TOLERANCE = 1e-3


def difference(got, want, tolerance):
    """What is wrong with a result, or None."""
    if got.shape != want.shape:
        return f"shape {got.shape}, want {want.shape}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, want {want.dtype}"
    if want.dtype.kind != "f":
        return None if (got == want).all() else f"{got} is not {want}"
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return "values that are not finite differ"
    if not finite.any():
        return None
    largest = max(float(np.abs(want[finite]).max()), 1e-30)
    worst = float(np.abs(got[finite].astype(np.float64) - want[finite]).max()) / largest
    return None if worst <= tolerance else f"differs by {worst:.2e} of the largest value"


def has_f16(model):
    blocks = [b for f in model.mlProgram.functions.values() for b in f.block_specializations.values()]
    types = [o.type.tensorType.dataType for b in blocks for op in b.operations for o in op.outputs]
    return oracle.PB.FLOAT16 in types


def runs_of(folder, name):
    """Arguments and the CPU's results of each run of a case, in order."""
    count = len(list(folder.glob(f"{name}.*.inputs.npz")))
    load = lambda run, kind: dict(np.load(folder / f"{name}.{run}.{kind}.npz"))
    return [(load(run, "inputs"), load(run, "expect")) for run in range(count)]


def check(package, runs):
    """What is wrong with a package: a list, empty if it is accepted."""
    model, weights, errors = oracle.read_package(str(package))
    return errors or check_model(model, weights, runs)


def check_model(model, weights, runs):
    """What is wrong with a model whose weights are in a folder."""
    errors = oracle.lint(model, str(weights))
    if errors:
        return errors
    if not has_f16(model):
        return follow(model, weights, runs, False, TOLERANCE)
    errors = follow(model, weights, runs, False, F16_TOLERANCE)
    return errors + [f"in f32: {e}" for e in follow(model, weights, runs, True, ROUNDED_TOLERANCE)]


def follow(model, weights, runs, in_f32, tolerance):
    """What is wrong with the results of runs."""
    states, errors = None, []
    for number, (inputs, expect) in enumerate(runs):
        # Evaluation in `f32` rewrites the model.
        fresh = type(model)()
        fresh.CopyFrom(model)
        try:
            outputs, states, _ = oracle.evaluate(fresh, str(weights), inputs, states, fp32=in_f32)
        except Exception as error:  # noqa: BLE001: whatever it is, the package is not accepted.
            return errors + [f"run {number}: {type(error).__name__}: {error}"]
        if sorted(outputs) != sorted(expect):
            return errors + [f"outputs {sorted(outputs)}, want {sorted(expect)}"]
        for name, want in expect.items():
            got = np.asarray(outputs[name])
            got = got.astype(want.dtype) if in_f32 and want.dtype == np.float16 else got
            what = difference(got, want, tolerance)
            errors += [f"run {number}, {name}: {what}"] if what else []
    return errors


def main():
    folder, accepted = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    every = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    np.seterr(all="ignore")
    oracle.install_extra()
    digests = json.loads((folder / "digests.json").read_text())
    refused = 0
    names = sorted(digests)[::every]
    for name in names:
        for error in check(folder / f"{name}.mlpackage", runs_of(folder, name)):
            print(f"{name}: {error}")
            refused += 1
    if refused or not digests:
        print(f"{refused} errors in {len(names)} packages; {accepted} is as it was")
        return 1
    if every > 1:
        print(f"{len(names)} of {len(digests)} packages accepted; {accepted} is as it was")
        return 0
    accepted.write_text(json.dumps(digests, indent=2, sort_keys=True) + "\n")
    print(f"{len(digests)} packages accepted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
