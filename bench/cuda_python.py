"""What recording adds to a Triton launch from Python on an NVIDIA GPU, beside Triton's profiler.

    python bench/cuda_python.py [--rounds N] [--launches N] [--write]

Needs a GPU, torch, triton and the installed package. Each side runs in processes of its own, which
take turns; inside a process plain and profiled loops take turns. `plain` is the loop without a
profiler, `ours` and `upstream` with one: medians over all rounds, in us per launch. `noise` is the
spread of the plain medians of the processes. --write stores bench/results/cuda_python.json.
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

from report import gpu
from run import HERE

# What is asked of ours: added time at most this share of what upstream adds.
CASES = {
    "shadow": ("Python Triton launch, context shadow", {"context": "shadow"}, 0.6),
    "python": ("Python Triton launch, context python", {"context": "python"}, 0.3),
    "hook": ("Python Triton launch, hook triton", {"hook": "triton"}, 0.5),
}

CHILD = """
import json, sys, time
import torch, triton
import triton.language as tl
side, options, rounds, launches = json.loads(sys.argv[1])

def describe(grid, metadata, args):
    return {"name": "empty", "flops32": 1.0, "bytes": 4}

@triton.jit(launch_metadata=describe)
def empty(x):
    pass

x = torch.zeros(1, device="cuda")

def loop(count):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        empty[(1,)](x)
    return (time.perf_counter() - start) / count * 1e6

loop(2000)
if side == "ours":
    import triton_proton as proton
else:
    import triton.profiler as proton
plain, profiled = [], []
for number in range(rounds):
    plain.append(loop(launches))
    session = proton.start("profile_%d" % number, **options)
    with proton.scope("loop"):
        loop(200)
        profiled.append(loop(launches))
    proton.finalize(session)
print(json.dumps([plain, profiled]))
"""


def run_side(side: str, options: dict[str, str], rounds: int, launches: int) -> list[list[float]]:
    """Plain and profiled loops of one process, in us per launch."""
    with tempfile.TemporaryDirectory() as scratch:
        script = os.path.join(scratch, "child.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(CHILD)
        output = subprocess.run(
            [sys.executable, script, json.dumps([side, options, rounds, launches])],
            cwd=scratch,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
    return json.loads(output.splitlines()[-1])


def measure(work: str, options: dict[str, str], share: float, rounds: int, launches: int) -> dict:
    """One row: three processes of each side."""
    plain: list[float] = []
    profiled: dict[str, list[float]] = {"ours": [], "upstream": []}
    added: dict[str, list[float]] = {"ours": [], "upstream": []}
    for _ in range(3):
        for side in profiled:
            off, on = run_side(side, options, rounds, launches)
            plain.append(statistics.median(off))
            profiled[side].append(statistics.median(on))
            added[side].append(statistics.median(on) - statistics.median(off))
    ours, upstream = (statistics.median(added[side]) for side in ("ours", "upstream"))
    return {
        "work": work,
        "unit": "us per launch",
        "plain": round(statistics.median(plain), 3),
        "ours": round(statistics.median(profiled["ours"]), 3),
        "upstream": round(statistics.median(profiled["upstream"]), 3),
        "floor": None,
        "noise": round((max(plain) - min(plain)) / statistics.median(plain), 3),
        "target": f"adds {ours:.2f} us, upstream {upstream:.2f}: at most {share} of it",
        "met": ours <= share * upstream,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="rounds inside a process")
    parser.add_argument("--launches", type=int, default=3000)
    parser.add_argument("--write", action="store_true", help="store bench/results/cuda_python.json")
    options = parser.parse_args()

    rows = []
    for work, session, share in CASES.values():
        row = measure(work, session, share, options.rounds, options.launches)
        rows.append(row)
        print(
            f"{row['work']:<40} plain {row['plain']}  ours {row['ours']}  upstream "
            f"{row['upstream']}  noise {100 * row['noise']:.0f} %  "
            f"{'met' if row['met'] else 'MISSED'}: {row['target']}",
            flush=True,
        )
    if options.write:
        import torch
        import triton

        import triton_proton

        versions = {
            "proton": triton_proton.__version__,
            "triton": triton.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        }
        result = {
            "date": datetime.date.today().isoformat(),
            "machine": gpu(),
            "versions": versions,
            "rows": rows,
        }
        path = os.path.join(HERE, "results", "cuda_python.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
    return 0 if all(row["met"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
