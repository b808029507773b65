"""Merging the profiles of many ranks: proton-merge.

    python bench/ranks.py --build DIR [--rounds N] [--files N] [--large N] [--write]

Needs a build directory with bench/make_nodes. 16 profiles of a size are recorded, with different
times, and take turns as those of all ranks. `--files` is the number of ranks of 100 nodes, in one
directory, and `--large` the number of ranks of 10,000 nodes. Smaller numbers are for trying it out:
then no target is judged.

A figure is the median of the means of all pairs of rounds. `noise` is half of its interval of 95 %,
as a share; there is none with fewer than six rounds. Figures are the CPU time of the process,
because other programs share the machine. Resident memory is the maximum of all rounds. Its limit is
64 MB, the merged tree, and 8 bytes per rank and column.

MPI's processes take CPU time while they wait for each other, so the rows about several processes
are wall times. They need mpirun, a build with MPI, and an idle machine. Otherwise they have no
figure, and say why.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import report
from turns import median_interval
from viewer import machine

VARIANTS = 16
LINKS_MAX = 30_000  # of one file; file systems have a limit
COLUMNS = 256
BUSY_MAX = 0.2  # processors that other programs may use while several processes are timed
MERGED_NODE_BYTES = 2048  # statistics, histograms and hash tables of a node
FINISHED, STATE_OFFSET = 2, 16  # in a working file's header


def record(build: str, directory: str, nodes: int, seed: int, *more: str) -> str:
    """A profile of `nodes` nodes with times that depend on the seed."""
    os.makedirs(directory)
    program = os.path.join(build, "bench", "make_nodes")
    command = [program, directory, str(nodes), "proton", str(seed), *more]
    done = subprocess.run(command, check=False)
    if done.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}")
    return os.path.join(directory, "nodes.proton")


def finish(path: str) -> None:
    """Makes the file of a killed process a finished one that is not packed."""
    with open(path, "r+b") as file:
        file.seek(STATE_OFFSET)
        file.write(struct.pack("<I", FINISHED))


def make_job(variants: list[str], directory: str, ranks: int) -> str:
    """Profiles of that many ranks in one directory."""
    os.makedirs(directory)
    for rank in range(ranks):
        path = os.path.join(directory, f"rank{rank:06}.proton")
        turn = rank // len(variants)
        if turn % LINKS_MAX == 0:
            variants[rank % len(variants)] = shutil.copy(variants[rank % len(variants)], path)
        else:
            os.link(variants[rank % len(variants)], path)
    return directory


def run(command: list[str]) -> tuple[float, float, int]:
    """CPU seconds, wall seconds, and the largest resident set in bytes."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start, usage.ru_maxrss * 1024


def figures(values: list[float]) -> tuple[float, float | None]:
    """The figure and its noise."""
    middle, interval = median_interval(values)
    return middle, (interval[1] - interval[0]) / 2 / middle if interval and middle else None


def merging_rows(
    work: str, command: list[str], rounds: int, limit_s: float, memory: float, is_judged: bool
) -> list[dict[str, Any]]:
    runs = [run(command) for _ in range(rounds)]
    seconds, noise = figures([one[0] for one in runs])
    resident = max(one[2] for one in runs) / 1e6
    return [
        report.row(
            f"{work}: one process",
            "CPU s",
            ours=seconds,
            noise=noise,
            target=f"at most {limit_s:g} s" if is_judged else None,
            met=seconds <= limit_s if is_judged else None,
        ),
        report.row(
            f"{work}: resident memory",
            "MB",
            ours=resident,
            target=f"at most {memory:.0f} MB" if is_judged else None,
            met=resident <= memory if is_judged else None,
        ),
    ]


def size_row(path: str, nodes: int) -> dict[str, Any]:
    size = os.path.getsize(path)
    limit = 20_000 + 30 * nodes
    return report.row(
        f"a profile of {nodes} nodes",
        "bytes",
        ours=size,
        target=f"at most {limit}",
        met=size <= limit,
    )


