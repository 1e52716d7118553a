#!/usr/bin/env python3
"""Compare what `mlpackage_oracle.py` computes itself with ONNX Runtime: each of its evaluators, by random shapes and parameters.

    test_evaluators.py

ONNX's operations are given the same arguments, with their paddings in ONNX's order. Some that coremltools computes itself are compared, too, whose parameters
differ most from ONNX's. A result may differ by 1e-5 of the largest value.
"""

import sys

import numpy as np
import onnx
import onnxruntime

import mlpackage_oracle as oracle
from mlpackage_oracle import AvailableTarget, Function, mb

TOLERANCE = 1e-5
ROUNDS = 40


def by_onnx(kind, args, **attributes):
    """The first result of an operation of ONNX."""
    names = [f"x{i}" for i in range(len(args))]
    node = onnx.helper.make_node(kind, names, ["y"], **attributes)
    inputs = [onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in zip(names, args)]
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([node], "one", inputs, [output])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["y"], dict(zip(names, args)))[0]


def by_oracle(kind, opset=AvailableTarget.iOS15, **arguments):
    """The same by MIL's builder, whose constant folding the evaluators are part of."""
    with Function({}, opset_version=opset):
        given = {name: mb.const(val=value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
        return getattr(mb, kind)(**given).val


def pads(rng, spatial, most):
    """Of each dimension the widths before and after it: as MIL has them, and as ONNX has."""
    widths = rng.integers(0, most + 1, (spatial, 2))
    return widths.ravel().tolist(), widths.T.ravel().tolist()


def floats(rng, *dims):
    return rng.standard_normal(dims).astype(np.float32)


def conv(rng):
    n = int(rng.integers(1, 4))
    groups, per_group, out = (int(rng.integers(1, 4)) for _ in range(3))
    kernel, strides, dilations = (rng.integers(1, 4, n).tolist() for _ in range(3))
    mil, other = pads(rng, n, 2)
    size = [(k - 1) * d + 1 + int(rng.integers(0, 5)) for k, d in zip(kernel, dilations)]
    x, w = floats(rng, 2, groups * per_group, *size), floats(rng, groups * out, per_group, *kernel)
    bias = {"bias": floats(rng, groups * out)} if rng.random() < 0.5 else {}
    got = by_oracle("conv", x=x, weight=w, strides=strides, dilations=dilations, groups=groups, pad_type="custom", pad=mil, **bias)
    return got, by_onnx("Conv", [x, w, *bias.values()], strides=strides, dilations=dilations, group=groups, pads=other)


def conv_transpose(rng):
    n = int(rng.integers(1, 4))
    groups, per_group, out = (int(rng.integers(1, 4)) for _ in range(3))
    kernel, strides, dilations = (rng.integers(1, 4, n).tolist() for _ in range(3))
    size = [int(rng.integers(2, 5)) for _ in range(n)]
    mil, other = pads(rng, n, 1)
    if any((s - 1) * t + (k - 1) * d + 1 - sum(mil[2 * i : 2 * i + 2]) < 1 for i, (s, t, k, d) in enumerate(zip(size, strides, kernel, dilations))):
        mil, other = [0] * 2 * n, [0] * 2 * n
    x, w = floats(rng, 2, groups * per_group, *size), floats(rng, groups * per_group, out, *kernel)
    bias = {"bias": floats(rng, groups * out)} if rng.random() < 0.5 else {}
    got = by_oracle("conv_transpose", x=x, weight=w, strides=strides, dilations=dilations, groups=groups, pad_type="custom", pad=mil, **bias)
    return got, by_onnx("ConvTranspose", [x, w, *bias.values()], strides=strides, dilations=dilations, group=groups, pads=other)


def pool(rng):
    n = int(rng.integers(1, 4))
    kernel = rng.integers(2, 4, n).tolist()
    strides = rng.integers(1, 4, n).tolist()
    # ONNX's paddings are smaller than the kernel.
    mil, other = pads(rng, n, 1)
    x = floats(rng, 2, 3, *[k + int(rng.integers(0, 5)) for k in kernel])
    return x, dict(kernel_sizes=kernel, strides=strides, pad_type="custom", pad=mil), dict(kernel_shape=kernel, strides=strides, pads=other)


def max_pool(rng):
    x, mil, other = pool(rng)
    return by_oracle("max_pool", x=x, **mil), by_onnx("MaxPool", [x], **other)


def avg_pool(rng):
    x, mil, other = pool(rng)
    excludes = bool(rng.random() < 0.5)
    got = by_oracle("avg_pool", x=x, exclude_padding_from_average=excludes, **mil)
    return got, by_onnx("AveragePool", [x], count_include_pad=int(not excludes), **other)


def batch_norm(rng):
    x = floats(rng, 2, 4, *rng.integers(1, 5, int(rng.integers(1, 4))))
    scale, bias, mean, variance = (floats(rng, 4) for _ in range(4))
    variance = np.abs(variance) + np.float32(0.1)
    got = by_oracle("batch_norm", x=x, mean=mean, variance=variance, gamma=scale, beta=bias, epsilon=np.float32(1e-3))
    return got, by_onnx("BatchNormalization", [x, scale, bias, mean, variance], epsilon=1e-3)


def silu(rng):
    x = floats(rng, 3, 5) * 4
    return by_oracle("silu", x=x), x * by_onnx("Sigmoid", [x])


def layer_norm(rng):
    x = floats(rng, 3, 4, 5)
    weight, bias = floats(rng, 4, 5), floats(rng, 4, 5)
    got = by_oracle("layer_norm", x=x, axes=[1, 2], gamma=weight, beta=bias, epsilon=np.float32(1e-3))
    return got, by_onnx("LayerNormalization", [x, weight, bias], axis=1, epsilon=1e-3)


def gelu(rng):
    x = floats(rng, 3, 5) * 3
    exact = rng.random() < 0.5
    got = by_oracle("gelu", x=x, mode="EXACT" if exact else "TANH_APPROXIMATION")
    return got, by_onnx("Gelu", [x], approximate="none" if exact else "tanh")


def cumsum(rng):
    x, axis = floats(rng, 3, 4, 5), int(rng.integers(0, 3))
    return by_oracle("cumsum", x=x, axis=axis), by_onnx("CumSum", [x, np.array(axis)])


def gather_along_axis(rng):
    x, axis = floats(rng, 3, 4, 5), int(rng.integers(0, 3))
    dims = [3, 4, 5]
    dims[axis] = 6
    indices = rng.integers(0, x.shape[axis], dims).astype(np.int32)
    return by_oracle("gather_along_axis", x=x, indices=indices, axis=axis), by_onnx("GatherElements", [x, indices], axis=axis)


def scaled_dot_product_attention(rng):
    lead, (queries, keys, width, out) = [2, 3][: int(rng.integers(1, 3))], rng.integers(1, 6, 4)
    query, key, value = floats(rng, *lead, queries, width), floats(rng, *lead, keys, width), floats(rng, *lead, keys, out)
    scores = by_onnx("MatMul", [query, key.swapaxes(-1, -2)]) / np.float32(np.sqrt(width))
    masks = {}
    if rng.random() < 0.7:
        mask = floats(rng, *lead[: int(rng.integers(0, 2))], queries, keys) if len(lead) == 1 else floats(rng, 1, queries, keys)
        if rng.random() < 0.5:
            mask = mask > 0
            # Behind one without a key, both have NaN.
            mask[..., 0] = True
        masks["attn_mask"] = mask
        scores = np.where(mask, scores, np.float32(-np.inf)) if mask.dtype == bool else scores + mask
    got = by_oracle("scaled_dot_product_attention", AvailableTarget.iOS18, query=query, key=key, value=value, **masks)
    return got, by_onnx("MatMul", [by_onnx("Softmax", [scores], axis=-1), value])


COMPARED = [conv, conv_transpose, max_pool, avg_pool, batch_norm, silu, layer_norm, gelu, cumsum, gather_along_axis, scaled_dot_product_attention]


def main():
    oracle.install_extra()
    names = {compare.__name__ for compare in COMPARED}
    wrong = [f"{name} has an evaluator, and no comparison" for name in sorted(set(oracle.EXTRA) - names)]
    for compare in COMPARED:
        for seed in range(ROUNDS):
            got, want = compare(np.random.default_rng(seed))
            if got is None or got.shape != want.shape:
                wrong.append(f"{compare.__name__}, seed {seed}: {None if got is None else got.shape} in place of {want.shape}")
                continue
            worst = float(np.abs(got - want).max() / max(float(np.abs(want).max()), 1e-30))
            # Not `>`, which is false of NaN.
            if not worst <= TOLERANCE:
                wrong.append(f"{compare.__name__}, seed {seed}: differs by {worst:.2e} of the largest value")
    for line in wrong:
        print(line)
    print(f"{len(COMPARED)} operations compared with ONNX Runtime {onnxruntime.__version__}, {ROUNDS} times each; {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
