"""A job is one thing in every view, however it is given: no number differs without a message."""

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rank_support import MS, Tree, merge, step, table_of, view, write_rank

RANKS = 8
SLOW_RANK = 2


def write(job: Path, skipped: tuple[int, ...] = (), slow: int = 1) -> Path:
    """Each rank has other numbers. One is slower by a factor."""
    for rank in set(range(RANKS)) - set(skipped):
        tree = step(rank, 10 + rank)
        tree["step"]["forward"]["gemm"] *= slow if rank == SLOW_RANK else 1
        write_rank(job, rank, tree, world=RANKS, job="7")
    return job


VIEWS: dict[str, list[str]] = {
    "tree": [],
    "depth": ["-d", "1"],
    "metric": ["-m", "bytes"],
    "top": ["--top"],
    "scopes": ["--group", "scope"],
    "devices": ["--group", "device"],
    "bottom-up": ["--bottom-up"],
    "list": ["--list"],
    "sorted": ["--print-sorted"],
    "include": ["-i", "gemm"],
    "csv": ["--csv"],
    "json": ["--json"],
    "mean": ["--merge", "mean"],
    "max": ["--merge", "max", "--json"],
    "spread": ["--merge", "spread", "--csv"],
    "ranks": ["--ranks"],
    "ranks csv": ["--ranks=ranks", "--csv"],
    "ranks json": ["--ranks", "--json"],
    "ranks of a metric": ["--ranks", "-m", "bytes"],
    "ranks of": ["--ranks-of", "gemm"],
    "one rank": ["--rank", "3"],
    "gate passes": ["--fail-if", "time/ms > 400"],
    "gate fails": ["--fail-if", "time/ms < 400"],
    "gate of a frame": ["--fail-if", "time/ms > 200 in gemm"],
    "imbalance": ["--fail-if", "imbalance > 50% in gemm"],
    "ranks gate": ["--ranks", "--fail-if", "ranks > 8"],
    "diff": ["--diff", "{other}"],
    "diff csv": ["--diff", "{other}", "--csv"],
    "diff of several": ["--diff", "{other}", "--diff", "{third}", "--csv"],
    "diff gate": ["--diff", "{other}", "--fail-if", "time > +5%"],
    "diff of sums": ["--diff", "{other}", "--merge", "sum", "--json"],
    "diff of ranks": ["--ranks", "--diff", "{other}"],
    "diff top": ["--diff", "{other}", "--top"],
    "diff scopes": ["--diff", "{other}", "--group", "scope", "--csv"],
    "diff devices": ["--diff", "{other}", "--group", "device", "--json"],
    "diff bottom-up": ["--diff", "{other}", "--bottom-up", "-i", "gemm"],
    "diff export": ["--diff", "{other}", "--top", "--export", "csv"],
    "diff slowest": ["--diff", "{other}", "--top", "--fail-if", "slowest/ms > +5% in gemm"],
    "slowest": ["--top", "-m", "slowest/us,slowest_rank,imbalance/%", "-t", "slowest/ms=12"],
    "slowest gate": ["--group", "scope", "--fail-if", "imbalance/% > 20 in forward"],
    "html diff": ["--diff", "{other}", "--export", "html"],
    "merged file": ["-o", "{output}"],
} | {
    format: ["--export", format]
    for format in ("html", "folded", "speedscope", "pprof", "csv", "hatchet", "long")
}
# Views that say something of each rank; a merged file alone does not have all of it.
OF_RANKS = {"mean", "max", "spread", "ranks of a metric", "one rank", "long"}


# Views that compare several jobs when they are given.
OF_SUMS = {"diff of sums", "diff of ranks"}
COMPARING = {name for name in VIEWS if name.startswith("diff")} - OF_SUMS
COMPARING |= {"mean", "max", "spread"}


class Case:
    """Arguments in a directory, and what they may print next_to the numbers of the job."""

    def __init__(self, cwd: Path, *arguments: str, message: str = "") -> None:
        self.cwd, self.arguments, self.message = cwd, arguments, message
        self.is_job = message in ("", "counted once")


