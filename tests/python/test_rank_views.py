"""proton-viewer --ranks: tables, groups, metrics, gates and comparisons."""

import csv
import io
import json
from pathlib import Path

import pytest

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


def table(cwd: Path, *arguments: str) -> list[dict[str, str]]:
    return table_of(cwd, "--csv", *arguments)


def lines_of(cwd: Path, *arguments: str) -> list[list[str]]:
    result = view(cwd, *arguments)
    assert result.returncode == 0, result.stderr
    return [line.split() for line in result.stdout.splitlines()]


@pytest.mark.parametrize("source", ["out.ranks", "out.ranks.proton"])
def test_frames_have_mean_extremes_and_what_could_go(job: Path, source: str) -> None:
    rows = {row["path"]: row for row in table(job, "--ranks", source)}
    gemm = rows["step > forward > gemm"]
    mean = (7 * 20 + 40) / 8 + (0 + 1 + 2 + 3 + 4 + 5 + 6 + 7) / 8 / MS
    assert float(gemm["mean"]) == pytest.approx(mean)
    assert (gemm["min_rank"], gemm["max_rank"], gemm["ranks"]) == ("0", "3", "8")
    assert float(gemm["max"]) == 40.000003 and float(gemm["min"]) == 20
    assert float(gemm["imbalance"]) == pytest.approx(40.000003 / mean - 1)
    assert float(gemm["could_go"]) == pytest.approx((40.000003 - mean) * 8)
    assert rows["step > expert > moe"]["ranks"] == "4"  # the others do not count


def test_table_of_ranks_has_state_host_and_totals(job: Path) -> None:
    rows = table(job, "--ranks=ranks", "out.ranks.proton")
    assert [row["rank"] for row in rows] == [str(rank) for rank in range(8)]
    assert [row["host"] for row in rows] == ["host0"] * 4 + ["host1"] * 4
    assert [row["group"] for row in rows] == ["1"] * 4 + ["2"] * 4
    assert rows[3]["time_ns"] == str(50 * MS + 3) and rows[5]["kernels"] == "3"
    text = view(job, "--ranks=ranks", "out.ranks.proton").stdout.splitlines()
    assert text[0] == "8 ranks on 2 hosts: 8 finished; times in ms"
    assert text[6].split() == ["3", "finished", "50.000", "+37.9%", "2", "0", "host0"]
    assert len(text) == 3 + 8


def test_table_of_many_ranks_shows_problems_and_the_slowest_and_fastest(tmp_path: Path) -> None:
    source = tmp_path / "big.ranks"
    for rank in range(100):
        if rank != 70:
            write_rank(source, rank, {"gemm": 1000 * (rank + 1)}, world=100)
    text = view(tmp_path, "--ranks=ranks", "-n", "6", "big.ranks").stdout.splitlines()
    assert text[0].startswith("100 ranks on 25 hosts: 99 finished, 1 missing;")
    assert [line.split()[0] for line in text[3:]] == ["70", "99", "98", "...", "2", "1", "0"]
    assert "94 more; --ranks=ranks prints all" in text[6]
    assert len(view(tmp_path, "--ranks=ranks", "big.ranks").stdout.splitlines()) == 3 + 100
    below = view(tmp_path, "--ranks", "big.ranks").stdout.splitlines()
    assert "84 more; --ranks=ranks prints all" in "\n".join(below)
    assert len(below) < 40


def test_groups_are_ranks_with_equal_trees(job: Path) -> None:
    rows = table(job, "--ranks=groups", "out.ranks")
    assert [(row["group"], row["members"], row["ranks"]) for row in rows] == [
        ("1", "0-3", "4"),
        ("2", "4-7", "4"),
    ]
    assert rows[0]["shape"] != rows[1]["shape"]
    assert (rows[0]["max_rank"], rows[1]["max_rank"]) == ("3", "6")
    assert float(rows[1]["max"]) == pytest.approx(20 + 18 + 6, abs=1e-4)
    text = view(job, "--ranks", "out.ranks").stdout
    assert "2 groups of ranks with equal trees" in text


