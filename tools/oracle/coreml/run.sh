#!/usr/bin/env bash
# Asks coremltools about every case of rustorch-coreml: writes the packages, checks and evaluates them, compares with the CPU's results, and if all
# are accepted writes their digests to crates/rustorch-coreml/tests/fixtures/accepted.json. Needs Python 3.11 and, once, a network.
#
#   RUSTORCH_COREML_VENV=FOLDER tools/oracle/coreml/run.sh
#
# The virtual environment is outside the repository: in the user's cache, unless the variable names another folder.
set -euo pipefail
cd "$(dirname "$0")/../../.."

venv=${RUSTORCH_COREML_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/rustorch/coreml-venv}
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
"$venv/bin/python" -c 'import coremltools, numpy' 2>/dev/null \
    || "$venv/bin/pip" install --quiet -r tools/oracle/coreml/requirements.txt

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cargo run --quiet -p rustorch-coreml --example oracle_cases -- "$folder/cases"
"$venv/bin/python" -W ignore tools/oracle/coreml/test_oracle.py "$folder/cases"
models=../shared/data/models
# Of block types that llama.cpp's roundings of activations choose the same tokens for.
for model in stories260K-f32 stories260K-x4-Q8_0 stories260K-x4-Q6_K; do
    if [ ! -e "$models/$model.gguf" ]; then
        echo "left out: greedy tokens of $model.gguf, which is not in $models"
        continue
    fi
    package=$folder/$model.mlpackage
    cargo run --quiet -p rustorch-cli -- export coreml -m "$models/$model.gguf" -o "$package" -c 64 --prompt 6,3
    "$venv/bin/python" -W ignore tools/oracle/coreml/greedy.py "$package" "$models/logits.jsonl" "$model.gguf" 16
done
"$venv/bin/python" -W ignore tools/oracle/coreml/evaluate.py "$folder/cases" crates/rustorch-coreml/tests/fixtures/accepted.json
