"""The commands of README.md and docs/guide, run unchanged.

Blocks of `sh` and `console` are commands; the second kind shows their output, too. Those of a page
run one after another, in a copy of the folder that world() makes, on a fake GPU. A comment before a
block changes that:

    <!-- not run: REASON -->                 nothing here can run it
    <!-- run in tests/python/test_X.py -->   that test reads the page and runs it
    <!-- output varies -->                   the output is not compared
    <!-- status 3 -->                        what each command that fails has to end with
    <!-- inside kernels -->                  on the fake GPU that runs instrumented kernels

A line `...` in an output stands for any lines.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cmd_support import environment, executable
from fake_driver import CC, fake_environment, hip_library, launcher
from rank_support import write_job
from support import run_command

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
COMMANDS = ("sh", "console")
LANGUAGES = {*COMMANDS, "text", "python", "c", "json", "yaml", "sql"}
BLOCK = re.compile(r"((?:^<!-- [^\n]* -->\n)*)^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = r"(?:triton-)?proton(?:-viewer|-merge)?|python3?|pip|make|meson|cc|torchrun|mpirun|srun"
needs_gpu = [
    pytest.mark.skipif(CC is None, reason="no C compiler"),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton"),
]


class Block:
    """A fenced block, and what the comments before it say."""

    def __init__(self, page: Path, comments: str, language: str, text: str) -> None:
        self.page, self.language, self.text = page, language, text
        self.comments = re.findall(r"<!-- (.*) -->", comments)
        self.name = f"{page.name}: {text.splitlines()[0]}"

    def value(self, word: str) -> str | None:
        """The rest of the comment that begins with `word`."""
        found = [one[len(word) :].strip() for one in self.comments if one.startswith(word)]
        return found[0] if found else None

    def is_run(self) -> bool:
        is_elsewhere = self.value("not run:") is not None or self.value("run in ") is not None
        return self.language in COMMANDS and not is_elsewhere

    def steps(self) -> list[tuple[str, str | None]]:
        """Commands, with the output that is shown."""
        if self.language == "sh":
            return [(self.text, None)]
        step = r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)"
        found = []
        for command, output in re.findall(step, self.text, re.MULTILINE):
            found.append((command, output.rstrip("\n") or None))
        return found


def blocks(page: Path) -> list[Block]:
    return [Block(page, *found) for found in BLOCK.findall(page.read_text(encoding="utf-8"))]


# ------------------------------------------------------------------ what is marked


def problems_of(page: Path) -> list[str]:
    """Blocks of a page that are neither run nor say why not."""
    text = page.read_text(encoding="utf-8")
    found = []
    if len(re.findall(r"^\s*```", text, re.MULTILINE)) != 2 * len(blocks(page)):
        found.append("a block is not closed, or is indented")
    for block in blocks(page):
        known = r"not run: \w+ .+|run in [\w./]+|output varies|status \d|inside kernels"
        shown = [line for line in block.text.splitlines() if "[" not in line]
        place = block.value("run in ")
        if block.language not in LANGUAGES:
            found.append(f"{block.name}: name its language; output is text")
        if block.language == "text" and any(re.match(rf"\$ |({PROGRAMS}) ", one) for one in shown):
            found.append(f"{block.name}: commands are in blocks of sh or console")
        if block.language == "console" and not block.text.startswith("$ "):
            found.append(f"{block.name}: begin with a command")
        found += [
            f"{block.name}: unknown comment {one}"
            for one in block.comments
            if not re.fullmatch(known, one)
        ]
        if place is not None and page.name not in (ROOT / place).read_text(encoding="utf-8"):
            found.append(f"{block.name}: {place} does not read {page.name}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_run_or_says_why_not(page):
    assert problems_of(page) == []


@pytest.mark.parametrize(
    "text, problem",
    [
        ("```\nproton x.py\n```\n", "name its language"),
        ("```sh\nproton x.py\n", "not closed"),
        ("- x\n  ```sh\n  proton x.py\n  ```\n", "indented"),
        ("```text\nproton-viewer x\n```\n", "commands are in blocks"),
        ("```console\nproton x.py\n```\n", "begin with a command"),
        ("<!-- not run: -->\n```sh\nproton x.py\n```\n", "unknown comment"),
        ("<!-- run in tests/python/test_docs.py -->\n```sh\nmake\n```\n", "does not read"),
    ],
)
def test_a_page_with_a_problem_fails(text, problem, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    assert [problem in one for one in problems_of(page)] == [True]


# ------------------------------------------------------------------ where the commands run

SERVER = """
import os, time
from model import forward
import triton.profiler as proton

