#!/usr/bin/env python3
"""Write what llama.cpp computes with a small model of each architecture, as JSON lines that hold no weights.

    python tools/oracle/llama_archs.py decoders crates/rustorch-llm/tests/fixtures/architectures.jsonl [NAME...]
    python tools/oracle/llama_archs.py encoders crates/rustorch-llm/tests/fixtures/encoders.jsonl [NAME...]

Needs `pip install llama-cpp-python==0.3.36 gguf numpy`. With names only these lines are made anew. The metadata of each model is in `archs/`; llama.cpp
derives names and shapes of its tensors from it (`llama_model_init_from_user`), of which those stay that the converter writes, and `archs/weights.py`
fills them (`embedding` is the reach of the embedding table). llama.cpp loads the file that gguf-py writes of all this. A line is

    {"name", "metadata", "embedding", "tensors", ..} and of decoders {"prompt", "forced", "logits", "last_logits", "best", "margins", "greedy", "greedy_margins", "copies"}

`logits` follow `prompt`, `last_logits` also `forced` (base64 of little-endian f32). `best` are the ids of the largest logits after the prompt and after each
forced id, `margins` how far the second is behind, in parts of the logits' range; `greedy` and `greedy_margins` the same for 32 ids at temperature 0.
`copies` has ids and margins of the f16 and quantized copies that `llama_model_quantize` makes, and `kept`, the matrices that it leaves in another type.
Rounding of activations there makes much of little: a margin that is smaller than what the neighbours of every norm's results in f32 do to it is written as 0.
Decoded on the CPU by one thread, all tokens one by one; keys and values are f32, but those of copies f16, as is llama.cpp's default. llama.cpp takes GELU from
a table of f16 values, and one value that falls into another place of it moves logits by 1e-4 of their range: so far differ its own logits of one model when the
same tokens come in batches. So GELU is computed exactly here, but for copies, and `exact_gelu` says that there was one. Of encoders it is {"ids", "hidden", "pooled"}: the last hidden states of `ids` (base64, a row each), and
what `pooling_type` makes of them, a vector or scores; all ids in one batch, keys and values in f32, and GELU exact. Their `copies` have `kept`, `pooled`, rounded as llama.cpp does by
default, and `noise`: how far, in parts of the vector's range, that moves where the neighbours of all norms' results in f32 are taken.
"""

import base64
import ctypes
import json
import multiprocessing
import os
import re
import sys
import tempfile
from pathlib import Path

import gguf
import llama_cpp as L
import numpy as np

from archs import ENCODERS, TABLES
from archs.weights import splitmix64, fnv1a, tensor

PROMPT, FORCED, GREEDY, VOCABULARY = 24, 48, 32, 128
# Types of copies, and whether all matrices get them.
ENCODER_COPIES = ("F16", "Q8_0")
COPIES = {"F16": (L.LLAMA_FTYPE_MOSTLY_F16, True), "Q8_0": (L.LLAMA_FTYPE_MOSTLY_Q8_0, True), "MXFP4": (L.LLAMA_FTYPE_MOSTLY_MXFP4_MOE, False)}


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def log(level, text, data):
    if level == 4 or os.environ.get("LLAMA_LOG"):
        sys.stderr.write(text.decode(errors="replace"))


