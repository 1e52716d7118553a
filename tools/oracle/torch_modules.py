#!/usr/bin/env python3
"""Write what PyTorch's modules compute, and their gradients, as JSON lines and a file of their numbers.

    python tools/oracle/torch_modules.py crates/rustorch-nn/tests/fixtures/modules.jsonl crates/rustorch-nn/tests/fixtures/modules.bin

One line is one call of one module:

    {"module": NAME, "args": [...], "options": {...}, "call": {...}, "train": bool, "state": [[NAME, TENSOR]...], "inputs": [TENSOR or null...],
     "outputs": [TENSOR or null...], "input_grads": [TENSOR or null...], "grads": [[NAME, TENSOR or null]...], "buffers": [[NAME, TENSOR]...]}

`args` and `options` are those of the module's constructor (but see BUILDERS), `call` the named arguments of the call that are no tensors. Masks
are the last inputs. Gradients are those of the sum of all outputs of floats times `factors`; inputs without one need none. `buffers` are those of
the state dict after the call, and parameters that the call wrote. TENSOR is [DTYPE, SHAPE, OFFSET]: its bytes stand in the second file, little
endian. All is computed in f64; what goes in has values of f32, and is stored as such. torch_module_db.py writes the same format.
"""

import json
import sys

import numpy as np
import torch
from tensor_ops import NAMES

torch.use_deterministic_algorithms(True)
rng = np.random.default_rng(20251123)
lines: list[str] = []
numbers = bytearray()
# Equal tensors are stored once.
places: dict[bytes, int] = {}


def encode(t):
    raw = t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    if raw not in places:
        places[raw] = len(numbers)
        numbers.extend(raw)
    return [NAMES[t.dtype], list(t.shape), places[raw]]


def factors(t):
    """What an output is multiplied with, for a gradient that differs between elements."""
    return (0.25 + 0.5 * (torch.arange(t.numel(), dtype=t.dtype) % 5 - 2)).reshape(t.shape)


def write(path, numbers_path):
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    with open(numbers_path, "wb") as f:
        f.write(numbers)
    print(f"{len(lines)} cases, {len(numbers)} bytes")


def values(*shape, scale=1.0):
    """Normal values of f32, in f64."""
    return torch.tensor((rng.standard_normal(shape) * scale).astype(np.float32).astype(np.float64))


def ints(low, high, *shape):
    return torch.tensor(rng.integers(low, high, shape))


def store(t):
    if t is None or t.dtype != torch.float64:
        return exact(t)
    assert torch.equal(t.nan_to_num(), t.float().double().nan_to_num()), f"what goes in has values of f32: {t}"
    return encode(t.float())


def exact(t):
    return None if t is None else encode(t)


def randomize(module):
    """Other values than ones and zeros everywhere, and some batches that were tracked."""
    with torch.no_grad():
        for name, t in module.state_dict().items():
            if t.is_floating_point():
                new = values(*t.shape, scale=0.5)
                t.copy_((new.abs() + 0.5).float() if name.endswith("running_var") else new)
            else:
                t.fill_(3)


def masked(inputs, masks):
    """The last inputs as named arguments."""
    first = len(inputs) - len(masks)
    return inputs[:first], {name: t for name, t in zip(masks, inputs[first:]) if t is not None}


def flat(out):
    if isinstance(out, (tuple, list)):
        return [t for part in out for t in flat(part)]
    return [out]


def nested(inputs, fold):
    """The inputs of a call; `fold` inputs from the second on are one tuple, as a state of an LSTM."""
    if not fold:
        return inputs
    return [inputs[0], None if inputs[1] is None else tuple(inputs[1:])]


def encoder(d_model, nhead, dim_feedforward, num_layers, norm, **options):
    layer = torch.nn.TransformerEncoderLayer(d_model, nhead, dim_feedforward, **options)
    return torch.nn.TransformerEncoder(layer, num_layers, torch.nn.LayerNorm(d_model) if norm else None, enable_nested_tensor=False)


