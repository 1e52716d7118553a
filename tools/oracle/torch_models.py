#!/usr/bin/env python3
"""Print what crates/rustorch-tensor/tests/it/models.rs expects: for an MLP, LeNet and a GPT written as plain functions, the bytes that
PyTorch saves for the backward pass (each piece of memory once, parameters apart, counted by its own hooks, in f32), and the losses of
five steps of gradient descent in f64.

    python tools/oracle/torch_models.py
"""

import math

import torch
import torch.nn.functional as F


class Numbers:
    """Numbers that need no random generator: those of one tensor after the other."""

    def __init__(self, dtype):
        self.count, self.dtype = 0, dtype

    def __call__(self, *shape, scale=1.0):
        self.count += 1
        n = math.prod(shape)
        values = torch.sin(torch.arange(n, dtype=torch.float64) * 1.37 + self.count) * scale
        return values.reshape(shape).to(self.dtype)


def weights(numbers, shapes):
    """Matrices by the square root of what they sum over, ones and zeros of one dimension as they are."""
    return [numbers(*s, scale=1 / math.sqrt(math.prod(s[1:]))) if len(s) > 1 else numbers(*s, scale=0.1) for s in shapes]


def loss_of(logits, y):
    return logits.log_softmax(-1).gather(-1, y.unsqueeze(-1)).neg().mean()


MLP = [(256, 784), (256,), (256, 256), (256,), (10, 256), (10,)]


def mlp(p, x, y):
    x = F.linear(x, p[0], p[1]).relu()
    x = F.linear(x, p[2], p[3]).relu()
    return loss_of(F.linear(x, p[4], p[5]), y)


LENET = [(6, 1, 5, 5), (6,), (16, 6, 5, 5), (16,), (120, 400), (120,), (84, 120), (84,), (10, 84), (10,)]


def lenet(p, x, y):
    x = F.max_pool2d(F.conv2d(x, p[0], p[1], padding=2).relu(), 2)
    x = F.max_pool2d(F.conv2d(x, p[2], p[3]).relu(), 2)
    x = F.linear(x.flatten(1), p[4], p[5]).relu()
    x = F.linear(x, p[6], p[7]).relu()
    return loss_of(F.linear(x, p[8], p[9]), y)


LAYERS, WIDTH, HEADS, LENGTH, VOCABULARY = 4, 64, 4, 32, 96
BLOCK = [(WIDTH,), (WIDTH,), (3 * WIDTH, WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,), (WIDTH,), (WIDTH,),
         (4 * WIDTH, WIDTH), (4 * WIDTH,), (WIDTH, 4 * WIDTH), (WIDTH,)]
GPT = [(VOCABULARY, WIDTH), (LENGTH, WIDTH)] + LAYERS * BLOCK + [(WIDTH,), (WIDTH,), (VOCABULARY, WIDTH)]


def block(p, x):
    batch = x.shape[0]
    h = F.layer_norm(x, (WIDTH,), 1 + p[0], p[1])
    q, k, v = (
        part.reshape(batch, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)
        for part in F.linear(h, p[2], p[3]).chunk(3, -1)
    )
    h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + F.linear(h.transpose(1, 2).reshape(batch, LENGTH, WIDTH), p[4], p[5])
    h = F.layer_norm(x, (WIDTH,), 1 + p[6], p[7])
    return x + F.linear(F.gelu(F.linear(h, p[8], p[9])), p[10], p[11])


def gpt(p, x, y):
    x = F.embedding(x, p[0]) + p[1]
    for layer in range(LAYERS):
        x = block(p[2 + 12 * layer : 14 + 12 * layer], x)
    return loss_of(F.linear(F.layer_norm(x, (WIDTH,), 1 + p[-3], p[-2]), p[-1]), y)


def tokens(n, most):
    return torch.tensor([(i * i * 7 + 3 * i) % most for i in range(n)])


MODELS = {
    "mlp": (mlp, MLP, lambda numbers: numbers(32, 784), tokens(32, 10)),
    "lenet": (lenet, LENET, lambda numbers: numbers(8, 1, 28, 28), tokens(8, 10)),
    "gpt": (gpt, GPT, lambda _: tokens(2 * LENGTH, VOCABULARY).reshape(2, LENGTH), tokens(2 * LENGTH, VOCABULARY).flip(0).reshape(2, LENGTH)),
}


def saved(model, shapes, make, y):
    numbers = Numbers(torch.float32)
    p = [w.requires_grad_() for w in weights(numbers, shapes)]
    x = make(numbers)
    pieces = {}

    def pack(t):
        pieces[t.untyped_storage().data_ptr()] = t.untyped_storage()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss = model(p, x, y)
    parameters = {w.untyped_storage().data_ptr() for w in p}
    del loss
    return sum(s.nbytes() for at, s in pieces.items() if at not in parameters)


def losses(model, shapes, make, y):
    numbers = Numbers(torch.float64)
    p = [w.requires_grad_() for w in weights(numbers, shapes)]
    x = make(numbers)
    found = []
    for _ in range(6):
        loss = model(p, x, y)
        found.append(loss.item())
        for w, grad in zip(p, torch.autograd.grad(loss, p)):
            w.data -= 0.02 * grad
    return found


for name, parts in MODELS.items():
    print(name, saved(*parts), losses(*parts))
