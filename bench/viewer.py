"""What it costs to look at a large profile: proton-viewer, and the way of Triton's viewer.

    python bench/viewer.py --build DIR [--nodes N] [--upstream-nodes N] [--rounds N] [--write]

Needs a build directory, and for the other side llnl-hatchet. A profile of N nodes with kernels,
flops and bytes is recorded and written as .proton and as .hatchet; "top 50" is `proton-viewer --top
-n 50`, the tree is printed to a depth of 3. Memory is the largest resident set. Its limit depends
on the profile's size before packing, because a packed file is unpacked into memory.

Triton's viewer reads JSON with llnl-hatchet and works on its data frame. That part is done here
with llnl-hatchet itself: from_literal(), update_inclusive_columns(), and two derived columns. It is
measured at a smaller size (--upstream-nodes), because it takes minutes at a million, and has its
own rows; the native viewer's time at that size is next to it.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import report

HATCHET = """
import json, sys, time
import hatchet
start = time.perf_counter()
with open(sys.argv[1]) as file:
    database = json.load(file)
database.pop() if len(database) > 1 else None
frame = hatchet.GraphFrame.from_literal(database)
frame.update_inclusive_columns()
table = frame.dataframe
table["time/ms (inc)"] = table["time (ns) (inc)"] * 1e-6
table["tflop16/s (inc)"] = table["flops16 (inc)"] / (table["time (ns) (inc)"] * 1e-9) / 1e12
frame.tree(metric_column="time/ms (inc)", depth=3)
print(time.perf_counter() - start)
"""


def record(build: str, directory: str, nodes: int, output_format: str) -> str:
    """Records a profile of about `nodes` nodes with bench/make_nodes.c."""
    program = os.path.join(build, "bench", "make_nodes")
    subprocess.run([program, directory, str(nodes), output_format], check=True)
    return os.path.join(directory, f"nodes.{output_format}")


def working_file_bytes(build: str, directory: str, nodes: int) -> int:
    """The size of that profile before it is packed: a killed program leaves it."""
    program = os.path.join(build, "bench", "make_nodes")
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        subprocess.run([program, scratch, str(nodes), "proton", "0", "killed"], check=False)
        return os.path.getsize(os.path.join(scratch, "nodes.proton"))


def run(command: list[str]) -> tuple[float, int]:
    """Seconds, and the largest resident set in bytes."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    return time.perf_counter() - start, usage.ru_maxrss * 1024


def measure(command: list[str], rounds: int) -> tuple[float, float, int]:
    """The median, the spread between rounds as a share of the minimum, and memory."""
    runs = [run(command) for _ in range(rounds)]
    seconds = [one[0] for one in runs]
    return statistics.median(seconds), max(seconds) / min(seconds) - 1, max(one[1] for one in runs)


def native_rows(
    viewer: str, path: str, nodes: int, rounds: int, limit_s: float, plain_bytes: int
) -> list[dict]:
    suffix = os.path.splitext(path)[1]
    seconds, noise, memory = measure([viewer, "--top", "-n", "50", path], rounds)
    tree_s, tree_noise, _ = measure([viewer, "-d", "3", path], rounds)
    megabytes, limit = memory / 1e6, 3 * plain_bytes / 1e6
    text = f"at most {limit_s:g} s for a million nodes"
    judged = nodes >= 1_000_000
    return [
        report.row(
            f"{nodes} nodes, {suffix}: top 50",
            "s",
            ours=seconds,
            noise=noise,
            target=text if judged else None,
            met=seconds <= limit_s if judged else None,
        ),
        report.row(f"{nodes} nodes, {suffix}: tree, 3 levels", "s", ours=tree_s, noise=tree_noise),
        report.row(
            f"{nodes} nodes, {suffix}: resident memory",
            "MB",
            ours=megabytes,
            target=f"at most {limit:.0f} MB, 3 times the profile before packing"
            if judged
            else None,
            met=megabytes <= limit if judged else None,
        ),
    ]


def upstream_row(viewer: str, path: str, nodes: int) -> dict:
    ours, _, _ = measure([viewer, "-m", "time/ms,tflop16/s", "-d", "3", path], 3)
    done = subprocess.run(
        [sys.executable, "-c", HATCHET, path], capture_output=True, text=True, check=True
    )
    return report.row(
        f"{nodes} nodes, .hatchet: tree of two derived metrics, llnl-hatchet beside it",
        "s",
        ours=ours,
        upstream=float(done.stdout.split()[-1]),
    )


def machine() -> str:
    """The processor, by its own name."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as info:
        names = [line.split(": ", 1)[1].strip() for line in info if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} processors"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, help="a Meson build directory")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--upstream-nodes", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    viewer = os.path.join(options.build, "src", "proton-viewer")
    rows = []
    with tempfile.TemporaryDirectory(prefix="proton-bench-") as directory:
        for output_format, limit_s in (("proton", 0.5), ("hatchet", 3.0)):
            path = record(options.build, directory, options.nodes, output_format)
            plain = os.path.getsize(path)
            if output_format == "proton":
                plain = working_file_bytes(options.build, directory, options.nodes)
            rows += native_rows(viewer, path, options.nodes, options.rounds, limit_s, plain)
            os.remove(path)
        path = record(options.build, directory, options.upstream_nodes, "hatchet")
        rows.append(upstream_row(viewer, path, options.upstream_nodes))
    for row in rows:
        report.show(row)
    if options.write:
        report.write("viewer", machine(), report.versions("hatchet"), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