# In the background it serves until the test ends it.
end, steps = time.monotonic() + 100, 0
while time.monotonic() < end and ("TEST_BACKGROUND" in os.environ or steps < 20):
    steps += 1
    with proton.scope("decode"):
        forward()
    time.sleep(0.01)
"""

# Kernels, each with its time in microseconds. One of the ranks of a job is slow.
MODEL = """
import ctypes
import os

gpu = ctypes.CDLL(os.environ["TEST_LAUNCHER"])
SLOW = 2 if os.environ.get("RANK") == "3" else 1
SOFTMAX = 45


def forward():
    for name, time in [(b"matmul", 120), (b"softmax", SOFTMAX), (b"matmul", 110)]:
        gpu.launch(name, time * 1000 * SLOW)


def backward():
    for name, time in [(b"softmax_backward", 60), (b"matmul", 230), (b"matmul", 240)]:
        gpu.launch(name, time * 1000 * SLOW)


def update():
    gpu.launch(b"adam", 30 * 1000)
"""

# Noise that is the same in each run of the tests; from the sixth run on, softmax is faster.
BENCH = """
from pathlib import Path
import model

counter = Path(".runs")
run = counter.stat().st_size if counter.exists() else 0
counter.write_bytes(bytes(run + 1))
model.SOFTMAX = (45 if run < 5 else 36) + run * 7 % 5 - 2
import train
"""

KILLED = """
import os
import signal
import triton.profiler as proton

with proton.scope("step", {"tokens": 64}), proton.cpu_timed_scope("inner"):
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""

def train() -> str:
    page = ROOT / "docs" / "guide" / "coming-from.md"
    return next(block.text for block in blocks(page) if block.language == "python")


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """The files that the commands read."""
    place = tmp_path_factory.mktemp("world")
    data = ROOT / "tests" / "data" / "viewer"
    shutil.copytree(ROOT / "examples" / "intra", place / "examples" / "intra")
    shutil.copytree(data, place / data.relative_to(ROOT))
    (place / "model.py").write_text(MODEL)
    for name in ("train.py", "script.py"):
        (place / name).write_text(train())
    (place / "serve.py").write_text(SERVER)
    (place / "bench.py").write_text(BENCH)
    (place / "dies.py").write_text(KILLED)
    for name in ("block", "old", "new", "lines"):
        shutil.copy(data / "gpu_example.hatchet", place / f"{name}.hatchet")
    (place / "ranks").mkdir()
    for name in ("one", "two"):
        shutil.copy(data / "gpu_example.hatchet", place / "ranks" / f"{name}.hatchet")
    died = [executable("proton"), "-n", "killed", "dies.py"]
    run_command(died, cwd=place, env=environment(PROTON_BACKEND="host"), status=None)
    assert (place / "killed.proton").exists()
    for name in ("out", "before", "after"):
        write_job(place, name)
        merge = [executable("proton-merge"), "-o", f"{name}.ranks.proton", f"{name}.ranks"]
        run_command(merge, cwd=place, env=environment())
    from test_pcsampling_mode import PROGRAM  # skips where Triton is missing

    sampled = PROGRAM.replace("MODE", "None")
    (place / "matmul.py").write_text(re.sub(r"\badd\b", "matmul", sampled))
    return place


def variables(block: Block, place: Path) -> dict[str, str]:
    """The environment of a block."""
    changes = {
        "OMP_NUM_THREADS": "1",
        "PATH": os.pathsep.join(
            [str(Path(executable("proton")).parent), str(Path(sys.executable).parent)]
            + [os.environ["PATH"]]
        ),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TEST_LAUNCHER": launcher(),
        "TRITON_CACHE_DIR": str(place / "cache"),
        "XDG_RUNTIME_DIR": str(place),
    }
    if "inside kernels" in block.comments:
        fakes = place / "fakes"
        fakes.mkdir(exist_ok=True)
        shutil.copy(Path(__file__).with_name("fake_torch.py"), fakes / "torch.py")
        shutil.copy(ROOT / "examples" / "intra" / "example_auto.py", place / "program.py")
        shutil.copy(ROOT / "examples" / "intra" / "common.py", place)
        changes |= {
            "PROTON_CUDA_PATH": "/nonexistent/libcuda.so.1",
            "PROTON_HIP_PATH": str(hip_library()),
            "PYTHONPATH": os.pathsep.join([str(fakes), str(Path(__file__).parent)]),
            "TRITON_LIBHIP_PATH": str(hip_library()),
        }
    return fake_environment(**changes)


