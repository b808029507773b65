"""One profile of all ranks, merged by the job itself through torch.distributed."""

import os
import re
import sys
import textwrap
from pathlib import Path

import pytest

from cmd_support import environment, executable, run
from rank_support import data_of, merge
from warm_python import WarmPython
from triton_proton import _reduce

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch has no gloo", allow_module_level=True)

# Kernels of the C interface. Options: how the script ends.
PROGRAM = """
    import os
    import sys
    import torch.distributed as dist
    import triton_proton as proton
    from triton_proton import _libproton

    how = sys.argv[1]
    rank = int(os.environ["RANK"])
    if how != "alone":
        dist.init_process_group("gloo")
    if "start" in sys.argv:
        proton.start("out", backend="host")
    with proton.scope("step", {"share": 0.1 * (rank + 1)}):
        for name in ("gemm", f"send from rank {rank}"):
            _libproton.kernel_begin(name)
            _libproton.kernel_end()
    if how == "die":
        dist.barrier()
    if how == "die" and rank == 1:
        os._exit(0)
    if how == "destroy":
        dist.barrier()
        dist.destroy_process_group()
    if how == "raise" and rank == 1:
        raise RuntimeError("wrong input")
    if "start" in sys.argv:
        keep = "keep" in sys.argv
        merged = proton.ranks.finalize(timeout=float(sys.argv[2]), keep=keep)
        sys.stdout.write(f"merged {merged}\\n")  # at once: ranks write to the same file
    """


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text(textwrap.dedent(PROGRAM))
    return path


@pytest.fixture(scope="module")
def warm():
    """torchrun is its fork: importing torch takes longer than most jobs."""
    with WarmPython("import os, sys\nimport torch.distributed.run\n") as python:
        yield python


@pytest.fixture
def torchrun(warm, monkeypatch, tmp_path, tmp_path_factory):
    """Runs torchrun on this machine, with a free port; the files that it leaves are the job's."""

    def go(ranks: int, *arguments: str | Path, **variables: str):
        words = ["torchrun", "--standalone", f"--nproc-per-node={ranks}", *map(str, arguments)]
        code = f"os.chdir({str(tmp_path)!r}); sys.argv = {words!r}; torch.distributed.run.main()"
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path_factory.mktemp("torchrun"))
            return warm.script(code, environment(OMP_NUM_THREADS="1", **variables), status=None)

    return go


def below_proton(*options: str) -> list[str]:
    return ["--no-python", executable("proton"), "-b", "host", "-n", "out", *options]


def ranks_of(cwd: Path) -> dict:
    return data_of(cwd, "--ranks", "--allow-partial", "out.ranks.proton")


def merged_by_command(cwd: Path) -> bytes:
    result = merge(cwd, "--allow-partial", "-o", "by.proton", "out.ranks")
    assert result.returncode == 0, result.stderr
    return (cwd / "by.proton").read_bytes()


def test_the_merged_file_is_that_of_proton_merge(torchrun, script: Path, tmp_path: Path) -> None:
    result = torchrun(3, *below_proton("--ranks", "merge-keep"), script, "run")
    assert result.returncode == 0, result.stderr
    hint = "proton: merged 3 ranks; view them with: proton-viewer --ranks out.ranks.proton"
    assert result.stderr.count(hint) == 1, result.stderr
    assert (tmp_path / "out.ranks.proton").read_bytes() == merged_by_command(tmp_path)
    rows = ranks_of(tmp_path)["ranks"]
    assert [(row["rank"], row["state"]) for row in rows] == [(n, "finished") for n in range(3)]


def test_one_file_comes_out(torchrun, script: Path, tmp_path: Path) -> None:
    """Also if the script has destroyed its process group, as torch asks for."""
    result = torchrun(2, *below_proton("--ranks", "merge"), script, "destroy")
    assert result.returncode == 0, result.stderr
    assert sorted(os.listdir(tmp_path)) == ["job.py", "out.ranks.proton"]
    assert "out.ranks/" not in result.stderr
    assert len(ranks_of(tmp_path)["ranks"]) == 2


def test_finalize_of_a_script_merges_its_sessions(torchrun, script: Path, tmp_path: Path) -> None:
    result = torchrun(2, script, "run", "60", "start")
    assert result.returncode == 0, result.stderr
    assert sorted(os.listdir(tmp_path)) == ["job.py", "out.ranks.proton"]
    lines = ["merged None", f"merged {tmp_path / 'out.ranks.proton'}"]
    assert sorted(result.stdout.splitlines()) == sorted(lines)
    rows = ranks_of(tmp_path)["ranks"]
    assert [row["kernels"] for row in rows] == [2, 2]


