"""What recording costs a program that launches kernels on an NVIDIA GPU; prints a table.

    python bench/cuda.py [--rounds N] [--launches N] [--write] [--build DIR]

Needs a GPU, Meson and a C compiler, and libcupti where the library finds it (PROTON_CUPTI_PATH).
The sides take turns in one process: `plain`, `floor` (bare CUPTI: kernel records and one store in
the launch callback), `ours`. Medians over the rounds; `noise` is how far the medians of two plain
turns lay apart. --write stores bench/results/cuda_launch.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

from run import HERE, ROOT, build

TARGET_ADDED_US = 0.15  # over the floor


def measure(program: str, rounds: int, launches: int) -> dict[str, list[float]]:
    """Microseconds per launch of each side, in the order of the rounds."""
    sides: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        text = subprocess.run(
            [program, scratch, str(rounds), str(launches)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
    for line in text.splitlines():
        side, value = line.split("\t")
        sides.setdefault(side, []).append(float(value))
    return sides


def gpu() -> str:
    """The first GPU and its driver, as nvidia-smi names them."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    answer = subprocess.run(query, check=True, stdout=subprocess.PIPE, text=True)
    return answer.stdout.splitlines()[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--launches", type=int, default=200000)
    parser.add_argument("--write", action="store_true", help="store bench/results/cuda_launch.json")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build directory")
    options = parser.parse_args()

    program = build(options.build, "bench_cuda_launch")
    sides = measure(program, options.rounds, options.launches)
    plain, floor, ours, after = (
        statistics.median(sides[name]) for name in ("plain", "floor", "ours", "after")
    )
    noise = abs(after - plain) / min(after, plain)
    rows = [
        {
            "work": "C launch loop, empty kernel",
            "unit": "us per launch",
            "plain": round(plain, 3),
            "ours": round(ours, 3),
            "upstream": None,
            "floor": round(floor, 3),
            "noise": round(noise, 3),
            "target": f"at most {TARGET_ADDED_US} us over the floor",
            "met": ours - floor <= TARGET_ADDED_US,
        },
        {
            "work": "C launch loop after the session has ended",
            "unit": "us per launch",
            "plain": round(plain, 3),
            "ours": round(after, 3),
            "upstream": None,
            "floor": None,
            "noise": round(noise, 3),
            "target": None,
            "met": None,
        },
    ]
    for row in rows:
        print(
            f"{row['work']:<44} plain {row['plain']}  floor {row['floor']}  ours {row['ours']}"
            f"  {row['unit']}, noise {100 * row['noise']:.1f} %"
            + {None: "", True: "  met: ", False: "  MISSED: "}[row["met"]]
            + (row["target"] or "")
        )
    if options.write:
        result = {
            "date": datetime.date.today().isoformat(),
            "machine": gpu(),
            "versions": {"python": platform.python_version(), "kernel": platform.release()},
            "rows": rows,
        }
        with open(os.path.join(HERE, "results", "cuda_launch.json"), "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
    return 1 if any(row["met"] is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
