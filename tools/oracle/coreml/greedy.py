#!/usr/bin/env python3
"""Let the oracle decode by a package that `rustorch-cli export coreml` wrote, and compare with llama.cpp.

    greedy.py FOLDER.mlpackage LOGITS.jsonl MODEL COUNT

LOGITS.jsonl has for MODEL token ids and the ids that llama.cpp chooses behind them, greedily. The package is given the former by its functions
`prompt_N`, the largest first, and the rest one by one by `decode`, its states passed on, and has to choose the first COUNT of the latter: computed in
f32, whatever its own dtype is. Behind the context, logits have to be NaN.
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
    oracle.to_fp32(model.mlProgram, oracle.L.TranscriptionContext(str(weights)))
    states = None

    def run(ids, position):
        """The logits behind ids, by the function of so many."""
        nonlocal states
        function = "decode" if len(ids) == 1 else f"prompt_{len(ids)}"
        inputs = {"token": np.array(ids, np.int32), "position": np.arange(position, position + len(ids), dtype=np.int32)}
        outputs, states, _ = oracle.evaluate(model, str(weights), inputs, states, function)
        return outputs["logits"][0]

    functions = [function.name for function in model.description.functions]
    sizes = [int(function.removeprefix("prompt_")) for function in functions if function != "decode"]
    ids, position, used = list(row["tokens"]), 0, []
    while position < len(ids):
        size = max([size for size in sizes if size <= len(ids) - position], default=1)
        logits = run(ids[position : position + size], position)
        position += size
        used.append(size)
    chosen = [int(np.argmax(logits))]
    while len(chosen) < len(expected):
        chosen.append(int(np.argmax(run(chosen[-1:], position))))
        position += 1
    missing = set(sizes) - set(used)
    assert not missing, f"the prompt of {len(ids)} tokens is too short for functions of {missing}"
    context = int(model.description.metadata.userDefined["rustorch.context"])
    if not np.isnan(run([1], context)).all() or np.isnan(run([1], context - 1)).any():
        print("logits are NaN elsewhere than behind the context")
        return 1
    print(f"{name}: {'equal to' if chosen == expected else 'differs from'} llama.cpp's {count} greedy tokens: {chosen}")
    return 0 if chosen == expected else 1


if __name__ == "__main__":
    sys.exit(main())
