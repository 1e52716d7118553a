"""Writes the fixtures of rustorch-quant's encoders: what gguf-py and ggml make of the same numbers.

    python tools/oracle/quant_encode.py crates/rustorch-quant/tests/fixtures/encode libggml-base.so libggml-cpu.so

Needs `pip install gguf numpy` and ggml's libraries, for example those of `pip install llama-cpp-python==0.3.36` (made
with gguf 0.19.0, numpy 2.4.6, and ggml of llama-cpp-python 0.3.36 on x86-64, the CPU library compiled for AVX2).

source.bin: f32. NAME.bin: the bytes of the source as blocks of type NAME, by gguf-py where it has an encoder, else by
ggml. activation.NAME.bin: the same by ggml's CPU library, as it does for activations. errors.txt: for the types that are searched for, a line `NAME plain weighted`: the mean square error of ggml's
blocks of `samples(16384)`, without and with `importances(1024)`, the second weighted by these.
"""

import ctypes
import sys
from pathlib import Path

import numpy as np
import gguf
from gguf.quants import dequantize, quantize

T = gguf.GGMLQuantizationType
BY_GGUF = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4"]
BY_GGML = {"Q8_1": (32, 36), "Q8_K": (256, 292), "NVFP4": (64, 36), "Q1_0": (128, 18), "Q2_0": (64, 18)}
SEARCHED = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "IQ3_XXS", "IQ3_S", "IQ2_S"]
# With importances, these are searched for, too.
NEEDS_WEIGHTS = ["IQ2_XXS", "IQ2_XS"]
WEIGHTED_ONLY = ["Q4_0", "Q4_1", "Q5_0", "Q5_1"]


