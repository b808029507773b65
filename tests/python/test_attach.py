"""`proton attach`: programs that were not started under `proton`."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cmd_support import environment, own_lines, proton
from support import load, names
from test_ctl import ctl, serving
from test_docs_commands import blocks

needs_way_in = pytest.mark.skipif(
    sys.version_info < (3, 14) and not shutil.which("gdb"), reason="Python before 3.14, no gdb"
)

# Computes in two threads while it takes commands in the main one.
PROGRAM = """
import hashlib, sys, threading

def compute(seed, into):
    value = str(seed).encode()
    while not is_done.is_set():
        value = hashlib.sha256(value).digest()
        into[0] += 1.5 * len(value)
        into[1] = (into[1] * 31 + value[0]) % 1000003
        into[2] += 1

def expected(seed, rounds):
    value, total, check = str(seed).encode(), 0.0, 0
    for _ in range(rounds):
        value = hashlib.sha256(value).digest()
        total += 1.5 * len(value)
        check = (check * 31 + value[0]) % 1000003
    return [total, check, rounds]

def finish():
    is_done.set()
    for thread in threads:
        thread.join(60)
    return all(found == expected(seed, found[2]) for seed, found in enumerate(results))

is_done = threading.Event()
results = [[0.0, 0, 0] for _ in range(2)]
threads = [threading.Thread(target=compute, args=one) for one in enumerate(results)]
for thread in threads:
    thread.start()
"""
# Takes commands with a main thread that runs Python code while it waits.
LOOP = """
import select, sys
print("ready", flush=True)
while True:
    line = ""
    if select.select([0], [], [], 0.02)[0]:
        line = sys.stdin.readline()
        if not line:
            break
        print(eval(line), flush=True)
"""
STATE = "sorted(globals()), sys.path, len(threading.enumerate())"


@pytest.fixture
def runtime(tmp_path):
    (tmp_path / "run").mkdir()
    return environment(XDG_RUNTIME_DIR=str(tmp_path / "run"), PROTON_BACKEND="host")


def attach(*words: str, cwd: Path, env: dict[str, str], status: int = 0) -> str:
    done = proton("attach", *words, cwd=cwd, env=env)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout.strip() if status == 0 else "\n".join(own_lines(done.stderr))


def state_of(pid: int) -> tuple[list[str], list[str], str]:
    """Threads, descriptors with their targets, and what is done with signals.

    Signals 32 and 33 are those of the C library for its threads.
    """
    place = Path(f"/proc/{pid}")
    open_files = [f"{entry.name} {os.readlink(entry)}" for entry in (place / "fd").iterdir()]
    lines = (place / "status").read_text().splitlines()
    masks = [line.split() for line in lines if line.startswith("Sig") and "SigQ" not in line]
    signals = " ".join(f"{name}{int(mask, 16) & ~(3 << 31):x}" for name, mask in masks)
    return sorted(os.listdir(place / "task")), sorted(open_files), signals


def await_state(pid: int, expected) -> None:
    """The listener's threads have sent their reply, and end."""
    end = time.monotonic() + 60
    while state_of(pid) != expected and time.monotonic() < end:
        time.sleep(0.01)
    assert state_of(pid) == expected


@needs_way_in
def test_a_program_is_recorded_and_then_in_its_former_state(tmp_path, runtime):
    where = dict(cwd=tmp_path, env=runtime)
    command = [sys.executable, "serve.py"]
    with serving(tmp_path, runtime, code=PROGRAM + LOOP, command=command) as server:
        pid = str(server.process.pid)
        inside, outside = server.do(STATE), state_of(server.process.pid)
        text = f"{pid} listens; record with: proton ctl {pid} start"
        assert attach("-n", "mine", pid, **where) == text
        assert ctl("status", **where) == f"{pid} mine: waiting: nothing is recorded"
        assert ctl("mine", "start", **where) == f"recording to {tmp_path}/mine"
        server.do("__import__('triton_proton').scope('s').__enter__()")
        assert "stop it first" in ctl("mine", "leave", status=1, **where)
        assert ctl("mine", "stop", **where) == f"{tmp_path}/mine.hatchet"
        assert ctl(pid, "leave", **where) == "listens no more"
        await_state(server.process.pid, outside)
        assert server.do(STATE) == inside
        assert server.do("finish()") == "True"
        assert server.end() == (0, "")
    assert names(load(tmp_path / "mine.hatchet")) == {"s"}
    assert not list((tmp_path / "run" / "proton").iterdir())


