"""One rank, one frame over all ranks, and the table of all ranks for databases."""

import sys
from pathlib import Path

import pytest

from cmd_support import environment, executable, run
from rank_support import (  # noqa: F401 (job)
    MS,
    data_of,
    job,
    merge,
    step,
    table_of,
    view,
    write_job,
    write_rank,
)

FORWARD = "step > forward"


@pytest.mark.parametrize("source", ["out.ranks", "out.ranks.proton"])
def test_rank_is_shown_from_its_own_profile(job: Path, source: str) -> None:
    rows = data_of(job, "--rank", "3", source)["rows"]
    times = {row["frame"]: row["metrics"]["time/ms"] for row in rows}
    assert times["gemm"] == 40.000003 and times["ROOT"] == 50.000003
    flat = view(job, "--rank", "5", "--top", source).stdout
    assert "moe" in flat and "5.000" in flat


def test_rank_of_a_file_with_another_name_is_found_in_it(tmp_path: Path) -> None:
    for rank in range(3):
        path = write_rank(tmp_path / "x", rank, step(rank), world=3)
        path.rename(tmp_path / f"part{rank}.hatchet")
    files = [f"part{rank}.hatchet" for rank in range(3)]
    rows = data_of(tmp_path, "--rank", "2", *files)["rows"]
    assert rows[0]["metrics"]["time/ms"] == 30.000002


def test_rank_of_a_merged_file_alone_has_the_frames_with_columns(job: Path) -> None:
    own = data_of(job / "alone", "--rank", "6", "out.ranks.proton")
    assert (own["rank"], own["state"], own["host"]) == (6, "finished", "host1")
    row = {row["path"]: row for row in own["rows"]}["step > forward > allreduce"]
    assert (row["time_ns"], row["mean_ns"]) == (18 * MS, 11 * MS)
    assert (row["place"], row["ranks"]) == (1, 8)
    text = view(job / "alone", "--rank", "6", "-n", "1", "out.ranks.proton").stdout.splitlines()
    assert text[0].startswith("rank 6, finished, on host host1; times in ms")
    assert text[3].split()[-1] == "ROOT" and len(text) == 4
    lines = view(job / "alone", "--rank", "6", "--csv", "out.ranks.proton").stdout.splitlines()
    assert lines[0] == "path,time_ns,mean_ns,place,ranks"
    result = view(job / "alone", "--rank", "6", "--top", "out.ranks.proton")
    assert result.returncode == 2
    assert "--rank 6 needs the profile of that rank" in result.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--rank", "8", "out.ranks"], "none of the 8 profiles is of that rank"),
        (["--rank", "8", "alone/out.ranks.proton"], "out.ranks.proton has no such rank"),
        (["--rank", "x", "out.ranks"], '--rank needs the number of a rank, not "x"'),
        (["--rank", "1", "--ranks", "out.ranks"], "Cannot specify both --rank and --ranks"),
        (["--ranks-of", "nothing", "out.ranks"], "no frame with kernel time has that path"),
        (["--ranks-of", "(", "out.ranks"], "("),
        (["--ranks-of", "gemm", "--top", "out.ranks"], "--ranks-of can be combined only with"),
    ],
)
def test_wrong_questions_are_refused(job: Path, arguments: list[str], message: str) -> None:
    result = view(job, *arguments)
    assert result.returncode == 2 and message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("source", ["out.ranks", "out.ranks.proton", "alone/out.ranks.proton"])
def test_frame_has_a_histogram_and_columns_of_all_ranks(job: Path, source: str) -> None:
    (frame,) = data_of(job, "--ranks-of", "allreduce", source)["frames"]
    assert frame["path"] == "step > forward > allreduce"
    columns = frame["columns"]
    assert columns["rank"] == [6, 0, 1, 2, 3, 4, 5, 7]
    assert columns["time_ns"] == [18 * MS] + [10 * MS] * 7
    assert columns["host"] == ["host1"] + ["host0"] * 4 + ["host1"] * 3
    bins = [one["ranks"] for one in frame["histogram"]]
    assert (bins[0], bins[-1], sum(bins)) == (7, 1, 8)
    assert frame["histogram"][0]["from_ns"] == 10 * MS
    assert frame["histogram"][-1]["to_ns"] == 18 * MS


