"""Profiles of the ranks of a job, with exact times."""

import csv
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cmd_support import executable, run

# A tree by names: times of kernels in ns, or a scope with metrics under "".
Tree = dict[str, Any]


def _node(name: str, content: Tree | int) -> dict[str, Any]:
    if isinstance(content, int):
        kernel = {"time (ns)": content, "count": 1, "device_id": "0", "device_type": "CUDA"}
        return {"frame": {"name": name, "type": "function"}, "metrics": kernel, "children": []}
    metrics = content.get("", {})
    children = [_node(child, part) for child, part in content.items() if child]
    return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": children}


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
        "forward": {"gemm": (40 if rank == 3 else 20) * MS + rank, "allreduce": allreduce_ms * MS},
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


def merge(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run([executable("proton-merge"), *arguments], cwd)


def view(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run([executable("proton-viewer"), *arguments], cwd)


def data_of(cwd: Path, *arguments: str) -> dict[str, Any]:
    """The JSON object of a view."""
    result = view(cwd, "--json", *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def table_of(cwd: Path, *arguments: str) -> list[dict[str, str]]:
    """The rows of a view that is written as CSV."""
    result = view(cwd, *arguments)
    assert result.returncode == 0, result.stderr
    return list(csv.DictReader(io.StringIO(result.stdout)))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with out.ranks, out.ranks.proton of it, and the same alone in `alone`."""
    directory = tmp_path_factory.mktemp("job")
    write_job(directory)
    result = merge(directory, "out.ranks")
    assert result.returncode == 0, result.stderr
    (directory / "alone").mkdir()
    merged = (directory / "out.ranks.proton").read_bytes()
    (directory / "alone" / "out.ranks.proton").write_bytes(merged)
    return directory
