"""torch.fft; short-time transforms."""

import torch
from torch_methods import TURNED, case, integers, normal, refused, tensor

NAN = float("nan")
NORMS = ("backward", "ortho", "forward")


def along_one():
    def run(op, inputs, n=None, dim=-1, norm="backward", **more):
        f = getattr(torch.fft, op)
        case(f"fft.{op}", lambda x: f(x, n=n, dim=dim, norm=norm), inputs, {"n": n, "dim": dim, "norm": norm}, **more)

    for op in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        wants = {"rfft": ("f32", "f64"), "ihfft": ("f32", "f64")}.get(op, ("f32", "f64", "c64", "c128"))
        for d in wants:
            for norm in NORMS:
                run(op, [normal((2, 6), d)], norm=norm, grad=norm == "ortho" or d == wants[-1])
        d = wants[-1]
        for n in (1, 2, 3, 4, 5, 7, 8, 12):
            run(op, [normal((5,), d)], n)
        # Primes and what has large ones, for which there are other algorithms.
        for n in (37, 64, 97, 101, 2 * 53, 120):
            run(op, [normal((n,), d)], n, grad=n == 37)
        for n in (101, 128, 150):
            run(op, [normal((n,), {"f64": "f32", "c128": "c64"}[d])], n, grad=False)
        for dim in (0, 1, -3):
            run(op, [normal((3, 4, 5), d)], dim=dim, norm="ortho", grad=dim == 1)
        run(op, [normal((20, 7), d)], 9, 0, "forward")
        # Lines across memory, several of them together.
        run(op, [normal((6, 40), {"f64": "f32", "c128": "c64"}[d])], dim=0, grad=False)
        run(op, [normal((3, 4), d)], views=[TURNED])
        run(op, [normal((3, 9), d)], views=[[["slice", 1, 1, 9, 2]]])
        run(op, [normal((1, 4), d)], views=[[["expand", [3, 4]]]])
        run(op, [normal((3, 1), d)], 2, views=[[["expand", [3, 4]]]])
        run(op, [torch.zeros(0, 4).to(normal((1,), d).dtype)], grad=False)
        run(op, [torch.zeros(4, 0).to(normal((1,), d).dtype)], 3, grad=False)
        run(op, [integers((2, 4), "i32")], grad=False)
        run(op, [tensor([True, False, True], "bool")], grad=False)
        run(op, [torch.full((2, 3), NAN, dtype=normal((1,), d).dtype)], 4, grad=False)
        run(op, [torch.full((2, 11), NAN, dtype=normal((1,), d).dtype)], 11, grad=False)

        def bad(x, n=None, dim=-1):
            refused(f"fft.{op}", lambda x: getattr(torch.fft, op)(x, n=n, dim=dim), [x], {"n": n, "dim": dim, "norm": "backward"})

        bad(normal((4,)), 0)
        bad(normal((4, 0)))
        bad(normal(()))
        bad(normal((4,)), None, 1)
        bad(normal((4,), "f16"))
        bad(normal((4,), "bf16"))
        if op in ("rfft", "ihfft"):
            bad(normal((4,), "c64"))
        if op in ("irfft", "hfft"):
            bad(normal((1,), "c64"))


def along_several():
    def run(op, inputs, s=None, dim=None, norm="backward", **more):
        f = getattr(torch.fft, op)
        dim = (-2, -1) if op.endswith("2") and dim is None else dim
        case(f"fft.{op}", lambda x: f(x, s=s, dim=dim, norm=norm), inputs, {"s": s, "dim": dim, "norm": norm}, **more)

    def bad(op, x, s=None, dim=None):
        dim = (-2, -1) if op.endswith("2") and dim is None else dim
        refused(f"fft.{op}", lambda x: getattr(torch.fft, op)(x, s=s, dim=dim), [x], {"s": s, "dim": dim, "norm": "backward"})

    for base in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        wide = "f64" if base in ("rfft", "ihfft") else "c128"
        narrow = "f32" if base in ("rfft", "ihfft") else "c64"
        for op in (base + "2", base + "n"):
            for norm in NORMS:
                run(op, [normal((3, 4), wide)], norm=norm)
            run(op, [normal((2, 3, 5), narrow)], grad=False)
            run(op, [normal((2, 3, 4), wide)], (3, 5), (0, 2))
            run(op, [normal((2, 3, 4), wide)], (-1, 2), (2, 1))
            run(op, [normal((3, 4), wide)], views=[TURNED])
            run(op, [torch.zeros(0, 3, 4, dtype=normal((1,), wide).dtype)], dim=(1, 2), grad=False)
            run(op, [integers((3, 4), "i64")], grad=False)
            bad(op, normal((3, 4)), (2, 0), (0, 1))
            bad(op, normal((3, 4)), None, (0, 0))
            bad(op, normal((3, 4)), None, (0, 2))
            bad(op, normal((3, 4)), (2, -2), (0, 1))
        op = base + "n"
        run(op, [normal((2, 3, 4), wide)])
        run(op, [normal((2, 3, 4), wide)], (3,))
        run(op, [normal((4,), wide)], None, (0,))
        bad(op, normal((3, 4)), (2, 2, 2))
        bad(op, normal((3, 4)), (2,), (0, 1))
        if base in ("fft", "ifft"):
            run(op, [normal((), wide)], grad=False)
            run(op, [normal((3, 4), wide)], None, (), grad=False)
        else:
            bad(op, normal(()))
            bad(op, normal((3, 4)), None, ())
    bad("fft2", normal((3,)))