def make_cases(root: Path) -> dict[str, Case]:
    write(root / "out.ranks")
    assert merge(root, "out.ranks").returncode == 0
    (root / "out.ranks.proton").rename(root / "merged.proton")
    paths = sorted((root / "out.ranks").rglob("*.hatchet"))
    files = [str(path.relative_to(root)) for path in paths]

    def place(name: str, *copies: str) -> Path:
        """A directory with out.ranks and copies of the merged file."""
        shutil.copytree(root / "out.ranks", root / name / "out.ranks")
        for copy in copies:
            shutil.copy(root / "merged.proton", root / name / copy)
        return root / name

    alone = place("alone", "out.ranks.proton")
    shutil.rmtree(alone / "out.ranks")
    next_to, inside = place("next_to", "out.ranks.proton"), place("inside", "out.ranks/x.proton")
    deep, renamed = place("deep", "out.ranks/000-999/all.proton"), place("renamed", "sum.proton")
    names = place("names")
    (names / "out.ranks" / "000-999").rename(names / "named")
    for path in (names / "named").iterdir():  # as a program may name them
        path.rename(path.with_name(f"v{path.name.removeprefix('rank')}"))
    copied = place("copied")
    shutil.copytree(copied / "out.ranks", copied / "copy.ranks")
    two = place("two")
    write(two / "slow.ranks", slow=6)
    missing, few = root / "missing", root / "few"
    write(missing / "out.ranks", skipped=(1, 5))
    write(few / "out.ranks", skipped=(1, 5))
    assert merge(few, "--allow-partial", "out.ranks").returncode == 0
    shutil.rmtree(few / "out.ranks")
    once, lost = "counted once", "missing: 1, 5"
    cases = {
        "files": Case(root, *files),
        "files in another order": Case(root, *reversed(files)),
        "inner directory": Case(root, "out.ranks/000-999"),
        "directory around": Case(names.parent / "names", "named"),
        "inside the directory": Case(root / "out.ranks", "."),
        "inside the inner directory": Case(root / "out.ranks" / "000-999", "."),
        "merged": Case(alone, "out.ranks.proton"),
        "merged with the directory": Case(next_to, "out.ranks.proton"),
        "merged beside": Case(next_to, ".", message=once),
        "merged beside, both named": Case(next_to, "out.ranks.proton", "out.ranks", message=once),
        "merged inside": Case(inside, "out.ranks", message=once),
        "merged inside, from above": Case(inside, ".", message=once),
        "merged deep inside": Case(deep, "out.ranks", message=once),
        "merged with another name": Case(renamed, ".", message=once),
        "doubled": Case(root, "out.ranks", "out.ranks", message=once),
        "doubled by a file": Case(root, "out.ranks", files[3], message=once),
        "doubled by a copy": Case(copied, "out.ranks", "copy.ranks", message=once),
        "missing": Case(missing, "out.ranks", message=lost),
        "missing from a list": Case(root, *files[:1], *files[2:5], *files[6:], message=lost),
        "missing in the merged file": Case(few, "out.ranks.proton", message=lost),
        "two jobs": Case(two, "out.ranks", "slow.ranks", message="2 jobs"),
        "two jobs of a directory": Case(two, ".", message="2 jobs"),
    }
    assert list(cases) == CASES
    return cases


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    root = tmp_path_factory.mktemp("one_job")
    write(root / "other" / "other.ranks", slow=2)
    write(root / "third" / "third.ranks", slow=3)
    return make_cases(root)


@pytest.fixture(scope="module")
def root(cases: dict[str, Case]) -> Path:
    return cases["files"].cwd


def show(root: Path, name: str, case: Case) -> tuple[subprocess.CompletedProcess[str], str]:
    """The result, and its output without the names of files."""
    output = root / "written.ranks.proton"
    output.unlink(missing_ok=True)
    options = [
        option.format(
            other=root / "other" / "other.ranks", third=root / "third" / "third.ranks",
            output=output,
        )
        for option in VIEWS[name]
    ]
    command = [*options, *case.arguments]
    result = view(case.cwd, *command) if name != "pprof" else view_bytes(case.cwd, command)
    text = result.stdout
    if output.exists():
        text = view(root, "--ranks", "--json", output.name).stdout
    text = re.sub(r'"title":"[^"]*"|"name":"[^"]*"(?=,"activeProfile)', "", text)
    return result, re.sub(r"\bv(?=0000)", "rank", text)


