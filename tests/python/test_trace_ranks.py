"""One trace of several processes: their names, their tracks, and their clocks."""

import gzip
import json
import random
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from cmd_support import executable, run
from protobuf_reader import perfetto_packets
from test_trace_formats import BASE, KERNEL, LAUNCH, SCOPE, File

DURATIONS = 28
COLLECTIVE = "ncclDevKernel_AllReduce"


class RankFile(File):
    """A rank that runs a step with a kernel and a collective, again and again."""

    ROW_BYTES = [*File.ROW_BYTES, 24, 16, 40, 24, 8, 32, 96, 272, 280, 8, 8, 128]

    def __init__(self, rank: int, host: str) -> None:
        super().__init__()
        for key, value in (("rank", str(rank)), ("host", host), ("world_size", "3")):
            self.add(9, struct.pack("<2I", self.string(key), self.string(value)))

    def collective(self, node: int, count: int, group: str = "") -> None:
        """Notes that `node` is one, as the recorder does."""
        if not self.tables[DURATIONS]:
            self.add(DURATIONS, bytes(128))
        head = struct.pack("<7I", node, 0, 0, 1, count, self.string(group) if group else 0, 0)
        self.add(DURATIONS, head + struct.pack("<50H", *([100] * count + [0] * (50 - count))))


def rank_file(path: Path, rank: int, skew: int, *, host: str, group: str = "", steps: int = 40):
    """All ranks leave a collective within 2 us; the clock of this one is `skew` ns ahead."""
    common, own = random.Random(7), random.Random(rank)
    f = RankFile(rank, host)
    thread, device = f.lane(1, 0, 100 + rank), f.device(0)
    stream = f.lane(2, device, 7)
    step = f.node(0, "step")
    gemm, reduce = f.node(step, "gemm", 3), f.node(step, COLLECTIVE, 3)
    f.collective(reduce, steps, group)
    for i in range(steps):
        leave = (i + 1) * 100_000 + common.randrange(9_000) + own.randrange(2_000) + skew
        start = leave - own.randrange(30_000, 60_000)
        f.event(SCOPE, thread, step, start - 20_000, start - 5_000)
        launch = f.event(LAUNCH, thread, step, start - 19_000, start - 18_000, i)
        f.event(KERNEL, stream, gemm, start - 10_000, start - 1_000, link=launch)
        f.event(KERNEL, stream, reduce, start, leave)
    f.write(path)


def write_job(directory: Path, skews: list[int], **more: Any) -> Path:
    job = directory / "out.ranks"
    folder = job / "000-999"
    folder.mkdir(parents=True)
    for rank, skew in enumerate(skews):
        name = folder / f"rank{rank:06}.proton"
        rank_file(name, rank, skew, host=f"node{rank}", **more)
    return job


def viewer(*arguments: str | Path, status: int = 0) -> str:
    done = run([executable("proton-viewer"), *map(str, arguments)], Path.cwd())
    assert done.returncode == status, done.stderr
    return done.stderr


def chrome(path: Path, job: Path) -> dict[str, Any]:
    viewer("-o", path, job)
    return json.loads(path.read_text())


def processes(trace: dict[str, Any]) -> dict[int, str]:
    named = [e for e in trace["traceEvents"] if e["name"] == "process_name"]
    assert len({e["pid"] for e in named}) == len(named)
    return {e["pid"]: e["args"]["name"] for e in named}