def decoder(d_model, nhead, dim_feedforward, num_layers, norm, **options):
    layer = torch.nn.TransformerDecoderLayer(d_model, nhead, dim_feedforward, **options)
    return torch.nn.TransformerDecoder(layer, num_layers, torch.nn.LayerNorm(d_model) if norm else None)


class RotaryEmbedding(torch.nn.Module):
    """Su et al.: RoFormer, 2021, equations 14 and 15: a matrix of rotations for each position, with the pairs of other styles, and scaled."""

    def __init__(self, dim, halves=False, base=10000.0, position_scaling=1.0, base_scaling=1.0):
        super().__init__()
        self.dim, self.halves, self.position_scaling = dim, halves, position_scaling
        # It is computed with as f32.
        self.base = float(np.float32(base * base_scaling ** (dim / (dim - 2)) if dim > 2 else base))

    def forward(self, x, start=0):
        d = self.dim
        theta = [self.base ** (-2 * (i - 1) / d) for i in range(1, d // 2 + 1)]
        rows = []
        for m in range(x.shape[-2]):
            rotation = torch.eye(x.shape[-1], dtype=torch.float64)
            for i, frequency in enumerate(theta):
                a, b = (i, i + d // 2) if self.halves else (2 * i, 2 * i + 1)
                angle = torch.tensor((start + m) / self.position_scaling * frequency, dtype=torch.float64)
                rotation[a, a] = rotation[b, b] = angle.cos()
                rotation[b, a] = angle.sin()
                rotation[a, b] = -angle.sin()
            rows.append(x[..., m, :] @ rotation.T)
        return torch.stack(rows, -2)


class SwiGLU(torch.nn.Module):
    """Shazeer: GLU Variants Improve Transformer, 2020, equation 6: FFN_SwiGLU."""

    def __init__(self, features, hidden_features, bias=False):
        super().__init__()
        self.gate_proj = torch.nn.Linear(features, hidden_features, bias)
        self.up_proj = torch.nn.Linear(features, hidden_features, bias)
        self.down_proj = torch.nn.Linear(hidden_features, features, bias)

    def forward(self, x):
        return self.down_proj(torch.nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class GroupedQueryAttention(torch.nn.Module):
    """PyTorch's function between projections."""

    def __init__(self, embed_dim, num_heads, num_kv_heads, head_dim=None, bias=False, is_causal=True, rotary=None):
        super().__init__()
        self.head_dim, self.is_causal = head_dim or embed_dim // num_heads, is_causal
        self.q_proj = torch.nn.Linear(embed_dim, num_heads * self.head_dim, bias)
        self.k_proj = torch.nn.Linear(embed_dim, num_kv_heads * self.head_dim, bias)
        self.v_proj = torch.nn.Linear(embed_dim, num_kv_heads * self.head_dim, bias)
        self.o_proj = torch.nn.Linear(num_heads * self.head_dim, embed_dim, bias)
        self.rotary = RotaryEmbedding(rotary) if rotary else torch.nn.Identity()

    def forward(self, x, mask=None):
        q, k, v = (p(x).unflatten(-1, (-1, self.head_dim)).transpose(-3, -2) for p in (self.q_proj, self.k_proj, self.v_proj))
        attention = torch.nn.functional.scaled_dot_product_attention
        y = attention(self.rotary(q), self.rotary(k), v, attn_mask=mask, is_causal=self.is_causal, enable_gqa=True)
        return self.o_proj(y.transpose(-3, -2).flatten(-2))


# What is made of other arguments than those of its constructor.
BUILDERS = {"TransformerEncoder": encoder, "TransformerDecoder": decoder}
# What PyTorch has not.
BUILDERS |= {"RotaryEmbedding": RotaryEmbedding, "SwiGLU": SwiGLU, "GroupedQueryAttention": GroupedQueryAttention}


def case(name, args, options, inputs, train=True, call=None, fold=False, both=False, masks=()):
    if both:
        case(name, args, options, [None if t is None else t.clone() for t in inputs], not train, call, fold, False, masks)
    module = (BUILDERS.get(name) or getattr(torch.nn, name))(*args, **options).double()
    randomize(module)
    module.train(train)
    leaves = [t.clone().requires_grad_(True) if t is not None and t.is_floating_point() else t for t in inputs]
    positional, named = masked(leaves, masks)
    row = {"module": name, "args": args, "options": options, "call": call or {}}
    record(row, module, leaves, lambda: module(*nested(positional, fold), **named, **(call or {})))


def record(row, module, inputs, run, store=store):
    """Adds what a module computes to a line. `run` calls it with the inputs, of which some are leaves."""
    before = {k: v.clone() for k, v in module.state_dict().items()}
    row |= {"train": module.training, "state": [[k, store(v)] for k, v in before.items()], "inputs": [store(t) for t in inputs]}
    outputs = flat(run())
    floats = [t for t in outputs if t is not None and t.is_floating_point()]
    loss = sum((t * factors(t)).sum() for t in floats)
    if loss.requires_grad:
        loss.backward()
    row |= {
        "outputs": [exact(t) for t in outputs], "input_grads": [exact(None if t is None else t.grad) for t in inputs],
        "grads": [[k, exact(p.grad)] for k, p in module.named_parameters()], "buffers": [[k, exact(b)] for k, b in module.named_buffers()],
    }
    row["buffers"] += [[k, exact(p)] for k, p in module.named_parameters() if not torch.equal(p, before[k])]
    lines.append(json.dumps(row, separators=(",", ":")))


def convolutions():
    for n in (1, 2, 3):
        size = [6, 4, 5][:n]
        name, transposed = f"Conv{n}d", f"ConvTranspose{n}d"
        case(name, [2, 3, 3], {}, [values(2, 2, *size)])
        case(name, [2, 3, 2], {"stride": 2, "padding": 1, "bias": False}, [values(2, *size)])
        case(name, [2, 4, 2], {"groups": 2, "dilation": 2}, [values(1, 2, *size)])
        case(name, [1, 2, 2], {"padding": "same", "dilation": [1, 2, 3][:n]}, [values(1, 1, *size)])
        case(name, [1, 1, 2], {"padding": "valid"}, [values(1, 1, *size)])
        case(transposed, [2, 2, 3], {}, [values(1, 2, *size[-n:][:1], *[3, 2][: n - 1])])
        case(transposed, [2, 4, 2], {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}, [values(2, *[3, 4, 2][:n])])
        case(transposed, [1, 2, 2], {"dilation": 2, "bias": False}, [values(1, 1, *[4, 3, 2][:n])])
        for mode in ("reflect", "replicate", "circular"):
            case(name, [1, 2, 3], {"padding_mode": mode, "padding": [2, 1, 2][:n]}, [values(1, 1, *[4, 3, 3][:n])])
        case(name, [1, 1, 2], {"padding_mode": "reflect", "padding": "same"}, [values(1, 1, *[4, 3, 3][:n])])


def pools():
    for n in (1, 2, 3):
        size = [7, 5, 4][:n]
        x = lambda: [values(1, max(1, 3 - n), *size)]
        case(f"MaxPool{n}d", [2], {}, x())
        case(f"MaxPool{n}d", [3], {"stride": 2, "padding": 1, "ceil_mode": True}, x())
        case(f"MaxPool{n}d", [2], {"stride": 1, "dilation": 2, "return_indices": True}, [values(1, *size)])
        case(f"AvgPool{n}d", [2], {}, x())
        case(f"AvgPool{n}d", [3], {"stride": 2, "padding": 1, "count_include_pad": False, "ceil_mode": True}, x())
        case(f"AdaptiveAvgPool{n}d", [3], {}, x())
        case(f"AdaptiveMaxPool{n}d", [2], {"return_indices": True}, x())
        case(f"AdaptiveMaxPool{n}d", [[3, 2, 2][:n]], {}, x())
    case("AvgPool2d", [[2, 3]], {"stride": [1, 2], "divisor_override": 5}, [values(1, 4, 5)])


def paddings():
    for n in (1, 2, 3):
        size = [4, 3, 5][:n]
        for name, more in (("ZeroPad", []), ("ReflectionPad", []), ("ReplicationPad", []), ("CircularPad", []), ("ConstantPad", [0.75])):
            case(f"{name}{n}d", [1] + more, {}, [values(1, 1, *size)])
            # PyTorch's pairs are those of the last dimension first.
            case(f"{name}{n}d", [[2, 1, 1, 2, 0, 2][: 2 * n]] + more, {}, [values(1, *size)])
    case("ZeroPad2d", [[-1, 1, 2, -1]], {}, [values(1, 3, 4)])


def shapes():
    case("Flatten", [], {}, [values(2, 3, 2)])
    case("Flatten", [0, -2], {}, [values(2, 3, 2)])
    case("Unflatten", [1, [2, -1]], {}, [values(2, 6)])
    case("Identity", [], {}, [values(3)])


def norms():
    for n in (1, 2, 3):
        size = [3, 2, 2][:n]
        name = f"BatchNorm{n}d"
        case(name, [2], {}, [(values(2, 2, *size) + 1).float().double()], both=True)
        case(name, [2], {"momentum": None, "eps": 1e-3}, [values(2, 2, *size)], both=True)
        case(name, [2], {"affine": False, "momentum": 0.3}, [values(2, 2, *size)], both=True)
        case(name, [2], {"track_running_stats": False}, [values(2, 2, *size)], both=True)
        name = f"InstanceNorm{n}d"
        case(name, [2], {}, [values(2, 2, *size)], both=True)
        case(name, [2], {"affine": True, "track_running_stats": True, "momentum": 0.3}, [values(2, 2, *size)], both=True)
        case(name, [2], {"affine": True, "eps": 1e-3}, [values(2, *size)])
    case("BatchNorm1d", [3], {}, [values(4, 3)], both=True)
    case("GroupNorm", [2, 4], {}, [values(2, 4, 3)])
    case("GroupNorm", [2, 4], {"eps": 1e-3, "affine": False}, [values(2, 4, 2, 2)])
    case("GroupNorm", [1, 4], {}, [values(3, 4)])
    for options in ({}, {"eps": 1e-3}, {"elementwise_affine": False}, {"bias": False}):
        case("LayerNorm", [[3]], options, [values(2, 3)])
        case("LayerNorm", [[2, 3]], options, [values(2, 2, 3)])
    for options in ({}, {"eps": 1e-3}, {"elementwise_affine": False, "eps": 1e-2}):
        case("RMSNorm", [[3]], options, [values(2, 3)])
        case("RMSNorm", [[2, 3]], options, [values(2, 2, 3)])
    case("LocalResponseNorm", [2], {}, [values(2, 4, 3)])
    case("LocalResponseNorm", [3], {"alpha": 0.5, "beta": 0.6, "k": 2.0}, [values(1, 5, 2, 2)])
    case("LocalResponseNorm", [5], {"alpha": 0.5}, [values(1, 3, 2, 1, 2)])


def recurrent():
    for name in ("RNN", "GRU", "LSTM"):
        states = 2 if name == "LSTM" else 1
        fold = name == "LSTM"

        def state(*shape, width=2):
            return [values(*shape, width)] + [values(*shape, 2)] * (states - 1)

        none = [None] * states
        case(f"{name}Cell", [3, 2], {}, [values(2, 3)] + state(2), fold=fold)
        case(f"{name}Cell", [3, 2], {"bias": False}, [values(3)] + none, fold=fold)
        case(name, [3, 2], {}, [values(4, 2, 3)] + none, fold=fold)
        case(name, [3, 2], {"bias": False}, [values(4, 2, 3)] + state(1, 2), fold=fold)
        case(name, [3, 2], {"num_layers": 2, "bidirectional": True, "batch_first": True}, [values(2, 3, 3)] + state(4, 2), fold=fold)
        case(name, [3, 2], {"bidirectional": True}, [values(3, 3)] + state(2), fold=fold)
        case(name, [1, 2], {"num_layers": 2, "dropout": 0.5}, [values(2, 1)] + none, train=False, fold=fold)
    case("RNN", [3, 2], {"nonlinearity": "relu", "num_layers": 2}, [values(3, 2, 3), None])
    case("RNNCell", [3, 2], {"nonlinearity": "relu"}, [values(2, 3), values(2, 2)])
    case("LSTM", [3, 3], {"proj_size": 2, "num_layers": 2, "bidirectional": True}, [values(3, 2, 3), values(4, 2, 2), values(4, 2, 3)], fold=True)
    case("LSTM", [3, 2], {"proj_size": 1}, [values(3, 3), None, None], fold=True)


def attention():
    masks = ("key_padding_mask", "attn_mask")
    padding = torch.tensor([[False, False, True], [False, True, False]])
    seen = torch.tensor([[False, True, True], [False, False, True], [False, False, False], [False, True, False]])
    for call in ({}, {"need_weights": False}, {"average_attn_weights": False}):
        q, k = values(4, 2, 4), values(3, 2, 4)
        case("MultiheadAttention", [4, 2], {}, [q, k, k.clone(), None, None], call=call, masks=masks)
        case("MultiheadAttention", [4, 2], {"batch_first": True}, [values(2, 4, 4), values(2, 3, 4), values(2, 3, 4), padding, None], call=call, masks=masks)
        case("MultiheadAttention", [4, 2], {"bias": False}, [q, k, values(3, 2, 4), None, seen], call=call, masks=masks)
        case("MultiheadAttention", [4, 2], {}, [q, k, values(3, 2, 4), values(2, 3), values(4, 4, 3)], call=call, masks=masks)
        case("MultiheadAttention", [4, 2], {"kdim": 3, "vdim": 2}, [values(4, 4), values(3, 3), values(3, 2), None, values(4, 3)], call=call, masks=masks)
    case("MultiheadAttention", [4, 4], {"dropout": 0.5}, [q, k, values(3, 2, 4), None, None], train=False, masks=masks)
    masks = ("src_mask", "src_key_padding_mask")
    for norm_first in (False, True):
        for activation in ("relu", "gelu"):
            options = {"norm_first": norm_first, "activation": activation, "dropout": 0.0}
            case("TransformerEncoderLayer", [4, 2, 3], options, [values(3, 2, 4), None, None], masks=masks)
            options |= {"batch_first": True, "bias": False, "layer_norm_eps": 1e-3}
            case("TransformerEncoderLayer", [4, 2, 3], options, [values(2, 3, 4), seen[:3], padding], masks=masks)
    case("TransformerEncoderLayer", [4, 2, 3], {}, [values(3, 4), values(3, 3), None], train=False, masks=masks)
    masks = ("mask", "src_key_padding_mask")
    case("TransformerEncoder", [4, 2, 3, 2, True], {"dropout": 0.0}, [values(3, 2, 4), values(3, 3), None], masks=masks)
    case("TransformerEncoder", [4, 2, 3, 2, False], {"batch_first": True, "norm_first": True}, [values(2, 3, 4), None, padding], train=False, masks=masks)


def decoders():
    masks = ("tgt_mask", "memory_mask", "tgt_key_padding_mask", "memory_key_padding_mask")
    none = [None] * 4
    causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
    padding = torch.tensor([[False, False, True], [False, True, False]])
    for norm_first in (False, True):
        options = {"norm_first": norm_first, "dropout": 0.0}
        case("TransformerDecoderLayer", [4, 2, 3], options, [values(3, 2, 4), values(2, 2, 4)] + none, masks=masks)
        options |= {"batch_first": True, "bias": False, "activation": "gelu"}
        case("TransformerDecoderLayer", [4, 2, 3], options, [values(2, 3, 4), values(2, 3, 4), causal, values(3, 3), None, padding], masks=masks)
    case("TransformerDecoder", [4, 2, 3, 2, True], {"dropout": 0.0}, [values(3, 4), values(2, 4), causal, None, None, None], masks=masks)
    case("TransformerDecoder", [4, 2, 3, 2, False], {}, [values(3, 2, 4), values(2, 2, 4), None, None, padding, None], train=False, masks=masks)


def dropouts():
    """Without training: what is drawn is no matter of an oracle."""
    for name in ("Dropout", "AlphaDropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"):
        n = int(name[-2]) if name.endswith("d") else 1
        case(name, [0.5], {}, [values(2, 2, *[2, 1, 2][:n])], train=False)


def tables():
    case("Embedding", [5, 3], {}, [ints(0, 5, 2, 4)])
    case("Embedding", [5, 3], {"padding_idx": 2}, [torch.tensor([[1, 2], [2, 4]])])
    named = ("offsets", "per_sample_weights")
    for mode in ("sum", "mean", "max"):
        options = {"mode": mode}
        case("EmbeddingBag", [5, 3], options, [ints(0, 5, 2, 4), None, None], masks=named)
        case("EmbeddingBag", [5, 3], options, [ints(0, 5, 6), torch.tensor([0, 2, 2, 5]), None], masks=named)
        case("EmbeddingBag", [5, 3], options | {"include_last_offset": True}, [ints(0, 5, 6), torch.tensor([0, 4, 6]), None], masks=named)
        padded = torch.tensor([1, 2, 2, 2, 4, 1])
        case("EmbeddingBag", [5, 3], options | {"padding_idx": 2}, [padded, torch.tensor([0, 2, 4]), None], masks=named)
    case("EmbeddingBag", [5, 3], {"mode": "sum", "padding_idx": 2}, [padded, torch.tensor([0, 2, 4]), values(6)], masks=named)
    case("EmbeddingBag", [5, 3], {"mode": "sum"}, [ints(0, 5, 6), torch.tensor([0, 2, 2, 5]), values(6)], masks=named)
    case("EmbeddingBag", [5, 3], {"mode": "sum"}, [ints(0, 5, 2, 3), None, values(2, 3)], masks=named)


def pairs():
    case("Linear", [3, 2], {}, [values(2, 2, 3)])
    case("Bilinear", [3, 2, 4], {}, [values(2, 3), values(2, 2)])
    case("Bilinear", [3, 2, 1], {"bias": False}, [values(2, 2, 3), values(2, 2, 2)])
    case("Bilinear", [2, 2, 2], {}, [values(2), values(2)])
    case("CosineSimilarity", [], {}, [values(2, 3, 2), values(2, 3, 2)])
    case("CosineSimilarity", [], {"dim": -1, "eps": 2.0}, [values(3), values(2, 3) * 4])
    case("CosineSimilarity", [], {}, [torch.zeros(1, 3, dtype=torch.float64), values(1, 3)])
    for p in (1.0, 2.0, 3.0):
        case("PairwiseDistance", [], {"p": p}, [values(2, 3), values(2, 3)])
    case("PairwiseDistance", [], {"p": 2.0, "eps": 0.5, "keepdim": True}, [values(3), values(2, 3)])


def images():
    case("PixelShuffle", [2], {}, [values(2, 8, 2, 3)])
    case("PixelShuffle", [3], {}, [values(9, 1, 2)])
    case("PixelUnshuffle", [2], {}, [values(2, 2, 4, 2)])
    case("PixelUnshuffle", [2], {}, [values(1, 2, 4)])
    case("ChannelShuffle", [3], {}, [values(2, 6, 2)])
    case("ChannelShuffle", [2], {}, [values(1, 4, 2, 2)])
    for options in ({"scale_factor": 2.0}, {"size": 3}, {"scale_factor": 1.5, "mode": "linear"}, {"size": 5, "mode": "linear", "align_corners": True}):
        case("Upsample", [], options, [values(1, 2, 4)])
    for options in ({"scale_factor": 1.5, "mode": "bilinear"}, {"size": 5, "mode": "bicubic", "align_corners": True}):
        case("Upsample", [], options, [values(1, 1, 3, 4)])
    case("Upsample", [], {"scale_factor": 2.0, "mode": "trilinear"}, [values(1, 1, 2, 2, 2)])
    case("Unfold", [2], {}, [values(2, 2, 3, 4)])
    case("Unfold", [[2, 3]], {"dilation": 2, "padding": [1, 2], "stride": [2, 1]}, [values(2, 5, 4)])
    case("Fold", [[3, 4], 2], {}, [values(2, 8, 6)])
    case("Fold", [[5, 4], [2, 3]], {"dilation": 2, "padding": [1, 2], "stride": [2, 1]}, [values(12, 12)])
    # Windows that overlap write one element several times, so that the order does not matter.
    torch.use_deterministic_algorithms(False)
    for n in (1, 2, 3):
        size = [5, 5, 3][:n]
        for kernel, options in ((2, {}), (2, {"stride": 1}), (3, {"stride": 2, "padding": 1})):
            pool = getattr(torch.nn.functional, f"max_pool{n}d")
            y, indices = pool(values(1, 1, *size), kernel, **options, return_indices=True)
            case(f"MaxUnpool{n}d", [kernel], options, [y, indices], call={} if options else {"output_size": size})
    torch.use_deterministic_algorithms(True)


def keys_and_values():
    """Attention to more than the given keys."""
    masks = ("key_padding_mask", "attn_mask")
    padding = torch.tensor([[False, False, True], [False, True, False]])
    for call in ({}, {"need_weights": False}, {"average_attn_weights": False}):
        for options in ({"add_bias_kv": True}, {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True}):
            case("MultiheadAttention", [4, 2], options, [values(4, 2, 4), values(3, 2, 4), values(3, 2, 4), None, None], call=call, masks=masks)
            options = options | {"batch_first": True, "kdim": 3, "vdim": 2, "bias": False}
            case("MultiheadAttention", [4, 2], options, [values(2, 4, 4), values(2, 3, 3), values(2, 3, 2), padding, values(4, 4, 3)], call=call, masks=masks)


def transformers():
    masks = ("src_mask", "tgt_mask", "memory_mask", "src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask")
    none = [None] * 6
    causal = torch.nn.Transformer.generate_square_subsequent_mask(3).isinf()
    source_padding = torch.tensor([[False, True], [False, False]])
    padding = torch.tensor([[False, False, True], [False, True, False]])
    case("Transformer", [4, 2, 1, 2, 3], {"dropout": 0.0}, [values(2, 2, 4), values(3, 2, 4)] + none, masks=masks)
    case("Transformer", [4, 2, 2, 1, 3], {}, [values(2, 4), values(3, 4), values(2, 2), causal, values(3, 2), None, None, None], train=False, masks=masks)
    options = {"dropout": 0.0, "norm_first": True, "batch_first": True, "bias": False, "activation": "gelu", "layer_norm_eps": 1e-3}
    inputs = [values(2, 2, 4), values(2, 3, 4), None, causal, None, source_padding, padding, source_padding]
    case("Transformer", [4, 2, 1, 1, 3], options, inputs, masks=masks)


def power_pools():
    for n in (1, 2, 3):
        size = [7, 5, 4][:n]
        case(f"LPPool{n}d", [2.0, 2], {}, [values(1, 2, *size)])
        case(f"LPPool{n}d", [1.5, 3], {"stride": 2, "ceil_mode": True}, [values(2, *size).abs()])
        # Negative sums and windows of zeros give NaN.
        case(f"LPPool{n}d", [3.0, 3 if n == 1 else [3, 2, 2][:n]], {"stride": 1}, [values(1, 1, *size)])
        case(f"LPPool{n}d", [2.0, 2], {}, [values(1, 2, *size).clamp(min=0).floor()])


def table_options():
    x = torch.tensor([[1, 2, 1], [4, 1, 3]])
    for p in (2.0, 1.0, 3.5):
        case("Embedding", [5, 3], {"max_norm": 0.75, "norm_type": p} if p != 2.0 else {"max_norm": 0.75}, [x])
    case("Embedding", [5, 3], {"max_norm": 100.0, "padding_idx": 4}, [x])
    case("Embedding", [5, 3], {"scale_grad_by_freq": True}, [x])
    case("Embedding", [5, 3], {"scale_grad_by_freq": True, "padding_idx": 1, "max_norm": 0.5}, [x])


def packed(name, args, options, x, state, lengths, call):
    """A recurrent network over packed sequences, from padded ones to padded ones."""
    module = getattr(torch.nn, name)(*args, **options).double()
    randomize(module)
    x, *state = [t.clone().requires_grad_(True) if t is not None else None for t in [x] + state]
    batch_first = options.get("batch_first", False)

    def run():
        sequences = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first, call["enforce_sorted"])
        y, last = module(sequences, *nested([sequences] + state, name == "LSTM")[1:])
        pad = {k: v for k, v in call.items() if k != "enforce_sorted"}
        return torch.nn.utils.rnn.pad_packed_sequence(y, batch_first, **pad)[0], last

    record({"module": name, "args": args, "options": options, "call": call | {"lengths": lengths}}, module, [x] + state, run)


def packed_sequences():
    for name in ("RNN", "GRU", "LSTM"):
        none = [None] * (2 if name == "LSTM" else 1)
        state = lambda *shape: [values(*shape) for _ in none]
        packed(name, [3, 2], {}, values(4, 3, 3), none, [4, 2, 1], {"enforce_sorted": True})
        packed(name, [3, 2], {}, values(4, 3, 3), state(1, 3, 2), [1, 4, 2], {"enforce_sorted": False, "padding_value": -0.5, "total_length": 6})
        options = {"num_layers": 2, "bidirectional": True, "batch_first": True, "bias": False}
        packed(name, [3, 2], options, values(4, 5, 3), state(4, 4, 2), [2, 4, 4, 1], {"enforce_sorted": False})
        packed(name, [3, 2], {"bidirectional": True}, values(2, 3, 3), state(2, 3, 2), [2, 2, 2], {"enforce_sorted": True})
    packed("RNN", [3, 2], {"nonlinearity": "relu", "num_layers": 2}, values(3, 2, 3), [None], [3, 1], {"enforce_sorted": True})
    options = {"proj_size": 2, "num_layers": 2, "bidirectional": True}
    packed("LSTM", [3, 3], options, values(4, 3, 3), [values(4, 3, 2), values(4, 3, 3)], [1, 2, 4], {"enforce_sorted": False})


def language_models():
    for options in ({}, {"halves": True}, {"base": 500000.0, "position_scaling": 4.0}, {"base_scaling": 8.0, "halves": True}):
        case("RotaryEmbedding", [6], options, [values(5, 6)])
        case("RotaryEmbedding", [4], options, [values(2, 3, 4, 6)], call={"start": 1000})
    case("SwiGLU", [4, 6], {}, [values(2, 3, 4)])
    case("SwiGLU", [3, 2], {"bias": True}, [values(3)])
    masks = ("mask",)
    case("GroupedQueryAttention", [8, 4, 2], {}, [values(2, 5, 8), None], masks=masks)
    case("GroupedQueryAttention", [8, 4, 1], {"bias": True, "rotary": 2}, [values(5, 8), None], masks=masks)
    case("GroupedQueryAttention", [6, 2, 2], {"head_dim": 4, "rotary": 4}, [values(2, 4, 6), None], masks=masks)
    case("GroupedQueryAttention", [8, 4, 2], {"is_causal": False}, [values(2, 3, 8), values(2, 1, 3, 3)], masks=masks)
    seen = torch.tensor([[True, False, True], [True, True, False], [False, True, True]])
    case("GroupedQueryAttention", [8, 4, 2], {"is_causal": False, "rotary": 2}, [values(2, 3, 8), seen], masks=masks)


FAMILIES = [
    convolutions, pools, paddings, shapes, norms, recurrent, attention, dropouts, tables, pairs, images, decoders, keys_and_values, transformers,
    power_pools, table_options, packed_sequences, language_models,
]

if __name__ == "__main__":
    torch.manual_seed(0)
    for i, family in enumerate(FAMILIES):
        # One family more changes no other.
        rng = np.random.default_rng(20251123 + i)
        family()
    write(sys.argv[1], sys.argv[2])
