"""Times of kernels with automatic scopes on an NVIDIA GPU: python bench/intra_auto.py [LAUNCHES]

The kernels of bench/intra.py and others of the shapes of Triton's tutorials, none with scopes of
its own. Each is timed without scopes, with auto=all, and with auto=all and a budget, in turns, each
launch alone. bench/intra.py runs this as its side `auto`. Prints a line per kernel, then one line,
"result " and an object of JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from typing import Any, NamedTuple

LAUNCHES = int(next(filter(str.isdigit, sys.argv[1:]), 20))
sys.argv[1:] = []  # intra_cases would take it for a side

import intra_auto_cases  # noqa: E402
import intra_cases  # noqa: E402
import intra_side  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402
import triton_proton as proton  # noqa: E402

BUDGET = 5
MODES = {"all": "default:auto=all:budget=off", "budget": f"default:auto=all:budget={BUDGET}"}
ROUNDS = 3
WARM = 3


class Timed(NamedTuple):
    us: float  # mean per launch
    result: torch.Tensor
    compiled: Any


def launch_alone(case: intra_auto_cases.Case, session: Any) -> Any:
    """The next launch begins when the records of this one have been read."""
    compiled = case.launch()
    torch.cuda.synchronize()
    if session is not None:
        proton.deactivate(session, flushing=True)
        proton.activate(session)
    return compiled


def timed(case: intra_auto_cases.Case, mode: str) -> Timed:
    """Each launch is alone on the device; `mode` is empty for the plain kernel."""
    with tempfile.TemporaryDirectory() as scratch:
        session: Any = None
        if mode:
            inside = os.path.join(scratch, "inside")
            session = proton.start(inside, backend="instrumentation", data="tree", mode=mode)
        case.result.zero_()
        for _ in range(WARM):
            launch_alone(case, session)
        path = os.path.join(scratch, "time")
        proton.start(path, data="tree", backend="cupti")
        for _ in range(LAUNCHES):
            compiled = launch_alone(case, session)
        proton.finalize()
        nodes = intra_side.nodes_of(path + ".hatchet")
    kernels = [node for node in nodes if node["frame"]["name"] == case.kernel.__name__]
    count = sum(node["metrics"].get("count", 0) for node in kernels)
    if count < LAUNCHES:
        raise RuntimeError(f"{count} records of {LAUNCHES} launches")
    total = sum(node["metrics"].get("time (ns)", 0) for node in kernels)
    return Timed(total / LAUNCHES / 1e3, case.result.clone(), compiled)


def scopes_of(compiled: Any) -> int:
    return getattr(compiled.metadata, "proton_layout", "").count("\nscope ")


def measure(case: intra_auto_cases.Case) -> dict[str, Any]:
    rounds: dict[str, list[float]] = {name: [] for name in MODES}
    plain = []
    row: dict[str, Any] = {"identical": True}
    for _ in range(ROUNDS):
        before = timed(case, "")
        plain.append(before.us)
        for name, mode in MODES.items():
            after = timed(case, mode)
            rounds[name].append(after.us / plain[-1])
            row["identical"] &= torch.equal(before.result, after.result)
            row[f"{name} scopes"] = scopes_of(after.compiled)
            row[f"{name} registers"] = after.compiled.n_regs - before.compiled.n_regs
    row["plain us"] = statistics.median(plain)
    for name, ratios in rounds.items():
        row[f"{name} ratio"] = statistics.median(ratios)
    return row


def all_cases() -> list[intra_auto_cases.Case]:
    own = [
        intra_auto_cases.Case(
            case.name, getattr(intra_cases, case.kernel),
            lambda case=case: case.launch(False), case.result,
        )
        for case in intra_cases.cases()
    ]  # fmt: skip
    return own + intra_auto_cases.tutorials()


def main() -> None:
    found: dict[str, Any] = {"triton": triton.__version__, "cases": {}}
    for case in all_cases():
        row = intra_side.measured(case.name, lambda: measure(case))
        if row is not None:
            print(f"{case.name}: {row}", flush=True)
        found["cases"][case.name] = row
    print("result " + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
