"""The pytest plugin, run by another pytest on the fake driver."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fake_driver import launcher, run_python

import triton_proton

TESTS = (Path(__file__).parent / "plugin_cases.py").read_text(encoding="utf-8")
COST = """
def test_unused():
    import sys
    assert "triton_proton_pytest" in sys.modules
    loaded = {name for name in sys.modules if name.split(".")[0] in ("triton_proton", "torch")}
    assert not loaded
"""


def run(
    folder: Path, *words: str, text: str = TESTS, time: Any = 1_000_000, **changes: str | None
) -> subprocess.CompletedProcess[str]:
    """Run pytest in `folder` on a test file."""
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -ra\n")
    changes.setdefault("CUDA_VISIBLE_DEVICES", None)
    return run_python(
        folder, "-m", "pytest", "-p", "no:cacheprovider", "-p", "triton_proton_pytest", *words,
        status=None, LAUNCHER=launcher(), TIME=str(time), **changes,
    )


def counts(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """How many tests have passed, failed and so on."""
    last = done.stdout.splitlines()[-1]
    return {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)[, ]", last)}


def saved(folder: Path) -> list[str]:
    """The profiles, without the numbers that keep names apart."""
    return sorted(
        re.sub("-[0-9a-f]{8}/", "/", str(path.relative_to(folder)))
        for path in folder.rglob("*.proton")
    )


def test_a_limit_fails_a_test_with_the_viewers_text(tmp_path):
    done = run(tmp_path, time=4_000_000)
    assert counts(done) == {"failed": 2, "passed": 3}, done.stdout
    assert "gate failed: time/ms 4 >= 3.0 in ROOT\n" in done.stdout
    assert "gate failed: count 1 <= 1 in ROOT\n" in done.stdout
    assert "ERROR" not in done.stdout


def test_limits_that_hold_pass(tmp_path):
    done = run(tmp_path, "-k", "value or change or fixture")
    assert counts(done)["passed"] == 3, done.stdout


def test_profiles_are_a_numbered_history(tmp_path):
    words = ("--proton-save", "runs", "--proton-runs=1", "-k", "value or fixture")
    assert run(tmp_path, *words).returncode == 0
    before = {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*.proton")}
    assert run(tmp_path, *words, time=4_000_000).returncode == 1
    # A test that fails its limit leaves nothing to compare with.
    assert saved(tmp_path / "runs") == [
        "test_it.py_test_fixture/0001.proton", "test_it.py_test_fixture/0002.proton",
        "test_it.py_test_value/0001.proton",
    ]
    assert all(path.read_bytes() == content for path, content in before.items())
    loaded = triton_proton.load(max((tmp_path / "runs").rglob("0002.proton")))
    assert loaded.top()["time/ms"].tolist() == [4]


def test_a_regression_fails_the_test(tmp_path):
    assert run(tmp_path, "--proton-save=runs", "-k", "change or fixture").returncode == 0
    words = ("--proton-compare=runs", "-k", "change or fixture")
    done = run(tmp_path, *words, time=1_100_000)
    # One test has 5 % by default, the other 20 % by its limit.
    assert counts(done)["failed"] == 1 and counts(done)["passed"] == 1, done.stdout
    text = "gate failed: time/ms +10% > +5% in ROOT (before 1, after 1.1, 95 % interval "
    assert text in done.stdout and "Why: not known" in done.stdout
    done = run(tmp_path, *words, time=1_300_000)
    assert "gate failed: time/ms +30% > +20% in matmul_kernel" in done.stdout
    assert run(tmp_path, *words, time=1_000_000).returncode == 0
    # The newest is the base: an accepted change is none any more.
    assert run(tmp_path, "--proton-save=runs", *words[1:], time=1_300_000).returncode == 0
    assert run(tmp_path, *words, time=1_300_000).returncode == 0


# A first call that counts would make the means equal.
NOISE = [
    ("9000000,950000,1000000,1050000", "1,990000,1060000,1130000", 0),
    ("9000000,995000,1000000,1005000", "1,1055000,1060000,1065000", 1),
]


@pytest.mark.parametrize("before, after, failed", NOISE)
def test_several_calls_tell_noise_from_a_change(tmp_path, before, after, failed):
    words = ("--proton-runs=3", "-k", "fixture")
    assert run(tmp_path, "--proton-save=runs", *words, time=before).returncode == 0
    names = ["0001.2.proton", "0001.3.proton", "0001.proton"]
    assert [Path(name).name for name in saved(tmp_path / "runs")] == names
    done = run(tmp_path, "--proton-compare=runs", *words, time=after)
    assert counts(done).get("failed", 0) == failed, done.stdout
    assert not failed or "gate failed: time/ms +6% > +5% in ROOT (before 1, " in done.stdout
    assert (", 95 % interval +" in done.stdout) == bool(failed)
    words = ("--proton-runs=1", "-k", "fixture")
    done = run(tmp_path, "--proton-compare=runs", *words, time=1_060_000)
    assert counts(done)["failed"] == 1 and "cannot estimate noise" in done.stdout


def test_the_marker_has_the_number_of_calls(tmp_path):
    text = TESTS.replace("limit=\"time/ms < 3.0\"", "runs=2")
    assert run(tmp_path, "--proton-save=runs", "-k", "value", text=text).returncode == 0
    assert len(saved(tmp_path / "runs")) == 2


def test_a_test_without_history_has_nothing_to_compare_with(tmp_path):
    assert run(tmp_path, "--proton-compare=runs", "-k", "change or fixture").returncode == 0
    assert not (tmp_path / "runs").exists()


def test_workers_of_xdist_save_and_compare(tmp_path):
    pytest.importorskip("xdist")
    words = ("-n2", "--proton-save=runs", "--proton-compare=runs", "-k", "not host and not method")
    assert run(tmp_path, *words).returncode == 0
    done = run(tmp_path, *words, time=2_000_000)
    assert counts(done)["failed"] == 3, done.stdout
    names = [Path(name).stem for name in saved(tmp_path / "runs")]
    assert names == [*(f"0001.{run}" for run in range(2, 6)), "0001"] * 3


def test_without_a_gpu_tests_are_skipped(tmp_path):
    nothing = {f"PROTON_{name}_PATH": "/nowhere" for name in ("CUDA", "CUPTI", "HIP")}
    done = run(tmp_path, "-k", "value", TRITON_INTERPRET="1", **nothing)
    assert counts(done)["skipped"] == 1, done.stdout
    assert "no usable GPU driver found; PROTON_BACKEND=host profiles the CPU" in done.stdout
    done = run(tmp_path, "-k", "host", TRITON_INTERPRET="1", **nothing)
    assert counts(done)["passed"] == 1, done.stdout


def test_a_disabled_profiler_skips(tmp_path):
    done = run(tmp_path, "-k", "value", TRITON_PROTON_DISABLE="1")
    assert counts(done)["skipped"] == 1 and "triton_proton is disabled" in done.stdout, done.stdout


@pytest.mark.parametrize(
    "limit, message",
    [
        ("time/ms", 'invalid --fail-if "time/ms"; expected METRIC OP'),
        ("nothing > 3", "nothing"),
        ("time > 3", "time has no unit; write time/ms"),
    ],
)
def test_a_limit_that_cannot_be_checked_fails(tmp_path, limit, message):
    done = run(tmp_path, "-k", "value", text=TESTS.replace("time/ms < 3.0", limit))
    assert counts(done)["failed"] == 1 and message in done.stdout, done.stdout


def test_a_failed_test_is_not_judged(tmp_path):
    text = TESTS.replace("        launch()", "        self.fail('wrong')")
    done = run(tmp_path, "--proton-save=runs", "-k", "method", text=text)
    assert "wrong" in done.stdout and "gate failed" not in done.stdout
    assert not (tmp_path / "runs").exists()


def test_it_costs_nothing_where_no_test_uses_it(tmp_path):
    done = run(tmp_path, text=COST)
    assert counts(done)["passed"] == 1, done.stdout


def test_the_package_names_the_plugin_to_pytest():
    from importlib.metadata import entry_points

    found = {point.name: point.value for point in entry_points(group="pytest11")}
    assert found.get("triton_proton_pytest") == "triton_proton_pytest"
