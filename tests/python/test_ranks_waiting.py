"""Waiting in collectives: the rank that makes the others wait is named."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cmd_support import environment, executable, run
from rank_support import data_of, merge, table_of, view

# Kernels of the C interface. Arguments: the name of the collective, and how late rank 1 is.
KERNELS = """
    import os
    import sys
    import time
    import triton_proton as proton
    from triton_proton import _libproton

    def kernel(name, seconds):
        _libproton.kernel_begin(name)
        time.sleep(seconds)
        _libproton.kernel_end()

    rank = int(os.environ["RANK"])
    late = float(sys.argv[2])
    proton.start("out", backend="host")
    for step in range(6):
        with proton.scope("backward"):
            kernel("gemm", late if rank == 1 else 0.0)
            kernel(sys.argv[1], 0.0 if rank == 1 else late)
    proton.finalize(output_format="proton")
    """

# A step of training on the CPU: rank 2 is 200 ms late in each.
TRAINING = """
    import time
    import torch
    import torch.distributed as dist
    import triton_proton as proton

    dist.init_process_group("gloo")
    gradients = torch.ones(1000)
    dist.barrier()
    for step in range(10):
        with proton.cpu_timed_scope("step"):
            if dist.get_rank() == 2:
                time.sleep(0.2)
            with proton.scope("all_reduce", group="dp"):
                dist.all_reduce(gradients)
    dist.destroy_process_group()
    """


def merged(cwd: Path) -> dict:
    return data_of(cwd, "--ranks", "out.ranks.proton")


def record(cwd: Path, name: str, late: float, **variables: str) -> None:
    """Three ranks at the same time, merged."""
    script = cwd / "kernels.py"
    script.write_text(textwrap.dedent(KERNELS))
    started = []
    for rank in range(3):
        env = environment(RANK=str(rank), WORLD_SIZE="3", PROTON_RANKS="on", **variables)
        command = [sys.executable, script, name, str(late)]
        started.append(subprocess.Popen(command, cwd=cwd, env=env))
    assert [process.wait(60) for process in started] == [0, 0, 0]
    result = merge(cwd, "out.ranks")
    assert result.returncode == 0, result.stderr


def test_the_rank_with_the_shortest_collective_came_last(tmp_path: Path) -> None:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    record(tmp_path, name, 0.3)
    (wait,) = merged(tmp_path)["waits"]
    assert wait["path"].startswith("backward > ncclDevKernel_AllReduce")
    assert (wait["timed"], wait["ranks"], wait["groups"]) == ("kernel", 3, 1)
    assert (wait["occurrences"], wait["one_in"]) == (6, 1)
    assert wait["last"][0]["rank"] == 1
    assert 0 < wait["wait_ns"] < wait["total_ns"] < wait["time_ns"]
    text = " ".join(view(tmp_path, "--ranks", "out.ranks.proton").stdout.split())
    assert "kernel time in ncclDevKernel_AllReduce" in text
    assert "below backward; rank 1 on host" in text
    assert "rank 1 is above the mean in backward > gemm: " in text


def test_other_kernels_are_collectives_by_a_pattern(tmp_path: Path) -> None:
    record(tmp_path, "my_own_gather", 0.02, PROTON_COLLECTIVES="^my_own_(gather|reduce)$")
    (wait,) = merged(tmp_path)["waits"]
    assert wait["path"] == "backward > my_own_gather"


def test_ordinary_kernels_are_not_collectives(tmp_path: Path) -> None:
    record(tmp_path, "my_own_gather", 0)
    assert merged(tmp_path)["waits"] == []


def test_a_wrong_pattern_is_reported(tmp_path: Path) -> None:
    script = tmp_path / "kernels.py"
    script.write_text(textwrap.dedent(KERNELS))
    env = environment(RANK="0", WORLD_SIZE="1", PROTON_COLLECTIVES="(")
    result = run([sys.executable, script, "gather", "0"], tmp_path, env=env)
    assert result.returncode == 0
    sentence = 'PROTON_COLLECTIVES is ignored: "(" is not a regular expression'
    assert result.stderr.count(sentence) == 1, result.stderr


def test_scopes_with_a_group_have_its_name(tmp_path: Path) -> None:
    program = """
        import triton_proton as proton
        proton.start("out", backend="host")
        with proton.scope("all_reduce", {"bytes": 8.0}, group="dp"):
            pass
        with proton.scope("plain", group=None):
            pass
        @proton.scope("gather", group="tp")
        def gather():
            return 7
        assert gather() == 7
        try:
            proton.scope("x", group=7)
        except TypeError as error:
            print(error)
        try:
            proton.cpu_timed_scope("x", group="dp")
        except TypeError as error:
            print(error)
        proton.finalize()
        """
    result = run([sys.executable, "-c", textwrap.dedent(program)], tmp_path)
    assert result.returncode == 0, result.stderr
    assert "group must be a str or a process group of torch, not int" in result.stdout
    assert "got an unexpected argument 'group'" in result.stdout
    tree = json.loads((tmp_path / "out.hatchet").read_text())[0]
    names = [child["frame"]["name"] for child in tree["children"]]
    assert names == ["all_reduce [dp]", "plain", "gather [tp]"]


def torchrun(cwd: Path, script: Path, ranks: int) -> subprocess.CompletedProcess[str]:
    env = environment(OMP_NUM_THREADS="1")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python"]
    command = [executable("proton"), "-b", "host", "--ranks", "merge", "-n", "out", str(script)]
    return run([*launcher, f"--nproc-per-node={ranks}", *command], cwd, env=env)


def test_a_rank_that_is_late_in_each_step_is_named(tmp_path: Path) -> None:
    """The wall times of the steps do not tell: all ranks leave the collective together."""
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("torch has no gloo")
    script = tmp_path / "training.py"
    script.write_text(textwrap.dedent(TRAINING))
    result = torchrun(tmp_path, script, 4)
    assert result.returncode == 0, result.stderr
    assert sorted(os.listdir(tmp_path)) == ["out.ranks.proton", "training.py"]
    (wait,) = merged(tmp_path)["waits"]
    assert wait["path"] == "step > all_reduce [dp]"
    assert (wait["timed"], wait["ranks"], wait["occurrences"]) == ("host", 4, 10)
    assert wait["last"][0]["rank"] == 2
    # It slept for 2 s. The others were in their steps for as long.
    rows = table_of(*(tmp_path, "--ranks=frames", "--csv", "-m", "cpu_time/ms", "out.ranks.proton"))
    (step,) = [row for row in rows if row["path"] == "step"]
    assert float(step["max"]) >= 2000 and step["ranks"] == "4"
    assert float(step["min"]) > float(step["max"]) / 2
