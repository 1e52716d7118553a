"""Dot products of every block type by ggml's CPU backend, for crates/rustorch-cpu/tests/fixtures/dots.bin.

    python tools/oracle/matmul_ggml.py DIRECTORY_OF_LIBGGML OUT

The directory holds libggml-base.so and libggml-cpu.so, built from llama.cpp (llama-cpp-python carries them, too).

Little-endian: u32 values per row, u32 rows of activations; the activations (f32). Then for each type: u32 ggml id, u32 rows of the weight,
the blocks, and the dot product of each row of activations with each row of the weight (f32).
"""

import ctypes
import struct
import sys
from pathlib import Path

import gguf
import numpy as np

K, M, N = 512, 2, 2
TYPES = """Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ2_S IQ4_XS IQ1_M
TQ1_0 TQ2_0 MXFP4 NVFP4 Q1_0 Q2_0 F16 BF16""".split()
IDS = {"NVFP4": 40, "Q1_0": 41, "Q2_0": 42, "F16": 1, "BF16": 30}


class Traits(ctypes.Structure):
    _fields_ = [
        ("from_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
        ("vec_dot", ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
                                     ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)),
        ("vec_dot_type", ctypes.c_int),
        ("nrows", ctypes.c_int64),
    ]


def load(directory):
    base = ctypes.CDLL(str(directory / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
    cpu = ctypes.CDLL(str(directory / "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL)
    cpu.ggml_cpu_init()
    cpu.ggml_get_type_traits_cpu.restype = ctypes.POINTER(Traits)
    base.ggml_row_size.restype = ctypes.c_size_t
    base.ggml_row_size.argtypes = [ctypes.c_int, ctypes.c_int64]

    class Base(ctypes.Structure):
        """The first fields of ggml_type_traits."""

        _fields_ = [
            ("type_name", ctypes.c_char_p),
            ("blck_size", ctypes.c_int64),
            ("blck_size_interleave", ctypes.c_int64),
            ("type_size", ctypes.c_size_t),
            ("is_quantized", ctypes.c_bool),
            ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)),
        ]

    base.ggml_get_type_traits.restype = ctypes.POINTER(Base)
    return base, cpu


def blocks(base, rng, ggml_id, rows):
    """Random bytes that decode to numbers of moderate size."""
    traits = base.ggml_get_type_traits(ggml_id).contents
    out = b""
    values = (ctypes.c_float * traits.blck_size)()
    while len(out) < rows * base.ggml_row_size(ggml_id, K):
        block = rng.bytes(traits.type_size)
        traits.to_float(block, values, traits.blck_size)
        decoded = np.array(values[:])
        if np.isfinite(decoded).all() and 1e-3 < abs(decoded).max() < 1e2:
            out += block
    return out


def main():
    base, cpu = load(Path(sys.argv[1]))
    rng = np.random.default_rng(20)
    x = (rng.standard_normal((M, K)) * np.where(np.arange(K) % 37 == 5, 8, 1)).astype(np.float32)
    with open(sys.argv[2], "wb") as out:
        out.write(struct.pack("<II", K, M) + x.tobytes())
        for name in TYPES:
            ggml_id = IDS.get(name) or gguf.GGMLQuantizationType[name].value
            traits = cpu.ggml_get_type_traits_cpu(ggml_id).contents
            companion = cpu.ggml_get_type_traits_cpu(traits.vec_dot_type).contents
            w = blocks(base, rng, ggml_id, N)
            row = base.ggml_row_size(ggml_id, K)
            dots = []
            for i in range(M):
                q = ctypes.create_string_buffer(base.ggml_row_size(traits.vec_dot_type, K))
                companion.from_float(x[i].ctypes.data, ctypes.addressof(q), K)
                for j in range(N):
                    s = ctypes.c_float()
                    weight = ctypes.create_string_buffer(w[row * j : row * (j + 1)])
                    traits.vec_dot(K, ctypes.addressof(s), 0, ctypes.addressof(weight), 0, ctypes.addressof(q), 0, 1)
                    dots.append(s.value)
            out.write(struct.pack("<II", ggml_id, N) + w + np.array(dots, np.float32).tobytes())


main()
