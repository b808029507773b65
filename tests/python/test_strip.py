"""proton-viewer --strip: a profile that can be given away, and still loads."""

import json
import random
import re
import socket
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import packed_files as files
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


DROPPED = (
    "host", "command", "job", "topology", "launch", "launcher", "gpu0_uuid", "gpu0_pci",
    "cupti_path", "roctracer_path", "hip_path", "a_key_of_a_later_version",
)  # fmt: skip
TID = 0x5EC2E7


def planted(path: Path) -> list[bytes]:
    """A trace with PC samples of a kernel, its code, its source, and a thread; the secrets."""
    chance = random.Random(20)
    code, text = chance.randbytes(600), chance.randbytes(300).hex().encode()
    directory, hashed = b"/home/" + chance.randbytes(12).hex().encode(), chance.randbytes(8)
    values = [chance.randbytes(12).hex().encode() for _ in DROPPED]
    words = [b"kernel", b"CUDA", b"90", b"stall", b"function"]
    paths = [directory + b"/model.py", directory + b"/kernel.py"]
    keys = [key.encode() for key in DROPPED]
    strings, ids = files.strings([*words, *paths, *keys, *values])
    kernel, cuda, arch, stall, function, frame_path, source_path = ids[1:8]
    pairs = zip(ids[8 : 8 + len(keys)], ids[8 + len(keys) :], strict=True)
    rows = {
        "frames": struct.pack("<12I", *[0] * 4, 2, kernel, frame_path, 7, 3, kernel, 0, 0),
        "nodes": struct.pack("<18I", *[0] * 6, 0, 1, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1),
        "kernels": bytes(48) + struct.pack("<4I4Q", 0, 0, 0, 0, 1, 100, 100, 100),
        "devices": struct.pack("<4I4Q", cuda, 0, arch, 0, 1, 1, 1, 1),
        "info": b"".join(struct.pack("<2I", *pair) for pair in pairs),
        "epochs": struct.pack("<IIQQ", 0, 1, 1, 2),
        "lanes": struct.pack("<IIQII", 1, 0, TID, 0, 0),
        "events": bytes(40),
        "code_objects": bytes(24) + struct.pack("<QQII", 99, len(code), 1, 0),
        "functions": bytes(16) + struct.pack("<QII", 99, function, 1),
        "pcs": bytes(40) + struct.pack("<6IQQ", 1, 16, stall, 0, 2, 0, 5, 2),
        "sources": bytes(32)
        + struct.pack("<IIQ", source_path, 0, len(text))
        + hashed
        + struct.pack("<II", 1 + len(code) // 8, 0),
        "blobs": bytes(8) + code + text,
    }
    tables = {name: files.raw(name, content) for name, content in rows.items()}
    path.write_bytes(files.assemble({"strings": strings, **tables}))
    return [code, text, hashed, directory, *values]


def windows(content: bytes, size: int) -> set[bytes]:
    return {content[i : i + size] for i in range(len(content) - size + 1)}


def test_no_bytes_of_code_source_identities_and_directories_stay(tmp_path: Path) -> None:
    secrets = planted(tmp_path / "in.proton")
    before = (tmp_path / "in.proton").read_bytes()
    result = strip(tmp_path, "in.proton")
    assert (result.returncode, result.stderr) == (0, "")
    after = (tmp_path / "stripped.proton").read_bytes()
    assert view(tmp_path, "-o", "stripped.hatchet", "stripped.proton").returncode == 0
    texts = after + (tmp_path / "stripped.hatchet").read_bytes()
    for secret in secrets:
        size = min(len(secret), 6)
        assert secret[:size] in before or secret[-size:] in before  # strings share their beginnings
        assert not windows(secret, size) & windows(texts, size)
    for thread in (struct.pack("<I", TID), files.varint(TID), files.varint(files.zigzag(TID))):
        assert thread not in after
    assert struct.pack("<I", TID) in before
    assert struct.pack("<I", 4242) in before[:64]  # the process
    assert struct.pack("<I", 4242) not in after[:64]
    shown = view(tmp_path, "--source", "stripped.proton")
    assert shown.returncode == 0 and "kernel" in shown.stdout, shown.stderr


def test_other_files_and_options_are_refused(tmp_path: Path) -> None:
    path = write_rank(tmp_path / "out.ranks", 0, step(0), world=1)
    result = strip(tmp_path, str(path))
    assert result.returncode == 2 and "it is not a .proton file" in result.stderr
    result = strip(tmp_path, "--csv", str(path))
    assert result.returncode == 2 and "--strip takes one profile" in result.stderr
    assert not (tmp_path / "stripped.proton").exists()
