"""What bench/turns.py and bench/program_turns.py make of processes that take turns."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path

import pytest

from fake_driver import CC, libraries

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch):
    """A function that imports a module of bench/."""
    monkeypatch.syspath_prepend(str(BENCH))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCH)):
            del sys.modules[name]


# A machine that changes its pace from round to round by more than what is measured.
PACE = [1.0, 1.4, 1.1, 1.6, 1.2, 1.05, 1.3, 0.9, 1.0, 1.2]
JITTER = [0.001, -0.002, 0.0, 0.002, -0.001, 0.003, -0.003, 0.001, -0.001, 0.0]


def rounds_of(rounds, **shares):
    """Rounds in which each side takes its share of what `plain` takes, which is 1 ms a call."""
    return [
        {
            side: {
                work: [[1e-3 * pace * share * (1 + jitter * (side != "plain"))] * 2] * 3
                for work in ("step", "launch")
            }
            for side, share in {"plain": 1.0, **shares}.items()
        }
        for pace, jitter in list(zip(PACE, JITTER))[:rounds]
    ]


@pytest.mark.parametrize("count, cut", [(5, 0), (6, 1), (8, 4), (9, 6), (10, 9), (12, 14)])
def test_the_interval_is_that_of_the_signed_rank_test(bench, count, cut):
    """The published critical values of the two-sided test of 5 %, and one."""
    assert bench("turns").signed_rank_cut(count) == cut


def test_the_interval_of_known_values(bench):
    median_interval = bench("turns").median_interval
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 100.0]) == (3.5, (1.0, 100.0))
    assert median_interval([1.0, 2.0]) == (1.5, None)
    middle, (low, high) = median_interval([float(n) for n in range(1, 9)])
    assert (middle, low, high) == (4.5, 2.0, 7.0)


def test_a_difference_is_found_in_spite_of_the_machine_s_pace(bench):
    turns = bench("turns")
    compared = turns.Compared(rounds_of(8, ours=1.05), "step", "ours", "plain")
    assert compared.more == pytest.approx(0.05, abs=0.001)
    assert 0.045 < compared.interval[0] < compared.interval[1] < 0.055
    assert compared.within(0.06) and not compared.within(0.051)


def test_few_rounds_meet_no_target(bench):
    turns = bench("turns")
    assert turns.Compared(rounds_of(8, ours=1.0), "step", "ours", "plain").within(0.01)
    assert not turns.Compared(rounds_of(7, ours=1.0), "step", "ours", "plain").within(0.01)
    assert not turns.Compared([], "step", "ours", "plain").within(0.01)


def all_sides(bench, count, **shares):
    sides = dict.fromkeys(bench("cuda_command").CASES, 1.05)
    del sides["plain"]
    return bench("cuda_command").make_rows(rounds_of(count, **{**sides, **shares}))


def met(rows):
    return {row["work"]: row["met"] for row in rows if row["met"] is not None}


STEP, LAUNCH = "training step of a Llama-shaped model, ", "Python Triton launch, "
JUDGED = ["API started before CUDA", "API started after a warm-up", "proton"]


@pytest.mark.parametrize(
    "shares, missed",
    [
        ({}, []),
        ({"proton": 1.08}, ["proton"]),
        ({"late": 1.08}, ["API started after a warm-up"]),
        ({"early": 1.02}, ["proton"]),  # more than the API, though not more than bare CUPTI
        ({"no children": 1.5, "no nvtx": 1.5, "empty": 1.5, "upstream": 2.0}, []),
    ],
)
def test_targets(bench, shares, missed):
    found = met(all_sides(bench, 8, **shares))
    assert found == {
        work + side: side not in missed for work in (STEP, LAUNCH) for side in JUDGED
    }


def test_rows_of_the_command(bench):
    rows = {row["work"]: row for row in all_sides(bench, 8, upstream=1.25, proton=1.055)}
    row = rows[LAUNCH + "proton"]
    assert row["unit"] == "us of CPU per launch"
    assert row["ours"] / row["plain"] == pytest.approx(1.055, abs=0.003)
    assert row["upstream"] / row["plain"] == pytest.approx(1.25, abs=0.003)
    assert row["floor"] / row["plain"] == pytest.approx(1.05, abs=0.003)
    assert "over the API" in row["target"] and "8 rounds" in row["target"]
    assert rows[LAUNCH + "an empty injection library"]["ours"] is None
    assert rows[LAUNCH + "proton --no-nvtx"]["met"] is None


@pytest.mark.parametrize("count", [0, 3, 7])
def test_results_of_a_run_that_was_cut_short(bench, count, monkeypatch, tmp_path):
    report = bench("report")
    monkeypatch.setattr(report, "RESULTS", str(tmp_path))
    report.write("cuda_command", "a GPU", {}, all_sides(bench, count))
    rows = json.loads((tmp_path / "cuda_command.json").read_text())["rows"]
    assert set(met(rows).values()) == {False}
    assert (rows[0]["plain"] is None) == (count == 0)


def test_new_rows_take_the_place_of_old_ones(bench, monkeypatch, tmp_path):
    report = bench("report")
    monkeypatch.setattr(report, "RESULTS", str(tmp_path))
    report.write("x", "a GPU", {}, [report.row("a", "s", ours=1), report.row("b", "s", ours=2)])
    rows = report.merged("x", [report.row("b", "s", ours=3), report.row("c", "s", ours=4)])
    assert [(row["work"], row["ours"]) for row in rows] == [("a", 1), ("b", 3), ("c", 4)]


def test_rows_for_the_readme(bench, monkeypatch, tmp_path, capsys):
    report = bench("report")
    monkeypatch.setattr(report, "RESULTS", str(tmp_path))
    figures = {"plain": 9.0, "ours": 9.3, "upstream": 10.5, "floor": 9.25}
    rows = [report.row("launch, proton", "us", **figures), report.row("other", "s", plain=1)]
    report.write("x", "a GPU", {}, rows)
    report.main("x", "proton")
    line = "| launch, proton | 9.3 us | 9.0 without a profiler, 9.25 with bare CUPTI, "
    assert capsys.readouterr().out == line + "10.5 with upstream |\n"


ANSWERING = """
import sys
print("something else")
print("ready", flush=True)
for line in sys.stdin:
    print("turn [1.0, 2.0]", flush=True)
