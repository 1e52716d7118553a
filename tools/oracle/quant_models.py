"""Writes the digests of the quantized tensors of GGUF files, decoded by gguf-py, for rustorch-quant's test on them.

    python tools/oracle/quant_models.py ../shared/data/models > crates/rustorch-quant/tests/fixtures/models.txt

Needs `pip install gguf numpy`. A line `= FILE` starts a file; each other line is a tensor: the offset of its data in the
file, its type, its number of values, and the digest of `quant_decode.py` of its values.
"""

import sys
from pathlib import Path

import gguf
from gguf.quants import dequantize

from quant_decode import bits, digest

for path in sorted(Path(sys.argv[1]).glob("*.gguf")):
    lines = []
    for tensor in gguf.GGUFReader(path).tensors:
        name = tensor.tensor_type.name
        if name not in ("F32", "F16", "BF16"):
            values = dequantize(tensor.data, tensor.tensor_type)
            lines.append(f"{tensor.data_offset} {name} {values.size} {digest(bits(values)):016x}")
    if lines:
        print("=", path.name)
        print("\n".join(lines))