def write(path, metadata, tensors, embedding=0):
    """A GGUF file; values of metadata are u32, f32, bool, strings, and arrays of i32, f32 or bool."""
    kind = gguf.GGUFValueType
    types = {bool: (kind.BOOL, kind.BOOL), int: (kind.UINT32, kind.INT32), float: (kind.FLOAT32, kind.FLOAT32), str: (kind.STRING, kind.STRING)}
    writer = gguf.GGUFWriter(path, metadata["general.architecture"])
    for key, value in metadata.items():
        if isinstance(value, list):
            writer.add_key_value(key, value, kind.ARRAY, types[type(value[0])][1])
        elif key != "general.architecture":
            writer.add_key_value(key, value, types[type(value)][0])
    for name, shape in tensors.items():
        writer.add_tensor(name, tensor(name, shape, embedding))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class GgufInit(ctypes.Structure):
    _fields_ = [("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p)]


def derive(path):
    """Names and shapes (outermost first) of the tensors that llama.cpp makes for the metadata of a file."""
    ggml = ctypes.CDLL(next(Path(L.__file__).parent.glob("lib/libggml-base.so")))
    ggml.gguf_init_from_file.restype = ctypes.c_void_p
    ggml.gguf_init_from_file.argtypes = [ctypes.c_char_p, GgufInit]
    ggml.ggml_get_name.restype = ctypes.c_char_p
    ggml.ggml_get_name.argtypes = ggml.ggml_n_dims.argtypes = [ctypes.c_void_p]
    shapes = {}

    @L.llama_model_set_tensor_data_t
    def note(pointer, _):
        # `struct ggml_tensor`: type, buffer, then ne[4].
        sizes = (ctypes.c_int64 * 4).from_address(pointer + 16)
        shapes[ggml.ggml_get_name(pointer).decode()] = list(sizes[: ggml.ggml_n_dims(pointer)])[::-1]

    metadata = ggml.gguf_init_from_file(str(path).encode(), GgufInit(True, None))
    if not L.llama_model_init_from_user(metadata, note, None, L.llama_model_default_params()):
        raise SystemExit("llama.cpp makes no model of the metadata")
    return shapes


def fuse(shapes, parts, whole):
    """Replaces matrices of one input, or their biases, by one that has the rows of all."""
    first = re.compile(rf"(.*\b){parts[0]}\.(weight|bias)$")
    fused = {}
    for name, shape in shapes.items():
        match = first.match(name)
        if match:
            rows = [shapes[other] for part in parts if (other := f"{match[1]}{part}.{match[2]}") in shapes]
            axis = len(shape) - (2 if match[2] == "weight" else 1)
            fused[f"{match[1]}{whole}.{match[2]}"] = shape[:axis] + [sum(r[axis] for r in rows)] + shape[axis + 1 :]
        elif not re.search(rf"\b({'|'.join(parts[1:])})\.(weight|bias)$", name):
            fused[name] = shape
    return fused


def split(shapes, whole, parts):
    """The reverse of `fuse` for parts of equally many rows."""
    out = {}
    for name, shape in shapes.items():
        if re.search(rf"\b{whole}\.weight$", name):
            for part in parts:
                out[name.replace(whole, part)] = shape[:-2] + [shape[-2] // len(parts), shape[-1]]
        else:
            out[name] = shape
    return out


def unstack(shapes, blocks):
    """Makes of the experts of some blocks one network, without router."""
    out = {}
    for name, shape in shapes.items():
        match = re.match(r"blk\.(\d+)\.(ffn_.*)", name)
        if match and int(match[1]) in blocks and "_exps." in name:
            out[name.replace("_exps.", ".")] = shape[1:]
        elif not (match and int(match[1]) in blocks and "ffn_gate_inp" in name):
            out[name] = shape
    return out


class Nodes:
    """A callback of a context that sees each node of its graphs before and after it is computed, and may change the values of those that `kinds` names."""

    kinds = ()

    def __init__(self):
        self.ggml = ctypes.CDLL(next(Path(L.__file__).parent.glob("lib/libggml-base.so")))
        self.ggml.ggml_op_desc.restype, self.ggml.ggml_op_desc.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
        self.callback = L.ggml_backend_sched_eval_callback(self.node)

    def node(self, pointer, before, _):
        pointer = ctypes.cast(pointer, ctypes.c_void_p).value
        kind = self.ggml.ggml_op_desc(pointer).decode()
        if kind in self.kinds:
            if before:
                sources = [s for s in (ctypes.c_void_p * 2).from_address(pointer + 152) if s]
                self.before(kind, [self.view(s) for s in sources])
            else:
                self.after(self.view(pointer))
        return True

    def before(self, kind, sources):
        """To note what will be overwritten."""

    def view(self, pointer):
        """The values of a `struct ggml_tensor` of f32: type, buffer, ne[4], nb[4], op, op_params, flags, src[10], view_src, view_offs, data."""
        sizes = (ctypes.c_int64 * 4).from_address(pointer + 16)[::-1]
        strides = (ctypes.c_size_t * 4).from_address(pointer + 48)[::-1]
        data = ctypes.c_void_p.from_address(pointer + 248).value
        base = np.ctypeslib.as_array((ctypes.c_float * 1).from_address(data))
        return np.lib.stride_tricks.as_strided(base, sizes, strides)


class ExactGelu(Nodes):
    """Computes each GELU anew, in f64, in place of llama.cpp's table of f16 values."""

    kinds = ("GELU", "GEGLU")
    used = False

    def before(self, kind, sources):
        x, *up = sources
        if kind == "GEGLU" and not up:
            x, *up = np.split(x, 2, axis=-1)
        x = x.astype(np.float64)
        values = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * x * (1 + 0.044715 * x * x)))
        self.values = values.astype(np.float32) * (up[0] if up else np.float32(1))
        self.used = True

    def after(self, view):
        view[...] = self.values


class NudgedNorms(Nodes):
    """Moves the results of norms to the next f32, up or down."""

    kinds = ("RMS_NORM", "NORM")

    def __init__(self, towards):
        super().__init__()
        self.towards = np.float32(towards)

    def after(self, view):
        view[...] = np.nextafter(view, self.towards)


class Context:
    """A model of a file, and one sequence; `f32` keeps keys and values unrounded."""

    def __init__(self, path, f32=False, nodes=None):
        self.model = L.llama_model_load_from_file(str(path).encode(), L.llama_model_default_params())
        if not self.model:
            raise SystemExit("llama.cpp does not load the file")
        params = L.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_threads, params.n_threads_batch = 128, 64, 64, 1, 1
        if f32:
            params.type_k = params.type_v = int(gguf.GGMLQuantizationType.F32)
            params.flash_attn_type = L.LLAMA_FLASH_ATTN_TYPE_DISABLED
        if nodes:
            params.cb_eval = nodes.callback
        self.context = L.llama_init_from_model(self.model, params)
        self.vocabulary = L.llama_vocab_n_tokens(L.llama_model_get_vocab(self.model))
        self.position = 0

    def restart(self):
        L.llama_memory_clear(L.llama_get_memory(self.context), True)
        self.position = 0

    def feed(self, ids):
        """The logits after each of `ids`."""
        rows = []
        for token in ids:
            batch = L.llama_batch_init(1, 0, 1)
            batch.n_tokens, batch.token[0], batch.pos[0] = 1, token, self.position
            batch.n_seq_id[0], batch.seq_id[0][0], batch.logits[0] = 1, 0, 1
            status = L.llama_decode(self.context, batch)
            L.llama_batch_free(batch)
            if status:
                raise SystemExit(f"llama_decode answers {status}")
            rows.append(np.ctypeslib.as_array(L.llama_get_logits_ith(self.context, -1), (self.vocabulary,)).copy())
            self.position += 1
        return rows


def margin(logits):
    second, best = np.sort(logits)[-2:]
    value = float((best - second) / (logits.max() - logits.min()))
    if not np.isfinite(value):
        raise SystemExit("logits are not finite")
    return float(f"{value:.3g}")


def ids_of(context, prompt, forced):
    """What is compared of a model: logits, and ids with margins."""
    first = context.feed(prompt)[-1]
    rows = [first] + context.feed(forced)
    out = {"best": [int(r.argmax()) for r in rows], "margins": [margin(r) for r in rows]}
    context.restart()
    last, greedy, margins = context.feed(prompt)[-1], [], []
    for _ in range(GREEDY):
        greedy.append(int(last.argmax()))
        margins.append(margin(last))
        rows.append(last)
        last = context.feed(greedy[-1:])[-1]
    return rows, out | {"greedy": greedy, "greedy_margins": margins}


def without_noise(path, prompt, forced, rows, ids):
    """`ids` with margins of 0 where nudged norms move the logits by half the margin or more."""
    kept = np.array(ids["margins"] + ids["greedy_margins"])
    for towards in (np.inf, -np.inf):
        nodes = NudgedNorms(towards)
        context = Context(path, nodes=nodes)
        moved = context.feed(prompt + forced)[len(prompt) - 1 :]
        context.restart()
        moved += context.feed(prompt + ids["greedy"][:-1])[len(prompt) - 1 :]
        by = np.array([np.abs(a - b).max() / (a.max() - a.min()) for a, b in zip(rows, moved, strict=True)])
        kept[2 * by >= kept] = 0
    kept = kept.tolist()
    return ids | {"margins": kept[: len(forced) + 1], "greedy_margins": kept[len(forced) + 1 :]}


def quantize(path, target, kind):
    """Makes a copy in another type; gives the matrices that are left in others."""
    params = L.llama_model_quantize_default_params()
    (params.ftype, params.pure), params.nthread = COPIES[kind], 1
    if L.llama_model_quantize(str(path).encode(), str(target).encode(), ctypes.byref(params)):
        raise SystemExit(f"llama_model_quantize makes no {kind} of the file")
    kept = {}
    for t in gguf.GGUFReader(target).tensors:
        if len(t.shape) > 1:
            kept.setdefault(t.tensor_type.name, set()).add(re.sub(r"^blk\.\d+\.", "", t.name))
    kept.pop(kind)
    return {k: sorted(v) for k, v in sorted(kept.items())}


def copy(path, target, kind, prompt, forced):
    """Ids of a copy in another type."""
    kept = quantize(path, target, kind)
    ids = without_noise(target, prompt, forced, *ids_of(Context(target), prompt, forced))
    return {"kept": kept} | ids


def base(logits):
    return base64.b64encode(logits.astype("<f4").tobytes()).decode()


def ids_for(name, count):
    return [value % VOCABULARY for value in splitmix64(fnv1a(name), count).tolist()]


def make(path, arch, table):
    """Writes the file of a table; returns what describes it."""
    metadata = {"general.architecture": arch} | {
        key if key.startswith("tokenizer.") else f"{arch}.{key}": value for key, value in table["metadata"].items()
    }
    write(path, metadata, {})
    shapes = derive(path)
    for whole, parts in table.get("split", {}).items():
        shapes = split(shapes, whole, parts)
    for whole, parts in table.get("fuse", {}).items():
        shapes = fuse(shapes, parts, whole)
    shapes = unstack(shapes, table.get("dense", []))
    drop, keep = ("|".join(table.get(key, []) or ["$^"]) for key in ("drop", "keep"))
    shapes = {n: s for n, s in shapes.items() if re.search(keep, n) or not re.search(drop, n)}
    embedding = table["embedding"] or (2.0 if "output.weight" in shapes else 0.5)
    write(path, metadata, shapes, embedding)
    return {"metadata": metadata, "embedding": embedding, "tensors": shapes}


def decoder(name, table):
    ids = ids_for(name, PROMPT + FORCED)
    prompt, forced = ids[:PROMPT], ids[PROMPT:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.gguf"
        model = make(path, table["arch"], table)
        gelu = ExactGelu()
        rows, ids = ids_of(Context(path, f32=True, nodes=gelu), prompt, forced)
        exact = {"exact_gelu": True} if gelu.used else {}
        copies = {}
        for kind in table.get("copies", ["F16", "Q8_0"]):
            copies[kind] = copy(path, Path(folder) / f"{name}-{kind}.gguf", kind, prompt, forced)
    logits = {"logits": base(rows[0]), "last_logits": base(rows[FORCED])}
    return {"name": name} | model | {"prompt": prompt, "forced": forced} | exact | logits | ids | {"copies": copies}


def embeddings(path, ids, pooling, f32=False, nodes=None):
    """Hidden states of all ids, or with the model's own `pooling` what that makes of them; `f32` keeps keys and values unrounded."""
    model = L.llama_model_load_from_file(str(path).encode(), L.llama_model_default_params())
    if not model:
        raise SystemExit("llama.cpp does not load the file")
    params = L.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch, params.n_threads, params.n_threads_batch = 128, 64, 64, 1, 1
    if f32:
        params.type_k = params.type_v = int(gguf.GGMLQuantizationType.F32)
        params.flash_attn_type = L.LLAMA_FLASH_ATTN_TYPE_DISABLED
    if nodes:
        params.cb_eval = nodes.callback
    params.embeddings, params.pooling_type = True, L.LLAMA_POOLING_TYPE_UNSPECIFIED if pooling else L.LLAMA_POOLING_TYPE_NONE
    context = L.llama_init_from_model(model, params)
    batch = L.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, 1
    if L.llama_decode(context, batch):
        raise SystemExit("llama_decode fails")
    if not pooling:
        return np.stack([np.ctypeslib.as_array(L.llama_get_embeddings_ith(context, i), (L.llama_model_n_embd(model),)) for i in range(len(ids))])
    rank = L.llama_pooling_type(context) == L.LLAMA_POOLING_TYPE_RANK
    width = L.llama_model_n_cls_out(model) if rank else L.llama_model_n_embd_out(model)
    return np.ctypeslib.as_array(L.llama_get_embeddings_seq(context, 0), (width,)).copy()


def vectors(path, target, kind, ids):
    """What a copy of an encoder in another type gives."""
    kept = quantize(path, target, kind)
    pooled = embeddings(target, ids, True)
    moved = [embeddings(target, ids, True, nodes=NudgedNorms(towards)) for towards in (np.inf, -np.inf)]
    reach = float(np.ptp(pooled)) if len(pooled) > 1 else 1.0
    noise = max(float(np.abs(other - pooled).max()) for other in moved) / reach
    return {"kept": kept, "pooled": base(pooled), "noise": float(f"{noise:.3g}")}


def encoder(name, table):
    ids = ids_for(name, PROMPT)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.gguf"
        model = make(path, table["arch"], table)
        hidden, pooled = (embeddings(path, ids, pooling, f32=True, nodes=ExactGelu()) for pooling in (False, True))
        copies = {kind: vectors(path, Path(folder) / f"{name}-{kind}.gguf", kind, ids) for kind in ENCODER_COPIES}
    if not (np.isfinite(hidden).all() and np.isfinite(pooled).all()):
        raise SystemExit("hidden states are not finite")
    return {"name": name} | model | {"ids": ids, "hidden": base(hidden), "pooled": base(pooled), "copies": copies}


KINDS = {"decoders": (TABLES, decoder), "encoders": (ENCODERS, encoder)}


def child(kind, name, connection):
    os.environ["GGML_NO_BACKTRACE"] = "1"
    L.llama_log_set(log, ctypes.c_void_p(0))
    L.llama_backend_init()
    tables, line = KINDS[kind]
    connection.send(json.dumps(line(name, tables[name]), separators=(",", ":")))


def run(kind, name):
    """A line, by a process of its own: ggml aborts where a shape is impossible."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=child, args=(kind, name, sender))
    process.start()
    sender.close()
    try:
        text = receiver.recv()
    except EOFError:
        text = None
    process.join()
    return text


def report(text):
    """What a person should look at: whether the ids differ, and follow more than the token before."""
    e = json.loads(text)
    if "pooled" in e:
        print(f"{e['name']:20} {len(text):6} bytes, pooled {len(e['pooled'])}")
        return
    counted = sum(m >= 2e-3 for m in e["margins"] + e["greedy_margins"])
    same = sum(a == b for a, b in zip(e["best"], e["prompt"][-1:] + e["forced"]))
    quant = {k: sum(m >= 2e-2 for m in c["margins"] + c["greedy_margins"]) for k, c in e["copies"].items()}
    print(f"{e['name']:20} {len(text):6} bytes, {counted} of {len(e['margins'] + e['greedy_margins'])} ids count, copies {quant}, "
          f"{len(set(e['best']))} and {len(set(e['greedy']))} different, {same} the token before; kept {list(e['copies'].values())[-1]['kept']}")


def main(kind, path, *names):
    path = Path(path)
    lines = {}
    if path.exists():
        lines = {json.loads(text)["name"]: text for text in path.read_text().splitlines()}
    failed = []
    for name in names or KINDS[kind][0]:
        text = run(kind, name)
        if text is None:
            failed.append(name)
        else:
            report(text)
            lines[name] = text
    path.write_text("".join(lines[name] + "\n" for name in KINDS[kind][0] if name in lines))
    if failed:
        raise SystemExit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main(*sys.argv[1:])
