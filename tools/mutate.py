#!/usr/bin/env python3
"""How much the tests notice: small mistakes in the C sources, one at a time.

Usage: mutate.py [--seed N[,N...]] [--count N] [--room ROOM[,ROOM...]] [--result FILE] [--list]

A seed chooses `count` mutants. All are built at once into build-mutate/, from a copy. Then each
one, or with --room each one of these components, meets the tests that reach its place, and is
killed by the first one that fails. Survivors are printed: either a test is missing, or no test can
notice the mutant. Such a one belongs into tools/mutate_equivalent.txt, with the reason. The result
is a JSON file. A run that was stopped continues; survivors of an earlier run meet only tests that
are new. docs/design/mutation.md explains the design.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from mutation.build import Build
from mutation.judge import Workers, judge, near_first, reach, unit_id
from mutation.operators import Mutant, all_mutants, sample
from mutation.schemata import MUTANTS_MAX
from mutation.units import Suite, Unit

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = "tools/mutate_equivalent.txt"


def read_equivalent(path: Path) -> dict[tuple[str, str, str], str]:
    """Reasons by place and texts: "FILE FUNCTION: REASON", "- BEFORE", "+ AFTER"."""
    found: dict[tuple[str, str, str], str] = {}
    place = reason = before = ""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        if line.startswith("- "):
            before = line[2:]
        elif line.startswith("+ "):
            found[place, before, line[2:]] = reason
        elif line and not line.startswith("#"):
            place, _, reason = line.partition(": ")
    return found


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file with one in each line."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def append(path: Path, value: dict[str, Any]) -> None:
    """One more line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")


def log_line(text: str) -> None:
    """Progress."""
    print(f"mutate: {text}", flush=True)


