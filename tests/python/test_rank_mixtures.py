"""Ranks of several launches are summed only if the user allows it, and the sum is marked."""

import json
import shutil
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from cmd_support import environment, executable, run
from rank_support import data_of, merge, step, view, write_rank

HALF = 4


def write(directory: Path, ranks: range, world: int = 8, **more: str) -> None:
    for rank in ranks:
        write_rank(directory / "out.ranks", rank, step(rank), world=world, **more)


def two_halves(directory: Path, first: dict[str, str], second: dict[str, str]) -> None:
    write(directory, range(HALF), **first)
    write(directory, range(HALF, 8), **second)


def with_extra(directory: Path, name: str, rank: int = 3, world: int = 8, job: str = "7") -> Path:
    """A job of 8 ranks with one more file."""
    write(directory, range(8), job="7")
    return write_rank(directory / "out.ranks", rank, step(rank), world=world, name=name, job=job)


def smaller_job_after_a_larger_one(d: Path) -> None:
    write(d, range(8))
    write(d, range(HALF), world=HALF)


def launchers_on_the_second_host(d: Path) -> None:
    write(d, range(8), launcher="process 10, start 5, boot 1a")
    write(d, range(6, 8), launcher="process 10, start 6, boot 1a")


def attempts_of_each_rank(d: Path) -> None:
    write(d, range(8))
    for rank in range(8):
        name = f"rank{rank:06}.attempt1"
        write_rank(d / "out.ranks", rank, step(rank), world=8, name=name, attempt="1")


def child_of_an_earlier_job(d: Path) -> None:
    with_extra(d, "rank000003.4711", job="6")


def child_of_a_larger_job(d: Path) -> None:
    with_extra(d, "rank000003.4711", world=16)


def copy_of_a_rank(d: Path) -> None:
    with_extra(d, "copy")


def copy_with_the_name_of_a_rank(d: Path) -> None:
    with_extra(d, "rank000008")


def rank_beyond_the_job(d: Path) -> None:
    with_extra(d, "rank000009", rank=9)


def profile_without_a_rank(d: Path) -> None:
    path = with_extra(d, "base")
    tree = json.loads(path.read_text())
    del tree[0]["proton"]["info"]["rank"]
    path.write_text(json.dumps(tree))


def put_merged(d: Path, name: str) -> None:
    write(d, range(8))
    assert merge(d, "-o", "all.proton", "out.ranks").returncode == 0
    shutil.move(d / "all.proton", d / "out.ranks" / "000-999" / name)


def merged_file_with_the_name_of_a_rank(d: Path) -> None:
    put_merged(d, "rank000008.proton")


