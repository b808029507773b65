"""If the Nth allocation in C fails, a call raises an exception, and recording continues."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cmd_support import environment
from fake_driver import CC, FAKE

# A child per failing allocation. Each reports the calls that failed; then it records a session.
PROGRAM = """
import ctypes, json, os, sys
import triton_proton as proton
import triton_proton.data as data

tools = ctypes.CDLL(None)
tools.failing_begin.argtypes = [ctypes.c_long, ctypes.c_bool]
tools.failing_end.restype = ctypes.c_long
is_all = sys.argv[1] == "all"
errors = []


def attempt(call, *arguments, **named):
    try:
        return call(*arguments, **named)
    except (MemoryError, proton.ProtonError, OSError) as error:
        errors.append(f"{type(error).__name__}: {error}")
    return None


def scopes(name):
    with proton.scope(name, {"n": 1, "x": 0.5, "text": "t", "v": [1, 2]}):
        with proton.cpu_timed_scope("timed " + name), proton.metadata_state():
            proton.enter_state("state")
            proton.exit_state()
    proton.enter_scope("open " + name, metrics={"m " + name: 1.0})
    proton.exit_scope()


def use(session, name):
    if session is None:
        return
    attempt(scopes, name)
    attempt(proton.deactivate, session)
    attempt(proton.activate, session)
    attempt(data.get, session)
    attempt(data.get_msgpack, session)
    phase = attempt(data.advance_phase, session)
    attempt(scopes, name + " later")
    if phase:
        attempt(data.is_phase_complete, session, 0)
        attempt(data.clear, session, 0)


def calls():
    for kind in ({}, {"context": "python"}, {"data": "trace"}):
        name = "_".join(kind.values())
        session = attempt(proton.start, "out_" + name, backend="host", **kind)
        use(session, name)
        if session is not None:
            attempt(proton.finalize, session, "" if name else "proton")
    attempt(proton.finalize)


def record_again():
    proton.finalize()
    session = proton.start("again", backend="host")
    with proton.scope("probe", {"n": 2}):
        pass
    proton.finalize(session)
    with open("again.hatchet") as file:
        tree = json.load(file)
    nodes = {node["frame"]["name"]: node for node in tree[0]["children"]}
    assert nodes["probe"]["metrics"]["n"] == 2, tree


def child(number):
    watched = tools.failing_begin(number, is_all)
    assert watched >= 2, watched
    try:
        calls()
    finally:
        made = tools.failing_end()
    record_again()
    return made


number, step, failed = 1, int(sys.argv[2]), 0
while True:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            report = json.dumps([child(number), errors])
            os.write(writer, report.encode())
            status = 0
        except BaseException as error:
            print(f"allocation {number}: {error!r} after {errors}", flush=True)
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        report = file.read()
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit(f"allocation {number}: status {status}")
    made, found = json.loads(report)
    failed += bool(found)
    if made < number:  # none failed
        assert not found, found
        break
    number += step
print(number, failed)
"""


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not CC:
        pytest.skip("there is no C compiler")
    path = tmp_path_factory.mktemp("failing") / "failing.so"
    options = ["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]
    command = [CC, *options, FAKE / "failing_caller.c", "-o", path]
    subprocess.run(command, check=True, timeout=300)
    return path


@pytest.mark.parametrize("which", ["one", "all"])
def test_any_allocation_may_fail(failing: Path, which: str, tmp_path: Path) -> None:
    env = environment(LD_PRELOAD=str(failing))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, which, "1" if which == "one" else "5"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    reached, failed = map(int, done.stdout.split()[-2:])
    assert reached > 100 and failed > 50
