#!/usr/bin/env python3
"""Write the logits that llama.cpp computes when everything is f32, as JSON lines.

    python tools/oracle/llama_logits_f32.py crates/rustorch-llm/tests/fixtures/logits_f32.jsonl \
        ../shared/data/models/stories260K-x4-{Q8_0,Q4_K_M,Q2_K,IQ3_S,MXFP4,F16}.gguf

Needs `pip install llama-cpp-python==0.3.36 gguf==0.19.0 numpy`. Each file is copied with its tensors decoded to f32 by gguf-py, so that llama.cpp
multiplies f32 with f32; keys and values are kept in f32, and flash attention is off. A line is {"model", "tokens", "logits"}: `logits` is base64
of the little-endian f32 logits after the last of `tokens`.
"""

import base64
import ctypes
import json
import os
import sys
import tempfile

import gguf
import llama_cpp as L
import numpy as np

F32 = 0


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def quiet(level, text, data):
    pass


def decoded(path, out):
    """Copies a file with all tensors in f32."""
    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(out, reader.get_field("general.architecture").contents())
    skipped = {"general.architecture", "general.file_type", "general.quantization_version"}
    for field in reader.fields.values():
        if field.name in skipped or field.name.startswith("GGUF."):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, values.reshape([int(n) for n in reversed(tensor.shape)]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def logits(path):
    model = L.llama_model_load_from_file(path.encode(), L.llama_model_default_params())
    params = L.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch, params.n_threads, params.n_threads_batch = 128, 64, 64, 1, 1
    params.type_k = params.type_v = F32
    params.flash_attn_type = L.LLAMA_FLASH_ATTN_TYPE_DISABLED
    context = L.llama_init_from_model(model, params)
    vocabulary = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    tokens = [1] + [(i * 37 + 11) % vocabulary for i in range(15)]
    for i, token in enumerate(tokens):
        batch = L.llama_batch_init(1, 0, 1)
        batch.n_tokens = 1
        batch.token[0], batch.pos[0], batch.n_seq_id[0], batch.seq_id[0][0], batch.logits[0] = token, i, 1, 0, True
        status = L.llama_decode(context, batch)
        L.llama_batch_free(batch)
        if status:
            raise SystemExit(f"llama_decode answers {status}")
    last = np.ctypeslib.as_array(L.llama_get_logits_ith(context, -1), (vocabulary,)).astype("<f4")
    L.llama_free(context)
    L.llama_model_free(model)
    return tokens, base64.b64encode(last.tobytes()).decode()


def main():
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    L.llama_backend_init()
    with open(sys.argv[1], "w") as out, tempfile.TemporaryDirectory() as folder:
        for path in sys.argv[2:]:
            name = os.path.basename(path)
            copy = os.path.join(folder, name)
            decoded(path, copy)
            tokens, text = logits(copy)
            out.write(json.dumps({"model": name, "tokens": tokens, "logits": text}) + "\n")


main()
