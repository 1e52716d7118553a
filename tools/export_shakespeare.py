#!/usr/bin/env python3
"""Write what train_shakespeare.py trained as a GGUF file: architecture `llama`, matrices in Q8_0, norms in f32, tied output.

    python tools/export_shakespeare.py --run build/ --gguf crates/rustorch-cli/assets/shakespeare.gguf

Needs `torch`, `numpy`, `gguf`. The rotary embedding was trained on adjacent pairs, so the weights need no permutation.
"""

import argparse
import json
from pathlib import Path

import gguf
import torch
from gguf import GGMLQuantizationType as Q
from gguf.quants import quantize

# The dialogue format of the training rows. It is the one that llama.cpp knows as "phi3", so engines without Jinja render it too.
# The system turn is what was said before.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] not in ['system', 'user', 'assistant'] -%}"
    "{{ raise_exception('the roles of this model are system, user and assistant') }}"
    "{%- endif -%}"
    "{{ '<|' + message['role'] + '|>\\n' + message['content'] | trim + '<|end|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}"
)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--run", type=Path, required=True, help="folder with config.json, tokenizer.json, model.pt")
    p.add_argument("--gguf", type=Path, required=True)
    p.add_argument("--type", choices=["Q8_0", "F32", "F16"], default="Q8_0", help="type of the matrices")
    args = p.parse_args()

    run = json.loads((args.run / "config.json").read_text())
    c, bpe = run["config"], json.loads((args.run / "tokenizer.json").read_text())
    weights = {k: v.float().numpy() for k, v in torch.load(args.run / "model.pt", map_location="cpu").items()}
    special = {t["id"] for t in bpe["added_tokens"]}
    tokens = [t for t, _ in sorted(bpe["model"]["vocab"].items(), key=lambda kv: kv[1])]
    merges = [m if isinstance(m, str) else " ".join(m) for m in bpe["model"]["merges"]]
    ids = {t["content"]: t["id"] for t in bpe["added_tokens"]}
    assert len(tokens) == c["vocab"]

    w = gguf.GGUFWriter(args.gguf, "llama")
    w.add_type("model")
    w.add_name("rustorch-shakespeare-2.4M")
    w.add_description("Writes scenes in the manner of Shakespeare; a demonstration, trained from nothing on 1.1 MB of public-domain text.")
    w.add_license("MIT OR Apache-2.0")
    w.add_size_label("2.4M")
    w.add_file_type({"Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0, "F16": gguf.LlamaFileType.MOSTLY_F16, "F32": gguf.LlamaFileType.ALL_F32}[args.type])
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_vocab_size(c["vocab"])
    w.add_context_length(c["context"])
    w.add_embedding_length(c["dim"])
    w.add_block_count(c["layers"])
    w.add_feed_forward_length(c["ffn"])
    w.add_head_count(c["heads"])
    w.add_head_count_kv(c["kv_heads"])
    w.add_layer_norm_rms_eps(c["norm_eps"])
    w.add_rope_dimension_count(c["dim"] // c["heads"])
    w.add_rope_freq_base(c["rope_base"])
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types([gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for i in range(len(tokens))])
    w.add_token_merges(merges)
    w.add_bos_token_id(ids["<|begin_of_text|>"])
    w.add_eos_token_id(ids["<|end|>"])
    w.add_eot_token_id(ids["<|end|>"])
    w.add_add_bos_token(True)
    w.add_chat_template(CHAT_TEMPLATE)

    names = {"embed.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}
    parts = {"attn_norm": "attn_norm", "wq": "attn_q", "wk": "attn_k", "wv": "attn_v", "wo": "attn_output", "ffn_norm": "ffn_norm",
             "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
    for i in range(c["layers"]):
        names |= {f"blocks.{i}.{ours}.weight": f"blk.{i}.{theirs}.weight" for ours, theirs in parts.items()}
    assert set(names) == set(weights)
    for ours, theirs in names.items():
        t = weights[ours]
        if t.ndim == 1 or args.type == "F32":
            w.add_tensor(theirs, t)
        else:
            kind = Q[args.type]
            w.add_tensor(theirs, quantize(t, kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    print(f"{args.gguf}: {args.gguf.stat().st_size} bytes")


if __name__ == "__main__":
    main()
