"""One side of bench/intra.py, in a process of its own: python bench/intra_side.py SIDE LAUNCHES

SIDE is `ours` or `upstream`. Prints one line, "result " and an object of JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from typing import Any, Callable, Optional

import torch
import triton
import triton.language as tl

SIDE = sys.argv[1] if len(sys.argv) > 1 else "ours"
if SIDE == "upstream":
    import triton.profiler as proton
    import triton.profiler.language as pl

    pl.enable_semantic("triton")
    MODE = "default:optimizations=clock32"
    ALL_LAUNCHES = MODE  # it has no other way
else:
    import triton_proton as proton
    import triton_proton.language as pl

    MODE = "default"
    ALL_LAUNCHES = "default:launches=all"

SIZE = 2048
TRACED = 24


@triton.jit
def matmul(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MARK: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_at = a + rows[:, None] * K + inner[None, :]
    b_at = b + inner[:, None] * N + columns[None, :]
    sums = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        if MARK:
            pl.enter_scope("load")
        x = tl.load(a_at)
        y = tl.load(b_at)
        if MARK:
            pl.exit_scope("load")
        if MARK:
            pl.enter_scope("dot")
        sums = tl.dot(x, y, sums)
        if MARK:
            pl.exit_scope("dot")
        a_at += BK
        b_at += BK * N
    tl.store(c + rows[:, None] * N + columns[None, :], sums.to(tl.float16))


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr, MARK: tl.constexpr):
    if MARK:
        pl.enter_scope("all")
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    if MARK:
        pl.enter_scope("load")
    left = tl.load(x + at, mask=mask)
    right = tl.load(y + at, mask=mask)
    if MARK:
        pl.exit_scope("load")
    if MARK:
        pl.enter_scope("store")
    tl.store(out + at, left + right, mask=mask)
    if MARK:
        pl.exit_scope("store")
    if MARK:
        pl.exit_scope("all")


@triton.jit
def empty_scopes(out, COUNT: tl.constexpr):
    pl.enter_scope("outer")
    for _ in tl.static_range(COUNT):
        # An instruction for the compiler and none for the assembler: the scopes do not touch.
        tl.inline_asm_elementwise(
            "mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )
        pl.enter_scope("empty")
        pl.exit_scope("empty")
    pl.exit_scope("outer")
    tl.store(out, 1.0)


class Case:
    """A kernel that can be launched with and without its scopes."""

    def __init__(self, name: str, launch: Callable[[bool], Any], result: torch.Tensor) -> None:
        self.name = name
        self.launch = launch
        self.result = result


def cases() -> list[Case]:
    torch.manual_seed(1)
    a = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16)
    b = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16)
    c = torch.empty_like(a)
    grid = (SIZE // 128, SIZE // 128)

    def multiply(stages: int) -> Callable[[bool], Any]:
        def launch(mark: bool) -> Any:
            return matmul[grid](
                a, b, c, SIZE, SIZE, SIZE, BM=128, BN=128, BK=64, MARK=mark,
                num_stages=stages, num_warps=8,
            )  # fmt: skip

        return launch

    x = torch.randn(1 << 22, device="cuda")
    y = torch.randn_like(x)
    z = torch.empty_like(x)
    return [
        Case("matmul, 3 stages", multiply(3), c),
        Case("matmul, 1 stage", multiply(1), c),
        Case("vector add", lambda mark: add[(4096,)](x, y, z, 1 << 22, BLOCK=1024, MARK=mark), z),
    ]


# ---------------------------------------------------------------------- reading profiles


def nodes_of(path: str) -> list[dict[str, Any]]:
    """All nodes of a .hatchet file, each before what is below it."""
    with open(path, encoding="utf-8") as file:
        queue = [json.load(file)[0]]
    found = []
    while queue:
        node = queue.pop(0)
        found.append(node)
        queue += node["children"]
    return found


def kernel_us(path: str, kernel: str) -> float:
    times = [
        node["metrics"]["time (ns)"] / node["metrics"]["count"] / 1e3
        for node in nodes_of(path)
        if node["frame"]["name"] == kernel and node["metrics"].get("count")
    ]
    return times[0]


# ---------------------------------------------------------------------- measuring


def kernel_time(case: Case, mark: bool, scratch: str, launches: int) -> float:
    """Microseconds per launch from the kernel records of CUPTI."""
    name = os.path.join(scratch, f"time{mark}")
    backend = {} if SIDE == "upstream" else {"backend": "cupti"}
    records = proton.start(name, **backend)
    inside: Optional[int] = None
    if mark:
        inside = proton.start(name + "i", backend="instrumentation", data="tree", mode=MODE)
    case.launch(mark)  # compile
    torch.cuda.synchronize()
    for _ in range(launches):
        case.launch(mark)
    torch.cuda.synchronize()
    del records, inside
    proton.finalize()
    kernel = "add" if case.name == "vector add" else "matmul"
    return kernel_us(name + ".hatchet", kernel)


def flush(session: Any) -> None:
    """Wait until everything has been recorded; upstream has no other way than the end."""
    if SIDE == "upstream":
        proton.finalize()
    else:
        proton.deactivate(session, flushing=True)


def wall(case: Case, mark: bool, scratch: str, launches: int) -> dict[str, float]:
    """Time on the launching thread, alone and when launches follow each other."""
    if mark:
        session = proton.start(
            os.path.join(scratch, "wall"), backend="instrumentation", data="tree", mode=MODE
        )
    compiled = case.launch(mark)
    for _ in range(3):
        case.launch(mark)
    torch.cuda.synchronize()
    each = []
    for _ in range(launches):
        begin = time.perf_counter()
        case.launch(mark)
        each.append(time.perf_counter() - begin)
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(launches):
        case.launch(mark)
    issued = time.perf_counter()
    torch.cuda.synchronize()
    if mark:
        flush(session)
    ended = time.perf_counter()
    if mark:
        proton.finalize()
    return {
        "launching thread us": statistics.median(each) * 1e6,
        "back to back us": (issued - begin) / launches * 1e6,
        "sustained ms": (ended - begin) / launches * 1e3,
        "registers": compiled.n_regs,
        "spills": compiled.n_spills,
    }


def bits(case: Case, mark: bool, scratch: str) -> torch.Tensor:
    case.result.zero_()
    if mark:
        proton.start(
            os.path.join(scratch, "bits"), backend="instrumentation", data="tree", mode=MODE
        )
    case.launch(mark)
    torch.cuda.synchronize()
    if mark:
        proton.finalize()
    return case.result.clone()


def trace(case: Case, scratch: str, mode: str, output_format: str = "") -> dict[str, float]:
    """24 launches as a timeline; ours keeps the first few unless the mode says otherwise."""
    directory = os.path.join(scratch, f"trace{len(os.listdir(scratch))}")
    os.mkdir(directory)
    path = os.path.join(directory, "trace")
    proton.start(path, backend="instrumentation", data="trace", mode=mode)
    begin = time.perf_counter()
    for _ in range(TRACED):
        case.launch(True)
    torch.cuda.synchronize()
    ran = time.perf_counter()
    proton.finalize(output_format=output_format)
    ended = time.perf_counter()
    files = [os.path.join(directory, name) for name in os.listdir(directory)]
    text = max(files, key=os.path.getsize)
    slices = 0
    if not output_format:
        with open(text, encoding="utf-8") as file:
            slices = file.read().count('"ph":"X"')
    return {
        "run s": ran - begin,
        "write s": ended - ran,
        "MB": os.path.getsize(text) / 1e6,
        "slices": slices,
    }


def launches_kept(some: Any, whole: Any) -> Optional[int]:
    """How many of the launches a trace holds, from its slices and those of one with all."""
    if not some or not whole or not whole["slices"]:
        return None
    return round(some["slices"] * TRACED / whole["slices"])


def record_cost(scratch: str) -> dict[str, float]:
    """What an empty scope measures, and by how much it lengthens the one around it, in cycles."""
    out = torch.zeros(1, device="cuda")
    lengths = {}
    empty = 0.0
    for count in (8, 40):
        path = os.path.join(scratch, f"cost{count}")
        mode = MODE if SIDE == "upstream" else "default:buffer_size=4096"
        proton.start(path, backend="instrumentation", data="tree", mode=mode)
        for _ in range(20):
            empty_scopes[(1,)](out, COUNT=count, num_warps=1)
        torch.cuda.synchronize()
        proton.finalize()
        for node in nodes_of(path + ".hatchet"):
            metrics = node["metrics"]
            if node["frame"]["name"] == "outer":
                lengths[count] = metrics.get("min_cycles", metrics["cycles"] / 20)
            if node["frame"]["name"] == "empty":
                runs = metrics.get("executions", 20 * count)
                empty = metrics.get("mean_cycles", metrics["cycles"] / runs)
    return {"empty cycles": empty, "scope cycles": (lengths[40] - lengths[8]) / 32}


def measured(what: str, measure: Callable[[], Any]) -> Any:
    """The figure, or why there is none: one that fails does not take the others with it."""
    try:
        return measure()
    except Exception as error:
        print(f"{SIDE}: {what}: {type(error).__name__}: {error}", file=sys.stderr)
        try:
            proton.finalize()
        except Exception as again:
            print(f"{SIDE}: {again}", file=sys.stderr)
        return None


def main() -> None:
    launches = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "triton": triton.__version__,
        "cases": {},
    }
    for number, case in enumerate(cases()):
        with tempfile.TemporaryDirectory() as scratch:
            plain = measured("bits", lambda: bits(case, False, scratch))
            marked = measured("bits", lambda: bits(case, True, scratch))
            row: dict[str, Any] = {
                "identical": plain is not None and marked is not None and torch.equal(plain, marked)
            }
            for mark in (False, True):
                key = "marked" if mark else "plain"
                row[key] = measured(
                    f"{case.name}, wall", lambda: wall(case, mark, scratch, launches)
                )
            for mark in (False, True):
                key = "marked kernel us" if mark else "plain kernel us"
                row[key] = measured(
                    f"{case.name}, kernel time", lambda: kernel_time(case, mark, scratch, launches)
                )
            if number == 0:
                row["trace"] = measured("trace", lambda: trace(case, scratch, MODE))
                row["whole trace"] = measured("trace", lambda: trace(case, scratch, ALL_LAUNCHES))
                row["launches kept"] = launches_kept(row["trace"], row["whole trace"])
                if SIDE == "ours":
                    row["perfetto"] = measured(
                        "trace for Perfetto", lambda: trace(case, scratch, MODE, "perfetto")
                    )
            found["cases"][case.name] = row
    with tempfile.TemporaryDirectory() as scratch:
        found["record"] = measured("record cost", lambda: record_cost(scratch))
    print("result " + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