def test_one_group_is_not_shown(tmp_path: Path) -> None:
    write_job(tmp_path, size=4)
    result = view(tmp_path, "--ranks", "out.ranks")
    assert result.returncode == 0 and "group" not in result.stdout


def test_everything_is_in_one_json_object(job: Path) -> None:
    everything = data_of(job, "--ranks", "out.ranks")
    assert [rank["group"] for rank in everything["ranks"]] == [1] * 4 + [2] * 4
    assert [group["members"] for group in everything["groups"]] == ["0-3", "4-7"]
    row = {row["path"]: row for row in everything["rows"]}["step > forward > allreduce"]
    assert (row["metric"], row["max_ns"], row["max_rank"]) == ("time", 18 * MS, 6)


@pytest.mark.parametrize("source", ["out.ranks", "out.ranks.proton"])
def test_other_metrics_are_read_from_the_profiles_of_the_ranks(job: Path, source: str) -> None:
    rows = table(job, "--ranks", "-m", "bytes,time/us", source)
    first = rows[0]
    assert (first["path"], first["metric"], first["ranks"]) == ("ROOT", "bytes", "8")
    assert (float(first["mean"]), float(first["max"])) == (4500, 8000)
    assert (first["min_rank"], first["max_rank"]) == ("0", "7")
    assert {row["path"] for row in rows if row["metric"] == "bytes"} == {"ROOT", "step"}
    times = {row["path"]: row for row in rows if row["metric"] == "time/us"}
    assert float(times["step > forward > allreduce"]["max"]) == 18_000
    everything = data_of(job, "--ranks", "-m", "bytes", source)
    assert everything["rows"][0]["saving"] == pytest.approx((8000 - 4500) * 8)


def test_recorded_metric_is_compared_with_the_merged_file_alone(job: Path) -> None:
    arguments = ["--ranks", "--csv", "-m", "bytes", "out.ranks.proton"]
    both = [view(cwd, *arguments) for cwd in (job, job / "alone")]
    (_, step), (alone,) = (list(csv.DictReader(io.StringIO(one.stdout))) for one in both)
    assert alone == step and (alone["path"], float(alone["max"])) == ("step", 8000)
    message = "only frames in which a metric was recorded are compared"
    assert message in both[1].stderr and message not in both[0].stderr
    gate = ["--ranks", "-m", "bytes", "out.ranks.proton", "--fail-if"]
    assert view(job / "alone", *gate, "max > 7999 in step").returncode == 3
    result = view(job / "alone", *gate, "max > 7999")  # the root has no row
    assert result.returncode == 2 and "the profiles" in result.stderr


def test_frames_above_a_value_are_not_compared_with_the_merged_file_alone(tmp_path: Path) -> None:
    """An inclusive metric is the sum of the frames below: their statistics do not tell it."""
    for rank in range(2):
        tree = {"a": {"": {"bytes": 5}, "b": {"": {"bytes": rank}}, "gemm": 10}}
        write_rank(tmp_path / "out.ranks", rank, tree, world=2)
    assert merge(tmp_path, "out.ranks").returncode == 0
    (tmp_path / "out.ranks").rename(tmp_path / "elsewhere")
    (row,) = table(tmp_path, "--ranks", "-m", "bytes", "out.ranks.proton")
    assert (row["path"], row["ranks"], float(row["min"]), float(row["max"])) == ("a > b", "2", 0, 1)


def test_metric_without_the_profiles_of_the_ranks_is_refused(job: Path) -> None:
    result = view(job / "alone", "--ranks", "-m", "avg_time/ms", "out.ranks.proton")
    assert result.returncode == 2
    assert "avg_time/ms needs the profiles of the ranks" in result.stderr
    assert "there is no directory out.ranks;" in result.stderr
    result = view(job, "--ranks", "-m", "nothing", "out.ranks")
    assert result.returncode == 2 and "metric nothing is not found" in result.stderr


