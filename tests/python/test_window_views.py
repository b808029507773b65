"""Windows without a GPU: a loop of known times on the fake libcupti, and its estimates in views,
exports and gates."""

import csv
import io
import json
import subprocess
from pathlib import Path

import pytest
from cmd_support import executable, proton
from fake_driver import CC, fake_environment, launcher
from support import at, load, metrics

pytestmark = pytest.mark.skipif(CC is None, reason="needs a C compiler")

# The kernels of a second last as long as before, however often the loop is delayed.
PROGRAM = """
import ctypes, json, sys, time
import triton_proton as proton
launch = ctypes.CDLL(sys.argv[1]).launch
begin = time.monotonic()
counts = {"large": 0, "small": 0}
while time.monotonic() - begin < 4:
    for scope, name, ns in ("a", "large", 3000), ("b", "small", 1000):
        due = (time.monotonic() - begin) * 1000
        with proton.scope(scope):
            while counts[name] < due:
                launch(name.encode(), ns)
                counts[name] += 1
    time.sleep(0.0005)
json.dump(counts, open("counts.json", "w"))
"""


def view(*arguments: str, cwd: Path, status: int = 0) -> str:
    command = [executable("proton-viewer"), *arguments]
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)
    assert result.returncode == status, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("windows")
    (directory / "loop.py").write_text(PROGRAM)
    result = proton(
        "-b", "cupti", "--windows", "20ms/100ms:overhead=100%", "-n", "w", "loop.py", launcher(),
        cwd=directory, env=fake_environment(),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return directory


def numbers(text: str) -> dict[str, dict[str, float]]:
    """The rows of a CSV export by frame."""
    rows = {}
    for row in csv.DictReader(io.StringIO(text)):
        frame = row.get("name") or row["path"].split("/")[-1]
        rows[frame] = {key: float(value) for key, value in row.items() if _is_number(value)}
    return rows


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_estimates_are_near_the_truth(recorded):
    root = load(recorded / "w.hatchet")
    counts = json.loads((recorded / "counts.json").read_text())
    for scope, name, ns in ("a", "large", 3000), ("b", "small", 1000):
        found = metrics(root, scope, name)
        assert found["count"] == pytest.approx(counts[name], rel=0.25)
        assert found["time (ns)"] == pytest.approx(counts[name] * ns, rel=0.25)
        assert found["time (ns)"] == pytest.approx(found["count"] * ns, rel=0.01)
        assert 0 < found["samples"] < counts[name] / 2
        assert abs(found["time (ns)"] - counts[name] * ns) < 4 * found["time_ci (ns)"]
    info = root["proton"]["info"]
    assert info["windows"].startswith("20 ms every 0.1 s")
    assert int(info["windows_count"]) >= 20
    assert info["cupti_attaches"] == "1"


def test_intervals_of_scopes_follow_from_their_kernels(recorded):
    view("-m", "time/ns,time_ci/ns,samples", "-o", "t.csv", "w.hatchet", cwd=recorded)
    rows = numbers((recorded / "t.csv").read_text())
    root = load(recorded / "w.hatchet")
    parts = [
        metrics(root, scope, name)["time_windows (ns)"]
        for scope, name in (("a", "large"), ("b", "small"))
    ]
    assert len(parts[0]) == 16
    half = sum((one + other) ** 2 for one, other in zip(*parts)) ** 0.5
    assert rows["ROOT"]["time_ci/ns"] == pytest.approx(half, rel=1e-3)
    assert rows["a"]["time_ci/ns"] == pytest.approx(rows["large"]["time_ci/ns"], rel=1e-6)
    assert rows["ROOT"]["samples (inc)"] == sum(
        rows[name]["samples (inc)"] for name in ("large", "small")
    )


def csv_of(source: str, directory: Path) -> dict[str, dict[str, float]]:
    view("-m", "time/ns,time_ci/ns", "-o", "rows.csv", *source.split(), cwd=directory)
    return numbers((directory / "rows.csv").read_text())


def test_other_formats_have_the_same_estimates(recorded):
    view("-o", "copy.hatchet_msgpack", "w.hatchet", cwd=recorded)
    assert csv_of("copy.hatchet_msgpack", recorded) == csv_of("w.hatchet", recorded)


def test_intervals_of_sums_of_files_and_of_flat_tables(recorded):
    (recorded / "same.hatchet").write_text((recorded / "w.hatchet").read_text())
    one, two = csv_of("w.hatchet", recorded), csv_of("w.hatchet same.hatchet", recorded)
    for name in "ROOT", "a", "large":
        assert two[name]["time_ci/ns"] == pytest.approx(2 * one[name]["time_ci/ns"], rel=1e-4)
    flat = csv_of("--group scope w.hatchet", recorded)
    assert flat["a"]["time_ci/ns"] == pytest.approx(one["a"]["time_ci/ns"], rel=1e-4)


def test_views_and_gates(recorded):
    text = view("w.hatchet", cwd=recorded)
    assert "estimates from windows of 20 ms every 0.1 s" in text
    assert "time_ci/ms" in text
    flat = view("--top", "w.hatchet", cwd=recorded)
    assert "time_ci/ms" in flat
    assert "time_windows" not in view("--list", "w.hatchet", cwd=recorded)
    view("--fail-if", "time_ci/ms > 1000", "w.hatchet", cwd=recorded)
    view("--fail-if", "time_ci/ns > 0 in large", "w.hatchet", cwd=recorded, status=3)


def test_a_kernel_in_no_window_has_no_time(recorded):
    assert {child["frame"]["name"] for child in load(recorded / "w.hatchet")["children"]} == {
        "a", "b"
    }
    assert at(load(recorded / "w.hatchet"), "a")["metrics"].get("time (ns)") is None


GRAPHS = """
import ctypes, sys, time
import torch.cuda.graphs
torch.cuda.graphs.launch = ctypes.CDLL(sys.argv[1]).launch
graph = torch.cuda.graphs.CUDAGraph()
begin = time.monotonic()
steps = 0
while steps < 600 or time.monotonic() - begin < 1.5:
    graph.replay()
    steps += 1
    time.sleep(0.001)
"""
GRAPH = """
class CUDAGraph:
    def replay(self):
        launch(b"node", 1000)
"""


def test_replays_of_pytorch_are_steps(tmp_path):
    (tmp_path / "torch" / "cuda").mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text("")
    (tmp_path / "torch" / "cuda" / "__init__.py").write_text("")
    (tmp_path / "torch" / "cuda" / "graphs.py").write_text(GRAPH)
    (tmp_path / "replays.py").write_text(GRAPHS)
    arguments = ("-b", "cupti", "--windows", "20ms/100ms", "-n", "w", "replays.py", launcher())
    result = proton(*arguments, cwd=tmp_path, env=fake_environment())
    assert result.returncode == 0, result.stderr
    info = load(tmp_path / "w.hatchet")["proton"]["info"]
    assert int(info["windows_steps"]) > 200
    assert 1 <= float(info["windows_slowness"]) < 4
