#!/usr/bin/env python3
"""mlpackage_oracle: check and EVALUATE a Core ML ML-Program (.mlpackage) on Linux, no Apple runtime.

  mlpackage_oracle.py MODEL.mlpackage INPUTS.npz [-o OUT.npz] [--expect REF.npz --rtol R --atol A]
                      [--fp32] [--states STATES.npz] [--trace TRACE.npz] [--lint-only] [--function main]

How: the package is parsed with Apple's own protobuf classes, its weights with Apple's own MILBlob reader
(libmilstoragepython, shipped in the Linux wheel), and each operation is rebuilt through coremltools'
MIL builder. That already checks: op exists in the opset, parameter names, dtypes, const-ness, shapes, and
that declared output types equal the inferred ones. Every function input is replaced by a `const`, so
coremltools' numpy `value_inference` folds the program to numbers. Ops with no value_inference
(conv, pooling, batch norm, silu) get the numpy versions below, where we emit them; others fail.
State (`read_state`/`write_state`) is executed in program order. `--fp32` rewrites fp16 to fp32 first
(the exact answer, but for states, which stay rounded); without it fp16 ops run in numpy float16 (rounded per op).

Exit: 0 ok, 1 a lint, type or value error, 2 the program holds an op that cannot be evaluated.
Needs: requirements.txt beside it                    (tested: python 3.11, protobuf 7)
"""
import argparse, json, logging, math, os, re, struct, sys
import numpy as np

logging.disable(logging.WARNING)            # "Failed to load _MLModelProxy" off macOS
import coremltools as ct
from coremltools import proto, _OPSET
from coremltools.converters.mil.frontend.milproto import load as L
from coremltools.converters.mil.frontend.milproto.helper import proto_to_types
from coremltools.converters.mil._deployment_compatibility import AvailableTarget
from coremltools.converters.mil.mil import Builder as mb, Function, Program, types
from coremltools.converters.mil.mil.operation import Operation
from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

PB = proto.MIL_pb2
SPEC_DIR = "Data/com.apple.CoreML"

# ------------------------------------------------------------------ numpy ops coremltools lacks
def _v(var, default=None):
    return default if var is None or var.val is None else var.val

def _acc(a):                                  # accumulate fp16 in fp32, like the hardware does
    return a.astype(np.float32) if a.dtype == np.float16 else a

def _pads(pad_type, pad, in_sp, k, s, d):
    n = len(in_sp)
    if pad_type == "valid": return [(0, 0)] * n
    if pad_type == "custom": return [(int(pad[2 * i]), int(pad[2 * i + 1])) for i in range(n)]
    out = []
    for i in range(n):                        # same / same_lower
        eff = (k[i] - 1) * d[i] + 1
        tot = max((math.ceil(in_sp[i] / s[i]) - 1) * s[i] + eff - in_sp[i], 0)
        lo = tot // 2 if pad_type == "same" else tot - tot // 2
        out.append((lo, tot - lo))
    return out

def _windows(xp, k, s, d, out_sp):
    """[n,c,*sp] -> [n,c,*out_sp,*k], a strided view."""
    n, c = xp.shape[:2]; st = xp.strides
    return np.lib.stride_tricks.as_strided(
        xp, (n, c, *out_sp, *k),
        (st[0], st[1], *[st[2 + i] * s[i] for i in range(len(k))], *[st[2 + i] * d[i] for i in range(len(k))]))