P = "out.ranks/000-999/"
START = f"{P}rank000000.hatchet and 3 more"
END = f"{P}rank000004.hatchet and 3 more"
LAUNCHERS = ("process 10, start 5, boot 1a", "process 11, start 9, boot 1a")
# Information of the first four ranks and of the others, and the message that names the files.
HALVES: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "half without a number of ranks": (
        *({}, {"world_size": ""}), f"number of ranks: none in {END}, 8 in {START}"
    ),
    "jobs": ({"job": "41"}, {"job": "42"}, f"job: 41 in {START}, 42 in {END}"),
    "half without a job": ({"job": "41"}, {}, f"job: none in {END}, 41 in {START}"),
    "steps": (
        *({"job": "41", "launch": "step 0"}, {"job": "41", "launch": "step 1"}),
        f"launch: step 0 in {START}, step 1 in {END}",
    ),
    "ports": (
        *({"launch": "port 29500"}, {"launch": "port 40001"}),
        f"launch: port 29500 in {START}, port 40001 in {END}",
    ),
    "restarts of Slurm": (
        *({"launch": "step 0"}, {"launch": "step 0, restart 1"}),
        f"launch: step 0 in {START}, step 0, restart 1 in {END}",
    ),
    "half without a launch": (
        *({"launch": "port 29500"}, {}), f"launch: none in {END}, port 29500 in {START}"
    ),
    "launchers on a host": (
        *({"host": "a", "launcher": launcher} for launcher in LAUNCHERS),
        f"launcher on host a: {LAUNCHERS[0]} in {START}, {LAUNCHERS[1]} in {END}",
    ),
    "agents with one number": (
        *({"host": "a", "launcher": f"agent 0, {launcher}"} for launcher in LAUNCHERS),
        f"launcher on host a: agent 0, {LAUNCHERS[0]} in ",
    ),
    "attempts": ({}, {"attempt": "1"}, f"restarts: 0 in {START}, 1 in {END}"),
}
# Other mixtures, by the function that writes them.
OTHERS: list[tuple[Callable[[Path], None], str]] = [
    (smaller_job_after_a_larger_one, f"number of ranks: 4 in {START}, 8 in {END}"),
    (
        launchers_on_the_second_host,
        f"launcher on host host1: process 10, start 5, boot 1a in {P}rank000004.hatchet and 1 "
        f"more, process 10, start 6, boot 1a in {P}rank000006.hatchet and 1 more",
    ),
    (
        attempts_of_each_rank,
        f"restarts: 1 in {P}rank000000.attempt1.hatchet, 0 in {P}rank000000.hatchet",
    ),
    (child_of_an_earlier_job, f"job: 6 in {P}rank000003.4711.hatchet, 7 in {P}rank000003.hatchet"),
    (
        child_of_a_larger_job,
        f"number of ranks: 16 in {P}rank000003.4711.hatchet, 8 in {P}rank000003.hatchet",
    ),
    (copy_of_a_rank, f"rank 3 has several profiles: {P}copy.hatchet and {P}rank000003.hatchet"),
    (copy_with_the_name_of_a_rank, f"{P}rank000008.hatchet was recorded by rank 3"),
    (rank_beyond_the_job, f"{P}rank000009.hatchet has rank 9 of 8 ranks"),
    (profile_without_a_rank, f"rank in the profile: one in {P}rank000000.hatchet and 7 more, none"),
    (merged_file_with_the_name_of_a_rank, f"{P}rank000008.proton is a merged file of 8 ranks"),
]
MIXTURES = [(partial(two_halves, first=a, second=b), text) for a, b, text in HALVES.values()]
MIXTURES += OTHERS
EACH_MIXTURE = pytest.mark.parametrize(
    ("mix", "message"), MIXTURES, ids=[*HALVES, *(mix.__name__ for mix, _ in OTHERS)]
)


