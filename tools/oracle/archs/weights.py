"""Weights that Python and Rust make alike, to the bit: `crates/rustorch-llm/tests/it/architectures/weights.rs` is this file's twin.

Of each value 24 bits of SplitMix64, seeded with FNV-1a of the tensor's name, make a uniform f32 in [-1, 1), which a rule scales by a power of two. Nothing
rounds but one addition, and no function of a mathematical library is called.
"""

import numpy as np


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text if isinstance(text, bytes) else text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def splitmix64(seed, count):
    z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def affine(name, shape, embedding):
    """The middle of a tensor's values, and how far they reach to both sides."""
    parts = name.split(".")
    if parts[-1] == "bias":
        return 0, 2**-3
    if any("norm" in part or "scale" in part or part in ("ssm_d", "time_mix_ln") for part in parts):
        return 1, 2**-2
    if "ssm_a" in parts:
        return -1, 2**-1
    if parts[0].startswith("rope_f"):
        return 1.5, 2**-1
    if parts[0] == "token_embd":
        return 0, embedding
    if len(shape) == 1:
        return 0, 2**-2
    # About as large a result as input: the deviation is 1 / sqrt(columns), but for what powers of two round away.
    return 0, 2.0 ** (1 - ((shape[-1] - 1).bit_length() + 1) // 2)


def tensor(name, shape, embedding):
    """The values of a tensor; `shape` is outermost first, and `embedding` how far the values of the embedding table reach."""
    bits = splitmix64(fnv1a(name), int(np.prod(shape))) >> np.uint64(40)
    uniform = (bits.astype(np.int64) - 2**23).astype(np.float32) * np.float32(2**-23)
    middle, reach = affine(name, shape, embedding)
    return (np.float32(middle) + np.float32(reach) * uniform).reshape(shape)