def uniform(n, stream):
    """n numbers of 64 bits: splitmix64 at the counters stream * 2^32 + 1, ..."""
    with np.errstate(over="ignore"):
        z = (np.arange(1, n + 1, dtype=np.uint64) + (np.uint64(stream) << np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def samples(n):
    """Bell-shaped with heavy tails, about 0.02 wide, exact in f32: sums of four 16-bit numbers, every 16th eightfold."""
    z = uniform(n, 1)
    total = sum(((z >> np.uint64(16 * k)) & np.uint64(0xFFFF)).astype(np.int64) for k in range(4)) - 2 * 65535
    outlier = np.where(uniform(n, 2) % np.uint64(16) == 0, 4, 1)
    return (total * outlier).astype(np.float32) * np.float32(2.0**-21)


def importances(n):
    """Between 2^-6 and 16, most of them small."""
    z = uniform(n, 3)
    return ((z & np.uint64(1023)).astype(np.float32) + 1) * np.exp2(-((z >> np.uint64(10)) % np.uint64(7)).astype(np.float32)) / np.float32(64)


def source():
    rng = np.random.default_rng(20)
    x = rng.standard_normal((24, 256)).astype(np.float32)
    x *= np.float32(2.0) ** rng.integers(-6, 3, (24, 8)).repeat(32, axis=1).astype(np.float32)
    x[1] = 0
    x[2] = np.abs(x[2])
    x[3] = -np.abs(x[3])
    x[4, ::3] = 0
    x[5] = np.round(x[5] * 2) / 2  # ties
    x[6] = np.sign(x[6]) * np.float32(0.25)  # equal magnitudes
    x[7] = np.float32(0.7)  # constant
    x[8] *= np.float32(1e-6)
    x[9] *= np.float32(1e3)
    x[10] = np.linspace(-1, 1, 256, dtype=np.float32)
    x[11] = np.arange(256, dtype=np.float32) - 128
    x[12] = np.where(x[12] > 0, 1, -1) * np.exp2(rng.integers(-8, 8, 256)).astype(np.float32)  # powers of two
    x[13, 0::32] = 100  # one outlier a block
    x[14] = (np.arange(256) % 32 + 0.5) * np.where(np.arange(256) % 3 == 0, -1, 1)
    x[14, 0::32] = 127  # halves between levels of 8 bits
    # No negative zeros: numpy does not define which of two zeros is the smaller.
    return np.ascontiguousarray((x + np.float32(0)).reshape(-1))


def by_ggml(lib, name, x, weights=None, columns=None):
    # gguf-py's own size of Q8_1 is that of an older layout.
    size = BY_GGML.get(name) or gguf.GGML_QUANT_SIZES[T[name]]
    out = np.zeros(len(x) // size[0] * size[1], dtype=np.uint8)
    p = lambda a: a.ctypes.data_as(ctypes.c_void_p) if a is not None else None
    if weights is None and name in ("Q8_1", "Q8_K", "NVFP4", "Q1_0", "Q2_0"):
        spelled = name if name.endswith("_K") else name.lower()
        getattr(lib, f"quantize_row_{spelled.replace('Q', 'q')}_ref")(p(x), p(out), ctypes.c_int64(len(x)))
        return out
    columns = columns or len(x)
    spelled = name.lower().replace("_k", "_K")
    f = getattr(lib, f"quantize_{spelled}")
    f.restype = ctypes.c_size_t
    written = f(p(x), p(out), ctypes.c_int64(len(x) // columns), ctypes.c_int64(columns), p(weights))
    assert written == len(out), (name, written)
    return out


def main(folder, library, cpu_library):
    folder = Path(folder)
    lib = ctypes.CDLL(library, mode=1)
    x = source()
    (folder / "source.bin").write_bytes(x.tobytes())
    for name in BY_GGUF:
        blocks = quantize(x, T[name])
        (folder / f"{name}.bin").write_bytes(blocks.tobytes())
        print(f"{name:8} bytes that ggml writes otherwise: {(by_ggml(lib, name, x) != blocks.reshape(-1)).sum()}")
    for name in BY_GGML:
        (folder / f"{name}.bin").write_bytes(by_ggml(lib, name, x).tobytes())
    cpu = ctypes.CDLL(cpu_library, mode=1)
    for name, (values, size) in {"Q8_0": (32, 34), "Q8_1": (32, 36), "Q8_K": (256, 292)}.items():
        out = np.zeros(len(x) // values * size, dtype=np.uint8)
        f = getattr(cpu, f"quantize_row_q{name[1:]}")
        f(x.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(x)))
        (folder / f"activation.{name}.bin").write_bytes(out.tobytes())
        reference = (folder / f"{name}.bin").read_bytes()
        print(f"{name:8} bytes that the CPU library writes otherwise: {(out != np.frombuffer(reference, np.uint8)).sum()}")
    x = samples(16384)
    w = importances(1024)
    all_w = np.tile(w, len(x) // len(w)).astype(np.float64)
    lines = []
    for t in (T.IQ2_XXS, T.IQ2_XS, T.IQ2_S):
        lib.iq2xs_init_impl(ctypes.c_int(t))
    for entries in (256, 512):
        lib.iq3xs_init_impl(ctypes.c_int(entries))
    for name in SEARCHED + NEEDS_WEIGHTS + WEIGHTED_ONLY:
        error = lambda b: (dequantize(b, T[name]).astype(np.float64) - x) ** 2
        # Without importances ggml refuses the two smallest types; equal ones are the same.
        ones = np.ones(1024, np.float32) if name in NEEDS_WEIGHTS else None
        plain = error(by_ggml(lib, name, x, ones, 1024)).mean()
        weighted = (error(by_ggml(lib, name, x, w, 1024)) * all_w).sum() / all_w.sum()
        lines.append(f"{name} {plain:.9e} {weighted:.9e}")
    (folder / "errors.txt").write_text("\n".join(lines) + "\n")
    print(f"samples: mean square {np.mean(x.astype(np.float64) ** 2):.9e}, sum {x.astype(np.float64).sum():.9e}")
    print("\n".join(lines))


main(*sys.argv[1:])
