"""The commands of docs/guide/ci.md, run unchanged."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cmd_support import environment, executable
from support import run_command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "ci.md"

# A benchmark with kernel times set by SPEED, and some noise from run to run.
BENCH = """
import os, random
import triton_proton as proton
noise = random.Random(os.getpid())
for name in ("matmul_kernel", "softmax_kernel"):
    time = int(float(open("speed").read()) * 1e6 * noise.uniform(0.995, 1.005))
    with proton.scope(name, {"time (ns)": time, "count": 1}):
        pass
"""


def blocks() -> list[str]:
    fence = r"^```sh\n(.*?)^```"
    return re.findall(fence, PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def script() -> str:
    """The script for GitHub, with fewer runs."""
    return block("#!/bin/sh").replace("1 2 3 4 5", "1 2 3")


def block(word: str) -> str:
    (text,) = [text for text in blocks() if word in text]
    return text


def shell(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(executable("proton")).parent), os.environ["PATH"]])
    return run_command(
        ["sh", "-c", text, "sh", *arguments], env=environment(PATH=path, PROTON_BACKEND="host"),
        status=None,
    )


def checkout(name: str, speed: float) -> None:
    Path(name).mkdir()
    Path(name, "bench.py").write_text(BENCH)
    Path(name, "speed").write_text(str(speed))


@pytest.fixture
def recorded():
    """base/ and new/, recorded by the first command of the page."""
    Path("bench.py").write_text(BENCH)
    for folder, speed in [("base", 1.0), ("new", 1.2)]:
        Path("speed").write_text(str(speed))
        done = shell(block('-n "new/$run"').replace("new", folder))
        assert done.returncode == 0, done.stderr


def test_every_command_of_the_recipe_works(recorded):
    done = shell(block("> gates.json"))
    assert done.returncode == 3
    assert "gate failed: time/ms +" in done.stderr and "> +10% in matmul_kernel" in done.stderr
    gates = json.loads(Path("gates.json").read_text())["gates"]
    assert [gate["failed"] for gate in gates] == [True, True]
    assert {gate["frames"][0]["verdict"] for gate in gates} == {"slower"}
    done = shell(block("json.load").replace("python3", sys.executable))
    assert done.returncode == 0 and done.stdout.count("FAILED time > +") == 2
    assert shell(block("--merge mean")).returncode == 0
    assert shell(block("report.html")).returncode == 0 and Path("report.html").exists()
    assert len(blocks()) == 6  # with the script below


@pytest.mark.parametrize(
    "speed, status, printed", [(1.0, 0, "no regression"), (1.2, 3, "slower than before")]
)
def test_the_script_for_github_ends_with_the_status_of_the_gate(speed, status, printed):
    checkout("before", 1.0)
    checkout("after", speed)
    done = shell(script(), "before", "after")
    assert done.returncode == status, done.stderr
    assert done.stdout.endswith(f"{printed}\n") and "means of 3 and 3 runs" in done.stdout


@pytest.mark.parametrize("speed, status", [(1.0, 0), (1.2, 3)])
def test_the_workflow_shows_the_comparison_and_ends_with_the_status_of_the_gate(speed, status):
    text = (PAGE.parents[2] / "examples" / "ci" / "pull-request.yml").read_text(encoding="utf-8")
    record, compare = re.findall(r"^        run: \|\n((?:^ {10}.*\n)+)", text, re.MULTILINE)
    checkout("base", 1.0)
    checkout("new", speed)
    assert shell(textwrap.dedent(record).replace("1 2 3 4 5", "1 2 3")).returncode == 0
    done = shell("GITHUB_STEP_SUMMARY=summary.md\n" + textwrap.dedent(compare))
    assert done.returncode == status, done.stderr
    summary = Path("summary.md").read_text()
    assert "| &emsp;softmax\\_kernel |\n" in summary and "Means of 3 and 3 runs." in summary


def test_the_script_is_broken_by_a_broken_profile():
    checkout("before", 1.0)
    checkout("after", 1.0)
    text = script().replace("status=0", "echo x > profiles/new/9.hatchet; status=0")
    done = shell(text, "before", "after")
    assert done.returncode == 2 and done.stdout == "the comparison is broken\n"