def test_a_rank_that_has_died_is_missing(torchrun, script: Path, tmp_path: Path) -> None:
    result = torchrun(3, script, "die", "20", "start", "keep", PROTON_RANKS="on")
    assert result.returncode == 0, result.stderr
    assert "1 rank is missing: 1" in result.stderr
    states = {row["rank"]: row["state"] for row in ranks_of(tmp_path)["ranks"]}
    assert states == {0: "finished", 1: "missing", 2: "finished"}


def test_an_exception_in_the_script_still_merges(torchrun, script: Path, tmp_path: Path) -> None:
    result = torchrun(2, *below_proton("--ranks", "merge"), script, "raise")
    assert result.returncode != 0
    assert "RuntimeError: wrong input" in result.stderr
    rows = ranks_of(tmp_path)["ranks"]
    assert [(row["rank"], row["state"]) for row in rows] == [(n, "finished") for n in range(2)]


def test_without_a_process_group_the_file_is_the_ordinary_one(script: Path, tmp_path: Path) -> None:
    env = environment(RANK="0", WORLD_SIZE="1", TORCHELASTIC_USE_AGENT_STORE=None)
    result = run([sys.executable, script, "alone", "5", "start"], tmp_path, env=env)
    assert result.returncode == 0, result.stderr
    sentence = (
        "proton: there is no process group of torch.distributed: the ranks are not merged; use "
        "proton-merge"
    )
    assert result.stderr.count(sentence) == 1, result.stderr
    assert sorted(os.listdir(tmp_path)) == ["job.py", "out.hatchet"]


def test_files_stay_if_merging_fails(torchrun, script: Path, tmp_path: Path) -> None:
    (tmp_path / "out.ranks.proton").mkdir()  # no file can replace it
    result = torchrun(2, *below_proton("--ranks", "merge"), script, "run")
    assert result.returncode == 0, result.stderr
    for rank in range(2):
        path = f"out.ranks/000-999/rank{rank:06}.proton"
        assert (tmp_path / path).is_file()
        assert f"its profile is {path}" in result.stderr


def test_merge_needs_a_python_script(tmp_path: Path) -> None:
    result = run([executable("proton"), "--ranks", "merge", "--", "true"], tmp_path)
    assert result.returncode == 2
    assert "--ranks merge works only with Python scripts and modules" in result.stderr


def test_several_processes_merge_as_one(torchrun, tmp_path: Path) -> None:
    """More ranks than one process of proton-merge gets: 70 of them on two processes of gloo."""
    one = tmp_path / "one.py"
    one.write_text(
        textwrap.dedent(
            """
            import triton_proton as proton
            proton.start("image", backend="host")
            with proton.scope("step", {"n": 1.0}):
                pass
            proton.finalize(output_format="proton")
            """
        )
    )
    result = run([sys.executable, one], tmp_path)
    assert result.returncode == 0, result.stderr
    image = (tmp_path / "image.proton").read_bytes()
    directory = tmp_path / "out.ranks" / "000-999"
    directory.mkdir(parents=True)
    for rank in range(70):
        (directory / f"rank{rank:06}.proton").write_bytes(image)
    lead = tmp_path / "lead.py"
    lead.write_text(
        textwrap.dedent(
            """
            import os
            import time
            from triton_proton import _reduce
            job = _reduce.find_job(None)
            rank = int(os.environ["RANK"])
            ranks = [range(64), range(64, 70)][rank]
            names = [f"rank{r:06}.proton" for r in ranks]
            here = os.path.abspath("out.ranks/000-999")
            store = _reduce._prefixed(job.store, "test")
            group = _reduce.Group(store, rank, [0, 1], time.monotonic() + 60)
            os.mkdir(f"of{rank}")
            for name in names:
                os.link(os.path.join(here, name), os.path.join(f"of{rank}", name))
            lines = _reduce._merge(group, f"of{rank}", names, os.path.abspath("out.ranks.proton"))
            _reduce._confirm(group)
            print(rank, lines)
            """
        )
    )
    result = torchrun(2, lead)
    assert result.returncode == 0, result.stderr
    assert "merged 70 ranks" in result.stdout
    assert (tmp_path / "out.ranks.proton").read_bytes() == merged_by_command(tmp_path)


def test_ranks_of_a_process_are_those_of_the_native_merge() -> None:
    header = Path(__file__).parents[2].joinpath("src/viewer/ranks/rank_merge.h").read_text()
    chunk = re.search(r"^#define RANK_CHUNK (\d+)u$", header, re.MULTILINE)
    assert chunk is not None and int(chunk[1]) == _reduce.RANKS_PER_PROCESS
