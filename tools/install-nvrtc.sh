#!/usr/bin/env bash
# Gets NVRTC, NVIDIA's compiler for kernels, from its Python wheel, into a folder outside the repository: tests compile kernels with
# it for GPUs that are not there. Prints the folder, which NVRTC_PATH is to name, on standard output, everything else on standard
# error. Exit code 3: it cannot be had here, for lack of pip, the network or a wheel for this system.
#
#     NVRTC_PATH=$(tools/install-nvrtc.sh) cargo test -p rustorch-cuda
set -euo pipefail

# Compiles for sm_80 and sm_90, the capabilities that tests ask for.
version=12.9.86
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/rustorch/nvrtc}/$version
library=$folder/nvidia/cuda_nvrtc/lib

say() { printf 'install-nvrtc: %s\n' "$*" >&2; }
give_up() { say "$*"; exit 3; }

if compgen -G "$library/libnvrtc.so.*" >/dev/null; then
    say "nothing is missing"
    echo "$library"
    exit 0
fi
[ "$(uname -s)" = Linux ] || give_up "the wheel is for Linux; install the CUDA toolkit, and set NVRTC_PATH to its folder"
python=
for name in python3 python; do
    if "$name" -m pip --version >/dev/null 2>&1; then python=$name; break; fi
done
[ -n "$python" ] || give_up "there is no pip (Debian: apt-get install python3-pip), which fetches the wheel"

# Beside its place first, so that an interrupted download leaves nothing that looks complete.
mkdir -p "$(dirname "$folder")"
partial=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$partial"' EXIT
say "fetching nvidia-cuda-nvrtc-cu12 $version, 90 MB"
PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --target "$partial" \
    "nvidia-cuda-nvrtc-cu12==$version" >&2 || give_up "pip cannot get it: what it says is above"
compgen -G "$partial/nvidia/cuda_nvrtc/lib/libnvrtc.so.*" >/dev/null || give_up "the wheel has no libnvrtc"
chmod 755 "$partial"
if ! mv -T "$partial" "$folder" 2>/dev/null; then
    # Somebody else was faster.
    compgen -G "$library/libnvrtc.so.*" >/dev/null || give_up "$folder cannot be written"
fi
echo "$library"
