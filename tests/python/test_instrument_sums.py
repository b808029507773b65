"""Sums of instrumented kernels, by executing them: nested scopes, loops and branches, warp by warp.

Each warp stores its sums and counts once, at its end (docs/format.md, "Sums of instrumented
kernels"). They must be those of the executions that the warp has made.
"""

import struct
from collections import Counter
from typing import Any

import pytest

pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from built import TOOL  # noqa: E402
from llvm_run import Cta, Thread, compile_kernel  # noqa: E402
from test_instrument_records import BUFFER, M32, functions, instrument, text_of  # noqa: E402

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="tests/tools/run_pass is not built")

TICK = 7  # cycles between two clock reads


# ------------------------------------------------------------------ kernels

# A statement: None is arithmetic; ("scope", name, body), ("loop", body), ("if", body, body).
STATEMENTS = st.recursive(
    st.lists(st.none(), max_size=2),
    lambda body: st.lists(
        st.one_of(
            st.none(), st.tuples(st.just("scope"), st.sampled_from("abc"), body),
            st.tuples(st.just("scope"), st.sampled_from("abc"), body),
            st.tuples(st.just("loop"), body), st.tuples(st.just("if"), body, body),
        ),
        max_size=4,
    ),
    max_leaves=12,
)


def blocks_of(statements) -> list[tuple[list, list[int]]]:
    """The blocks of test_instrument_records; a loop is left by its first edge."""
    blocks: list[tuple[list, list[int]]] = [([], [])]

    def begin() -> int:
        blocks.append(([], []))
        return len(blocks) - 1

    def lower(statements, at: int) -> int:
        for statement in statements:
            if statement is None:
                blocks[at][0].append(None)
            elif statement[0] == "scope":
                blocks[at][0].append(("record start", statement[1]))
                at = lower(statement[2], at)
                blocks[at][0].append(("record end", statement[1]))
            elif statement[0] == "loop":
                head = begin()
                blocks[at][1].append(head)
                end = lower(statement[1], head)
                at = begin()
                blocks[end][1].extend([at, head])
            else:
                one, other = begin(), begin()
                blocks[at][1].extend([one, other])
                ends = [lower(statement[1], one), lower(statement[2], other)]
                at = begin()
                for end in ends:
                    blocks[end][1].append(at)
        return at

    lower(statements, 0)
    return blocks


def has_markers(blocks) -> bool:
    return any(isinstance(item, tuple) for items, _ in blocks for item in items)


def walk(blocks, choices) -> list[tuple[str, str, int]]:
    """The markers that a warp passes, with the clock in ticks. Adjacent ones share a read."""
    passed, number, at, ticks = [], 0, 0, 0
    while True:
        items, edges = blocks[number]
        before = None
        for item in items:
            if item is not None:
                is_empty = item[0] == "record end" and before == "record start"
                ticks += before is None or is_empty
                passed.append((item[0], item[1], ticks))
            before = item[0] if item is not None else None
        if not edges:
            return passed
        choice = 0
        if len(edges) > 1 and at < len(choices):
            choice = choices[at] % len(edges)
            at += 1
        number = edges[choice]


def executions_of(passed) -> dict[tuple[str, ...], list[int]]:
    """By path of scopes: the cycles of all executions."""
    cycles: dict[tuple[str, ...], list[int]] = {}
    opened: list[tuple[str, int]] = []
    for what, name, ticks in passed:
        if what == "record start":
            opened.append((name, ticks))
            continue
        path = tuple(name for name, _ in opened)
        begun = opened.pop()
        assert begun[0] == name
        cycles.setdefault(path, []).append((ticks - begun[1]) * TICK)
    return cycles


# ------------------------------------------------------------------ a decoder after docs/format.md


