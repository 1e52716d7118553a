#!/usr/bin/env python3
"""Write scikit-learn's 1,797 handwritten digits of 8×8 pixels, from 0 to 16, as a .npz file: `images` [1797, 8, 8] and `labels` [1797], of u8.

    pip install scikit-learn && python tools/data/digits.py crates/rustorch/examples/data/digits.npz

They are a part of UCI's "Optical Recognition of Handwritten Digits" (Alpaydin, Kaynak, 1998; CC BY 4.0).
"""

import sys

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
np.savez_compressed(sys.argv[1], images=digits.images.astype(np.uint8), labels=digits.target.astype(np.uint8))
