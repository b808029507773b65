"""Records of instrumented kernels, by executing them: random control flow, run warp by warp.

Every lane runs the instructions that the pass has emitted (llvm_run.py), and what is then in global
memory is read back as docs/format.md says ("Records of instrumented kernels"), and must be the
warp's markers in the order in which it met them.
"""

import struct
import subprocess

import pytest

pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from built import TOOL  # noqa: E402
from llvm_run import M32, Cta, Thread, compile_kernel  # noqa: E402

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="tests/tools/run_pass is not built")

SCOPE, START, END, EVENT_START, EVENT_END = range(5)
BUFFER = 1 << 40


# ------------------------------------------------------------------ kernels

MARKERS = st.tuples(
    st.sampled_from(["record start", "record end", "event start", "event end"]),
    st.sampled_from(["a", "b", "c"]),
)
# Other work: arithmetic, a wait that it may move in front of, a fragment of a matrix, which may
# move after markers, and the use of all earlier such values.
WORK = st.sampled_from([None, None, "wait", "fragment", "use"])


def items(*more):
    """The content of a block, sometimes more than the smaller ring buffers hold."""
    few = st.lists(st.one_of(MARKERS, MARKERS, WORK, *more), max_size=5)
    return st.one_of(few, few, st.lists(st.one_of(MARKERS, WORK), max_size=14))


# Return type of a function, by its number modulo 3. The kernel is number 0 and returns nothing.
RETURNS = ["void", "i32", "{ i32, i32 }"]


@st.composite
def functions(draw, callees=0):
    """The kernel and its callees: each is a list of blocks, with items and edges.

    An item is a marker, a call (a number: that of a later function), or other work. The first edge
    leads forward.
    """
    made = []
    for this in range(callees + 1):
        inside = items(*([st.integers(this + 1, callees)] if this < callees else []))
        count = draw(st.integers(1, 6 if this == 0 else 3))
        blocks = []
        for number in range(count):
            edges = []
            if number < count - 1 and draw(st.integers(0, 9)) > 0:
                edges = [draw(st.integers(number + 1, count - 1))]
                edges += draw(st.lists(st.integers(1, count - 1), max_size=3 if this == 0 else 1))
            blocks.append((draw(inside), edges))
        made.append(blocks)
    if not any(isinstance(item, tuple) for items, _ in made[0] for item in items):
        made[0][0][0].append(("record start", "a"))
    return made


def end_of(edges, this: int, value: int) -> list[str]:
    """The instructions at the end of a block; they have up to two values."""
    lines = []
    if not edges and this % 3 == 2:
        lines.append(f"  %{value} = insertvalue {RETURNS[2]} poison, i32 0, 0")
        lines.append(f"  %{value + 1} = insertvalue {RETURNS[2]} %{value}, i32 %sum, 1")
        lines.append(f"  ret {RETURNS[2]} %{value + 1}")
    elif not edges:
        lines.append("  ret i32 %sum" if this % 3 else "  ret void")
    elif len(edges) == 1:
        lines.append(f"  br label %b{edges[0]}")
    else:
        lines.append(f"  %{value} = call i32 @choose(i32 {len(edges)})")
        if len(edges) == 2:
            lines.append(f"  %{value + 1} = icmp eq i32 %{value}, 0")
            a, b = edges
            lines.append(f"  br i1 %{value + 1}, label %b{a}, label %b{b}")
        else:
            lines.append(f"  switch i32 %{value}, label %b{edges[0]} [")
            lines += [f"    i32 {i}, label %b{edge}" for i, edge in enumerate(edges) if i]
            lines.append("  ]")
    return lines


