"""The sentence of --diff about the cause of a change: pairs of profiles with one cause each."""

import json
from pathlib import Path
from typing import Any, Optional

import pytest

from cmd_support import executable
from support import run_command

CONFIG = {
    "grid": [64, 1, 1], "block": [128, 1, 1], "registers": 168, "static_shared (bytes)": 0,
    "dynamic_shared (bytes)": 1024,
}
STATE = {
    "gpu0_sm_clock_mhz": "1900 1980 1980", "gpu0_power_limit_w": "700 700 700",
    "gpu0_throttle_reasons": "none", "gpu0_other_processes": "0 0 0", "nvidia_driver": "580.1",
    "host": "a",
}
UNKNOWN = "not known: no difference in launches, configurations{} or versions explains it"
ONE_RUN = "; one run of a side cannot show noise"


def profile(
    time: float = 1000, count: int = 10, config: Optional[dict[str, Any]] = None,
    info: Optional[dict[str, str]] = None, gpu: str = "90", flops: float = 1e9,
    kernel: str = "matmul",
) -> list[Any]:
    """A hatchet file with a kernel that takes `time` in all, and one that does not change."""
    children = [
        {
            "frame": {"name": name, "type": "function"},
            "metrics": {
                "time (ns)": taken, "count": launches, "flops16": work, "device_id": "0",
                "device_type": "CUDA",
            },
            "proton": {
                "configs": [{**CONFIG, **(config or {}), "count": launches, "time (ns)": taken}]
            },
            "children": [],
        }
        for name, taken, launches, work in ((kernel, time, count, flops), ("add", 500, 5, 0))
    ]
    return [
        {
            "frame": {"name": "ROOT", "type": "function"},
            "metrics": {"time (ns)": 0, "count": 0, "flops16": 0},
            "children": children,
            "proton": {"info": {**STATE, **(info or {})}},
        },
        {"CUDA": {"0": {"arch": gpu, "num_sms": 132}}},
    ]


def write(folder: Path, name: str, runs: list[list[Any]]) -> Path:
    (folder / name).mkdir()
    for number, run in enumerate(runs):
        (folder / name / f"{number}.hatchet").write_text(json.dumps(run))
    return folder / name


def why(folder: Path, before: list[Any], after: list[Any], *words: str) -> Optional[str]:
    """The sentence below the table and in the JSON; each side is a list of runs."""
    sides = ["--diff", write(folder, "before", before), write(folder, "after", after), *words]
    text = run_command([executable("proton-viewer"), *sides]).stdout
    last = text.splitlines()[-1]
    data = json.loads(run_command([executable("proton-viewer"), "--json", *sides]).stdout)
    assert data["comparison"].get("why") == (last if last.startswith("Why: ") else None)
    return last[len("Why: ") :] if last.startswith("Why: ") else None


def state(**changes: str) -> dict[str, str]:
    return {f"gpu0_{key}" if key[0] != "_" else key[1:]: value for key, value in changes.items()}


