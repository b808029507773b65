"""proton-viewer on the directory of a job: its sum is that of proton-merge."""

from pathlib import Path

import pytest

from rank_support import (  # noqa: F401 (job)
    MS,
    data_of,
    job,
    merge,
    step,
    view,
    write_job,
    write_rank,
)


def rows(cwd: Path, *arguments: str) -> dict[str, float]:
    """Sums of kernel time in ms by frame."""
    found = data_of(cwd, "-m", "time/ms", *arguments)["rows"]
    return {row["frame"]: row["metrics"]["time/ms"] for row in found}


def test_viewer_writes_the_bytes_of_proton_merge(job: Path, tmp_path: Path) -> None:
    for name, arguments in (("a", ["--merge", "sum"]), ("b", ["--export", "ranks"])):
        output = tmp_path / f"{name}.ranks.proton"
        result = view(job, *arguments, "-o", str(output), "out.ranks")
        assert result.returncode == 0, result.stderr
        assert output.read_bytes() == (job / "out.ranks.proton").read_bytes()


def write_named(directory: Path, ranks: range, world: int = 3) -> None:
    for rank in ranks:
        tree = {"step": {f"send from rank {rank}": (rank + 1) * MS}}
        write_rank(directory / "out.ranks", rank, tree, world=world)


def test_names_do_not_depend_on_the_rank(tmp_path: Path) -> None:
    write_named(tmp_path, range(3))
    assert rows(tmp_path, "out.ranks") == {"ROOT": 6, "step": 6, "send from rank *": 6}


def test_parts_of_a_rank_are_not_duplicates(tmp_path: Path) -> None:
    write_named(tmp_path, range(3))
    directory = tmp_path / "out.ranks" / "000-999"
    part = (directory / "rank000001.hatchet").read_bytes()
    (directory / "rank000001.4242.hatchet").write_bytes(part)  # that a child process wrote
    result = view(tmp_path, "--csv", "-m", "time/ms", "out.ranks")
    assert result.returncode == 0 and not result.stderr, result.stderr
    assert rows(tmp_path, "out.ranks")["ROOT"] == 8


def test_missing_ranks_are_shown_and_refused_for_programs(tmp_path: Path) -> None:
    write_named(tmp_path, range(1, 3), world=4)
    message = "proton-viewer: 2 ranks are missing: 0, 3"
    result = view(tmp_path, "-m", "time/ms", "out.ranks")
    assert result.returncode == 0
    assert "5.0000 ROOT" in " ".join(result.stdout.split())
    assert result.stderr.splitlines() == [message]
    for arguments in (["--csv"], ["--fail-if", "time/ms > 100"], ["-o", "x.ranks.proton"]):
        result = view(tmp_path, *arguments, "out.ranks")
        assert (result.returncode, result.stdout) == (2, ""), arguments
        assert message in result.stderr
        assert "needs complete profiles of all ranks; use --allow-partial" in result.stderr
        result = view(tmp_path, *arguments, "--allow-partial", "out.ranks")
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "x.ranks.proton").exists()


def test_rank_that_cannot_be_read_is_an_error_and_the_others_are_shown(tmp_path: Path) -> None:
    write_named(tmp_path, range(3))
    (tmp_path / "out.ranks" / "000-999" / "rank000001.hatchet").write_text("no profile")
    result = view(tmp_path, "-m", "time/ms", "out.ranks")
    assert result.returncode == 2
    assert "4.0000 ROOT" in " ".join(result.stdout.split())
    assert "1 rank is damaged: 1" in result.stderr
    assert "rank 1: " in result.stderr
    result = view(tmp_path, "-m", "time/ms", "--allow-partial", "out.ranks")
    assert result.returncode == 0, result.stderr


def test_job_of_one_file_lacks_the_others(tmp_path: Path) -> None:
    write_named(tmp_path, range(1), world=2)
    result = view(tmp_path, "out.ranks")
    assert "1 rank is missing: 1" in result.stderr


def test_sums_of_two_jobs_are_compared(job: Path, tmp_path: Path) -> None:
    other = write_job(tmp_path, "other")
    for rank in range(4, 8):
        write_rank(other, rank, step(rank, 30), world=8)
    diff = ("--diff", "out.ranks", "--merge", "sum")
    result = view(job, *diff, "--csv", "-m", "time/ms", str(other))
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stdout.splitlines() if ",allreduce," in line]
    # 8 x 10 ms and 8 more in rank 6; then 20 more in each of 4 ranks
    assert lines[0].split(",")[4:7] == ["88.0", "160.0", "72.0"]


def test_other_files_become_ranks_of_the_output(job: Path, tmp_path: Path) -> None:
    files = [str(job / f"out.ranks/000-999/rank00000{rank}.hatchet") for rank in range(8)]
    result = view(tmp_path, "-o", "x.ranks.proton", *files)
    assert result.returncode == 0, result.stderr
    merged = merge(tmp_path, "-o", "z.ranks.proton", *files)
    assert merged.returncode == 0, merged.stderr
    x, z = ((tmp_path / f"{name}.ranks.proton").read_bytes() for name in "xz")
    assert x == z
    again = view(tmp_path, "-o", "y.ranks.proton", "x.ranks.proton")  # it is merged already
    assert again.returncode == 0, again.stderr
    x, y = (view(tmp_path, "--ranks", "--json", f"{name}.ranks.proton").stdout for name in "xy")
    assert x == y


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--export", "ranks"], "ranks is binary; write it to a file with -o"),
        (["-o", "x.ranks.proton", "-m", "time/ms"], "--metrics cannot be used with ranks"),
        (["-o", "x.ranks.proton", "--merge", "mean"], "this --merge produces a table"),
    ],
)
def test_options_without_a_meaning_are_refused(
    job: Path, arguments: list[str], message: str
) -> None:
    result = view(job, *arguments, "out.ranks")
    assert result.returncode == 2
    assert message in result.stderr
    assert not (job / "x.ranks.proton").exists()
