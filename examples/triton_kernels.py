"""A small transformer block in Triton, to be profiled.

    proton -n block -k triton triton_kernels.py
    proton-viewer -m time/ms,gflop16/s block.hatchet

It shows all parts of a profile: kernels that report how much they compute and move
(launch_metadata), nested scopes, a loop, user-defined metrics and a state. It runs on a GPU if
there is one, otherwise in Triton's interpreter on the CPU, where it is slow but works the same.
The result is compared with PyTorch's.
"""

import argparse
import os

import torch

# Triton looks at this when a kernel is defined, so it has to be said before.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

import triton
import triton.language as tl

import triton_proton as proton

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


# --------------------------------------------------------------------------------- softmax
# The result of launch_metadata is recorded with the kernel: its name, operations (flops16: of 16
# bits, flops32: of 32) and the bytes it has to move. This needs the hook: proton -k triton.


def softmax_metadata(grid, metadata, args):
    rows, columns = args["rows"], args["columns"]
    return {
        "name": f"softmax_{rows}x{columns}",
        "flops32": 5 * rows * columns,
        "bytes": 2 * rows * columns * args["out"].element_size(),
    }


@triton.jit(launch_metadata=softmax_metadata)
def softmax_kernel(out, x, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    exponents = tl.exp(values - tl.max(values, axis=0))
    result = exponents / tl.sum(exponents, axis=0)
    tl.store(out + row * columns + offsets, result, mask=mask)


def softmax(x):
    rows, columns = x.shape
    out = torch.empty_like(x)
    softmax_kernel[(rows,)](out, x, rows, columns, BLOCK=triton.next_power_of_2(columns))
    return out


# --------------------------------------------------------------------------------- layer norm


def layer_norm_metadata(grid, metadata, args):
    rows, columns = args["rows"], args["columns"]
    return {
        "name": f"layer_norm_{rows}x{columns}",
        "flops32": 8 * rows * columns,
        "bytes": (2 * rows + 2) * columns * args["out"].element_size(),
    }


@triton.jit(launch_metadata=layer_norm_metadata)
def layer_norm_kernel(out, x, weight, bias, rows, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(mask, values - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / columns
    scale = tl.load(weight + offsets, mask=mask, other=0.0)
    shift = tl.load(bias + offsets, mask=mask, other=0.0)
    result = centred / tl.sqrt(variance + epsilon) * scale + shift
    tl.store(out + row * columns + offsets, result, mask=mask)


def layer_norm(x, weight, bias, epsilon=1e-5):
    rows, columns = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    layer_norm_kernel[(rows,)](out, x, weight, bias, rows, columns, epsilon, BLOCK=block)
    return out


# --------------------------------------------------------------------------------- matmul


def matmul_metadata(grid, metadata, args):
    m, n, k = args["M"], args["N"], args["K"]
    size = args["a"].element_size()
    return {
        "name": f"matmul_{m}x{n}x{k}",
        f"flops{8 * size}": 2 * m * n * k,
        "bytes": size * (m * k + k * n + m * n),
    }


@triton.jit(launch_metadata=matmul_metadata)
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        left_at = a + rows[:, None] * K + (start + inner)[None, :]
        right_at = b + (start + inner)[:, None] * N + columns[None, :]
        left_mask = (rows[:, None] < M) & ((start + inner)[None, :] < K)
        right_mask = ((start + inner)[:, None] < K) & (columns[None, :] < N)
        left = tl.load(left_at, mask=left_mask, other=0.0)
        right = tl.load(right_at, mask=right_mask, other=0.0)
        total = tl.dot(left, right, total)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty), mask=mask)


def matmul(a, b, block=64):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(m, block), triton.cdiv(n, block))
    matmul_kernel[grid](a, b, c, m, n, k, BM=block, BN=block, BK=32)
    return c


# --------------------------------------------------------------------------------- the model


class Block:
    """One attention head and one linear layer, each after a layer norm."""

    def __init__(self, width):
        def weights(*shape):
            return (torch.randn(*shape, device=DEVICE) / width**0.5).to(torch.float16)

        self.query, self.key, self.value = (weights(width, width) for _ in range(3))
        self.linear = weights(width, width)
        self.scale = torch.ones(width, device=DEVICE, dtype=torch.float16)
        self.shift = torch.zeros(width, device=DEVICE, dtype=torch.float16)

    def forward(self, x):
        with proton.scope("attention"):
            normal = layer_norm(x, self.scale, self.shift)
            with proton.scope("project"):
                # A state is the last level of what runs while it is set.
                with proton.state("query"):
                    query = matmul(normal, self.query)
                with proton.state("key"):
                    key = matmul(normal, self.key)
                with proton.state("value"):
                    value = matmul(normal, self.value)
            # An exclusive metric: it counts here and is not added to the scopes around.
            with proton.scope("scores", {"score_bytes (exc)": 2 * x.shape[0] ** 2}):
                scores = softmax(matmul(query, key.t().contiguous()) / x.shape[1] ** 0.5)
            x = x + matmul(scores, value)
        with proton.scope("linear"):
            return x + matmul(layer_norm(x, self.scale, self.shift), self.linear)

    def reference(self, x):
        """The same in PyTorch, in 32 bits."""

        def norm(t):
            return torch.nn.functional.layer_norm(t, t.shape[1:])

        x = x.float()
        normal = norm(x)
        query, key, value = (normal @ w.float() for w in (self.query, self.key, self.value))
        x = x + torch.softmax(query @ key.t() / x.shape[1] ** 0.5, dim=-1) @ value
        return x + norm(x) @ self.linear.float()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rows", type=int, default=64, help="sequence length")
    parser.add_argument("--width", type=int, default=128)
    options = parser.parse_args()

    torch.manual_seed(0)
    layers = [Block(options.width) for _ in range(options.layers)]
    x = torch.randn(options.rows, options.width, device=DEVICE).to(torch.float16)

    with proton.scope("warm-up"):
        layers[0].forward(x)

    # The property is not summed; tokens are, over the steps and into the enclosing scopes.
    with proton.scope("model", {"width (pty)": options.width}):
        for _ in range(options.steps):
            with proton.cpu_timed_scope("step", {"tokens": options.rows}):
                out = x
                for number, layer in enumerate(layers):
                    with proton.scope(f"layer_{number}"):
                        out = layer.forward(out)

    expected = x
    for layer in layers:
        expected = layer.reference(expected)
    worst = (out.float() - expected).abs().max().item()
    assert worst < 0.1, f"wrong result: off by {worst}"
    where = torch.cuda.get_device_name() if DEVICE == "cuda" else "the CPU, interpreted"
    print(f"{options.steps} steps of {options.layers} layers on {where}: right to {worst:.1e}")


if __name__ == "__main__":
    main()