@EACH_MIXTURE
def test_a_mixture_is_refused_and_named(
    mix: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    mix(tmp_path)
    for command in (
        ["proton-merge", "--allow-partial"],
        ["proton-viewer", "--allow-partial"],
        ["proton-viewer", "--ranks", "--allow-partial"],
        ["proton-viewer", "-o", "out.ranks.proton", "--allow-partial"],
    ):
        result = run([executable(command[0]), *command[1:], "out.ranks"], tmp_path)
        assert result.returncode == 2, (command, result.stdout)
        assert result.stdout == ""
        assert f"{command[0]}: {message}" in result.stderr
        assert "cannot merge the ranks: they are not of one launch of a job; " in result.stderr
        assert "use --allow-mixed" in result.stderr
    assert not (tmp_path / "out.ranks.proton").exists()


@EACH_MIXTURE
def test_an_allowed_mixture_is_marked(
    mix: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    mix(tmp_path)
    result = merge(tmp_path, "--allow-mixed", "--allow-partial", "out.ranks")
    assert result.returncode == 0, result.stderr
    assert message in result.stderr
    notice = "out.ranks.proton is a sum of several launches: "
    for arguments in (["--json"], ["--ranks", "--json"]):
        result = view(tmp_path, *arguments, "--allow-partial", "out.ranks.proton")
        assert result.returncode == 0 and notice in result.stderr
    job = json.loads(result.stdout)
    assert job["mixed"] is True
    assert any("mixed" in rank for rank in job["ranks"])
    result = view(tmp_path, "--allow-partial", "-o", "report.html", "out.ranks.proton")
    assert result.returncode == 0, result.stderr
    assert '["mixed","' in (tmp_path / "report.html").read_text()


def test_ranks_of_one_launch_are_not_a_mixture(tmp_path: Path) -> None:
    """Hosts have different launchers, and so do agents of torchrun on one host; one has a child."""
    for rank in range(8):
        agent = f"agent {rank // 2}, process {rank // 2}, start 5, boot {rank // 4}a"
        more = {"job": "7", "launch": "port 1", "launcher": agent}
        write_rank(tmp_path / "out.ranks", rank, step(rank), world=8, **more)
    write_rank(tmp_path / "out.ranks", 7, step(7), world=8, name="rank000007.99", **more)
    result = merge(tmp_path, "out.ranks")
    assert result.returncode == 0, result.stderr
    job = data_of(tmp_path, "--ranks", "out.ranks.proton")
    assert job["mixed"] is False
    assert not any("mixed" in rank for rank in job["ranks"])


def test_one_rank_of_several_attempts_is_refused(tmp_path: Path) -> None:
    attempts_of_each_rank(tmp_path)
    result = view(tmp_path, "--rank", "2", "out.ranks")
    assert result.returncode == 2 and result.stdout == ""
    assert "not of one launch: restarts: 1 in " in result.stderr
    assert view(tmp_path, "--rank", "2", "--allow-mixed", "out.ranks").returncode == 0
    one = f"{P}rank000002.attempt1.hatchet"
    assert view(tmp_path, "--rank", "2", one).returncode == 0


def test_profiles_of_another_launch_than_the_merged_file_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, range(8), job="41")
    assert merge(tmp_path, "out.ranks").returncode == 0
    assert view(tmp_path, "--rank", "2", "out.ranks.proton").stderr == ""
    write(tmp_path, range(8), job="42")
    message = "the profiles in out.ranks are of another launch than out.ranks.proton"
    result = view(tmp_path, "--ranks", "-m", "bytes", "out.ranks.proton")
    assert result.returncode == 0 and message in result.stderr  # from the merged file
    result = view(tmp_path, "--rank", "2", "out.ranks.proton")
    assert "its own profile" not in result.stdout and message in result.stderr


# ---------------------------------------------------------------------- recording

PROGRAM = """
    import triton_proton as proton
    proton.start(backend="host")
    with proton.scope("step", {"n": 1.0}):
        pass
    proton.finalize(output_format="proton")
    """
# As torchrun does with a fixed port; ranks are started through shells.
LAUNCHER = """
    import os, subprocess, sys
    processes = []
    for rank in range(int(sys.argv[1])):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=sys.argv[2], MASTER_PORT="29500",
                   TORCHELASTIC_RUN_ID="none")
        command = ["sh", "-c", f"{sys.executable} program.py; exit $?"]
        processes.append(subprocess.Popen(command, env=env))
    sys.exit(max(process.wait() for process in processes))
    """


def launch(cwd: Path, size: int, world: int) -> None:
    command = [sys.executable, "-c", textwrap.dedent(LAUNCHER), str(size), str(world)]
    result = run(command, cwd, env=environment(PROTON_RANKS="on"))
    assert result.returncode == 0, result.stderr


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    return path


def test_launches_with_equal_variables_differ_in_their_launcher(
    program: Path, tmp_path: Path
) -> None:
    launch(tmp_path, 4, 4)
    result = merge(tmp_path, "proton.ranks")
    assert result.returncode == 0, result.stderr
    launch(tmp_path, 2, 4)  # the other two died before they recorded
    result = merge(tmp_path, "proton.ranks")
    assert result.returncode == 2
    lines = [line for line in result.stderr.splitlines() if "launcher on host" in line]
    assert len(lines) == 1 and "rank000000.proton and 1 more" in lines[0]
    assert "rank000002.proton and 1 more" in lines[0]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no MPI")
def test_each_launch_of_mpirun_has_its_own_id(program: Path, tmp_path: Path) -> None:
    first = tmp_path / "proton.ranks" / "000-999" / "rank000000.proton"
    kept = b""
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3"]
    env = environment(PROTON_RANKS="on")
    for _ in range(2):
        result = run([*mpirun, sys.executable, program], tmp_path, env=env)
        assert result.returncode == 0, result.stderr
        result = merge(tmp_path, "proton.ranks")
        assert result.returncode == 0, result.stderr
        kept = kept or first.read_bytes()
    first.write_bytes(kept)
    result = merge(tmp_path, "proton.ranks")
    assert result.returncode == 2
    assert "launch: namespace " in result.stderr and "launcher on host " in result.stderr


def test_the_user_may_name_the_launch(program: Path, tmp_path: Path) -> None:
    for rank, name in enumerate(("monday", "tuesday")):
        env = environment(RANK=str(rank), WORLD_SIZE="2", PROTON_RANKS="on", PROTON_LAUNCH=name)
        assert run([sys.executable, program], tmp_path, env=env).returncode == 0
    result = merge(tmp_path, "proton.ranks")
    assert result.returncode == 2
    assert "launch: monday in " in result.stderr and "tuesday in " in result.stderr
