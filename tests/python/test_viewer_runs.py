"""--diff of repeated runs: means, intervals and verdicts, and what gates make of them."""

import csv
import io
import json
import math
import random
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from cmd_support import executable
from support import run_command

Values = dict[str, float]


def write_profile(path: Path, times: Values, other: Values | None = None) -> None:
    """A .hatchet file with kernels of these times in ns, and scopes with a metric "loss"."""
    device = {"device_id": "0", "device_type": "CUDA", "count": 1}
    children = [
        {
            "children": [],
            "frame": {"name": name, "type": "function"},
            "metrics": {"time (ns)": time, **device},
        }
        for name, time in times.items()
    ] + [
        {"children": [], "frame": {"name": name, "type": "function"}, "metrics": {"loss": value}}
        for name, value in (other or {}).items()
    ]
    root = {"name": "ROOT", "type": "function"}
    tree = {"children": children, "frame": root, "metrics": {"time (ns)": 0, "count": 0}}
    info = {"CUDA": {"0": {"arch": "90", "num_sms": 1}}}
    path.write_text(json.dumps([tree, info]))


def write_runs(folder: Path, runs: list[Values]) -> Path:
    folder.mkdir()
    for number, times in enumerate(runs):
        write_profile(folder / f"{number}.hatchet", times)
    return folder


def write_sides(folder: Path, base: list[Values], new: list[Values]) -> tuple[Path, Path]:
    return write_runs(folder / "base", base), write_runs(folder / "new", new)


def viewer(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [executable("proton-viewer"), *map(str, arguments)]
    return run_command(command, status=None)


def compared(*arguments: object) -> dict:
    done = viewer("--json", *arguments)
    assert done.returncode in (0, 3), done.stderr
    return json.loads(done.stdout)


def rows_of(data: dict) -> dict[str, dict]:
    return {row["frame"]: row["metrics"] for row in data["rows"]}


def student_t(df: float) -> float:
    """The two-sided 95 % quantile, by integrating the density over the angle atan(t)."""
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)

    def half(t: float, steps: int = 2000) -> float:
        width = math.atan(t) / steps
        total = 0.0
        for i in range(steps + 1):
            angle = i * width
            weight = 1 if i in (0, steps) else 4 if i % 2 else 2
            density = (1 + math.tan(angle) ** 2 / df) ** (-(df + 1) / 2)
            total += weight * scale * density / math.cos(angle) ** 2
        return total * width / 3

    low, high = 1.9, 13.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if half(middle) < 0.475 else (low, middle)
    return low


def welch(before: list[float], after: list[float]) -> tuple[float, float]:
    parts = [statistics.variance(side) / len(side) for side in (before, after)]
    error = math.sqrt(sum(parts))
    df = sum(parts) ** 2 / sum(
        part**2 / (len(side) - 1) for part, side in zip(parts, (before, after), strict=True)
    )
    return statistics.mean(after) - statistics.mean(before), student_t(df) * error


@pytest.mark.parametrize("seed", range(8))
def test_means_medians_and_intervals_match_independent_formulas(tmp_path, seed):
    rng = random.Random(seed)
    sizes = [rng.randint(2, 7), rng.randint(2, 7)]
    speeds = [1, rng.choice([0.8, 1, 1.02, 1.3])]
    sides = [
        [{"k": int(1e6 * speed * rng.uniform(0.95, 1.05))} for _ in range(size)]
        for size, speed in zip(sizes, speeds, strict=True)
    ]
    base, new = write_sides(tmp_path, sides[0], sides[1])
    before, after = ([run["k"] / 1e6 for run in side] for side in sides)
    data = compared("-m", "time/ms", "--diff", base, new)
    assert data["comparison"].pop("why", "Why: ").startswith("Why: ")  # see test_why.py
    assert data["comparison"] == {"base_runs": sizes[0], "runs": sizes[1], "confidence": 0.95}
    row = rows_of(data)["k"]
    assert row["time/ms before"] == pytest.approx(statistics.mean(before))
    assert row["time/ms after"] == pytest.approx(statistics.mean(after))
    assert row["time/ms median before"] == pytest.approx(statistics.median(before))
    assert row["time/ms median after"] == pytest.approx(statistics.median(after))
    change, error = welch(before, after)
    assert row["time/ms change"] == pytest.approx(change)
    own = (row["time/ms high"] - row["time/ms low"]) / 2
    assert error * 0.9999 < own < error * 1.19
    assert row["time/ms low"] + row["time/ms high"] == pytest.approx(2 * change, abs=1e-9)
    percent = 100 / statistics.mean(before)
    assert row["time/ms low/%"] == pytest.approx(row["time/ms low"] * percent)
    assert row["time/ms high/%"] == pytest.approx(row["time/ms high"] * percent)
    if abs(change) > own:
        assert row["time/ms verdict"] == ("slower" if change > 0 else "faster")
    else:
        assert row["time/ms verdict"] == "within noise"


