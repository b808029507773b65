"""proton-viewer --source: samples by line, with chains of inlined calls and untrusted profiles."""

import csv
import io
import json
import resource
from pathlib import Path

import pytest

from cmd_support import executable, run

REASONS = ("stalled_long_scoreboard", "stalled_selected", "stalled_new_reason")


def node(name: str, samples: list[int] | None = None, *children: dict) -> dict:
    """A frame with samples: one number per reason."""
    metrics = {}
    if samples:
        metrics = {"num_samples": sum(samples)} | dict(zip(REASONS, samples, strict=False))
    return {
        "frame": {"name": name, "type": "function"}, "metrics": metrics, "children": list(children)
    }


def kernel(name: str, *children: dict) -> dict:
    made = node(name, None, *children)
    made["metrics"] = {
        "count": 1, "time (ns)": 1000, "device_id": "0", "device_type": "CUDA"
    }  # fmt: skip
    return made


def write(path: Path, *children: dict) -> Path:
    root = node("ROOT", None, *children)
    root["metrics"] = {"count": 0, "time (ns)": 0, "num_samples": 0} | dict.fromkeys(REASONS, 0)
    path.write_text(json.dumps([root, {"CUDA": {"0": {"arch": "90"}}}]))
    return path


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """Two callers of one kernel; a callee is inlined at two lines, once through another one."""
    return write(
        tmp_path / "p.hatchet",
        node("train.py:3@step", None, kernel("mm", node("mm.py:41@mm", [60, 10, 5]))),
        node(
            "train.py:9@step",
            None,
            kernel(
                "mm",
                node("mm.py:41@mm", None, node("tl.py:7@load", [20, 0, 0])),
                node(
                    "mm.py:50@mm", None, node("tl.py:2@sum", None, node("tl.py:7@load", [0, 0, 5])),
                ),
            ),
            kernel("add", node("add.py:1@add", [3, 1, 0])),
        ),
    )


def view(*arguments: str | Path):
    done = run([executable("proton-viewer"), "--source", *map(str, arguments)], Path.cwd())
    return done.returncode, done.stdout, done.stderr


def rows(*arguments: str | Path) -> list[tuple]:
    status, text, _ = view("--csv", *arguments)
    assert status == 0
    return [
        (row["kernel"], row["file"], int(row["line"]), int(row["inlined"]), int(row["samples"]))
        for row in csv.DictReader(io.StringIO(text))
    ]


def test_a_line_counts_what_is_inlined_there_for_all_callers(profile):
    assert rows(profile) == [
        ("mm", "mm.py", 41, 0, 95),
        ("mm", "mm.py", 50, 0, 5),
        ("mm", "tl.py", 2, 1, 5),
        ("mm", "tl.py", 7, 1, 25),
        ("add", "add.py", 1, 0, 4),
    ]


def test_filters_select_contexts_and_names_select_kernels(profile):
    assert rows("-i", "train.py:9", "mm", profile)[:2] == [
        ("mm", "mm.py", 41, 0, 20),
        ("mm", "mm.py", 50, 0, 5),
    ]
    assert [row[0] for row in rows("^a", profile)] == ["add"]
    assert [row[0] for row in rows("-n", "1", profile)] == ["mm"] * 4
    status, text, error = view(profile, "nothing")
    assert (status, text) == (2, "")
    assert "no kernel with samples" in error and "nothing" in error


def test_the_first_line_names_what_the_kernel_waits_for(profile):
    status, text, error = view(profile)
    lines = text.splitlines()
    assert (status, error) == (0, "")
    assert lines[0] == "mm: 100 samples, 96.15 %"
    # A reason without words is shown by its name; `selected` is not a wait.
    assert lines[1] == "long_scoreboard 80 %: global loads at mm.py:41"
    assert lines[2] == "new_reason 10 %: at mm.py:41"
    assert lines[3] == ""
    assert "selected" not in text


def test_json_has_the_same_numbers(profile):
    status, text, _ = view("--json", "mm", profile)
    (found,) = json.loads(text)["kernels"]
    assert (status, found["kernel"], found["samples"]) == (0, "mm", 100)
    assert found["reasons"] == {"long_scoreboard": 80, "selected": 10, "new_reason": 10}
    assert found["waits"][0] == {
        "reason": "long_scoreboard", "percent": 80.0, "for": "global loads",
        "file": "mm.py", "line": 41,
    }  # fmt: skip
    assert sum(line["samples"] for line in found["lines"] if not line["inlined"]) == 100
    assert found["lines"][0]["reasons"]["long_scoreboard"] == 80


def test_samples_without_a_line_are_counted(tmp_path):
    sampled = kernel("k", node("k.py:1@k", [1]))
    sampled["metrics"] |= {"num_samples": 3, REASONS[0]: 3}
    path = write(tmp_path / "p.hatchet", sampled)
    assert rows(path) == [("k", "k.py", 1, 0, 1), ("k", "", 0, 0, 3)]
    assert "not known" in view(path)[1]


def test_names_that_a_terminal_obeys_are_escaped(tmp_path):
    path = write(tmp_path / "p.hatchet", kernel("k\x1b[2J", node("a\x1b[1m.py:1@f", [4])))
    status, text, _ = view(path)
    assert status == 0
    assert "\x1b" not in text and "\\x1b" in text


def test_long_chains_take_linear_time(tmp_path):
    deep = node("f.py:1@f", [1])
    for line in range(2, 100):
        deep = node(f"f.py:{line}@f", [1], deep)
    path = write(tmp_path / "p.hatchet", *[kernel(f"k{i}", deep) for i in range(400)])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    status, _, _ = view("--csv", path)
    assert status == 0
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime < 5
