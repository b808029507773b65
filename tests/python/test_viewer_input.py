"""Invalid input of proton-viewer: one error message, at once, in little memory; status 2."""

import gzip
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from cmd_support import executable
from support import run_command

DATA = Path(__file__).resolve().parent.parent / "data" / "viewer"
MAX_BYTES = 400 << 20  # of address space: 2 GB would not fit
MAX_SECONDS = 5  # of CPU time: a busy machine takes longer; normally milliseconds


def children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))


def refuse(*arguments: object, **options) -> str:
    start = children_seconds()
    done = subprocess.run(
        [executable("proton-viewer"), *map(str, arguments)], capture_output=True, timeout=300,
        preexec_fn=limit_memory, **options,
    )
    assert children_seconds() - start < MAX_SECONDS
    assert done.returncode == 2 and not done.stdout
    text = done.stderr.decode()
    assert text.startswith("proton-viewer: ") and text.count("\n") == 1, text
    return text


@pytest.mark.parametrize("form", ["tree", "top", "bottom-up", "diff", "merge", "csv", "html"])
@pytest.mark.parametrize("kind", ["sparse", "noise", "zeros", "directory", "brackets"])
def test_input_that_is_not_a_profile_is_rejected(tmp_path, kind, form):
    path = tmp_path / "x.proton"
    if kind == "sparse":
        path.touch()
        os.truncate(path, 2 << 30)
    elif kind == "noise":
        path.write_bytes(bytes((i * i * 31 + 7) & 255 for i in range(1, 100000)))
    elif kind == "zeros":
        path = Path("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    else:
        path.write_bytes(b"[")
        os.truncate(path, 2 << 30)
    options = {
        "tree": [],
        "top": ["--top"],
        "bottom-up": ["--bottom-up"],
        "diff": ["--diff", path],
        "merge": ["--merge", "spread"],
        "csv": ["-o", tmp_path / "out.csv"],
        "html": ["-o", tmp_path / "out.html", "--diff", DATA / "cuda.hatchet"],
    }[form]
    if form == "diff" and kind == "directory":
        pytest.skip("reports both")
    assert str(path) in refuse(*options, path)
    assert not list(tmp_path.glob("out.*"))


@pytest.mark.parametrize("source", ["/dev/zero", "/dev/urandom"])
def test_an_endless_stream_is_not_waited_for(source):
    with open(source, "rb") as stream:
        assert "standard input" in refuse("-", stdin=stream)


def test_a_sparse_profile_of_2_gb_is_read_in_little_memory(tmp_path):
    path = tmp_path / "x.proton"
    path.write_bytes(gzip.decompress((DATA / "unfinished.proton.gz").read_bytes()))
    command = [executable("proton-viewer"), "-m", "count", str(path)]
    whole = subprocess.run(command, capture_output=True, timeout=300).stdout
    os.truncate(path, 2 << 30)
    start = children_seconds()
    # From a small process: a child's maximum counts what its parent was before it became another.
    wrapper = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stderr=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)\n"
        "sys.exit(done.returncode)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", wrapper, *command], capture_output=True, timeout=300
    )
    assert done.stdout == whole and whole
    assert done.returncode == 0 and int(done.stderr) < 100 << 10
    assert children_seconds() - start < MAX_SECONDS


@pytest.mark.parametrize(
    "name", ["up_tree.hatchet", "up_tree.hatchet_msgpack", "finished.proton.gz", "mixed.hatchet"]
)
def test_a_truncated_file_ends_with_1_or_2(tmp_path, name):
    data = (DATA / name).read_bytes()
    if name.endswith(".gz"):
        data = gzip.decompress(data)
    path = tmp_path / "cut"
    for share in range(0, 100, 9):
        path.write_bytes(data[: len(data) * share // 100])
        done = subprocess.run(
            [executable("proton-viewer"), "--top", str(path)], capture_output=True, timeout=300
        )
        assert done.returncode in (1, 2) and done.stderr.startswith(b"proton-viewer: ")


def make_special(path: Path, kind: str) -> Path:
    """A file that a reader could wait for without end, as the profile of rank 0."""
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(os.path.relpath(path))
    else:
        path.symlink_to("/dev/tty" if os.path.exists("/dev/tty") else "/dev/zero")
    return path


@pytest.mark.parametrize("kind", ["FIFO", "socket", "device"])
@pytest.mark.parametrize(
    "command",
    [
        ("proton-viewer",),
        ("proton-viewer", "--diff", DATA / "cuda.hatchet"),
        ("proton-viewer", "--fail-if", "time/ms > 1"),
        ("proton-viewer", "--ranks"),
        ("proton-viewer", "--ranks", "--diff", DATA / "cuda.hatchet"),
        ("proton-viewer", "--export", "csv"),
        ("proton-merge", "-o", "out.proton"),
    ],
    ids=lambda command: " ".join(map(str, command[:2])),
)
def test_what_is_not_a_file_is_refused_and_not_waited_for(tmp_path, kind, command):
    (tmp_path / "a.ranks").mkdir()
    path = make_special(tmp_path / "a.ranks" / "rank0.proton", kind)
    program, *options = command
    for place in (path, tmp_path / "a.ranks"):
        done = run_command([executable(program), *map(str, options), str(place)], status=None)
        assert done.returncode == 2 and not done.stdout, done
        assert f"it is a {kind}, not a file; read pipes as standard input (-)" in done.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.ranks"]


def test_an_open_descriptor_may_be_a_pipe(tmp_path):
    data = (DATA / "cuda.hatchet").read_bytes()
    whole = subprocess.run(
        [executable("proton-viewer"), "--csv", "-"], input=data, capture_output=True, timeout=300
    )
    command = f"exec {executable('proton-viewer')} --csv <(cat {DATA / 'cuda.hatchet'})"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=300)
    assert done.returncode == 0 and done.stdout == whole.stdout != b""
