"""proton-viewer --strip: a profile that can be given away, and still loads."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cmd_support import environment, executable, run
from rank_support import step, view, write_rank

PROGRAM = """
    import triton_proton as proton
    proton.start("out", backend="host", context=CONTEXT, data=DATA)
    with proton.scope("step", {"n": 2.0}):
        pass
    proton.finalize(output_format="proton")
    """


def record(directory: Path, context: str, data: str) -> Path:
    """A profile of a job, with names that must not be given away."""
    place = directory / "planted_directory"
    place.mkdir()
    script = place / "program.py"
    text = textwrap.dedent(PROGRAM).replace("CONTEXT", repr(context)).replace("DATA", repr(data))
    script.write_text(text)
    env = environment(RANK="1", WORLD_SIZE="4", TORCHELASTIC_RUN_ID="planted_job")
    result = run([sys.executable, script, "planted_argument"], directory, env=env)
    assert result.returncode == 0, result.stderr
    return directory / "out.proton"


def strip(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run([executable("proton-viewer"), "--strip", "stripped.proton", *arguments], cwd)


@pytest.mark.parametrize("data", ["tree", "trace"])
@pytest.mark.parametrize("context", ["shadow", "python"])
def test_nothing_planted_is_in_the_copy(context: str, data: str, tmp_path: Path) -> None:
    before = record(tmp_path, context, data).read_bytes()
    result = strip(tmp_path, "out.proton")
    assert (result.returncode, result.stderr) == (0, "")
    after = (tmp_path / "stripped.proton").read_bytes()
    # Packed strings share their beginnings, so the strings are looked at too.
    assert view(tmp_path, "-o", "stripped.hatchet", "stripped.proton").returncode == 0
    exported = (tmp_path / "stripped.hatchet").read_text()
    for word in ("planted_job", "planted_argument", "planted_directory", socket.gethostname()):
        assert word.encode() in before or word == "planted_directory"
        assert word.encode() not in after and word not in exported
    assert re.search(rb"boot [0-9a-f]{8}", before) and b"boot " not in after
    assert ("step" if context == "shadow" else "program.py") in exported
    wanted = view(tmp_path, "-m", "n", "out.proton")
    copied = view(tmp_path, "-m", "n", "stripped.proton")
    # The first line has the command and the host.
    plain = [re.sub(r"/\S*/program", "program", line) for line in wanted.stdout.splitlines()]
    assert copied.stdout.splitlines()[1:] == plain[1:]
    assert len(copied.stdout.splitlines()) > 3 and copied.stderr == wanted.stderr
    if data == "trace":
        for export in ("chrome_trace", "perfetto"):
            made = view(tmp_path, "--export", export, "-o", "trace", "stripped.proton")
            assert made.returncode == 0, made.stderr


def test_a_merged_job_has_no_hosts_and_gpus(tmp_path: Path) -> None:
    for rank in range(4):
        more = {"gpu0_uuid": f"GPU-planted{rank}", "job": "planted_job", "launch": "planted_port"}
        host = f"planted_host{rank}"
        write_rank(tmp_path / "out.ranks", rank, step(rank), world=4, host=host, **more)
    result = run([executable("proton-merge"), "out.ranks"], tmp_path)
    assert result.returncode == 0, result.stderr
    assert b"planted" in (tmp_path / "out.ranks.proton").read_bytes()
    result = strip(tmp_path, "out.ranks.proton")
    assert (result.returncode, result.stderr) == (0, "")
    assert b"planted" not in (tmp_path / "stripped.proton").read_bytes()
    jobs = [
        json.loads(view(tmp_path, "--ranks", "--json", name).stdout)
        for name in ("out.ranks.proton", "stripped.proton")
    ]
    assert jobs[1]["rows"] == jobs[0]["rows"]
    assert {rank["host"] + rank["gpu"] + rank["job"] for rank in jobs[1]["ranks"]} == {""}
    for arguments in (["-t", "1"], ["-o", "report.html"], ["--ranks-of", "gemm"]):
        assert view(tmp_path, *arguments, "stripped.proton").returncode == 0


def test_other_files_and_options_are_refused(tmp_path: Path) -> None:
    path = write_rank(tmp_path / "out.ranks", 0, step(0), world=1)
    result = strip(tmp_path, str(path))
    assert result.returncode == 2 and "it is not a .proton file" in result.stderr
    result = strip(tmp_path, "--csv", str(path))
    assert result.returncode == 2 and "--strip takes one profile" in result.stderr
    assert not (tmp_path / "stripped.proton").exists()
