"""Commands that are started with standard input, output or error closed, as daemons and cron do."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from cmd_support import environment, executable
from support import load, metrics, run_command

DATA = Path(__file__).resolve().parent.parent / "data" / "viewer"
CLOSED = [
    closed for count in range(4) for closed in itertools.combinations(range(3), count)
]
SCRIPT = """
import triton_proton as proton

with proton.scope("step", metrics={"n": 3}):
    pass
"""


def run(command: list[str], closed: tuple[int, ...], cwd: Path) -> subprocess.CompletedProcess:
    redirections = "".join(f" {fd}>&-" for fd in closed)
    return run_command(
        ["sh", "-c", f'exec "$@"{redirections}', "sh", *command], cwd=cwd, env=environment(),
        status=None,
    )


@pytest.mark.parametrize("closed", CLOSED)
def test_a_script_is_recorded(closed, tmp_path):
    (tmp_path / "s.py").write_text(SCRIPT)
    result = run([executable("proton"), "-n", "p", "s.py"], closed, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert ("view it with" in result.stderr) == (2 not in closed)
    root = load(tmp_path / "p.hatchet")
    assert metrics(root, "step")["n"] == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.hatchet", "s.py"]


@pytest.mark.parametrize("closed", CLOSED)
def test_a_program_finds_them_unchanged(closed, tmp_path):
    (tmp_path / "t.sh").write_text("#!/bin/sh\nls /proc/$$/fd >list\n")
    (tmp_path / "t.sh").chmod(0o755)
    for name, command in (
        ("plain", ["./t.sh"]),
        ("recorded", [executable("proton"), "-n", "p", "--", "./t.sh"]),
    ):
        run(command, closed, tmp_path)
        (tmp_path / "list").rename(tmp_path / name)
    plain, recorded = (
        set((tmp_path / name).read_text().split()) & {"0", "1", "2"}
        for name in ("plain", "recorded")
    )
    assert plain == recorded


@pytest.mark.parametrize("closed", CLOSED)
def test_an_export_does_not_depend_on_closed_descriptors(closed, tmp_path):
    command = [executable("proton-viewer"), "-o", "out.folded", str(DATA / "cuda.hatchet")]
    assert run(command, (), tmp_path).returncode == 0
    expected = (tmp_path / "out.folded").read_text()
    (tmp_path / "out.folded").unlink()
    result = run(command, closed, tmp_path)
    assert result.returncode == 0
    assert (tmp_path / "out.folded").read_text() == expected


@pytest.mark.parametrize("closed", [(1,), (0, 1), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize(
    "options", [[], ["--csv"], ["--json"], ["--list"], ["--export", "folded"], ["--help"]]
)
def test_output_that_cannot_be_written_is_an_error(closed, options, tmp_path):
    command = [executable("proton-viewer"), *options, str(DATA / "cuda.hatchet")]
    result = run(command, closed, tmp_path)
    assert result.returncode == 2
    if 2 not in closed:
        assert "Bad file descriptor" in result.stderr


def test_input_that_cannot_be_read_is_an_error(tmp_path):
    result = run([executable("proton-viewer"), "-"], (0,), tmp_path)
    assert result.returncode == 2
    assert "standard input: Bad file descriptor" in result.stderr


def test_messages_go_into_no_file_that_took_the_number_of_standard_error(tmp_path):
    (tmp_path / "s.py").write_text("data = open('data', 'wb', 0)\n" + SCRIPT)
    result = run([executable("proton"), "-n", "p", "s.py"], (0, 1, 2), tmp_path)
    assert result.returncode == 0
    assert (tmp_path / "data").read_bytes() == b""


def test_warnings_of_the_library_go_into_no_such_file(tmp_path):
    code = "import os, triton_proton as proton\nfile = os.open('data', os.O_CREAT | os.O_WRONLY)\n"
    code += "os.environ['PROTON_MAX_CONTEXTS'] = 'many'\nproton.start('p')\nassert file == 2"
    result = run([sys.executable, "-c", code], (2,), tmp_path)
    assert result.returncode == 0
    assert (tmp_path / "data").read_bytes() == b""


@pytest.mark.parametrize("closed", [(2,), (1, 2)])
def test_commands_of_the_package_run_without_standard_streams(closed, tmp_path):
    command = [sys.executable, "-m", "triton_proton.viewer", str(DATA / "cuda.hatchet")]
    result = run(command, closed, tmp_path)
    assert result.returncode == (2 if 1 in closed else 0)
    assert ("ROOT" in result.stdout) == (1 not in closed)
