"""`proton bench`: runs of scripts in turns, with kernels of known length on the CPU."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from cmd_support import environment, executable, run

SCRIPT = """
import sys, time
from triton_proton import _libproton

with open(sys.argv[1], "a") as log:
    print(__file__, file=log)
for name, ms in (("gemm", {ms}), ("copy", 1)):
    _libproton.kernel_begin(name)
    time.sleep(ms / 1e3)
    _libproton.kernel_end()
"""


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """The gemm of new.py takes 20 ms, those of old.py and old/new.py take 40."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new.py").write_text(SCRIPT.format(ms=20))
    for name in ("old.py", "old/new.py"):
        (tmp_path / name).write_text(SCRIPT.format(ms=40))
    return tmp_path


def bench(scripts: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = environment(PROTON_BACKEND="host")
    return run([executable("proton"), "bench", *words], scripts, env=env)


def test_one_side_has_the_median_of_each_kernel(scripts: Path) -> None:
    done = bench(scripts, "--runs", "3", "new.py", str(scripts / "log"))
    assert done.returncode == 0, done.stderr
    found = {line.split()[-1]: float(line.split()[0]) for line in done.stdout.splitlines()[1:]}
    assert list(found) == ["gemm", "copy"] and found["gemm"] >= 20
    assert re.match(r"new.py: [\d.]+ ms \([\d.]+ to [\d.]+\)$", done.stdout.splitlines()[0])
    assert len((scripts / "log").read_text().splitlines()) == 4  # and one that warms up
    assert sorted(os.listdir(scripts)) == ["log", "new.py", "old", "old.py"]


@pytest.mark.parametrize("base", ["old.py", "old"])
def test_two_sides_take_turns_and_are_compared(scripts: Path, base: str) -> None:
    words = ["--runs", "3", "--against", base, "-o", "kept", "new.py", str(scripts / "log")]
    done = bench(scripts, *words)
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.endswith("gemm"))
    assert 30 < float(row.split()[0]) and float(row.split()[1]) < 39, done.stdout
    names = [Path(line).name for line in (scripts / "log").read_text().splitlines()]
    assert len(names) == 8
    if base == "old.py":
        assert sorted(names[:2]) == sorted(names[2:4]) == sorted(names[4:6]) == ["new.py", "old.py"]
    kept = sorted(str(path.relative_to(scripts)) for path in (scripts / "kept").rglob("*.proton"))
    assert kept == [f"kept/{side}/000{n}.proton" for side in ("after", "before") for n in (1, 2, 3)]


def test_a_gate_about_a_change_has_its_status(scripts: Path) -> None:
    log = str(scripts / "log")
    # From the new to the old script: twice as long.
    gate = ["--runs", "4", "--fail-if", "time > +20% in gemm"]
    assert bench(scripts, *gate, "--against", "new.py", "old.py", log).returncode == 3
    assert bench(scripts, *gate, "--against", "old.py", "new.py", log).returncode == 0


@pytest.mark.parametrize(
    "words, text",
    [
        (["missing.py"], "bench: missing.py ended with status 2"),
        (["true"], "bench: a run of true recorded no kernel"),
        (["-o", "old", "new.py"], "bench: old exists; name a directory that does not"),
        (["--runs", "0", "new.py"], "--runs needs at least 1"),
        (["--fail-if", "time > +5%", "new.py"], "--fail-if needs --against"),
    ],
)
def test_mistakes_are_one_message(scripts: Path, words: list[str], text: str) -> None:
    done = bench(scripts, "--runs", "1", *words)
    assert done.returncode == 2 and text in done.stderr and "Traceback" not in done.stderr, done
