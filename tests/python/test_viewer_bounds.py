"""What proton-viewer costs grows with its input, and no faster: time, memory and output."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cmd_support import executable

# Twice the input takes about twice the time; four times, if something is quadratic.
MOST_RATIO = 3.0
MOST_BYTES = 2 << 30


def limits() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))


def view(*arguments: object) -> tuple[int, str, float, int]:
    """Runs the viewer: its status, its messages, CPU seconds, largest resident set in bytes."""
    with open("messages", "w+b") as messages:
        process = subprocess.Popen(
            [executable("proton-viewer"), *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=messages,
            preexec_fn=limits,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        messages.seek(0)
        text = messages.read().decode()
    return process.returncode, text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


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
    """How much longer the larger size takes; the best of three, for a busy machine."""
    return min(run(sizes[1]) / max(run(sizes[0]), 0.02) for _ in range(3))


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

    assert ratio_of(run, (15000, 30000)) < MOST_RATIO


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

    assert ratio_of(run, (20000, 40000)) < MOST_RATIO


def test_integers_of_one_file_and_doubles_of_another_cost_as_much_as_integers(tmp_path):
    def run(count: int) -> float:
        paths = [tmp_path / f"{kind}{count}.hatchet" for kind in ("int", "double")]
        for path, value in zip(paths, (1, 1.5), strict=True):
            names = [node(f"n{i}", [], **{f"m{i}": value}) for i in range(count)]
            write(path, node("ROOT", names, **{f"m{i}": 0 for i in range(count)}))
        status, text, seconds, _ = view("--top", "-m", "m1", *paths)
        assert status == 0, text
        return seconds

    assert ratio_of(run, (5000, 10000)) < MOST_RATIO


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
