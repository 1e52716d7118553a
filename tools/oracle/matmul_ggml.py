"""Products with weights of every block type by ggml's CPU backend, for crates/rustorch-cpu/tests/fixtures/dots.bin.

    python tools/oracle/matmul_ggml.py DIRECTORY_OF_LIBGGML OUT [VALUES_PER_ROW]

The directory holds libggml-base.so and libggml-cpu.so, built from llama.cpp (llama-cpp-python carries them, too).

Little-endian: u32 values per row, u32 rows of activations; the activations (f32). Then for each type: u32 ggml id, u32 rows of the weight,
the blocks, and the products (f32, a row for each row of activations) twice: of each row of activations alone, and of all of them in one
operation. The operation is ggml_mul_mat with the weight in the buffer where llama.cpp puts it: types that ggml multiplies with blocks
of eight rows interleaved go to the one that interleaves them.
"""

import ctypes
import struct
import sys
from pathlib import Path

import gguf
import numpy as np

K = int(sys.argv[3]) if len(sys.argv) > 3 else 1024
M = 5
TYPES = """Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ2_S IQ4_XS IQ1_M
TQ1_0 TQ2_0 MXFP4 NVFP4 Q1_0 Q2_0 F16 BF16""".split()
IDS = {"NVFP4": 40, "Q1_0": 41, "Q2_0": 42, "F16": 1, "BF16": 30}
INTERLEAVED = {"Q4_0", "Q4_K", "Q2_K", "IQ4_NL", "MXFP4"}


class Params(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


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


def load(directory):
    base = ctypes.CDLL(str(directory / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
    cpu = ctypes.CDLL(str(directory / "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    cpu.interleaved = cpu["_Z35ggml_backend_cpu_repack_buffer_typev"]
    for function, result, arguments in [
        (base.ggml_row_size, size, [ctypes.c_int, ctypes.c_int64]),
        (base.ggml_get_type_traits, ctypes.POINTER(Base), [ctypes.c_int]),
        (base.ggml_init, pointer, [Params]),
        (base.ggml_free, None, [pointer]),
        (base.ggml_new_tensor_2d, pointer, [pointer, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]),
        (base.ggml_mul_mat, pointer, [pointer] * 3),
        (base.ggml_new_graph, pointer, [pointer]),
        (base.ggml_build_forward_expand, None, [pointer] * 2),
        (base.ggml_backend_alloc_ctx_tensors_from_buft, pointer, [pointer] * 2),
        (base.ggml_backend_buffer_free, None, [pointer]),
        (base.ggml_backend_tensor_set, None, [pointer, pointer, size, size]),
        (base.ggml_backend_tensor_get, None, [pointer, pointer, size, size]),
        (base.ggml_backend_graph_compute, ctypes.c_int, [pointer] * 2),
        (base.ggml_backend_cpu_buffer_type, pointer, []),
        (cpu.ggml_backend_cpu_init, pointer, []),
        (cpu.ggml_backend_cpu_set_n_threads, None, [pointer, ctypes.c_int]),
        (cpu.interleaved, pointer, []),
    ]:
        function.restype, function.argtypes = result, arguments
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


def product(base, cpu, backend, ggml_id, interleaved, w, rows, x):
    def context(buffer_type, fill):
        ctx = base.ggml_init(Params(1 << 20, None, True))
        made = fill(ctx)
        return ctx, base.ggml_backend_alloc_ctx_tensors_from_buft(ctx, buffer_type), made

    cpu_type = base.ggml_backend_cpu_buffer_type()
    weights = context(cpu.interleaved() if interleaved else cpu_type, lambda c: base.ggml_new_tensor_2d(c, ggml_id, K, rows))

    def operation(ctx):
        a = base.ggml_new_tensor_2d(ctx, 0, K, len(x))
        y = base.ggml_mul_mat(ctx, weights[2], a)
        graph = base.ggml_new_graph(ctx)
        base.ggml_build_forward_expand(graph, y)
        return a, y, graph

    rest = context(cpu_type, operation)
    a, y, graph = rest[2]
    base.ggml_backend_tensor_set(weights[2], w, 0, len(w))
    base.ggml_backend_tensor_set(a, x.ctypes.data, 0, x.nbytes)
    assert base.ggml_backend_graph_compute(backend, graph) == 0
    out = np.empty((len(x), rows), np.float32)
    base.ggml_backend_tensor_get(y, out.ctypes.data, 0, out.nbytes)
    for ctx, buffer, _ in weights, rest:
        base.ggml_backend_buffer_free(buffer)
        base.ggml_free(ctx)
    return out


def main():
    base, cpu = load(Path(sys.argv[1]))
    backend = cpu.ggml_backend_cpu_init()
    cpu.ggml_backend_cpu_set_n_threads(backend, 1)
    rng = np.random.default_rng(20)
    x = (rng.standard_normal((M, K)) * np.where(np.arange(K) % 37 == 5, 8, 1)).astype(np.float32)
    with open(sys.argv[2], "wb") as out:
        out.write(struct.pack("<II", K, M) + x.tobytes())
        for name in TYPES:
            ggml_id = IDS.get(name) or gguf.GGMLQuantizationType[name].value
            rows = 8 if name in INTERLEAVED else 2
            w = blocks(base, rng, ggml_id, rows)
            dots = lambda x: product(base, cpu, backend, ggml_id, name in INTERLEAVED, w, rows, x)
            alone = np.concatenate([dots(x[i : i + 1]) for i in range(M)])
            out.write(struct.pack("<II", ggml_id, rows) + w + alone.tobytes() + dots(x).tobytes())
            print(f"{name:8} {'the same' if (alone == dots(x)).all() else 'differs'} among other rows")


main()
