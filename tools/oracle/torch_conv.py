#!/usr/bin/env python3
"""Write convolutions, transposed convolutions and their gradients, computed by PyTorch, as JSON lines in the form of tensor_ops.py.

    python tools/oracle/torch_conv.py crates/rustorch-tensor/tests/fixtures/conv.jsonl

Ops: conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d with inputs x, weight and, where there are three, bias; conv_input_gradient
with inputs weight and gradient and the attr "size"; conv_weight_gradient with inputs x and gradient and the attr "size". Attrs not given have PyTorch's
defaults; a "padding" of pairs is one of the two ends of each dimension (PyTorch pads first then), "same" is PyTorch's.
Lines with the op "refused" have attrs with a "call" that PyTorch refuses with these inputs, and no outputs.
"""

import sys

import torch

import tensor_ops
from tensor_ops import apply_view, case, emit, normal

F = torch.nn.functional


def sides(padding):
    return isinstance(padding, list) and isinstance(padding[0], list)


def forward(n, attrs):
    """The function and the arguments that PyTorch takes."""
    f = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[n]

    def run(x, w, b=None):
        options = dict(attrs)
        if sides(options.get("padding")):
            # PyTorch's list begins with the last dimension.
            x = F.pad(x, [end for pair in reversed(options.pop("padding")) for end in pair])
        return f(x, w, b, **options)

    return run


def transposed(n, attrs):
    f = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[n]
    return lambda x, w, b=None: f(x, w, b, **attrs)


def make(op, x, w, bias=None, dtype="f32", views=(), **attrs):
    n = int(op[-2])
    inputs = [normal(x, dtype), normal(w, dtype)] + ([normal([bias], dtype)] if bias is not None else [])
    case(op, (transposed if "transpose" in op else forward)(n, attrs), inputs, attrs, views)


def gradients(x, w, dtype="f32", views=(None, None, None), **attrs):
    """Both, by PyTorch's automatic differentiation of its convolution."""
    n = len(w) - 2
    given = [normal(x, dtype), normal(w, dtype)]
    seen = [apply_view(t, v) for t, v in zip(given, views)]
    f = forward(n, attrs)
    y = f(*[torch.empty(t.shape) for t in seen])
    grad = normal(list(y.shape), dtype)
    case("conv_input_gradient", lambda w, g: differentiate(f, [seen[0].to(w.dtype), w], g)[0], [given[1], grad],
         attrs | {"size": list(seen[0].shape)}, [views[1], None])
    case("conv_weight_gradient", lambda x, g: differentiate(f, [x, seen[1].to(x.dtype)], g)[1], [given[0], grad],
         attrs | {"size": list(seen[1].shape)}, [views[0], None])


def differentiate(f, inputs, grad):
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    return torch.autograd.grad(f(*inputs), inputs, grad)


def refused(call, *shapes, dtypes=None, **attrs):
    inputs = [torch.zeros(s, dtype=tensor_ops.DTYPES[d]) for s, d in zip(shapes, dtypes or ["f32"] * len(shapes))]
    f = (transposed if "transpose" in call else forward)(int(call[-2]), attrs)
    try:
        f(*inputs)
    except (RuntimeError, ValueError, TypeError) as error:
        print(f"{call}: {str(error).splitlines()[0]}")
        emit("refused", attrs | {"call": call}, inputs, [])
        return
    raise AssertionError(f"PyTorch takes {call} {shapes} {attrs}")


