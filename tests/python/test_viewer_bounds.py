"""What proton-viewer costs grows with its input, and no faster: time, memory and output."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from cmd_support import executable
from support import run_command

# Twice the input takes about twice the time; four times, if something is quadratic.
MAX_RATIO = 3.0
MAX_BYTES = 2 << 30


# Linux counts the memory of a program's parent as the program's: so a small parent starts it.
MEASURE = """
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
status = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL).returncode
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
"""


def view(*arguments: object) -> tuple[int, str, float, int]:
    """Runs the viewer: its status, its messages, CPU seconds, largest resident set in bytes."""
    command = [executable("proton-viewer"), *map(str, arguments)]
    done = run_command([sys.executable, "-S", "-c", MEASURE, str(MAX_BYTES), *command])
    status, seconds, largest = done.stdout.split()
    return int(status), done.stderr, float(seconds), int(largest)


def node(name: str, children: list[Any], **numbers: float) -> dict[str, Any]:
    return {
        "frame": {"name": name, "type": "function"},
        "metrics": {key.replace("_ns", " (ns)"): value for key, value in numbers.items()},
        "children": children,
    }


def kernel(name: str, children: list[Any] | None = None) -> dict[str, Any]:
    made = node(name, children or [], count=1, time_ns=10)
    made["metrics"] |= {"device_id": "0", "device_type": "CUDA"}
    return made


def write(path: Path, root: dict[str, Any]) -> Path:
    devices = {"CUDA": {"0": {"arch": "90", "num_sms": 1}}}
    path.write_text(json.dumps([root, devices]))
    return path


def ratio_of(run, sizes: tuple[int, int]) -> float:
    """How much longer the larger size takes; tried three times, because the machine may be busy."""
    ratio = MAX_RATIO
    for _ in range(3):
        if ratio >= MAX_RATIO:
            ratio = run(sizes[1]) / max(run(sizes[0]), 0.02)
    return ratio


@pytest.mark.parametrize("options", [[], ["--merge", "mean"]], ids=["sum", "mean"])
def test_a_directory_costs_as_much_as_its_files(tmp_path, options):
    first = write(tmp_path / "first.hatchet", node("ROOT", [kernel("k")], count=0))

    def run(count: int) -> float:
        folder = tmp_path / str(count)
        if not folder.exists():
            folder.mkdir()
            for i in range(count):
                os.link(first, folder / f"rank{i}.hatchet")
        status, text, seconds, _ = view(*options, folder)
        assert status == 0, text
        return seconds

    assert ratio_of(run, (15000, 30000)) < MAX_RATIO


@pytest.mark.parametrize("options", [["--top"], ["--diff"], ["--merge", "spread"]])
def test_many_kinds_of_losses_cost_as_much_as_few(tmp_path, options):
    def run(count: int) -> float:
        path = tmp_path / f"{count}.hatchet"
        if not path.exists():
            root = node("ROOT", [kernel("k")], count=0)
            root["proton"] = {"losses": {f"lost: kind {i}": 1 for i in range(count)}}
            write(path, root)
        again = [path] if options[0] != "--top" else []
        status, text, seconds, _ = view(*options, *again, path)
        assert status == 0 and text.count("\n") < 100, text[:1000]
        return seconds

    assert ratio_of(run, (20000, 40000)) < MAX_RATIO


def test_integers_of_one_file_and_doubles_of_another_cost_as_much_as_integers(tmp_path):
    def run(count: int) -> float:
        paths = [tmp_path / f"{kind}{count}.hatchet" for kind in ("int", "double")]
        for path, value in zip(paths, (1, 1.5), strict=True):
            names = [node(f"n{i}", [], **{f"m{i}": value}) for i in range(count)]
            write(path, node("ROOT", names, **{f"m{i}": 0 for i in range(count)}))
        status, text, seconds, _ = view("-m", "m1", *paths)
        assert status == 0, text
        return seconds

    assert ratio_of(run, (5000, 10000)) < MAX_RATIO


def chain(path: Path, count: int, name: str = "k") -> Path:
    """A kernel that calls a kernel that calls ...: deeper than json.dumps() goes."""
    empty = json.dumps(kernel("NAME"))
    assert empty.endswith("[]}")
    text = "".join(empty[:-2].replace("NAME", f"{name}{i}") for i in range(count))
    root = json.dumps(node("ROOT", [], count=0))
    path.write_text(f"[{root[:-2]}{text}{']}' * (count + 1)}, {{}}]")
    return path


@pytest.mark.parametrize("options", [["-d", "100000"], ["-d", "100000", "--export", "html"]])
def test_the_callers_of_a_long_chain_are_refused(tmp_path, options):
    path = chain(tmp_path / "chain.hatchet", 5000)
    output = ["-o", tmp_path / "out"] if "--export" in options else []
    status, text, _, memory = view("--bottom-up", *options, *output, path)
    assert status == 2 and "fewer levels" in text
    assert memory < 128 << 20
    assert not (tmp_path / "out").exists()
    status, text, _, memory = view("--bottom-up", "-d", 20, path)
    assert status == 0, text


@pytest.mark.parametrize("form", ["csv", "html", "pprof", "speedscope"])
def test_many_metrics_take_no_table_of_nodes_and_metrics(tmp_path, form):
    """One number per frame, each of a different metric: a table would have 6 million."""
    frames = [node(f"n{i}", [], **{f"m{i}": i + 1}) for i in range(2500)]
    zeros = {f"m{i}": 0 for i in range(2500)}  # which say that the metrics are inclusive
    path = write(tmp_path / "wide.hatchet", node("ROOT", frames, **zeros))
    status, text, _, memory = view("--export", form, "-o", tmp_path / "out", path)
    assert status == 0, text
    assert memory < 64 << 20
    if form == "csv":
        lines = (tmp_path / "out").read_text().splitlines()
        titles, root, last = (lines[i].split(",") for i in (0, 1, -1))
        at = titles.index("m2499 (inc)")
        assert (root[at], root[at + 1]) == ("2500", "")
        assert (last[at], last[at + 1]) == ("2500", "2500")
        assert last[titles.index("m7 (inc)")] == "0" and last[titles.index("m7 (exc)")] == ""


@pytest.mark.parametrize("form", ["csv", "html", "pprof", "speedscope"])
def test_more_numbers_than_the_limit_are_rejected(tmp_path, form):
    frames = [node(f"n{i}", [], **{f"m{i}": i + 1}) for i in range(12000)]
    path = write(tmp_path / "wide.hatchet", node("ROOT", frames, m0=0))
    status, text, seconds, memory = view("--export", form, "-o", tmp_path / "out", path)
    assert status == 2 and "select fewer metrics (-m)" in text and text.count("\n") == 1
    assert seconds < 3 and memory < 64 << 20
    assert not (tmp_path / "out").exists()
    status, text, _, _ = view("--export", form, "-m", "m7,m8", "-o", tmp_path / "out", path)
    assert status == 0, text


def test_as_many_metrics_as_there_are_names_cost_as_much_as_their_number(tmp_path):
    def run(count: int) -> float:
        path = tmp_path / f"{count}.hatchet"
        write(path, node("ROOT", [], **{f"k{i}": i for i in range(count)}))
        status, text, seconds, _ = view("--export", "csv", "-o", tmp_path / "out", path)
        assert status == 0, text
        return seconds

    assert ratio_of(run, (10000, 20000)) < MAX_RATIO


@pytest.mark.parametrize("form", ["folded", "csv", "speedscope", "pprof"])
def test_paths_of_a_long_chain_are_refused_before_they_are_written(tmp_path, form):
    path = chain(tmp_path / "chain.hatchet", 40000)
    status, text, seconds, _ = view("--export", form, "-o", tmp_path / "out", path)
    assert status == 2 and "the output would be more than" in text and text.count("\n") == 1
    assert seconds < 3
    assert sorted(file.name for file in tmp_path.iterdir()) == ["chain.hatchet"]
    status, text, _, _ = view("--export", form, "-d", 500, "-o", tmp_path / "out", path)
    assert status == 0, text


@pytest.mark.parametrize("form", ["html", "hatchet", "hatchet_msgpack"])
def test_a_long_chain_is_written_where_no_paths_are(tmp_path, form):
    path = chain(tmp_path / "chain.hatchet", 40000)
    status, text, _, _ = view("--export", form, "-o", tmp_path / "out", path)
    assert status == 0, text
    assert (tmp_path / "out").stat().st_size < 20 * path.stat().st_size


@pytest.mark.parametrize("form", ["folded", "csv"])
def test_a_path_of_long_names_is_refused(tmp_path, form):
    path = chain(tmp_path / "chain.hatchet", 600, "n" * 10000)
    status, text, _, memory = view("--export", form, "-o", tmp_path / "out", path)
    assert status == 2 and "the output would be more than" in text
    assert memory < 64 << 20
    assert not (tmp_path / "out").exists()