def view_bytes(cwd: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    result = view(cwd, *command, "-o", "out.pb.gz")
    if (cwd / "out.pb.gz").exists():
        result.stdout = (cwd / "out.pb.gz").read_bytes().hex()
        (cwd / "out.pb.gz").unlink()
    return result


CASES = [
    "files", "files in another order", "inner directory", "directory around",
    "inside the directory", "inside the inner directory", "merged", "merged with the directory",
    "merged beside", "merged beside, both named", "merged inside", "merged inside, from above",
    "merged deep inside", "merged with another name", "doubled", "doubled by a file",
    "doubled by a copy", "missing", "missing from a list", "missing in the merged file", "two jobs",
    "two jobs of a directory",
]


@pytest.mark.parametrize("case", CASES)
def test_no_view_differs_silently(cases: dict[str, Case], root: Path, case: str) -> None:
    given = cases[case]
    differing = []
    for name in VIEWS:
        expected, numbers = show(root, name, Case(root, "out.ranks"))
        assert expected.returncode in (0, 3) and numbers, (name, expected.stderr)
        result, text = show(root, name, given)
        is_refused = result.returncode == 2 and not result.stdout
        if given.is_job:
            is_same = text == numbers and result.returncode == expected.returncode
            is_named = "merged file" in result.stderr + result.stdout
            is_right = is_same or name in OF_RANKS and (is_refused or is_named)
            is_right = is_right and (is_refused or given.message in result.stderr)
        elif name == "one rank" and "missing" in case:
            is_right = text == numbers or "merged file" in text
        elif "two" in case and name in COMPARING:
            is_right = "2 jobs" not in result.stderr
        else:
            is_right = bool(result.stderr) and (is_refused or given.message in result.stderr)
            if name in ("csv", "json", "diff", "gate passes", "imbalance") and "missing" in case:
                is_right = is_refused
        if not is_right:
            differing.append((name, result.returncode, result.stderr, text[:300], numbers[:300]))
    assert not differing


def test_a_rank_that_became_slower_fails_a_gate(cases: dict[str, Case], root: Path) -> None:
    for base, job in (("out.ranks", "two/slow.ranks"), ("out.ranks", "two")):
        result = view(root, "--diff", base, "--fail-if", "time > +5%", job)
        assert result.returncode == 3, result.stderr
    rows = table_of(root, "--diff", "out.ranks", "--csv", "two/slow.ranks")
    (gemm,) = [row for row in rows if row["frame"] == "gemm"]
    assert gemm["slowest rank"] == str(SLOW_RANK)
    assert float(gemm["slowest after"]) == pytest.approx(120, abs=1e-3)
    assert float(gemm["slowest before"]) == pytest.approx(40, abs=1e-3)
    # 7 ranks of 20 ms, but one of 40 ms; then rank 2 has 120 ms
    assert float(gemm["imbalance/% before"]) == pytest.approx(100 * (40 / 22.5 - 1), abs=1e-3)
    assert float(gemm["imbalance/% after"]) == pytest.approx(100 * (120 / 35 - 1), abs=1e-3)
    assert float(gemm["time/ms change"]) == pytest.approx(100, abs=1e-3)


# Ways to add the kernels of this tree up: several rows are sums of frames.
WAYS = [
    [],
    ["--top"],
    ["--group", "scope"],
    ["--group", "module"],
    ["--group", "device"],
    ["--bottom-up"],
    ["--bottom-up", "-d", "2"],
    ["--top", "-e", "forward"],
    ["--bottom-up", "-i", "gemm|copy"],
    ["--top", "--hide", "forward|backward"],
]


def many_contexts(rank: int) -> Tree:
    """Kernels in several contexts, one only in some ranks, and kernels below a kernel."""
    times = iter(random.Random(rank).choices(range(1, 50), k=20))
    return {
        "step": {
            "forward": {"gemm": next(times) * MS, "copy": 7 * MS, "inner": {"gemm": next(times)}},
            "backward": {"gemm": next(times) * MS + 1, "copy": 5 * MS},
            "moe" if rank % 3 else "dense": {"gemm": next(times) * MS},
        },
        "forward": {"copy": next(times) * MS, "late": next(times) * MS} if rank % 2 else {},
        "alone": next(times) * MS,
    }


def rows_by_place(root: Path, *options: str) -> dict[tuple[str, ...], dict[str, str]]:
    """The rows of a table or tree as CSV, by the names from the root."""
    places: list[tuple[str, ...]] = []
    rows = table_of(root, "--csv", *options)
    for row in rows:
        above = places[int(row["parent"])] if row.get("parent") else ()
        places.append((*above, row["frame"]))
    return dict(zip(places, rows, strict=True))


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("contexts")
    for rank in range(70):  # more than a chunk of ranks
        write_rank(root / "out.ranks", rank, many_contexts(rank), world=70)
    for name, columns in (("all", "256"), ("few", "3"), ("none", "0")):
        arguments = ["--columns", columns, "-o", f"{name}.proton", "out.ranks"]
        assert merge(root, *arguments).returncode == 0
    return root


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_each_row_has_the_slowest_of_its_ranks(contexts: Path, way: list[str]) -> None:
    wanted = ["-m", "time/ns,slowest/ns,slowest_rank,imbalance/%"]
    rows = rows_by_place(contexts, *wanted, *way, "out.ranks")
    ranks = [
        rows_by_place(contexts, "-m", "time/ns", *way, "--rank", str(rank), "out.ranks")
        for rank in range(70)
    ]
    assert len(rows) > 1 or "device" in way or "module" in way
    for place, row in rows.items():
        times = [int(of_rank.get(place, {}).get("time/ns") or 0) for of_rank in ranks]
        assert sum(times) == int(row["time/ns"])
        if not any(times):
            assert (row["slowest/ns"], row["slowest_rank"], row["imbalance/%"]) == ("", "", "")
            continue
        assert int(row["slowest/ns"]) == max(times), place
        assert int(row["slowest_rank"]) == times.index(max(times)), place
        mean = sum(times) / sum(time > 0 for time in times)
        assert float(row["imbalance/%"]) == pytest.approx(100 * (max(times) / mean - 1)), place
    # A merged file with a column for each frame has all of it; others leave out what they lack.
    assert rows_by_place(contexts, *wanted, *way, "all.proton") == rows
    for name in ("few", "none"):
        result = view(contexts, *way, f"{name}.proton")
        unknown = 0
        for place, row in rows_by_place(contexts, *wanted, *way, f"{name}.proton").items():
            is_known = bool(row["slowest/ns"]) or not rows[place]["slowest/ns"]
            expected = rows[place] if is_known else {**rows[place], **NOT_KNOWN}
            assert row == expected, (name, place)
            unknown += not is_known
        assert bool(unknown) == ("a merged file has times" in result.stderr), result.stderr
        assert way or not unknown


def test_the_report_of_a_job_has_the_slowest_ranks(root: Path) -> None:
    units = {"slowest/ms": "milliseconds", "slowest_rank": "", "imbalance/%": "percent"}
    page = view(root, "--export", "html", "out.ranks").stdout
    of_rank = view(root, "--export", "html", "--rank", "1", "out.ranks").stdout
    for name, unit in units.items():
        assert f'"name":"{name}","unit":"{unit}"' in page
        assert name not in of_rank


NOT_KNOWN = {"slowest/ns": "", "slowest_rank": "", "imbalance/%": ""}


def test_repeated_jobs_are_given_as_directories(tmp_path: Path) -> None:
    for side, slow in (("base", 1), ("new", 6)):
        for run in range(3):
            job = write(tmp_path / side / f"{run}.ranks", slow=slow)
            for rank in range(RANKS):
                write_rank(job, rank, {"noise": 1000 * run + 1, **step(rank)}, world=RANKS)
    result = view(tmp_path, "--diff", "base", "new")
    assert "means of 3 and 3 runs" in result.stdout and "within noise" in result.stdout
    for run in range(3):
        write(tmp_path / "slow" / f"{run}.ranks", slow=6 + run)
    slowest = view(tmp_path, "--diff", "base", "-m", "slowest/ms", "slow").stdout
    assert re.search(r" slower +(?:└─|├─| |│)*gemm$", slowest, re.M), slowest
    jobs = [f"new/{run}.ranks" for run in range(3)]
    assert view(tmp_path, "--diff", "base", *jobs).stdout == result.stdout


def test_unrelated_profiles_are_not_added_silently(tmp_path: Path) -> None:
    for name in "abcd":
        job = write_rank(tmp_path / f"{name}.ranks", 0, step(0), world=1)
        job.rename(tmp_path / f"{name}.hatchet")
        shutil.rmtree(tmp_path / f"{name}.ranks")
    result = view(tmp_path, "a.hatchet", "b.hatchet")
    assert "sum of 2 profiles that are not ranks of one job: a.hatchet, b.hatchet;" in result.stderr
    assert "a.hatchet, ./b.hatchet, ./c.hatchet, ...;" in view(tmp_path, ".").stderr
    assert view(tmp_path, "--merge", "sum", "a.hatchet", "b.hatchet").stderr == ""
    assert view(tmp_path, "a.hatchet").stderr == ""


def test_a_merged_file_of_an_earlier_launch_is_another_job(tmp_path: Path) -> None:
    write(tmp_path / "out.ranks")
    assert merge(tmp_path, "out.ranks").returncode == 0
    for rank in range(RANKS):
        write_rank(tmp_path / "out.ranks", rank, step(rank), world=RANKS, job="8")
    assert "the sum of 2 " in view(tmp_path, ".").stderr
    result = view(tmp_path, "--ranks", ".")
    assert result.returncode == 2 and "--ranks is about one job" in result.stderr


def test_a_profile_without_a_rank_is_refused(tmp_path: Path) -> None:
    path = write_rank(tmp_path / "a.ranks", 0, step(0), world=1, rank="")
    path.rename(tmp_path / "a.hatchet")
    for options in (["--ranks"], ["--ranks-of", "gemm"], ["--fail-if", "imbalance > 10%"]):
        result = view(tmp_path, *options, "a.hatchet")
        assert (result.returncode, result.stdout) == (2, "")
        assert "a.hatchet is a profile without a rank" in result.stderr
