"""What bench/intra.py makes of kernels' records; it needs a GPU for the rest."""

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setattr(sys, "argv", ["intra_side.py", "ours"])
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCH)):
            del sys.modules[name]


class Profiler:
    """In the place of the package: a launch takes 10 us, 11 with scopes, every tenth 20 more."""

    def __init__(self, side):
        self.started = []
        self.launches = 0
        self.is_alone = None
        side.proton = self
        side.torch.cuda.synchronize = lambda: None

    def start(self, path, **options):
        self.started.append((path, options))

    def deactivate(self, session, flushing):
        assert flushing and self.is_alone is None
        self.is_alone = True

    def activate(self, session):
        self.is_alone = None

    def launch(self, mark):
        self.launches += 1
        self.is_marked = mark

    def finalize(self):
        path, options = self.started[0]
        assert options["data"] == "trace" and options["backend"] == "cupti"
        assert len(self.started) == 1 + self.is_marked
        events = [{"ph": "M", "name": "process_name"}]
        for number in reversed(range(self.launches)):  # files need not be in order
            first = 1000.0 * (number < 3)  # the cold ones
            late = 20.0 * (number % 10 == 9 and self.is_marked)
            duration = 10.0 + self.is_marked + late + first
            common = {"ph": "X", "ts": 2000.0 * number, "dur": duration, "name": "k"}
            events += [common | {"cat": "kernel"}, common | {"cat": "warp", "dur": 1.0}]
            events.append(common | {"cat": "kernel", "name": "other"})
        Path(path + ".chrome_trace").write_text(json.dumps({"traceEvents": events}))
        self.started.clear()
        self.launches = 0


def test_the_time_of_a_kernel_is_that_of_most_launches(bench, tmp_path):
    side = bench("intra_side")
    profiler = Profiler(side)
    case = side.Case("a kernel", "k", profiler.launch, None)
    found = side.kernel_time(case, str(tmp_path), 50)
    assert found["plain us"] == pytest.approx(10)
    assert found["ratio"] == pytest.approx(1.1)
    assert found["busy ratio"] == pytest.approx(1.1)


def test_missing_records_are_an_error(bench, tmp_path):
    side = bench("intra_side")
    profiler = Profiler(side)

    def launch_once(mark):
        if profiler.launches < 20:
            profiler.launch(mark)

    with pytest.raises(RuntimeError, match="17 records of 50 launches"):
        side.kernel_time(side.Case("a kernel", "k", launch_once, None), str(tmp_path), 50)


def test_rounds_are_compared_in_turns(bench):
    """A device that becomes slower during the measurement is slower for both."""
    side = bench("intra_side")
    pace = [1.0, 1.5, 1.2, 2.0, 1.1]
    plain = [[10 * speed] * 9 for speed in pace]
    marked = [[10.3 * speed] * 8 + [1000.0] for speed in pace]
    found = side.compare(plain, marked)
    assert found["ratio"] == pytest.approx(1.03)


def side_of(ratios):
    return {
        "cases": {
            f"kernel {number}": {
                "identical": True,
                "kernel": ratio and {"plain us": 10.0, "ratio": ratio, "busy ratio": ratio + 0.1},
            }
            for number, ratio in enumerate(ratios)
        }
    }


@pytest.mark.parametrize(
    "ratios, mean, worst",
    [([1.0, 1.02, 1.1], True, True), ([1.0, 1.0, 1.16], False, False), ([1.0, 1.2], False, False)],
)
def test_targets_are_for_all_kernels(bench, ratios, mean, worst):
    rows = {row["work"]: row for row in bench("intra").rows_of({"ours": side_of(ratios)})}
    assert rows["all kernels: kernel time with scopes, mean"]["met"] is mean
    assert rows["all kernels: kernel time with scopes, worst"]["met"] is worst
    assert rows["all kernels: kernel time with scopes, worst"]["ours"] == max(ratios)
    busy = rows["kernel 0: kernel time with scopes, launches back to back"]
    assert busy["ours"] == pytest.approx(ratios[0] + 0.1) and busy["met"] is None
    assert rows["kernel 0: kernel time with scopes"]["met"] is (ratios[0] <= 1.05)