class Sums:
    """The sums that one unit has stored, by path of scopes."""

    def __init__(self, memory: dict[int, int], at: int, layout: dict, number: int) -> None:
        def words(offset: int, count: int) -> list[int]:
            return [memory.get(at + offset + 4 * i, 0) for i in range(count)]

        header = struct.pack("<16I", *words(64 * number, 16))
        self.magic, self.processor, self.count, _ = struct.unpack_from("<4I", header)
        _, self.start, _, self.end = struct.unpack_from("<4Q", header, 16)
        units = len(layout["units"][0].split())
        size = int(layout["ring"][0])
        self.words = words(64 * units + number * size, size // 4)
        self.counts: Counter = Counter()
        self.inside: dict[tuple[str, ...], int] = {}
        self.cycles: Counter = Counter()
        paths: list[tuple[str, ...]] = []
        for word, line in enumerate(layout["sum"]):
            scope, parent, *_, inside = map(int, line.split())
            path = (*(paths[parent - 1] if parent else ()), layout["scope"][scope])
            assert path not in paths
            paths.append(path)
            self.cycles[path] = self.words[word]
            if inside:
                self.inside[path] = self.words[inside - 1]
        self.extremes: dict[tuple[str, ...], tuple[int, int]] = {}
        for line in layout.get("extremes", []):
            which, low, high = map(int, line.split())
            self.extremes[paths[which]] = self.words[low], self.words[high]
        for line in layout["ends"]:
            which, word, times = map(int, line.split())
            self.counts[paths[which]] += self.words[word] * times
        self.starts: Counter = Counter()
        for line in layout.get("starts", []):
            which, word, times = map(int, line.split())
            self.starts[paths[which]] += self.words[word] * times


def run_warps(
    text: str, layout: dict, is_amd: bool, choices, start: int = 100, **more: Any
) -> Cta:
    cta = Cta(buffer=BUFFER, shared_bytes=int(layout["#shared"][0]), **more)
    run = compile_kernel(text)
    lanes = 64 if is_amd else 32
    for warp, mine in enumerate(choices):
        for lane in range(lanes):
            run(cta, Thread(cta, warp * lanes + lane, lanes, start + 1000 * warp, mine))
    return cta


# ------------------------------------------------------------------ the tests


@settings(
    max_examples=80, deadline=None, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    statements=STATEMENTS, arch=st.sampled_from(["sm_90", "gfx942"]),
    choices=st.lists(st.lists(st.integers(0, 1), max_size=40), min_size=3, max_size=3),
    buffer=st.sampled_from(["shared", "global"]), unit=st.sampled_from([1, 1, 2, 3]),
    sampled=st.sampled_from([0, 0, 1, 2, 5]), stride=st.sampled_from([1, 1, 2]),
    index=st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 1)),
    own=st.sampled_from([0, 4, 49000]), garbage=st.sampled_from([0, 0xDEADBEEF]),
    start=st.sampled_from([100, 2**32 - 300, 2**40 - 64]), extremes=st.booleans(),
)
def test_memory_contains_the_sums_of_each_warp(
    statements, arch, choices, buffer, unit, sampled, stride, index, own, garbage, start, extremes
):
    blocks = blocks_of([("scope", "k", statements)])
    is_amd = arch == "gfx942"
    options = {
        "warps": 3,
        "buffer": buffer,
        "unit": unit,
        "sampled": sampled,
        "stride": stride,
        "shared": own,
        "sums": 1,
        "extremes": int(extremes),
    }
    text, layout = instrument(text_of([blocks], is_amd), arch, options)
    assert "#why" not in layout
    cta = run_warps(
        text, layout, is_amd, choices, start, index=index, grid=(2, 3, 2), garbage=garbage
    )
    assert all(address >= 1024 + own for address in cta.shared)
    linear = (index[2] * 3 + index[1]) * 2 + index[0]
    size = int(layout["cta"][0])
    place = BUFFER + linear // stride * size
    units = [int(unit) for unit in layout["units"][0].split()]
    if linear % stride:
        assert not cta.memory
        return
    assert all(place <= at < place + size for at in cta.memory)
    for number, first in enumerate(units):
        sums = Sums(cta.memory, place, layout, number)
        cycles = executions_of(walk(blocks, choices[first]))
        assert sums.magic == 0x314F5250 and sums.processor == 77
        assert +sums.counts == {path: len(all_of) for path, all_of in cycles.items()}
        assert +sums.cycles == {path: sum(all_of) for path, all_of in cycles.items() if any(all_of)}
        if extremes:
            assert {path for path in cycles if len(cycles[path]) > 1} <= set(sums.extremes)
        else:
            assert not sums.extremes
        for path, found in sums.extremes.items():
            assert found == (min(cycles[path]), max(cycles[path])) if path in cycles else (M32, 0)
        assert start + 1000 * first < sums.start < sums.end


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    made=functions(), arch=st.sampled_from(["sm_90", "gfx942"]),
    choices=st.lists(st.integers(0, 3), max_size=40),
)
def test_any_markers_are_counted_or_recorded(made, arch, choices):
    """Scopes that overlap, never end, or are open on some paths only."""
    options = {"warps": 1, "sums": 1, "extremes": 1}
    text, layout = instrument(text_of(made, arch == "gfx942"), arch, options)
    assert ("#why" in layout) != ("sum" in layout)
    if "#why" in layout:
        assert text == instrument(text_of(made, arch == "gfx942"), arch, {"warps": 1})[0]
        return
    cta = run_warps(text, layout, arch == "gfx942", [choices])
    counts: Counter = Counter()
    for path, count in Sums(cta.memory, BUFFER, layout, 0).counts.items():
        counts[path[-1]] += count
    passed, number, at = Counter(), 0, 0
    while True:
        items, edges = made[0][number]
        passed.update(i[1] for i in items if isinstance(i, tuple) and i[0] == "record end")
        if not edges:
            break
        choice = 0
        if len(edges) > 1 and at < len(choices):
            choice, at = choices[at] % len(edges), at + 1
        number = edges[choice]
    assert +counts == passed


