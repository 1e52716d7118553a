"""The table of f16 values that ggml's CPU takes GELU from: its FNV-1a hash, for a test of `crates/rustorch-llm/src/model/modules/activation.rs`.

Run (needs `pip install llama-cpp-python==0.3.36 numpy`):

    python tools/oracle/ggml_gelu.py

Hashed are the results for all f16 values between -10 and 10, in the order of their bits, each as its two bytes, the lower first. Beyond, ggml asks no table.
"""

import ctypes
from pathlib import Path

import llama_cpp
import numpy as np

from archs.weights import fnv1a

cpu = ctypes.CDLL(str(next(Path(llama_cpp.__file__).parent.glob("lib/libggml-cpu*.so"))))
cpu.ggml_cpu_init()
table = np.array((ctypes.c_uint16 * 2**16).in_dll(cpu, "ggml_table_gelu_f16"))
inputs = np.arange(2**16, dtype=np.uint16).view(np.float16)
results = table[np.abs(inputs) < 10]
print(f"{len(results)} results, {fnv1a(results.astype('<u2').tobytes()):016x}")
