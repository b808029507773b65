"""What bench/cuda_python.py makes of its measurements; it needs a GPU for the rest."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    before = set(sys.modules)
    yield importlib.import_module("cuda_python")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCH)):
            del sys.modules[name]


def turns(plain, added):
    return [(one - 0.5, one + more, one + 0.5) for one, more in zip(plain, added)]


# A machine that changes its pace from round to round by more than what is measured.
PACE = [10.0, 14.0, 11.0, 16.0, 12.0, 10.5, 13.0]


def test_added_time_is_found_when_the_machine_s_pace_changes(bench):
    sides = {
        "floor": turns(PACE, [0.5, 0.5, 0.5, 0.6, 0.5, 0.4, 9.0]),
        "ours": turns(PACE, [0.7, 0.7, 5.0, 0.7, 0.7, 0.7, 0.7]),
        "upstream": turns(PACE, [1.8] * 7),
    }
    row = bench.summarize("shadow", sides)
    assert row["plain"] == pytest.approx(12.0)
    assert row["floor"] - row["plain"] == pytest.approx(0.5, abs=0.01)
    assert row["ours"] - row["plain"] == pytest.approx(0.7, abs=0.01)
    assert row["upstream"] - row["plain"] == pytest.approx(1.8, abs=0.01)
    assert row["noise"] == pytest.approx(1 / 12, abs=0.01)
    assert row["met"] is True
    assert "0.3 over the floor and 0.6 of upstream" in row["target"]


@pytest.mark.parametrize(
    "case, ours, met",
    [
        ("shadow", 0.79, True),
        ("shadow", 0.85, False),  # more than 0.3 over the floor
        ("shadow", 1.3, False),  # and more than 0.6 of upstream
        ("python", 0.59, True),
        ("python", 0.61, False),
        ("hook", 0.99, True),
        ("hook", 1.01, False),
    ],
)
def test_targets(bench, case, ours, met):
    sides = {
        "floor": turns(PACE, [0.5] * 7),
        "ours": turns(PACE, [ours] * 7),
        "upstream": turns(PACE, [2.0] * 7),
    }
    assert bench.summarize(case, sides)["met"] is met


def test_without_the_other_profiler_nothing_is_met_or_missed(bench):
    sides = {"floor": turns(PACE, [0.5] * 7), "ours": turns(PACE, [0.7] * 7), "upstream": []}
    for case in bench.CASES:
        row = bench.summarize(case, sides)
        assert row["upstream"] is None and row["met"] is None
