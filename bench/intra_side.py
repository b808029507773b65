"""One side of bench/intra.py, in its own process: python bench/intra_side.py SIDE LAUNCHES

SIDE is `ours` or `upstream`. Prints one line, "result " and an object of JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from typing import Any, Callable, Optional

import torch
import triton
from intra_cases import ALL_LAUNCHES, MODE, SIDE, SUMS, Case, cases, empty_scopes, proton

TRACED = 24

# Records of kernels are taken in so many turns without and with scopes.
ROUNDS = 5
WARM = 3


# ---------------------------------------------------------------------- reading profiles


def nodes_of(path: str) -> list[dict[str, Any]]:
    """All nodes of a .hatchet file, each before what is below it."""
    with open(path, encoding="utf-8") as file:
        queue = [json.load(file)[0]]
    found = []
    while queue:
        node = queue.pop(0)
        found.append(node)
        queue += node["children"]
    return found


def kernels_of(directory: str, kernel: str) -> list[float]:
    """Microseconds of each launch of the kernel in the Chrome trace there, in time's order."""
    (name,) = (name for name in os.listdir(directory) if name.endswith(".chrome_trace"))
    with open(os.path.join(directory, name), encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    found = [
        (event["ts"], event["dur"])
        for event in events
        if event.get("ph") == "X" and event.get("cat") == "kernel" and event["name"] == kernel
    ]
    return [duration for _, duration in sorted(found)]


# ---------------------------------------------------------------------- measuring


def kernel_times(
    case: Case, mark: bool, scratch: str, launches: int, is_busy: bool, mode: str = MODE
) -> list[float]:
    """
    Microseconds of each launch from CUPTI's records: each alone on the device, after the records
    of the previous launch were read; or, if `is_busy`, back to back while they are read.
    """
    directory = os.path.join(scratch, f"time{len(os.listdir(scratch))}")
    os.makedirs(os.path.join(directory, "inside"))
    backend = {} if SIDE == "upstream" else {"backend": "cupti"}
    proton.start(os.path.join(directory, "time"), data="trace", **backend)
    session: Any = None
    if mark:
        inside = os.path.join(directory, "inside", "time")
        session = proton.start(inside, backend="instrumentation", data="tree", mode=mode)
    for number in range(WARM + launches):  # the first compiles
        case.launch(mark)
        if is_busy and number >= WARM:
            continue
        torch.cuda.synchronize()
        if mark and SIDE == "ours":  # upstream has read it when the launch returns
            proton.deactivate(session, flushing=True)
            proton.activate(session)
    torch.cuda.synchronize()
    proton.finalize()
    times = kernels_of(directory, case.kernel)[WARM:]
    if len(times) != launches:
        raise RuntimeError(f"{len(times)} records of {launches} launches")
    return times


def compare(plain: list[list[float]], marked: list[list[float]]) -> dict[str, float]:
    """Rounds of records, taken in turns, to one figure each: within a round the median."""
    return {
        "plain us": statistics.median(statistics.median(times) for times in plain),
        "ratio": statistics.median(
            statistics.median(with_scopes) / statistics.median(without)
            for without, with_scopes in zip(plain, marked)
        ),
    }


def kernel_time(case: Case, scratch: str, launches: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for is_busy in (False,) if SIDE == "upstream" else (True, False):
        plain, marked, sums = [], [], []
        for _ in range(ROUNDS):
            plain.append(kernel_times(case, False, scratch, launches, is_busy))
            marked.append(kernel_times(case, True, scratch, launches, is_busy))
            if SIDE == "ours":
                sums.append(kernel_times(case, True, scratch, launches, is_busy, SUMS))
        ratio = compare(plain, marked)
        found |= {"busy ratio": ratio["ratio"]} if is_busy else ratio
        if sums:
            name = "sums busy ratio" if is_busy else "sums ratio"
            found[name] = compare(plain, sums)["ratio"]
    return found


def flush(session: Any) -> None:
    """Wait until everything has been recorded; upstream has no other way than the end."""
    if SIDE == "upstream":
        proton.finalize()
    else:
        proton.deactivate(session, flushing=True)


def wall(case: Case, mark: bool, scratch: str, launches: int) -> dict[str, float]:
    """Time on the launching thread, alone and when launches follow each other."""
    if mark:
        session = proton.start(
            os.path.join(scratch, "wall"), backend="instrumentation", data="tree", mode=MODE
        )
    compiled = case.launch(mark)
    for _ in range(3):
        case.launch(mark)
    torch.cuda.synchronize()
    each = []
    for _ in range(launches):
        begin = time.perf_counter()
        case.launch(mark)
        each.append(time.perf_counter() - begin)
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(launches):
        case.launch(mark)
    issued = time.perf_counter()
    torch.cuda.synchronize()
    if mark:
        flush(session)
    ended = time.perf_counter()
    if mark:
        proton.finalize()
    return {
        "launching thread us": statistics.median(each) * 1e6,
        "back to back us": (issued - begin) / launches * 1e6,
        "sustained ms": (ended - begin) / launches * 1e3,
        "registers": compiled.n_regs,
        "spills": compiled.n_spills,
    }


def bits(case: Case, mark: bool, scratch: str) -> torch.Tensor:
    case.result.zero_()
    if mark:
        proton.start(
            os.path.join(scratch, "bits"), backend="instrumentation", data="tree", mode=MODE
        )
    case.launch(mark)
    torch.cuda.synchronize()
    if mark:
        proton.finalize()
    return case.result.clone()


def trace(case: Case, scratch: str, mode: str, output_format: str = "") -> dict[str, float]:
    """24 launches as a timeline; ours keeps the first few unless the mode says otherwise."""
    directory = os.path.join(scratch, f"trace{len(os.listdir(scratch))}")
    os.mkdir(directory)
    path = os.path.join(directory, "trace")
    proton.start(path, backend="instrumentation", data="trace", mode=mode)
    begin = time.perf_counter()
    for _ in range(TRACED):
        case.launch(True)
    torch.cuda.synchronize()
    ran = time.perf_counter()
    proton.finalize(output_format=output_format)
    ended = time.perf_counter()
    files = [os.path.join(directory, name) for name in os.listdir(directory)]
    text = max(files, key=os.path.getsize)
    slices = 0
    if not output_format:
        with open(text, encoding="utf-8") as file:
            slices = file.read().count('"ph":"X"')
    return {
        "run s": ran - begin,
        "write s": ended - ran,
        "MB": os.path.getsize(text) / 1e6,
        "slices": slices,
    }


def launches_kept(some: Any, whole: Any) -> Optional[int]:
    """How many of the launches a trace holds, from its slices and those of one with all."""
    if not some or not whole or not whole["slices"]:
        return None
    return round(some["slices"] * TRACED / whole["slices"])


def record_cost(scratch: str, is_sums: bool = False) -> dict[str, float]:
    """Duration of an empty scope, and how much it lengthens the enclosing scope, in cycles."""
    out = torch.zeros(1, device="cuda")
    lengths = {}
    empty = 0.0
    for count in (8, 40):
        path = os.path.join(scratch, f"cost{count}")
        mode = MODE if SIDE == "upstream" else f"{MODE}:buffer_size=4096"
        mode = SUMS if is_sums else mode
        proton.start(path, backend="instrumentation", data="tree", mode=mode)
        for _ in range(20):
            empty_scopes[(1,)](out, COUNT=count, num_warps=1)
        torch.cuda.synchronize()
        proton.finalize()
        for node in nodes_of(path + ".hatchet"):
            metrics = node["metrics"]
            if node["frame"]["name"] == "outer":
                lengths[count] = metrics.get("min_cycles", metrics["cycles"] / 20)
            if node["frame"]["name"] == "empty":
                runs = metrics.get("executions", 20 * count)
                empty = metrics.get("mean_cycles", metrics["cycles"] / runs)
    return {"empty cycles": empty, "scope cycles": (lengths[40] - lengths[8]) / 32}


def measured(what: str, measure: Callable[[], Any]) -> Any:
    """The figure, or why there is none: one that fails does not take the others with it."""
    try:
        return measure()
    except Exception as error:
        print(f"{SIDE}: {what}: {type(error).__name__}: {error}", file=sys.stderr)
        try:
            proton.finalize()
        except Exception as again:
            print(f"{SIDE}: {again}", file=sys.stderr)
        return None


def main() -> None:
    launches = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "triton": triton.__version__,
        "cases": {},
    }
    for number, case in enumerate(cases()):
        with tempfile.TemporaryDirectory() as scratch:
            plain = measured("bits", lambda: bits(case, False, scratch))
            marked = measured("bits", lambda: bits(case, True, scratch))
            row: dict[str, Any] = {
                "identical": plain is not None and marked is not None and torch.equal(plain, marked)
            }
            for mark in (False, True):
                key = "marked" if mark else "plain"
                row[key] = measured(
                    f"{case.name}, wall", lambda: wall(case, mark, scratch, launches)
                )
            row["kernel"] = measured(
                f"{case.name}, kernel time", lambda: kernel_time(case, scratch, launches)
            )
            if number == 0:
                row["trace"] = measured("trace", lambda: trace(case, scratch, MODE))
                # Triton's profiler always keeps all, and takes half a minute to write them.
                row["whole trace"] = row["trace"]
                if ALL_LAUNCHES != MODE:
                    row["whole trace"] = measured(
                        "trace", lambda: trace(case, scratch, ALL_LAUNCHES)
                    )
                row["launches kept"] = launches_kept(row["trace"], row["whole trace"])
                if SIDE == "ours":
                    row["perfetto"] = measured(
                        "trace for Perfetto", lambda: trace(case, scratch, MODE, "perfetto")
                    )
            found["cases"][case.name] = row
    with tempfile.TemporaryDirectory() as scratch:
        found["record"] = measured("record cost", lambda: record_cost(scratch))
    if SIDE == "ours":
        with tempfile.TemporaryDirectory() as scratch:
            found["sum"] = measured("cost of sums", lambda: record_cost(scratch, is_sums=True))
    print("result " + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