class Run:
    """One call of this program."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.folder = options.root / "build-mutate"
        self.build = Build(options.root, self.folder, options.jobs)
        self.mutants: dict[int, Mutant] = {}
        self.seeds: dict[int, list[int]] = {}  # the numbers of each seed's mutants
        self.began = time.monotonic()

    def choose(self, rooms: dict[str, list[Mutant]], banned: set) -> None:
        """Number the mutants of all seeds."""
        numbers: dict[tuple, int] = {}
        self.mutants, self.seeds = {}, {}
        for seed in self.options.seed:
            chosen = sample(rooms, seed, self.options.count, banned)
            for mutant in chosen:
                number = numbers.setdefault(mutant.key, len(numbers) + 1)
                self.mutants[number] = mutant
            self.seeds[seed] = [numbers[mutant.key] for mutant in chosen]
        if len(self.mutants) > MUTANTS_MAX:
            sys.exit(f"mutate: {len(self.mutants)} mutants: at most {MUTANTS_MAX}")

    def make(self) -> None:
        """Build, and replace mutants that do not compile until the rest does."""
        self.build.copy({})
        rooms = all_mutants(self.options.root, self.build.set_up())
        log = self.folder / "refused.jsonl"
        banned = {tuple(e["key"]) for e in read_lines(log) if e["sources"] == self.build.sources}
        while True:
            self.choose(rooms, banned)
            refused = self.build.compile(self.mutants)
            if not refused:
                break
            log_line(f"{len(refused)} mutants are not compiled and are replaced")
            for number in refused:
                key = self.mutants[number].key
                banned.add(key)
                append(log, {"sources": self.build.sources, "key": key})
        log_line(f"{len(self.mutants)} mutants built after {self.elapsed():.0f} s")

    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    def trace(self, suite: Suite, workers: Workers) -> list[Unit]:
        """Which test reaches which mutant; tests of an earlier run are not run again."""
        log = self.folder / "reach.jsonl"
        stamp = self.build.stamp(self.mutants.values())
        known = [entry for entry in read_lines(log) if entry.pop("stamp") == stamp]
        if not known:
            log.unlink(missing_ok=True)
        units = [Unit(**entry) for entry in known]
        have = {unit_id(unit) for unit in units}
        keys = {unit.key for unit in units}
        c_units, files = suite.c_units(), suite.python_files()
        current = {unit.key for unit in c_units} | {suite.file_key(path) for path in files}
        missing: list[Any] = [path for path in files if suite.file_key(path) not in keys]
        missing += [unit for unit in c_units if unit_id(unit) not in have]
        for found in workers.each(reach, missing):
            for unit in found:
                append(log, {"stamp": stamp, **unit.to_json()})
                units.append(unit)
                if unit.kind == "c" and not unit.good:
                    log_line(f"{unit.name} does not pass without a mutant and is not used")
        units = [unit for unit in units if unit.key in current]
        bad = sum(not unit.good for unit in units)
        log_line(f"{len(units)} tests, {bad} not usable, traced after {self.elapsed():.0f} s")
        return [unit for unit in units if unit.good]

    def wanted(self) -> list[int]:
        """The numbers of the mutants that are judged, in an order that mixes components."""
        numbers = [
            number
            for number, mutant in self.mutants.items()
            if not self.options.room or mutant.room in self.options.room
        ]
        random.Random(0).shuffle(numbers)
        return numbers

    def verdicts(self, units: list[Unit], workers: Workers) -> dict[int, dict[str, Any]]:
        """The verdict on each mutant."""
        log = self.folder / "verdicts.jsonl"
        numbers = {mutant.key: number for number, mutant in self.mutants.items()}
        done: dict[int, dict[str, Any]] = {}
        passed: dict[int, set[str]] = {}
        for entry in read_lines(log):
            number = numbers.get(tuple(entry["key"]), 0)
            if number and entry["sources"] == self.build.sources:
                done[number] = entry
                passed.setdefault(number, set()).update(entry["passed"])
        work = []
        for number in self.wanted():
            if done.get(number, {}).get("verdict") == "killed":
                continue
            reaching = [unit for unit in units if number in unit.reached]
            left = [unit for unit in reaching if unit_id(unit) not in passed.get(number, set())]
            is_new = number not in done or len(left) > done[number]["left_out"]
            if is_new:
                file = self.mutants[number].file
                work.append((number, file, near_first(left), self.options.budget))
        for entry in workers.each(judge, work):
            number = entry["number"]
            if entry["verdict"] == "unreached" and passed.get(number):
                entry["verdict"] = "survived"
            done[number] = entry
            append(log, {"sources": self.build.sources, "key": self.mutants[number].key, **entry})
            mutant = self.mutants[number]
            place = f"{mutant.file}:{mutant.line}"
            verdict = f"{entry['verdict']:9} {entry['seconds']:6} s"
            print(f"{verdict} {place} {mutant.kind}: {entry['by']}", flush=True)
        return done

    def report(self, seed: int, done: dict[int, dict[str, Any]]) -> dict[str, Any]:
        """The score of a seed, printed and as a result."""
        equivalent = read_equivalent(self.options.root / EQUIVALENT)
        rooms: dict[str, list[int]] = {}
        survivors, excused = [], []
        for number in set(self.seeds[seed]).intersection(self.wanted()):
            mutant, verdict = self.mutants[number], done[number]
            room = rooms.setdefault(mutant.room, [0, 0])
            shown = {**mutant.to_json(), **{key: verdict[key] for key in ("verdict", "left_out")}}
            place = f"{mutant.file} {mutant.function}"
            reason = equivalent.get((place, mutant.before, mutant.after))
            if verdict["verdict"] != "killed" and reason:
                excused.append({**shown, "reason": reason})
                continue
            room[0] += verdict["verdict"] == "killed"
            room[1] += 1
            if verdict["verdict"] != "killed":
                survivors.append(shown)
        survivors.sort(key=lambda found: (found["file"], found["line"]))
        for found in survivors:
            print(f"{found['file']}:{found['line']}: {found['function']}: {found['verdict']}")
            print(f"- {found['before']}\n+ {found['after']}")
        print(f"seed {seed}:")
        for name, (killed, total) in [*sorted(rooms.items()), ("all", summed(rooms))]:
            print(f"{name:16} {killed:4} of {total:4} killed {100 * killed / max(total, 1):5.0f} %")
        print(f"{len(excused)} more are listed as equivalent and survived")
        scores = {"seed": seed, "rooms": rooms, "all": summed(rooms)}
        return {**scores, "survivors": survivors, "equivalent": excused}


def summed(rooms: dict[str, list[int]]) -> list[int]:
    """Killed and all."""
    return [sum(room[i] for room in rooms.values()) for i in (0, 1)]


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--room", default="", help="judge these only, such as symbol,viewer/ranks")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--budget", type=float, default=40, help="seconds of C and of Python tests")
    parser.add_argument("--limit", type=float, default=20, help="seconds that any test may take")
    parser.add_argument("--result", type=Path, help="default: build-mutate/result.json")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    options = parser.parse_args()
    options.seed = [int(seed) for seed in options.seed.split(",")]
    options.room = [room for room in options.room.split(",") if room]
    options.root = options.root.resolve()
    return options


def main() -> int:
    """Build, trace, judge, report."""
    options = parse()
    run = Run(options)
    run.make()
    if options.list:
        for number, mutant in run.mutants.items():
            print(f"{number:4} {mutant.file}:{mutant.line} {mutant.kind}")
            print(f"- {mutant.before}\n+ {mutant.after}")
        return 0
    suite = Suite(run.build.source, run.build.build, run.build.python(), run.build.pages)
    suite.limit = options.limit
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mutate: ended by a signal"))
    with Workers(suite, run.folder / "tmp", options.jobs) as workers:
        done = run.verdicts(run.trace(suite, workers), workers)
    results = [run.report(seed, done) for seed in run.seeds]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = {"seconds": round(run.elapsed()), "cpu_seconds": round(used.ru_utime + used.ru_stime)}
    log_line(f"{total['seconds']} s, {total['cpu_seconds']} s of processors")
    path = options.result or run.folder / "result.json"
    path.write_text(json.dumps({**total, "results": results}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
