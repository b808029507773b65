"""proton-viewer --export: files are whole or absent, and each format is read back.

The content of each format for each sample profile is compared with proton-viewer --csv.
"""

import csv
import gzip
import io
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import pytest
from cmd_support import executable
from protobuf_reader import protobuf_fields
from support import run_command

DATA = Path(__file__).resolve().parent.parent / "data" / "viewer"
# Profiles with kernel times.
SAMPLES = ["cuda", "frames", "mixed", "up_tree", "up_python", "up_graph", "sort", "metadata"]
SAMPLES += ["backward"]


def viewer(*arguments: object, **options) -> subprocess.CompletedProcess[bytes]:
    command = [executable("proton-viewer"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=300, **options)


def export(name: str, sample: str, *arguments: str) -> bytes:
    done = viewer("--export", name, *arguments, DATA / f"{sample}.hatchet")
    assert done.returncode == 0, done.stderr
    return done.stdout


def printed(sample: str, metrics: str) -> dict[tuple[str, ...], list[float]]:
    """The viewer's output: values by path from the root, summed for equal paths."""
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
    """The names of a path, with \\xNN converted back."""
    return tuple(
        re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), name)
        for name in path.split(";")
    )


def add_up(stacks: list[tuple[tuple[str, ...], float]]) -> dict[tuple[str, ...], float]:
    """Inclusive numbers by path from the numbers of stacks."""
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    for stack, value in stacks:
        for end in range(len(stack) + 1):
            sums[("ROOT", *stack[:end])] += value
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
    deep_profile(tmp_path / "deep.hatchet", 14000)  # 200 MB of stacks
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "x.folded"
    target.write_text("old")
    command = [executable("proton-viewer"), "-o", str(target), str(tmp_path / "deep.hatchet")]
    with subprocess.Popen(command) as process:
        wait_for(lambda: len(list(target.parent.iterdir())) == 2, "temporary file")
        process.send_signal(number)
        assert process.wait(timeout=300) == -number
    assert target.read_text() == "old"
    assert [path.name for path in target.parent.iterdir()] == ["x.folded"]


def test_work_of_more_than_a_second_is_shown(tmp_path):
    ours, theirs = pty.openpty()
    end, pipe = os.pipe()
    command = [executable("proton-viewer"), "--export", "csv", f"/dev/fd/{end}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, pass_fds=[end]
    ) as process:
        os.close(theirs)
        with open(pipe, "wb") as fifo:
            shown = os.read(ours, 4096)
            fifo.write((DATA / "cuda.hatchet").read_bytes())
        os.close(end)
        assert process.stdout.read().startswith(b"path,name")
        assert process.wait(timeout=300) == 0
    assert shown == b"proton-viewer: reading %d 1 s\r" % end
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


# ------------------------------------------------------------------ speedscope


UNITS = {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}


def check_speedscope(data: dict) -> None:
    """What https://www.speedscope.app/file-format-schema.json demands of a file of this kind."""
    assert set(data) <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert isinstance(data["name"], str) and isinstance(data["exporter"], str)
    assert 0 <= data["activeProfileIndex"] < len(data["profiles"])
    frames = data["shared"]["frames"]
    for frame in frames:
        assert set(frame) <= {"name", "file", "line", "col"} and isinstance(frame["name"], str)
        assert isinstance(frame.get("file", ""), str) and isinstance(frame.get("line", 0), int)
    for profile in data["profiles"]:
        wanted = {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert set(profile) == wanted
        assert profile["type"] == "sampled" and profile["unit"] in UNITS
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= i < len(frames) for stack in profile["samples"] for i in stack)
        assert all(weight > 0 for weight in profile["weights"])
        assert profile["endValue"] - profile["startValue"] == pytest.approx(
            sum(profile["weights"]), rel=1e-12
        )


def speedscope_name(frame: dict) -> str:
    return f"{frame['file']}:{frame['line']}@{frame['name']}" if "file" in frame else frame["name"]