SLOW = [{"k": 1200}, {"k": 1210}, {"k": 1190}]
FAST = [{"k": 1000}, {"k": 1010}, {"k": 990}, {"k": 1000}]
NOISY = [{"k": 900}, {"k": 1300}, {"k": 1100}]


@pytest.mark.parametrize("order", ["files", "directories", "mean"])
def test_unequal_numbers_of_runs_are_compared_by_their_means(tmp_path, order):
    base, new = write_sides(tmp_path, FAST, FAST[:2] + [{"k": 990}])
    arguments = sorted(new.iterdir()) if order == "files" else [new]
    more = ["--merge", "mean"] if order == "mean" else []
    done = viewer("-m", "time/ns", "--diff", base, *more, "--fail-if", "time < -5%", *arguments)
    assert done.returncode == 0 and "means of 4 and 3 runs" in done.stdout
    assert "within noise" in done.stdout


def test_directories_of_equal_numbers_are_means_too_and_sums_on_demand(tmp_path):
    base, new = write_sides(tmp_path, FAST[:3], SLOW)
    row = rows_of(compared("-m", "time/ns", "--diff", base, new))["k"]
    assert (row["time/ns before"], row["time/ns after"]) == (1000, 1200)
    data = compared("-m", "time/ns", "--merge", "sum", "--diff", base, new)
    assert data["comparison"].pop("why").startswith("Why: ")
    assert data["comparison"] == {"base_runs": 1, "runs": 1, "confidence": None}
    row = rows_of(data)["k"]
    assert (row["time/ns before"], row["time/ns after"]) == (3000, 3600)


@pytest.mark.parametrize("how", [["--json"], ["--fail-if", "time > +5%"], [], ["--export", "csv"]])
def test_sums_of_unequal_numbers_are_refused(tmp_path, how):
    base, new = write_sides(tmp_path, FAST, SLOW)
    done = viewer("--merge", "sum", "--diff", base, *how, new)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "proton-viewer: --merge sum cannot compare the sum of 3 files with the sum of 4 "
        "baseline files; omit it to compare means\n"
    )


def test_files_left_out_do_not_make_sums_unequal_unseen(tmp_path):
    base, new = write_sides(tmp_path, FAST[:3], SLOW)
    (new / "1.hatchet").write_text("")
    done = viewer("--allow-partial", "--merge", "sum", "--diff", base, "--json", new)
    assert (done.returncode, done.stdout) == (2, "")
    assert "sum of 2 files with the sum of 3" in done.stderr
    data = compared("--allow-partial", "--diff", base, new)
    assert data["partial"] and data["comparison"]["runs"] == 2


@pytest.mark.parametrize("merge", ["min", "max", "spread"])
def test_other_merges_are_not_compared(tmp_path, merge):
    base = write_runs(tmp_path / "base", FAST)
    done = viewer("--merge", merge, "--diff", base, base)
    assert done.returncode == 2 and "Cannot specify both --diff and --merge" in done.stderr


