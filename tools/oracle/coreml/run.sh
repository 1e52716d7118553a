#!/usr/bin/env bash
# Asks coremltools about every case of rustorch-coreml: compares its evaluators with ONNX Runtime, damages packages and expects it to notice, writes the packages, checks and evaluates them, compares with the CPU's results, and if all
# are accepted writes their digests to crates/rustorch-coreml/tests/fixtures/accepted.json.
#
#   RUSTORCH_COREML_VENV=FOLDER tools/oracle/coreml/run.sh [--sample]
#
# With --sample, one package in ten and the tokens of one model; no digests are written.
#
# Programs are built by cargo, or those of RUSTORCH_PROGRAMS, a target folder such as target/debug in which the workspace's tests were built.
#
# The virtual environment (`venv.sh`) is outside the repository: in the user's cache, unless the variable names another folder.
set -euo pipefail
cd "$(dirname "$0")/../../.."

python=$(tools/oracle/coreml/venv.sh)

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
oracle_cases=(cargo run --quiet -p rustorch-coreml --example oracle_cases --)
program=(cargo run --quiet -p rustorch-cli --)
if [ -n "${RUSTORCH_PROGRAMS:-}" ]; then
    oracle_cases=("$RUSTORCH_PROGRAMS/examples/oracle_cases")
    program=("$RUSTORCH_PROGRAMS/rustorch-cli")
fi
"${oracle_cases[@]}" "$folder/cases"
"$python" -W ignore tools/oracle/coreml/test_evaluators.py
"$python" -W ignore tools/oracle/coreml/test_oracle.py "$folder/cases"
models=../shared/data/models
# Of block types that llama.cpp's roundings of activations choose the same tokens for.
names=(stories260K-f32 stories260K-x4-Q8_0 stories260K-x4-Q6_K)
every=1
if [ "${1:-}" = --sample ]; then
    names=(stories260K-x4-Q8_0)
    every=10
fi
for model in "${names[@]}"; do
    if [ ! -e "$models/$model.gguf" ]; then
        echo "left out: greedy tokens of $model.gguf, which is not in $models"
        continue
    fi
    package=$folder/$model.mlpackage
    "${program[@]}" export coreml -m "$models/$model.gguf" -o "$package" -c 64 --prompt 6,3
    "$python" -W ignore tools/oracle/coreml/greedy.py "$package" "$models/logits.jsonl" "$model.gguf" 16
done
"$python" -W ignore tools/oracle/coreml/evaluate.py "$folder/cases" crates/rustorch-coreml/tests/fixtures/accepted.json "$every"
