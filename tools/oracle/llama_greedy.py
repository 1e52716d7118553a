#!/usr/bin/env python3
"""Write what llama.cpp answers to prompts at temperature 0, its token ids and its text, and how it tokenizes some texts.

    python tools/oracle/llama_greedy.py crates/rustorch-cli/assets/shakespeare.gguf 64 crates/rustorch-cli/assets/shakespeare.greedy.json

"smallest_margin" is the least difference between the best and the second logit: an engine that sums in another order agrees as long as its
logits err by less than half of it. "tokenize" has ids without BOS, special tokens parsed.

Every prompt is tokenized by llama.cpp with special tokens parsed and the model's own add_bos. Generation does not stop at an end token unless
the prompt is a chat turn. One thread, one token at a time after the prompt. Attention is fused, as in llama.cpp's own programs, which decide so
by themselves where the device can (`LLAMA_FLASH_ATTN_TYPE_AUTO`); the Python package turns that off unless told otherwise, and the two sum
differently. Needs `llama-cpp-python`.
"""

import json
import sys

import llama_cpp
import numpy as np
from jinja2.sandbox import ImmutableSandboxedEnvironment

RAW = ["First Citizen:\n", "", "ROMEO:\nWhat light", "To be, or not to be"]
CHAT = [
    [{"role": "user", "content": "What news, my lord?"}],
    [{"role": "system", "content": "KING HENRY VI:\nLeave us."}, {"role": "user", "content": "Who are you?"}],
]


TEXTS = ["", " ", "\n", "\n\n", "  two  spaces ", "What's done cannot be undone.", "I'll SEE you'd they've we're", "1603, 42nd & 3.14!", "tab\tand\r\nreturn",
         "Was für ein Stück Arbeit ist der Mensch — 人間 🎭", "<|user|>\nHail!<|end|>\n<|assistant|>\n", "<|end", "ROMEO:\nO, she doth teach\n\nJULIET:\nAy me!\n"]


def greedy(model, n):
    template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(model.metadata["tokenizer.chat_template"])
    prompts = [(p, False) for p in RAW] + [(template.render(messages=m, add_generation_prompt=True), True) for m in CHAT]
    for i, (text, stop) in enumerate(prompts):
        model.reset()
        ids = model.tokenize(text.encode(), add_bos=True, special=True)
        model.eval(ids)
        out = []
        for _ in range(n):
            logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(model.ctx, -1), (model.n_vocab(),))
            top = np.sort(logits)[-2:]
            token = int(logits.argmax())
            out.append((token, float(top[1] - top[0])))
            if stop and token == model.token_eos():
                break
            model.eval([token])
        row = {"prompt": text, "prompt_ids": ids, "ids": [t for t, _ in out], "text": model.detokenize([t for t, _ in out], special=True).decode(),
               "smallest_margin": round(min(m for _, m in out), 5)}
        if i >= len(RAW):
            row["messages"] = CHAT[i - len(RAW)]
        yield row


if __name__ == "__main__":
    model = llama_cpp.Llama(sys.argv[1], n_ctx=256, n_threads=1, n_threads_batch=1, flash_attn=True, verbose=False)
    rows = [json.dumps(r, ensure_ascii=False) for r in greedy(model, int(sys.argv[2]))]
    texts = [json.dumps({"text": t, "ids": model.tokenize(t.encode(), add_bos=False, special=True)}, ensure_ascii=False) for t in TEXTS]
    with open(sys.argv[3], "w") as out:
        out.write('{"llama_cpp_python": "%s",\n"greedy": [\n%s\n],\n"tokenize": [\n%s\n]}\n' % (llama_cpp.__version__, ",\n".join(rows), ",\n".join(texts)))
    print("\n".join(rows))