@pytest.mark.parametrize("metric", ["time/ns", "count", "time/ms"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_speedscope(sample, metric):
    data = json.loads(export("speedscope", sample, "-m", metric))
    check_speedscope(data)
    frames = [speedscope_name(frame) for frame in data["shared"]["frames"]]
    profile = data["profiles"][0]
    assert profile["name"] == metric
    stacks = [
        (tuple(frames[i] for i in stack), weight)
        for stack, weight in zip(profile["samples"], profile["weights"])
    ]
    check_sums(stacks, sample, metric)


def test_speedscope_has_a_profile_per_metric_and_device():
    data = json.loads(export("speedscope", "mixed", "-m", "time/us,count,bytes"))
    check_speedscope(data)
    sums = {profile["name"]: profile["endValue"] for profile in data["profiles"]}
    assert list(sums)[:3] == ["time/us", "time/us, CUDA 0", "time/us, CUDA 1"]
    assert sums["time/us, CUDA 0"] + sums["time/us, CUDA 1"] == pytest.approx(sums["time/us"])
    assert sums["count, CUDA 0"] + sums["count, CUDA 1"] == sums["count"]
    units = [profile["unit"] for profile in data["profiles"]]
    assert units == ["microseconds"] * 3 + ["none"] * 3 + ["bytes"]
    assert json.loads(export("speedscope", "mixed", "-m", "time/us", "-d", "1"))["profiles"][1][
        "endValue"
    ] == pytest.approx(sums["time/us, CUDA 0"])


def test_speedscope_of_everything():
    data = json.loads(export("speedscope", "up_tree"))
    check_speedscope(data)
    assert "cpu_time (ns)" in [profile["name"] for profile in data["profiles"]]


# ------------------------------------------------------------------ pprof


def numbers(packed: bytes) -> list[int]:
    """A packed field of int64."""
    values, value, shift = [], 0, 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            values.append(value - (1 << 64) if value >> 63 else value)
            value = shift = 0
    assert shift == 0
    return values


class Pprof:
    """A profile as https://github.com/google/pprof/blob/main/proto/profile.proto has it."""

    def __init__(self, data: bytes) -> None:
        fields = protobuf_fields(gzip.decompress(data))
        of = lambda number: [value for field, value in fields if field == number]
        self.strings = [text.decode("utf-8") for text in of(6)]
        assert self.strings[0] == ""
        self.types = [tuple(self.text(dict(protobuf_fields(t)), i) for i in (1, 2)) for t in of(1)]
        functions = {f[1]: f for f in (dict(protobuf_fields(f)) for f in of(5))}
        self.locations = {}
        for location in (dict(protobuf_fields(value)) for value in of(4)):
            line = dict(protobuf_fields(location[4]))
            function = functions[line[1]]
            assert location[1] and location[1] not in self.locations
            name, file = self.text(function, 2), self.text(function, 4)
            self.locations[location[1]] = f"{file}:{line.get(2, 0)}@{name}" if file else name
        self.samples = [self.sample(protobuf_fields(value)) for value in of(2)]
        self.default = self.strings[of(14)[0]]

    def text(self, message: dict, field: int) -> str:
        return self.strings[message.get(field, 0)]

    def sample(self, fields) -> tuple[tuple[str, ...], list[int], dict[str, str]]:
        message = dict(fields)
        stack = tuple(self.locations[i] for i in reversed(numbers(message[1])))
        labels = [dict(protobuf_fields(value)) for field, value in fields if field == 3]
        values = numbers(message[2])
        assert len(values) == len(self.types)
        return stack, values, {self.text(label, 1): self.text(label, 2) for label in labels}


@pytest.mark.parametrize("metric", ["time/ns", "count", "time/us"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_pprof(sample, metric):
    profile = Pprof(export("pprof", sample, "-m", metric))
    unit = "count" if metric == "count" else "nanoseconds"
    assert profile.types == [(metric.partition("/")[0], unit)]
    stacks = [(stack, values[0]) for stack, values, _ in profile.samples]
    check_sums(stacks, sample, metric if metric == "count" else "time/ns")


def test_pprof_of_everything():
    profile = Pprof(export("pprof", "mixed"))
    assert profile.types[:2] == [("time", "nanoseconds"), ("count", "count")]
    assert ("bytes", "bytes") in profile.types and profile.default == "time"
    whole = printed("mixed", "time/ns,count,bytes")[("ROOT",)]
    columns = [0, 1, profile.types.index(("bytes", "bytes"))]
    sums = [sum(values[column] for _, values, _ in profile.samples) for column in columns]
    assert sums == whole
    devices = {labels.get("device") for _, values, labels in profile.samples if values[0]}
    assert devices == {"CUDA 0", "CUDA 1"}
    parts = Pprof(export("pprof", "mixed", "-d", "1"))
    by_device = [values[:2] for _, values, labels in parts.samples if labels]
    assert [sum(column) for column in zip(*by_device)] == whole[:2] and len(by_device) == 2


def test_pprof_has_lines_and_stall_reasons_as_sample_types():
    profile = Pprof(export("pprof", "up_pc"))
    names = [name for name, _ in profile.types]
    assert {"num_samples", "stalled_wait", "stalled_long_scoreboard"} < set(names)
    for name in ("num_samples", "stalled_wait", "stalled_no_instruction"):
        column = names.index(name)
        stacks = [(stack, values[column]) for stack, values, _ in profile.samples if values[column]]
        check_sums(stacks, "up_pc", name)
    line = [values for stack, values, _ in profile.samples if "samples.py:20@mm" in stack[-1]]
    assert sum(values[names.index("num_samples")] for values in line) == 109
    assert sum(values[names.index("stalled_long_scoreboard")] for values in line) == 38


@pytest.mark.parametrize("metric", ["num_samples", "stalled_wait"])
def test_folded_stacks_count_each_pc_sample_once(metric):
    text = export("folded", "up_pc", "-m", metric).decode()
    stacks = [line.rpartition(" ") for line in text.splitlines()]
    found = [(split_path(stack), float(value)) for stack, _, value in stacks]
    check_sums(found, "up_pc", metric)


def test_pprof_is_read_by_pprof(tmp_path):
    """By the program itself, where Go is installed.

    Debian's golang-go is 63 MB to download, too much for each run of CI; google-perftools has a
    pprof that knows only the text of gperftools.
    """
    tools = Path(shutil.which("pprof") or "/usr/lib/go-1.19/pkg/tool/linux_amd64/pprof")
    go = shutil.which("go")
    if go:
        directory = run_command([go, "env", "GOTOOLDIR"], status=None)
        tools = Path(directory.stdout.strip()) / "pprof"
    if not tools.exists():
        pytest.skip("go tool pprof is not installed")
    (tmp_path / "x.pb.gz").write_bytes(export("pprof", "up_python"))
    command = [tools, "-top", "-nodecount=0", "-sample_index=time", "x.pb.gz"]
    environment = dict(os.environ, PPROF_TMPDIR=str(tmp_path), HOME=str(tmp_path))
    done = run_command(command, cwd=tmp_path, env=environment)
    assert "Type: time" in done.stdout and "of 16.57us total" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert any(row[-1:] == ["mm_512x512x512"] and row[0] == "15.07us" for row in rows)


# ------------------------------------------------------------------ what was turned or compared


def folded(*arguments: object) -> list[tuple[tuple[str, ...], list[float]]]:
    done = viewer("--export", "folded", *arguments)
    assert done.returncode == 0, done.stderr
    pattern = re.compile(r"(.*?)((?: [0-9.e+-]+)+)$")
    found = [pattern.match(line) for line in done.stdout.decode().splitlines()]
    return [(split_path(m[1]), [float(number) for number in m[2].split()]) for m in found]


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_bottom_up_tree_has_the_same_sums(sample):
    file = DATA / f"{sample}.hatchet"
    rows = folded("--bottom-up", "-m", "time/ns", file)
    tree: dict[str, float] = defaultdict(float)
    for stack, (value,) in folded("-m", "time/ns", file):
        tree[stack[-1]] += value
    kernels: dict[str, float] = defaultdict(float)
    for stack, (value,) in rows:
        kernels[stack[0]] += value
    assert kernels == pytest.approx(tree)
    top = {stack[-1]: value for stack, (value,) in folded("--top", "-m", "time/ns", file)}
    assert top == pytest.approx(tree)


def test_a_difference_has_the_stacks_of_both():
    pair = ("up_tree", "mixed")
    files = [DATA / f"{sample}.hatchet" for sample in pair]
    rows = folded("-m", "time/ns", "--diff", *files)
    for side, sample in enumerate(pair):
        one = [(stack, values[side]) for stack, values in rows if values[side]]
        check_sums(one, sample, "time/ns")
    both = Pprof(viewer("--export", "pprof", "--diff", *files).stdout)
    assert both.types == [("time before", "nanoseconds"), ("time after", "nanoseconds")]
    for side, sample in enumerate(pair):
        one = [(stack, values[side]) for stack, values, _ in both.samples if values[side]]
        check_sums(one, sample, "time/ns")


def test_a_mean_is_that_of_the_stacks():
    pair = ("up_tree", "mixed")
    files = [DATA / f"{sample}.hatchet" for sample in pair]
    mean = add_up([(s, v[0]) for s, v in folded("-m", "time/ns", "--merge", "mean", *files)])
    total = add_up([(s, v[0] / 2) for file in files for s, v in folded("-m", "time/ns", file)])
    assert mean == pytest.approx(total)
