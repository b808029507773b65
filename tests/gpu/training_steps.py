"""Training steps of which tests compare the names of the kernels.

    python training_steps.py MODEL [COUNTS]

MODEL is llama (bench/llama_step.py), transformers (LlamaForCausalLM with a tiny configuration) or
triton (Triton kernels in an autograd.Function). With COUNTS, torch.profiler counts the kernels and
writes {name: count} into that file.

PROTON_TEST_DEVICE=cpu runs them without a GPU: operators are launches (operator_launches.py), and
Triton kernels are interpreted.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = os.environ.get("PROTON_TEST_DEVICE", "cuda")
STEPS = 2


def llama() -> Callable[[], None]:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
    import llama_step

    del sys.path[0]
    if DEVICE == "cpu":
        llama_step.LAYERS, llama_step.LENGTH, llama_step.VOCABULARY = 2, 16, 64
    return llama_step.make_step(DEVICE)


def train(model: nn.Module, compute_loss: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """One forward, backward and optimizer step per call."""
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        loss = compute_loss()
        loss.backward()
        optimizer.step()

    return step


def transformers() -> Callable[[], None]:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=1024,
    )
    model = LlamaForCausalLM(config).to(DEVICE)
    tokens = torch.randint(0, 1024, (2, 64), device=DEVICE)
    return train(model, lambda: model(input_ids=tokens, labels=tokens).loss)


def triton() -> Callable[[], None]:
    import triton
    import triton.language as tl

    globals()["tl"] = tl  # kernels look it up here

    @triton.jit
    def scale_kernel(x, out, factor, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, at < n) * factor, at < n)

    def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
        out = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, factor, x.numel(), BLOCK=1024)
        return out

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return scale(x, factor)  # forward launch

        @staticmethod
        def backward(ctx, gradient):
            return scale(gradient.contiguous(), ctx.factor), None  # backward launch

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = Scale.apply(self.up(x), 0.5)  # first Scale
            return x + Scale.apply(self.down(F.gelu(h)), 2.0)  # second Scale

    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(4))).to(DEVICE)
    x = torch.randn(32, 64, device=DEVICE)
    return train(model, lambda: model(x).square().mean())


def count_kernels(work: Callable[[], None], path: str) -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        work()
    found.export_chrome_trace(path)
    events = json.loads(Path(path).read_text())["traceEvents"]
    counts = Counter(event["name"] for event in events if event.get("cat") == "kernel")
    Path(path).write_text(json.dumps(counts))


def main() -> None:
    make_step = {"llama": llama, "transformers": transformers, "triton": triton}[sys.argv[1]]

    def work() -> None:
        step = make_step()
        for _ in range(STEPS):
            step()
        if DEVICE != "cpu":
            torch.cuda.synchronize()

    if DEVICE == "cpu":
        from operator_launches import Launches

        with Launches() as launches:
            work()
        if sys.argv[2:]:
            Path(sys.argv[2]).write_text(json.dumps(launches.counts))
    elif sys.argv[2:]:
        count_kernels(work, sys.argv[2])
    else:
        work()


if __name__ == "__main__":
    main()
