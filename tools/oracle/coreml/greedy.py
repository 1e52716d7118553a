#!/usr/bin/env python3
"""Let the oracle decode by a package that `rustorch-cli export coreml` wrote, and compare with llama.cpp.

    greedy.py FOLDER.mlpackage LOGITS.jsonl MODEL COUNT

LOGITS.jsonl has for MODEL token ids and the ids that llama.cpp chooses behind them, greedily. The package is given the former one by one, its states
passed on, and has to choose the first COUNT of the latter: computed in f32, whatever its own dtype is.
"""

import json
import pathlib
import sys

import numpy as np

import mlpackage_oracle as oracle


def main():
    package, logits, name, count = sys.argv[1:]
    rows = map(json.loads, pathlib.Path(logits).read_text().splitlines())
    row = next(row for row in rows if row["model"] == name)
    expected = row["greedy"][: int(count)]
    assert len(expected) == int(count), f"llama.cpp's ids are only {len(expected)}"
    np.seterr(all="ignore")
    oracle.install_extra()
    model, weights, errors = oracle.read_package(package)
    errors += oracle.lint(model, str(weights))
    if errors:
        print(*errors, sep="\n")
        return 1
    ids, states, chosen = list(row["tokens"]), None, []
    for position in range(len(ids) + len(expected) - 1):
        # Evaluation in `f32` rewrites the model.
        fresh = type(model)()
        fresh.CopyFrom(model)
        inputs = {"token": np.array([ids[position]], np.int32), "position": np.array([position], np.int32)}
        outputs, states, _ = oracle.evaluate(fresh, str(weights), inputs, states, fp32=True)
        if position + 1 >= len(row["tokens"]):
            chosen.append(int(np.argmax(outputs["logits"][0])))
            ids.append(chosen[-1])
    print(f"{name}: {'equal to' if chosen == expected else 'differs from'} llama.cpp's {count} greedy tokens: {chosen}")
    return 0 if chosen == expected else 1


if __name__ == "__main__":
    sys.exit(main())
