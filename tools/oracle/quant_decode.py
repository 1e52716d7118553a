"""Writes the fixtures of rustorch-quant's decoders: what gguf-py makes of blocks of every type.

    python tools/oracle/quant_decode.py crates/rustorch-quant/tests/fixtures/decode

Needs `pip install gguf numpy` (made with gguf 0.19.0, numpy 2.4.6). gguf-py decodes all types but Q8_1, Q8_K, Q1_0 and
Q2_0, whose definitions (ggml-quants.c) are single multiplications and stand below.

A file NAME.bin is, in little-endian order: u32 number of blocks; the blocks; their values as f32; then the digest, u64,
of the values of DIGESTED further blocks whose bytes come from splitmix64. All NaNs are written as 0x7fc00000.
"""

import sys
from pathlib import Path

import numpy as np
import gguf
from gguf.quants import dequantize

DIGESTED = 4096
T = gguf.GGMLQuantizationType

# (values, bytes) in a block, and where the f16 (or f32) scales lie.
TYPES = {
    "Q4_0": (32, 18, [0]),
    "Q4_1": (32, 20, [0, 2]),
    "Q5_0": (32, 22, [0]),
    "Q5_1": (32, 24, [0, 2]),
    "Q8_0": (32, 34, [0]),
    "Q8_1": (32, 36, [0]),
    "Q2_K": (256, 84, [80, 82]),
    "Q3_K": (256, 110, [108]),
    "Q4_K": (256, 144, [0, 2]),
    "Q5_K": (256, 176, [0, 2]),
    "Q6_K": (256, 210, [208]),
    "Q8_K": (256, 292, []),
    "IQ2_XXS": (256, 66, [0]),
    "IQ2_XS": (256, 74, [0]),
    "IQ3_XXS": (256, 98, [0]),
    "IQ1_S": (256, 50, [0]),
    "IQ4_NL": (32, 18, [0]),
    "IQ3_S": (256, 110, [0]),
    "IQ2_S": (256, 82, [0]),
    "IQ4_XS": (256, 136, [0]),
    "IQ1_M": (256, 56, []),
    "TQ1_0": (256, 54, [52]),
    "TQ2_0": (256, 66, [64]),
    "MXFP4": (32, 17, []),
    "NVFP4": (64, 36, []),
    "Q1_0": (128, 18, [0]),
    "Q2_0": (64, 18, [0]),
}

# One, the largest, the smallest normal, the largest and smallest subnormals, zeros of both signs, negatives.
SCALES = [0x3C00, 0x7BFF, 0x0400, 0x03FF, 0x0001, 0x0000, 0x8000, 0x8001, 0xFBFF, 0x2E66, 0xA8F5, 0x1234]


def splitmix64(n):
    """n bytes, a multiple of eight: the outputs for the counters 1, 2, 3, ..."""
    with np.errstate(over="ignore"):
        z = (np.arange(1, n // 8 + 1, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return z.astype("<u8").view(np.uint8)


def bits(values):
    out = values.astype("<f4").view("<u4").copy()
    out[np.isnan(values)] = 0x7FC00000
    return out.reshape(-1)


def digest(words):
    """The sum over i of mix(word[i] + i * golden), modulo 2^64."""
    with np.errstate(over="ignore"):
        z = words.astype(np.uint64) + np.arange(len(words), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        z = z ^ (z >> np.uint64(32))
        return int(z.sum(dtype=np.uint64))


def decode(name, blocks):
    if name == "Q8_1":
        return blocks[:, :2].copy().view("<f2").astype(np.float32) * blocks[:, 4:].view(np.int8).astype(np.float32)
    if name == "Q8_K":
        return blocks[:, :4].copy().view("<f4") * blocks[:, 4:260].view(np.int8).astype(np.float32)
    if name == "Q1_0":
        d = blocks[:, :2].copy().view("<f2").astype(np.float32)
        return np.where(np.unpackbits(blocks[:, 2:], axis=1, bitorder="little") == 1, d, -d)
    if name == "Q2_0":
        d = blocks[:, :2].copy().view("<f2").astype(np.float32)
        q = blocks[:, 2:].reshape(len(blocks), 16, 1) >> np.array([0, 2, 4, 6], dtype=np.uint8)
        return d * ((q & 3).reshape(len(blocks), 64).astype(np.float32) - np.float32(1))
    return dequantize(blocks, T[name])


def main(folder):
    for name, (values, size, scales) in TYPES.items():
        rng = np.random.default_rng(list(name.encode()))
        n = max(8, 2048 // values)
        blocks = rng.integers(0, 256, (n, size), dtype=np.uint8)
        for block in range(n):
            for j, at in enumerate(scales):
                pick = SCALES[(block // len(SCALES) * j + block + 5 * j) % len(SCALES)]
                blocks[block, at : at + 2] = np.array([pick], "<u2").view(np.uint8)
        with np.errstate(all="ignore"):
            expected = bits(decode(name, blocks))
            assert len(expected) == n * values
            further = splitmix64(DIGESTED * size).reshape(DIGESTED, size)
            sum_ = digest(bits(decode(name, further)))
        with open(Path(folder) / f"{name}.bin", "wb") as f:
            f.write(np.array([n], "<u4").tobytes() + blocks.tobytes() + expected.astype("<u4").tobytes())
            f.write(np.array([sum_], "<u8").tobytes())
        print(f"{name:8} {n:3} blocks, {len(np.unique(expected)):5} distinct values, digest {sum_:016x}")


if __name__ == "__main__":
    main(*sys.argv[1:])
