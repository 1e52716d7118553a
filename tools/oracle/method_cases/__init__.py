"""The cases of torch_methods.py."""

from . import contractions

MODULES = {"contractions": contractions.SECTIONS}
