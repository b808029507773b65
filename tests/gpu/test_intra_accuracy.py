"""Accuracy of intra-kernel scopes, compared with work of known duration.

    python -m pytest tests/gpu/test_intra_accuracy.py

Prints a table: asked, true, measured, error. Needs the installed package, torch with CUDA and
triton. "True" comes from clock reads that the kernel itself makes around the same work, outside
of any scope or at the very ends of one; they include the cost of one clock read. The minimum
over all launches and CTAs is compared where the work always takes the same time, because caches are
cold at first; the mean where it does not.
"""

from dataclasses import dataclass

import gpus
import pytest

torch = gpus.need(gpus.NVIDIA, "its kernels contain PTX")

import triton
import triton.language as tl
from test_intra import nodes_of, session  # noqa: F401

import triton_proton as proton
import triton_proton.language as pl

CTAS = 32
LAUNCHES = 6
MODE = "default:tree=records:optimizations=time_shift"
LENGTHS = [500, 1000, 2000, 5000, 20000, 100000, 1000000]
MAXIMUM = 0.02

# A chain of multiplications, each of which needs the one before; the loop is not unrolled further.
CHAIN = 32
BODY = "mad.lo.u32 %x, %x, %x, %n; " * CHAIN
LOOP = (
    "mov.u32 %n, $1; mov.u32 %x, %n; mov.u32 %i, 0; .pragma \"nounroll\"; again: "
    + BODY
    + "add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra again; "
)
REGISTERS = "{ .reg .u32 %x, %n, %i, %a, %b; .reg .pred %p, %q; "
WORK = tl.constexpr(REGISTERS + LOOP + "mov.u32 $0, %x; }")
# A clock read as in records: where the assembler sees that all of a warp want the same value it
# takes another instruction, which reads some cycles later. It cannot know that this is always true.
SURE = "mov.u32 %a, $1; setp.ne.u32 %q, %a, 0x7fffffff; "
# The same with its number of cycles. The result of the chain must be used.
TIMED = tl.constexpr(
    REGISTERS
    + SURE
    + "@%q mov.u32 %a, %clock; "
    + LOOP
    + "@%q mov.u32 %b, %clock; sub.u32 $0, %b, %a; "
    + "setp.eq.u32 %p, %x, 12345; @%p mov.u32 $0, 0; }"
)
CLOCK = tl.constexpr("mov.u32 $0, %clock;")
SLEEP = tl.constexpr(
    "{ .reg .pred %q; setp.ne.u32 %q, $2, 0x7fffffff; @%q mov.u32 $0, %clock; "
    "nanosleep.u32 $2; @%q mov.u32 $1, %clock; }"
)


