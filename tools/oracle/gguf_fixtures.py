#!/usr/bin/env python3
"""Writes the GGUF files that gguf-py makes for the tests of rustorch-formats.

    pip install gguf==0.19.0
    gguf_fixtures.py crates/rustorch-formats/tests/data

- gguf_py.gguf: a metadata entry of every type, alone and in an array, and tensors of several dtypes and ranks, aligned to 64.
- gguf_py_split-0000N-of-00003.gguf: five tensors in three parts.
"""
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter

directory = Path(sys.argv[1])


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


writer = GGUFWriter(directory / "gguf_py.gguf", "fixture")
writer.add_custom_alignment(64)
writer.add_uint8("scalar.u8", 255)
writer.add_int8("scalar.i8", -128)
writer.add_uint16("scalar.u16", 65535)
writer.add_int16("scalar.i16", -32768)
writer.add_uint32("scalar.u32", 2**32 - 1)
writer.add_int32("scalar.i32", -(2**31))
writer.add_uint64("scalar.u64", 2**64 - 1)
writer.add_int64("scalar.i64", -(2**63))
writer.add_float32("scalar.f32", 1e-5)
writer.add_float64("scalar.f64", 0.1)
writer.add_bool("scalar.true", True)
writer.add_bool("scalar.false", False)
writer.add_string("scalar.string", "žluťoučký kůň 🐎\n\t\"\\")
for name, kind, values in [
    ("u8", GGUFValueType.UINT8, [0, 1, 255]),
    ("i8", GGUFValueType.INT8, [-128, 127]),
    ("u16", GGUFValueType.UINT16, [0, 65535]),
    ("i16", GGUFValueType.INT16, [-32768, 32767]),
    ("u32", GGUFValueType.UINT32, [0, 2**32 - 1]),
    ("i32", GGUFValueType.INT32, [-(2**31), 2**31 - 1]),
    ("u64", GGUFValueType.UINT64, [0, 2**64 - 1]),
    ("i64", GGUFValueType.INT64, [-(2**63), 2**63 - 1]),
    ("f32", GGUFValueType.FLOAT32, [1.5, -0.0, float("inf")]),
    ("f64", GGUFValueType.FLOAT64, [0.1, 1e300]),
    ("bool", GGUFValueType.BOOL, [True, False, True]),
    ("string", GGUFValueType.STRING, ["", "a", "é", b"\xff\xfe", "longer than the others"]),
    ("array", GGUFValueType.ARRAY, [[1, 2, 3], ["x", "yz"]]),
]:
    writer.add_key_value(f"array.{name}", values, GGUFValueType.ARRAY, sub_type=kind)

rng = np.random.default_rng(1)
writer.add_tensor("one.f32", np.array([1.5], np.float32))
writer.add_tensor("matrix.f32", rng.standard_normal((3, 5)).astype(np.float32))
writer.add_tensor("cube.f16", rng.standard_normal((2, 3, 4)).astype(np.float16))
writer.add_tensor("four.i32", rng.integers(-(2**31), 2**31, (2, 1, 3, 2)).astype(np.int32))
writer.add_tensor("four.f64", rng.standard_normal((1, 1, 2, 1)))
writer.add_tensor("row.i8", rng.integers(-128, 128, 7).astype(np.int8))
writer.add_tensor("blocks.q8_0", rng.integers(0, 256, (2, 3 * 34)).astype(np.uint8), raw_dtype=GGMLQuantizationType.Q8_0)
writer.add_tensor("blocks.q4_k", rng.integers(0, 256, (2, 144)).astype(np.uint8), raw_dtype=GGMLQuantizationType.Q4_K)
writer.add_tensor("half.bf16", rng.integers(0, 256, (3, 4)).astype(np.uint8), raw_dtype=GGMLQuantizationType.BF16)
finish(writer)

writer = GGUFWriter(directory / "gguf_py_split.gguf", "fixture", split_max_tensors=2)
writer.add_string("general.name", "split fixture")
for i in range(5):
    writer.add_tensor(f"t.{i}", np.full((i + 1, 2), i, np.float32))
finish(writer)
