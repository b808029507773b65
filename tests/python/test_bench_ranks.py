"""What bench/ranks.py makes of its measurements."""

import importlib
import os
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    before = set(sys.modules)
    yield importlib.import_module("ranks")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCH)):
            del sys.modules[name]


def test_noise_is_half_of_the_interval_and_needs_six_rounds(bench):
    assert bench.figures([2.0, 2.0, 2.0]) == (2.0, None)
    middle, noise = bench.figures([1.0, 1.0, 1.0, 3.0, 3.0, 3.0])
    assert middle == 2.0 and noise == pytest.approx(0.5)


@pytest.mark.parametrize("seconds, megabytes, met", [(1.4, 80, True), (1.6, 90, False)])
def test_targets_are_judged_at_the_standard_size(bench, monkeypatch, seconds, megabytes, met):
    runs = iter([(seconds, 2 * seconds, megabytes * 1_000_000)] * 4)
    monkeypatch.setattr(bench, "run", lambda command: next(runs))
    rows = bench.merging_rows("work", [], 2, 1.5, 85, True)
    assert [row["met"] for row in rows] == [met, met]
    assert [row["ours"] for row in rows] == [seconds, megabytes]
    assert rows[0]["target"] == "at most 1.5 s" and rows[1]["target"] == "at most 85 MB"
    rows = bench.merging_rows("work", [], 2, 1.5, 85, False)
    assert [row["met"] for row in rows] == [None, None]


def test_rows_that_were_not_measured_say_why(bench, monkeypatch):
    monkeypatch.setattr(bench, "why_not_measured", lambda program: "not measured: because")
    rows = bench.scaling_rows("work", ["proton-merge"], 3)
    assert [row["work"] for row in rows] == [
        "work: 1 process of MPI", "work: 2 processes of MPI", "work: 4 processes of MPI",
        "work: 8 processes of MPI",
    ]
    assert {(row["ours"], row["target"]) for row in rows} == {(None, "not measured: because")}


def test_ranks_take_turns_with_the_profiles_that_were_recorded(bench, tmp_path):
    variants = []
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
        variants.append(str(tmp_path / name))
    place = bench.make_job(variants, str(tmp_path / "job.ranks"), 5)
    assert sorted(os.listdir(place)) == [f"rank{n:06}.proton" for n in range(5)]
    assert [(Path(place) / f"rank{n:06}.proton").read_text() for n in range(5)] == list("ababa")
    (tmp_path / "large").write_bytes(b"x" * 50_001)
    row = bench.size_row(str(tmp_path / "large"), 1000)
    assert (row["ours"], row["target"], row["met"]) == (50_000, "at most 50000", False)