@triton.jit
def run(text: tl.constexpr, argument):
    return tl.inline_asm_elementwise(
        text, "=r,r", [argument], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def clock(text: tl.constexpr):
    return tl.inline_asm_elementwise(text, "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def chain(out, turns):
    """A scope around turns[0], which times itself: another copy of the loop may take a per cent
    more or less. Then cycles of turns[1].

    Both come from memory and are used before: nothing waits for them inside the scope.
    """
    at = out + tl.program_id(0) * 4
    turns, more = tl.load(turns), tl.load(turns + 1)
    tl.store(at + 3, run(WORK, turns) + run(WORK, more & 1))
    with pl.scope("chain"):
        spent = run(TIMED, turns)
    tl.store(at, spent)
    tl.store(at + 1, run(TIMED, more))


@triton.jit
def sleep(out, ns):
    ns = tl.load(ns)
    at = out + tl.program_id(0) * 2
    tl.store(at + 1, run(WORK, ns & 1))
    with pl.scope("sleep"):
        begin, end = tl.inline_asm_elementwise(
            SLEEP, "=&r,=&r,r", [ns], dtype=(tl.int32, tl.int32), is_pure=False, pack=1
        )
    tl.store(at, end - begin)


@triton.jit
def nested(out, turns, count):
    """A loop with a scope inside; without scopes its own readings say how long it takes."""
    turns, rest = tl.load(turns), tl.load(turns + 1)
    begin = clock(CLOCK)
    x = 0
    with pl.scope("outer"):
        for _ in range(count):
            x += run(WORK, rest)
            with pl.scope("inner"):
                x += run(WORK, turns)
    end = clock(CLOCK)
    at = out + tl.program_id(0) * 2
    tl.store(at, end - begin)
    tl.store(at + 1, x)


@dataclass
class Row:
    what: str
    asked: float
    true: float
    measured: float

    @property
    def error(self) -> float:
        return self.measured / self.true - 1


def show(rows: list[Row]) -> None:
    print(f"\n{'':24}{'asked':>12}{'true':>14}{'measured':>14}{'error':>9}")
    for row in rows:
        print(
            f"{row.what:24}{row.asked:12.0f}{row.true:14.1f}{row.measured:14.1f}"
            f"{row.error * 100:8.2f}%"
        )


def check(rows: list[Row], capsys) -> None:
    with capsys.disabled():
        show(rows)
    assert rows
    wrong = [row for row in rows if row.true >= 500 and abs(row.error) > MAXIMUM]
    assert not wrong, wrong


def launches(width: int, launch) -> torch.Tensor:
    """The values that each launch has stored in its tensor, by launch, CTA and position."""
    found = []
    for _ in range(LAUNCHES):
        out = torch.zeros((CTAS, width), device="cuda", dtype=torch.int32)
        launch(out)
        found.append(out)
    torch.cuda.synchronize()
    return torch.stack(found).long() & 0xFFFFFFFF


def both(turns: int, more: int) -> torch.Tensor:
    return torch.tensor([turns, more], device="cuda", dtype=torch.int32)


def cycles_of_a_turn() -> float:
    """From the difference of two long chains, which cancels out their ends."""
    turns = both(2000, 6000)
    found = launches(4, lambda out: chain[(CTAS,)](out, turns, num_warps=1))
    minimum = found.amin(dim=(0, 1))
    return (minimum[1] - minimum[0]).item() / 4000


def turns_for(cycles: float, turn: float) -> int:
    return max(1, round(cycles / turn))


def test_dependent_chains(session, capsys):  # noqa: F811
    turn = cycles_of_a_turn()
    rows = []
    # Not 500: its own first reading waits 14 cycles for a predicate, inside the scope.
    for cycles in LENGTHS[1:]:
        turns = turns_for(cycles, turn)
        session(mode=MODE)
        two = both(turns, turns + 1)
        found = launches(4, lambda out, two=two: chain[(CTAS,)](out, two, num_warps=1))
        proton.finalize()
        metrics = nodes_of()["chain/chain"]
        assert metrics["executions"] == LAUNCHES * CTAS
        minimum = found.amin(dim=(0, 1))
        rows.append(Row("chain", turns * turn, minimum[0].item(), metrics["min_cycles"]))
    with capsys.disabled():
        print(f"\none of a chain: {turn / CHAIN:.3f} cycles with its part of the loop")
    check(rows, capsys)


def test_sleeping(session, capsys):  # noqa: F811
    rows = []
    for ns in (500, 1000, 5000, 20000, 100000, 500000):
        session(mode=MODE)
        asked = both(ns, 0)
        found = launches(2, lambda out, asked=asked: sleep[(CTAS,)](out, asked, num_warps=1))
        proton.finalize()
        metrics = nodes_of()["sleep/sleep"]
        assert metrics["executions"] == LAUNCHES * CTAS
        # How long it sleeps is up to the device, up to twice what is asked: in ns, not in cycles.
        spent = found[:, :, 0].double().mean().item()
        rows.append(Row(f"nanosleep {ns} ns", ns, spent, metrics["mean_cycles"]))
    check(rows, capsys)


@pytest.mark.parametrize("count", [10, 200])
def test_scopes_in_loops(session, capsys, count):  # noqa: F811
    turn = cycles_of_a_turn()
    rows = []
    for cycles in (500, 1000, 4000, 20000):
        turns, rest = turns_for(cycles, turn), turns_for(600, turn)
        two = both(turns, rest)

        def launch(out, two=two):
            nested[(CTAS,)](out, two, count, num_warps=1)

        plain = launches(2, launch).amin(dim=(0, 1))[0].item()
        parts = launches(4, lambda out, two=two: chain[(CTAS,)](out, two, num_warps=1))
        parts = parts.amin(dim=(0, 1))
        # Ring buffers as large as the loop: nothing is overwritten.
        session(mode=MODE + ":buffer_size=16384")
        launches(2, launch)
        proton.finalize()
        nodes = nodes_of()
        outer, inner = nodes["nested/outer"], nodes["nested/outer/inner"]
        assert inner["executions"] == LAUNCHES * CTAS * count
        asked = (turns + rest) * turn * count
        rows += [
            Row(f"outer of {count}", asked, plain, outer["min_cycles"]),
            Row("  inner", turns * turn, parts[0].item(), inner["min_cycles"]),
            Row(
                "  outer without inner", rest * turn * count, plain - parts[0].item() * count,
                outer["min_cycles"] - inner["min_cycles"] * count,
            ),
        ]
    check(rows, capsys)