def _conv(self):
    x, w = _v(self.x), _v(self.weight)
    if x is None or w is None: return None
    n = x.ndim - 2; k = w.shape[2:]
    s = [int(i) for i in _v(self.strides, [1] * n)]; d = [int(i) for i in _v(self.dilations, [1] * n)]
    g = int(_v(self.groups, 1)); pads = _pads(_v(self.pad_type, "valid"), _v(self.pad), x.shape[2:], k, s, d)
    xp = np.pad(_acc(x), [(0, 0), (0, 0)] + pads)
    out_sp = [(xp.shape[2 + i] - (k[i] - 1) * d[i] - 1) // s[i] + 1 for i in range(n)]
    win = _windows(np.ascontiguousarray(xp), k, s, d, out_sp)
    ci, co = x.shape[1] // g, w.shape[0] // g
    ax_w = [1] + [2 + n + i for i in range(n)]; outs = []
    for gi in range(g):
        y = np.tensordot(win[:, gi * ci:(gi + 1) * ci], _acc(w[gi * co:(gi + 1) * co]), (ax_w, [1] + [2 + i for i in range(n)]))
        outs.append(np.moveaxis(y, -1, 1))
    y = np.concatenate(outs, 1)
    if _v(self.bias) is not None: y = y + _acc(_v(self.bias)).reshape(1, -1, *[1] * n)
    return y.astype(x.dtype)

def _conv_transpose(self):
    x, w = _v(self.x), _v(self.weight)
    if x is None or w is None: return None
    n = x.ndim - 2; k = w.shape[2:]
    s = [int(i) for i in _v(self.strides, [1] * n)]; d = [int(i) for i in _v(self.dilations, [1] * n)]
    g = int(_v(self.groups, 1)); co = w.shape[1]; ci = x.shape[1] // g
    full = [(x.shape[2 + i] - 1) * s[i] + (k[i] - 1) * d[i] + 1 for i in range(n)]
    y = np.zeros((x.shape[0], co * g, *full), _acc(x).dtype)
    for gi in range(g):
        xg, wg = _acc(x[:, gi * ci:(gi + 1) * ci]), _acc(w[gi * ci:(gi + 1) * ci])
        for kk in np.ndindex(*k):
            sl = tuple(slice(kk[i] * d[i], kk[i] * d[i] + (x.shape[2 + i] - 1) * s[i] + 1, s[i]) for i in range(n))
            y[(slice(None), slice(gi * co, (gi + 1) * co)) + sl] += np.moveaxis(np.tensordot(xg, wg[(slice(None), slice(None)) + kk], ([1], [0])), -1, 1)
    want = self.outputs[0].shape if self._output_vars else self.type_inference().get_shape()
    pt = _v(self.pad_type, "valid")
    for i in range(n):
        lo = int(_v(self.pad)[2 * i]) if pt == "custom" else (0 if pt == "valid" else (full[i] - want[2 + i]) // 2)
        need = lo + want[2 + i]
        if need > y.shape[2 + i]: y = np.pad(y, [(0, need - y.shape[a]) if a == 2 + i else (0, 0) for a in range(y.ndim)])
        y = np.take(y, range(lo, need), 2 + i)
    if _v(self.bias) is not None: y = y + _acc(_v(self.bias)).reshape(1, -1, *[1] * n)
    return y.astype(x.dtype)

def _pool(kind):
    def f(self):
        x = _v(self.x)
        if x is None: return None
        n = x.ndim - 2; k = [int(i) for i in self.kernel_sizes.val]; s = [int(i) for i in _v(self.strides, [1] * n)]
        pads = _pads(self.pad_type.val, _v(self.pad, [0] * 2 * n), x.shape[2:], k, s, [1] * n)
        want = self.type_inference().get_shape()[2:]
        ext = [max((want[i] - 1) * s[i] + k[i] - (x.shape[2 + i] + sum(pads[i])), 0) for i in range(n)]  # ceil_mode tail
        full = [(0, 0), (0, 0)] + [(p[0], p[1] + e) for p, e in zip(pads, ext)]
        fill = -np.inf if kind == "max" else 0
        win = _windows(np.ascontiguousarray(np.pad(_acc(x), full, constant_values=fill)), k, s, [1] * n, want)
        ax = tuple(range(2 + n, 2 + 2 * n))
        if kind == "max": y = win.max(ax)
        else:
            ones = np.ones((1, 1, *x.shape[2:]), np.float32)
            if not _v(self.exclude_padding_from_average, False): ones = np.pad(ones, [(0, 0), (0, 0)] + pads, constant_values=1); o = ones; oe = [(0, 0), (0, 0)] + [(0, e) for e in ext]
            else: o = ones; oe = full
            cnt = _windows(np.ascontiguousarray(np.pad(o, oe)), k, s, [1] * n, want).sum(ax)
            y = win.sum(ax) / cnt
        return y.astype(x.dtype)
    return f

def _batch_norm(self):
    x = _v(self.x)
    if x is None: return None
    sh = (1, -1) + (1,) * (x.ndim - 2); r = lambda a: _acc(np.asarray(a)).reshape(sh)
    y = (_acc(x) - r(self.mean.val)) / np.sqrt(r(self.variance.val) + np.float32(_v(self.epsilon, 1e-5)))
    if _v(self.gamma) is not None: y = y * r(self.gamma.val)
    if _v(self.beta) is not None: y = y + r(self.beta.val)
    return y.astype(x.dtype)

def _silu(self):
    x = _v(self.x)
    if x is None: return None
    a = _acc(x); return (a / (1 + np.exp(-a))).astype(x.dtype)

def _materialized(self): return self.materialized_val_inference()

def _fix_numpy_bool():
    """numpy>=2.4 refuses np.bool_ for keepdims=...; coremltools 9.0 stores scalars as np.bool_."""
    from coremltools.converters.mil.mil.var import Var
    old = Var.val.fget
    Var.val = property(lambda self: bool(v) if isinstance(v := old(self), np.bool_) else v)

# `test_evaluators.py` compares each with ONNX Runtime.
EXTRA = dict(conv=_conv, conv_transpose=_conv_transpose, max_pool=_pool("max"), avg_pool=_pool("avg"), batch_norm=_batch_norm, silu=_silu)

def install_extra():
    """Give every op class that lacks value_inference one; return names that still cannot be evaluated."""
    _fix_numpy_bool(); missing = set()
    for name, versions in SSAOpRegistry.core_ops.items():
        for cls in versions.values():
            if cls.value_inference is not Operation.value_inference: continue
            if hasattr(cls, "materialized_val_inference"): cls.value_inference = _materialized
            elif name in EXTRA: cls.value_inference = EXTRA[name]
            else: missing.add(name)
    return missing - {"read_state"}

# ------------------------------------------------------------------ package reading and lint
IDENT = re.compile(r"[A-Za-z_][A-Za-z0-9_@]*$")

def read_package(path):
    spec_path, wdir, errs = path, "", []
    if os.path.isdir(path):
        man = json.load(open(os.path.join(path, "Manifest.json")))
        ents = man.get("itemInfoEntries", {}); root = man.get("rootModelIdentifier")
        if man.get("fileFormatVersion") != "1.0.0": errs.append("Manifest: fileFormatVersion must be 1.0.0")
        if root not in ents: errs.append("Manifest: rootModelIdentifier names no itemInfoEntries key")
        for e in ents.values():
            miss = {"path", "name", "author", "description"} - set(e)
            if miss: errs.append(f"Manifest: entry lacks {sorted(miss)}")
            elif not os.path.exists(os.path.join(path, "Data", e["path"])): errs.append(f"Manifest: {e['path']} does not exist")
        spec_path = os.path.join(path, "Data", ents[root]["path"]); wdir = os.path.join(os.path.dirname(spec_path), "weights")
    m = proto.Model_pb2.Model(); m.ParseFromString(open(spec_path, "rb").read())
    return m, wdir, errs

def lint_blob(fn):
    """Walk a MILBlob v2 file: header(64) then {metadata(64), data} each 64-byte aligned."""
    errs, offs = [], set(); b = open(fn, "rb").read()
    count, ver = struct.unpack_from("<II", b, 0)
    if ver != 2: errs.append(f"{fn}: blob version {ver}, want 2")
    off = 64
    for i in range(count):
        off = (off + 63) // 64 * 64
        sent, dt, size, dofs, padbits = struct.unpack_from("<IIQQQ", b, off)
        if sent != 0xDEADBEEF: errs.append(f"{fn}: entry {i} at {off} has no sentinel"); break
        if dofs % 64 or dofs + size > len(b): errs.append(f"{fn}: entry {i} data at {dofs}+{size} misaligned or past the end")
        offs.add(off); off = dofs + size
    return errs, offs

def lint(m, wdir):
    errs = []; S = m.specificationVersion
    if m.WhichOneof("Type") != "mlProgram": return [f"not an ML Program: {m.WhichOneof('Type')}"]
    if S not in _OPSET or S < 6: errs.append(f"specificationVersion {S} cannot hold an ML Program (6..10)")
    blobs = {}
    for fn in sorted(os.listdir(wdir)) if os.path.isdir(wdir) else []:
        e, o = lint_blob(os.path.join(wdir, fn)); errs += e; blobs[fn] = o
    if m.mlProgram.version != 1: errs.append("Program.version must be 1")
    descs = {f.name: f for f in m.description.functions} or {"main": m.description}
    FT = proto.FeatureTypes_pb2.ArrayFeatureType
    dt = {FT.FLOAT32: (PB.FLOAT32, 6), FT.INT32: (PB.INT32, 6), FT.FLOAT16: (PB.FLOAT16, 7), FT.DOUBLE: (PB.FLOAT64, 99)}
    if "INT8" in FT.ArrayDataType.keys(): dt[FT.ArrayDataType.Value("INT8")] = (PB.INT8, 10)
    for name, f in m.mlProgram.functions.items():
        if f.opset not in f.block_specializations: errs.append(f"{name}: opset {f.opset} has no block"); continue
        if S in _OPSET and int(f.opset[6:]) > int(_OPSET[S][6:]): errs.append(f"{name}: opset {f.opset} needs more than specificationVersion {S}")
        blk = f.block_specializations[f.opset]; seen = {i.name for i in f.inputs}; produced = {}
        for n in seen:
            if not IDENT.match(n): errs.append(f"{name}: input name {n!r} is no identifier")
        for op in blk.operations:
            if "name" not in op.attributes: errs.append(f"{name}: a {op.type} op lacks the `name` attribute")
            for p, a in op.inputs.items():
                for bd in a.arguments:
                    if bd.WhichOneof("binding") == "name" and bd.name not in seen: errs.append(f"{name}: {op.type}.{p} uses {bd.name!r} before it is defined")
            for o in op.outputs:
                if not IDENT.match(o.name): errs.append(f"{name}: value name {o.name!r} is no identifier")
                if o.name in seen: errs.append(f"{name}: value {o.name!r} defined twice")
                if o.type.tensorType.rank > 5 and op.type != "const": errs.append(f"{name}: {o.name!r} has rank {o.type.tensorType.rank} > 5")
                seen.add(o.name); produced[o.name] = (op.type, o.type)
            for v in list(op.attributes.values()) + [bd.value for a in op.inputs.values() for bd in a.arguments if bd.WhichOneof("binding") == "value"]:
                if v.WhichOneof("value") == "blobFileValue":
                    fn, off = v.blobFileValue.fileName, v.blobFileValue.offset
                    if not fn.startswith("@model_path/weights/"): errs.append(f"{name}: blob path {fn!r} must start with @model_path/weights/")
                    if off not in blobs.get(fn.split("/")[-1], ()): errs.append(f"{name}: no blob metadata at {fn}:{off}")
        d = descs.get(name)
        if d is None: errs.append(f"{name}: no FunctionDescription"); continue
        fin = {i.name: i.type for i in f.inputs}; din = {i.name for i in d.input} | {s.name for s in d.state}
        if set(fin) != din: errs.append(f"{name}: description inputs {sorted(din)} differ from function inputs {sorted(fin)}")
        if [o.name for o in d.output] != list(blk.outputs): errs.append(f"{name}: description outputs {[o.name for o in d.output]} differ from block outputs {list(blk.outputs)}")
        if not blk.outputs: errs.append(f"{name}: no outputs")
        for o in blk.outputs:
            if o in fin: errs.append(f"{name}: output {o!r} is an input unchanged (insert `identity`)")
            elif produced.get(o, ("",))[0] == "const": errs.append(f"{name}: output {o!r} is a const")
        for feat in list(d.input) + list(d.output):
            if feat.type.WhichOneof("Type") != "multiArrayType": continue
            a = feat.type.multiArrayType; vt = fin.get(feat.name) or (produced.get(feat.name) or (None, None))[1]
            mil, minS = dt.get(a.dataType, (None, 99))
            if vt is not None and mil != vt.tensorType.dataType: errs.append(f"{name}: {feat.name!r} dtype in description and program differ")
            if S < minS: errs.append(f"{name}: {feat.name!r} dtype {FT.ArrayDataType.Name(a.dataType)} needs specificationVersion {minS}")
            if vt is not None and len(a.shape) and all(x.WhichOneof('dimension') == 'constant' for x in vt.tensorType.dimensions) and list(a.shape) != [x.constant.size for x in vt.tensorType.dimensions]:
                errs.append(f"{name}: {feat.name!r} shape in description and program differ")
    return errs

# ------------------------------------------------------------------ fp16 -> fp32 rewrite
def to_fp32(prog, ctx):
    def vt(t):
        k = t.WhichOneof("type")
        if k == "tensorType" and t.tensorType.dataType == PB.FLOAT16: t.tensorType.dataType = PB.FLOAT32
        elif k == "stateType": vt(t.stateType.wrappedType)
    def val(v):
        if v.type.WhichOneof("type") != "tensorType": return
        if v.type.tensorType.dataType == PB.FLOAT16:
            a = np.asarray(L._load_value(ctx, v), np.float32); v.type.tensorType.dataType = PB.FLOAT32
            v.immediateValue.Clear(); v.immediateValue.tensor.floats.values.extend(a.ravel().tolist())
        elif v.type.tensorType.dataType == PB.STRING and v.WhichOneof("value") == "immediateValue":
            s = v.immediateValue.tensor.strings.values
            for i in range(len(s)): s[i] = "fp32" if s[i] == "fp16" else s[i]
    def blk(b):
        for i in b.inputs: vt(i.type)
        for op in b.operations:
            for a in op.attributes.values(): val(a)
            for a in op.inputs.values():
                for bd in a.arguments:
                    if bd.WhichOneof("binding") == "value": val(bd.value)
            for o in op.outputs: vt(o.type)
            for bb in op.blocks: blk(bb)
    for f in prog.functions.values():
        for i in f.inputs: vt(i.type)
        for b in f.block_specializations.values(): blk(b)

# ------------------------------------------------------------------ evaluation
class Unevaluated(Exception): pass

def run_block(b, ctx, state, trace, fp32):
    name = lambda op, p: op.inputs[p].arguments[0].name
    for op in b.operations:
        if op.type == "read_state":
            ctx.register_var_with_name(op.outputs[0].name, mb.identity(x=state[name(op, "input")])); continue
        if op.type == "write_state":
            var = ctx.get_var_from_name(name(op, "data"))
            # A state is memory of fp16, whatever is computed in.
            state[name(op, "input")] = mb.const(val=var.val.astype(np.float16).astype(np.float32)) if fp32 else var; continue
        try: L._load_operation(ctx, op)
        except Exception as e:
            raise RuntimeError(f"op {op.type} -> {[o.name for o in op.outputs]}: {type(e).__name__}: {e}") from e
        for o in op.outputs:
            var = ctx.get_var_from_name(o.name); val = var.val
            if val is None: raise Unevaluated(f"op {op.type} -> {o.name!r} has no value (no value_inference for these arguments)")
            t = proto_to_types(o.type)
            if types.is_tensor(t):
                want = tuple(t.get_shape()); val = np.asarray(val); np_dt = types.nptype_from_builtin(t.get_primitive())
                if all(isinstance(d, (int, np.integer)) for d in want) and val.shape != want: raise RuntimeError(f"{o.name!r}: evaluated shape {val.shape}, declared {want}")
                if val.dtype != np_dt and val.dtype.kind == np.dtype(np_dt).kind:      # numpy promoted (fp16 + python float ...)
                    val = val.astype(np_dt); var._sym_val.val = val
                trace[o.name] = (op.type, val)

def evaluate(m, wdir, inputs, states=None, fn="main", fp32=False):
    ctx = L.TranscriptionContext(wdir)
    if fp32: to_fp32(m.mlProgram, ctx)
    f = m.mlProgram.functions[fn]; b = f.block_specializations[f.opset]; trace, state = {}, {}
    bind = {}
    for i in f.inputs:
        t = proto_to_types(i.type); st = types.is_state(t); t = t.wrapped_type() if st else t
        src = (states or {}) if st else inputs
        shape, dt = tuple(t.get_shape()), types.nptype_from_builtin(t.get_primitive())
        if i.name not in src:
            if not st: raise KeyError(f"input {i.name!r} {shape} {dt.__name__} is not in the npz (has {sorted(inputs)})")
            a = np.zeros(shape, dt)                                       # states start at zero
        else: a = np.asarray(src[i.name]).astype(dt)
        if len(a.shape) != len(shape) or any(isinstance(s, (int, np.integer)) and s != q for s, q in zip(shape, a.shape)):
            raise ValueError(f"input {i.name!r}: program wants {shape}, npz has {a.shape}")
        bind[i.name] = (a, st)
    with Function({}, opset_version=AvailableTarget(m.specificationVersion)):
        for n, (a, st) in bind.items():
            v = mb.const(val=a)
            if st: state[n] = v
            else: ctx.register_var_with_name(n, v)
        run_block(b, ctx, state, trace, fp32)
        outs = {o: np.asarray(ctx.get_var_from_name(o).val) for o in b.outputs}
        return outs, {n: np.asarray(v.val) for n, v in state.items()}, trace

def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model"); ap.add_argument("inputs", nargs="?"); ap.add_argument("-o", "--out"); ap.add_argument("--function", default="main")
    ap.add_argument("--expect"); ap.add_argument("--rtol", type=float, default=1e-4); ap.add_argument("--atol", type=float, default=1e-5)
    ap.add_argument("--fp32", action="store_true"); ap.add_argument("--states"); ap.add_argument("--trace"); ap.add_argument("--lint-only", action="store_true")
    a = ap.parse_args(); missing = install_extra()
    m, wdir, errs = read_package(a.model); errs += lint(m, wdir)
    for e in errs: print("LINT", e)
    if a.lint_only or not a.inputs: print("lint:", "FAILED" if errs else "ok", f"spec {m.specificationVersion}"); return 1 if errs else 0
    used = {op.type for f in m.mlProgram.functions.values() for b in f.block_specializations.values() for op in b.operations}
    if used & missing: print("note: no evaluator for", sorted(used & missing))
    try: outs, st, trace = evaluate(m, wdir, dict(np.load(a.inputs)), dict(np.load(a.states)) if a.states else None, a.function, a.fp32)
    except Unevaluated as e: print("UNEVALUATED", e); return 2
    except Exception as e: print("ERROR", type(e).__name__, e); return 1
    for n, v in outs.items(): print(f"output {n}: {v.dtype}{list(v.shape)} min {v.min():.6g} max {v.max():.6g} mean {v.astype(np.float64).mean():.6g}" if v.size else f"output {n}: empty")
    if a.out: np.savez(a.out, **outs, **{f"state:{n}": v for n, v in st.items()})
    if a.trace: np.savez(a.trace, **{n: v for n, (_, v) in trace.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fiub"})
    bad = bool(errs)
    if a.expect:
        for n, r in np.load(a.expect).items():
            got = outs.get(n) if not n.startswith("state:") else st.get(n[6:])
            if got is None: print(f"EXPECT {n}: the program has no such output"); bad = True; continue
            if got.shape != r.shape: print(f"EXPECT {n}: shape {got.shape}, want {r.shape}"); bad = True; continue
            d = np.abs(got.astype(np.float64) - r.astype(np.float64)); ok = np.allclose(got, r, rtol=a.rtol, atol=a.atol, equal_nan=True)
            print(f"EXPECT {n}: {'ok' if ok else 'DIFFERS'} max|d|={d.max() if d.size else 0:.3g}"); bad |= not ok
    return 1 if bad else 0

if __name__ == "__main__": sys.exit(main())