@pytest.mark.parametrize(
    "gate, status, message",
    [
        ("imbalance > 10% in allreduce", 3, "gate failed: imbalance 63.6364% > 10% in allreduce"),
        ("imbalance > 64% in allreduce", 0, ""),
        ("imbalance >= 63% in gemm|allreduce", 3, "in gemm"),
        ("imbalance < 200%", 3, "in ROOT"),
        ("could_go/ms > 55 in allreduce", 3, "could_go/ms 56 > 55"),
        ("could_go/s > 1 in allreduce", 0, ""),
        ("max/us >= 18000 in allreduce", 3, "max/us 18000 >= 18000"),
        ("mean/ms > 12 in allreduce", 0, ""),
        ("min/ms < 10 in allreduce", 0, ""),
        ("ranks < 8 in moe", 3, "ranks 4 < 8 in moe"),
        ("imbalance > 10", 2, "imbalance is in percent; write 10%"),
        ("time/ms > 3", 2, "--ranks has no time/ms; available: imbalance, ranks"),
        ("max > 3", 2, "--ranks has no max"),
        ("imbalance > 10% in nothing", 2, "cannot be checked: no selected frame has a value"),
        ("imbalance > +5%", 2, "requires --diff"),
    ],
)
def test_gates(job: Path, gate: str, status: int, message: str) -> None:
    result = view(job, "--ranks", "--fail-if", gate, "out.ranks.proton")
    assert (result.returncode, message in result.stderr) == (status, True), result.stderr
    if status == 0:
        assert result.stderr == ""


def test_gate_of_imbalance_needs_no_other_option(job: Path) -> None:
    gates = ["--fail-if", "imbalance > 10% in allreduce", "--fail-if", "ranks < 8 in gemm"]
    result = view(job, *gates, "--json", "out.ranks")
    assert result.returncode == 3, result.stderr
    found = json.loads(result.stdout)["gates"]
    assert [(gate["gate"], gate["failed"]) for gate in found] == [
        ("imbalance > 10% in allreduce", True),
        ("ranks < 8 in gemm", False),
    ]
    assert found[0]["frames"][0]["frame"] == "allreduce"


def test_gate_is_about_the_first_metric(job: Path) -> None:
    for gate, status in (("max > 7999", 3), ("max > 8000", 0), ("imbalance > 70%", 3)):
        result = view(job, "--ranks", "-m", "bytes", "--fail-if", gate, "out.ranks")
        assert result.returncode == status, result.stderr


def test_gate_of_an_exclusive_metric_checks_all_frames(tmp_path: Path) -> None:
    for rank in range(2):
        tree = {"step": {"": {"depth": 1.5 + rank}, "gemm": 10}}
        write_rank(tmp_path / "out.ranks", rank, tree, world=2)
    for gate, status in (("max > 2", 3), ("max > 2.5", 0), ("min < 2 in step", 3)):
        result = view(tmp_path, "--ranks", "-m", "depth", "--fail-if", gate, "out.ranks")
        assert result.returncode == status, result.stderr


def test_percent_without_sign_is_of_imbalance_only(job: Path) -> None:
    result = view(job, "--fail-if", "time > 5%", "out.ranks")
    assert result.returncode == 2 and "invalid --fail-if" in result.stderr


def test_gate_needs_all_ranks(job: Path, tmp_path: Path) -> None:
    source = write_job(tmp_path)
    (source / "000-999" / "rank000002.hatchet").unlink()
    gate = ["--ranks", "--fail-if", "ranks < 8", "out.ranks"]
    result = view(tmp_path, *gate)
    assert result.returncode == 2 and "--fail-if needs complete profiles" in result.stderr
    result = view(tmp_path, "--allow-partial", *gate)
    assert result.returncode == 3 and "gate failed: ranks 7 < 8 in ROOT" in result.stderr


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """before.ranks, and after.ranks in which rank 1 is slow in allreduce and norm is new."""
    directory = tmp_path_factory.mktemp("two")
    write_job(directory, "before")
    for rank in range(8):
        tree = step(rank, 50 if rank == 1 else 10)
        tree["step"]["norm"] = 2 * MS
        write_rank(directory / "after.ranks", rank, tree, world=8)
    return directory


