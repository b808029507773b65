"""Whether comparisons tell a change from noise, and name its cause, on an NVIDIA GPU under load.

    python bench/explain.py [--pairs N] [--trials N] [--keep DIR] [--fake] [--write]

Needs a GPU, torch, triton and the installed package; on an H100 it takes about four minutes. The
kernel under test takes 0.3 ms; matrix products before each run keep the GPU hot, more of them in
some minutes than in others.

Alarms: `--pairs` comparisons of runs of the same kernel, and as many with 3 % more work, both as
`proton-viewer --diff --fail-if 'time > +1%' --fail-if 'time < -1%'` judges them, with 10 runs of
each side in turns, and as `proton.bench` does, with 20 calls of each. An alarm is a change of more
than 1 % with an interval that does not contain 0.

Causes: `--trials` comparisons per cause, of which one side differs by it. Clocks are lowered by the
data: a product of random numbers takes more power than one of zeros. Another process multiplies
matrices on the same GPU. A cause is right if the sentence "Why:" names it. The power limit of a GPU
is not ours to change: that cause is in --fake alone, which plants all of them in tests/fake and
needs no GPU.

--keep writes each comparison to DIR/explain.jsonl, and the profiles of each cause's first trial.
--write stores bench/results/explain.json.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import report
from cuda_python import fake_environment
from run import ROOT

import triton_proton as proton

GATES = ("time > +1%", "time < -1%")
RUNS = 10
CALLS = 20
STEPS = 4000
CTAS = 264
BLOCK = 1024
GEMM = 8192
ALARMS, FOUND, RIGHT = 0.01, 0.95, 0.9  # limits of shares

NEIGHBOR = f"""
import sys, threading, torch
a = torch.randn({GEMM}, {GEMM}, device="cuda", dtype=torch.bfloat16)
torch.mm(a, a)
torch.cuda.synchronize()
print("ready", flush=True)
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
while not ended.is_set():
    for _ in range(10):
        torch.mm(a, a)
    torch.cuda.synchronize()
"""


@dataclasses.dataclass(frozen=True)
class Side:
    """The work of a run."""

    steps: int = STEPS
    ctas: int = CTAS
    warps: int = 4
    code: bool = False
    launches: int = 3
    data: Optional[str] = None  # of matrix products in place of the kernel: "zeros", "random"
    neighbor: bool = False
    watts: int = 700  # the limit
    hook: Optional[str] = "triton"


# A cause, the runs of a side, the two sides, and what the sentence has to say.
BUSY, BASE, GEMMS = Side(launches=60), Side(launches=20), Side(launches=1000, hook=None)
CAUSES: dict[str, tuple[int, Side, Side, str]] = {}


def cause(name: str, base: Side, sentence: str, runs: int = 3, **changes: Any) -> None:
    CAUSES[name] = runs, base, dataclasses.replace(base, **changes), sentence


cause("another configuration", BASE, "is launched in another way", warps=1)
cause("other code", BASE, "has other shapes or code, |machine code", code=True)
cause("other code, without flops", dataclasses.replace(BASE, hook=None),
      "is launched in another way|machine code", code=True)  # fmt: skip
cause("other shapes", BASE, "has other shapes, ", ctas=2 * CTAS)
cause("other shapes, without flops", dataclasses.replace(BASE, hook=None),
      "has other shapes or blocks", ctas=2 * CTAS)  # fmt: skip
cause("more launches", BASE, "has 24 launches, before 20", launches=24)
cause("another process", BUSY, "other processes on the GPU", runs=8, neighbor=True)
cause("lower clocks", dataclasses.replace(GEMMS, data="zeros"),
      "the SM clock was|clocks were lowered", data="random")  # fmt: skip
cause("power limit", BASE, "the power limit is 400 W", watts=400)


def describe(grid: Any, metadata: Any, args: Any) -> dict[str, Any]:
    """The kernel's launch metadata."""
    per_step = 6.0 if args["CODE"] else 3.0
    return {"name": "work", "flops32": per_step * BLOCK * grid[0] * args["steps"]}


