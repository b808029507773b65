"""`proton bench`: kernel times of several runs of a script, or of two scripts in turns.

Each run is a process with its own profile. Two sides take turns in random order, because a GPU
gets warmer; `proton-viewer --diff` compares them, with intervals and the cause of a change.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from typing import Optional

from . import _libproton
from ._bench import timing_of, work_of
from ._message import message
from ._programs import need_program
from .reader import load

_FAILED = 2
_SIDES = ("before", "after")


class _Failure(Exception):
    """Its text is the message."""


def _run(command: Sequence[str], folder: Optional[str], output: Sequence[str]) -> None:
    kind = ["-k", "triton"] if command[0].endswith(".py") else ["--"]
    words = [*output, *kind, *command]
    recorder = [need_program("proton", _Failure), "-q", "--no-children"]
    done = subprocess.run([*recorder, *words], cwd=folder, stdout=subprocess.DEVNULL)
    if done.returncode:
        raise _Failure(f"{' '.join(command)} ended with status {done.returncode}")


def _record(sides: dict[str, tuple[Sequence[str], Optional[str]]], runs: int, into: str) -> None:
    order = random.Random(0)
    for command, folder in sides.values():
        _run(command, folder, ["-o", "none"])  # after it, Triton's cache has the kernels
    for side in sides:
        os.makedirs(os.path.join(into, side))
    for number in range(1, runs + 1):
        for side in order.sample(list(sides), len(sides)):
            profile = os.path.join(into, side, f"{number:04}")
            _run(*sides[side], ["-n", profile, "-o", "proton"])


def _print_times(name: str, folder: str) -> None:
    calls = []
    for file in sorted(os.listdir(folder)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            profile = load(os.path.join(folder, file))
            table = profile.top()
            if "time/ms" not in table.columns:
                raise _Failure(f"a run of {name} recorded no kernel")
            work = work_of(profile, 1)
        calls.append(dict(zip(table["frame"], map(float, table["time/ms"]))))
    print(timing_of(name, calls, work))


def _arguments(given: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="proton bench",
        description="Kernel times of several runs of a program, or of two programs in turns.",
    )
    add = parser.add_argument
    add("--runs", type=int, default=10, help="runs of each side (default 10)")
    add("--against", metavar="BASE", help="another script, which gets the same arguments, or a "
        "directory in which the same script is run, such as a checkout of an older version")
    add("--fail-if", metavar="GATE", action="append", default=[],
        help="a gate of proton-viewer, such as 'time > +5%%'; status 3 if it is true")
    add("-o", "--output", metavar="DIR", help="keep the profiles in DIR, which must not exist")
    add("script", help="a script of Python, or a program")
    add("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(given)
    if options.runs < 1:
        parser.error("--runs needs at least 1")
    if options.fail_if and not options.against:
        parser.error("--fail-if needs --against")
    return options


def _bench(options: argparse.Namespace, into: str) -> int:
    command = [options.script, *options.arguments]
    if options.against is None:
        _record({_SIDES[1]: (command, None)}, options.runs, into)
        _print_times(os.path.basename(options.script), os.path.join(into, _SIDES[1]))
        return 0
    base = (command, options.against)
    if not os.path.isdir(options.against):
        base = ([options.against, *options.arguments], None)
    _record(dict(zip(_SIDES, (base, (command, None)))), options.runs, into)
    before, after = (os.path.join(into, side) for side in _SIDES)
    gates = [f"--fail-if={gate}" for gate in options.fail_if]
    program = need_program("proton-viewer", _Failure)
    viewer = [program, "-m", "time/ms", "--diff", before, "--top", *gates, after]
    return subprocess.run(viewer).returncode


def main(given: Optional[Sequence[str]] = None) -> int:
    options = _arguments(given)
    try:
        if options.output is not None:
            if os.path.exists(options.output):
                raise _Failure(f"{options.output} exists; name a directory that does not")
            return _bench(options, os.path.abspath(options.output))
        with tempfile.TemporaryDirectory(prefix="proton-bench-") as into:
            return _bench(options, into)
    except (_Failure, _libproton.ProtonError, OSError) as error:
        message(f"bench: {error}")
    except KeyboardInterrupt:
        return 130
    return _FAILED


if __name__ == "__main__":
    sys.exit(main())
