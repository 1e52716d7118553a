#!/usr/bin/env python3
"""Write the names of PyTorch's operations, those of `op_db`, a line for each.

    python tools/oracle/torch_op_db.py xtask/src/torch_coverage/op_db.txt

The first line has the version of PyTorch. Operations of sparse and of quantized tensors are left out.
"""

import sys

import torch
from torch.testing._internal.common_methods_invocations import op_db

LEFT_OUT = ("sparse.", "to_sparse", "torch._scaled_mm")


def main():
    names = sorted({op.name for op in op_db if not op.name.startswith(LEFT_OUT)})
    with open(sys.argv[1], "w") as file:
        file.write(f"# torch {torch.__version__.split('+')[0]}\n")
        file.writelines(f"{name}\n" for name in names)


if __name__ == "__main__":
    main()
