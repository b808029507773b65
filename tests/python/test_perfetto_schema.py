"""Perfetto files, read with Perfetto's own schema (PyPI's package perfetto, which has it compiled).

Its rules are those of protos/perfetto/trace/trace_packet.proto and track_event/track_event.proto;
test_trace_formats.py compares the content with that of the Chrome format.
"""

from collections import defaultdict

import pytest
from test_trace_formats import BASE, export, intra_file, sample_file

schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
unknown_fields = pytest.importorskip("google.protobuf.unknown_fields")



@pytest.fixture(scope="module", params=[sample_file, intra_file])
def trace(tmp_path_factory, request):
    path = tmp_path_factory.mktemp("trace") / "t.proton"
    request.param(path)
    data = export(path, "perfetto")
    trace = schema.Trace()
    assert trace.ParseFromString(data) == len(data)
    return trace


def events(trace):
    """(packet, its event) as a reader sees them: by time, then by position."""
    found = [packet for packet in trace.packet if packet.HasField("track_event")]
    return [(p, p.track_event) for p in sorted(found, key=lambda p: p.timestamp)]


def descriptors(trace):
    found = [p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")]
    assert len({track.uuid for track in found}) == len(found)
    return {track.uuid: track for track in found}


def test_all_fields_are_known_to_perfetto(trace):
    checked = 0

    def check(message):
        nonlocal checked
        checked += 1
        assert len(unknown_fields.UnknownFieldSet(message)) == 0, message
        for field, value in message.ListFields():
            if field.type != field.TYPE_MESSAGE:
                continue
            for part in [value] if hasattr(value, "ListFields") else value:
                check(part)

    check(trace)
    assert checked > 100


def test_the_sequence_starts_clean_and_states_its_needs(trace):
    flags = schema.TracePacket
    sequences = {packet.trusted_packet_sequence_id for packet in trace.packet}
    assert len(sequences) == 1 and 0 not in sequences
    cleared = [bool(p.sequence_flags & flags.SEQ_INCREMENTAL_STATE_CLEARED) for p in trace.packet]
    assert cleared[0] and not any(cleared[1:])
    for packet, event in events(trace):
        if event.name_iid or event.category_iids or event.debug_annotations:
            assert packet.sequence_flags & flags.SEQ_NEEDS_INCREMENTAL_STATE


def test_interned_texts_are_defined_before_their_use(trace):
    known = defaultdict(set)
    used = 0
    for packet in trace.packet:
        for field, rows in packet.interned_data.ListFields():
            for row in rows:
                assert row.iid and row.iid not in known[field.name]
                known[field.name].add(row.iid)
        event = packet.track_event
        if event.name_iid:
            assert event.name_iid in known["event_names"]
            used += 1
        for iid in event.category_iids:
            assert iid in known["event_categories"]
        for annotation in event.debug_annotations:
            assert annotation.HasField("name") or annotation.name_iid in known[
                "debug_annotation_names"
            ]
            if annotation.HasField("string_value_iid"):
                assert annotation.string_value_iid in known["debug_annotation_string_values"]
            assert annotation.WhichOneof("value"), annotation
    assert used > 10


def test_slices_of_a_track_nest_and_end(trace):
    tracks = descriptors(trace)
    kinds = schema.TrackEvent
    last = {}
    depth: dict[int, int] = defaultdict(int)
    for packet, event in events(trace):
        assert packet.timestamp >= BASE and event.track_uuid in tracks
        assert packet.timestamp >= last.get(event.track_uuid, 0)
        last[event.track_uuid] = packet.timestamp
        is_counter = tracks[event.track_uuid].HasField("counter")
        if event.type == kinds.TYPE_SLICE_BEGIN:
            assert event.name_iid or event.name
            depth[event.track_uuid] += 1
        elif event.type == kinds.TYPE_SLICE_END:
            depth[event.track_uuid] -= 1
            assert depth[event.track_uuid] >= 0
        elif event.type == kinds.TYPE_INSTANT:
            assert event.name_iid and event.terminating_flow_ids
        else:
            assert event.type == kinds.TYPE_COUNTER
        assert is_counter == (event.type == kinds.TYPE_COUNTER)
    assert depth and not any(depth.values())


def test_counters_are_typed_and_have_values(trace):
    tracks = descriptors(trace)
    counters = [event for _, event in events(trace) if event.type == event.TYPE_COUNTER]
    assert counters or not any(track.HasField("counter") for track in tracks.values())
    for event in counters:
        assert tracks[event.track_uuid].name
        assert event.WhichOneof("counter_value_field") in ("counter_value", "double_counter_value")


def test_tracks_are_described_before_use_and_hang_on_one_process(trace):
    known = {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert not track.parent_uuid or track.parent_uuid in known
            known[track.uuid] = track
        if packet.HasField("track_event"):
            assert packet.track_event.track_uuid in known
    roots = [track for track in known.values() if not track.parent_uuid]
    assert [track.HasField("process") for track in roots] == [True]
    for track in known.values():
        if track.HasField("thread"):
            assert track.thread.pid == roots[0].process.pid


def test_flows_lead_from_one_event_to_others_later(trace):
    ends = defaultdict(list)
    for packet, event in events(trace):
        assert not event.flow_ids_old and not event.terminating_flow_ids_old
        for flow in (*event.flow_ids, *event.terminating_flow_ids):
            ends[flow].append((packet.timestamp, event.track_uuid))
    assert ends
    for places in ends.values():
        assert len(places) >= 2 and len({track for _, track in places}) >= 2