def compared(text: str) -> list[str]:
    """Lines without the header of a table, and without how long recording took."""
    lines = [line for line in text.rstrip("\n").split("\n") if " · CUDA 0 " not in line]
    return [re.sub(r"contexts, [\d.]+ s;", "contexts, T s;", line) for line in lines]


def is_shown(printed: list[str], shown: list[str]) -> bool:
    """Whether the lines are equal where none is left out."""
    pattern = "".join("(?:.*\n)*" if line == "..." else re.escape(line) + "\n" for line in shown)
    return re.fullmatch(pattern, "".join(line + "\n" for line in printed)) is not None


def begin(command: str, place: Path, env: dict[str, str]) -> subprocess.Popen[str]:
    """Start a command that listens, and wait until it does."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command}"], cwd=place, env={**env, "TEST_BACKGROUND": "1"}
    )
    end = time.monotonic() + 100
    while run_command(["proton", "ctl", "status"], env=env, status=None).returncode != 0:
        assert process.poll() is None and time.monotonic() < end, command
        time.sleep(0.05)
    return process


def run_block(block: Block, place: Path, background: list[subprocess.Popen[str]]) -> None:
    env = variables(block, place)
    status = block.value("status ") or "0"
    for command, shown in block.steps():
        if command.endswith("&"):
            background.append(begin(command.rstrip("& "), place, env))
            continue
        # The block ends at the first command that ends otherwise.
        check = f"x=0; set -o pipefail; trap 'x=$?; test $x = {status} || exit $x' ERR\n"
        done = subprocess.run(
            ["bash", "-c", f"{check}{command}\ntest $x = {status}"], cwd=place, env=env,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
        )
        assert done.returncode == 0, f"{block.name}\n{command}\n{done.stdout}"
        if shown is not None and "output varies" not in block.comments:
            printed = compared(done.stdout)
            assert is_shown(printed, compared(shown)), f"{command}\n{done.stdout}"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=needs_gpu)
        for page in PAGES
        if any(block.is_run() for block in blocks(page))
    ],
)
def test_commands_do_what_the_page_shows(page, world, tmp_path):
    place = tmp_path / "page"
    shutil.copytree(world, place, symlinks=True)
    background: list[subprocess.Popen[str]] = []
    try:
        for block in blocks(page):
            if block.is_run():
                run_block(block, place, background)
    finally:
        for process in background:
            process.terminate()
            process.wait(timeout=100)


@pytest.mark.skipif(CC is None, reason="no C compiler")
@pytest.mark.parametrize(
    "comment, text, is_right",
    [
        ("", "```console\n$ echo one\none\n$ printf 'a\\nb\\n'\na\n...\n```\n", True),
        ("", "```console\n$ echo one\ntwo\n```\n", False),
        ("output varies", "```console\n$ echo one\ntwo\n```\n", True),
        ("", "```sh\ntrue\nfalse\ntrue\n```\n", False),
        ("status 3", "```sh\nsh -c 'exit 3'\nsh -c 'exit 3'\n```\n", True),
        ("status 3", "```sh\ntrue\n```\n", False),
        ("status 3", "```sh\nsh -c 'exit 3'\nfalse\n```\n", False),
    ],
)
def test_a_block_with_another_outcome_fails(comment, text, is_right, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"<!-- {comment} -->\n{text}" if comment else text)
    (block,) = blocks(page)
    if is_right:
        run_block(block, tmp_path, [])
    else:
        with pytest.raises(AssertionError):
            run_block(block, tmp_path, [])


def test_most_commands_are_run():
    commands = [block for page in PAGES for block in blocks(page) if block.language in COMMANDS]
    left_out = [block.name for block in commands if block.value("not run:") is not None]
    assert len(left_out) < len(commands) / 2, left_out
