#!/usr/bin/env python3
"""Time cases of `torch_tensors.py` against ONNX Runtime's operators, in turn, and print medians and ratios.

    benches/peers/onnx_tensors.py FILE [--above 1.05] [--threads 1 2] [--only PATTERN] [--rounds 5] [--json FILE]

Needs ONNX Runtime and onnx. FILE is what `torch_tensors.py --json` wrote: of its cases those are run in which RusTorch took more than so many times
PyTorch's time, with any number of threads, and for which there is an operator. Ratios are as there: below 1 RusTorch is faster.

Each case is a graph of one operator, whose operands are all inputs, so that none is packed before it is timed. Results are written into the same
memory each time. With several threads ONNX Runtime's spin for a while when an operation is done, which may slow down what RusTorch does next where
there are no more CPUs than threads.
"""

import math

from other_tensors import compare_with
from torch_tensors import NamedCase

# Operators of one operand; those along a dimension; reductions; what reads rows.
ONE = {"exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "gelu": "Gelu"}
ALONG = {"softmax": "Softmax", "log_softmax": "LogSoftmax"}
REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}
ROWS = ["take", "get_rows", "embedding", "index_select"]


class Case(NamedCase):
    def __init__(self, name, threads):
        import numpy

        self.numpy, self.threads = numpy, threads
        self.random = numpy.random.default_rng(0)
        super().__init__(name, numpy)

    def operand(self, i):
        numpy = self.numpy
        values = self.random.integers(-4, 4, self.shapes[i]) if self.dtype in ["i8", "i64"] else self.random.standard_normal(self.shapes[i])
        return (numpy.abs(values) if self.operation in ["log", "sqrt"] else values).astype(self.type())

    def compiled(self, operator, *operands, domain="", **attributes):
        """A call of a graph of this operator."""
        import onnx
        import onnxruntime

        element = lambda x: onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
        names = [f"x{i}" for i in range(len(operands))]
        inputs = [onnx.helper.make_tensor_value_info(name, element(x), x.shape) for name, x in zip(names, operands)]
        output = onnx.ValueInfoProto(name="y")
        node = onnx.helper.make_node(operator, names, ["y"], domain=domain, **attributes)
        graph = onnx.helper.make_graph([node], "case", inputs, [output])
        opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
            return None
        result = onnxruntime.OrtValue.ortvalue_from_numpy(session.run(None, dict(zip(names, operands)))[0])
        binding = session.io_binding()
        for name, x in zip(names, operands):
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(x))
        binding.bind_ortvalue_output("y", result)
        return lambda: session.run_with_iobinding(binding)

    def call(self):
        """The function that the name says, `None` where there is no operator."""
        if self.dtype in ["bf16", "c64"]:
            return None
        numpy, n = self.numpy, self.argument
        if self.operation in ["conv1d", "conv2d", "conv3d"]:
            x, weight = self.operand(0), self.operand(1)
            spatial = x.ndim - 2
            groups = x.shape[1] if weight.shape[1] == 1 else 1
            return self.compiled("Conv", x, weight, group=groups, strides=[n or 1] * spatial, pads=[weight.shape[2] // 2] * (2 * spatial))
        operands = [self.operand(0)] if len(self.shapes) == 1 or self.operation in ROWS else [self.operand(0), self.operand(1)]
        if self.operation in ONE:
            return self.compiled(ONE[self.operation], *operands)
        if self.operation in ALONG:
            return self.compiled(ALONG[self.operation], *operands, axis=n)
        if self.operation in REDUCTIONS:
            axes = list(range(operands[0].ndim)) if n is None else [n]
            return self.compiled(REDUCTIONS[self.operation], *operands, numpy.array(axes), keepdims=0)
        if self.operation in ROWS:
            axis = n or 0
            return self.compiled("Gather", *operands, self.random.integers(0, self.shapes[0][axis], self.shapes[1]), axis=axis)
        width = self.shapes[0][-1]
        match self.operation:
            case "silu":
                return self.compiled("QuickGelu", *operands, domain="com.microsoft", alpha=1.0)
            case "layer_norm":
                return self.compiled("LayerNormalization", *operands, numpy.ones(width, self.type()), numpy.zeros(width, self.type()))
            case "cumsum":
                return self.compiled("CumSum", *operands, numpy.array(n))
            case "add_scalar":
                return self.compiled("Add", *operands, numpy.array(1.5, self.type()))
            case "arange":
                count = math.prod(self.shapes[0])
                return self.compiled("Range", *(numpy.array(value, self.type()) for value in (0, count, 1)))
            case "matmul":
                return self.compiled("MatMulInteger" if self.dtype == "i8" else "MatMul", *operands)
            case "matmul_tn":
                return self.compiled("FusedMatMul", *operands, domain="com.microsoft", transA=1)
            case "linear":
                return self.compiled("Gemm", *operands, transB=1)
            case "add":
                return self.compiled("Add", *operands)
            case "cat":
                return self.compiled("Concat", *operands, axis=n)
        return None


if __name__ == "__main__":
    compare_with("ONNXRuntime", __doc__, lambda name, threads: Case(name, threads).call())
