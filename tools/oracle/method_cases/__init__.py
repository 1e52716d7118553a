"""The cases of torch_methods.py."""

from . import arrangement, contractions

MODULES = {"contractions": contractions.SECTIONS, "arrangement": arrangement.SECTIONS}