def test_frame_without_a_column_is_read_from_the_profiles_of_the_ranks(tmp_path: Path) -> None:
    write_job(tmp_path)
    assert merge(tmp_path, "--columns", "1", "out.ranks").returncode == 0
    (frame,) = data_of(tmp_path, "--ranks-of", "moe", "out.ranks.proton")["frames"]
    assert frame["columns"]["rank"] == [7, 6, 5, 4]
    assert frame["columns"]["time_ns"] == [rank * MS for rank in (7, 6, 5, 4)]
    assert frame["columns"]["host"] == ["host1"] * 4
    (tmp_path / "out.ranks").rename(tmp_path / "elsewhere")
    (frame,) = data_of(tmp_path, "--ranks-of", "moe", "out.ranks.proton")["frames"]
    assert frame["columns"]["rank"] == [] and sum(b["ranks"] for b in frame["histogram"]) == 4
    text = view(tmp_path, "--ranks-of", "moe", "out.ranks.proton").stdout
    assert "7      7.000   +27.3%\n" in text and "has no column for this frame" in text


def test_path_is_preferred_to_names_and_names_to_patterns(job: Path) -> None:
    (frame,) = data_of(job, "--ranks-of", FORWARD, "out.ranks")["frames"]
    assert frame["path"] == FORWARD
    (frame,) = data_of(job, "--ranks-of", "step", "out.ranks")["frames"]
    assert frame["path"] == "step"
    found = data_of(job, "--ranks-of", "^(gemm|moe)$", "out.ranks")["frames"]
    assert [frame["path"] for frame in found] == ["step > forward > gemm", "step > expert > moe"]
    assert found[1]["columns"]["rank"] == [7, 6, 5, 4]


def test_frame_is_printed_with_the_slowest_and_fastest_ranks(job: Path) -> None:
    text = view(job, "--ranks-of", "gemm", "-n", "2", "out.ranks").stdout.splitlines()
    assert text[0] == "step > forward > gemm"
    assert text[1].startswith("8 ranks; times in ms: mean 22.500, minimum 20.000 (rank 0)")
    bars = [line.split() for line in text if "#" in line]
    assert [bar[2] for bar in bars] == ["7", "1"]
    lists = [line.split() for line in text[text.index("", 4) :] if line]
    assert lists[0] == ["rank", "slowest", "vs", "mean", "host"]
    assert lists[1] == ["3", "40.000", "+77.8%", "host0"] and lists[2][0] == "7"
    assert lists[3][1] == "fastest" and [line[0] for line in lists[4:]] == ["1", "0"]


def test_frame_as_csv_has_a_line_per_rank(job: Path) -> None:
    rows = table_of(job, "--ranks-of", "moe", "--csv", "out.ranks")
    assert [(row["rank"], row["time_ns"]) for row in rows] == [
        (str(rank), str(rank * MS)) for rank in (7, 6, 5, 4)
    ]


# ------------------------------------------------------------------ tables for databases

LONG = ("--export", "long")


@pytest.mark.parametrize("source", ["out.ranks", "out.ranks.proton"])
def test_long_table_has_a_row_per_rank_frame_and_metric(job: Path, source: str) -> None:
    rows = table_of(job, *LONG, source)
    assert list(rows[0]) == ["rank", "host", "node", "path", "name", "metric", "value", "own"]
    times = [row for row in rows if row["metric"] == "time (ns)"]
    gemm = [row for row in times if row["name"] == "gemm"]
    assert [float(row["value"]) for row in gemm] == [
        (40 if rank == 3 else 20) * MS + rank for rank in range(8)
    ]
    assert len({row["node"] for row in gemm}) == 1 and gemm[5]["host"] == "host1"
    # Own values add up to the total, values do not.
    assert sum(float(row["own"] or 0) for row in times) == sum(
        float(row["value"]) for row in times if row["path"] == "ROOT"
    )
    assert {row["metric"] for row in rows} == {"time (ns)", "count", "bytes"}


def test_long_table_of_chosen_metrics(job: Path) -> None:
    rows = table_of(job, *LONG, "-m", "time/ms,bytes", "out.ranks")
    assert {row["metric"] for row in rows} == {"time/ms", "bytes"}
    result = view(job, "--export", "long", "-m", "nothing", "out.ranks")
    assert result.returncode == 2 and "no rank has any of the metrics" in result.stderr


def test_long_table_needs_the_profiles_of_all_ranks(job: Path, tmp_path: Path) -> None:
    result = view(job / "alone", "--export", "long", "out.ranks.proton")
    assert result.returncode == 2 and "long needs the profiles of the ranks" in result.stderr
    write_rank(tmp_path / "part.ranks", 0, step(0), world=2)
    result = view(tmp_path, "--export", "long", "part.ranks")
    assert result.returncode == 2 and "1 rank is missing: 1" in result.stderr
    assert table_of(tmp_path, *LONG, "--allow-partial", "part.ranks")


