#!/usr/bin/env bash
# Installs the system packages that building and testing need and that are missing. Only a C toolchain, for the linker.
set -euo pipefail

missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v git >/dev/null || missing+=(git)
if [ ${#missing[@]} -eq 0 ]; then
    echo "nothing is missing"
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "install these packages, by whatever name your system has for them: ${missing[*]}" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
"${as_root[@]}" apt-get update
"${as_root[@]}" apt-get install --yes --no-install-recommends "${missing[@]}"
