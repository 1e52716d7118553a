#!/usr/bin/env python3
"""Train the small Shakespeare model that `rustorch-cli` carries.

A LLaMA-style decoder (RMSNorm, rotary embedding of adjacent pairs, SwiGLU, grouped-query attention, tied embedding) over a byte-level
BPE with GPT-2's pre-tokenizer, trained on the tiny-shakespeare corpus (public domain). Adjacent-pair rotary embedding is what GGUF's
`llama` architecture computes, so the weights are exported without any permutation.

Two kinds of rows are mixed, so that one model serves both uses:

* scenes: `<|begin_of_text|>` and then the play as it is printed, speeches separated by a blank line. No row ends in an end token:
  a raw prompt such as "ROMEO:" flows on from speech to speech.
* dialogue: consecutive speeches as turns, `<|user|>\\n…<|end|>\\n<|assistant|>\\nNAME:\\n…<|end|>\\n`, optionally after a `<|system|>`
  turn that holds what was said before. A chat reply is one speech and ends by itself.

    python tools/train_shakespeare.py --corpus tinyshakespeare.txt --out build/
    python tools/export_shakespeare.py --run build/ --gguf crates/rustorch-cli/assets/shakespeare.gguf

Needs `torch`, `numpy`, `tokenizers`. The seed is fixed: one machine with one version of PyTorch and one thread count gives one result.
"""

import argparse
import json
import math
import random
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn

