"""Sums that differ in rounding alone: the tables, gates and verdicts call them equal."""

import json
import subprocess
from pathlib import Path

from cmd_support import executable
from support import run_command

SAME = (0.1 + 0.2, 0.3)  # they differ in the last bit


def profile(path: Path, value: float) -> Path:
    k = {"frame": {"name": "k", "type": "function"}, "children": []}
    k["metrics"] = {"v": value, "count": 1, "time (ns)": 5, "device_id": "0", "device_type": "CUDA"}
    root = {"frame": {"name": "ROOT", "type": "function"}, "children": [k], "metrics": {"v": 0}}
    path.write_text(json.dumps([root, {"CUDA": {"0": {"arch": "90"}}}]))
    return path


def viewer(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [executable("proton-viewer"), *map(str, arguments)]
    return run_command(command, status=None)


def cells(*arguments: object) -> list[str]:
    done = viewer(*arguments)
    assert done.returncode == 0, done.stderr
    return next(line.split() for line in done.stdout.splitlines() if line.split()[-1] == "k")


def test_a_difference_of_rounding_is_0_in_a_table_and_exact_in_json(tmp_path):
    old, new = (profile(tmp_path / f"{i}.hatchet", v) for i, v in enumerate(SAME))
    row = cells("-m", "v", "--diff", old, new)
    assert row[2:4] == ["0", "0"]
    rows = json.loads(viewer("--json", "-m", "v", "--diff", old, new).stdout)["rows"]
    assert rows[1]["metrics"]["v change"] == SAME[1] - SAME[0] != 0
    # A small change is one.
    small = profile(tmp_path / "small.hatchet", SAME[0] + 1e-9)
    assert cells("-m", "v", "--diff", old, small)[2] != "0"


def test_a_gate_does_not_fail_by_rounding(tmp_path):
    up, low = (profile(tmp_path / f"{i}.hatchet", v) for i, v in enumerate(SAME))
    for gate in ("v > +0", "v > +0%"):
        assert viewer("-m", "v", "--fail-if", gate, "--diff", low, up).returncode == 0
        more = profile(tmp_path / "more.hatchet", 0.31)
        assert viewer("-m", "v", "--fail-if", gate, "--diff", low, more).returncode == 3


def test_runs_that_differ_in_rounding_have_no_spread_and_no_verdict(tmp_path):
    low, up = [], []
    for i in range(3):
        up.append(profile(tmp_path / f"up{i}.hatchet", SAME[0]))
        low.append(profile(tmp_path / f"low{i}.hatchet", SAME[1]))
    row = cells("-m", "v", "--merge", "spread", up[0], low[0])
    assert row[3] == "0" and row[4] != "up0" and row[4] != "low0"
    folder = tmp_path / "base"
    folder.mkdir()
    for path in low:
        path.rename(folder / path.name)
    done = viewer("-m", "v", "--diff", folder, *up)
    assert "within noise" in done.stdout and "higher" not in done.stdout