PAIRS = {
    "launches": (dict(time=2000, count=20), "matmul has 20 launches, before 10"),
    "fewer launches": (dict(time=500, count=5), "matmul has 5 launches, before 10"),
    "grid and block": (
        dict(time=1500, config={"grid": [32, 2, 1], "block": [256, 1, 1]}),
        "matmul is launched in another way, grid 32x2x1, before 64x1x1, block 256x1x1, before "
        "128x1x1",
    ),
    "registers and memory": (
        dict(time=1500, config={"registers": 255, "static_shared (bytes)": 16}),
        "matmul is launched in another way, registers 255, before 168, bytes of shared memory "
        "1040, before 1024",
    ),
    "shapes or blocks": (
        dict(time=1500, config={"grid": [128, 1, 1]}),
        "matmul has other shapes or blocks, grid 128x1x1, before 64x1x1",
    ),
    "shapes and configuration": (
        dict(time=2000, flops=2e9, config={"grid": [128, 1, 1], "registers": 255}),
        "matmul has other shapes or code, 2e+09 flops, before 1e+09, grid 128x1x1, before 64x1x1, "
        "registers 255, before 168",
    ),
    "shapes and grid": (
        dict(time=2000, flops=2e9, config={"grid": [128, 1, 1]}),
        "matmul has other shapes, 2e+09 flops, before 1e+09, grid 128x1x1, before 64x1x1",
    ),
    "shapes": (dict(time=2000, flops=2e9), "matmul has other shapes, 2e+09 flops, before 1e+09"),
    "clock": (
        dict(time=1300, info=state(sm_clock_mhz="1200 1400 1500")),
        "the SM clock was 1400 MHz, before 1980",
    ),
    "faster clock": (
        dict(time=800, info=state(sm_clock_mhz="2475 2475 2475")),
        "the SM clock was 2475 MHz, before 1980",
    ),
    "clock and reason": (
        dict(time=1300, info=state(sm_clock_mhz="1 1400 2", throttle_reasons="power cap, thermal")),
        "the SM clock was 1400 MHz, before 1980 (power cap, thermal)",
    ),
    "too small a clock": (
        dict(time=1500, info=state(sm_clock_mhz="1900 1900 1900")),
        UNKNOWN.format(", clocks") + ONE_RUN,
    ),
    "clock in the other direction": (
        dict(time=700, info=state(sm_clock_mhz="1000 1000 1000")),
        UNKNOWN.format(", clocks") + ONE_RUN,
    ),
    "processes": (
        dict(time=1500, info=state(other_processes="1 1.5 2", sm_clock_mhz="1 1300 2")),
        "other processes on the GPU: 1.5, before 0",
    ),
    "fewer processes cannot slow it": (
        dict(time=900, info=state(other_processes="1 1.5 2")),
        UNKNOWN.format(", clocks") + ONE_RUN,
    ),
    "power limit": (
        dict(time=1500, info=state(power_limit_w="350 350 350")),
        "the power limit is 350 W, before 700",
    ),
    "throttling": (
        dict(time=1500, info=state(throttle_reasons="thermal")),
        "clocks were lowered by: thermal, before nothing",
    ),
    "GPU": (dict(time=700, gpu="100", count=5), "another GPU: 100 instead of 90"),
    "driver": (
        dict(time=1500, info=state(_nvidia_driver="590.2", _host="b")),
        "the NVIDIA driver is 590.2, before 580.1",
    ),
    "machine": (dict(time=1500, info=state(_host="b")), "the machine is b, before a"),
    "new kernel": (dict(kernel="mm", time=1001), "mm has 10 launches, before 0"),
    "nothing known": (dict(time=1500), UNKNOWN.format(", clocks") + ONE_RUN),
    "no change": (dict(), None),
    "C++": (
        dict(kernel="_ZN2at6native4fillIfEEvPT_", time=5000),
        "fill<float> has 10 launches, before 0",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_first_cause_is_named(tmp_path, name):
    changes, sentence = PAIRS[name]
    assert why(tmp_path, [profile()], [profile(**changes)]) == sentence


def test_profiles_without_clocks_say_nothing_about_them(tmp_path):
    runs = [profile(), profile(time=1500)]
    for run in runs:
        run[0]["proton"]["info"] = {"host": "a"}
        for child in run[0]["children"]:
            del child["proton"]
    assert why(tmp_path, runs[:1], runs[1:]) == UNKNOWN.format("") + ONE_RUN


@pytest.mark.parametrize(
    "times, sentence",
    [
        ((900, 1000, 1300), "noise: the interval of the change contains 0"),
        ((1500, 1510, 1520), UNKNOWN.format(", clocks")),
        ((2000, 2010, 2020), "matmul has 20 launches, before 10"),
    ],
)
def test_several_runs_tell_noise_from_a_change(tmp_path, times, sentence):
    before = [profile(time=time) for time in (990, 1000, 1010)]
    count = 20 if times[0] == 2000 else 10
    after = [profile(time=time, count=count) for time in times]
    assert why(tmp_path, before, after) == sentence


def test_clocks_are_means_over_runs(tmp_path):
    before = [profile(time=time) for time in (990, 1010)]
    clocks = [state(sm_clock_mhz=f"1 {mhz} 2") for mhz in (1200, 1400)]
    after = [profile(time=1500, info=clocks[0]), profile(time=1510, info=clocks[1])]
    assert why(tmp_path, before, after) == "the SM clock was 1300 MHz, before 1980"


def test_only_times_are_explained(tmp_path):
    assert why(tmp_path, [profile()], [profile(time=2000, count=20)], "-m", "count") is None


def test_malformed_information_is_not_a_clock(tmp_path):
    for number, text in enumerate(("", "x y z", "1", "1 nan 2", "1 -5 2", "1 1e999 2")):
        folder = tmp_path / str(number)
        folder.mkdir()
        after = profile(time=1500, info=state(sm_clock_mhz=text))
        assert why(folder, [profile()], [after]) == UNKNOWN.format("") + ONE_RUN


def test_a_gate_that_fails_has_the_cause(tmp_path):
    sides = [write(tmp_path, "before", [profile()]), write(tmp_path, "after", [profile(time=2000)])]
    command = [executable("proton-viewer"), "--fail-if", "time > +5%", "--diff", *sides]
    text = run_command(command, status=3)
    assert text.stdout.splitlines()[-1].startswith("Why: not known") and "Why" not in text.stderr
    table = run_command([*command, "--csv"], status=3)
    assert table.stderr.splitlines()[-1].startswith("proton-viewer: Why: not known")