def convolutions():
    make("conv1d", [2, 3, 9], [4, 3, 3], 4)
    make("conv1d", [3, 9], [4, 3, 3], 4)
    make("conv1d", [1, 2, 12], [3, 2, 3], stride=2, padding=3, dilation=2)
    make("conv1d", [2, 4, 7], [8, 1, 3], 8, groups=4, padding="same")
    make("conv1d", [1, 2, 6], [2, 2, 4], padding="same")
    make("conv1d", [1, 2, 6], [2, 2, 4], padding="same", dilation=3)
    make("conv1d", [1, 2, 5], [2, 2, 2], padding=[[0, 3]])
    make("conv2d", [2, 3, 4, 5], [3, 3, 3, 2], 3)
    make("conv2d", [3, 4, 5], [3, 3, 3, 2])
    make("conv2d", [1, 2, 7, 8], [3, 2, 3, 3], 3, stride=[2, 1], padding=[1, 2], dilation=[1, 2])
    make("conv2d", [2, 4, 3, 4], [4, 2, 3, 3], groups=2, padding=1)
    make("conv2d", [1, 3, 6, 7], [3, 1, 3, 3], 3, groups=3, padding=1, stride=2)
    make("conv2d", [1, 3, 6, 5], [6, 1, 2, 3], groups=3, dilation=2, padding=[0, 1])
    make("conv2d", [1, 2, 4, 5], [2, 2, 3, 3], padding=[[0, 2], [3, 1]])
    make("conv2d", [2, 3, 3, 4], [14, 3, 1, 1], 14)
    make("conv2d", [1, 2, 3, 3], [13, 2, 3, 3], padding="valid")
    make("conv2d", [0, 3, 5, 5], [4, 3, 3, 3], 4)
    make("conv2d", [1, 30, 3, 3], [3, 30, 3, 1])
    make("conv3d", [1, 2, 3, 4, 3], [2, 2, 2, 3, 2], 2)
    make("conv3d", [2, 3, 4, 3], [4, 1, 2, 2, 2], groups=2, stride=[2, 1, 2], padding=[1, 0, 1])
    make("conv3d", [1, 1, 4, 3, 5], [2, 1, 2, 2, 2], dilation=[1, 2, 3], padding="same")
    for dtype in ("f64", "f16", "bf16", "c64"):
        make("conv2d", [1, 3, 4, 3], [2, 3, 3, 2], 2, dtype, padding=1)
        make("conv1d", [1, 4, 8], [4, 1, 3], dtype=dtype, groups=4, stride=2)
    # Not contiguous: channels last, every second position, one image for all, transposed weights.
    make("conv2d", [2, 5, 4, 3], [4, 3, 2, 3], views=[[["permute", [0, 3, 1, 2]]], None])
    make("conv2d", [1, 3, 3, 9], [3, 2, 2, 3], views=[[["slice", 3, 1, 9, 2]], [["transpose", 0, 1]]], padding=1)
    make("conv2d", [1, 2, 4, 4], [3, 2, 3, 3], views=[[["expand", [3, 2, 4, 4]]], None])


def transposed_convolutions():
    make("conv_transpose1d", [2, 3, 5], [3, 4, 3], 4)
    make("conv_transpose1d", [3, 5], [3, 2, 3], stride=3, padding=1, output_padding=2)
    make("conv_transpose1d", [1, 2, 4], [2, 3, 3], dilation=3, output_padding=2)
    make("conv_transpose1d", [1, 2, 4], [2, 1, 2], stride=3)
    make("conv_transpose2d", [1, 3, 3, 3], [3, 2, 3, 3], 2, stride=2, padding=1, output_padding=1)
    make("conv_transpose2d", [1, 4, 3, 3], [4, 2, 2, 3], 4, groups=2, stride=[1, 2], padding=[0, 1], output_padding=[0, 1])
    make("conv_transpose2d", [1, 3, 3, 3], [3, 1, 3, 3], groups=3, stride=2)
    make("conv_transpose2d", [3, 4, 4], [3, 2, 2, 2], dilation=[2, 1], padding=1)
    make("conv_transpose2d", [0, 3, 4, 4], [3, 2, 2, 2], 2)
    make("conv_transpose2d", [1, 2, 5, 4], [2, 3, 2, 2], views=[[["transpose", 2, 3]], None], stride=2)
    make("conv_transpose3d", [1, 2, 3, 2, 2], [2, 2, 2, 2, 2], 2, stride=2, padding=[1, 0, 0], output_padding=[0, 1, 0])
    make("conv_transpose3d", [1, 4, 2, 3, 2], [4, 1, 2, 2, 3], groups=2, dilation=[1, 2, 1])
    for dtype in ("f64", "f16", "bf16", "c64"):
        make("conv_transpose2d", [1, 3, 2, 3], [3, 2, 3, 2], 2, dtype, stride=2, padding=1)