def test_diff_matches_frames_of_two_jobs(two: Path) -> None:
    assert merge(two, "before.ranks").returncode == 0
    for base in ("before.ranks", "before.ranks.proton"):
        rows = table(two, "--ranks", "--diff", base, "after.ranks")
        by_path = {row["path"]: row for row in rows}
        row = by_path["step > forward > allreduce"]
        assert (float(row["max_before"]), float(row["max_after"])) == (18, 50)
        assert float(row["could_go_before"]) == pytest.approx((18 - 11) * 8)
        assert float(row["could_go_after"]) == pytest.approx((50 - 15) * 8)
        norm = by_path["step > norm"]
        assert (norm["ranks_before"], norm["mean_before"]) == ("0", "")
        assert float(norm["mean_after"]) == 2
        changes = [
            abs(float(r["could_go_after"] or 0) - float(r["could_go_before"] or 0)) for r in rows
        ]
        assert changes == sorted(changes, reverse=True)


def test_diff_is_printed_with_changes(two: Path) -> None:
    lines = lines_of(two, "--ranks", "--diff", "before.ranks", "after.ranks")
    found = [line for line in lines if line[-1:] == ["allreduce"]][0]
    assert found[:8] == "15.000 +4.000 50.000 +32.000 233.3% +169.7% 280.000 +224.000".split()
    assert [line[-2:] for line in lines if "norm" in line] == [["(only", "after)"]]


def test_gates_of_changes_compare_two_jobs(two: Path) -> None:
    for gate, status in (
        ("imbalance > +5% in allreduce", 3),
        ("imbalance > +5% in gemm", 0),
        ("could_go/ms > +200 in allreduce", 3),
        ("max/ms > +100% in allreduce", 3),
        ("max/ms > +200% in allreduce", 0),
    ):
        arguments = ["--ranks", "--diff", "before.ranks", "--fail-if", gate, "after.ranks"]
        result = view(two, *arguments, "--json")
        assert result.returncode == status, (gate, result.stderr)
        assert json.loads(result.stdout)["gates"][0]["failed"] == (status == 3)


@pytest.mark.parametrize("arguments", [["-t", "3"], ["--top"], ["-i", "gemm"], ["--warps"]])
def test_options_without_effect_are_refused(job: Path, arguments: list[str]) -> None:
    result = view(job, "--ranks", *arguments, "out.ranks")
    assert result.returncode == 2 and "can be combined only with" in result.stderr


def test_unknown_table_is_refused(job: Path) -> None:
    result = view(job, "--ranks=hosts", "out.ranks")
    assert result.returncode == 2
    assert '--ranks must be frames, ranks or groups, not "hosts"' in result.stderr


def test_names_of_a_million_bytes_and_deep_trees_are_cut(tmp_path: Path) -> None:
    tree: dict = {"kernel": 5}
    for _ in range(400):
        tree = {"s" * 1000: tree}
    write_rank(tmp_path / "deep.ranks", 0, tree, world=1)
    paths = [row["path"] for row in data_of(tmp_path, "--ranks", "deep.ranks")["rows"]]
    assert len(paths) == 402 and max(map(len, paths)) < 70_000
    assert any(path.startswith("... > s") and path.endswith("> kernel") for path in paths)


def test_names_of_cpp_are_printed_as_in_trees(tmp_path: Path) -> None:
    stored = "_ZN2at4cuda11spin_kernelEl"
    for rank in range(2):
        write_rank(tmp_path / "out.ranks", rank, {"delay": {stored: MS * (rank + 1)}}, world=2)
    for arguments, shown in (
        ([], "spin_kernel"),
        (["--names", "full"], "at::cuda::spin_kernel(long)"),
        (["--names", "raw"], stored),
    ):
        text = view(tmp_path, "--ranks", *arguments, "out.ranks").stdout
        assert f"  delay > {shown}\n" in text, text
        for frame in (shown, f"delay > {shown}", stored):
            found = view(tmp_path, "--ranks-of", frame, *arguments, "out.ranks")
            assert found.stdout.startswith(f"delay > {shown}\n"), (frame, found.stderr)
    rows = table(tmp_path, "--ranks", "out.ranks")
    assert f"delay > {stored}" in {row["path"] for row in rows}