def test_a_report_of_several_files_compares_sums_on_demand_only(tmp_path):
    base, new = write_sides(tmp_path, FAST[:3], SLOW)
    output = tmp_path / "x.html"
    done = viewer("--diff", base, "-o", output, new)
    assert done.returncode == 2 and "add --merge sum, or use csv" in done.stderr
    assert viewer("--diff", base, "-o", output, new, new / "1.hatchet").returncode == 2
    assert not output.exists()
    assert viewer("--diff", base, "--merge", "sum", "-o", output, new).returncode == 0


@pytest.mark.parametrize(
    "new, gate, status",
    [
        (SLOW, "time > +5%", 3),
        (SLOW, "time > +30%", 0),
        (SLOW, "time/ns > +100 in ^k$", 3),
        (NOISY, "time > +5%", 0),  # 10 % slower, but not for sure
        (NOISY, "time > +5% in ^k$", 0),
        (NOISY, "time > -5%", 3),  # an improvement was asked for
        (NOISY, "time/ns > 1099", 3),  # values are those of the mean
        (FAST, "time < -5%", 0),
        (FAST[:1], "time < -5%", 0),
        (SLOW[:1], "time > +5%", 3),
    ],
)
def test_gates_fail_beyond_the_limit_and_beyond_noise(tmp_path, new, gate, status):
    base, new = write_sides(tmp_path, FAST, new)
    done = viewer("--diff", base, "--fail-if", gate, "--json", new)
    assert done.returncode == status, done.stderr
    (result,) = json.loads(done.stdout)["gates"]
    assert result["gate"] == gate and result["failed"] == (status == 3)
    assert result["metric"] == ("time/ns" if "/ns" in gate else "time/ms")
    frame = result["frames"][0]
    assert frame["failed"] == (status == 3)
    assert frame["frame"] == ("k" if " in " in gate else "ROOT")
    if len(list(new.iterdir())) == 1:
        assert frame["low"] is frame["high"] is frame["verdict"] is None
        assert "one run: cannot estimate noise" in done.stderr
    else:
        assert frame["low"] <= frame["change"] <= frame["high"] and frame["verdict"]
        for name in ("low", "change", "high"):
            assert frame[f"{name}/%"] == pytest.approx(100 * frame[name] / frame["before"])
    if result["within_noise"]:
        assert "gate passed: " in done.stderr and done.stderr.endswith(": within noise\n")


def test_a_gate_prints_value_unit_and_limit(tmp_path):
    base, new = write_sides(tmp_path, [{"k": 3_000_000}], [{"k": 3_210_000}])
    file = new / "0.hatchet"
    done = viewer("--fail-if", "time/ms > 3.00", file)
    assert done.stderr == "proton-viewer: gate failed: time/ms 3.21 > 3.00 in ROOT\n"
    done = viewer("--diff", base, "--fail-if", "time/ms>=+0.2 in k", file)
    assert done.stderr.endswith("gate failed: time/ms +0.21 >= +0.2 in k (before 3, after 3.21)\n")
    done = viewer("--diff", base, "--fail-if", "time > +5%", file)
    assert done.stderr.endswith("gate failed: time/ms +7% > +5% in ROOT (before 3, after 3.21)\n")
    (result,) = compared("--fail-if", "time/ms > 30", file)["gates"]
    assert result == {
        "gate": "time/ms > 30", "metric": "time/ms", "kind": "value", "operator": ">",
        "limit": 30, "failed": False, "checked": 1, "failures": 0, "within_noise": 0,
        "frames": [{"frame": "ROOT", "failed": False, "value": 3.21}],
    }  # fmt: skip


