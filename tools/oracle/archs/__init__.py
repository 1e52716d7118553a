"""Small models, one or more of each architecture: metadata as the converters of llama.cpp 0.3.36's source distribution (`conversion/*.py`) write it.

A table's `metadata` lacks the architecture's prefix. `drop` are patterns of tensors that llama.cpp accepts but the converter does not write, but for those
of `keep`; `fuse` and `split` say which matrices the converter writes in one or in parts where llama.cpp would take both, and `dense` which blocks of a mixture have no experts.

Sizes are such that a wrong decoder is found: 4 heads over 2 kv heads, 2 of 8 experts, a window of 8 under a prompt of 24, scales that are not 1,
soft-caps among the values that they cap, a period of layers and one more, rows of whole blocks of 32.
"""

from . import classic, dense, experts, gemma, hybrids, qwen
from .encoders import ENCODERS

TABLES = dense.TABLES | gemma.TABLES | qwen.TABLES | experts.TABLES | hybrids.TABLES | classic.TABLES
__all__ = ["ENCODERS", "TABLES"]
