"""The values in exported traces: counters, arguments and metrics, not only that they are there."""

import json
import struct

import pytest
from test_trace_formats import (
    BASE, COPY, KERNEL, LAUNCH, OF_GRAPH, SCOPE, File, Perfetto, export, intra_file, slices,
)

SET = 5
SIZE = 8
OF_MEMORY = 4
LARGE = ((COPY, 2**32), (SET, 3 * 2**40 + 5))
INT64, DOUBLE, STRING, INT64_VECTOR, DOUBLE_VECTOR = 1, 2, 3, 5, 6


def chrome(path):
    return json.loads(export(path, "chrome_trace"))


def test_chrome_head_has_the_info_and_the_losses_with_their_numbers(tmp_path):
    f = File()
    f.event(SCOPE, f.lane(1, 0, 1), f.node(0, "step"), 10, 20)
    f.add(9, struct.pack("<2I", f.string("command"), f.string("./a \"b\"")))
    for name, is_loss, value in (
        ("scopes", 0, 12),
        ("lost: buffers were full", 1, 3),
        ("lost: damaged records", 1, 2**64 - 1),
        ("lost: nothing of this", 1, 0),
    ):
        f.add(10, struct.pack("<2IQ", f.string(name), is_loss, value))
    f.write(tmp_path / "t.proton")
    trace = chrome(tmp_path / "t.proton")
    assert trace["baseTimeNanoseconds"] == BASE + 10
    assert trace["displayTimeUnit"] == "us"
    assert trace["otherData"] == {
        "command": './a "b"',
        "pid": 77,
        "lost: buffers were full": 3,
        "lost: damaged records": 2**64 - 1,
    }


def losses_file(path, *counters):
    f = File()
    f.event(SCOPE, f.lane(1, 0, 1), f.node(0, "step"), 10, 20)
    for name, is_loss, value in counters:
        f.add(10, struct.pack("<2IQ", f.string(name), is_loss, value))
    f.write(path)


def test_perfetto_has_an_instant_for_each_cause_of_loss(tmp_path):
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    path = tmp_path / "t.proton"
    lost = {"lost: buffers were full": 3, "lost: damaged records": 2**64 - 1}
    counters = [("scopes", 0, 12), ("lost: nothing of this", 1, 0)]
    losses_file(path, *counters, *((name, 1, value) for name, value in lost.items()))
    trace = schema.Trace()
    trace.ParseFromString(export(path, "perfetto"))
    tracks = {
        p.track_descriptor.uuid: p.track_descriptor
        for p in trace.packet
        if p.HasField("track_descriptor")
    }
    (uuid,) = [uuid for uuid, track in tracks.items() if track.name == "lost"]
    assert tracks[tracks[uuid].parent_uuid].process.pid == 77
    found = [p for p in trace.packet if p.track_event.track_uuid == uuid]
    assert {p.timestamp for p in found} == {BASE + 10}
    assert {p.track_event.type for p in found} == {schema.TrackEvent.TYPE_INSTANT}
    annotations = {p.track_event.name: p.track_event.debug_annotations for p in found}
    assert {
        name: [(a.name, a.uint_value) for a in values] for name, values in annotations.items()
    } == {name: [("count", value)] for name, value in lost.items()}
    losses_file(path, *counters)
    assert b"lost" not in export(path, "perfetto")


def test_chrome_intra_kernel_slices_have_the_times_and_clock_of_their_warp(tmp_path):
    intra_file(tmp_path / "t.proton")
    found = {
        (e["pid"], e["tid"], e["name"]): e["args"]
        for e in chrome(tmp_path / "t.proton")["traceEvents"]
        if e["cat"] != "flow" and e["name"] in ("dot", "wait")
    }
    assert found == {
        (f"mm Core{7 + cta} CTA{cta}", f"warp {warp} (line 0)", name): {
            "call_stack": ["ROOT", "mm"],
            "Init Time (ns)": BASE + 5000 * cta + 100 + 10 * warp,
            "Post Final Time (ns)": BASE + 5000 * cta + 1050 + 10 * warp,
            "Finalization Time (ns)": 50,
            "Frequency (MHz)": 2000,
        }
        for cta in range(2)
        for warp, name in enumerate(("dot", "wait"))
    }


