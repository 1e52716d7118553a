"""The cases of torch_methods.py."""

from . import arrangement, compositions, contractions, decompositions, distributions, elements, fourier, matrix_functions, statistics

MODULES = {
    "contractions": contractions.SECTIONS,
    "arrangement": arrangement.SECTIONS,
    "elements": elements.SECTIONS,
    "statistics": statistics.SECTIONS,
    "fourier": fourier.SECTIONS,
    "matrix_functions": matrix_functions.SECTIONS,
    "decompositions": decompositions.SECTIONS,
    "distributions": distributions.SECTIONS,
    "compositions": compositions.SECTIONS,
}
