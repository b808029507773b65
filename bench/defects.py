"""Whether `proton-viewer --brief` names the defects of real programs on an NVIDIA GPU.

    python bench/defects.py [--keep DIR] [--write]

Needs a GPU, torch, triton and the installed package; on an H100 it takes about a minute. Each
program launches kernels without a defect, and more work with one defect; CLEAN programs have none.
It is recorded as a user would who wants to know (launch metadata, PC samples, a trace or copies).
A row is right if the first claim has a kind that names the defect, and for a clean program if no
claim has high confidence. bench/evidence.py has profiles of planted numbers instead.

--keep writes each program's claims to DIR/NAME.txt and DIR/NAME.json. --write stores
bench/results/defects.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Optional

import report
import torch
import triton
import triton.language as tl
from evidence import LIMIT, is_right_of

import triton_proton as proton
from triton_proton._programs import find_program

FLOATS = 1 << 26
STEPS = 40


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask) + tl.load(y + at, mask), mask)


@triton.jit
def strided(x, out, n, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + (at * stride) % n) * 2)


@triton.jit
def gather(x, index, out, n, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(index + at)
    for _ in range(ROUNDS):
        place = tl.load(index + place)  # each load waits for the one before
    tl.store(out + at, tl.load(x + place))


@triton.jit
def add_up(x, out, rounds, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(rounds):
        total += tl.load(x + (row * rounds + i) * BLOCK + tl.arange(0, BLOCK))
    tl.store(out + row, tl.sum(total))


@triton.jit
def compute(x, steps, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for _ in range(steps):
        value = tl.sqrt(value * 0.5 + 0.25)
    tl.store(x + at, value)


@triton.jit
def count_up(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + at % 2, tl.load(x + at))


@triton.jit
def meet(x, out, rounds, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for _ in range(rounds):
        value = value * 0.5 + tl.sum(value) * 1e-6  # through shared memory, with barriers
    tl.store(out + at, value)


@triton.jit
def product(a, b, c, N, M: tl.constexpr, TILE: tl.constexpr, PRECISION: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * M + tl.arange(0, M)
    total = tl.zeros((M, M), tl.float32)
    for k in range(0, N, TILE):
        inner = k + tl.arange(0, TILE)
        left = tl.load(a + rows[:, None] * N + inner[None, :])
        right = tl.load(b + inner[:, None] * N + columns[None, :])
        total = tl.dot(left, right, total, input_precision=PRECISION)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty))


class Program(NamedTuple):
    kinds: tuple[str, ...]  # that name the defect; none: clean
    step: Callable[[], Any]
    options: dict[str, Any]


METADATA = {"hook": "triton"}
SAMPLES = {**METADATA, "mode": "pcsampling"}
TRACE = {**METADATA, "data": "trace"}
COPIES = {**METADATA, "memory": True}


class Programs:
    """The programs by name, with their tensors."""

    def __init__(self) -> None:
        self.found: dict[str, Program] = {}
        self.x, self.y, self.out = (torch.rand(FLOATS, device="cuda") for _ in range(3))
        self.index = torch.randperm(FLOATS, device="cuda").to(torch.int32)
        self.half = torch.rand(4096, 4096, device="cuda").to(torch.bfloat16)
        self.other = torch.empty_like(self.half)
        self.single = torch.rand(2048, 2048, device="cuda")
        self.result = torch.empty_like(self.single)
        self.add_inside()
        self.add_host()
        self.add_clean()

    def healthy(self) -> None:
        add[(FLOATS // 1024,)](self.x, self.y, self.out, FLOATS, 1024)

    def add(self, name: str, kinds: str, options: dict[str, Any], step: Callable[[], Any],
            is_alone: bool = False) -> None:  # fmt: skip
        def with_others() -> None:
            self.healthy()
            step()

        self.found[name] = Program(tuple(kinds.split()), step if is_alone else with_others, options)

    def multiply(self, n: int, tile: int, inner: int, stages: int, warps: int) -> Callable[[], Any]:
        """A product of n by n numbers, BF16 or for 2048 FP32."""
        a, c = (self.half, self.other) if n > 2048 else (self.single, self.result)
        grid = (n // tile, n // tile)
        return lambda: product[grid](
            a, a, c, n, tile, inner, "ieee", num_stages=stages, num_warps=warps
        )

    def add_inside(self) -> None:
        """Defects inside of kernels, and of launches."""
        x, out, processors = self.x, self.out, torch.cuda.get_device_properties(0)
        processors = processors.multi_processor_count

        def stride() -> None:
            strided[(FLOATS // 4 // 1024,)](x, out, FLOATS, 33, 1024)

        def chase() -> None:
            gather[(FLOATS // 8 // 512,)](x, self.index, out, FLOATS, 4, 512)

        self.add("strided loads", "far_from_peak stall", METADATA, stride)
        self.add("strided loads, sampled", "far_from_peak stall", SAMPLES, stride)
        self.add("dependent loads", "far_from_peak", METADATA, chase)
        self.add("dependent loads, sampled", "far_from_peak stall", SAMPLES, chase)
        self.add("one CTA", "few_ctas", METADATA, lambda: add_up[(1,)](x, out, 1024, 1024))
        self.add("few CTAs", "few_ctas", METADATA, lambda: add_up[(16,)](x, out, 2048, 1024))
        self.add("tail wave", "tail_wave", METADATA,
                 lambda: compute[(2 * processors + 6,)](x, 6000, 1024, num_warps=32))  # fmt: skip
        self.add("atomics at two addresses, sampled", "far_from_peak stall", SAMPLES,
                 lambda: count_up[(FLOATS // 64 // 256,)](x, out, 256))  # fmt: skip
        self.add("barriers, sampled", "stall", SAMPLES,
                 lambda: meet[(processors * 8,)](x, out, 600, 4096, num_warps=16))  # fmt: skip
        few, tiny, large = (4096, 64, 32, 1, 4), (4096, 16, 16, 2, 1), (4096, 128, 16, 2, 2)
        self.add("no pipeline", "far_from_peak stall", METADATA, self.multiply(*few))
        self.add("tiles too small", "far_from_peak stall", METADATA, self.multiply(*tiny))
        self.add("tiles too large", "low_occupancy far_from_peak", METADATA, self.multiply(*large))
        self.add("FP32 without TF32", "fp32_products", METADATA,
                 lambda: torch.mm(self.single, self.single))  # fmt: skip
        self.add("FP32 in Triton", "far_from_peak", METADATA, self.multiply(2048, 64, 32, 2, 4))

    def add_host(self) -> None:
        """Defects of the host."""
        x, y, out = self.x, self.y, self.out
        small, host = torch.rand(1024, device="cuda"), torch.rand(1 << 22)

        def launch_many() -> None:
            for _ in range(300):
                small.add_(1)

        def sleep() -> None:
            for _ in range(3):
                add[(4096,)](x, y, out, 4096 * 1024, 1024)
                time.sleep(0.0005)

        def read() -> None:
            for _ in range(10):
                float(small.add_(1)[0])

        self.add("copies to the host", "memory_copies", COPIES, out[: 1 << 22].cpu)
        self.add("pageable copies", "memory_copies", COPIES, host.cuda)
        self.add("many launches", "short_kernels", METADATA, launch_many)
        self.add("host that sleeps", "launch_gaps", TRACE, sleep, is_alone=True)
        self.add("host that reads", "launch_gaps", TRACE, read, is_alone=True)

    def add_clean(self) -> None:
        half, other, x, out = self.half, self.other, self.x, self.out

        def multiply() -> None:
            torch.mm(half, half, out=other)

        self.add("clean: additions", "", METADATA, self.healthy)
        self.add("clean: additions, sampled", "", SAMPLES, self.healthy)
        self.add("clean: additions, traced", "", TRACE, self.healthy)
        self.add("clean: product", "", METADATA, multiply)
        self.add("clean: product, sampled", "", SAMPLES, multiply)
        self.add("clean: copy on the device", "", COPIES, lambda: out.copy_(x))
        self.add("clean: sums of long rows", "", METADATA,
                 lambda: add_up[(FLOATS // 65536,)](x, out, 16, 4096))  # fmt: skip
        self.add("clean: TF32", "", METADATA, tf32(self.single))


def tf32(matrix: Any) -> Callable[[], None]:
    def multiply() -> None:
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.mm(matrix, matrix)
        torch.backends.cuda.matmul.allow_tf32 = False

    return multiply


def claims(program: Program, folder: str, keep: Optional[Path], name: str) -> dict[str, Any]:
    """The JSON of --brief about a recorded run."""
    for _ in range(3):
        program.step()
    torch.cuda.synchronize()
    path = os.path.join(folder, "run")
    session = proton.start(path, **program.options)
    for _ in range(STEPS):
        program.step()
    torch.cuda.synchronize()
    proton.finalize(session, "proton")
    command = [find_program("proton-viewer") or "proton-viewer", "--brief", f"{path}.proton"]
    if keep is not None:
        with open(keep / f"{name}.txt", "w", encoding="utf-8") as file:
            subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, timeout=60)
    done = subprocess.run([*command, "--json"], check=True, capture_output=True, timeout=60)
    if keep is not None:
        (keep / f"{name}.json").write_bytes(done.stdout)
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="a new folder for the claims")
    parser.add_argument("--write", action="store_true", help="store bench/results/defects.json")
    options = parser.parse_args()
    if options.keep is not None:
        options.keep.mkdir(parents=True)
    rows, right = [], {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        for name, program in Programs().found.items():
            data = claims(program, folder, options.keep, name.replace(" ", "_").replace(":", ""))
            is_right = is_right_of(data, program.kinds)
            right[bool(program.kinds)].append(is_right)
            first = data["claims"][0] if data["claims"] else {"kind": "none", "confidence": ""}
            text = f"first claim: {first['kind']} {first['confidence']}".strip()
            rows.append(report.row(name, "share", ours=float(is_right), target=text, met=is_right))
            report.show(rows[-1])
    for work, found, limit in (("all defects", right[True], LIMIT), ("all clean", right[False], 1)):
        share = sum(found) / len(found)
        rows.append(report.row(f"{work}, {len(found)} programs", "share", ours=share,
                               target=f"at least {limit:g}", met=share >= limit))  # fmt: skip
        report.show(rows[-1])
    if options.write:
        versions = report.versions("triton_proton", "triton", "torch")
        report.write("defects", report.gpu(), versions, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
