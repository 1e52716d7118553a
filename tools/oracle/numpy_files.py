#!/usr/bin/env python3
"""Writes the .npy and .npz files that NumPy makes for the tests of rustorch-formats, and reads ours.

    pip install numpy
    numpy_files.py crates/rustorch-formats/tests/data/numpy
    cargo test -p rustorch-formats --test it numpy && \\
        numpy_files.py --check target/tmp/numpy crates/rustorch-formats/tests/data/numpy

- dtypes.npz, dtypes_compressed.npz: an array of every dtype that both know, 0-d, empty and column-major ones.
- big_endian.npz: the same dtypes in the other byte order, which we read and do not write.
- one.npy, fortran.npy, scalar.npy, version2.npy.

arrays.tsv is what NumPy reads in dtypes.npz: name, dtype, shape, bytes row by row. `--check` reads what our tests wrote of the
same arrays and compares.
"""
import sys
from pathlib import Path

import numpy as np

DTYPES = {
    "bool": "?", "u8": "u1", "i8": "i1", "i16": "<i2", "i32": "<i4", "u32": "<u4", "i64": "<i8", "f16": "<f2", "f32": "<f4",
    "f64": "<f8", "c64": "<c8", "c128": "<c16",
}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


def values(dtype, shape, seed):
    x = np.random.default_rng(seed).integers(0, 100, shape)
    kind = np.dtype(dtype).kind
    return np.asarray(x % 2 if kind == "b" else x - 50 if kind == "i" else x / 8 if kind == "f" else x - x / 4 * 1j if kind == "c"
                      else x).astype(dtype)


def arrays():
    for i, (name, dtype) in enumerate(DTYPES.items()):
        yield name, values(dtype, (2, 3), i)
        yield f"scalar.{name}", values(dtype, (), 20 + i)
        yield f"empty.{name}", values(dtype, (2, 0, 3), 0)
        yield f"fortran.{name}", np.asfortranarray(values(dtype, (2, 3, 2), 40 + i))
    yield "vektor ž", values("<f4", (5,), 60)


def describe(named):
    lines = []
    for name, array in sorted(named.items()):
        little = array.astype(array.dtype.newbyteorder("<"))
        shape = "x".join(map(str, array.shape))
        lines.append("\t".join([name, NAMES[little.dtype], shape, little.tobytes("C").hex()]) + "\n")
    return "".join(lines)


def load(path):
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def write(directory):
    directory.mkdir(parents=True, exist_ok=True)
    named = dict(arrays())
    np.savez(directory / "dtypes.npz", **named)
    np.savez_compressed(directory / "dtypes_compressed.npz", **named)
    np.savez(directory / "big_endian.npz", **{name: x.astype(x.dtype.newbyteorder(">")) for name, x in named.items()})
    (directory / "arrays.tsv").write_text(describe(load(directory / "dtypes.npz")))
    assert describe(load(directory / "big_endian.npz")) == (directory / "arrays.tsv").read_text()
    np.save(directory / "one.npy", values("<f4", (4, 2), 1))
    np.save(directory / "fortran.npy", np.asfortranarray(values("<i4", (3, 2), 2)))
    np.save(directory / "scalar.npy", values("<f8", (), 3))
    with open(directory / "version2.npy", "wb") as file:
        np.lib.format.write_array(file, values("<i8", (3,), 4), version=(2, 0))


def check(ours, fixtures):
    expected = (fixtures / "arrays.tsv").read_text()
    for name in ["dtypes.npz", "dtypes_compressed.npz"]:
        assert describe(load(ours / name)) == expected, name
    for name in ["one.npy", "fortran.npy", "scalar.npy"]:
        a, b = np.load(ours / name, allow_pickle=False), np.load(fixtures / name, allow_pickle=False)
        assert (a.dtype, a.shape, a.flags.f_contiguous, a.tobytes()) == (b.dtype, b.shape, b.flags.f_contiguous, b.tobytes())
    with np.load(ours / "many.npz") as many:
        assert len(many.files) == 66000 and many["65999"] == 7
    print("NumPy reads the same in", *sorted(path.name for path in ours.iterdir()))


if sys.argv[1] == "--check":
    check(Path(sys.argv[2]), Path(sys.argv[3]))
else:
    write(Path(sys.argv[1]))
