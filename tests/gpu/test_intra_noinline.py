"""Scopes in noinline functions, on a GPU: the number of executions of each, and its parents.

    python -m pytest tests/gpu/test_intra_noinline.py

Needs the installed package, torch with CUDA and triton.
"""

import json
from typing import Any

import gpus
import pytest

torch = gpus.need()

import triton
import triton.language as tl

import triton_proton as proton
import triton_proton.language as pl

CTAS = 96
WARPS = 4
BLOCK = 256
TILES = 7


@triton.jit(noinline=True)
def tile_sum(x, n, BLOCK: tl.constexpr):
    pl.enter_scope("tile")
    at = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + at, mask=at < n, other=0.0), axis=0)
    pl.exit_scope("tile")
    return total


@triton.jit(noinline=True)
def row_sum(x, n, BLOCK: tl.constexpr):
    pl.enter_scope("row")
    total = 0.0
    for k in range(0, n, BLOCK):
        total += tile_sum(x + k, n - k, BLOCK)
    pl.exit_scope("row")
    return total


@triton.jit(noinline=True)
def carried_sum(x, n, BLOCK: tl.constexpr):
    """Has no scope itself."""
    return row_sum(x, n, BLOCK) * 2


@triton.jit(noinline=True)
def clamped(value, limit):
    pl.enter_scope("clamp")
    if value > limit:
        pl.exit_scope("clamp")
        return limit
    value = value * value
    pl.exit_scope("clamp")
    return value


@triton.jit(noinline=True)
def ended(value):
    pl.exit_scope("across")
    return value + 1


@triton.jit
def sums(x, out, n, limit, BLOCK: tl.constexpr):
    row = x + tl.program_id(0) * n
    with pl.scope("all"):
        total = carried_sum(row, n, BLOCK)
        total += tile_sum(row, n, BLOCK)
        total = clamped(total, limit)
        pl.enter_scope("across")
        total = ended(total)
    tl.store(out + tl.program_id(0), total)


@triton.jit
def only_calls(x, out, n, BLOCK: tl.constexpr):
    tl.store(out + tl.program_id(0), tile_sum(x + tl.program_id(0) * n, n, BLOCK))


@pytest.fixture
def session(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PROTON_BACKEND", raising=False)

    def start(mode: str = "default") -> int:
        return proton.start("run", backend="instrumentation", mode=mode)

    yield start
    proton.finalize(None, "none")


def executions() -> dict[str, float]:
    """How often each scope was executed, by path of names."""
    with open("run.hatchet", encoding="utf-8") as file:
        queue = [("", json.load(file)[0])]
    found: dict[str, Any] = {}
    while queue:
        prefix, node = queue.pop()
        for child in node["children"]:
            name = f"{prefix}/{child['frame']['name']}" if prefix else child["frame"]["name"]
            if prefix and "executions" in child["metrics"]:
                found[name] = child["metrics"]["executions"]
            queue.append((name, child))
    return found


def run(tiles: int = TILES, limit: float = 1e30):
    torch.manual_seed(1)
    n = tiles * BLOCK
    x = torch.randn(CTAS, n, device="cuda")
    out = torch.empty(CTAS, device="cuda")
    kernel = sums[(CTAS,)](x, out, n, limit, BLOCK=BLOCK, num_warps=WARPS)
    torch.cuda.synchronize()
    return out, kernel


@pytest.mark.parametrize(
    "options, warps",
    [
        ("", 4),
        (":buffer_type=global", 4),
        (":sampling_strategy=selective:sampling_options=0,3", 2),
        (":buffer_type=global:sampling_strategy=selective:sampling_options=1", 1),
        (":granularity=warp_2", 2),
    ],
)
@pytest.mark.parametrize("limit", [1e30, -1e30])
def test_each_execution_is_recorded_below_its_caller(session, options, warps, limit):
    expected, plain = run(limit=limit)
    session(f"default{options}")
    out, marked = run(limit=limit)
    proton.finalize()
    assert torch.equal(out, expected)
    assert marked.n_spills == plain.n_spills == 0
    once = CTAS * warps
    assert executions() == {
        "sums/all": once,
        "sums/all/row": once,
        "sums/all/row/tile": once * TILES,
        "sums/all/tile": once,
        "sums/all/clamp": once,
        "sums/all/across": once,
    }


def test_a_kernel_may_have_scopes_only_in_its_callees(session):
    x = torch.randn(CTAS, BLOCK, device="cuda")
    out, expected = torch.empty(CTAS, device="cuda"), torch.empty(CTAS, device="cuda")
    only_calls[(CTAS,)](x, expected, BLOCK, BLOCK=BLOCK, num_warps=WARPS)
    session()
    only_calls[(CTAS,)](x, out, BLOCK, BLOCK=BLOCK, num_warps=WARPS)
    torch.cuda.synchronize()
    proton.finalize()
    assert torch.equal(out, expected)
    assert executions() == {"only_calls/tile": CTAS * WARPS}


def test_ring_buffers_keep_the_latest_of_many_calls(session):
    """A ring buffer of 4096 bytes holds 512 records; the kernel writes thousands."""
    tiles = 4000
    expected, _ = run(tiles)
    session("default:tree=records:buffer_size=16384")
    out, _ = run(tiles)
    proton.finalize()
    assert torch.equal(out, expected)
    found = executions()
    assert found["sums/all"] == CTAS * WARPS
    assert 500 * CTAS * WARPS <= sum(n for name, n in found.items() if name.endswith("/tile"))


def test_a_call_costs_little(session, capsys):
    """The extra time of a call with one record in it over the same call without."""

    def cycles_of(tiles: int) -> float:
        run(tiles)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.manual_seed(1)
        x = torch.randn(CTAS, tiles * BLOCK, device="cuda")
        out = torch.empty(CTAS, device="cuda")
        times = []
        for _ in range(20):
            begin.record()
            sums[(CTAS,)](x, out, tiles * BLOCK, 1e30, BLOCK=BLOCK, num_warps=WARPS)
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
        return min(times)

    few, many = 100, 2100
    plain = cycles_of(many) - cycles_of(few)
    session()
    marked = cycles_of(many) - cycles_of(few)
    per_call = (marked - plain) / (many - few) * 1e6
    with capsys.disabled():
        print(f"\n2000 calls: {plain:.3f} ms, with a record in each {marked:.3f} ms")
        print(f"a call with a record takes {per_call:.1f} ns more")
    assert per_call < 100