@pytest.mark.parametrize("gate", ["time > 3", "TIME >= 3", "avg_time < 1 in k", "cpu_time > +2"])
def test_a_time_without_a_unit_is_refused(tmp_path, gate):
    write_profile(tmp_path / "x.hatchet", {"k": 1000})
    done = viewer("--diff", tmp_path / "x.hatchet", "--fail-if", gate, tmp_path / "x.hatchet")
    name = gate.split()[0]
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{name} has no unit; write {name}/ms (or /s, /us, /ns)" in done.stderr
    done = viewer("-m", "avg_time", tmp_path / "x.hatchet")
    assert done.returncode == 2 and "metric avg_time has no unit; write avg_time/ms" in done.stderr


def test_numbers_that_never_vary_are_exact(tmp_path):
    base, new = write_sides(tmp_path, [{"k": 3000}] * 2, [{"k": 3000}] * 3)
    row = rows_of(compared("-m", "time/ns", "--diff", base, new))["k"]
    assert row["time/ns verdict"] == "within noise" and row["time/ns low"] == 0
    more = write_runs(tmp_path / "more", [{"k": 3001}] * 3)
    row = rows_of(compared("-m", "time/ns", "--diff", base, more))["k"]
    assert (row["time/ns verdict"], row["time/ns low"], row["time/ns high"]) == ("slower", 1, 1)


def test_metrics_other_than_time_are_higher_or_lower(tmp_path):
    for name, value in [("base", 1.0), ("new", 2.0)]:
        (tmp_path / name).mkdir()
        for i in range(2):
            write_profile(tmp_path / name / f"{i}.hatchet", {}, {"s": value, "t": -value})
    rows = rows_of(compared("-m", "loss", "--diff", tmp_path / "base", tmp_path / "new"))
    assert rows["s"]["loss verdict"] == "higher" and rows["t"]["loss verdict"] == "lower"


def test_a_frame_of_some_runs_counts_as_0_in_the_others(tmp_path):
    before = [{"k": 10, "gone": 6}, {"k": 10}, {"k": 10}]
    base, new = write_sides(tmp_path, before, [{"k": 10}, {"k": 10, "new": 5}])
    rows = rows_of(compared("-m", "time/ns", "--diff", base, new))
    assert (rows["gone"]["time/ns before"], rows["gone"]["time/ns after"]) == (2, 0)
    assert (rows["new"]["time/ns before"], rows["new"]["time/ns after"]) == (0, 2.5)
    assert rows["gone"]["time/ns median before"] == 0
    assert (rows["gone"]["path"], rows["new"]["path"]) == ("gone", "new")
    # An average is one of the runs that have it.
    rows = rows_of(compared("-m", "avg_time/ns", "--diff", base, new))
    assert rows["gone"]["avg_time/ns before"] == 6 and rows["new"]["avg_time/ns after"] == 5


def test_one_run_of_each_side_is_compared_as_before(tmp_path):
    base, new = write_sides(tmp_path, FAST[:1], SLOW[:1])
    files = [base / "0.hatchet", new / "0.hatchet"]
    assert viewer("--diff", base, new).stdout == viewer("--diff", *files).stdout
    assert "verdict" not in viewer("--diff", *files).stdout
    assert viewer("--diff", *files).stderr == ""


@pytest.mark.parametrize(
    "option",
    [[], ["--top"], ["--bottom-up"], ["--csv"], ["--export", "csv"], ["--export", "folded"]]
    + [["--json", "--fail-if", "time > +5%"], ["--merge", "sum", "--export", "html"]],
)
def test_several_bases_are_the_runs_of_one(tmp_path, option):
    base, new = write_sides(tmp_path, FAST[:3], SLOW[:3])
    first, second = (tmp_path / "first", tmp_path / "second")
    for folder, files in ((first, ["0"]), (second, ["1"])):
        folder.mkdir()
        for name in files:
            (base / f"{name}.hatchet").rename(folder / f"{name}.hatchet")
    parts = ["--diff", first, "--diff-profile", second, "-diff", base / "2.hatchet"]
    several = viewer(*option, *parts, new)
    for folder in (first, second):
        for file in folder.iterdir():
            file.rename(base / file.name)
    one = viewer(*option, "--diff", base, new)
    assert several.returncode == one.returncode and several.stderr == one.stderr
    title = f'"{first} and 2 more"'
    assert "html" not in option or title in several.stdout
    assert several.stdout.replace(title, f'"{base}"') == one.stdout
    assert "k" in one.stdout