def frequencies():
    for d in ("f32", "f64", "f16"):
        for n in (0, 1, 2, 5, 8):
            for spacing in (1.0, 0.25):
                for op in ("fftfreq", "rfftfreq"):
                    if op == "rfftfreq" or n:
                        like = normal((1,), d)
                        f = getattr(torch.fft, op)
                        case(f"fft.{op}", lambda x: f(n, spacing, dtype=x.dtype), [like], {"n": n, "d": spacing}, grad=False, exact=True)
    for op in ("fftfreq", "rfftfreq"):
        refused(f"fft.{op}", lambda x: getattr(torch.fft, op)(4, dtype=x.dtype), [torch.zeros(1, dtype=torch.int64)], {"n": 4, "d": 1.0})
    for op in ("fftshift", "ifftshift"):
        f = getattr(torch.fft, op)
        for shape, dims in (((4,), None), ((5,), None), ((3, 4), None), ((3, 4), (1,)), ((3, 4), (-2,)), ((2, 3, 5), (0, 2)), ((0, 3), None), ((2, 1), None)):
            for d in ("f64", "c64", "i32"):
                x = integers(shape, d) if d == "i32" else normal(shape, d)
                case(f"fft.{op}", lambda x: f(x, dim=dims), [x], {"dim": dims})
        case(f"fft.{op}", lambda x: f(x), [normal((3, 4))], {"dim": None}, views=[TURNED])
        refused(f"fft.{op}", f, [normal(())], {"dim": None})
        refused(f"fft.{op}", lambda x: f(x, dim=(2,)), [normal((2, 2))], {"dim": (2,)})


DEFAULTS = {"hop": None, "win": None, "center": True, "pad_mode": "reflect", "normalized": False, "onesided": None}


