"""The cases of torch_methods.py."""

from . import arrangement, contractions, elements

MODULES = {"contractions": contractions.SECTIONS, "arrangement": arrangement.SECTIONS, "elements": elements.SECTIONS}