@pytest.mark.parametrize("registers, spills", [(6, 0), (21, 0), (6, 8)])
def test_targets_for_every_kernel_are_checked_for_each(bench, registers, spills):
    side = side_of([1.0, 1.0])
    of_plain = {"launching thread us": 5.0, "back to back us": 9.0, "sustained ms": 0.1}
    for case in side["cases"].values():
        case["plain"] = {**of_plain, "registers": 100, "spills": 0}
        case["marked"] = {**of_plain, "registers": 100 + registers, "spills": spills}
    rows = {row["work"]: row for row in bench("intra").rows_of({"ours": side})}
    for kernel in ("kernel 0", "kernel 1"):
        assert rows[f"{kernel}: more registers"]["met"] is (registers <= 6)
        assert rows[f"{kernel}: spills"]["met"] is (spills == 0)
        assert rows[f"{kernel}: results differ"]["met"] is True
        assert rows[f"{kernel}: launch, back to back"]["met"] is None
    assert rows["kernel 1: kernel time with scopes"]["met"] is None


def test_a_kernel_without_figures_leaves_none_for_all(bench):
    rows = bench("intra").rows_of({"ours": side_of([1.0, None])})
    assert not [row for row in rows if row["work"].startswith("all kernels")]


def auto_side(ratios):
    row = {"identical": True, "all scopes": 9, "budget scopes": 4, "budget registers": 2}
    return {
        "cases": {
            f"kernel {number}": ratio and {**row, "all ratio": 1.5, "budget ratio": ratio}
            for number, ratio in enumerate(ratios)
        }
    }


@pytest.mark.parametrize(
    "ratios, mean, worst", [([1.0, 1.06], True, True), ([1.0, 1.09], False, False)]
)
def test_automatic_scopes_within_a_budget_have_targets(bench, ratios, mean, worst):
    raw = {"ours": side_of([1.02]), "auto": auto_side(ratios)}
    rows = {row["work"]: row for row in bench("intra").rows_of(raw)}
    what = "kernel time with auto=all and a budget"
    assert rows[f"all kernels: {what}, mean"]["met"] is mean
    assert rows[f"all kernels: {what}, worst"]["met"] is worst
    assert rows[f"kernel 1: {what}"]["ours"] == ratios[1]
    assert rows["kernel 0: kernel time with auto=all"]["met"] is None
    assert rows["kernel 0: kernel time with scopes"]["met"] is True
    assert rows["kernel 1: results differ"]["ours"] == 0


def test_a_kernel_that_failed_with_automatic_scopes_leaves_none_for_all(bench):
    rows = bench("intra").rows_of({"auto": auto_side([1.0, None])})
    assert rows and not [row for row in rows if row["work"].startswith("all kernels")]


def test_kernels_with_automatic_scopes_are_timed_in_turns(bench, monkeypatch):
    auto = bench("intra_auto")
    modes = []

    class Compiled:
        metadata = type("Metadata", (), {"proton_layout": "layout\nscope a\nscope b\n"})
        n_regs = 40

    def timed(case, mode):
        modes.append(mode)
        time = {"": 10.0, auto.MODES["all"]: 15.0, auto.MODES["budget"]: 10.3}[mode]
        result = auto.torch.ones(3) * (2 if "off" in mode else 1)
        return auto.Timed(time, result, Compiled)

    monkeypatch.setattr(auto, "timed", timed)
    found = auto.measure(None)
    assert modes[:3] == ["", *auto.MODES.values()] and len(modes) == 9
    assert found["all ratio"] == 1.5 and found["budget ratio"] == pytest.approx(1.03)
    assert found["budget scopes"] == 2 and not found["identical"]


def test_there_are_enough_kernels(bench):
    cases = bench("intra_cases").cases
    torch = bench("torch")
    empty = torch.empty

    def small(*shape, **options):
        return empty(1)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("randn", "empty", "empty_like", "randn_like"):
            patch.setattr(torch, name, small)
        kernels = {case.kernel for case in cases("cpu")}
    assert len(kernels) >= 6