def has_mpi(program: str) -> bool:
    """Whether mpirun is there, and the program built with MPI."""
    if shutil.which("mpirun") is None:
        return False
    return "libmpi" in subprocess.run(["ldd", program], capture_output=True, text=True).stdout


def busy_processors(seconds: float = 1) -> float:
    """How many processors other programs use now; the load average would count our own, too."""

    def spent() -> float:
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
        return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")

    before = spent()
    time.sleep(seconds)
    return (spent() - before) / seconds


def why_not_measured(program: str) -> str | None:
    if not has_mpi(program):
        return "not measured: no mpirun, or a build without MPI"
    if busy_processors() > BUSY_MAX:
        return "not measured: other programs used the processors"
    return None


def scaling_rows(work: str, command: list[str], rounds: int) -> list[dict[str, Any]]:
    rows = []
    for count in (1, 2, 4, 8):
        mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(count)]
        seconds = noise = None
        reason = why_not_measured(command[0])
        if reason is None:
            seconds, noise = figures([run([*mpirun, *command])[1] for _ in range(rounds)])
        name = "process" if count == 1 else "processes"
        rows.append(
            report.row(
                f"{work}: {count} {name} of MPI", "wall s", ours=seconds, noise=noise, target=reason
            )
        )
    return rows


def packed_row(build: str, job: Callable[..., str], ranks: int, rounds: int) -> dict[str, Any]:
    """Packed profiles beside those that are not."""
    viewer = os.path.join(build, "src", "proton-viewer")
    packed = job(10_000, ranks)
    plain = job(10_000, ranks, "killed")
    sides: dict[str, list[float]] = {packed: [], plain: []}
    for _ in range(rounds):
        for directory, seconds in sides.items():
            seconds.append(run([viewer, "-d", "1", directory])[0])
    ours, noise = figures(sides[packed])
    unpacked = figures(sides[plain])[0]
    return report.row(
        f"sum of {ranks} ranks of 10000 nodes; plain: profiles that are not packed",
        "CPU s",
        plain=unpacked,
        ours=ours,
        noise=noise,
        target="no slower than profiles that are not packed",
        met=ours <= unpacked,
    )


def measure(options: argparse.Namespace, directory: str) -> list[dict[str, Any]]:
    merge = os.path.join(options.build, "src", "proton-merge")
    number = 0

    def job(nodes: int, ranks: int, *more: str) -> str:
        nonlocal number
        number += 1
        place = os.path.join(directory, str(number))
        variants = [
            record(options.build, os.path.join(place, str(seed)), nodes, seed, *more)
            for seed in range(VARIANTS)
        ]
        for path in variants if more else ():
            finish(path)
        return make_job(variants, os.path.join(place, "job.ranks"), ranks)

    output = ["-o", os.path.join(directory, "merged.proton")]
    rows = []
    for nodes, ranks, standard, limit_s in (
        (100, options.files, 100_000, 10.0),
        (10_000, options.large, 1_000, 1.5),
    ):
        columns = min(COLUMNS, nodes)
        memory = 64 + (nodes * MERGED_NODE_BYTES + ranks * columns * 8) / 1e6
        command = [merge, *output, job(nodes, ranks)]
        work = f"{ranks} ranks of {nodes} nodes"
        judged = ranks == standard
        rows += merging_rows(work, command, options.rounds, limit_s, memory, judged)
        if nodes == 10_000:
            rows += scaling_rows(work, command, options.rounds)
    for nodes in (100, 1_000, 10_000):
        rows.append(size_row(record(options.build, f"{directory}/size{nodes}", nodes, 1), nodes))
    rows.append(packed_row(options.build, job, min(200, options.large), options.rounds))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, help="a Meson build directory")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--large", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="proton-bench-") as directory:
        rows = measure(options, directory)
    for row in rows:
        report.show(row)
    if options.write:
        report.write("ranks", machine(), report.versions(), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
