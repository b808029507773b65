"""The queries of docs/guide/traces.md.

trace_processor is a binary that is downloaded, which tests do not do. Its tables are made here, in
SQLite, which has its dialect, from the packets by the rules of Perfetto's track_event importer; if
the binary is on PATH, it runs the queries too.
"""

import re
import shutil
import sqlite3
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from protobuf_reader import perfetto_packets
from test_trace_ranks import viewer, write_job

schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "traces.md"
QUERIES = re.findall(r"```sql\n(.+?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("job")
    job = write_job(directory, [0, 3_000_000, -3_000_000])
    viewer("-o", directory / "job.pftrace", job)
    return directory / "job.pftrace"


class Tables:
    """The tables that trace_processor makes of a file of Proton."""

    def __init__(self, data: bytes) -> None:
        self.base = sqlite3.connect(":memory:")
        self.base.executescript("""
            CREATE TABLE process (upid INTEGER, pid INTEGER, name TEXT);
            CREATE TABLE process_track (id INTEGER, name TEXT, upid INTEGER);
            CREATE TABLE slice (id INTEGER, ts INTEGER, dur INTEGER, name TEXT, category TEXT,
                                track_id INTEGER, arg_set_id INTEGER);
            CREATE TABLE flow (slice_out INTEGER, slice_in INTEGER);
        """)
        self.arguments: dict[int, dict[str, Any]] = {}
        self.base.create_function("EXTRACT_ARG", 2, lambda row, key: self.arguments[row].get(key))
        self.read(data)

    def read(self, data: bytes) -> None:
        trace = schema.Trace()
        trace.ParseFromString(perfetto_packets(data))
        names: dict[int, dict[str, dict[int, Any]]] = defaultdict(lambda: defaultdict(dict))
        upids: dict[int, int] = {}
        open_slices: dict[int, list[int]] = defaultdict(list)
        flows: dict[int, int] = {}
        for packet in trace.packet:
            for field, rows in packet.interned_data.ListFields():
                for row in rows:
                    text = row.name if hasattr(row, "name") else row.str.decode()
                    names[packet.trusted_packet_sequence_id][field.name][row.iid] = text
            track = packet.track_descriptor
            if track.HasField("process"):
                upids[track.uuid] = len(upids) + 1
                row = (upids[track.uuid], track.process.pid, track.process.process_name)
                self.base.execute("INSERT INTO process VALUES (?, ?, ?)", row)
            elif track.uuid and not track.HasField("thread"):
                row = (track.uuid, track.name, upids[track.parent_uuid])
                self.base.execute("INSERT INTO process_track VALUES (?, ?, ?)", row)
        events = [p for p in trace.packet if p.HasField("track_event")]
        for packet in sorted(events, key=lambda p: p.timestamp):
            event = packet.track_event
            own = names[packet.trusted_packet_sequence_id]
            if event.type == event.TYPE_SLICE_END:
                number = open_slices[event.track_uuid].pop()
                self.base.execute(
                    "UPDATE slice SET dur = ? - ts WHERE id = ?", (packet.timestamp, number)
                )
            if event.type != event.TYPE_SLICE_BEGIN:
                continue
            number = len(self.arguments) + 1
            self.arguments[number] = {
                "debug." + own["debug_annotation_names"][a.name_iid].replace(".", "_"): own[
                    "debug_annotation_string_values"
                ].get(a.string_value_iid, a.uint_value)
                for a in event.debug_annotations
            }
            open_slices[event.track_uuid].append(number)
            category = own["event_categories"][event.category_iids[0]]
            name = own["event_names"][event.name_iid]
            row = (number, packet.timestamp, -1, name, category, event.track_uuid, number)
            self.base.execute("INSERT INTO slice VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            for flow in event.flow_ids:
                if flow in flows:
                    self.base.execute("INSERT INTO flow VALUES (?, ?)", (flows[flow], number))
                flows[flow] = number

    def run(self, query: str) -> list[dict[str, Any]]:
        done = self.base.execute(query)
        return [dict(zip([c[0] for c in done.description], row)) for row in done]


@pytest.fixture(scope="module")
def tables(file: Path) -> Tables:
    return Tables(file.read_bytes())


def test_queries_find_something(tables: Tables) -> None:
    assert len(QUERIES) == 4
    for query in QUERIES:
        assert tables.run(query), query


def test_queries_have_the_right_sums(tables: Tables) -> None:
    kernels, ranks, gaps, delays = (tables.run(query) for query in QUERIES)
    assert {row["kernel"]: row["launches"] for row in kernels} == {
        "ncclDevKernel_AllReduce": 120, "gemm": 120
    }
    by_name = {row["kernel"]: row["ms"] for row in kernels}
    assert by_name["gemm"] == pytest.approx(120 * 0.009)
    assert {row["scope"] for row in kernels} == {"ROOT / step"}
    assert sum(row["busy_ms"] for row in ranks) == pytest.approx(sum(by_name.values()))
    assert sorted(row["process"].split(",")[0] for row in ranks) == ["rank 0", "rank 1", "rank 2"]
    assert {row["stream"] for row in ranks} == {"GPU 0 Stream 7"}
    assert gaps[0]["gap_us"] == max(row["gap_us"] for row in gaps) and 10 < gaps[0]["gap_us"] < 100
    (delay,) = delays
    assert (delay["kernel"], delay["mean_us"]) == ("gemm", pytest.approx(9))


def test_trace_processor_runs_them(file: Path, tmp_path: Path) -> None:
    program = shutil.which("trace_processor_shell") or shutil.which("trace_processor")
    if not program:
        pytest.skip("trace_processor is not installed")
    for query in QUERIES:
        (tmp_path / "query.sql").write_text(query)
        done = subprocess.run(
            [program, "-q", str(tmp_path / "query.sql"), str(file)], capture_output=True, text=True,
            timeout=300,
        )
        assert done.returncode == 0 and len(done.stdout.splitlines()) > 1, done.stderr
