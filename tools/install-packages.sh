#!/usr/bin/env bash
# Installs the system packages that building and testing need and that are missing: a C and C++ toolchain, for the linker and for
# kernels of CUDA that tests run on the CPU, and on Debian and its kin drivers of devices that run on the CPU, for tests
# that skip where there is no device.
set -euo pipefail

missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
# For the emulator of a GPU.
command -v c++ >/dev/null || missing+=(g++)
command -v git >/dev/null || missing+=(git)
if command -v apt-get >/dev/null; then
    libraries=$(/sbin/ldconfig -p)
    # Vulkan: the loader, and a driver.
    [[ $libraries == *libvulkan.so.1* ]] || missing+=(libvulkan1)
    compgen -G "/usr/share/vulkan/icd.d/*.json" >/dev/null || compgen -G "/etc/vulkan/icd.d/*.json" >/dev/null ||
        missing+=(mesa-vulkan-drivers)
    # OpenCL: the loader, and a driver.
    [[ $libraries == *libOpenCL.so.1* ]] || missing+=(ocl-icd-libopencl1)
    compgen -G "/etc/OpenCL/vendors/*.icd" >/dev/null || missing+=(pocl-opencl-icd)
    # Looks at what Vulkan is given.
    command -v spirv-val >/dev/null || missing+=(spirv-tools)
fi
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