def test_parquet_without_pyarrow_is_one_message(job: Path, tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ModuleNotFoundError(name='pyarrow')\n")
    command = [executable("proton-viewer"), "-o", f"{tmp_path}/out.parquet", "out.ranks"]
    result = run(command, job, env=environment(PYTHONPATH=str(tmp_path)))
    assert result.returncode == 2
    assert result.stderr.startswith("proton-viewer: cannot write Parquet: ")
    (line,) = result.stderr.splitlines()
    assert "has no pyarrow; pip install pyarrow there, or set PROTON_PYTHON to a Python" in line
    assert not (tmp_path / "out.parquet").exists()


def test_parquet_needs_a_file_and_takes_no_filters(job: Path) -> None:
    result = view(job, "--export", "parquet", "out.ranks")
    assert result.returncode == 2 and "parquet is binary; write it to a file" in result.stderr
    result = view(job, "-o", "x.parquet", "-t", "1", "out.ranks")
    assert result.returncode == 2 and "parquet can be combined only with" in result.stderr


def parquet(cwd: Path, output: Path, *arguments: str) -> Path:
    pytest.importorskip("pyarrow", reason="no pyarrow")
    command = [executable("proton-viewer"), "-o", str(output), *arguments]
    result = run(command, cwd, env=environment(PROTON_PYTHON=sys.executable))
    assert result.returncode == 0, result.stderr
    return output


def test_parquet_has_the_rows_of_the_long_table(job: Path, tmp_path: Path) -> None:
    path = parquet(job, tmp_path / "out.parquet", "out.ranks")
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    assert [str(field.type) for field in table.schema] == [
        *("uint32", "string", "uint32", "string", "string", "string", "double", "double")
    ]
    rows = [
        {key: "" if value is None else str(value) for key, value in row.items()}
        for row in table.to_pylist()
    ]
    assert rows == table_of(job, *LONG, "out.ranks")
    assert [one.name for one in tmp_path.iterdir()] == ["out.parquet"]


def test_parquet_keeps_names_that_look_like_formulas(tmp_path: Path) -> None:
    names = ["=1+1", "'quoted", "two\nlines", 'a "b", c', "ünï"]
    write_rank(tmp_path / "out.ranks", 0, {name: 10 for name in names}, world=1)
    path = parquet(tmp_path, tmp_path / "out.parquet", "out.ranks")
    import pyarrow.parquet

    found = pyarrow.parquet.read_table(path).column("name").to_pylist()
    assert set(found) == {"ROOT", *names}


def test_failed_parquet_leaves_the_old_file(job: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="no pyarrow")
    (tmp_path / "out.parquet").write_text("old")
    command = [executable("proton-viewer"), "-o", f"{tmp_path}/out.parquet", "-m", "no"]
    result = run([*command, "out.ranks"], job)
    assert result.returncode == 2 and "no rank has any of the metrics" in result.stderr
    result = run([*command, "--no-clobber", "out.ranks"], job)
    assert result.returncode == 2 and "exists and --no-clobber is set" in result.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["out.parquet"]
    assert (tmp_path / "out.parquet").read_text() == "old"


def guide_queries() -> dict[str, str]:
    """The SQL of docs/guide/ranks.md, by its first line, a comment."""
    guide = Path(__file__).resolve().parents[2] / "docs" / "guide" / "ranks.md"
    parts = guide.read_text().split("```sql\n")[1:]
    queries = [part.split("```")[0] for part in parts]
    return {query.splitlines()[0].removeprefix("-- "): query for query in queries}


def test_queries_of_the_guide_run_in_duckdb(job: Path, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="no duckdb")
    path = parquet(job, tmp_path / "out.parquet", "out.ranks")
    answers = {
        title: duckdb.sql(query.replace("out.parquet", str(path))).fetchall()
        for title, query in guide_queries().items()
    }
    slowest = answers["the frames with the largest time that could go"]
    assert slowest[0][0] == "step > forward > gemm"
    assert slowest[0][1:3] == (3, 40.000003)
    assert slowest[0][3] == pytest.approx((40.000003 - 22.500003) * 8, rel=1e-3)
    hosts = answers["the hosts, by the mean kernel time of their ranks"]
    assert [host for host, _, _ in hosts] == ["host1", "host0"]
    assert [ranks for _, ranks, _ in hosts] == [4, 4]
    kernels = dict(answers["the kernels of the whole job"])
    assert kernels["moe"] == pytest.approx(4 + 5 + 6 + 7)
    assert "forward" not in kernels


def test_queries_of_the_guide_run_in_polars(job: Path, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="no polars")
    path = parquet(job, tmp_path / "out.parquet", "out.ranks")
    guide = Path(__file__).resolve().parents[2] / "docs" / "guide" / "ranks.md"
    text = guide.read_text().split("```python\nimport polars")[1].split("```")[0]
    names: dict = {"pl": polars}
    exec("import polars" + text.replace("out.parquet", str(path)), names)
    assert names["table"].row(0)[0] == "step > forward > gemm"
