#!/usr/bin/env python3
"""Write what PyTorch's own tests of modules call, and what comes of it.

    python tools/oracle/torch_module_db.py crates/rustorch-nn/tests/fixtures/module_db.jsonl crates/rustorch-nn/tests/fixtures/module_db.bin

The samples are those of `module_db`, in training and, where that makes a difference, in evaluation. Lines are those of torch_modules.py, and

    {"entries": N}                                                     first: how many modules the database has,
    {"module": NAME, .., "raises": MESSAGE}                            a sample that PyTorch refuses, with the message's pattern,
    {"module": NAME, "left_out": WHY} or {.., "left_out": WHY, "count": N}    a module or samples that have no counterpart.
"""

import inspect
import json
import sys
import warnings

import torch
from tensor_ops import NAMES
from torch.testing._internal.common_modules import module_db
from torch_modules import encode, exact, lines, record, store, write

warnings.simplefilter("ignore")

# Positions of tensors that are given by name.
NAMED = {
    "Linear": ["input"],
    "MultiheadAttention": ["", "", "", "key_padding_mask", "attn_mask"],
    "TransformerEncoderLayer": ["", "src_mask", "src_key_padding_mask"],
    "TransformerEncoder": ["", "mask", "src_key_padding_mask"],
    "TransformerDecoderLayer": ["", "", "tgt_mask", "memory_mask", "tgt_key_padding_mask", "memory_key_padding_mask"],
    "Transformer": ["", "", "src_mask", "tgt_mask", "memory_mask", "src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask"],
}
# Arguments that count as positional although they have defaults.
POSITIONAL = {
    "TransformerEncoderLayer": ["d_model", "nhead", "dim_feedforward"],
    "TransformerDecoderLayer": ["d_model", "nhead", "dim_feedforward"],
    "Transformer": ["d_model", "nhead", "num_encoder_layers", "num_decoder_layers", "dim_feedforward"],
    "RNN": ["input_size", "hidden_size", "num_layers"],
    "GRU": ["input_size", "hidden_size", "num_layers"],
    "LSTM": ["input_size", "hidden_size", "num_layers"],
}
NETWORKS = ("RNN", "GRU", "LSTM")


def left_out(name):
    if name.startswith("Lazy"):
        return "lazy: shapes are known when a module is made"
    if name.startswith("Fractional"):
        return "fractional pooling"
    return None


def no_value(bound):
    """What is no value of the argument's type in Rust, so that the compiler refuses it."""
    for name, value in bound.items():
        if name in ("bias", "batch_first") and not isinstance(value, bool):
            return f"{name} = {value!r} is no bool"
        if name in ("input_size", "hidden_size", "num_embeddings") and (not isinstance(value, int) or value < 0):
            return f"{name} = {value!r} is no usize"
        if name == "dim" and type(value) is not int and value is not None:
            return f"{name} = {value!r} is no isize"
        if isinstance(value, complex):
            return f"{name} = {value!r} is no f64"
    return None


def described(cls, constructor):
    """The arguments of a constructor by name."""
    name = cls.__name__
    if name in NETWORKS:
        return dict(zip(["input_size", "hidden_size", "num_layers"], constructor.args)) | constructor.kwargs
    bound = inspect.signature(cls).bind(*constructor.args, **constructor.kwargs).arguments
    if name in ("RNNCell", "GRUCell", "LSTMCell") and "bias" in bound:
        bound["bias"] = bool(bound["bias"])
    if name == "TransformerEncoder":
        layer = bound["encoder_layer"]
        return {
            "d_model": layer.linear1.in_features, "nhead": layer.self_attn.num_heads, "dim_feedforward": layer.linear1.out_features,
            "num_layers": bound["num_layers"], "norm": False, "dropout": layer.dropout.p, "activation": layer.activation,
            "batch_first": layer.self_attn.batch_first, "norm_first": layer.norm_first, "bias": layer.linear1.bias is not None,
        }
    return bound


def plain(value):
    if isinstance(value, torch.Tensor):
        return {"dtype": NAMES[value.dtype], "shape": list(value.shape)}
    if callable(value):
        return value.__name__
    return list(value) if isinstance(value, (tuple, torch.Size)) else value


def split(cls, bound):
    """Required arguments, and the others by name."""
    name = cls.__name__
    bound = {k: plain(v) for k, v in bound.items() if k not in ("device", "dtype", "options")}
    if name == "TransformerEncoder":
        first = ["d_model", "nhead", "dim_feedforward", "num_layers", "norm"]
    elif name in POSITIONAL:
        first = POSITIONAL[name]
    else:
        first = [k for k, p in inspect.signature(cls).parameters.items() if p.default is inspect.Parameter.empty and k in bound]
    defaults = {k: p.default for k, p in inspect.signature(cls).parameters.items()}
    defaults |= {"num_layers": 1} if name in NETWORKS else {}
    return [bound[k] if k in bound else defaults[k] for k in first], {k: v for k, v in bound.items() if k not in first}


