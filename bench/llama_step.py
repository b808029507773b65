"""A training step of a small Llama-shaped model in plain PyTorch, eager, bf16, AdamW."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

HIDDEN = 512
LAYERS = 8
HEADS = 8
INTERMEDIATE = 1376
VOCABULARY = 8192
BATCH = 4
LENGTH = 256
BUSY_BATCH = 32  # with BUSY_LENGTH, the GPU takes longer than the thread that launches its kernels
BUSY_LENGTH = 1024


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * scaled.to(x.dtype)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = Norm(), Norm()
        self.q, self.k, self.v, self.o = (
            nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4)
        )
        self.gate, self.up = (nn.Linear(HIDDEN, INTERMEDIATE, bias=False) for _ in range(2))
        self.down = nn.Linear(INTERMEDIATE, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        h = self.before_attention(x)
        q, k, v = (
            project(h).view(*h.shape[:2], HEADS, -1).transpose(1, 2)
            for project in (self.q, self.k, self.v)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(h.transpose(1, 2).reshape(x.shape))
        h = self.before_mlp(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = Norm()
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        width = HIDDEN // HEADS
        frequency = 10000.0 ** (-torch.arange(0, width, 2) / width)
        angle = torch.outer(torch.arange(length), frequency).repeat(1, 2)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.head(self.norm(x))


def make_step(
    device: str = "cuda", batch: int = BATCH, length: int = LENGTH
) -> Callable[[], None]:
    """One forward, backward and optimizer step per call, of batch x length tokens."""
    torch.manual_seed(0)
    model = Model(length).to(device).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, VOCABULARY, (batch, length), device=device)

    def step() -> None:
        optimizer.zero_grad()
        logits = model(tokens)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()

    return step
