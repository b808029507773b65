"""Ranks of a job: their names, their identity in the profile, reading all of them."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cmd_support import environment, executable, own_lines, proton, run

SCOPES = """
    import os
    import triton.profiler as proton
    with proton.scope("step", {"rank": float(os.environ.get("RANK", "0"))}):
        with proton.scope("inner", {"count": 1.0}):
            pass
    """


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "scopes.py"
    path.write_text(textwrap.dedent(SCOPES))
    return path


def rank(number: int, size: int = 4, **more: str) -> dict[str, str]:
    return environment(RANK=str(number), WORLD_SIZE=str(size), LOCAL_RANK=str(number % 2), **more)


def files(directory: Path) -> list[str]:
    return sorted(
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_file() and path.suffix != ".py"
    )


def info(path: Path, cwd: Path) -> dict[str, str]:
    out = cwd / "exported.json"
    result = run([executable("proton-viewer"), "--export", "hatchet", "-o", str(out), path], cwd)
    assert result.returncode == 0, result.stderr
    values = json.loads(out.read_text())[0]["proton"]["info"]
    out.unlink()
    return values


def test_each_rank_writes_its_own_file_below_the_name(script: Path, tmp_path: Path) -> None:
    for number in range(4):
        result = proton("-b", "host", "-n", "out", script, cwd=tmp_path, env=rank(number))
        assert result.returncode == 0, result.stderr
        assert f"out.ranks/000-999/rank{number:06}.proton" in result.stderr
    assert files(tmp_path) == [f"out.ranks/000-999/rank{n:06}.proton" for n in range(4)]
    for directory in ("out.ranks", "out.ranks/000-999", "."):
        result = run([executable("proton-viewer"), "-m", "rank,count", directory], tmp_path)
        assert result.returncode == 0, result.stderr
        assert "6.0000 4.0000 ROOT" in " ".join(result.stdout.split())
    values = info(tmp_path / "out.ranks/000-999/rank000003.proton", tmp_path)
    assert (values["rank"], values["world_size"], values["local_rank"]) == ("3", "4", "1")


def test_without_a_job_names_are_unchanged(script: Path, tmp_path: Path) -> None:
    for env in (environment(), rank(0, 1), rank(1, PROTON_RANKS="off")):
        result = proton("-b", "host", "-n", "out", script, cwd=tmp_path, env=env)
        assert result.returncode == 0, result.stderr
        assert files(tmp_path) == ["out.hatchet"]
    result = proton("-b", "host", "--ranks", "off", script, cwd=tmp_path, env=rank(1))
    assert result.returncode == 0 and files(tmp_path) == ["out.hatchet", "proton.hatchet"]


def test_rank_option_names_the_rank_that_no_launcher_tells(script: Path, tmp_path: Path) -> None:
    result = proton("-b", "host", "-n", "o", "--rank", "1234", script, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert files(tmp_path) == ["o.ranks/1000-1999/rank001234.proton"]
    assert info(tmp_path / files(tmp_path)[0], tmp_path)["rank"] == "1234"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--rank", "x"), '--rank needs the number of a rank, not "x"'),
        (("--rank", "-1"), '--rank needs the number of a rank, not "-1"'),
        (("--ranks", "many"), '--ranks must be auto, on, off, merge or merge-keep, not "many"'),
    ],
)
def test_wrong_values_are_refused(
    arguments: tuple[str, ...], message: str, script: Path, tmp_path: Path
) -> None:
    result = proton(*arguments, script, cwd=tmp_path)
    assert result.returncode == 2 and message in result.stderr
    assert files(tmp_path) == []


def test_names_that_a_program_gives_are_kept(tmp_path: Path) -> None:
    program = """
        import sys
        import triton_proton as proton
        proton.start(*sys.argv[1:], backend="host")
        with proton.scope("step"):
            pass
        proton.finalize()
        """
    path = tmp_path / "own.py"
    path.write_text(textwrap.dedent(program))

    def record(*arguments: str, **more: str) -> None:
        result = run([sys.executable, path, *arguments], tmp_path, env=rank(2, **more))
        assert result.returncode == 0, result.stderr

    record("mine_2")
    assert files(tmp_path) == ["mine_2.hatchet"]
    assert info(tmp_path / "mine_2.hatchet", tmp_path)["rank"] == "2"
    record()
    assert files(tmp_path) == ["mine_2.hatchet", "proton.ranks/000-999/rank000002.proton"]
    record("mine", PROTON_RANKS="on")
    assert "mine.ranks/000-999/rank000002.proton" in files(tmp_path)


def test_a_restarted_job_keeps_the_files_of_its_first_attempt(script: Path, tmp_path: Path) -> None:
    for attempt in ("0", "1"):
        env = rank(1, TORCHELASTIC_RESTART_COUNT=attempt, TORCHELASTIC_RUN_ID="job7")
        result = proton("-b", "host", "-n", "out", script, cwd=tmp_path, env=env)
        assert result.returncode == 0, result.stderr
    first, second = files(tmp_path)
    assert first == "out.ranks/000-999/rank000001.attempt1.proton"
    assert second == "out.ranks/000-999/rank000001.proton"
    values = info(tmp_path / first, tmp_path)
    assert values["attempt"] == "1" and values["job"] == "job7"


def test_ranks_below_a_launcher_are_in_files_of_their_ranks(tmp_path: Path) -> None:
    """`proton -- torchrun`: the children of the launcher are ranks."""
    child = tmp_path / "child.py"
    child.write_text("import triton_proton as p\nwith p.scope('x', {'n': 1.0}):\n    pass\n")
    launch = f'for r in 0 1 2; do RANK=$r WORLD_SIZE=3 {sys.executable} "$0" & done; wait'
    result = proton(
        *("-b", "host", "-n", "out", "--", "sh", "-c", launch), str(child), cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    found = files(tmp_path)
    assert len(found) == 3, found
    for number, name in enumerate(found):
        assert name.startswith(f"out.ranks/000-999/rank{number:06}.") and name.endswith(".proton")
    lines = own_lines(result.stderr)
    assert len(lines) == 1 and "recorded 3 processes, each as out.ranks/*/rank*.PID" in lines[0]


def test_two_ranks_with_one_explicit_name_write_two_files(tmp_path: Path) -> None:
    program = """
        import sys
        import triton_proton as proton
        proton.start("same", backend="host")
        with proton.scope("step"):
            pass
        print("started", flush=True)
        sys.stdin.read()
        proton.finalize()
        """
    processes = []
    for number in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path, env=rank(number),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        assert process.stdout is not None and process.stdout.readline() == "started\n"
        processes.append(process)
    for process in processes:
        process.communicate(timeout=300)
        assert process.returncode == 0
    assert files(tmp_path) == ["same.hatchet", "same.rank000001.hatchet"]
