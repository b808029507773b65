"""proton-merge and proton-viewer --ranks: one profile of a job of many processes."""

import json
import os
import pty
import resource
import shutil
import signal
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from built import BUILD, ROOT
from cmd_support import environment, executable, run, temporary_name
from rank_support import data_of, merge

# MPI itself writes files and prints messages, and its processes take their own time to start.
WITHOUT_MPI = pytest.mark.skipif(
    "libmpi" in run(["ldd", executable("proton-merge")], ROOT).stdout, reason="built with MPI"
)

# Kernels of the C interface, with a duration that depends on the rank.
PROGRAM = """
    import os
    import signal
    import sys
    import triton_proton as proton
    from triton_proton import _libproton

    rank = int(os.environ["RANK"])
    proton.start(sys.argv[1], backend="host")
    with proton.scope("step", {"share": 0.1 * (rank + 1), "steps": 1.0}):
        for name in ("gemm", f"buffer 0x7f{rank:010x}", f"send from rank {rank}"):
            _libproton.kernel_begin(name)
            _libproton.kernel_end()
    if sys.argv[2:] == ["kill"]:
        os.kill(os.getpid(), signal.SIGKILL)
    proton.finalize(output_format="proton")
    """


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a job of 5 ranks."""
    directory = tmp_path_factory.mktemp("job")
    for rank in range(5):
        record(directory, rank, 5)
    return directory


def record(directory: Path, rank: int, size: int, *arguments: str) -> None:
    env = environment(RANK=str(rank), WORLD_SIZE=str(size), PROTON_RANKS="on")
    result = run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), "out", *arguments], directory, env=env
    )
    assert result.returncode == (-9 if arguments else 0), result.stderr


def ranks_of(cwd: Path, *arguments: str) -> dict:
    return data_of(cwd, "--ranks", *arguments)


def copy(job: Path, tmp_path: Path) -> Path:
    shutil.copytree(job / "out.ranks", tmp_path / "out.ranks")
    return tmp_path / "out.ranks" / "000-999"


def test_merged_file_has_the_sum_and_the_ranks(job: Path, tmp_path: Path) -> None:
    copy(job, tmp_path)
    result = merge(tmp_path, "out.ranks")
    assert result.returncode == 0, result.stderr
    hint = "merged 5 ranks; view them with: proton-viewer --ranks out.ranks.proton"
    assert hint in result.stderr
    merged = ranks_of(tmp_path, "out.ranks.proton")
    assert [row["rank"] for row in merged["ranks"]] == list(range(5))
    assert all(row["state"] == "finished" for row in merged["ranks"])
    assert all(r["kernels"] == 3 for r in merged["ranks"])
    assert ranks_of(tmp_path, "out.ranks") == merged  # without proton-merge
    tree = run([executable("proton-viewer"), "-m", "share,steps", "out.ranks.proton"], tmp_path)
    assert "1.5000 5.0000 ROOT" in " ".join(tree.stdout.split())


def test_names_of_ranks_and_addresses_are_made_equal(job: Path, tmp_path: Path) -> None:
    rows = ranks_of(job, "out.ranks")["rows"]
    assert {row["path"]: row["ranks"] for row in rows} == {
        "ROOT": 5, "step": 5, "step > gemm": 5, "step > buffer 0x*": 5, "step > send from rank *": 5
    }
    for row in rows:
        assert row["min_ns"] * 5 <= row["sum_ns"] <= row["max_ns"] * 5
        assert sum(row["histogram"]) == 5 and row["top"][0] == row["max_rank"]
        assert row["imbalance"] == pytest.approx(row["max_ns"] * 5 / row["sum_ns"] - 1)


def test_table_names_the_ranks_at_the_edges(job: Path) -> None:
    result = run([executable("proton-viewer"), "--ranks=frames", "-n", "2", "out.ranks"], job)
    assert result.returncode == 0 and result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0].startswith("5 ranks; times in ms")
    assert lines[2].split() == ("mean min rank max rank imbalance could go ranks frame".split())
    assert len(lines) == 5


def test_killed_damaged_and_missing_ranks_are_rows(job: Path, tmp_path: Path) -> None:
    place = copy(job, tmp_path)
    (place / "rank000001.proton").unlink()
    damaged = place / "rank000002.proton"
    damaged.write_bytes(damaged.read_bytes()[:600])
    (place / "rank000003.proton").unlink()
    record(tmp_path, 3, 5, "kill")
    result = merge(tmp_path, "out.ranks")
    assert result.returncode == 2 and not (tmp_path / "out.ranks.proton").exists()
    for line in ("1 rank is killed: 3", "1 rank is damaged: 2", "1 rank is missing: 1"):
        assert f"proton-merge: {line}\n" in result.stderr
    assert "use --allow-partial" in result.stderr
    assert merge(tmp_path, "--allow-partial", "out.ranks").returncode == 0
    result = run([executable("proton-viewer"), "--ranks", "--json", "out.ranks"], tmp_path)
    assert result.returncode == 2 and result.stdout == ""
    merged = ranks_of(tmp_path, "--allow-partial", "out.ranks.proton")
    states = {row["rank"]: row["state"] for row in merged["ranks"]}
    assert states == {0: "finished", 1: "missing", 2: "damaged", 3: "killed", 4: "finished"}
    assert merged["partial"] is True


def test_reason_of_a_damaged_rank_is_printed(job: Path, tmp_path: Path) -> None:
    place = copy(job, tmp_path)
    (place / "rank000002.proton").write_text("not a profile")
    result = merge(tmp_path, "out.ranks")
    assert result.returncode == 2
    assert "proton-merge: 1 rank is damaged: 2\n" in result.stderr
    assert "proton-merge: rank 2: cannot read out.ranks/000-999/rank000002.proton: it is not a" in (
        result.stderr
    )


def test_ranks_of_different_versions_are_merged_with_a_message(job: Path, tmp_path: Path) -> None:
    place = copy(job, tmp_path)
    for number, version in enumerate(("0.0.7", "0.0.8", "0.0.8", "0.0.8", "0.0.8")):
        path = place / f"rank{number:06}.proton"
        exported = place / f"rank{number:06}.hatchet"
        command = [executable("proton-viewer"), "--export", "hatchet", "-o", exported, path]
        assert run(command, tmp_path).returncode == 0
        tree = json.loads(exported.read_text())
        tree[0]["proton"]["info"]["version"] = version
        exported.write_text(json.dumps(tree))
        path.unlink()
    result = merge(tmp_path, "out.ranks")
    assert result.returncode == 0, result.stderr
    message = "different versions of Proton: 0.0.7 (rank 0) and 0.0.8 (rank 1); frames may differ"
    assert message in result.stderr


def test_parts_of_names_are_taken_out(job: Path, tmp_path: Path) -> None:
    copy(job, tmp_path)
    assert merge(tmp_path, "--rank-names", "[a-z]emm$", "out.ranks").returncode == 0
    paths = [row["path"] for row in ranks_of(tmp_path, "out.ranks.proton")["rows"]]
    assert "step > *" in paths and "step > gemm" not in paths
    result = merge(tmp_path, "--rank-names", "(", "out.ranks")
    assert result.returncode == 2 and '--rank-names: "(" is not a regular' in result.stderr


@pytest.mark.parametrize("columns", ["0", "2"])
def test_columns_are_in_the_file_unless_there_are_none(
    columns: str, job: Path, tmp_path: Path
) -> None:
    """The tables of the packed file: 26 has the columns, 27 a cell per column and rank."""
    copy(job, tmp_path)
    assert merge(tmp_path, "--columns", columns, "out.ranks").returncode == 0
    data = (tmp_path / "out.ranks.proton").read_bytes()
    (count,) = struct.unpack_from("<I", data, 40)
    rows = dict(struct.unpack_from("<IxxxxQ", data, 48 + 40 * i) for i in range(count))
    assert rows.get(26, 0) == int(columns) and rows.get(27, 0) == 5 * int(columns)


def limit_files(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@WITHOUT_MPI
@pytest.mark.parametrize(
    "columns, limit, message",
    [
        ("256", 100, "cannot write the temporary file of ranks; set TMPDIR to a directory with"),
        ("0", 1000, "out.ranks.proton: File too large"),
    ],
)
def test_nothing_is_written_if_there_is_no_space(
    columns: str, limit: int, message: str, job: Path, tmp_path: Path
) -> None:
    copy(job, tmp_path)
    result = subprocess.run(
        [executable("proton-merge"), "--columns", columns, "out.ranks"], cwd=tmp_path,
        capture_output=True, text=True, env=environment(), preexec_fn=lambda: limit_files(limit),
        timeout=300,
    )
    assert result.returncode == 2 and message in result.stderr, result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out.ranks"]


def test_directory_for_temporary_files_is_named_in_the_message(job: Path, tmp_path: Path) -> None:
    copy(job, tmp_path)
    command = [executable("proton-merge"), "out.ranks"]
    result = run(command, tmp_path, env=environment(TMPDIR=str(tmp_path / "no")))
    assert result.returncode == 2
    assert f"cannot create a temporary file in {tmp_path}/no; set TMPDIR: " in result.stderr


def test_progress_is_shown_on_a_terminal(job: Path, tmp_path: Path) -> None:
    """The merge waits for a pipe until the line has been read."""
    paths = sorted(copy(job, tmp_path).iterdir())
    data = paths[-1].read_bytes()
    ours, theirs = pty.openpty()
    end, fifo = os.pipe()
    process = subprocess.Popen(
        [executable("proton-merge"), "-o", "out.proton", *paths[:-1], f"/dev/fd/{end}"],
        cwd=tmp_path, stderr=theirs, env=environment(), pass_fds=[end],
    )
    os.close(theirs)
    os.close(end)
    text = b""
    while b" s\r" not in text:
        text += os.read(ours, 1000)
    assert text.startswith(b"proton-merge: merging 5 ranks: "), text
    os.write(fifo, data)
    os.close(fifo)
    assert process.wait(timeout=300) == 0
    os.close(ours)


def test_limit_of_nodes_is_reported(job: Path, tmp_path: Path) -> None:
    copy(job, tmp_path)
    result = merge(tmp_path, "--max-nodes", "3", "out.ranks")
    assert result.returncode == 0 and "the limit of nodes is reached" in result.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "no ranks to merge: name a directory or files"),
        (("no",), "cannot open no: No such file or directory"),
        (("--allow-partial", "no.ranks"), "cannot open no.ranks: No such file or directory"),
        (("-o", "-", "out.ranks"), "cannot go to standard output; name a file"),
        (("-o", "out.ranks/x.proton", "out.ranks"), "one more profile among the ranks"),
        (("-o", "out.ranks/000-999/x.proton", "."), "one more profile among the ranks"),
        (("--max-nodes", "0", "out.ranks"), "--max-nodes"),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple[str, ...], message: str, job: Path) -> None:
    result = merge(job, *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert not (job / "no.ranks.proton").exists() and not (job / "-").exists()


def test_an_existing_file_that_is_not_a_profile_is_kept(job: Path, tmp_path: Path) -> None:
    copy(job, tmp_path)
    (tmp_path / "notes").write_text("mine")
    result = merge(tmp_path, "-o", "notes", "out.ranks")
    assert result.returncode == 2 and (tmp_path / "notes").read_text() == "mine"


def test_a_rank_of_the_job_is_not_replaced(job: Path, tmp_path: Path) -> None:
    ranks = copy(job, tmp_path)
    path = ranks / "rank000001.proton"
    content = path.read_bytes()
    (tmp_path / "link").symlink_to(path)
    for output in (str(path), "out.ranks/000-999/rank000001.proton", "link"):
        result = merge(tmp_path, "-o", output, "out.ranks")
        assert result.returncode == 2 and path.read_bytes() == content
        assert f"cannot write {output}: it is an input (out.ranks/" in result.stderr
    assert merge(tmp_path, "out.ranks").returncode == 0
    result = merge(tmp_path, "-o", "out.ranks.proton", "out.ranks.proton")
    assert result.returncode == 2 and "it is an input" in result.stderr


def test_the_file_of_a_killed_merge_is_removed_by_the_next(job: Path, tmp_path: Path) -> None:
    copy(job, tmp_path)
    left, other = (tmp_path / temporary_name(base) for base in ("out.ranks.proton", "other"))
    left.write_text("part of a profile")
    other.write_text("part of a profile")
    assert merge(tmp_path, "out.ranks").returncode == 0
    assert not left.exists() and other.exists()


@WITHOUT_MPI
def test_one_of_many_processes_without_mpi_does_the_work(job: Path, tmp_path: Path) -> None:
    outputs = []
    for rank in range(2):
        env = environment(OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_SIZE="2", RANK=None)
        command = [executable("proton-merge"), "-o", f"{tmp_path}/{rank}", f"{job}/out.ranks"]
        outputs.append(run(command, tmp_path, env=env))
    assert [result.returncode for result in outputs] == [0, 0]
    assert "built without MPI: 1 of 2 processes merges all ranks; " in outputs[0].stderr
    assert outputs[1].stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


def mpi_program() -> str | None:
    """proton-merge of a build with MPI."""
    path = BUILD / "src" / "proton-merge"
    if shutil.which("mpirun") is None or not path.exists():
        return None
    needed = subprocess.run(["ldd", str(path)], capture_output=True, text=True, timeout=300).stdout
    return str(path) if "libmpi" in needed else None


def test_settings_of_mpi_do_not_make_a_launcher(job: Path, tmp_path: Path) -> None:
    """MPI would fail with this one; containers and modules of clusters set such variables."""
    env = environment(OMPI_MCA_pml="none_such", MPI_HOME="/opt/mpi", MPICH_RANK_REORDER_METHOD="1")
    program = mpi_program() or executable("proton-merge")
    result = run([program, "-o", "x.ranks.proton", f"{job}/out.ranks"], tmp_path, env=env)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(mpi_program() is None, reason="no MPI")
def test_any_number_of_processes_writes_the_same_bytes(job: Path, tmp_path: Path) -> None:
    """200 ranks, more than a chunk: doubles are summed in the same order."""
    place = tmp_path / "many.ranks" / "000-999"
    place.mkdir(parents=True)
    for rank in range(200):
        source = job / "out.ranks" / "000-999" / f"rank{rank % 5:06}.proton"
        os.link(source, place / f"rank{rank:06}.proton")
    results = []
    for count in (1, 2, 3, 7):
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(count)]
        # Ranks are used again and again, so most are duplicates.
        arguments = ["--allow-mixed", "-o", f"{count}.proton", "many.ranks"]
        result = run([*command, str(mpi_program()), *arguments], tmp_path)
        assert result.returncode == 0, result.stderr
        results.append((tmp_path / f"{count}.proton").read_bytes())
    assert all(result == results[0] for result in results)
    result = merge(tmp_path, "--allow-mixed", "-o", "alone.proton", "many.ranks")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "alone.proton").read_bytes() == results[0]


def holders(file: str, program: str) -> list[int]:
    """Processes of that program that have the file open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            files = [os.readlink(entry) for entry in (process / "fd").iterdir()]
            name = (process / "comm").read_text().strip()
        except OSError:
            continue  # it has ended, or is not ours
        if file in files and name == program:
            found.append(int(process.name))
    return found


@pytest.mark.skipif(mpi_program() is None, reason="no MPI")
@pytest.mark.parametrize("rank", [0, 130])
def test_nothing_is_written_if_a_process_dies(rank: int, job: Path, tmp_path: Path) -> None:
    """The process that reads this rank waits for a pipe, and is killed there."""
    end, writer = os.pipe()
    pipe = Path(f"/proc/{os.getpid()}/fd/{end}")
    profiles = sorted((job / "out.ranks" / "000-999").iterdir())
    paths = [profiles[number % 5] for number in range(192)]  # 3 chunks, one for each process
    paths[rank] = pipe
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3"]
    process = subprocess.Popen(
        [*command, str(mpi_program()), "-o", "many.proton", *paths], cwd=tmp_path,
        stderr=subprocess.PIPE, text=True, env=environment(),
    )
    reading: list[int] = []
    until = time.monotonic() + 60
    while not reading:
        assert process.poll() is None and time.monotonic() < until
        reading = holders(os.readlink(pipe), "proton-merge")
    os.kill(reading[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    os.close(writer)
    os.close(end)
    assert process.returncode != 0
    assert "signal 9" in errors, errors
    assert not list(tmp_path.iterdir())