BOS, END, SYSTEM, USER, ASSISTANT = SPECIAL = ["<|begin_of_text|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
BOS_ID, END_ID, SYSTEM_ID, USER_ID, ASSISTANT_ID = range(len(SPECIAL))


@dataclass
class Config:
    vocab: int = 2048
    context: int = 512
    dim: int = 192
    layers: int = 5
    heads: int = 6
    kv_heads: int = 2
    ffn: int = 512
    rope_base: float = 10000.0
    norm_eps: float = 1e-5

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads


# ---------------------------------------------------------------- tokenizer and rows


def train_tokenizer(text: str, vocab: int) -> Tokenizer:
    """Byte-level BPE with GPT-2's regex; the control tokens take the first ids."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False)
    tok.train_from_iterator([text], trainer)
    assert tok.get_vocab_size() == vocab
    return tok


class Rows:
    """Draws training rows of `context + 1` ids; targets of padding are -100."""

    def __init__(self, tok: Tokenizer, text: str, context: int, seed: int):
        self.tok, self.context, self.rng = tok, context, random.Random(seed)
        self.stream = np.array(tok.encode(text).ids, dtype=np.int64)
        newline = tok.encode("\n").ids
        assert len(newline) == 1
        at = np.flatnonzero(self.stream == newline[0])
        # Rows begin at least half a context before the end, else they would be mostly padding.
        self.last = len(self.stream) - context // 2
        self.lines = [i for i in [0, *(at + 1).tolist()] if i < self.last]
        self.starts = [i for i in [0, *(at[1:][np.diff(at) == 1] + 1).tolist()] if i < self.last]
        self.speeches = [s for s in text.split("\n\n") if ":\n" in s]
        self.bodies = [s.split(":\n", 1)[1] for s in self.speeches]
        self.cache: dict[str, list[int]] = {}

    def ids(self, text: str) -> list[int]:
        if text not in self.cache:
            self.cache[text] = self.tok.encode(text).ids
        return self.cache[text]

    def scene(self) -> tuple[list[int], bool]:
        """A piece of the play, and whether its first prediction is to be learned."""
        kind = self.rng.random()
        if kind < 0.35:
            at, bos = self.rng.randrange(self.last), False
        elif kind < 0.5:
            at, bos = self.rng.choice(self.lines), True
        else:
            at, bos = self.rng.choice(self.starts), True
        row = self.stream[at : at + self.context + 1].tolist()
        # What follows BOS is learned from beginnings of speeches only, so that nothing but BOS as prompt begins with a speaker.
        return ([BOS_ID] + row)[: self.context + 1] if bos else row, kind >= 0.5 or not bos

    def turn(self, role: int, text: str) -> list[int]:
        return [role, *self.ids("\n" + text.strip()), END_ID, *self.ids("\n")]

    def user_says(self, i: int) -> str:
        """A user's message: mostly a speech without its speaker, often only the beginning of it, as people type."""
        text = self.speeches[i] if self.rng.random() < 0.2 else self.bodies[i]
        if self.rng.random() < 0.6:
            line = text.split("\n")[0] if self.rng.random() < 0.5 else text
            cut = min((p for p in (line.find(c) for c in ".?!") if p > 0), default=len(line) - 1)
            text = line[: cut + 1]
        return text

    def dialogue(self) -> list[int]:
        i, row = self.rng.randrange(len(self.speeches) - 1), [BOS_ID]
        if i > 0 and self.rng.random() < 0.25:
            row += self.turn(SYSTEM_ID, self.speeches[i - 1])
        while len(row) <= self.context and i + 1 < len(self.speeches):
            row += self.turn(USER_ID, self.user_says(i)) + self.turn(ASSISTANT_ID, self.speeches[i + 1])
            # Either the reply is answered, or the talk moves on.
            i += 2 if self.rng.random() < 0.7 else self.rng.randrange(2, 6)
        return row[: self.context + 1]

    def batch(self, rows: int, chat_share: float) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.zeros(rows, self.context, dtype=torch.long)
        y = torch.full((rows, self.context), -100, dtype=torch.long)
        for r in range(rows):
            ids, first = (self.dialogue(), False) if self.rng.random() < chat_share else self.scene()
            row = torch.tensor(ids)
            x[r, : len(row) - 1], y[r, : len(row) - 1] = row[:-1], row[1:]
            if not first:
                y[r, 0] = -100
        return x, y


# ---------------------------------------------------------------- model


class RmsNorm(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return F.rms_norm(x.float(), self.weight.shape, self.weight, self.eps)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotates adjacent pairs (x0,x1), (x2,x3), … of the last dimension."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


class Block(nn.Module):
    def __init__(self, c: Config, dropout: float):
        super().__init__()
        self.c, kv = c, c.kv_heads * c.head_dim
        self.attn_norm, self.ffn_norm = RmsNorm(c.dim, c.norm_eps), RmsNorm(c.dim, c.norm_eps)
        self.wq, self.wk, self.wv = (nn.Linear(c.dim, n, bias=False) for n in (c.dim, kv, kv))
        self.wo = nn.Linear(c.dim, c.dim, bias=False)
        self.gate, self.up = (nn.Linear(c.dim, c.ffn, bias=False) for _ in range(2))
        self.down = nn.Linear(c.ffn, c.dim, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, cos, sin):
        c, (b, t, _) = self.c, x.shape
        h = self.attn_norm(x)
        q = rotate(self.wq(h).view(b, t, c.heads, c.head_dim).transpose(1, 2), cos, sin)
        k = rotate(self.wk(h).view(b, t, c.kv_heads, c.head_dim).transpose(1, 2), cos, sin)
        v = self.wv(h).view(b, t, c.kv_heads, c.head_dim).transpose(1, 2)
        group = c.heads // c.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        a = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        x = x + self.drop(self.wo(a.transpose(1, 2).reshape(b, t, c.dim)))
        h = self.ffn_norm(x)
        return x + self.drop(self.down(F.silu(self.gate(h)) * self.up(h)))


class Llama(nn.Module):
    def __init__(self, c: Config, dropout: float = 0.0):
        super().__init__()
        self.c = c
        self.embed = nn.Embedding(c.vocab, c.dim)
        self.blocks = nn.ModuleList(Block(c, dropout) for _ in range(c.layers))
        self.norm, self.drop = RmsNorm(c.dim, c.norm_eps), nn.Dropout(dropout)
        angle = torch.outer(torch.arange(c.context).double(), c.rope_base ** (-torch.arange(0, c.head_dim, 2).double() / c.head_dim))
        self.register_buffer("cos", angle.cos().float(), persistent=False)
        self.register_buffer("sin", angle.sin().float(), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                out = name.endswith(("wo.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 if name.startswith("embed") else p.shape[1] ** -0.5 * (0.5 / math.sqrt(2 * c.layers) if out else 0.7))

    def forward(self, ids):
        t = ids.shape[1]
        x = self.drop(self.embed(ids))
        for block in self.blocks:
            x = block(x, self.cos[:t], self.sin[:t])
        return F.linear(self.norm(x), self.embed.weight)

    @torch.no_grad()
    def generate(self, ids: list[int], n: int, temperature: float, seed: int = 0) -> list[int]:
        """Greedy for temperature 0; recomputes the whole window for each token (the model is tiny)."""
        g = torch.Generator().manual_seed(seed)
        for _ in range(n):
            logits = self(torch.tensor([ids[-self.c.context :]]))[0, -1].float()
            if temperature == 0:
                ids = ids + [int(logits.argmax())]
            else:
                top = logits.topk(40)
                ids = ids + [int(top.indices[torch.multinomial((top.values / temperature).softmax(0), 1, generator=g)])]
        return ids


# ---------------------------------------------------------------- training


@torch.no_grad()
def evaluate(model: Llama, stream: np.ndarray, autocast) -> float:
    """Mean loss per token of the held-out text as scenes: windows of the full context, each begun by BOS."""
    model.eval()
    total, count, c = 0.0, 0, model.c
    for at in range(0, len(stream) - 1, c.context - 1):
        row = torch.tensor([BOS_ID, *stream[at : at + c.context].tolist()])
        with autocast():
            logits = model(row[None, :-1])
        total += F.cross_entropy(logits[0].float(), row[1:], reduction="sum").item()
        count += len(row) - 1
    model.train()
    return total / count


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--corpus", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True, help="folder for tokenizer.json, config.json, model.pt")
    p.add_argument("--steps", type=int, default=850)
    p.add_argument("--batch", type=int, default=8, help="rows of `context` tokens a step")
    p.add_argument("--lr", type=float, default=2.5e-3)
    p.add_argument("--warmup", type=int, default=60)
    p.add_argument("--decay", type=float, default=0.41, help="share of the steps, at the end, over which the rate falls linearly")
    p.add_argument("--resume", action="store_true", help="continue from the state of the last validation; --steps may differ as long as the rate has not begun to fall")
    p.add_argument("--weight-decay", type=float, default=0.1)
    p.add_argument("--dropout", type=float, default=0.12)
    p.add_argument("--chat-share", type=float, default=0.3)
    p.add_argument("--held-out", type=float, default=0.05, help="share of the corpus at its end that is only validated on")
    p.add_argument("--eval-every", type=int, default=100)
    p.add_argument("--patience", type=int, default=6, help="stop after so many validations without a better one")
    p.add_argument("--seed", type=int, default=1616)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=False)
    args = p.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    torch.use_deterministic_algorithms(True)
    args.out.mkdir(parents=True, exist_ok=True)
    autocast = lambda: torch.autocast("cpu", torch.bfloat16, enabled=args.bf16)

    text = args.corpus.read_text(encoding="utf-8")
    cut = text.index("\n\n", int(len(text) * (1 - args.held_out))) + 2
    c = Config()
    tok = train_tokenizer(text[:cut], c.vocab)
    tok.save(str(args.out / "tokenizer.json"))
    rows = Rows(tok, text[:cut], c.context, args.seed)
    held = np.array(tok.encode(text[cut:]).ids, dtype=np.int64)
    chars_per_token = (len(text) - cut) / len(held)
    model = Llama(c, args.dropout)
    print(f"{sum(p.numel() for p in model.parameters())} parameters; {len(rows.stream)} training tokens, {len(held)} held out, "
          f"{len(rows.speeches)} speeches, {chars_per_token:.2f} characters a token", flush=True)

    matrices = [p for p in model.blocks.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    # Muon for the matrices of the blocks needs fewer passes over so small a corpus than AdamW alone, and so overfits later.
    opts = [torch.optim.Muon(matrices, lr=args.lr, weight_decay=args.weight_decay, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW([{"params": [model.embed.weight], "weight_decay": args.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
                              lr=args.lr, betas=(0.9, 0.97), fused=True)]
    best, best_step, since, first, began, running = math.inf, 0, 0, 1, time.time(), 0.0
    if args.resume:
        state = torch.load(args.out / "state.pt", weights_only=False)
        model.load_state_dict(state["model"])
        for opt, saved in zip(opts, state["opts"]):
            opt.load_state_dict(saved)
        torch.set_rng_state(state["torch_rng"])
        rows.rng.setstate(state["rows_rng"])
        best, best_step, since, first = state["best"], state["best_step"], state["since"], state["step"] + 1
    for step in range(first, args.steps + 1):
        lr = args.lr * min(step / args.warmup, 1.0, 0.02 + (args.steps - step) / (args.decay * args.steps))
        for group in (g for opt in opts for g in opt.param_groups):
            group["lr"] = lr
        x, y = rows.batch(args.batch, args.chat_share)
        with autocast():
            logits = model(x)
        loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten(), ignore_index=-100)
        model.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.step()
        running += loss.item()
        if step % 20 == 0:
            print(f"step {step}: train {running / 20:.4f}, lr {lr:.2e}, {time.time() - began:.0f} s", flush=True)
            running = 0.0
        if step % args.eval_every == 0 or step == args.steps:
            val = evaluate(model, held, autocast)
            print(f"step {step}: validation {val:.4f} ({val / chars_per_token:.4f} a character)", flush=True)
            since += 1
            if val < best:
                best, best_step, since = val, step, 0
                torch.save(model.state_dict(), args.out / "model.pt")
            torch.save({"model": model.state_dict(), "opts": [opt.state_dict() for opt in opts], "torch_rng": torch.get_rng_state(), "rows_rng": rows.rng.getstate(),
                        "best": best, "best_step": best_step, "since": since, "step": step}, args.out / "state.pt")
            if since > args.patience:
                break

    (args.out / "config.json").write_text(json.dumps({
        "config": asdict(c), "steps": best_step, "validation_loss": best, "validation_loss_per_character": best / chars_per_token,
        "arguments": {k: str(v) for k, v in vars(args).items()}}, indent=1))
    model.load_state_dict(torch.load(args.out / "model.pt"))
    model.eval()
    print(f"best validation {best:.4f} at step {best_step}")
    print(tok.decode(model.generate([BOS_ID, *tok.encode("First Citizen:\n").ids], 200, 0.8), skip_special_tokens=False))
    ask = [BOS_ID, *rows.turn(USER_ID, "What news, my lord?"), ASSISTANT_ID, *tok.encode("\n").ids]
    print(tok.decode(model.generate(ask, 80, 0.8), skip_special_tokens=False))


if __name__ == "__main__":
    main()
