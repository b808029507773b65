"""proton-viewer on a terminal: the tree is cut to a readable size, and goes through a pager."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import pytest
from cmd_support import environment, executable

CUT = 200  # SELECT_FRAMES of src/viewer/query/select.h


def write_profile(path: Path, scopes: int, kernels: int) -> Path:
    def node(name: str, children: list[dict], metrics: dict) -> dict:
        frame = {"name": name, "type": "function"}
        return {"frame": frame, "children": children, "metrics": metrics}

    def kernel(i: int, j: int) -> dict:
        metrics = {"time (ns)": 1000 + 10 * i + j, "count": 1, "x (exc)": 1.0}
        return node(f"k{i}_{j}", [], metrics | {"device_id": "0", "device_type": "CUDA"})

    tree = [node(f"s{i}", [kernel(i, j) for j in range(kernels)], {}) for i in range(scopes)]
    root = node("ROOT", tree, {"time (ns)": 0, "count": 0})
    path.write_text(json.dumps([root, {"CUDA": {"0": {"arch": "90"}}}]))
    return path


@pytest.fixture
def large(tmp_path: Path) -> Path:
    return write_profile(tmp_path / "large.hatchet", 30, 40)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_profile(tmp_path / "small.hatchet", 2, 2)


def on_a_terminal(*arguments: object, **variables: str | None) -> tuple[int, str]:
    """Exit status and output, in a new session with a controlling terminal."""
    variables = {"PROTON_PAGER": None, "PAGER": None, "LESS": None} | variables
    env = environment(TERM="xterm", LC_ALL="C.UTF-8", NO_COLOR="1", **variables)
    child, keep = pty.fork()
    if child == 0:
        program = executable("proton-viewer")
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        os.execve(program, [program, *map(str, arguments)], env)
    output = b""
    while True:
        try:
            part = os.read(keep, 65536)
        except OSError:
            break
        if not part:
            break
        output += part
    os.close(keep)
    # no limit: its terminal has no writer left, so it has ended
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, output.replace(b"\r\n", b"\n").decode()


def piped(*arguments: object, **variables: str | None) -> tuple[int, str]:
    done = subprocess.run(
        [executable("proton-viewer"), *map(str, arguments)],
        env=environment(LC_ALL="C.UTF-8", **variables), capture_output=True, timeout=300,
    )
    return done.returncode, done.stdout.decode()


def names_of(output: str) -> list[str]:
    return re.findall(r"\b([sk]\d+(?:_\d+)?)$", output, re.MULTILINE)


# ------------------------------------------------------------------ the cut


def test_the_tree_on_a_terminal_is_cut_and_counts_omitted_frames(large):
    status, output = on_a_terminal("--no-pager", large)
    shown = names_of(output)
    assert status == 0 and len(shown) == CUT
    times = {f"k{i}_{j}": 1000 + 10 * i + j for i in range(30) for j in range(40)}
    kernels = [name for name in shown if name.startswith("k")]
    assert len(kernels) == CUT - 30
    assert min(times[name] for name in kernels) >= max(
        time for name, time in times.items() if name not in kernels
    )
    missing = sum(time for name, time in times.items() if name not in kernels)
    share = 100 * missing / sum(times.values())
    last = output.splitlines()[-1]
    assert last == f"{1230 - CUT} more frames, {share:.2f} % of time/ms; show them with --all"
    assert sum(map(int, re.findall(r"\((\d+) more\)", output))) == 1230 - CUT


@pytest.mark.parametrize(
    "arguments", [["--all"], ["-t", "0"], ["-t", "count=0"], ["-d", "9"], ["--print-sorted"]]
)
def test_who_says_how_much_gets_it(large, arguments):
    status, output = on_a_terminal("--no-pager", *arguments, large)
    assert status == 0 and len(set(names_of(output))) >= 1200 and "--all" not in output


def test_a_small_tree_is_whole(small):
    status, output = on_a_terminal("--no-pager", small)
    assert status == 0 and len(names_of(output)) == 6 and "more" not in output


def test_a_file_gets_every_frame(large):
    status, output = piped(large, PROTON_PAGER="false")
    assert status == 0 and len(names_of(output)) == 1230 and "--all" not in output
    assert piped("--all", large)[1] == output


def test_a_flat_table_is_cut(large):
    status, output = on_a_terminal("--no-pager", "--top", large)
    assert status == 0 and len(names_of(output)) == CUT
    assert "1000 more frames, " in output.splitlines()[-1]
    assert len(names_of(on_a_terminal("--no-pager", "--top", "-n", "300", large)[1])) == 300


def test_exclusive_values_are_summed_once(large):
    status, output = on_a_terminal("--no-pager", "-m", "x (exc)", large)
    assert status == 0
    kernels = sum(name.startswith("k") for name in names_of(output))
    share = 100 * (1200 - kernels) / 1200
    assert f" more frames, {share:.2f} % of x (exc); show them" in output.splitlines()[-1]


def test_a_gate_checks_omitted_frames(large):
    for arguments, expected in (
        (["--fail-if", "time/ns > 1 in ^k0_0$"], 3),
        (["--fail-if", "time/ns > 1000 in ^k0_0$"], 0),
    ):
        status, output = on_a_terminal("--no-pager", *arguments, large)
        assert status == expected and "more frames" in output


# ------------------------------------------------------------------ the pager


def test_the_pager_gets_the_tree(large, small, tmp_path):
    for profile in (large, small):
        plain = on_a_terminal("--no-pager", profile)[1]
        to_file = f"cat > '{tmp_path}/shown'"
        assert on_a_terminal(profile, PROTON_PAGER=to_file, PAGER="false") == (0, "")
        assert (tmp_path / "shown").read_text() == plain
        (tmp_path / "shown").unlink()
        assert on_a_terminal(profile, PAGER=to_file) == (0, "")
        assert (tmp_path / "shown").read_text() == plain


@pytest.mark.parametrize("pager", ["", "cat"])
def test_no_pager_is_a_choice(large, pager):
    plain = on_a_terminal("--no-pager", large)
    assert on_a_terminal(large, PROTON_PAGER=pager, PAGER="false") == plain
    assert on_a_terminal(large, PAGER=pager) == plain


def test_output_that_is_not_a_terminal_gets_no_pager(large, tmp_path):
    pager = f"touch '{tmp_path}/called'; cat"
    for arguments in ([], ["--csv"], ["--json"], ["--list"], ["--top"]):
        assert piped(*arguments, large, PROTON_PAGER=pager) == piped(*arguments, large)
    for arguments in (["--csv"], ["--json"]):
        assert on_a_terminal(*arguments, large, PROTON_PAGER=pager)[0] == 0
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize("pager", ["false", "/does/not/exist", "exit 3", "'"])
def test_a_pager_that_fails_takes_nothing_away(large, pager):
    status, output = on_a_terminal(large, PROTON_PAGER=pager)
    plain = on_a_terminal("--no-pager", large)[1]
    assert status == 0 and output.endswith(plain)


def test_a_pager_that_ends_early_is_not_an_error(tmp_path):
    profile = write_profile(tmp_path / "x.hatchet", 100, 100)
    for pager in ("true", "head -n 1", "read line; kill -PIPE $$", "exec < /dev/null; cat"):
        for arguments, expected in ((["--all"], 0), (["--all", "--fail-if", "count > 1"], 3)):
            status, output = on_a_terminal(*arguments, profile, PROTON_PAGER=pager)
            assert status == expected, pager
            assert len(output.splitlines()) < 5
    assert "gate failed" in output


def test_keys_of_the_terminal_are_for_the_pager(large):
    status, output = on_a_terminal(large, PROTON_PAGER="kill -INT $PPID; sleep 0; wc -l")
    assert status == 0 and int(output.split()[-1]) > CUT


def test_without_less_the_tree_is_printed(large, tmp_path):
    program = executable("proton-viewer")
    assert Path(program).is_absolute()
    (tmp_path / "bin").mkdir()
    status, output = on_a_terminal(large, PATH=str(tmp_path / "bin"), PROTON_TEST_BIN=None)
    assert (status, output) == on_a_terminal("--no-pager", large)


def test_less_is_the_usual_pager_where_the_text_does_not_fit(large, small, tmp_path):
    less = tmp_path / "less"
    less.write_text('#!/bin/sh\necho "LESS=$LESS"\nwc -l\n')
    less.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    status, output = on_a_terminal(large, PATH=path)
    assert status == 0 and output.startswith("LESS=FRX\n")
    assert on_a_terminal(small, PATH=path) == on_a_terminal("--no-pager", small)
    assert on_a_terminal(large, PATH=path, LESS="R")[1].startswith("LESS=R\n")
