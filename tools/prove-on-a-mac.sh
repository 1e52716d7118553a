#!/usr/bin/env bash
# Finds out on a Mac what no other machine can: whether Core ML takes the programs that are written here, whether their results are right and how long
# they take, with each compute unit; and whether the kernels are right on Metal. Takes macOS 13 or newer, Rust and half an hour, and asks nothing.
#
#   tools/prove-on-a-mac.sh [--fake] [FOLDER]
#
# FOLDER (proof-of-mac by default) has afterwards proof.json and proof.md, and the output of each step, to be sent in. A step that fails is reported, and
# the rest goes on. --fake runs the steps anywhere, a part of the cases with the CPU in the place of Core ML: it shows that the steps work, and nothing
# of Core ML, and builds as for tests.
set -u
cd "$(dirname "$0")/.." || exit 1

fake=()
profile=release
if [ "${1:-}" = --fake ]; then
    fake=(--fake --every 20)
    profile=dev
    shift
elif [ "$(uname)" != Darwin ]; then
    echo "this is no Mac; --fake shows what the steps do"
    exit 1
fi
folder=${1:-proof-of-mac}
mkdir -p "$folder" || exit 1
folder=$(cd "$folder" && pwd)
# What is found out is not that of an earlier time.
export RUSTORCH_CACHE_DIR=$folder/cache

failed=()
step() {
    local name=$1
    shift
    printf '== %s\n' "$name"
    local began=$SECONDS code=0
    "$@" >"$folder/$name.txt" 2>&1 </dev/null || code=$?
    tail -n 3 "$folder/$name.txt"
    if [ "$code" -ne 0 ]; then
        failed+=("$name (code $code)")
        printf '!! %s failed with code %d; %s has its output\n' "$name" "$code" "$folder/$name.txt"
    fi
    printf '   %d s\n' $((SECONDS - began))
}

system() {
    uname -a
    rustc --version
    git rev-parse HEAD
    if [ "$(uname)" = Darwin ]; then
        sw_vers
        sysctl -n hw.model machdep.cpu.brand_string hw.memsize
    fi
}

step system system
step build cargo build --profile "$profile" -p rustorch-cli
step build-proof cargo build --profile "$profile" -p rustorch-coreml --example prove
step build-example cargo build --profile "$profile" -p rustorch --example coreml_device
built=${CARGO_TARGET_DIR:-target}/${profile/dev/debug}
step devices "$built/rustorch-cli" devices
step programs "$built/examples/prove" ${fake[@]+"${fake[@]}"} "$folder"
step regions "$built/examples/coreml_device"
step examined "$built/rustorch-cli" coreml list
step rates "$built/rustorch-cli" bench devices --time 50
if [ ${#fake[@]} -eq 0 ]; then
    step metal cargo test --release -p rustorch-wgpu --test it conformance::
fi
rm -rf "$folder/cache"

{
    printf '\n## Steps\n\n'
    if [ ${#failed[@]} -eq 0 ]; then
        echo "All steps ended well."
    else
        printf -- '- failed: %s\n' "${failed[@]}"
    fi
} >>"$folder/proof.md"
printf '\n%s: send it in as it is\n' "$folder"
[ ${#failed[@]} -eq 0 ]
