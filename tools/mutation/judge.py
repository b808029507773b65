"""Workers: each has a page, finds the places that tests reach, and judges mutants."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

from mutation.schemata import Page
from mutation.units import Suite, Unit, become_subreaper, failure_of

# Limits in seconds: of one file of Python tests, and of the start of pytest.
FILE_LIMIT = 900
PYTEST_START = 15
SLOWDOWN = 8
# A place that many tests reach is reached by chance in most of them: near tests go first.
SECONDS_PER_PLACE = 0.005
# More variants of a test than these wait until everything else has run.
VARIANTS = 4
# Seconds of tests in one process of pytest: a few quick and near ones go first.
BATCHES = (4.0, 30.0)

suite: Suite
page: Page
temporary: Path


def start_worker(numbers: Any, the_suite: Suite, folder: Path) -> None:
    """In a new worker."""
    global suite, page, temporary
    number = numbers.get()
    suite, page, temporary = the_suite, Page(the_suite.pages, number), folder / str(number)
    page.use()
    page.switch(0)
    become_subreaper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process ends the workers
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def cpu_seconds() -> float:
    """The processor time of everything that this worker has started."""
    times = os.times()
    return times.children_user + times.children_system


def reach(work: Unit | Path) -> list[Unit]:
    """Run a C unit or a file of Python tests without a mutant."""
    page.switch(0)
    page.clear()
    began = time.monotonic()
    if isinstance(work, Unit):
        outcome = suite.run_c(work, temporary, FILE_LIMIT)
        work.seconds = round(time.monotonic() - began, 3)
        work.reached, work.good = page.reached(), outcome.status == 0
        return [work]
    log = temporary.with_suffix(".reach")
    log.unlink(missing_ok=True)
    name = str(work.relative_to(suite.source))
    suite.run_pytest([name], temporary, FILE_LIMIT, str(log))
    key = suite.file_key(work)
    lines = log.read_text().splitlines() if log.exists() else []
    found = [Unit("python", key=key, **json.loads(line)) for line in lines]
    # A file that has no test here is not tried again.
    return found or [Unit("python", name, key, good=False)]


def near_first(units: Iterable[Unit]) -> list[Unit]:
    """Quick units that reach little first; many variants of one test last."""
    variants: Counter[str] = Counter()
    ordered: list[tuple[bool, Unit]] = []
    for unit in sorted(units, key=lambda u: u.seconds + SECONDS_PER_PLACE * len(u.reached)):
        test = unit.name.partition("[")[0]
        variants[test] += 1
        ordered.append((variants[test] > VARIANTS, unit))
    return [unit for _, unit in sorted(ordered, key=lambda pair: pair[0])]


def within(units: list[Unit], seconds: float) -> list[Unit]:
    """As many units as fit into a time, at least one."""
    chosen: list[Unit] = []
    for unit in units:
        if not chosen or sum(u.seconds for u in chosen) + unit.seconds <= seconds:
            chosen.append(unit)
    return chosen


def is_named_for(unit: Unit, file: str) -> bool:
    """True if a test has the name of the component or of a part of the file's name."""
    words = re.findall(r"[a-z]{4,}", file.removeprefix("src/").removesuffix(".c"))
    return any(word in unit.name.partition("::")[0].partition(" ")[0] for word in words)


def run_units(units: list[Unit], mutant: int) -> str:
    """The failure of these with a mutant; "" if all pass."""
    seconds = suite.limit + SLOWDOWN * sum(unit.seconds for unit in units)
    page.switch(mutant)
    try:
        if units[0].kind == "c":
            outcome = suite.run_c(units[0], temporary, seconds)
        else:
            names = [unit.name for unit in units]
            outcome = suite.run_pytest(names, temporary, PYTEST_START + seconds)
    finally:
        page.switch(0)
    return failure_of(outcome)


def batches(units: list[Unit]) -> Iterator[list[Unit]]:
    """C units alone, then Python tests together."""
    for unit in units:
        if unit.kind == "c":
            yield [unit]
    left = [unit for unit in units if unit.kind == "python"]
    for seconds in BATCHES * len(left):
        if left:
            batch = within(left, seconds)
            left = [unit for unit in left if unit not in batch]
            yield batch


def killer(batch: list[Unit], mutant: int) -> str:
    """The failure that a mutant causes; not one that occurs without it too."""
    while batch:
        failure = run_units(batch, mutant)
        if not failure:
            return ""
        named = re.match(r"(?:FAILED|ERROR) (\S+?::.*?)(?: - .*)?$", failure)
        guilty = [unit for unit in batch if named and unit.name == named[1]] or batch
        if not run_units(guilty, 0):
            return failure if batch[0].kind == "python" else f"{batch[0].name}: {failure}"
        batch = [unit for unit in batch if unit not in guilty]
    return ""


def judge(work: tuple[int, str, list[Unit], float]) -> dict[str, Any]:
    """The verdict on a mutant from the units that reach it."""
    number, file, units, budget = work
    began, cpu = time.monotonic(), cpu_seconds()
    by, passed = "", []
    chosen: list[Unit] = []
    for kind in ("c", "python"):
        chosen += within([unit for unit in units if unit.kind == kind], budget)
        named = [u for u in units if u.kind == kind and u not in chosen and is_named_for(u, file)]
        chosen += within(named, budget)
    for batch in batches(chosen):
        by = killer(batch, number)
        if by:
            break
        passed += [unit_id(unit) for unit in batch]
    return {
        "number": number,
        "verdict": "killed" if by else "survived" if units else "unreached",
        "by": by,
        "passed": [] if by else passed,
        "left_out": 0 if by else len(units) - len(chosen),
        "seconds": round(time.monotonic() - began, 2),
        "cpu_seconds": round(cpu_seconds() - cpu, 2),
    }


def unit_id(unit: Unit) -> str:
    """A name for the test in the list of those that a survivor has met."""
    return f"{unit.key} {unit.name}"


class Workers:
    """A worker per processor."""

    def __init__(self, the_suite: Suite, folder: Path, jobs: int) -> None:
        numbers: Any = multiprocessing.Queue()
        for number in range(jobs):
            numbers.put(number)
        arguments = (numbers, the_suite, folder)
        self.pool = multiprocessing.Pool(jobs, start_worker, arguments)

    def each(self, function: Callable[[Any], Any], work: Iterable[Any]) -> Iterator[Any]:
        """Results as they come."""
        return self.pool.imap_unordered(function, work)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Wait for the workers: their time counts. After an exception, end them."""
        if kind:
            self.pool.terminate()
        self.pool.close()
        self.pool.join()
