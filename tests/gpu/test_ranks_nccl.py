"""A job of two ranks with NCCL under torchrun: one merged file, and the late rank is named by the
waiting, but not by the time of steps or of kernels. Skipped with fewer than two GPUs.

    python -m pytest tests/gpu/test_ranks_nccl.py
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import gpus
import pytest

torch = gpus.need(count=2)
if not torch.distributed.is_available() or not torch.distributed.is_nccl_available():
    pytest.skip("torch has no NCCL", allow_module_level=True)

STEPS = 20
LATE = 1  # its kernels of a step take longer

TRAINING = f"""
import os
import torch
import torch.distributed as dist
import triton_proton as proton

rank = int(os.environ["RANK"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl")
weights = torch.zeros(512, 512, device=device)
with proton.scope("connect"):
    for _ in range(3):
        weights @ weights
        dist.all_reduce(weights)
    torch.cuda._sleep(1000)
    torch.cuda.synchronize()
for step in range({STEPS}):
    with proton.cpu_timed_scope("step"):
        with proton.scope("forward"):
            weights @ weights
            with proton.scope("delay"):
                torch.cuda._sleep(40_000_000 if rank == {LATE} else 1000)
        with proton.scope("named", group=dist.group.WORLD):
            dist.all_reduce(weights)
        with proton.scope("plain"):
            dist.all_reduce(weights)
        torch.cuda.synchronize()
dist.destroy_process_group()
"""


def program(name: str) -> str:
    path = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    assert path, f"{name} is not installed"
    return path


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Path:
    """The directory in which the job has run."""
    directory = tmp_path_factory.mktemp("job")
    (directory / "train.py").write_text(TRAINING)
    # Multicast is not needed, and not permitted on every machine.
    environment = dict(os.environ, OMP_NUM_THREADS="1", NCCL_NVLS_ENABLE="0")
    for variable in ("PROTON_BACKEND", "PROTON_QUIET"):
        environment.pop(variable, None)
    environment["PROTON_PYTHON"] = sys.executable
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [program("proton"), "--ranks", "merge", "-n", "out", "train.py"]
    result = subprocess.run(
        [*launcher, "--nproc-per-node=2", "--no-python", *command], cwd=directory, env=environment,
        capture_output=True, text=True, timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert "proton: merged 2 ranks" in result.stderr, result.stderr
    return directory


def view(job: Path, *arguments: str) -> str:
    command = [program("proton-viewer"), *arguments, "out.ranks.proton"]
    result = subprocess.run(command, cwd=job, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout


def ranks_of(job: Path, *arguments: str) -> dict:
    return json.loads(view(job, "--ranks", "--json", *arguments))


def row_of(found: dict, path: str) -> dict:
    rows = [row for row in found["rows"] if row["path"] == path]
    assert len(rows) == 1, [row["path"] for row in found["rows"]]
    return rows[0]


def waits_below(job: Path, path: str, timed: str) -> list[dict]:
    waits = ranks_of(job)["waits"]
    found = [wait for wait in waits if wait["path"].startswith(path) and wait["timed"] == timed]
    assert found, waits
    return found


def delay_ns(job: Path) -> int:
    """The time by which the late rank was late, in all steps."""
    row = row_of(ranks_of(job), "step > forward > delay")
    assert row["max_rank"] == LATE and row["ranks"] == 2
    delay = row["max_ns"] - row["min_ns"]
    assert delay > STEPS * 5_000_000
    return delay


def test_one_file_has_both_ranks(job):
    assert sorted(os.listdir(job)) == ["out.ranks.proton", "train.py"]
    rows = ranks_of(job)["ranks"]
    assert [(row["rank"], row["state"], row["lost"]) for row in rows] == [
        (0, "finished", 0),
        (1, "finished", 0),
    ]
    assert all(row["gpu"] for row in rows) and rows[0]["gpu"] != rows[1]["gpu"], rows
    # A product, a delay, and two collectives in each step.
    assert all(row["kernels"] >= 4 * STEPS for row in rows), rows


def test_ranges_of_nccl_end(job):
    """NCCL ends the range of initialization in another way than others."""
    paths = [row["path"] for row in ranks_of(job)["rows"]]
    kernels = [path for path in paths if path.startswith("connect > ") and "spin_kernel" in path]
    assert kernels and all(path.count(" > ") == 1 for path in kernels), paths


@pytest.mark.skipif(
    torch.cuda.nccl.version() < (2, 26), reason="this NCCL does not tell the communicator"
)
def test_ranges_of_nccl_name_the_communicator(job):
    paths = [wait["path"] for wait in waits_below(job, "step > plain", "kernel")]
    assert all("ncclAllReduce [2 ranks] > " in path for path in paths), paths


@pytest.mark.parametrize("scope", ["named [2 ranks]", "plain"])
def test_each_collective_is_in_its_scope(job, scope):
    (wait,) = waits_below(job, f"step > {scope}", "kernel")
    assert "nccl" in wait["path"].lower()
    assert (wait["ranks"], wait["groups"], wait["one_in"]) == (2, 1, 1)
    assert wait["occurrences"] == STEPS


def test_the_late_rank_came_last(job):
    """The first collective of a step has the whole delay; then the ranks are together."""
    (wait,) = waits_below(job, "step > named [2 ranks]", "kernel")
    last = wait["last"][0]
    assert (last["rank"], last["of"]) == (LATE, STEPS)
    assert last["count"] > 0.9 * STEPS
    assert 0.8 * delay_ns(job) < wait["wait_ns"] < 1.5 * delay_ns(job), wait
    (after,) = waits_below(job, "step > plain", "kernel")
    assert after["wait_ns"] < 0.2 * wait["wait_ns"]


def test_the_time_of_steps_and_kernels_does_not_tell(job):
    """Both ranks are in a step for as long: one of them waits in a kernel."""
    row = row_of(ranks_of(job), "step")
    assert row["max_ns"] - row["min_ns"] < 0.25 * delay_ns(job), row


def test_the_report_tells_what_the_late_rank_did(job):
    text = " ".join(view(job, "--ranks").split())
    assert f"rank {LATE} is above the mean in step > forward > delay > " in text, text
    assert "below step > named [2 ranks]" in text
