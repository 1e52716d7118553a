"""The cases of torch_methods.py."""

from . import arrangement, contractions, elements, statistics

MODULES = {
    "contractions": contractions.SECTIONS,
    "arrangement": arrangement.SECTIONS,
    "elements": elements.SECTIONS,
    "statistics": statistics.SECTIONS,
}