def test_perfetto_warps_and_their_scopes_have_their_numbers(tmp_path):
    intra_file(tmp_path / "t.proton")
    found = Perfetto(export(tmp_path / "t.proton", "perfetto")).slices
    warps = [s["args"] for s in found if s["cat"] == "warp"]
    assert warps == 4 * [{"call_stack": "ROOT", "clock_mhz": 2000, "finalize_ns": 50}]
    cycles = [s["args"]["cycles"] for s in found if s["cat"] == "section" and s["start"] < 5000]
    assert sorted(cycles) == [200, 200, 340, 400]


def memory_file(path):
    """Memory copies and memsets from separate calls, on two devices; the last are large."""
    f = File()
    thread = f.lane(1, 0, 1)
    streams = [f.lane(2, f.device(number), 20 + number) for number in (0, 3)]
    step = f.node(0, "step")
    nodes = [f.node(step, name, kind=3) for name in ("Memcpy HtoD", "Memset (Device)")]
    for i, (kind, size) in enumerate(((COPY, 4096), (SET, 2**32 - 1), *LARGE)):
        at = 100 * i
        launch = f.event(LAUNCH, thread, step, at + 5, at + 9, detail=30 + i, flags=OF_MEMORY)
        f.event(kind, streams[i % 2], nodes[i % 2], at + 10, at + 60, launch, min(size, 2**32 - 1))
        if i > 1:
            f.add(13, struct.pack("<2Q5I2H", size, 0, 0, streams[i % 2], 0, 0, 0, SIZE, 0))
    f.write(path)


def test_copies_beyond_4_gib_have_their_bytes(tmp_path):
    memory_file(tmp_path / "t.proton")
    expected = [4096, 2**32 - 1, *(size for _, size in LARGE)]
    trace = chrome(tmp_path / "t.proton")
    found = slices(trace, "copy") + slices(trace, "set")
    by_time = [e["args"]["bytes"] for e in sorted(found, key=lambda e: e["ts"])]
    assert by_time == expected
    slices_there = Perfetto(export(tmp_path / "t.proton", "perfetto")).slices
    by_time = sorted((s["start"], s["args"]["bytes"]) for s in slices_there if "bytes" in s["args"])
    assert [size for _, size in by_time] == expected


def test_chrome_copies_and_sets_have_their_bytes_device_and_launch(tmp_path):
    memory_file(tmp_path / "t.proton")
    trace = chrome(tmp_path / "t.proton")
    for i, (category, name, size) in enumerate(
        (("copy", "Memcpy HtoD", 4096), ("set", "Memset (Device)", 2**32 - 1))
    ):
        found = slices(trace, category)[0]
        assert (found["name"], found["dur"]) == (name, 0.05)
        assert found["args"] == {
            "call_stack": ["ROOT", "step", name],
            "device": 3 * i,
            "stream": 20 + 3 * i,
            "correlation": 30 + i,
            "bytes": size,
        }
    assert [e["args"]["correlation"] for e in slices(trace, "launch")] == [30, 31, 32, 33]


def test_perfetto_copies_and_sets_have_their_bytes_device_and_launch(tmp_path):
    memory_file(tmp_path / "t.proton")
    found = Perfetto(export(tmp_path / "t.proton", "perfetto")).slices
    for i, (category, size) in enumerate((("copy", 4096), ("set", 2**32 - 1))):
        one = min((s for s in found if s["cat"] == category), key=lambda s: s["start"])
        assert one["args"] == {
            "call_stack": "ROOT / step",
            "device": 3 * i,
            "stream": 20 + 3 * i,
            "correlation": 30 + i,
            "bytes": size,
        }