def lines_of(blocks, this: int) -> list[str]:
    """The instructions of a function; block 0 has no label, as in what Triton makes.

    A callee adds its number to its parameter and returns the sum; its caller checks it.
    """
    lines = []
    value = 3 if this == 0 else 2
    if this:
        lines.append(f"  %sum = add i32 %0, {this}")
    for number, (items, edges) in enumerate(blocks):
        if number:
            lines.append(f"\nb{number}:                      ; preds = %whatever")
        made: list[tuple[int, int]] = []  # values, and by how much they are more than %0
        for item in [*items, "use"]:
            if item is None:
                lines.append(f"  %{value} = add i32 %0, {value}")
                made.append((value, value))
            elif item == "wait":
                lines.append("  tail call void @llvm.nvvm.cp.async.wait.group(i32 0)")
                value -= 1
            elif item == "fragment":
                lines.append(f"  %{value} = tail call i32 @ldmatrix(i32 %0)")
                value += 1
                lines.append(f"  %{value} = add i32 %{value - 1}, 7")
                made.append((value, 7))
            elif item == "use":
                for result, more in made:
                    lines.append(f"  %{value} = sub i32 %{result}, {more}")
                    lines.append(f"  call void @same(i32 %{value}, i32 %0)")
                    value += 1
                made.clear()
                value -= 1
            elif isinstance(item, int):
                kind = item % 3
                left = f"%{value} = " if kind else ""
                lines.append(f"  {left}tail call fastcc {RETURNS[kind]} @h{item}(i32 {value})")
                result = f"%{value}"
                if kind == 2:
                    value += 1
                    lines.append(f"  %{value} = extractvalue {RETURNS[2]} {result}, 1")
                    result, kind = f"%{value}", 3
                if kind:
                    given = value if kind == 1 else value - 1
                    lines.append(f"  call void @same(i32 {result}, i32 {given + item})")
                value -= not kind
            else:
                what, name = item
                lines.append(
                    f'  %{value} = tail call i32 asm sideeffect "// proton.{what} {name}", "=r"()'
                )
            value += 1
        lines += end_of(edges, this, value)
        value += 2 * (len(edges) > 1 or (not edges and this % 3 == 2))
    return lines


def text_of(made, is_amd: bool) -> str:
    """LLVM IR of a kernel and its callees."""
    call = "amdgpu_kernel" if is_amd else "ptx_kernel"
    heads = [
        f"{call} void @k(i32 %0, ptr addrspace(1) nofree readnone captures(none) %1)",
        *(
            f"internal fastcc {RETURNS[i % 3]} @h{i}(i32 %0) unnamed_addr"
            for i in range(1, len(made))
        ),
    ]
    bodies = [
        f"define {head} #0 {{\n" + "\n".join(lines_of(blocks, i)) + "\n}\n"
        for i, (head, blocks) in enumerate(zip(heads, made))
    ]
    return "\n".join(bodies) + "\nattributes #0 = { nounwind }\n"


def records_something(made, this: int) -> bool:
    """Has the function markers, or does it call one that has?"""
    items = [item for items, _ in made[this] for item in items]
    return any(
        isinstance(item, tuple) or (isinstance(item, int) and records_something(made, item))
        for item in items
    )


class Walk:
    """The records of a walk as (name, kind): pairs within one run of a block are one record."""

    def __init__(self, made, choices) -> None:
        self.made, self.choices, self.at = made, choices, 0
        self.records: list[list] = []
        self.scopes_of_helpers = {
            item[1]
            for blocks in made[1:]
            for items, _ in blocks
            for item in items
            if isinstance(item, tuple)
        }
        self.run(made[0])

    def block(self, items) -> None:
        here: list[list] = []  # records that a pair may begin with
        for item in items:
            if isinstance(item, int):
                self.run(self.made[item])
                if records_something(self.made, item):
                    here = [r for r in here if r[0] not in self.scopes_of_helpers]
            if not isinstance(item, tuple):
                continue
            what, _, which = item[0].partition(" ")
            name = item[1]
            if what == "event":
                self.records.append([name, EVENT_START if which == "start" else EVENT_END])
                continue
            mine = [r for r in here if r[0] == name]
            if which == "start":
                record = [name, START]
            elif mine and mine[-1][1] == START:
                mine[-1][1] = None  # its record is that of the end
                record = [name, SCOPE]
            else:
                record = [name, END]
            here.append(record)
            self.records.append(record)

    def run(self, blocks) -> None:
        number = 0
        while True:
            items, edges = blocks[number]
            self.block(items)
            if not edges:
                return
            choice = 0
            if len(edges) > 1 and self.at < len(self.choices):
                choice = self.choices[self.at] % len(edges)
                self.at += 1
            number = edges[choice]


