"""proton-viewer --export: files are whole or absent, and each format is read back.

What each format says about each sample profile is compared with proton-viewer --csv.
"""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import signal
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import pytest
from cmd_support import executable

DATA = Path(__file__).resolve().parent.parent / "data" / "viewer"
# Profiles with kernel times.
SAMPLES = ["cuda", "frames", "mixed", "up_tree", "up_python", "up_graph", "sort", "metadata"]


def viewer(*arguments: object, **options) -> subprocess.CompletedProcess[bytes]:
    command = [executable("proton-viewer"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=60, **options)


def export(name: str, sample: str, *arguments: str) -> bytes:
    done = viewer("--export", name, *arguments, DATA / f"{sample}.hatchet")
    assert done.returncode == 0, done.stderr
    return done.stdout


def printed(sample: str, metrics: str) -> dict[tuple[str, ...], list[float]]:
    """What the viewer prints: values by path from the root, added up where it is there twice."""
    done = viewer("--csv", "-m", metrics, DATA / f"{sample}.hatchet")
    assert done.returncode == 0, done.stderr
    paths: list[tuple[str, ...]] = []
    rows: dict[tuple[str, ...], list[float]] = {}
    lines = csv.reader(io.StringIO(done.stdout.decode(), newline=""))
    next(lines)
    for _, parent, _, frame, *values in lines:
        paths.append((*(paths[int(parent)] if parent else ()), frame))
        numbers = [float(value or 0) for value in values]
        before = rows.get(paths[-1], [0.0] * len(numbers))
        rows[paths[-1]] = [a + b for a, b in zip(before, numbers)]
    return rows


def split_path(path: str) -> tuple[str, ...]:
    """The names of a path, with what was written as \\xNN as it was."""
    return tuple(
        re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), name)
        for name in path.split(";")
    )


def add_up(stacks: list[tuple[tuple[str, ...], float]]) -> dict[tuple[str, ...], float]:
    """Inclusive numbers by path from the numbers of stacks."""
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    for stack, value in stacks:
        for end in range(len(stack) + 1):
            sums["ROOT", *stack[:end]] += value
    return sums


def check_sums(stacks: list[tuple[tuple[str, ...], float]], sample: str, metric: str) -> None:
    expected = {path: value for path, (value,) in printed(sample, metric).items() if value}
    assert add_up(stacks) == pytest.approx(expected, rel=1e-12)


# ------------------------------------------------------------------ files


def wait_for(condition, what: str):
    for _ in range(2000):
        found = condition()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError(f"no {what}")


def deep_profile(path: Path, levels: int) -> None:
    """A chain of frames: its folded stacks are as long as the square of its depth."""
    text = '{"children":[],"frame":{"name":"k","type":"function"},"metrics":%s}'
    metrics = '{"count":1,"time (ns)":10,"device_id":"0","device_type":"CUDA"}'
    head = '{"frame":{"name":"some_function","type":"function"},"metrics":%s,"children":['
    root = '[{"frame":{"name":"ROOT","type":"function"},"metrics":{"count":0,"time (ns)":0},'
    root += '"children":['
    path.write_text(
        root + head % metrics * levels + text % metrics + "]}" * levels + ']},{"CUDA":{"0":{}}}]'
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_half_file(tmp_path, number):
    deep_profile(tmp_path / "deep.hatchet", 20000)
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "x.folded"
    target.write_text("old")
    command = [executable("proton-viewer"), "-o", str(target), str(tmp_path / "deep.hatchet")]
    with subprocess.Popen(command) as process:
        wait_for(lambda: len(list(target.parent.iterdir())) == 2, "temporary file")
        process.send_signal(number)
        assert process.wait(timeout=60) == -number
    assert target.read_text() == "old"
    assert [path.name for path in target.parent.iterdir()] == ["x.folded"]


def test_work_of_more_than_a_second_is_shown(tmp_path):
    os.mkfifo(tmp_path / "in.hatchet")
    ours, theirs = pty.openpty()
    command = [executable("proton-viewer"), "--export", "csv", str(tmp_path / "in.hatchet")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        with open(tmp_path / "in.hatchet", "wb") as fifo:
            shown = os.read(ours, 4096)
            fifo.write((DATA / "cuda.hatchet").read_bytes())
        assert process.stdout.read().startswith(b"path,name")
        assert process.wait(timeout=60) == 0
    assert shown == b"proton-viewer: reading in.hatchet 1 s\r"
    assert os.read(ours, 4096).strip() == b""  # taken back
    os.close(ours)


# ------------------------------------------------------------------ formats


@pytest.mark.parametrize("metric", ["time/ns", "count", "time/ms"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_folded(sample, metric):
    stacks = []
    for line in export("folded", sample, "-m", metric).decode().splitlines():
        stack, _, value = line.rpartition(" ")
        stacks.append((split_path(stack), float(value)))
    check_sums(stacks, sample, metric)


@pytest.mark.parametrize("option", [["-d", "2"], ["-t", "5"], ["-e", "mm|gemm"], ["-i", "mm"]])
def test_a_filter_never_changes_the_whole(option):
    whole, part = (
        [line.rpartition(b" ") for line in export("folded", "mixed", *more).splitlines()]
        for more in ([], [*option, "-m", "time (ns)"])
    )
    assert sum(float(value) for *_, value in part) == sum(float(value) for *_, value in whole)


@pytest.mark.parametrize("sample", SAMPLES)
def test_csv(sample):
    text = export("csv", sample, "-m", "time/ns,count").decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    expected = printed(sample, "time/ns,count")
    sums: dict[tuple[str, ...], list[float]] = {}
    own = defaultdict(float)
    for row in rows:
        path = split_path(row["path"])
        assert path[-1] == row["name"] and len(path) == int(row["depth"]) + 1
        before = sums.get(path, [0.0, 0.0])
        values = [float(row["time/ns (inc)"]), float(row["count (inc)"])]
        sums[path] = [a + b for a, b in zip(before, values)]
        for end in range(1, len(path) + 1):
            own[path[:end]] += float(row["time/ns (exc)"] or 0)
    assert sums == expected
    assert own == {path: values[0] for path, values in expected.items()}


def test_hatchet_is_the_whole_profile():
    first = json.loads(export("hatchet", "up_tree"))
    again = viewer("--export", "hatchet", "-", input=export("hatchet_msgpack", "up_tree")).stdout
    assert json.loads(again) == first