def metrics_file(path):
    f = File()

    def metric(name, kind):
        return f.add(3, struct.pack("<I2H", f.string(name), kind, 0))

    f.add(7, struct.pack("<Q2q", 2, -5, 2**62))
    doubles = f.add(7, struct.pack("<Q2d", 2, 0.5, -1e300))
    sample = 0
    for name, kind, value in (
        ("low", INT64, struct.pack("<q", -(2**63))),
        ("rate", DOUBLE, struct.pack("<d", -0.125)),
        ("label", STRING, struct.pack("<Q", f.string('a "b"'))),
        ("pair", INT64_VECTOR, struct.pack("<Q", 0)),
        ("weights", DOUBLE_VECTOR, struct.pack("<Q", doubles)),
    ):
        sample = f.add(14, struct.pack("<II", sample, metric(name, kind)) + value)
    f.event(SCOPE, f.lane(1, 0, 1), f.node(0, "step"), 1500, 2000, link=sample)
    f.write(path)


def test_chrome_metrics_of_every_type_have_their_values(tmp_path):
    metrics_file(tmp_path / "t.proton")
    trace = chrome(tmp_path / "t.proton")
    (step,) = slices(trace, "metric")
    assert step["args"]["values"] == {
        "low": -(2**63),
        "rate": -0.125,
        "label": 'a "b"',
        "pair": [-5, 2**62],
        "weights": [0.5, -1e300],
    }
    texts = step["args"]["metrics"]
    assert (texts["low"], texts["rate"], texts["label"]) == (str(-(2**63)), "-0.125000", 'a "b"')
    assert all(f"<{name}, {text}>" in step["name"] for name, text in texts.items())


def test_perfetto_metrics_of_every_type_have_their_values(tmp_path):
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    metrics_file(tmp_path / "t.proton")
    trace = schema.Trace()
    trace.ParseFromString(export(tmp_path / "t.proton", "perfetto"))
    names = {n.iid: n.name for p in trace.packet for n in p.interned_data.debug_annotation_names}
    found = {
        names[annotation.name_iid]: annotation
        for packet in trace.packet
        for annotation in packet.track_event.debug_annotations
    }
    assert found["metrics.low"].int_value == -(2**63)
    assert found["metrics.rate"].double_value == -0.125
    assert found["metrics.label"].string_value == 'a "b"'
    assert [v.int_value for v in found["metrics.pair"].array_values] == [-5, 2**62]
    assert [v.double_value for v in found["metrics.weights"].array_values] == [0.5, -1e300]
    counters = [
        (event.counter_value, event.double_counter_value)
        for event in (packet.track_event for packet in trace.packet)
        if event.type == event.TYPE_COUNTER
    ]
    assert counters == [(0, -0.125), (-(2**63), 0.0)]


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_replay_without_captured_scopes_has_no_track_of_them(tmp_path, depth):
    f = File()
    thread, stream = f.lane(1, 0, 1), f.lane(2, f.device(0), 7)
    node = 0
    for level in range(depth):
        node = f.node(node, f"scope {level}")
    kernel = f.node(node, "k", kind=3)
    launch = f.event(LAUNCH, thread, node or kernel, 5, 8, detail=9, flags=OF_GRAPH)
    for i in range(3):
        f.event(KERNEL, stream, kernel, 10 + 20 * i, 20 + 20 * i, launch, 0, OF_GRAPH)
    f.write(tmp_path / "t.proton")
    trace = chrome(tmp_path / "t.proton")
    assert [(e["name"], e["tid"]) for e in slices(trace, "kernel")] == 3 * [("k", 200007)]
    assert slices(trace, "scope") == []
    perfetto = Perfetto(export(tmp_path / "t.proton", "perfetto"))
    assert {s["track"] for s in perfetto.slices} == {"CPU Thread 0", "GPU 0 Stream 7"}


def test_a_kernel_below_captured_itself_has_no_scope(tmp_path):
    f = File()
    stream = f.lane(2, f.device(0), 7)
    captured = f.node(f.node(0, "step"), "<captured_at>")
    kernel = f.node(captured, "k", kind=3)
    f.event(KERNEL, stream, kernel, 10, 20, flags=OF_GRAPH)
    f.event(KERNEL, stream, captured, 30, 40, flags=OF_GRAPH)
    f.write(tmp_path / "t.proton")
    assert slices(chrome(tmp_path / "t.proton"), "scope") == []
