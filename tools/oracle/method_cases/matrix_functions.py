"""Functions of matrices."""

import torch
from torch_methods import TURNED, case, integers, normal, refused, tensor

NAN, INF = float("nan"), float("inf")


def matrix_exp():
    def run(inputs, grad=True, **more):
        case("linalg.matrix_exp", torch.linalg.matrix_exp, inputs, {"values": inputs[0].numel() != 0}, grad=grad, **more)

    for d in ("f32", "f64", "c64", "c128"):
        wide = d in ("f64", "c128")
        run([normal((3, 3), d, 0.2)])
        run([normal((2, 2, 4, 4), d, 0.3)])
        run([normal((1, 1), d)])
        run([normal((3, 3), d, 0.4)], views=[TURNED])
        # Norms that take several squarings, and different numbers of them in one batch; those of narrow dtypes lose digits.
        scales = torch.tensor([0.01, 1.0, 4.0] if wide else [0.01, 0.3, 1.2], dtype=torch.float64).reshape(3, 1, 1)
        run([(normal((3, 4, 4), "c128" if d[0] == "c" else "f64") * scales / 4).to(normal((1,), d).dtype)], grad=wide)
        # Nilpotent, and not diagonalizable.
        run([tensor([[0.0, 1.0, 2.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]).to(normal((1,), d).dtype)])
        run([torch.zeros(2, 3, 3, dtype=normal((1,), d).dtype)])
        for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
            run([torch.zeros(shape, dtype=normal((1,), d).dtype)], grad=False)
    run([tensor([[[1.0, NAN], [0.0, 1.0]], [[0.5, 0.0], [0.0, 0.25]]])], grad=False)
    run([tensor([[1.0, INF], [0.0, 1.0]])], grad=False)
    for bad in (normal((2, 3)), normal((3,)), integers((2, 2))):
        refused("linalg.matrix_exp", torch.linalg.matrix_exp, [bad])


SECTIONS = (matrix_exp,)