"""
DYING = "import sys; print('ready', flush=True); sys.exit('no GPU here')"


def test_a_side_that_fails_is_named_and_the_others_continue(bench, capfd, tmp_path):
    turns = bench("turns")

    def starting(name, program):
        return lambda at: turns.Side(name, [sys.executable, "-c", program], at)

    start = {"good": starting("good", ANSWERING), "bad": starting("bad", DYING)}
    found = turns.take_round(start, {"step": {"count": 1}}, 2, str(tmp_path))
    assert found == {"good": {"step": [[1.0, 2.0]] * 2}}
    assert "the side 'bad' has ended: no GPU here" in capfd.readouterr().out


def test_a_side_that_hangs_is_given_up(bench, tmp_path):
    turns = bench("turns")
    side = turns.Side("slow", [sys.executable, "-c", "input()"], str(tmp_path / "slow"))
    with pytest.raises(turns.SideError, match="has not answered"):
        side.answer("ready", 0.05)
    side.kill()
    assert side.process.returncode is not None


@pytest.fixture
def programs(bench, monkeypatch):
    """A function that makes Programs that launch with the fake libcupti."""
    if CC is None:
        pytest.skip("no C compiler")
    for name, value in {**libraries(), "PROTON_BENCH_FAKE": "1"}.items():
        monkeypatch.setenv(name, value)
    cases = bench("cuda_command").CASES

    def make(*names):
        chosen = {name: cases[name] for name in names}
        counts = {"step": 2, "launch": 50}
        cpu = min(os.sched_getaffinity(0))
        return bench("program_turns").Programs(chosen, list(counts), counts=counts, cpu=cpu)

    return make


def test_processes_take_turns(programs):
    names = ["plain", "early", "late", "proton", "no children", "no nvtx"]
    (found,) = programs(*names).measure(1, 2)
    assert sorted(found) == sorted(names)
    for works in found.values():
        assert {work: len(turns) for work, turns in works.items()} == {"step": 2, "launch": 2}
        assert all(0 < cpu for turns in works.values() for cpu, _ in turns)


def test_a_side_that_records_nothing_is_left_out(programs, monkeypatch, capfd):
    monkeypatch.setenv("TRITON_PROTON_DISABLE", "1")
    (found,) = programs("plain", "late", "proton").measure(1, 1)
    assert list(found) == ["plain"]
    said = capfd.readouterr().out
    for side in ("late", "proton"):
        assert f"the side '{side}' recorded 0 kernels of 250" in said


def test_the_time_is_kept_and_complete_rounds_count(programs, capfd):
    begin = time.monotonic()
    found = programs("plain", "late").measure(10000, 1, 2.0)
    assert time.monotonic() - begin < 20
    assert len(found) < 10000 and all(len(one) == 2 for one in found)
    said = capfd.readouterr().out
    assert "time is up" in said or "stopped by SIGALRM" in said