def ends(trace: dict[str, Any]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for e in trace["traceEvents"]:
        if e["ph"] == "X" and e["name"] == COLLECTIVE:
            found.setdefault(e["pid"], []).append(e["ts"] + e["dur"])
    return found


@pytest.mark.parametrize("skews", [[0, 5_000_000, -70_000], [0, 2**40, -(2**40)]])
def test_clocks_are_aligned_by_collectives(tmp_path: Path, skews: list[int]) -> None:
    job = write_job(tmp_path, skews)
    trace = chrome(tmp_path / "j.chrome_trace", job)
    names = processes(trace)
    assert names[0] == "rank 0, node0, pid 77"
    for rank in (1, 2):
        form = rf"rank {rank}, node{rank}, pid 77, clock (.+) us \(error (.+) us, 40 collectives\)"
        found = re.fullmatch(form, names[rank])
        assert found, names[rank]
        assert float(found[1]) == pytest.approx(-skews[rank] / 1000, abs=1)
        assert 0 < float(found[2]) < 2
    at = ends(trace)
    for left, right in ((0, 1), (0, 2), (1, 2)):
        for a, b in zip(at[left], at[right], strict=True):
            assert a == pytest.approx(b, abs=4)
    assert min(e["ts"] for e in trace["traceEvents"] if "ts" in e) == 0


def test_clocks_that_agree_are_left_alone(tmp_path: Path) -> None:
    trace = chrome(tmp_path / "j.chrome_trace", write_job(tmp_path, [0, 100, -100]))
    assert all("clock +0.000 us (error" in processes(trace)[rank] for rank in (1, 2))


def test_other_communicators_are_not_compared(tmp_path: Path) -> None:
    rank_file(tmp_path / "a.proton", 0, 0, host="a", group="0-1")
    rank_file(tmp_path / "b.proton", 2, 9_000_000, host="b", group="2-3")
    viewer("-o", tmp_path / "j.chrome_trace", tmp_path / "a.proton", tmp_path / "b.proton")
    trace = json.loads((tmp_path / "j.chrome_trace").read_text())
    assert processes(trace)[1] == "rank 2, b, pid 77, clock not compared"
    first, second = ends(trace)[0], ends(trace)[1]
    assert second[0] - first[0] == pytest.approx(9_000, abs=4)


def test_nothing_of_two_processes_has_one_number(tmp_path: Path) -> None:
    trace = chrome(tmp_path / "j.chrome_trace", write_job(tmp_path, [0, 0, 0]))
    seen: dict[tuple[str, Any], int] = {}
    for e in trace["traceEvents"]:
        keys = [("flow", e["id"])] if e["ph"] in "sf" else []
        if "scope_id" in e.get("args", {}):
            keys.append(("scope", e["args"]["scope_id"]))
        for key in keys:
            assert seen.setdefault(key, e["pid"]) == e["pid"]
    assert {pid for _, pid in seen.items()} == {0, 1, 2}
    names = [e for e in trace["traceEvents"] if e["name"] == "thread_name"]
    assert len(names) == 6


def test_compressed_file_has_the_same_events(tmp_path: Path) -> None:
    job = write_job(tmp_path, [0, 500_000, 0])
    trace = chrome(tmp_path / "j.chrome_trace", job)
    viewer("-o", tmp_path / "j.json.gz", job)
    assert json.loads(gzip.decompress((tmp_path / "j.json.gz").read_bytes())) == trace


def test_perfetto_has_a_sequence_and_a_process_per_rank(tmp_path: Path) -> None:
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    job = write_job(tmp_path, [0, 5_000_000, 0])
    viewer("-o", tmp_path / "j.pftrace", job)
    trace = schema.Trace()
    trace.ParseFromString(perfetto_packets((tmp_path / "j.pftrace").read_bytes()))
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet
              if p.HasField("track_descriptor")}  # fmt: skip
    found = [t.process for t in tracks.values() if t.HasField("process")]
    named = {process.pid: process.process_name for process in found}
    assert sorted(named) == [1, 2, 3] and named[2].startswith("rank 1, node1, pid 77, clock -")
    flows: dict[int, set[int]] = {}
    last: dict[int, int] = {}
    for packet in trace.packet:
        sequence = packet.trusted_packet_sequence_id
        track = tracks.get(packet.track_event.track_uuid)
        if packet.HasField("track_event"):
            while track.parent_uuid:
                track = tracks[track.parent_uuid]
            assert track.process.pid == sequence
            last[sequence] = max(last.get(sequence, 0), packet.timestamp)
        for flow in packet.track_event.flow_ids:
            flows.setdefault(flow, set()).add(sequence)
    assert flows and all(len(sequences) == 1 for sequences in flows.values())
    assert sorted(last) == [1, 2, 3] and max(last.values()) - min(last.values()) < 10_000
    assert min(last.values()) > BASE


def test_a_file_without_events_is_named(tmp_path: Path) -> None:
    job = write_job(tmp_path, [0, 0, 0])
    (tmp_path / "tree.hatchet").write_text(
        '[{"frame": {"name": "ROOT", "type": "function"}, "metrics": {}, "children": []}, {}]'
    )
    text = viewer("-o", tmp_path / "j.pftrace", job, tmp_path / "tree.hatchet", status=2)
    assert f"{tmp_path / 'tree.hatchet'} has no events: record it with data=" in text
    assert not (tmp_path / "j.pftrace").exists()


def test_missing_ranks_and_other_launches_are_reported(tmp_path: Path) -> None:
    job = write_job(tmp_path, [0, 0])
    text = viewer("-o", tmp_path / "j.pftrace", job)
    assert "proton-viewer: the trace has 2 of 3 ranks\n" in text
    other = RankFile(2, "node2")
    other.add(9, struct.pack("<2I", other.string("launch"), other.string("b")))
    other.event(SCOPE, other.lane(1, 0, 1), other.node(0, "step"), 10, 20)
    other.write(job / "000-999" / "rank000002.proton")
    text = viewer("-o", tmp_path / "j.json.gz", job, status=2)
    assert "rank000002.proton is of another launch than" in text and "--allow-mixed" in text
    assert not (tmp_path / "j.json.gz").exists()
    viewer("--allow-mixed", "-o", tmp_path / "j.json.gz", job)


def test_impossible_times_are_written(tmp_path: Path) -> None:
    """Distances up to the largest that 64 bits have."""
    for rank, at in enumerate((1, 2**63 - 1, 2**63 + 1, 2**64 - 1)):
        f = RankFile(rank, f"node{rank}")
        reduce = f.node(0, COLLECTIVE, 3)
        f.collective(reduce, 3)
        stream = f.lane(2, f.device(0), 7)
        for _ in range(3):
            f.event(KERNEL, stream, reduce, at - BASE, at - BASE)
        f.write(tmp_path / f"rank{rank:06}.proton")
    for name in ("j.json.gz", "j.pftrace"):
        viewer("--allow-mixed", "-o", tmp_path / name, *sorted(tmp_path.glob("*.proton")))
    trace = json.loads(gzip.decompress((tmp_path / "j.json.gz").read_bytes()))
    assert len(processes(trace)) == 4 and set(ends(trace)) == {0, 1, 2, 3}
    assert all("3 collectives" in name for pid, name in processes(trace).items() if pid)


def test_two_collectives_are_too_few(tmp_path: Path) -> None:
    trace = chrome(tmp_path / "j.chrome_trace", write_job(tmp_path, [0, 9_000, 0], steps=2))
    assert processes(trace)[1] == "rank 1, node1, pid 77, clock not compared"
