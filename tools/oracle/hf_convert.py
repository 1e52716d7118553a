#!/usr/bin/env python3
"""Write what llama.cpp's convert_hf_to_gguf.py makes of small models that transformers writes.

    LLAMA_CPP_SOURCE=FOLDER python tools/oracle/hf_convert.py crates/rustorch-llm/tests/fixtures/convert

Needs torch, transformers, sentencepiece, `llama-cpp-python==0.3.36`, and the source of llama.cpp that PyPI's source distribution of llama-cpp-python carries (`vendor/llama.cpp`).
A subfolder for each model has what `save_pretrained` writes but the weights, and `expected.json`:

    {"weights": {FILE: [[NAME, SHAPE, DTYPE]]}, "converted": {OUTTYPE: {"metadata", "tensors": {NAME: [SHAPE, DTYPE, FNV]}}}, "prompt", "greedy"}

Weights are those of `archs/weights.py` by their names, rounded to the dtype. `metadata` are pairs of type and value; of arrays type, number and FNV-1a of the JSON text of
their values. `greedy` are the ids that llama.cpp chooses after `prompt` with the file in f32. Pre-tokenizers are told by the hash of a known vocabulary's tokens there, which no
small vocabulary has; so their names are given, not found.
"""

import argparse
import ctypes
import json
import os
import shutil
import struct
import sys
import tempfile
from pathlib import Path

import llama_cpp as L
import numpy as np
import sentencepiece
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from archs.weights import fnv1a, tensor

SOURCE = Path(os.environ["LLAMA_CPP_SOURCE"])
sys.path[:0] = [str(SOURCE), str(SOURCE / "gguf-py")]
import conversion  # noqa: E402
import gguf  # noqa: E402
from conversion.base import ModelBase, TextModel  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TEXT = ROOT / "crates/rustorch-llm/tests/fixtures/evaluate/text.txt"
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEMPLATE = "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] }}{% endfor %}"


def byte_level(pattern, special, size, **model):
    """A byte-pair encoding with a pre-tokenizer of this pattern."""
    tokenizer = Tokenizer(models.BPE(**model))
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train([str(TEXT)], trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def llama3():
    tokenizer = byte_level(CL100K % r"\p{N}{1,3}", ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], 300, ignore_merges=True)
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    template = processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1", special_tokens=[("<|begin_of_text|>", begin)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|begin_of_text|>", eos_token="<|end_of_text|>", chat_template=TEMPLATE)