def test_a_base_that_is_missing_or_named_twice(tmp_path):
    base, new = write_sides(tmp_path, FAST[:2], SLOW[:2])
    done = viewer("--diff", base, "--diff", tmp_path / "missing", new)
    assert (done.returncode, done.stdout) == (2, "") and "missing" in done.stderr
    done = viewer("--diff", base, "--diff", base / "1.hatchet", new)
    assert done.returncode == 0 and "1.hatchet is named twice" in done.stderr
    assert done.stdout == viewer("--diff", base, new).stdout
    out = base / "0.hatchet_msgpack"  # another form of an input
    out.write_text("kept")
    done = viewer("--diff", new, "--diff", base, "--export", "csv", "-o", out, new)
    assert (done.returncode, out.read_text()) == (2, "kept") and "is an input" in done.stderr


@pytest.mark.parametrize("option", [["--top"], ["--bottom-up"], ["--group", "device"], []])
def test_tables_of_runs_agree(tmp_path, option):
    base, new = write_sides(tmp_path, FAST, SLOW)
    done = viewer("--diff", base, "--csv", "-m", "time/ns", *option, new)
    table = list(csv.DictReader(io.StringIO(done.stdout)))
    row = table[-1] if not option or option == ["--bottom-up"] else table[0]
    assert (float(row["time/ns before"]), float(row["time/ns after"])) == (1000, 1200)
    assert row["time/ns verdict"] == "slower"
    again = viewer("--diff", base, "--csv", "-m", "time/ns", *option, new)
    assert again.stdout == done.stdout


def test_exports_of_runs(tmp_path):
    base, new = write_sides(tmp_path, FAST, SLOW)
    done = viewer("--diff", base, "--export", "folded", new)
    assert done.stdout == "k 1000 1200\n"
    done = viewer("--diff", base, "--export", "csv", new)
    (row,) = [r for r in csv.DictReader(io.StringIO(done.stdout)) if r["name"] == "k"]
    assert row["time/ns verdict"] == "slower" and float(row["time/ns low"]) > 150


def test_a_thousand_different_runs_take_little(tmp_path):
    """Runs that share few frames are stored as what they have, not as a table of all."""
    base = tmp_path / "base"
    base.mkdir()
    for number in range(1000):
        write_profile(base / f"{number}.hatchet", {f"k{number}_{i}": 5 for i in range(20)})
    command = ["bash", "-c", 'ulimit -v 400000; exec "$0" "$@"', executable("proton-viewer")]
    done = run_command([*command, "--diff", base, "--csv", base])
    assert len(done.stdout.splitlines()) == 20002


TWINS = """
import triton_proton as proton
from triton_proton import _libproton

proton.start("run", backend="host")
with proton.scope("step"):
    with proton.scope("gemm", {"flops": 2.0}):
        _libproton.kernel_begin("part")
        _libproton.kernel_end()
    _libproton.kernel_begin("gemm")
    _libproton.kernel_end()
proton.finalize(output_format="proton")
"""


def test_kernel_and_scope_of_one_name_are_one_frame_of_a_run(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", TWINS], cwd=tmp_path, check=True, timeout=300)
    file = tmp_path / "run.proton"
    tree = [row for row in compared("-m", "count", file)["rows"] if row["frame"] == "gemm"]
    assert len(tree) == 2  # in the tree of one file they are apart
    data = compared("--merge", "spread", "-m", "count,flops", file, file)
    rows = [row["metrics"] for row in data["rows"] if row["frame"] == "gemm"]
    assert [(row["count mean"], row["count min"], row["count max"]) for row in rows] == [(2, 2, 2)]
    assert rows[0]["flops mean"] == rows[0]["flops min"] == 2
