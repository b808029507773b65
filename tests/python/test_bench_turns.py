"""What bench/turns.py and bench/program_turns.py make of processes that take turns."""

import importlib
import json
import math
import os
import random
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
    """
    Rounds in which each side takes its share of what `plain` takes: 1 ms a call, adjusted, and more
    where the machine's pace is slow.
    """

    def chunk(side, share, pace, jitter):
        took = 1e-3 * share * (1 + jitter * (side != "plain"))
        return [took, took * pace, took * pace, 5e-3 * pace]

    return [
        {
            side: {work: [chunk(side, share, pace, jitter)] * 3 for work in ("step", "launch")}
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
    assert "raw CPU time" in row["target"] and "wall time" in row["target"]
    assert row["plain"] == pytest.approx(1e3, abs=1)
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
    assert capsys.readouterr().out == "| launch, proton | us | 9.0 | 9.3 | 10.5 | 9.25 |\n"


ANSWERING = """
import sys
print("something else")
print("loaded", flush=True)
sys.stdin.readline()
print("ready", flush=True)
for line in sys.stdin:
    print("turn [[1.0, 2.0], [1.0, 3.0]]", flush=True)
"""
DYING = "import sys; print('loaded', flush=True); sys.exit('no GPU here')"


def starting(turns, name, *command):
    """A function that starts a side of this Python command."""
    return lambda at: turns.Side(name, [sys.executable, *command], at)


def test_a_side_that_fails_is_named_and_the_others_continue(bench, capfd, tmp_path):
    turns = bench("turns")
    start = {
        "good": starting(turns, "good", "-c", ANSWERING),
        "bad": starting(turns, "bad", "-c", DYING),
        "unloadable": starting(turns, "unloadable", "-c", "import no_such_module"),
    }
    running = turns.Running(start, str(tmp_path / "round"))
    running.load()
    running.warm_up()
    for _ in range(2):
        running.take_turns({"step": {"count": 1}})
    assert running.end() == {"good": {"step": [[1.0, 2.0], [1.0, 3.0]] * 2}}
    printed = capfd.readouterr().out
    assert "the side 'bad' has ended: no GPU here" in printed
    assert "the side 'unloadable' has ended" in printed and "no_such_module" in printed


class Machine:
    """A clock of a machine whose pace drifts and jumps; work takes time on it."""

    def __init__(self, seed):
        self.now = 0.0
        self.random = random.Random(seed)
        self.jump = 1.0

    def __call__(self):
        return self.now

    def work(self, seconds):
        for _ in range(10):
            if self.random.random() < 0.01:
                self.jump = self.random.uniform(1.0, 2.0)
            pace = self.jump * (1.3 + 0.3 * math.sin(2 * math.pi * self.now / 0.7))
            self.now += seconds / 10 * pace * self.random.uniform(0.99, 1.01)


def test_the_pace_of_the_machine_cancels(bench):
    reference, turns = bench("reference"), bench("turns")
    machine = Machine(1)

    def turn(share):
        return reference.take_chunks(
            lambda count: machine.work(count * 0.01 * share), 1, 4, lambda: None,
            lambda: machine.work(0.005), cpu=machine, wall=machine,
        )

    rounds = []
    for _ in range(8):
        found = {side: {"step": []} for side in ("plain", "ours")}
        for _ in range(6):
            for side, share in (("plain", 1.0), ("ours", 1.02)):
                found[side]["step"] += turn(share)
        rounds.append(found)
    power = reference.adjust([side["step"] for one in rounds for side in one.values()])
    assert 0.9 < power <= 1.0
    compared = turns.Compared(rounds, "step", "ours", "plain")
    low, high = compared.interval
    assert compared.more == pytest.approx(0.02, abs=0.005)
    assert 0.01 < low < high < 0.03
    raw = turns.Compared(rounds, "step", "ours", "plain", reference.CPU)
    assert raw.interval[1] - raw.interval[0] > 4 * (high - low)


def test_a_reference_that_tells_nothing_adjusts_nothing(bench):
    reference = bench("reference")
    noise = random.Random(2)
    chunks = [[0.01, 0.01, 0.005 * noise.uniform(1.0, 2.0)] for _ in range(50)]
    assert reference.adjust([chunks]) == 0.0
    assert all(chunk[reference.ADJUSTED] == chunk[reference.CPU] == 0.01 for chunk in chunks)


def test_the_reference_of_a_pace_that_never_changes(bench):
    reference = bench("reference")
    chunks = [[0.01, 0.02, 0.005] for _ in range(3)]
    assert reference.adjust([chunks]) == 1.0
    assert chunks == [[0.01, 0.01, 0.02, 0.005]] * 3
    assert reference.adjust([]) == 1.0


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
        assert {work: len(chunks) for work, chunks in works.items()} == {"step": 6, "launch": 8}
        assert all(0 < figure for chunks in works.values() for one in chunks for figure in one)


def test_a_side_that_records_nothing_is_left_out(programs, monkeypatch, capfd):
    monkeypatch.setenv("TRITON_PROTON_DISABLE", "1")
    (found,) = programs("plain", "late", "proton").measure(1, 1)
    assert list(found) == ["plain"]
    printed = capfd.readouterr().out
    for side in ("late", "proton"):
        assert f"the side '{side}' recorded 0 kernels of 800" in printed


def test_the_time_is_kept_and_complete_rounds_count(programs, capfd):
    begin = time.monotonic()
    found = programs("plain", "late").measure(10000, 1, 2.0)
    assert time.monotonic() - begin < 90  # 10,000 rounds take hours
    assert len(found) < 10000 and all(len(one) == 2 for one in found)
    printed = capfd.readouterr().out
    assert "time is up" in printed or "stopped by SIGALRM" in printed


def test_processes_that_sample_one_gpu_are_never_in_one_round(bench):
    pcsampling, programs = bench("pcsampling"), bench("program_turns")
    made = programs.Programs(pcsampling.CASES, ["launch"], is_exclusive=True)
    rounds = [set(made.sides_of(number)) for number in range(pcsampling.ROUNDS)]
    assert all(len(names & {"samples", "floor", "upstream"}) == 1 for names in rounds)
    # Enough for a judgment, even if time is up earlier.
    assert sum("samples" in names for names in rounds[:12]) >= 9
    assert sum("floor" in names for names in rounds) == 3
    assert sum("upstream" in names for names in rounds) == 1
    assert all({"plain", "records"} <= names for names in rounds)
