"""Record overhead that time_shift subtracts on this GPU, compared with that in Triton kernels.

    python -m pytest tests/gpu/test_intra_calibrate.py

Needs the installed package, torch with CUDA and triton.
"""

import json
import os
import subprocess
import sys

import gpus
import pytest

torch = gpus.need(gpus.NVIDIA, "the record overhead is calibrated there")

import triton
import triton.language as tl
from test_intra import nodes_of, session  # noqa: F401

import triton_proton as proton
import triton_proton.language as pl

LAUNCHES = 20
FEW, MANY = 8, 40
# More than what there is to take off, and always as long.
CHAIN = tl.constexpr(
    "{ .reg .u32 %x; mov.u32 %x, $1; " + "mad.lo.u32 %x, %x, %x, %x; " * 400 + "mov.u32 $0, %x; }"
)
NOTHING = tl.constexpr("mov.u32 $0, 0;")


@triton.jit
def nothing(text: tl.constexpr):
    """For the pass an instruction, for the assembler none: scopes around it do not touch."""
    tl.inline_asm_elementwise(text, "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def work(text: tl.constexpr, argument):
    return tl.inline_asm_elementwise(
        text, "=r,r", [argument], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def empties(out, COUNT: tl.constexpr, APART: tl.constexpr):
    x = tl.load(out)
    x = work(CHAIN, x)
    with pl.scope("outer"):
        x = work(CHAIN, x)
        for _ in tl.static_range(COUNT):
            with pl.scope("empty"):
                pass
            if APART:
                nothing(NOTHING)
    tl.store(out + 1, x)


def minimum(session, mode: str, count: int, apart: bool) -> dict[str, float]:  # noqa: F811
    """The minimum of each scope, and the mean of the empty ones, in cycles."""
    out = torch.zeros(2, device="cuda", dtype=torch.int32)
    session(mode=mode + "tree=records:buffer_size=4096")
    for _ in range(LAUNCHES):
        empties[(1,)](out, COUNT=count, APART=apart, num_warps=1)
    torch.cuda.synchronize()
    proton.finalize()
    nodes = nodes_of()
    found = {"outer": nodes["empties/outer"]["min_cycles"]}
    inner = nodes["empties/outer/empty"]
    assert inner["executions"] == LAUNCHES * count
    found["empty"] = inner["min_cycles"]
    found["mean"] = inner["mean_cycles"]
    return found


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "touching"])
def test_subtracted_overhead_is_that_of_records(session, capsys, apart):  # noqa: F811
    raw = {n: minimum(session, "default:", n, apart) for n in (FEW, MANY)}
    shifted = {
        n: minimum(session, "default:optimizations=time_shift:", n, apart) for n in (FEW, MANY)
    }

    def scope(found) -> float:
        return (found[MANY]["outer"] - found[FEW]["outer"]) / (MANY - FEW)

    with capsys.disabled():
        print(
            f"\n{'apart' if apart else 'touching'}: a scope costs {scope(raw):.2f} cycles, taken "
            f"off {scope(raw) - scope(shifted):.2f}; an empty one measures {raw[MANY]['empty']} "
            f"(mean {raw[MANY]['mean']:.2f}), and with what it costs taken off "
            f"{shifted[MANY]['empty']} (mean {shifted[MANY]['mean']:.2f})"
        )
    assert scope(raw) > 0
    assert abs(scope(shifted)) <= 2
    assert shifted[MANY]["empty"] <= 2
    assert shifted[MANY]["mean"] <= 4


@pytest.mark.parametrize("cycles", [500, 2000, 20000, 1000000])
def test_known_cycles_with_measured_overhead(session, monkeypatch, cycles):  # noqa: F811
    from test_intra import wait_cycles

    monkeypatch.delenv("PROTON_INSTRUMENT_COST", raising=False)
    out = torch.zeros(64, device="cuda", dtype=torch.int32)
    zero = torch.zeros(1, device="cuda", dtype=torch.int32)
    session(mode="default:optimizations=time_shift")
    for _ in range(5):
        wait_cycles[(64,)](out, zero, CYCLES=cycles, num_warps=1)
    torch.cuda.synchronize()
    proton.finalize()
    spent = out.double().mean().item()
    assert nodes_of()["wait_cycles/spin"]["mean_cycles"] == pytest.approx(spent, rel=0.02)


PROGRAM = """
import torch, triton_proton as proton
from test_intra import add

proton.start("records", backend="cupti", memory=True)
proton.start("run", backend="instrumentation", mode="default:optimizations=time_shift")
n = 1 << 16
x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
out = torch.empty_like(x)
with proton.scope("step"):
    for _ in range(5):
        add[(n // 1024,)](x, y, out, n, BLOCK=1024)
    torch.cuda.synchronize()
proton.finalize()
"""


def test_no_profile_shows_the_calibration(tmp_path):
    """Nor what else is done for instrumentation: it clears and copies buffers."""
    environment = dict(os.environ)
    environment.pop("PROTON_INSTRUMENT_COST", None)
    here = os.path.dirname(os.path.abspath(__file__))
    environment["PYTHONPATH"] = os.pathsep.join(
        [here, *filter(None, [environment.get("PYTHONPATH")])]
    )
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "time_shift has no effect" not in done.stderr, done.stderr
    nodes = nodes_of(str(tmp_path / "records.hatchet"))
    assert nodes["step/add"]["count"] == 5
    ours = [name for name in nodes if "proton_" in name or "Memset" in name or "Memcpy" in name]
    assert not ours, nodes.keys()
    text = (tmp_path / "records.hatchet").read_text()
    assert json.loads(text) and "proton_calibrate" not in text