class Gpu:
    """The real one."""

    def __init__(self) -> None:
        import torch
        import triton
        import triton.language as tl

        globals()["tl"] = tl

        @triton.jit(launch_metadata=describe)
        def work(x, steps, BLOCK: tl.constexpr, CODE: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            value = tl.load(x + at)
            other = value * 0.25
            for _ in range(steps):
                value = tl.sqrt(value * 0.5 + 0.25)
                if CODE:
                    other = tl.sqrt(other * 0.5 + value)
            tl.store(x + at, value + other)

        self._work, self._torch = work, torch
        self._numbers = torch.rand(BLOCK * CTAS * 2, device="cuda")
        random_numbers = torch.randn(GEMM, GEMM, device="cuda", dtype=torch.bfloat16)
        self._matrices = {
            "random": random_numbers, "zeros": torch.zeros_like(random_numbers),
        }  # fmt: skip
        self._product = torch.empty_like(random_numbers)

    def prepare(self, side: Side) -> None:
        """Before a session: nothing to do."""

    def launch(self, side: Side) -> None:
        for _ in range(side.launches):
            if side.data is not None:
                matrix = self._matrices[side.data]
                self._torch.mm(matrix, matrix, out=self._product)
            else:
                self._work[(side.ctas,)](
                    self._numbers, side.steps, BLOCK, side.code, num_warps=side.warps
                )

    def heat(self, products: int) -> None:
        self.launch(Side(launches=products, data="random"))

    def wait(self) -> None:
        self._torch.cuda.synchronize()

    def neighbor(self) -> Any:
        child = subprocess.Popen(
            [sys.executable, "-c", NEIGHBOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        if child.stdout.readline() != b"ready\n":
            raise RuntimeError("the other process did not start")
        return child

    def leave(self, child: Any) -> None:
        child.communicate(timeout=60)


class LazyDict:
    """The argument that Triton passes to its hooks."""

    __module__ = "triton.compiler.compiler"

    def __init__(self, side: Side) -> None:
        self.data = {"name": "work", "function": 0, "stream": 0}
        args = {"steps": side.steps, "CODE": side.code}
        self.extras = [(describe, ((side.ctas,), None, args))]


class Fake:
    """tests/fake with times of a model: proportional to the work and the clock, with noise."""

    def __init__(self) -> None:
        from fake_driver import LAUNCH_STRUCT

        names: dict[str, Any] = {"ctypes": ctypes}
        exec(LAUNCH_STRUCT, names)
        self._struct = names["Launch"]
        self._cupti = ctypes.CDLL(os.environ["PROTON_CUPTI_PATH"])
        self._nvml = ctypes.CDLL(os.environ["PROTON_NVML_PATH"])
        ctypes.CDLL(os.environ["PROTON_CUDA_PATH"]).cuInit(0)
        self._random = random.Random(1)
        self._now_ns = 1000
        self._is_shared = False
        self._heat = 0
        self._mhz = 1980
        self._names = (b"gemm", b"work")

    def _set(self, **values: int) -> None:
        for name, value in values.items():
            self._nvml.fake_nvml_set(name.encode(), ctypes.c_ulonglong(value))

    def prepare(self, side: Side) -> None:
        is_hot = side.data == "random"
        self._mhz = 1500 if is_hot else 1980 - self._heat
        self._set(sm=self._mhz, limit=side.watts * 1000, processes=1 + self._is_shared,
                  reasons=4 if is_hot else 0)  # fmt: skip

    def launch(self, side: Side) -> None:
        from triton_proton.hooks import HookManager

        longer = (1980 / self._mhz) * (1 + self._is_shared) * (1 + side.code) * 4 / side.warps
        longer *= 1400 / side.watts - 1 if side.watts < 700 else 1
        us = 300 * side.steps / STEPS * side.ctas / CTAS * longer
        for _ in range(side.launches):
            one = self._struct(call=307, name=self._names[side.data is None], context=1, stream=7,
                               records=1, start_ns=self._now_ns)  # fmt: skip
            self._now_ns += int(us * 1000 * self._random.lognormvariate(0, 0.01))
            one.end_ns = self._now_ns
            one.config[:] = (side.ctas, 1, 1, 32 * side.warps, 1, 1, 40 + 8 * side.code, 0, 0)
            metadata = LazyDict(side)
            HookManager.enter(metadata)
            self._cupti.fake_launch(ctypes.byref(one))
            HookManager.exit(metadata)

    def heat(self, products: int) -> None:
        self._heat = 20 * products

    def wait(self) -> None:
        pass

    def neighbor(self) -> Any:
        self._is_shared = True

    def leave(self, child: Any) -> None:
        self._is_shared = False


def products(turn: int) -> int:
    """Matrix products before a run: their number rises and falls over 40 comparisons."""
    return 2 + round(2 * math.sin(turn * math.pi / 20))


class Measurement:
    """Comparisons in a folder."""

    def __init__(self, machine: Any, folder: Path, keep: Optional[Path]) -> None:
        self.machine = machine
        self._folder = folder
        self._keep = keep
        self._order = random.Random(0)
        self._begin = time.monotonic()

    def progress(self, text: str) -> None:
        print(f"{time.monotonic() - self._begin:5.0f} s  {text}", file=sys.stderr, flush=True)

    def note(self, **values: Any) -> None:
        if self._keep is not None:
            with open(self._keep / "explain.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(values) + "\n")

    def record(self, side: Side, path: Path) -> None:
        self.machine.prepare(side)
        session = proton.start(str(path), hook=side.hook)
        self.machine.launch(side)
        proton.finalize(session, "proton")

    def fresh(self) -> Path:
        shutil.rmtree(self._folder, ignore_errors=True)
        for name in ("before", "after"):
            (self._folder / name).mkdir(parents=True)
        return self._folder

    def keep(self, name: str) -> None:
        if self._keep is not None:
            kept = self._keep / re.sub(r"\W+", "_", name)
            shutil.copytree(self._folder, kept, ignore=shutil.ignore_patterns("all"))

    def pairs(self, sides: dict[str, Side], runs: int, heat: int) -> None:
        """Runs of both sides in turns."""
        for number in range(runs):
            for name in self._order.sample(list(sides), len(sides)):
                self.machine.heat(heat)
                self.record(sides[name], self._folder / name / f"{number:02}")

    def judge(self, **values: Any) -> tuple[bool, str]:
        """Whether a gate fails, and the sentence."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before, after = (
                proton.load(sorted((self._folder / name).iterdir())) for name in ("before", "after")
            )
            changed = after.metrics("time/ms").diff(before)
            why = json.loads(changed.to_json())["comparison"].get("why")
            is_alarm = bool(changed.failures(*GATES))
            names = ("before", "after", "change/%", "low/%", "high/%")
            numbers = {name: changed[f"time/ms {name}"][0] for name in names}
        why = (why or "Why: noise").removeprefix("Why: ")
        self.note(**values, alarm=is_alarm, why=why, **numbers)
        return is_alarm, why


def gates(m: Measurement, count: int, after: Side) -> tuple[list[bool], list[str]]:
    """Whether a gate failed, and the sentence, of each comparison."""
    before = Side(hook=None)
    alarms, sentences = [], []
    outer = proton.start(str(m.fresh() / "outer"))  # CUPTI stays attached
    for number in range(count):
        for name in ("before", "after"):
            shutil.rmtree(m._folder / name, ignore_errors=True)
            (m._folder / name).mkdir()
        m.pairs({"before": before, "after": after}, RUNS, products(number))
        is_alarm, why = m.judge(part="gates", steps=after.steps)
        alarms.append(is_alarm)
        sentences.append(why)
    proton.finalize(outer, "none")
    return alarms, sentences


def calls(m: Measurement, count: int, after: Side) -> tuple[list[bool], list[bool]]:
    """An alarm of proton.bench, and an interval without 0, of each comparison."""
    alarms, outside = [], []
    one = Side(launches=1, hook=None)
    for number in range(count):
        found = proton.bench(
            {
                "before": lambda: m.machine.launch(dataclasses.replace(one, steps=STEPS)),
                "after": lambda: m.machine.launch(dataclasses.replace(one, steps=after.steps)),
            },
            reps=CALLS,
            warmup=1,
            setup=lambda heat=products(number): m.machine.heat(heat),
        )
        change = found["after"].against(found["before"])
        is_outside = not change.low <= 0 <= change.high
        outside.append(is_outside)
        alarms.append(is_outside and abs(change.change) > 0.01)
        m.note(part="calls", steps=after.steps, **change._asdict())
    return alarms, outside


def trials(m: Measurement, name: str, count: int) -> Iterator[bool]:
    """Whether the sentence names the cause."""
    runs, before, after, sentence = CAUSES[name]
    if after.neighbor:
        yield from next_to_another(m, name, count)
        return
    for number in range(count):
        m.fresh()
        m.pairs({"before": before, "after": after}, runs, 0)
        why = m.judge(part="cause", cause=name)[1]
        if number == 0:
            m.keep(name)
        yield re.search(sentence, why) is not None


def next_to_another(m: Measurement, name: str, count: int) -> Iterator[bool]:
    """The same with a neighbor of one side, which starts once, after all runs of the other."""
    runs, before, after, sentence = CAUSES[name]
    stored = m.fresh() / "all"
    for side_name, side in (("before", before), ("after", after)):
        child = m.machine.neighbor() if side.neighbor else None
        for trial in range(count):
            (stored / f"{trial}" / side_name).mkdir(parents=True)
            for number in range(runs):
                m.record(side, stored / f"{trial}" / side_name / f"{number:02}")
    m.machine.leave(child)
    for trial in range(count):
        for side_name in ("before", "after"):
            shutil.rmtree(m._folder / side_name)
            shutil.move(stored / f"{trial}" / side_name, m._folder / side_name)
        why = m.judge(part="cause", cause=name)[1]
        if trial == 0:
            m.keep(name)
        yield re.search(sentence, why) is not None


def share(found: list[bool]) -> float:
    return sum(found) / len(found)


def limited(work: str, found: list[bool], limit: float, is_max: bool = False) -> dict[str, Any]:
    value = share(found)
    return report.row(
        f"{work}, {len(found)} comparisons",
        "share",
        ours=value,
        target=f"at most {limit:g}" if is_max else f"at least {limit:g}",
        met=value <= limit if is_max else value >= limit,
    )


def measure(m: Measurement, pairs: int, count: int, names: list[str]) -> list[dict[str, Any]]:
    same, more = Side(hook=None), Side(hook=None, steps=STEPS * 103 // 100)
    for side in [same, more, *(side for name in names for side in CAUSES[name][1:3])]:
        m.machine.launch(dataclasses.replace(side, launches=1))
    m.machine.wait()
    quiet, sentences = gates(m, pairs, same)
    m.progress("gates, nothing changed")
    loud, _ = gates(m, pairs, more)
    m.progress("gates, 3 % more work")
    quiet_calls, outside = calls(m, pairs, same)
    m.progress("calls, nothing changed")
    loud_calls, _ = calls(m, pairs, more)
    m.progress("calls, 3 % more work")
    rows = [
        limited("alarms of gates, nothing changed", quiet, ALARMS, is_max=True),
        limited("alarms of proton.bench, nothing changed", quiet_calls, ALARMS, is_max=True),
        report.row(f"intervals of proton.bench without 0, nothing changed, {pairs} comparisons",
                   "share", ours=share(outside)),
        limited("found by gates, 3 % more work", loud, FOUND),
        limited("found by proton.bench, 3 % more work", loud_calls, FOUND),
    ]  # fmt: skip
    is_right = {"nothing": [why.startswith("noise") for why in sentences]}
    for name in names:
        is_right[name] = list(trials(m, name, max(1, count // 2 if "clocks" in name else count)))
        m.progress(f"cause: {name}")
    for name, found in is_right.items():
        work = f"cause named: {name}, {len(found)} comparisons"
        rows.append(report.row(work, "share", ours=share(found)))
    # Each cause counts alike, however often it was tried.
    mean = sum(map(share, is_right.values())) / len(is_right)
    rows.append(report.row(f"cause named, mean of {len(is_right)} causes", "share", ours=mean,
                           target=f"at least {RIGHT:g}", met=mean >= RIGHT))  # fmt: skip
    return rows


def machine_of(options: argparse.Namespace) -> tuple[Callable[[], Any], list[str]]:
    names = [name for name in CAUSES if options.fake or name != "power limit"]
    if not options.fake:
        return Gpu, names
    sys.path.insert(0, os.path.join(ROOT, "tests", "python"))
    os.environ["PROTON_TEST_BUILD"] = os.path.abspath(options.build)
    fake_environment(options.build)
    fakes = Path(os.path.abspath(options.build), "tests", "fake")
    os.environ["PROTON_NVML_PATH"] = str(fakes / "libfake_nvml.so")
    return Fake, names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=200, help="comparisons for alarms")
    parser.add_argument("--trials", type=int, default=12, help="comparisons per cause")
    parser.add_argument("--keep", type=Path, help="a new folder for what was compared")
    parser.add_argument("--fake", action="store_true", help="try it out without a GPU")
    parser.add_argument("--write", action="store_true", help="store bench/results/explain.json")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="with the fakes")
    options = parser.parse_args()
    make, names = machine_of(options)
    if options.keep is not None:
        options.keep.mkdir(parents=True)
    # Profiles are written to the disk, which takes longer than a run.
    memory = next(filter(os.path.isdir, ["/dev/shm"]), None)
    with tempfile.TemporaryDirectory(dir=memory) as scratch:
        measurement = Measurement(make(), Path(scratch, "runs"), options.keep)
        rows = measure(measurement, options.pairs, options.trials, names)
    for row in rows:
        report.show(row)
    if options.write and not options.fake:
        report.write(
            "explain", report.gpu(), report.versions("triton_proton", "triton", "torch"), rows
        )
    return 1 if any(row["met"] is False for row in rows) and not options.fake else 0


if __name__ == "__main__":
    sys.exit(main())