# A loop over steps, merged from a loop over tiles and one over the steps of a tile.
MERGED = [
    ([], [1]),
    ([], [3, 2]),  # 2: the first step of a tile
    ([("record start", "tile")], [3]),
    ([("record start", "step"), None, ("record end", "step")], [5, 4]),  # 4: the last one
    ([("record start", "store"), None, ("record end", "store"), ("record end", "tile")], [5]),
    ([], [6, 1]),
    ([], []),
]


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
@pytest.mark.parametrize("steps", [[3, 1, 2], [1], [2, 2]])
@pytest.mark.parametrize("is_cut", [False, True])
def test_scopes_that_depend_on_the_path(arch, steps, is_cut):
    """`is_cut`: the last tile has no last step, so its scope is open at the end."""
    choices: list[int] = []
    for number, count in enumerate(steps):
        for step in range(count):
            is_last = step == count - 1 and not (is_cut and number == len(steps) - 1)
            choices += [step == 0, is_last, 1]
    choices[-1] = 0
    text, layout = instrument(text_of([MERGED], arch == "gfx942"), arch, {"warps": 1, "sums": 1})
    sums = Sums(run_warps(text, layout, arch == "gfx942", [choices]).memory, BUFFER, layout, 0)
    tiles, all_steps = len(steps), sum(steps)
    assert sums.starts[("tile",)] == tiles
    assert sums.counts[("tile",)] == tiles - is_cut
    assert sums.counts[("tile", "step")] == sums.inside[("tile", "step")] == all_steps
    assert sums.cycles[("tile", "step")] == all_steps * TICK
    # In a tile the clock is read twice per step, and at the start of the store and at its end.
    if not is_cut:
        assert sums.cycles[("tile",)] == (2 * all_steps + 2 * tiles) * TICK