@needs_way_in
def test_the_commands_of_the_guide(tmp_path, runtime):
    page = Path(__file__).resolve().parents[2] / "docs" / "guide" / "control.md"
    (block,) = [block for block in blocks(page) if block.text.startswith("$ proton attach")]
    with serving(tmp_path, runtime, code=LOOP, command=[sys.executable, "serve.py"]) as server:
        for command, output in block.steps():
            words = command.replace("4711", str(server.process.pid)).split()[1:]
            done = proton(*words, cwd=tmp_path, env=runtime)
            expected = output.replace("4711", str(server.process.pid))
            assert done.stdout.strip() == expected.replace("/data", str(tmp_path)), done.stderr


@needs_way_in
def test_a_program_can_be_attached_to_again(tmp_path, runtime):
    where = dict(cwd=tmp_path, env=runtime)
    with serving(tmp_path, runtime, code=LOOP, command=[sys.executable, "serve.py"]) as server:
        pid = str(server.process.pid)
        for name in ("one", "two"):
            attach("-n", name, pid, **where)
            ctl(name, "start", **where)
            server.do(f"__import__('triton_proton').scope('{name}').__enter__()")
            ctl(name, "stop", **where)
            ctl(name, "leave", **where)
        assert server.end()[0] == 0
    for name in ("one", "two"):
        assert names(load(tmp_path / f"{name}.hatchet")) == {name}


@needs_way_in
def test_a_program_that_cannot_load_the_package_continues(tmp_path, runtime):
    code = "import sys; sys.modules['triton_proton'] = None\n" + PROGRAM + LOOP
    with serving(tmp_path, runtime, code=code, command=[sys.executable, "serve.py"]) as server:
        text = attach(str(server.process.pid), cwd=tmp_path, env=runtime, status=1)
        assert "does not listen: ModuleNotFoundError: import of triton_proton halted" in text
        assert "must be installed for its Python" in text
        assert server.do("finish()") == "True"
        assert server.end() == (0, "")


@needs_way_in
def test_a_main_thread_that_runs_no_python_code_is_reported(tmp_path, runtime):
    code = "import sys; print('ready', flush=True); sys.stdin.read(); print('end', flush=True)"
    with serving(tmp_path, runtime, code=code, command=[sys.executable, "serve.py"]) as server:
        pid = str(server.process.pid)
        text = attach("--timeout", "2", pid, cwd=tmp_path, env=runtime, status=1)
        assert "has run" in text and "Python code" in text and "--wait" in text
        output, errors = server.process.communicate("", timeout=60)
        assert (output, server.process.returncode) == ("end\n", 0)
        assert "Traceback" not in errors


@contextlib.contextmanager
def sleeping(*command: str):
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        yield str(process.pid)
    finally:
        process.kill()
        process.communicate(timeout=60)


def test_other_programs_are_refused(tmp_path, runtime):
    where = dict(cwd=tmp_path, env=runtime, status=1)
    with sleeping("cat") as pid:
        assert attach(pid, **where) == (
            f"{pid} is not a Python program; start it with proton --wait -- PROGRAM"
        )
    assert attach(pid, **where) == f"there is no process {pid}"
    done = proton("attach", "word", cwd=tmp_path, env=runtime)
    assert done.returncode == 2 and "invalid int value: 'word'" in done.stderr


GDBS = {
    "echo 'ptrace: Operation not permitted.'; exit 1": "the system does not allow attaching to",
    "echo first; echo no symbol; exit 1": "no symbol; start it with proton --wait",
    "trap 'exit 1' INT; while :; do :; done": "none of its threads has run Python code",
    None: "its Python is older than 3.14, which needs gdb, on x86-64",
}


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python needs no gdb")
@pytest.mark.parametrize("gdb", GDBS)
def test_a_gdb_that_fails(gdb, tmp_path, runtime):
    (tmp_path / "bin").mkdir()
    if gdb:
        (tmp_path / "bin" / "gdb").write_text(f"#!/bin/sh\n{gdb}\n")
        (tmp_path / "bin" / "gdb").chmod(0o755)
    env = {**runtime, "PATH": str(tmp_path / "bin")}
    with sleeping(sys.executable, "-c", "import sys; sys.stdin.read()") as pid:
        assert GDBS[gdb] in attach("--timeout", "3", pid, cwd=tmp_path, env=env, status=1)