def expected(made, choices) -> list[tuple[str, int]]:
    records = Walk(made, choices).records
    return [(name, kind) for name, kind in records if kind is not None]


def longest(blocks, number: int = 0):
    """Maximum number of records of any path from a block on; None for loops and calls."""
    items, edges = blocks[number]
    after = [None if isinstance(item, int) else 0 for item in items] + [0]
    for edge in edges:
        after.append(longest(blocks, edge) if edge > number else None)
    if None in after:
        return None
    return len(expected([[(items, [])]], [])) + max(after)


# ------------------------------------------------------------------ the pass


def instrument(text: str, arch: str, options: dict[str, int | str]) -> tuple[str, dict]:
    done = subprocess.run(
        [str(TOOL), "llvm", arch, *(f"{k}={v}" for k, v in options.items())], input=text.encode(),
        capture_output=True, timeout=300,
    )
    assert done.returncode == 0, done.stderr
    layout: dict[str, list[str]] = {}
    for line in done.stderr.decode().splitlines():
        key, _, value = line.partition(" ")
        layout.setdefault(key, []).append(value)
    return done.stdout.decode(), layout


# ------------------------------------------------------------------ a decoder after docs/format.md


class Unit:
    def __init__(self, memory: dict[int, int], at: int, layout: dict, number: int) -> None:
        def words(offset: int, count: int) -> list[int]:
            return [memory.get(at + offset + 4 * i, 0) for i in range(count)]

        header = struct.pack("<16I", *words(64 * number, 16))
        self.magic, self.processor, self.count, self.finalize = struct.unpack_from("<4I", header)
        self.start_ns, self.start, self.end_ns, self.end = struct.unpack_from("<4Q", header, 16)
        self.ring, self.slack = int(layout["ring"][0]), int(layout["slack"][0])
        units = len(layout["units"][0].split())
        place = 64 * units + number * (self.ring + self.slack)
        self.words = words(place, (self.ring + self.slack) // 4)
        self.scopes = layout["scope"]
        self.codes = [tuple(map(int, code.split())) for code in layout["code"]]

    def read(self, at: int):
        """(name, kind, start, end) of the record at byte `at` of the ring buffer, or None."""
        clock, word = self.words[at // 4], self.words[at // 4 + 1]
        code, payload = word >> 24, word & 0xFFFFFF
        if not 1 <= code <= len(self.codes):
            return None
        scope, kind = self.codes[code - 1]
        if (clock - self.start) & M32 > self.end - self.start:
            return None
        end = clock + payload if kind == SCOPE else clock
        return self.scopes[scope], kind, clock, end & M32

    def records(self):
        """The latest records, oldest first."""
        found = []
        for i in range(max(0, self.count - self.ring // 8), self.count):
            at = 8 * i % self.ring
            here = [self.read(at)]
            if at < self.slack and 8 * i >= self.ring:
                here.insert(0, self.read(self.ring + at))  # means it where both are as late
            here = [r for r in here if r]
            assert here, (i, self.count)
            found.append(min(here, key=lambda r: (self.end - r[3]) & M32))
        return found


def check_unit(unit: Unit, made, choices, thread_start: int) -> None:
    want = expected(made, choices)
    assert unit.magic == 0x314F5250 and unit.processor == 77
    assert unit.count == len(want)
    assert thread_start < unit.start < unit.end
    assert unit.start_ns < unit.end_ns
    got = unit.records()
    kept = min(len(want), unit.ring // 8)
    assert [(name, kind) for name, kind, _, _ in got] == want[len(want) - kept :]
    ends = [(end - unit.start) & M32 for _, _, _, end in got]
    assert ends == sorted(ends)
    for name, kind, start, end in got:
        if kind == SCOPE:
            assert (end - start) & M32 >= 7, name  # no scope is empty


# ------------------------------------------------------------------ the test


@settings(
    max_examples=60, deadline=None, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    made=st.integers(0, 3).flatmap(lambda callees: functions(callees)),
    arch=st.sampled_from(["sm_90", "gfx942"]),
    choices=st.lists(st.lists(st.integers(0, 3), max_size=40), min_size=3, max_size=3),
    buffer=st.sampled_from(["shared", "global"]), records=st.sampled_from([0, 1, 2, 4, 8, 32]),
    unit=st.sampled_from([1, 1, 2, 3]), sampled=st.sampled_from([0, 0, 1, 2, 4, 5, 6]),
    stride=st.sampled_from([1, 1, 2, 3]),
    index=st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 1)),
    own=st.sampled_from([0, 4, 1000, 49000]), garbage=st.sampled_from([0, 0x01000007, 0xDEADBEEF]),
    start=st.sampled_from([100, 2**32 - 300, 2**40 - 64]),
)
def test_memory_contains_the_records_of_each_warp(
    made, arch, choices, buffer, records, unit, sampled, stride, index, own, garbage, start
):
    is_amd = arch == "gfx942"
    lanes = 64 if is_amd else 32
    warps = 3
    options = {
        "warps": warps,
        "buffer": buffer,
        "bytes": records * 8 * 3,
        "unit": unit,
        "sampled": sampled,
        "stride": stride,
        "shared": own,
        "barriers": 1,
    }
    text, layout = instrument(text_of(made, is_amd), arch, options)
    maximum = longest(made[0])
    if not records and maximum is not None:
        # As large as it must be: a power of two, two records at least.
        ring = int(layout["ring"][0])
        assert ring == max(16, 1 << (8 * maximum - 1).bit_length()) and layout["slack"] == ["0"]
    run = compile_kernel(text)
    cta = Cta(
        index=index, grid=(2, 3, 2), buffer=BUFFER, shared_bytes=int(layout["#shared"][0]),
        garbage=garbage,
    )
    for warp in range(warps):
        for lane in range(lanes):
            run(cta, Thread(cta, warp * lanes + lane, lanes, start + 1000 * warp, choices[warp]))
    # Nothing of the kernel's own shared memory is written.
    assert all(address >= 1024 + own for address in cta.shared)
    linear = (index[2] * 3 + index[1]) * 2 + index[0]
    size = int(layout["cta"][0])
    place = BUFFER + linear // stride * size
    units = [int(u) for u in layout["units"][0].split()]
    assert units == [
        first
        for first in range(0, warps, unit)
        if not sampled or sampled >> first & ((1 << unit) - 1)
    ]
    if linear % stride:
        # A CTA that is not sampled writes nothing, except to the spare ring buffer on AMD.
        ring = int(layout["ring"][0]) + int(layout["slack"][0])
        spare = place + len(units) * (64 + ring)
        assert all(is_amd and at >= spare for at in cta.memory)
        return
    assert all(place <= at < place + size for at in cta.memory)
    for number, first in enumerate(units):
        record = Unit(cta.memory, place, layout, number)
        check_unit(record, made, choices[first], start + 1000 * first)


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_without_a_buffer_nothing_is_written(arch):
    made = [[([("record start", "a")], [1]), ([("record end", "a")], [])]]
    text, layout = instrument(text_of(made, arch == "gfx942"), arch, {"warps": 1})
    cta = Cta(shared_bytes=int(layout["#shared"][0]))
    for lane in range(32):
        compile_kernel(text)(cta, Thread(cta, lane, 32, 5, []))
    assert not cta.memory


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_a_scope_longer_than_a_record_can_say_is_as_long_as_it_can(arch, monkeypatch):
    made = [[([("record start", "a"), None, ("record end", "a")], [])]]
    text, layout = instrument(text_of(made, arch == "gfx942"), arch, {"warps": 1})
    cta = Cta(shared_bytes=int(layout["#shared"][0]), buffer=BUFFER)
    ticks = []

    def clock(self):
        ticks.append(len(ticks) * (1 << 25))
        return ticks[-1]

    monkeypatch.setattr(Thread, "clock", clock)
    for lane in range(32):
        compile_kernel(text)(cta, Thread(cta, lane, 32, 0, []))
    unit = Unit(cta.memory, BUFFER, layout, 0)
    assert unit.words[1] == 1 << 24 | 0xFFFFFF