def short_time():
    def stft(attrs, x, window=None):
        a = DEFAULTS | attrs
        return torch.stft(
            x, a["n_fft"], a["hop"], a["win"], window, a["center"], a["pad_mode"], a["normalized"], a["onesided"], return_complex=True
        )

    def istft(attrs, x, window=None):
        a = {"length": None, "return_complex": False} | DEFAULTS | attrs
        return torch.istft(x, a["n_fft"], a["hop"], a["win"], window, a["center"], a["normalized"], a["onesided"], a["length"], a["return_complex"])

    def run(op, attrs, inputs, **more):
        f = {"stft": stft, "istft": istft}[op]
        case(op, lambda *t: f(attrs, *t), inputs, attrs, **more)

    def bad(op, attrs, inputs):
        f = {"stft": stft, "istft": istft}[op]
        refused(op, lambda *t: f(attrs, *t), inputs, attrs)

    window = lambda n, d="f64": (normal((n,), d).abs() + 0.5).to(normal((1,), d).dtype)
    for d in ("f64", "f32", "c128", "c64"):
        run("stft", {"n_fft": 8}, [normal((20,), d)])
        run("stft", {"n_fft": 8, "hop": 3, "normalized": True}, [normal((2, 20), d), window(8, "f32")])
    for mode in ("reflect", "constant", "replicate", "circular"):
        for n in (6, 7):
            run("stft", {"n_fft": n, "hop": 2, "pad_mode": mode}, [normal((2, 11), "f64"), window(n)])
    run("stft", {"n_fft": 8, "center": False}, [normal((21,), "f64"), window(8)])
    run("stft", {"n_fft": 8, "win": 5, "hop": 4}, [normal((21,), "f64"), window(5)])
    run("stft", {"n_fft": 9, "win": 4, "hop": 4}, [normal((21,), "f64")])
    run("stft", {"n_fft": 8, "onesided": False}, [normal((21,), "f64"), window(8)])
    run("stft", {"n_fft": 4}, [normal((12,), "f64"), normal((4,), "c128")])
    run("stft", {"n_fft": 4}, [normal((12,), "f32"), window(4)])
    run("stft", {"n_fft": 4}, [normal((3, 12), "f64")], views=[[["slice", 1, 0, 12, 2]]])
    run("stft", {"n_fft": 4, "center": False}, [normal((0, 12))], grad=False)
    run("stft", {"n_fft": 4, "hop": 9}, [tensor([1.0, NAN, 2.0, 3.0, 4.0])], grad=False)
    x = normal((12,))
    for attrs, inputs in (
        ({"n_fft": 4, "hop": 0}, [x]), ({"n_fft": 3}, [x]), ({"n_fft": 4, "win": 5}, [x]), ({"n_fft": 4, "win": 0}, [x]), ({"n_fft": 0, "center": False}, [x]),
        ({"n_fft": 13, "center": False}, [x]), ({"n_fft": 24}, [x]), ({"n_fft": 4, "onesided": True}, [normal((12,), "c64")]), ({"n_fft": 4}, [integers((12,))]),
        ({"n_fft": 4}, [normal((2, 2, 12))]), ({"n_fft": 4, "center": False}, [normal(())]), ({"n_fft": 4}, [x, window(3, "f32")]), ({"n_fft": 26, "pad_mode": "circular"}, [x]),
    ):
        bad("stft", attrs, inputs)

    for d in ("c128", "c64"):
        run("istft", {"n_fft": 8}, [normal((5, 6), d)])
        run("istft", {"n_fft": 8, "hop": 3, "normalized": True}, [normal((2, 5, 6), d), window(8, "f64" if d == "c128" else "f32")])
    run("istft", {"n_fft": 7, "hop": 2}, [normal((4, 5), "c128"), window(7)])
    run("istft", {"n_fft": 8, "win": 5, "hop": 2}, [normal((5, 6), "c128"), window(5)])
    run("istft", {"n_fft": 8, "center": False}, [normal((5, 4), "c128"), window(8)])
    for length in (3, 10, 14, 40):
        run("istft", {"n_fft": 8, "length": length}, [normal((5, 6), "c128"), window(8)])
    run("istft", {"n_fft": 8, "onesided": False}, [normal((8, 6), "c128"), window(8)])
    run("istft", {"n_fft": 8}, [normal((8, 6), "c128"), window(8)])
    run("istft", {"n_fft": 8, "return_complex": True, "onesided": False}, [normal((8, 6), "c128"), window(8)])
    run("istft", {"n_fft": 8, "return_complex": True}, [normal((2, 8, 6), "c128"), normal((8,), "c128")])
    run("istft", {"n_fft": 4}, [normal((5, 3), "c128")], views=[TURNED])
    x = normal((3, 5), "c64")
    hole = tensor([0.0, 1.0, 1.0, 0.0])
    for attrs, inputs in (
        ({"n_fft": 6}, [x]), ({"n_fft": 4, "hop": 5}, [x]), ({"n_fft": 4}, [normal((3, 5))]), ({"n_fft": 4}, [torch.zeros(3, 0, dtype=torch.complex64)]), ({"n_fft": 4, "hop": 4}, [x, hole]),
        ({"n_fft": 4}, [x, torch.zeros(4)]), ({"n_fft": 4}, [x, normal((4,), "c64")]), ({"n_fft": 4, "return_complex": True}, [x]), ({"n_fft": 4, "onesided": False}, [x]),
        ({"n_fft": 3}, [normal((2, 5), "c64")]), ({"n_fft": 4, "length": 0}, [x]), ({"n_fft": 4}, [normal((3,), "c64")]), ({"n_fft": 4, "win": 3}, [x, hole]), ({"n_fft": 4, "hop": 0}, [x]),
    ):
        bad("istft", attrs, inputs)


SECTIONS = (along_one, along_several, frequencies, short_time)