# The same, pipelined: a tile starts one step before it is its turn.
PIPELINED = [
    ([("record start", "tile")], [1]),
    ([], [3, 2]),  # 2: the last step of a tile, and not of all
    ([None, ("record start", "tile")], [3]),
    ([("record start", "step"), None, ("record end", "step")], [5, 4]),  # 4: the last one
    ([("record end", "tile")], [5]),
    ([], [6, 1]),
    ([], []),
]


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_executions_that_overlap(arch):
    choices = [0, 0, 1, 1, 1, 1, 0, 1, 0]  # tiles of two steps and of one
    text, layout = instrument(text_of([PIPELINED], arch == "gfx942"), arch, {"warps": 1, "sums": 1})
    sums = Sums(run_warps(text, layout, arch == "gfx942", [choices]).memory, BUFFER, layout, 0)
    assert sums.starts[("tile",)] == sums.counts[("tile",)] == 2
    assert sums.counts[("tile", "step")] == 3
    assert sums.inside.get(("tile", "step"), 3) == 3
    # Clock reads: tile, step, its end, tile, step, its end, end, step, its end, end.
    assert sums.cycles[("tile",)] == (6 + 6) * TICK
    assert sums.cycles[("tile", "step")] == 3 * TICK


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_executions_outside_the_scope_around_others_are_known(arch):
    choices = [1, 0, 1, 0, 1, 1, 0, 0, 0]  # in a tile; in the same, its end; in none
    text, layout = instrument(text_of([MERGED], arch == "gfx942"), arch, {"warps": 1, "sums": 1})
    sums = Sums(run_warps(text, layout, arch == "gfx942", [choices]).memory, BUFFER, layout, 0)
    assert sums.counts[("tile", "step")] == 3
    assert sums.inside[("tile", "step")] == 2


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_a_million_executions_are_all_in_the_sum(arch):
    times = 1_000_000
    blocks = blocks_of(
        [("scope", "k", [("loop", [("scope", "a", [None, ("scope", "b", [None])]), None])])]
    )
    options = {"warps": 1, "sums": 1, "extremes": 1}
    text, layout = instrument(text_of([blocks], arch == "gfx942"), arch, options)
    cta = Cta(buffer=BUFFER, shared_bytes=int(layout["#shared"][0]))
    thread = Thread(cta, 0, 64 if arch == "gfx942" else 32, 2**32 - 1000, [1] * (times - 1))
    compile_kernel(text)(cta, thread)
    # All lanes make the same.
    words = {at - BUFFER: value for at, value in cta.memory.items()}
    if arch == "sm_90":
        shared = {at - 1024: value for at, value in cta.shared.items()}
        words = {**{64 + at - 48: value for at, value in shared.items() if at >= 48}}
    else:
        words = {64 + at - 1024: value for at, value in cta.shared.items()}
    got = Sums({BUFFER + at: value for at, value in words.items()}, BUFFER, layout, 0)
    assert got.counts == {("k",): 1, ("k", "a"): times, ("k", "a", "b"): times}
    # A turn reads the clock at the start of a, the start of b, and the end of both.
    assert got.cycles[("k", "a", "b")] == times * TICK
    assert got.cycles[("k", "a")] == 2 * times * TICK
    assert got.cycles[("k",)] == (3 * times + 1) * TICK
    assert got.extremes == {("k", "a"): (2 * TICK,) * 2, ("k", "a", "b"): (TICK,) * 2}


@pytest.mark.parametrize(
    "items, reason",
    [
        ([("record end", "a")], "scope a never starts"),
        ([("record start", "a")], "scope a never ends"),
        ([("event start", "a"), ("event end", "a")], "it has async events"),
    ],
)  # fmt: skip
def test_the_reason_for_records_is_given(items, reason):
    _, layout = instrument(text_of([[(items, [])]], False), "sm_90", {"warps": 1, "sums": 1})
    assert layout["#why"] == [reason]
