#!/usr/bin/env bash
# Makes the virtual environment of `run.sh` where there is none, and prints its Python. Needs Python 3.11 and, once, a network.
set -euo pipefail
cd "$(dirname "$0")"

venv=${RUSTORCH_COREML_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/rustorch/coreml-venv}
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv" >&2
fi
"$venv/bin/python" -c 'import coremltools, numpy, onnx, onnxruntime' 2>/dev/null ||
    timeout 600 "$venv/bin/pip" install --quiet -r requirements.txt >&2
echo "$venv/bin/python"
