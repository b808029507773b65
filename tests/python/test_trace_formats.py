"""Chrome's and Perfetto's trace formats, of a profile file that this test writes byte by byte.

The Perfetto file is decoded by a reader of protocol buffers made for this test, with the field
numbers of protos/perfetto/trace in Perfetto's repository, and in test_perfetto_schema.py with
Perfetto's own schema. Its trace_processor needs a binary that is downloaded, which tests do not do.
"""

import gzip
import json
import random
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cmd_support import executable
from protobuf_reader import perfetto_packets, protobuf_fields
from support import run_command

BASE = 1_700_000_000_000_000_000
SCOPE, LAUNCH, KERNEL, COPY, UNIT, SECTION = 1, 2, 3, 4, 6, 7
OF_GRAPH, NAMED, ASYNC = 1, 2, 8


class File:
    """A profile file, written from docs/format.md alone."""

    ROW_BYTES = [8, 16, 24, 8, 24, 48, 256, 8, 48, 8, 16, 24, 24, 40, 16, 40, 64]

    def __init__(self) -> None:
        self.tables: list[list[bytes]] = [[] for _ in self.ROW_BYTES]
        self.tables[0].append(bytes(8))
        self.tables[1].append(bytes(16))
        self.tables[2].append(bytes(24))
        for table in (4, 5, 6, 13, 14, 15, 16):
            self.tables[table].append(bytes(self.ROW_BYTES[table]))
        self.add(11, struct.pack("<2I2Q", 0, 0, BASE, BASE + 10**9))

    def add(self, table: int, row: bytes) -> int:
        assert len(row) % self.ROW_BYTES[table] == 0
        at = sum(map(len, self.tables[table])) // self.ROW_BYTES[table]
        self.tables[table].append(row)
        return at

    def string(self, text: str) -> int:
        data = text.encode()
        entry = struct.pack("<I", len(data)) + data + b"\0"
        return self.add(0, entry + bytes(-len(entry) % 8))

    def node(self, parent: int, name: str, kind: int = 1, kernel: int = 0) -> int:
        frame = self.add(1, struct.pack("<4I", kind, self.string(name), 0, 0))
        return self.add(2, struct.pack("<6I", parent, frame, 0, 0, 0, kernel))

    def device(self, number: int) -> int:
        row = struct.pack("<4I4Q", self.string("CUDA"), number, 0, 0, 0, 0, 0, 0)
        return self.add(8, row)

    def lane(self, kind: int, device: int, ident: int, number: int = 0, name: int = 0) -> int:
        return self.add(12, struct.pack("<2IQ2I", kind, device, ident, number, name))

    def warp(self, kernel: int, cta: int, warp: int, lines: int = 1) -> int:
        """Adds the tracks of a warp of a kernel with the name `kernel`; returns the first."""
        place = (7 + cta) << 32 | cta
        return [self.lane(3, 0, place, line << 16 | warp, kernel) for line in range(lines)][0]

    def event(
        self, kind: int, lane: int, node: int, start: int, end: int | None, link: int = 0,
        detail: int = 0, flags: int = 0, epoch: int = 0,
    ) -> int:
        times = (BASE + start, 0 if end is None else BASE + end)
        return self.add(
            13, struct.pack("<2Q5I2H", *times, node, lane, epoch, link, detail, kind, flags)
        )

    def write(self, path: Path, state: int = 2) -> None:
        times = (BASE, BASE + 5000)
        head = struct.pack("<8sHHIIIQQ", b"\x89PROTON\n", 1, 1, 65536, state, 77, *times)
        used = [(i, b"".join(rows)) for i, rows in enumerate(self.tables)]
        tables = b"".join(
            struct.pack("<IIQ", i, self.ROW_BYTES[i], len(data) // self.ROW_BYTES[i])
            for i, data in used
        )
        extents, offset = b"", 65536
        for i, data in used:
            extents += struct.pack("<IIQQ", i, 0, offset, len(data))
            offset += len(data)
        header = head + struct.pack("<II", len(used), len(used)) + tables.ljust(512, b"\0")
        path.write_bytes((header + extents).ljust(65536, b"\0") + b"".join(d for _, d in used))


def sample_file(path: Path, state: int = 2) -> None:
    """Two threads, two devices with the same stream number, overlap, a graph, metrics."""
    f = File()
    main, worker = f.lane(1, 0, 4242, 0), f.lane(1, 0, 4243, 1)
    first, second = f.device(0), f.device(1)
    s0, s1 = f.lane(2, first, 7), f.lane(2, second, 7)
    step = f.node(0, "step")
    layer = f.node(step, 'layer "1"')
    sums = f.add(5, struct.pack("<4I4Q", 0, first, 0, 0, 1, 400, 400, 400))
    kernel = f.node(layer, "mm", kind=3, kernel=sums)
    captured = f.node(step, "<captured_at>")
    block = f.node(captured, "block")
    attention = f.node(block, "attention")
    in_graph = f.node(attention, "flash", kind=3)
    after = f.node(block, "norm", kind=3)
    copy = f.node(step, "Memcpy", kind=3)
    config = f.add(15, struct.pack("<10I", 8, 2, 1, 128, 1, 1, 32, 1024, 512, 0))
    loss = f.add(3, struct.pack("<I2H", f.string("loss"), 2, 0))
    text = f.add(3, struct.pack("<I2H", f.string("label"), 3, 2))
    sample = f.add(14, struct.pack("<IIQ", 0, text, f.string("epoch ü")))
    sample = f.add(14, struct.pack("<IId", sample, loss, 0.25))
    # Rows are in no order: the inner scope first.
    f.event(SCOPE, main, layer, 100, 900)
    f.event(SCOPE, main, step, 100, 2000, link=sample)
    f.add(13, bytes(40))  # reserved, never filled
    launch = f.event(LAUNCH, main, layer, 200, 250, detail=11)
    f.event(KERNEL, s0, kernel, 300, 700, link=launch, detail=config)
    launch = f.event(LAUNCH, main, kernel, 260, 280, detail=12, flags=NAMED)
    f.event(KERNEL, s0, kernel, 500, 800, link=launch, detail=config)  # overlaps
    f.event(KERNEL, s1, kernel, 300, 400, link=launch)
    graph = f.event(LAUNCH, main, step, 1000, 1010, detail=13, flags=OF_GRAPH)
    for i in range(2):
        f.event(KERNEL, s0, in_graph, 1100 + 10 * i, 1105 + 10 * i, graph, config, OF_GRAPH)
    f.event(KERNEL, s0, after, 1150, 1160, graph, config, OF_GRAPH)
    again = f.event(LAUNCH, main, step, 1200, 1210, detail=14, flags=OF_GRAPH)
    f.event(KERNEL, s0, in_graph, 1300, 1310, again, config, OF_GRAPH)
    f.event(COPY, s1, copy, 1500, 1600, detail=4096)
    f.event(SCOPE, worker, step, 50, None)
    f.event(9, main, step, 1, 2)  # a kind of a later version
    f.event(SCOPE, 99, step, 1, 2)  # a lane that is not there
    f.write(path, state)


def modules_file(path: Path) -> None:
    """Compiled code: of its modules and operators only the outermost ran as a scope."""
    f = File()
    main, stream = f.lane(1, 0, 4242, 0), f.lane(2, f.device(0), 7)
    model = f.node(f.node(0, "step"), "Model")
    first, second = (f.node(model, f"layers.{i}") for i in range(2))
    up = f.node(f.node(first, "layers.0.mlp"), "layers.0.mlp.up")
    norm = f.node(f.node(first, "<in norm, mlp>"), "aten::add")
    backward = f.node(f.node(model, "<backward>"), "layers.1")
    eager = f.node(model, "<backward>")
    source = f.add(1, struct.pack("<4I", 2, 1, 1, 7))
    line = f.add(2, struct.pack("<6I", second, source, 0, 0, 0, 0))
    f.event(SCOPE, main, model, 100, 900)
    for i, node in enumerate((up, up, norm, line, model, second, backward, eager)):
        kernel = f.node(node, f"k{i}", kind=3)
        launch = f.event(LAUNCH, main, model, 200 + i, 201 + i, detail=i + 1)
        f.event(KERNEL, stream, kernel, 1000 + 100 * i, 1080 + 100 * i, launch)
    f.write(path)


def intra_file(path: Path, has_links: bool = True) -> None:
    """An instrumented kernel of two CTAs: warp 1 waits for what warp 0 has begun."""
    f = File()
    f.device(0)
    name = f.string("mm")
    kernel = f.node(0, "mm", kind=3)
    dot, copy, wait = (f.node(kernel, text) for text in ("dot", "copy", "wait"))
    for cta in range(2):
        at = 5000 * cta
        loads, waits = f.warp(name, cta, 0, lines=2), f.warp(name, cta, 1)
        f.event(UNIT, loads, kernel, at + 100, at + 1000, detail=50, flags=2000)
        f.event(UNIT, waits, kernel, at + 110, at + 1010, detail=50, flags=2000)
        f.event(SECTION, loads, dot, at + 200, at + 300, detail=200)
        # One ends on the same warp, one on warp 1.
        f.event(SECTION, loads + 1, copy, at + 250, at + 350, detail=200, flags=ASYNC)
        link = waits + 1 if has_links else 0
        f.event(SECTION, loads + 1, copy, at + 400, at + 600, link, 400, ASYNC)
        f.event(SECTION, waits, wait, at + 450, at + 620, detail=340)
    f.event(SECTION, loads + 1, copy, 5700, 5710, 4000000000, 20, ASYNC)  # not there
    f.event(SECTION, loads + 1, copy, 5720, 5730, 1, 20, ASYNC)  # of another CTA
    f.write(path)


def export(path: Path, form: str) -> bytes:
    result = subprocess.run(
        [executable("proton-viewer"), "--export", form, "-o", "-", path], stdout=subprocess.PIPE,
        check=True, timeout=300,
    )
    return perfetto_packets(result.stdout) if form == "perfetto" else result.stdout


# ------------------------------------------------------------------ Chrome


@pytest.fixture(scope="module")
def chrome(tmp_path_factory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("trace") / "t.proton"
    sample_file(path)
    return json.loads(export(path, "chrome_trace"))


def slices(trace: dict[str, Any], category: str) -> list[dict[str, Any]]:
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == category]


def test_chrome_times_are_microseconds_since_the_base(chrome):
    assert chrome["baseTimeNanoseconds"] == BASE + 50
    (step,) = slices(chrome, "metric")
    assert (step["ts"], step["dur"]) == (0.05, 1.9)


def test_chrome_tracks_are_unique_per_device_and_named(chrome):
    names = {
        e["tid"]: e["args"]["name"] for e in chrome["traceEvents"] if e["name"] == "thread_name"
    }
    assert names == {
        0: "CPU Thread 0",
        1: "CPU Thread 1",
        200007: "GPU Stream 7 on GPU 0",
        210007: "GPU Stream 7 on GPU 1",
        100007: "Graph: Stream 7 on GPU 0",
        min(t for t in names if t >= 1000000): "GPU Stream 7 on GPU 0 (2)",
    }
    order = {
        e["tid"]: e["args"]["sort_index"]
        for e in chrome["traceEvents"]
        if e["name"] == "thread_sort_index"
    }
    assert order[0] < order[1] < order[100007] < order[200007] < order[210007]
    assert all(e["pid"] == 0 for e in chrome["traceEvents"])


def test_chrome_slices_of_a_track_nest_or_follow(chrome):
    tracks: dict[int, list[tuple[float, float]]] = {}
    for e in chrome["traceEvents"]:
        if e["ph"] == "X":
            tracks.setdefault(e["tid"], []).append((e["ts"], round(e["ts"] + e["dur"], 3)))
    for spans in tracks.values():
        stack: list[float] = []
        for start, end in spans:  # in the order of the file
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or end <= stack[-1]
            stack.append(end)


# Slices from the first kernel to the last one that follows it inside.
MODULES = [
    ("layers.0", 1000, 1280),
    ("layers.0.mlp", 1000, 1180),
    ("layers.0.mlp.up", 1000, 1180),
    ("aten::add", 1200, 1280),
    ("layers.1", 1300, 1380),
    ("layers.1", 1500, 1580),
    ("layers.1", 1600, 1680),
]


def test_modules_that_ran_as_no_scope_are_slices_above_their_kernels(tmp_path):
    modules_file(tmp_path / "t.proton")
    trace = json.loads(export(tmp_path / "t.proton", "chrome_trace"))
    names = {
        e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"
    }
    assert list(names.values()) == ["CPU Thread 0", "Modules: Stream 7", "GPU Stream 7"]
    base = trace["baseTimeNanoseconds"] - BASE
    found = [
        (e["name"], *(round(1000 * at) + base for at in (e["ts"], e["ts"] + e["dur"])))
        for e in slices(trace, "scope")
        if names[e["tid"]] == "Modules: Stream 7"
    ]
    assert found == MODULES
    perfetto = Perfetto(export(tmp_path / "t.proton", "perfetto"))
    assert MODULES == [
        (s["name"], s["start"], s["end"])
        for s in sorted(perfetto.slices, key=lambda s: (s["start"], s["depth"]))
        if s["track"] == "GPU 0 Modules: Stream 7"
    ]


def test_chrome_kernels_have_numbers_as_arguments(chrome):
    kernel = slices(chrome, "kernel")[0]
    assert kernel["args"] == {
        "call_stack": ["ROOT", "step", 'layer "1"', "mm"],
        "device": 0,
        "stream": 7,
        "correlation": 11,
        "grid": [8, 2, 1],
        "block": [128, 1, 1],
        "registers_per_thread": 32,
        "shared_memory": 1536,
    }
    assert [e["args"]["bytes"] for e in slices(chrome, "copy")] == [4096]


def test_chrome_scopes_with_metrics_name_them_as_upstream_does(chrome):
    (step,) = slices(chrome, "metric")
    assert step["name"] == "step: <label, epoch ü>, <loss, 0.250000>"
    assert step["args"]["metrics"] == {"loss": "0.250000", "label": "epoch ü"}
    assert step["args"]["values"] == {"loss": 0.25, "label": "epoch ü"}
    assert step["args"]["call_stack"] == ["ROOT", "step"]
    scopes = slices(chrome, "scope") + [step]
    ids = [e["args"]["scope_id"] for e in scopes if e["tid"] < 100000]
    assert len(ids) == len(set(ids)) == 3 and all(isinstance(one, int) for one in ids)


def test_chrome_arrows_lead_from_the_launch_to_its_first_kernel_on_a_track(chrome):
    ids: dict[int, list[dict[str, Any]]] = {}
    for e in chrome["traceEvents"]:
        if e["ph"] in "sf":
            ids.setdefault(e["id"], []).append(e)
    arrows = sorted((s["ts"], f["tid"], f["ts"]) for s, f in ids.values())
    part = next(e["tid"] for e in chrome["traceEvents"] if e.get("tid", 0) >= 1000000)
    assert arrows == [
        (0.15, 200007, 0.25),
        (0.21, 210007, 0.25),
        (0.21, part, 0.45),
        (0.95, 200007, 1.05),
        (1.15, 200007, 1.25),
    ]
    assert all(s["ph"] == "s" and f["ph"] == "f" and f["bp"] == "e" for s, f in ids.values())


def test_chrome_replays_show_the_scopes_of_their_capture(chrome):
    graph = [(e["name"], e["ts"], e["dur"]) for e in slices(chrome, "scope") if e["tid"] == 100007]
    assert graph == [
        ("block", 1.05, 0.06),
        ("attention", 1.05, 0.015),
        ("block", 1.25, 0.01),
        ("attention", 1.25, 0.01),
    ]


@pytest.fixture(scope="module")
def intra(tmp_path_factory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("intra") / "t.proton"
    intra_file(path)
    return json.loads(export(path, "chrome_trace"))


def test_chrome_slices_inside_kernels_have_upstreams_fields(intra):
    events = intra["traceEvents"]
    assert intra["displayTimeUnit"] == "ns"
    assert {e["ph"] for e in events} == {"X"}
    dots = [e for e in events if e["name"] == "dot"]
    assert [(e["pid"], e["tid"], e["cat"]) for e in dots] == [
        ("mm Core7 CTA0", "warp 0 (line 0)", "mm"),
        ("mm Core8 CTA1", "warp 0 (line 0)", "mm"),
    ]
    for cta, dot in enumerate(dots):
        assert dot["ts"] == pytest.approx(5 * cta + 0.1) and dot["dur"] == 0.1
        assert dot["args"] == {
            "Init Time (ns)": BASE + 5000 * cta + 100,
            "Post Final Time (ns)": BASE + 5000 * cta + 1050,
            "Finalization Time (ns)": 50,
            "Frequency (MHz)": 2000,
            "call_stack": ["ROOT", "mm"],
        }
    (wait, _) = (e for e in events if e["name"] == "wait")
    assert wait["tid"] == "warp 1 (line 0)"
    assert wait["args"]["Init Time (ns)"] == BASE + 110


def test_chrome_asynchronous_work_of_one_warp_is_a_slice(intra):
    copies = [e for e in intra["traceEvents"] if e["cat"] == "async"]
    # The last two lead to tracks that are not there.
    assert [e["ts"] for e in copies] == pytest.approx([0.15, 5.15, 5.6, 5.62])
    assert {e["tid"] for e in copies} == {"warp 0 (line 1)"}
    assert copies[1]["args"]["Init Time (ns)"] == BASE + 5100


def test_chrome_asynchronous_work_across_warps_is_two_bound_ends(intra):
    ends = [e for e in intra["traceEvents"] if e["cat"] == "flow"]
    assert len(ends) == 4
    for cta, (start, end) in enumerate(zip(ends[::2], ends[1::2])):
        assert start["bind_id"] == end["bind_id"]
        assert start["flow_out"] is True and end["flow_in"] is True
        assert start["pid"] == end["pid"] == f"mm Core{7 + cta} CTA{cta}"
        assert (start["tid"], end["tid"]) == ("warp 0 (line 0)", "warp 1 (line 0)")
        assert start["ts"] == pytest.approx(5 * cta + 0.3)
        assert end["ts"] == pytest.approx(5 * cta + 0.5)
        assert start["dur"] == end["dur"] == 0


@pytest.mark.parametrize("backend", ["cupti", "instrumentation"])
def test_chrome_traces_of_sessions_beside_one_that_instruments_have_everything(tmp_path, backend):
    f = File()
    f.device(0)
    name = f.string("mm")
    f.add(9, struct.pack("<2I", f.string("backend"), f.string(backend)))
    kernel = f.node(0, "mm", kind=3)
    dot = f.node(kernel, "dot")
    f.event(SCOPE, f.lane(1, 0, 1), f.node(0, "step"), 10, 2000)
    f.event(KERNEL, f.lane(2, 0, 7), kernel, 90, 1100)
    warp = f.warp(name, 0, 0)
    f.event(UNIT, warp, kernel, 100, 1000, detail=50, flags=2000)
    f.event(SECTION, warp, dot, 200, 300, detail=200)
    f.write(tmp_path / "t.proton")
    trace = json.loads(export(tmp_path / "t.proton", "chrome_trace"))
    found = [(e["name"], e["pid"]) for e in trace["traceEvents"] if e["ph"] == "X"]
    others = [] if backend == "instrumentation" else [("step", 0), ("mm", 0)]
    assert found == [*others, ("dot", "mm Core7 CTA0")]


def test_chrome_traces_of_the_cpu_alone_name_the_process_and_its_threads(tmp_path):
    f = File()
    lane, node = f.lane(1, 0, 1), f.node(0, "step")
    metric = f.add(3, struct.pack("<I2H", f.string("foo"), 2, 0))
    sample = f.add(14, struct.pack("<IId", 0, metric, 1.0))
    f.event(SCOPE, lane, node, 10, 20, link=sample)
    f.write(tmp_path / "t.proton")
    events = json.loads(export(tmp_path / "t.proton", "chrome_trace"))["traceEvents"]
    named = {e["name"]: e["args"]["name"] for e in events if "name" in e["args"]}
    assert named == {"process_name": "Trace", "thread_name": "CPU Thread 0"}
    (event,) = [e for e in events if e["ph"] == "X"]
    assert (event["cat"], event["name"]) == ("metric", "step: <foo, 1.000000>")


def test_chrome_traces_are_compressed_by_their_name(tmp_path):
    sample_file(tmp_path / "t.proton")
    text = export(tmp_path / "t.proton", "chrome_trace")
    command = [executable("proton-viewer"), "-o", tmp_path / "t.json.gz", tmp_path / "t.proton"]
    subprocess.run(command, check=True, timeout=300)
    assert gzip.decompress((tmp_path / "t.json.gz").read_bytes()) == text


def busy_file(path: Path, slices: int) -> int:
    """Scopes, launches and kernels at irregular times; the number of slices."""
    chosen = random.Random(1)
    f = File()
    thread = f.lane(1, 0, 1)
    device = f.device(0)
    stream = f.lane(2, device, 7)
    step = f.node(0, "step")
    kernels = [f.node(step, f"kernel_{i}", 3) for i in range(20)]
    at = 0
    for _ in range(slices // 3):
        at += chosen.randrange(2_000, 200_000)
        f.event(SCOPE, thread, step, at, at + chosen.randrange(500, 1_900))
        kernel = chosen.choice(kernels)
        launch = f.event(LAUNCH, thread, step, at + 100, at + chosen.randrange(150, 400), at)
        begin = at + chosen.randrange(3_000, 9_000)
        f.event(KERNEL, stream, kernel, begin, begin + chosen.randrange(1_000, 90_000), link=launch)
    f.write(path)
    return slices // 3 * 3


@pytest.mark.parametrize(("name", "limit"), [("t.pftrace", 30), ("t.json.gz", 40)])
def test_a_slice_takes_few_bytes(tmp_path, name, limit):
    count = busy_file(tmp_path / "t.proton", 6_000)
    command = [executable("proton-viewer"), "-o", tmp_path / name, tmp_path / "t.proton"]
    subprocess.run(command, check=True, timeout=300)
    assert (tmp_path / name).stat().st_size / count < limit


def test_chrome_values_of_one_scope_are_summed(tmp_path):
    """A metric may be given more than once; a JSON object must not repeat a key."""
    f = File()
    lane, node = f.lane(1, 0, 1), f.node(0, "step")
    number = f.add(3, struct.pack("<I2H", f.string("n"), 1, 0))
    text = f.add(3, struct.pack("<I2H", f.string("t"), 3, 2))
    last = 0
    for value in (5, 2**63 - 3, 7):
        last = f.add(14, struct.pack("<IIq", last, number, value))
        last = f.add(14, struct.pack("<IIQ", last, text, f.string(f"{value} <")))
    f.event(SCOPE, lane, node, 10, 20, link=last)
    f.write(tmp_path / "t.proton")
    trace = json.loads(export(tmp_path / "t.proton", "chrome_trace"), object_pairs_hook=unique_keys)
    (event,) = slices(trace, "metric")
    assert event["args"]["values"] == {"n": 2**63 - 1, "t": "7 <"}
    assert event["args"]["metrics"] == {"n": str(2**63 - 1), "t": "7 <"}


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({key for key, _ in pairs}) == len(pairs)
    return dict(pairs)


def test_chrome_open_scopes_end_where_the_recording_did(chrome):
    step = next(e for e in slices(chrome, "scope") if e["tid"] == 1)
    assert step["args"]["unfinished"] is True
    assert step["ts"] + step["dur"] == pytest.approx(4.95)


def test_open_scopes_of_a_killed_run_end_with_its_last_event(tmp_path):
    sample_file(tmp_path / "t.proton", state=1)
    result = subprocess.run(
        [executable("proton-viewer"), "--export", "chrome_trace", "-o", "-", tmp_path / "t.proton"],
        capture_output=True, timeout=300,
    )
    trace = json.loads(result.stdout)
    step = next(e for e in slices(trace, "scope") if e["tid"] == 1)
    assert step["ts"] + step["dur"] == pytest.approx(1.95)


# ------------------------------------------------------------------ Perfetto


def one(message: bytes, number: int, default: Any = None) -> Any:
    values = [v for n, v in protobuf_fields(message) if n == number]
    assert len(values) <= 1
    return values[0] if values else default


class Perfetto:
    """The content of the whole file for a reader: tracks, slices, counters."""

    def __init__(self, data: bytes) -> None:
        self.interned: dict[int, dict[int, str]] = {1: {}, 2: {}, 3: {}, 29: {}}
        self.tracks: dict[int, bytes] = {}
        self.slices: list[dict[str, Any]] = []
        self.counters: list[tuple[str, int, Any]] = []
        self.moments: list[dict[str, Any]] = []
        self.flags: list[int] = []
        packets = []
        for number, packet in protobuf_fields(data):
            assert number == 1
            assert one(packet, 10) == 1
            self.flags.append(one(packet, 13, 0))
            for n, message in protobuf_fields(one(packet, 12, b"")):
                assert one(message, 1) not in self.interned[n]
                self.interned[n][one(message, 1)] = one(message, 2).decode()
            descriptor = one(packet, 60)
            if descriptor is not None:
                self.tracks[one(descriptor, 1)] = descriptor
            if one(packet, 11) is not None:
                packets.append((one(packet, 8), one(packet, 11)))
        stacks: dict[int, list[dict[str, Any]]] = {}
        for time, event in sorted(packets, key=lambda p: p[0]):  # stable, as in trace_processor
            track = one(event, 11)
            assert track in self.tracks
            stack = stacks.setdefault(track, [])
            kind = one(event, 9)
            if kind == 1:
                stack.append(self.begin(time, track, event))
                stack[-1]["depth"] = len(stack) - 1
                self.slices.append(stack[-1])
            elif kind == 2:
                stack.pop()["end"] = time - BASE
            elif kind == 3:
                self.moments.append(self.begin(time, track, event))
            else:
                assert kind == 4
                name = one(self.tracks[track], 2).decode()
                value = one(event, 30)
                if value is None:
                    value = struct.unpack("<d", one(event, 44))[0]
                self.counters.append((name, time - BASE, value))
        assert not any(stacks.values())

    def begin(self, time: int, track: int, event: bytes) -> dict[str, Any]:
        arguments = {}
        for annotation in [v for n, v in protobuf_fields(event) if n == 4]:
            ((_, name), (kind, value)) = protobuf_fields(annotation)[:2]
            if kind == 5:
                value = struct.unpack("<d", value)[0]
            elif kind == 6:
                value = value.decode()
            elif kind == 17:
                value = self.interned[29][value]
            arguments[self.interned[3][name]] = value
        return {
            "name": self.interned[2][one(event, 10)],
            "cat": self.interned[1][one(event, 3)],
            "track": one(self.tracks[track], 2).decode(),
            "start": time - BASE,
            "flow": [struct.unpack("<Q", v)[0] for n, v in protobuf_fields(event) if n == 47],
            "ended": [struct.unpack("<Q", v)[0] for n, v in protobuf_fields(event) if n == 48],
            "args": arguments,
        }


@pytest.fixture(scope="module")
def perfetto(tmp_path_factory) -> Perfetto:
    path = tmp_path_factory.mktemp("trace") / "t.proton"
    sample_file(path)
    return Perfetto(export(path, "perfetto"))


def test_perfetto_shows_the_same_slices_as_chrome(perfetto, chrome):
    graph, stream = "GPU {} Graph: Stream 7{}", "GPU {} Stream 7{}"
    names = {}
    for e in chrome["traceEvents"]:
        if e["name"] == "thread_name":
            name, _, device = e["args"]["name"].partition(" on GPU ")
            text = graph if name.startswith("Graph") else stream
            names[e["tid"]] = text.format(device[0], device[1:]) if device else name
    base = chrome["baseTimeNanoseconds"] - BASE
    expected = sorted(
        (
            names[e["tid"]], round(e["ts"] * 1000) + base,
            round((e["ts"] + e["dur"]) * 1000) + base, e["name"].partition(":")[0],
            e["cat"].replace("metric", "scope"),
        )
        for e in chrome["traceEvents"]
        if e["ph"] == "X"
    )
    actual = sorted(
        (s["track"], s["start"], s["end"], s["name"], s["cat"]) for s in perfetto.slices
    )
    assert actual == expected


def test_perfetto_state_is_cleared_once_and_needed_by_names(perfetto):
    assert perfetto.flags[0] == 1
    assert all(flag == 2 for flag in perfetto.flags[1:])


def test_perfetto_tracks_hang_on_the_process(perfetto):
    process = [t for t in perfetto.tracks.values() if one(t, 3) is not None]
    assert [one(one(t, 3), 1) for t in process] == [77]
    for uuid, track in perfetto.tracks.items():
        assert track is process[0] or one(track, 5) == one(process[0], 1)
    threads = [one(t, 4) for t in perfetto.tracks.values() if one(t, 4) is not None]
    assert [(one(t, 1), one(t, 2)) for t in threads] == [(77, 4242), (77, 4243)]


def test_perfetto_nesting_survives_equal_times(perfetto):
    depth = {(s["track"], s["start"], s["name"]): s["depth"] for s in perfetto.slices}
    assert depth["CPU Thread 0", 100, "step"] == 0
    assert depth["CPU Thread 0", 100, 'layer "1"'] == 1
    assert depth["GPU 0 Graph: Stream 7", 1100, "block"] == 0
    assert depth["GPU 0 Graph: Stream 7", 1100, "attention"] == 1


def test_perfetto_arguments_are_typed(perfetto):
    kernel = next(s for s in perfetto.slices if s["cat"] == "kernel")
    assert kernel["args"] == {
        "call_stack": 'ROOT / step / layer "1"',
        "device": 0,
        "stream": 7,
        "correlation": 11,
        "grid.x": 8,
        "grid.y": 2,
        "grid.z": 1,
        "block.x": 128,
        "block.y": 1,
        "block.z": 1,
        "registers": 32,
        "shared_memory": 1536,
    }
    step = next(s for s in perfetto.slices if s["name"] == "step" and s["start"] == 100)
    assert step["args"]["metrics.loss"] == 0.25
    assert step["args"]["metrics.label"] == "epoch ü"
    assert perfetto.counters == [("loss", 100, 0.25)]


def test_perfetto_flows_join_launches_and_kernels(perfetto):
    launches = {s["flow"][0]: s for s in perfetto.slices if s["cat"] == "launch"}
    joined = [(launches[s["flow"][0]]["args"]["correlation"], s["start"]) for s in perfetto.slices
              if s["cat"] == "kernel" and s["flow"]]
    assert sorted(joined) == [(11, 300), (12, 300), (12, 500), (13, 1100), (14, 1300)]


def test_perfetto_flows_join_asynchronous_work_and_the_warp_that_saw_its_end(tmp_path):
    intra_file(tmp_path / "t.proton")
    trace = Perfetto(export(tmp_path / "t.proton", "perfetto"))
    begun = {s["flow"][0]: s for s in trace.slices if s["flow"]}
    assert len(begun) == len(trace.moments) == 2
    for moment in trace.moments:
        copy = begun[moment["ended"][0]]
        assert copy["track"] == "warp 0 (line 1)" and moment["track"] == "warp 1"
        assert copy["name"] == moment["name"] == "copy" and moment["cat"] == "section"
        assert moment["start"] == copy["end"] and moment["start"] % 5000 == 600


# ------------------------------------------------------------------ the rest


def test_a_tree_cannot_be_exported_as_a_trace(tmp_path):
    f = File()
    f.node(0, "step")
    f.tables[13:16] = [[], [], []]
    f.write(tmp_path / "t.proton")
    for form in ("chrome_trace", "perfetto"):
        result = run_command(
            [executable("proton-viewer"), "--export", form, "-o", "-", tmp_path / "t.proton"],
            status=None,
        )
        assert result.returncode == 2
        assert 'the profile has no events: record it with data="trace"' in result.stderr
        assert result.stdout == ""


def test_the_viewer_shows_the_tree_of_a_trace(tmp_path):
    sample_file(tmp_path / "t.proton")
    command = [executable("proton-viewer"), tmp_path / "t.proton"]
    result = run_command(command, status=None)
    assert result.returncode == 0
    assert 'layer "1"' in result.stdout


def test_events_with_cyclic_links_are_written(tmp_path):
    f = File()
    lane, node = f.lane(1, 0, 1), f.node(0, "step")
    metric = f.add(3, struct.pack("<I2H", f.string("m"), 1, 0))
    f.add(14, struct.pack("<IIq", 1, metric, 5))  # leads to itself
    f.event(SCOPE, lane, node, 10, 20, link=1)
    f.event(SCOPE, lane, node, 5, 15, link=4000000000)  # outlasted by what is in it
    f.event(KERNEL, lane, node, 30, 25, link=2)  # ends before it begins, launched by a scope
    f.write(tmp_path / "t.proton")
    for form in ("chrome_trace", "perfetto"):
        data = export(tmp_path / "t.proton", form)
        if form == "chrome_trace":
            events = [e for e in json.loads(data)["traceEvents"] if e["ph"] == "X"]
            spans = [(e["ts"], e["dur"]) for e in events]
            assert spans == [(0, 0.01), (0.005, 0.005), (0.025, 0)]
            assert events[1]["args"]["values"] == {"m": 5}
        else:
            assert len(Perfetto(data).slices) == 3
