#!/usr/bin/env python3
"""Check and evaluate every package of a folder that `cargo run --example oracle_cases -p rustorch-coreml -- FOLDER` wrote.

    evaluate.py FOLDER ACCEPTED.json

A package is accepted if `mlpackage_oracle.py` finds nothing wrong with it, evaluates each of its operations, and each result is within 1e-5 of the
largest value of RusTorch's on the CPU, and equal where it is not finite or an integer. If all are, their digests are written to ACCEPTED.json.
"""

import json
import pathlib
import sys

import numpy as np

import mlpackage_oracle as oracle

TOLERANCE = 1e-5


def difference(got, want):
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
    return None if worst <= TOLERANCE else f"differs by {worst:.2e} of the largest value"


def check(package, inputs, expect):
    """What is wrong with a package: a list, empty if it is accepted."""
    model, weights, errors = oracle.read_package(str(package))
    errors += oracle.lint(model, str(weights))
    if errors:
        return errors
    try:
        outputs, _, _ = oracle.evaluate(model, str(weights), inputs)
    except Exception as error:  # noqa: BLE001: whatever it is, the package is not accepted.
        return [f"{type(error).__name__}: {error}"]
    if sorted(outputs) != sorted(expect):
        return [f"outputs {sorted(outputs)}, want {sorted(expect)}"]
    found = [(name, difference(np.asarray(outputs[name]), expect[name])) for name in expect]
    return [f"{name}: {what}" for name, what in found if what]


def main():
    folder, accepted = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    np.seterr(all="ignore")
    oracle.install_extra()
    digests = json.loads((folder / "digests.json").read_text())
    refused = 0
    for name in sorted(digests):
        inputs, expect = (dict(np.load(folder / f"{name}.{kind}.npz")) for kind in ("inputs", "expect"))
        for error in check(folder / f"{name}.mlpackage", inputs, expect):
            print(f"{name}: {error}")
            refused += 1
    if refused or not digests:
        print(f"{refused} errors in {len(digests)} packages; {accepted} is as it was")
        return 1
    accepted.write_text(json.dumps(digests, indent=2, sort_keys=True) + "\n")
    print(f"{len(digests)} packages accepted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
