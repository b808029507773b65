"""`triton_proton.bench`: times of calls with planted kernels, on the fake driver."""

import json
import random
from pathlib import Path

import pytest
from fake_driver import launcher, run_program

import triton_proton as proton
from triton_proton._bench import Timing

SUPPORT = """
import ctypes, json, os
import triton_proton as proton

launcher = ctypes.CDLL(os.environ["FAKE_LAUNCHER"])
order = []

def launch(name, us):
    launcher.launch(name, ctypes.c_ulonglong(int(us * 1000)))

def one():
    order.append("a")
    launch(b"load", 10)
    with proton.scope("inner"):
        launch(b"mm", 100 + len(order) % 2)
        launch(b"load", 10)

def other():
    order.append("b")
    launch(b"mm", 90)
"""


def run(tmp_path: Path, text: str) -> list:
    done = run_program(tmp_path, SUPPORT + text, FAKE_LAUNCHER=launcher())
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_times_and_kernels_of_a_function(tmp_path):
    times, kernels, text = run(
        tmp_path,
        """
found = proton.bench(one, reps=20, warmup=3, setup=lambda: launch(b"clear", 1000))
print(json.dumps(found.times_ms)); print(json.dumps(found.kernels)); print(json.dumps(str(found)))
""",
    )
    assert sorted(times) == pytest.approx([0.12] * 10 + [0.121] * 10)
    assert kernels["load"] == pytest.approx([0.02] * 20)
    assert sorted(kernels) == ["load", "mm"]
    assert text.splitlines()[0] == "function: 0.1205 ms (0.1200 to 0.1210)"
    assert text.splitlines()[1:] == ["  0.1005 ms mm", "  0.0200 ms load"]


def test_several_functions_take_turns_and_are_compared(tmp_path):
    order, change, files = run(
        tmp_path,
        """
found = proton.bench({"old": one, "new": other}, reps=40, warmup=0)
print(json.dumps("".join(order)))
print(json.dumps(str(found["new"].against(found["old"]))))
print(json.dumps(sorted(os.listdir("."))))
""",
    )
    turns = {order[i : i + 2] for i in range(0, 80, 2)}
    assert turns == {"ab", "ba"}
    assert change.startswith("-25.3") and "noise" not in change
    assert not [name for name in files if name.startswith("bench")]


def test_kernels_with_launch_metadata_have_rates(tmp_path):
    work, text = run(
        tmp_path,
        """
import triton
from triton_proton.hooks import HookManager

class LazyDict:
    __module__ = "triton.compiler.compiler"
    def __init__(self):
        self.data = {"name": "mm", "function": 0, "stream": 0}
        self.extras = [(lambda *_: {"name": "mm", "flops16": 1e10, "bytes": 4e6}, ((1,), None, {}))]

def multiply():
    metadata = LazyDict()
    HookManager.enter(metadata)
    launch(b"mm", 100)
    HookManager.exit(metadata)
    launch(b"load", 10)

found = proton.bench({"a+b": multiply, "load": lambda: launch(b"load", 10)}, reps=20, warmup=0)
print(json.dumps([list(found["load"].work), found["a+b"].work]))
print(json.dumps(str(found["a+b"])))
""",
    )
    assert work[0] == [] and work[1]["load"] == [0, 0, 0]
    flops, size, util = work[1]["mm"]
    assert (flops, size) == (1e10, 4e6) and 0.08 < util < 0.15  # of about 900 Tflop/s
    rates = f"(100 tflop/s, 40 gbyte/s, util {util:.1%})"
    assert text.splitlines()[1:] == [f"  0.1000 ms mm {rates}", "  0.0100 ms load"]


def test_calls_without_kernels_are_an_error(tmp_path):
    (text,) = run(
        tmp_path,
        """
try:
    proton.bench(lambda: None, reps=5)
except proton.ProtonError as error:
    print(json.dumps(str(error)))
""",
    )
    assert text == "5 of 5 calls of 'function' had no kernels with a time"


def test_wrong_arguments():
    for functions, reps in ((lambda: None, 0), ({}, 5)):
        with pytest.raises(ValueError, match="at least one repetition"):
            proton.bench(functions, reps=reps)
    few = Timing("few", [1.0] * 9, {})
    with pytest.raises(ValueError, match="at least 10"):
        few.against(few)


def test_a_planted_change_is_in_the_interval_and_none_is_within_noise():
    """95 % of the intervals, over simulated pairs with heat that both sides have."""
    values = random.Random(7)
    inside = quiet = 0
    for _ in range(600):  # standard deviation: 5
        heat = [1 + 0.2 * i / 30 for i in range(30)]
        base = [one * values.lognormvariate(0, 0.02) for one in heat]
        same = [one * values.lognormvariate(0, 0.02) for one in heat]
        slow = [one * 1.03 * values.lognormvariate(0, 0.02) for one in heat]
        change = Timing("slow", slow, {}).against(Timing("base", base, {}))
        inside += change.low <= 0.03 <= change.high
        quiet += "within noise" in str(Timing("same", same, {}).against(Timing("base", base, {})))
    assert 555 <= inside <= 585
    assert 555 <= quiet <= 585


def test_the_interval_of_the_median_has_it_in_95_percent():
    values = random.Random(5)
    inside = 0
    for _ in range(400):
        low, high = Timing("a", [values.expovariate(1) for _ in range(50)], {}).interval_ms
        inside += low <= 0.6931 <= high
    assert 372 <= inside <= 396
