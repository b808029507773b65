"""Benchmark of finding a launch's Python call path, against formatting it as text each time.

    python bench/python_context.py [--rounds N] [--write]

Needs the installed package and a C compiler (for bench/plain_walk.c). `plain` formats
"file:line@function" for each frame at each launch; `floor` walks the frames through the public
interface and does nothing more; `ours` gives the number of the context, as a session with context
"python" asks for it. All are called from Python at the depth named, in rounds that take turns;
medians of the rounds; noise is the distance between the quartiles of `ours`. --write stores
bench/results/python_context.json.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from types import ModuleType

from triton_proton import _libproton

HERE = os.path.dirname(os.path.abspath(__file__))
DEPTHS = (5, 20, 50)
TARGET_AT_20 = 5.0  # times less than plain


def build_plain_walk(directory: str) -> ModuleType:
    """Compile plain_walk.c for this Python and import it."""
    path = os.path.join(directory, "plain_walk" + sysconfig.get_config_var("EXT_SUFFIX"))
    compiler = os.environ.get("CC", "cc")
    include = sysconfig.get_paths()["include"]
    source = os.path.join(HERE, "plain_walk.c")
    subprocess.run(
        [compiler, "-O2", "-D_GNU_SOURCE", "-fPIC", "-shared", f"-I{include}", source, "-o", path],
        check=True,
    )
    spec = importlib.util.spec_from_file_location("plain_walk", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_caller(depth: int) -> Callable[..., float]:
    """A function that is `depth` frames deep, each with different code, when it runs the loop."""
    lines = ["def f0(work, count, clock):"]
    lines += [
        "    start = clock()",
        "    for _ in range(count):",
        "        work()",
        "    return (clock() - start) / count",
    ]
    for level in range(1, depth):
        lines.append(f"def f{level}(work, count, clock):")
        lines.append(f"    return f{level - 1}(work, count, clock)")
    names: dict[str, Callable[..., float]] = {}
    exec(compile("\n".join(lines), f"<depth {depth}>", "exec"), names)
    return names[f"f{depth - 1}"]


def measure(plain_walk: ModuleType, depth: int, rounds: int, count: int) -> dict[str, object]:
    """One row: nanoseconds per call at `depth` frames."""
    base = plain_walk.frames()  # the frames below the caller are walked too
    caller = make_caller(max(1, depth - base))
    works = {
        "plain": plain_walk.strings,
        "floor": plain_walk.frames,
        "ours": _libproton.source_context,
    }
    samples: dict[str, list[float]] = {name: [] for name in works}
    for name, work in works.items():
        caller(work, count // 10 + 1, time.perf_counter_ns)
    for _ in range(rounds):
        for name, work in works.items():
            samples[name].append(caller(work, count, time.perf_counter_ns))
    middle = {name: statistics.median(values) for name, values in samples.items()}
    quartiles = statistics.quantiles(samples["ours"], n=4)
    ratio = middle["plain"] / middle["ours"]
    target = TARGET_AT_20 if depth >= 20 else None
    return {
        "work": f"Python call path, {depth} frames",
        "unit": "ns",
        "plain": round(middle["plain"], 1),
        "ours": round(middle["ours"], 1),
        "upstream": None,
        "floor": round(middle["floor"], 1),
        "noise": round((quartiles[2] - quartiles[0]) / middle["ours"], 3),
        "target": f"plain / ours >= {target:g}" if target else None,
        "met": ratio >= target if target else None,
        "ratio": round(ratio, 2),
    }


def processor() -> str:
    """The processor's name as Linux tells it, and how many there are."""
    name = platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return f"{name}, {os.cpu_count()} processors"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--write", action="store_true", help="store the results")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        plain_walk = build_plain_walk(directory)
        rows = [measure(plain_walk, depth, arguments.rounds, arguments.count) for depth in DEPTHS]
    for row in rows:
        print(
            f"{row['work']:<32} plain {row['plain']:>9} ns   ours {row['ours']:>7} ns   "
            f"floor {row['floor']:>7} ns   {row['ratio']:>6}x   noise {row['noise']:.1%}"
        )
    if arguments.write:
        results = {
            "date": datetime.date.today().isoformat(),
            "machine": processor(),
            "versions": {
                "python": platform.python_version(),
                "proton": _libproton.version(),
            },
            "rows": rows,
        }
        path = os.path.join(HERE, "results", "python_context.json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
            file.write("\n")
        print(f"wrote {os.path.relpath(path)}")
    if any(row["met"] is False for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