def rounded(value):
    """With values of f32 in f64."""
    if isinstance(value, torch.Tensor):
        if value.dtype != torch.float64:
            return value.detach()
        return value.detach().float().double().requires_grad_(value.requires_grad)
    if isinstance(value, (tuple, list)):
        return tuple(rounded(v) for v in value)
    return value


def tensors(value):
    if isinstance(value, (tuple, list)):
        # Lengths of sequences.
        if value and all(isinstance(v, int) for v in value):
            return [torch.tensor(value)]
        return [t for v in value for t in tensors(v)]
    return [value]


def inputs_of(name, args, kwargs):
    """All tensors of a call, in one order."""
    flat = [t for a in args for t in tensors(a)]
    for place in NAMED.get(name, [])[len(flat):]:
        flat.append(kwargs.get(place))
    return flat


def repeated(info, sample, bound):
    """Why a sample says nothing that another one does not."""
    if info.module_cls.__name__ == "LinearCrossEntropyLoss" and bound.get("options") is not None:
        return "computed in chunks, which are no option here: the sample without is there"
    if info.module_cls.__name__ == "LinearCrossEntropyLoss" and bound["ignore_index"] == -100:
        return "the default ignore_index, named: the sample without is there"
    if info.module_cls.__name__ == "CTCLoss":
        if isinstance(sample.forward_input.args[2], torch.Tensor):
            return "lengths in tensors: the sample with lengths in a tuple is there"
        if sample.forward_input.args[1].dtype == torch.int32:
            return "targets of i32: the sample with i64 is there"
    return None


def samples(info, training):
    left = {}
    for sample in info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=True, training=training):
        cls, constructor = info.module_cls, sample.constructor_input
        bound = described(cls, constructor)
        why = repeated(info, sample, bound)
        if why:
            left[why] = left.get(why, 0) + 1
            continue
        torch.manual_seed(0)
        module = cls(*constructor.args, **constructor.kwargs).double()
        with torch.no_grad():
            for t in module.state_dict().values():
                if t.is_floating_point():
                    t.copy_(t.float().double())
        module.train(training)
        forward = sample.forward_input
        # Rounded, probabilities would not add up to 1: PyTorch's gradient of CTC relies on that.
        keep = cls is torch.nn.CTCLoss
        args = forward.args if keep else rounded(forward.args)
        kwargs = {k: rounded(v) for k, v in forward.kwargs.items()}
        args_of, options = split(cls, bound)
        row = {"module": cls.__name__, "args": args_of, "options": options, "call": {}}
        record(row, module, inputs_of(cls.__name__, args, kwargs), lambda: module(*args, **kwargs), exact if keep else store)
    for why, count in left.items():
        lines.append(json.dumps({"module": info.module_cls.__name__, "left_out": why, "count": count}))


def refused(info):
    if info.module_error_inputs_func is None:
        return
    for sample in info.module_error_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=False, training=True):
        constructor, forward = sample.module_error_input.constructor_input, sample.module_error_input.forward_input
        name = info.module_cls.__name__
        bound = described(info.module_cls, constructor)
        try:
            module = info.module_cls(*constructor.args, **constructor.kwargs)
            # A weight of another dtype may be what is wrong.
            module = module if any(isinstance(v, torch.Tensor) for v in bound.values()) else module.double()
            module(*forward.args, **forward.kwargs)
        except Exception:
            pass
        else:
            raise AssertionError(f"PyTorch takes {name}{constructor.args}")
        if why := no_value(bound):
            lines.append(json.dumps({"module": name, "left_out": why, "count": 1}))
            continue
        args, options = split(info.module_cls, bound)
        inputs = [] if forward is None else inputs_of(name, forward.args, forward.kwargs)
        row = {"module": name, "args": args, "options": options, "call": {}, "inputs": [encode(t) for t in inputs], "raises": sample.error_regex}
        lines.append(json.dumps(row))


if __name__ == "__main__":
    lines.append(json.dumps({"entries": len(module_db)}))
    for info in module_db:
        name = info.module_cls.__name__
        if why := left_out(name):
            lines.append(json.dumps({"module": name, "left_out": why}))
            continue
        torch.manual_seed(0)
        for training in (True, False) if info.train_and_eval_differ else (True,):
            samples(info, training)
        refused(info)
    write(sys.argv[1], sys.argv[2])
