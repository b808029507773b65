"""If the Nth allocation in C fails, a call raises an exception, and recording continues."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from built import ROOT
from cmd_support import environment
from fake_driver import CC
from support import run_command

FAKE = ROOT / "tests" / "fake"
DATA = FAKE.parent / "data"

# A child per failing allocation. Each reports the calls that failed; then it records a session.
PROGRAM = """
import ctypes, json, os, sys
import triton_proton as proton
import triton_proton.data as data

tools = ctypes.CDLL(None)
which, step, data_directory = sys.argv[1], int(sys.argv[2]), sys.argv[4]
tools.failing_begin.argtypes = [ctypes.c_long, ctypes.c_bool]
tools.failing_end.restype = ctypes.c_long
is_all = which == "all"
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


def sessions():
    for kind in ({}, {"context": "python"}, {"data": "trace"}):
        name = "_".join(kind.values())
        session = attempt(proton.start, "out_" + name, backend="host", **kind)
        use(session, name)
        if session is not None:
            attempt(proton.finalize, session, "" if name else "proton")
    attempt(proton.finalize)


class Metadata:  # as Triton's LazyDict
    data = {"name": "kernel", "flops": 8.0, "bytes": 4, "function": 1, "stream": 0}

    def get(self):
        return self.data


def hooks():
    seen = []
    session = attempt(proton.start, "out", backend="host", hook="triton")
    attempt(_libproton.hooks_set, [(seen.append, seen.append)])
    for _ in range(3):
        attempt(_libproton.launch_enter, Metadata())
        attempt(_libproton.launch_exit, Metadata())
    attempt(_libproton.launch_filter, "ker.*", None)
    attempt(_libproton.launch_enter, Metadata())
    attempt(_libproton.launch_exit, Metadata())
    attempt(_libproton.hooks_set, [])
    attempt(proton.finalize)


def instrument():
    attempt(_libproton.instrument_mode, "default:auto=all:metric_type=cycle")
    with open(data_directory + "/ttgir/matmul_sm90.ttgir") as file:
        text = file.read()
    attempt(_libproton.instrument_ttgir, text, "default:auto=all", False)
    attempt(_libproton.instrument_take_out, text, 0)
    attempt(_libproton.instrument_relocate, text, text)
    with open(data_directory + "/instrument/loop.ll") as file:
        text = file.read()
    attempt(_libproton.instrument_llvm, text, "sm_90", 4, 32, 0, 1 << 17, 1 << 17, 1, "default")


def autograd():
    session = attempt(proton.start, "out", backend="host", hook="triton")
    with torch.enable_grad():
        x = torch.ones(2, requires_grad=True)
        for _ in range(2):
            with proton.scope("forward"):
                y = (x * 2 + 1).sum()
            attempt(y.backward)
    attempt(proton.finalize)


calls = {"sessions": sessions, "hooks": hooks, "instrument": instrument, "autograd": autograd}[
    sys.argv[3]
]
if calls is autograd:
    import torch

    torch.ones(1, requires_grad=True).sum().backward()
if calls is not sessions:
    from triton_proton import _libproton


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


number, failed = 1, 0
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


@pytest.mark.parametrize(
    ("calls", "which", "step"),
    [
        ("sessions", "one", 1),
        ("sessions", "all", 5),
        ("hooks", "one", 1),
        ("instrument", "one", 1),
        ("autograd", "one", 1),
    ],
)
def test_any_allocation_may_fail(
    failing: Path, calls: str, which: str, step: int, tmp_path: Path
) -> None:
    env = environment(LD_PRELOAD=str(failing))
    done = run_command(
        [sys.executable, "-c", PROGRAM, which, str(step), calls, str(DATA)], cwd=tmp_path, env=env,
        status=None,
    )
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    reached, failed = map(int, done.stdout.split()[-2:])
    print(calls, which, reached, failed)
    assert reached > 20 and failed > 5
