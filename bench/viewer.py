"""What it costs to look at a large profile: proton-viewer, and the way of Triton's viewer.

    python bench/viewer.py --build DIR [--nodes N] [--upstream-nodes N] [--rounds N] [--write]
                           [--report-only]

Needs a build directory, and for the other side llnl-hatchet. A profile of N nodes with kernels,
flops and bytes is recorded and written as .proton and as .hatchet; "top 50" is `proton-viewer --top
-n 50`, the tree is printed to a depth of 3. Memory is the largest resident set. Its limit depends
on the profile's size before packing, because a packed file is unpacked into memory.

Triton's viewer reads JSON with llnl-hatchet and works on its data frame. That part is done here
with llnl-hatchet itself: from_literal(), update_inclusive_columns(), and two derived columns. It is
measured at a smaller size (--upstream-nodes), because it takes minutes at a million, and has its
own rows; the native viewer's time at that size is next to it.

The HTML report of the profile is opened in Chromium, if there is one, with all frames unfolded: its
size, the time until it can be used (the browser has read it before), of a search that finds half of
the frames, and of a click that zooms. The same for the time line of a job of 8 ranks with N events
in all. --report-only measures these alone and keeps the other rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import report

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "python"))
import browser

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


def record(build: str, directory: str, nodes: int, output_format: str, seed: str = "0") -> str:
    """Records a profile of about `nodes` nodes with bench/make_nodes.c; a seed varies times."""
    program = os.path.join(build, "bench", "make_nodes")
    subprocess.run([program, directory, str(nodes), output_format, seed], check=True)
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


# Milliseconds of a change of the page, until its layout is done.
TIMED = """(() => {{ const start = performance.now(); {change};
document.body.getBoundingClientRect(); return performance.now() - start; }})()"""
SEARCH = "const e = document.getElementById('search'); e.value = {wanted};"
SEARCH += " e.dispatchEvent(new Event('input'))"
ZOOM = "document.querySelectorAll('.frame')[1].click()"


def page_rows(
    work: str,
    command: list[str],
    directory: str,
    rounds: int,
    address: str,
    changes: dict[str, list[str]],
    is_judged: bool,
) -> list[dict]:
    """Time and size of a report: to export and to open it, and of changes by their names."""
    page = Path(directory) / "report.html"
    export_s, export_noise, _ = measure([*command, "-o", str(page)], rounds)
    opened = browser.Browser(browser.find_browser(), Path(directory) / "chromium")
    times: dict[str, list[float]] = {"open": [], **{name: [] for name in changes}}
    for _ in range(rounds + 1):
        start = time.perf_counter()
        opened.open(page, address)
        times["open"].append(time.perf_counter() - start)
        for name, scripts in changes.items():
            before, *timed = scripts
            opened.run(before)
            for script in timed:
                times[name].append(opened.run(TIMED.format(change=script)) / 1e3)
    errors = opened.errors
    opened.close()
    assert errors == [], errors

    def limited(what: str, unit: str, value: float, limit: float, noise: float | None) -> dict:
        target = f"at most {limit:g} {unit}" if is_judged else None
        met = value <= limit if is_judged else None
        return report.row(work + what, unit, ours=value, noise=noise, target=target, met=met)

    rows = [
        report.row(work + "export", "s", ours=export_s, noise=export_noise),
        limited("size", "MB", page.stat().st_size / 1e6, 20, None),
    ]
    for what, measured in times.items():
        seconds = measured[1:]  # the first one starts the browser
        noise = max(seconds) / min(seconds) - 1
        limit = 2 if what == "open" else 1
        rows.append(limited(what, "s", statistics.median(seconds), limit, noise))
    return rows


def report_rows(build: str, path: str, directory: str, nodes: int, rounds: int) -> list[dict]:
    command = [os.path.join(build, "src", "proton-viewer"), path]
    searches = [SEARCH.format(wanted=json.dumps(wanted)) for wanted in ("operator_", "kernel")]
    changes = {
        "search": ["document.getElementById('fold').click()", *searches],
        "zoom": [SEARCH.format(wanted="''") + "; document.getElementById('reset').click()", ZOOM],
    }
    work = f"{nodes} nodes, HTML report: "
    return page_rows(work, command, directory, rounds, "", changes, nodes >= 1_000_000)


# A rank of a job that is traced: steps of a scope with two kernels and their launches.
RANK = """
import sys
import triton_proton as proton
from triton_proton import _libproton

proton.start("out", backend="host", data="trace")
for _ in range(int(sys.argv[1]) // 5):
    with proton.scope("step"):
        for name in ("gemm", "ncclDevKernel_AllReduce"):
            with proton.scope(name[:4]):
                _libproton.kernel_begin(name)
                _libproton.kernel_end()
proton.finalize(output_format="proton")
"""


def timeline_rows(build: str, directory: str, events: int, rounds: int) -> list[dict]:
    """The time line of a job: 8 ranks with all their events."""
    ranks = 8
    for rank in range(ranks):
        names = {"PROTON_RANKS": "on", "RANK": str(rank), "WORLD_SIZE": str(ranks)}
        subprocess.run(
            [sys.executable, "-c", RANK, str(events // ranks)],
            cwd=directory,
            env=os.environ | names,
            check=True,
        )
    command = [os.path.join(build, "src", "proton-viewer"), os.path.join(directory, "out.ranks")]
    changes = {"zoom": ["0", "document.getElementById('line-in').click()"]}
    work = f"{events} events of {ranks} ranks, time line of the HTML report: "
    judged = events >= 1_000_000
    return page_rows(work, command, directory, rounds, "#tab=timeline", changes, judged)


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
    parser.add_argument("--report-only", action="store_true")
    options = parser.parse_args()
    viewer = os.path.join(options.build, "src", "proton-viewer")
    rows = []
    with tempfile.TemporaryDirectory(prefix="proton-bench-") as directory:
        if browser.find_browser():
            path = record(options.build, directory, options.nodes, "proton", "1")
            rows += report_rows(options.build, path, directory, options.nodes, options.rounds)
            os.remove(path)
            rows += timeline_rows(options.build, directory, options.nodes, options.rounds)
        for output_format, limit_s in (("proton", 0.5), ("hatchet", 3.0)):
            if options.report_only:
                continue
            path = record(options.build, directory, options.nodes, output_format)
            plain = os.path.getsize(path)
            if output_format == "proton":
                plain = working_file_bytes(options.build, directory, options.nodes)
            rows += native_rows(viewer, path, options.nodes, options.rounds, limit_s, plain)
            os.remove(path)
        if options.report_only:
            rows = report.merged("viewer", rows)
        else:
            path = record(options.build, directory, options.upstream_nodes, "hatchet")
            rows.append(upstream_row(viewer, path, options.upstream_nodes))
    for row in rows:
        report.show(row)
    if options.write:
        report.write("viewer", machine(), report.versions("hatchet"), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