def both_gradients():
    gradients([2, 3, 8], [4, 3, 3], stride=3, padding=1)
    gradients([1, 4, 7], [4, 1, 3], groups=4, dilation=2, padding=2)
    gradients([2, 3, 4, 3], [3, 3, 3, 2], padding=1)
    gradients([1, 2, 8, 7], [3, 2, 3, 3], stride=[3, 2], padding=[1, 0], dilation=[1, 2])
    gradients([2, 4, 3, 3], [6, 2, 2, 2], groups=2)
    gradients([1, 3, 4, 5], [3, 1, 3, 3], groups=3, padding=1)
    gradients([1, 2, 4, 4], [2, 2, 3, 3], padding=[[2, 0], [1, 3]])
    gradients([1, 2, 3, 2, 3], [3, 2, 2, 2, 3], stride=[2, 1, 1], padding=[0, 1, 1])
    gradients([0, 2, 4, 4], [3, 2, 3, 3])
    gradients([1, 5, 4, 3], [3, 4, 3, 2], views=([["permute", [0, 3, 2, 1]]], [["transpose", 0, 1]], None), padding=1)
    for dtype in ("f64", "f16", "bf16", "c64"):
        gradients([1, 2, 4, 3], [2, 2, 3, 2], dtype, stride=2, padding=1)


def refusals():
    refused("conv2d", [1, 3, 2, 3], [2, 2, 2, 2])
    refused("conv2d", [1, 3, 2, 3], [2, 3, 3, 2])
    refused("conv2d", [1, 3, 2, 3], [2, 3, 2])
    refused("conv2d", [2, 3], [2, 3, 2, 2])
    refused("conv2d", [1, 3, 2, 3], [2, 3, 2, 2], [3])
    refused("conv2d", [1, 4, 2, 3], [3, 2, 2, 2], groups=2)
    refused("conv2d", [1, 3, 2, 3], [2, 3, 2, 2], stride=0)
    refused("conv2d", [1, 3, 2, 3], [2, 3, 2, 2], dilation=0)
    refused("conv2d", [1, 3, 2, 3], [2, 3, 2, 2], padding=-1)
    refused("conv2d", [1, 3, 2, 3], [2, 3, 2, 2], stride=[1, 1, 1])
    refused("conv2d", [1, 3, 2, 3], [2, 3, 2, 2], stride=2, padding="same")
    refused("conv2d", [1, 3, 2, 3], [2, 3, 2, 2], dtypes=["f32", "f64"])
    refused("conv1d", [1, 3, 5], [4, 3, 0])
    refused("conv_transpose2d", [1, 3, 2, 3], [2, 3, 2, 2])
    refused("conv_transpose2d", [1, 3, 2, 3], [3, 2, 2, 2], stride=2, output_padding=2)
    refused("conv_transpose2d", [1, 3, 1, 1], [3, 2, 2, 2], padding=2)
    refused("conv_transpose1d", [1, 3, 4], [3, 4, 3], [3])


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for section in (convolutions, transposed_convolutions, both_gradients, refusals):
        section()
    with open(sys.argv[1], "w") as out:
        out.write("\n".join(tensor_ops.lines) + "\n")
    print(f"{len(tensor_ops.lines)} cases, {sum(map(len, tensor_ops.lines)) / 1000:.0f} kB, torch {torch.__version__}")


if __name__ == "__main__":
    main()
