"""Profiles of the ranks of a job, with exact times."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from cmd_support import executable, run

# A tree by names: times of kernels in ns, or a scope with metrics under "".
Tree = dict[str, Any]


def _node(name: str, content: Tree | int) -> dict[str, Any]:
    if isinstance(content, int):
        kernel = {"time (ns)": content, "count": 1, "device_id": "0", "device_type": "CUDA"}
        return {
            "frame": {"name": name, "type": "function"},
            "metrics": kernel,
            "children": [],
        }
    metrics = content.get("", {})
    children = [_node(child, part) for child, part in content.items() if child]
    return {
        "frame": {"name": name, "type": "function"},
        "metrics": metrics,
        "children": children,
    }


def write_rank(
    job: Path, rank: int, tree: Tree, /, *, world: int, host: str = "", name: str = "", **more: str
) -> Path:
    """The profile of a rank in the directory of a job, NAME.ranks; `more`: its information."""
    info = {"rank": str(rank), "world_size": str(world), "host": host or f"host{rank // 4}"}
    info.update(more)
    root = _node("ROOT", tree)
    # Inclusive metrics are those of the root.
    root["metrics"] = {"time (ns)": 0, "count": 0, "bytes": 0}
    root["proton"] = {"info": info, "counters": {}, "losses": {}}
    devices = {"CUDA": {"0": {"arch": "90", "clock_rate": 1, "memory_clock_rate": 1}}}
    first = rank // 1000 * 1000
    directory = job / f"{first:03}-{first + 999:03}"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name or f'rank{rank:06}'}.hatchet"
    path.write_text(json.dumps([root, devices]))
    return path


MS = 1_000_000


def step(rank: int, allreduce_ms: int = 10) -> Tree:
    """Ranks from 4 on have an expert: two shapes of trees. Rank 3 is slow in gemm."""
    tree: Tree = {
        "": {"bytes": 1000 * (rank + 1)},
        "forward": {
            "gemm": (40 if rank == 3 else 20) * MS + rank,
            "allreduce": allreduce_ms * MS,
        },
    }
    if rank >= 4:
        tree["expert"] = {"moe": rank * MS}
    return {"step": tree}


def write_job(directory: Path, name: str = "out", size: int = 8) -> Path:
    """A job of 8 ranks on 2 hosts."""
    for rank in range(size):
        write_rank(
            directory / f"{name}.ranks", rank, step(rank, 18 if rank == 6 else 10), world=size
        )
    return directory / f"{name}.ranks"


def write_merged_job(directory: Path) -> Path:
    """out.ranks, and out.ranks.proton of it, in this directory, which is returned."""
    write_job(directory)
    result = run([executable("proton-merge"), "out.ranks"], directory)
    assert result.returncode == 0, result.stderr
    return directory


def view(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run([executable("proton-viewer"), *arguments], cwd)