def qwen():
    tokenizer = byte_level(CL100K % r"\p{N}", ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], 296)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False)
    tokenizer.add_tokens([AddedToken("<think>", special=False, normalized=False)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", add_bos_token=False, chat_template=TEMPLATE)


def spm(folder, size, controls):
    """A SentencePiece model `tokenizer.model`, and the configuration that goes with it."""
    arguments = dict(input=str(TEXT), model_prefix=str(folder / "tokenizer"), vocab_size=size, model_type="bpe", byte_fallback=True, hard_vocab_limit=False, minloglevel=2)
    sentencepiece.SentencePieceTrainer.train(**arguments, control_symbols=controls, add_dummy_prefix=True, normalization_rule_name="identity", remove_extra_whitespaces=False)
    (folder / "tokenizer.vocab").unlink()


def spm_config(folder, **more):
    config = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True, "add_eos_token": False, "chat_template": TEMPLATE, **more}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def llama_hf(folder):
    """SentencePiece's tokens in a tokenizer.json: a byte-pair encoding with byte fallback."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", *"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,:;!?'-\n"]
    merges = [("t", "h"), ("th", "e"), ("\u2581", "the"), ("o", "u"), ("\u2581", "a"), ("i", "n")]
    tokens += ["".join(pair) for pair in merges]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.add_tokens(["<tool>"])
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    made.save_pretrained(folder)
    return len(made)


SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
ROPE3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


def build(name, folder):
    """Writes a model without weights to a folder: configuration and tokenizer. Gives the model, the dtype of its weights, and the most bytes of a file."""
    t = transformers
    if name == "llama-7M-chat":
        config = t.LlamaConfig(**SMALL, vocab_size=320, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2)
        spm(folder, 320, [])
        spm_config(folder, add_prefix_space=True)
        model, dtype, size = t.LlamaForCausalLM, torch.float16, "50GB"
    elif name == "Tiny-Llama-3":
        config = t.LlamaConfig(**SMALL, vocab_size=304, head_dim=32, rope_parameters=dict(ROPE3), tie_word_embeddings=True, bos_token_id=300, eos_token_id=[301, 302])
        llama3().save_pretrained(folder)
        model, dtype, size = t.LlamaForCausalLM, torch.bfloat16, "200KB"
    elif name == "byte-fallback":
        config = t.LlamaConfig(**SMALL, vocab_size=llama_hf(folder), attention_bias=True, rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0})
        model, dtype, size = t.LlamaForCausalLM, torch.float32, "50GB"
    elif name == "qwen2":
        qwen().save_pretrained(folder)
        config = t.Qwen2Config(**SMALL, vocab_size=304, tie_word_embeddings=True, rope_parameters={"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 64}, bos_token_id=296, eos_token_id=298)
        model, dtype, size = t.Qwen2ForCausalLM, torch.bfloat16, "50GB"
    elif name == "qwen3":
        qwen().save_pretrained(folder)
        config = t.Qwen3Config(**SMALL, vocab_size=304, head_dim=32, rope_parameters={"rope_type": "default", "rope_theta": 1e6}, bos_token_id=296, eos_token_id=298)
        model, dtype, size = t.Qwen3ForCausalLM, torch.float32, "50GB"
    elif name == "gemma3":
        spm(folder, 320, [])
        spm_config(folder, added_tokens_decoder={"0": {"content": "<unk>", "special": True}, "1": {"content": "<s>", "special": True}, "2": {"content": "</s>", "special": True}, "318": {"content": "\u2581\u2581", "special": False}, "319": {"content": "<unused0>", "special": False}})
        config = t.Gemma3TextConfig(**SMALL | {"num_hidden_layers": 7}, vocab_size=320, head_dim=16, query_pre_attn_scalar=16, sliding_window=8, bos_token_id=1, eos_token_id=2, pad_token_id=0)
        model, dtype, size = t.Gemma3ForCausalLM, torch.bfloat16, "50GB"
    elif name == "gemma3-with-images":
        spm(folder, 320, [])
        spm_config(folder)
        text = SMALL | {"num_hidden_layers": 6, "vocab_size": 320, "head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 16}
        text |= {"rope_parameters": {"full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}
        vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
        config = t.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4, image_token_index=319, boi_token_index=317, eoi_token_index=318)
        model, dtype, size = t.Gemma3ForConditionalGeneration, torch.bfloat16, "50GB"
    model = model(config).to(dtype)
    model.generation_config = t.GenerationConfig(do_sample=True, temperature=0.7, top_k=20, top_p=0.8, repetition_penalty=1.05, bos_token_id=config.get_text_config().bos_token_id, eos_token_id=config.get_text_config().eos_token_id)
    return model, dtype, size


PRE = {"Tiny-Llama-3": "llama-bpe", "qwen2": "qwen2", "qwen3": "qwen2"}
NAMES = ["llama-7M-chat", "Tiny-Llama-3", "byte-fallback", "qwen2", "qwen3", "gemma3", "gemma3-with-images"]
TYPES = {"auto": gguf.LlamaFileType.GUESSED, "f32": gguf.LlamaFileType.ALL_F32, "bf16": gguf.LlamaFileType.MOSTLY_BF16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}


def convert(folder, out, outtype):
    hparams = ModelBase.load_hparams(folder, False)
    made = conversion.get_model_class(hparams["architectures"][0])(folder, TYPES[outtype], out)
    made.write()


def value_of(field):
    kind = gguf.GGUFValueType
    if field.types[0] == kind.ARRAY:
        values = field.contents()
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
        return ["ARRAY", field.types[-1].name, len(values), f"{fnv1a(text):016x}"]
    return [field.types[0].name, field.contents()]


def describe(path):
    reader = gguf.GGUFReader(path)
    metadata = {key: value_of(field) for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    tensors = {t.name: [[int(n) for n in reversed(t.shape)], t.tensor_type.name, f"{fnv_bytes(t.data.tobytes()):016x}"] for t in reader.tensors}
    return {"metadata": metadata, "tensors": tensors}


def fnv_bytes(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def quiet(level, text, data):
    pass


def greedy(path, prompt, count=24):
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    model = L.llama_model_load_from_file(str(path).encode(), L.llama_model_default_params())
    params = L.llama_context_default_params()
    params.n_ctx, params.n_threads, params.n_threads_batch = 128, 1, 1
    context = L.llama_init_from_model(model, params)
    vocabulary = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    ids = []
    for i in range(len(prompt) + count - 1):
        batch = L.llama_batch_init(1, 0, 1)
        batch.n_tokens, batch.token[0], batch.pos[0], batch.n_seq_id[0], batch.seq_id[0][0], batch.logits[0] = 1, prompt[i] if i < len(prompt) else ids[-1], i, 1, 0, 1
        L.llama_decode(context, batch)
        L.llama_batch_free(batch)
        if i >= len(prompt) - 1:
            ids.append(int(np.ctypeslib.as_array(L.llama_get_logits_ith(context, -1), (vocabulary,)).argmax()))
    L.llama_free(context)
    L.llama_model_free(model)
    return ids


def main(folder, names):
    conversion.load_all_models()
    for name in names:
        target = folder / name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        model, dtype, size = build(name, target)
        model.save_pretrained(target, max_shard_size=size)
        for path in target.glob("*.safetensors"):
            filled = {key: torch.from_numpy(tensor(key, list(value.shape), 0.5)).to(dtype) for key, value in load_file(path).items()}
            save_file(filled, path, metadata={"format": "pt"})
        TextModel.get_vocab_base_pre = lambda self, tokenizer: PRE[name]
        expected = {"weights": {}, "converted": {}}
        for path in sorted(target.glob("*.safetensors")):
            with open(path, "rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                header = json.loads(file.read(length))
            expected["weights"][path.name] = [[key, value["shape"], value["dtype"]] for key, value in header.items() if key != "__metadata__"]
        with tempfile.TemporaryDirectory() as temporary:
            out = Path(temporary) / "out.gguf"
            for outtype in TYPES:
                convert(target, out, outtype)
                expected["converted"][outtype] = describe(out)
            convert(target, out, "f32")
            expected["prompt"] = [1, 260, 17, 42, 280, 99]
            expected["greedy"] = greedy(out, expected["prompt"])
        (target / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=None, separators=(",", ":")) + "\n")
        for path in target.glob("*.safetensors"):
            path.unlink()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=NAMES)
    arguments = parser.parse_args()
    main(arguments.folder.resolve(), arguments.names)
