"""Control from outside: `proton --wait`, `proton.listen()` and `proton ctl`."""

import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cmd_support import environment, executable, own_lines, proton
from fake_driver import CC, fake_environment
from step_program import build
from support import at, load, names
from test_cmd_children import STEPS

# A server: each line on its standard input is a piece of code to run.
SERVER = """
    import sys
    import triton_proton as proton
    from triton_proton import _low_level, flags

    def step(name):
        with proton.scope(name):
            proton.metric  # the scope alone is recorded
    print("ready", flush=True)
    for line in sys.stdin:
        print(eval(line), flush=True)
"""


@pytest.fixture
def runtime(tmp_path):
    """An environment with its own runtime directory."""
    (tmp_path / "run").mkdir()
    return environment(XDG_RUNTIME_DIR=str(tmp_path / "run"), PROTON_BACKEND="host")


class Server:
    """A program that runs until its standard input ends."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        assert self.read() == "ready", self.process.communicate(timeout=60)

    def read(self) -> str:
        return self.process.stdout.readline().strip()  # the test's own limit ends it

    def do(self, code: str) -> str:
        self.process.stdin.write(code + "\n")
        self.process.stdin.flush()
        return self.read()

    def end(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


@contextlib.contextmanager
def serving(cwd: Path, env: dict[str, str], *options: str, code: str = SERVER, command=None):
    """A server under `proton --wait`, or started by `command`."""
    (cwd / "serve.py").write_text(textwrap.dedent(code))
    command = command or [executable("proton"), "--wait", *options, "serve.py"]
    server = Server(command, cwd, env)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait(timeout=60)


def ctl(*arguments: str, cwd: Path, env: dict[str, str], status: int = 0) -> str:
    """Standard output of `proton ctl`, or what it says on failure."""
    done = proton("ctl", *arguments, cwd=cwd, env=env)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout.strip() if status == 0 else "\n".join(own_lines(done.stderr))


def test_a_waiting_program_records_from_start_to_stop(tmp_path, runtime):
    where = dict(cwd=tmp_path, env=runtime)
    with serving(tmp_path, runtime, "-n", "serve") as server:
        pid = server.process.pid
        assert ctl("status", **where) == f"{pid} serve: waiting: nothing is recorded"
        server.do("step('early')")
        assert ctl("serve", "start", **where) == f"recording to {tmp_path}/serve"
        server.do("step('one')")
        snapshot = ctl(str(pid), "snapshot", **where)
        assert snapshot == f"{tmp_path}/serve.snapshot_1.hatchet"
        server.do("step('two')")
        assert "contexts: 2" in ctl("status", **where)
        assert ctl("serve", "stop", **where) == f"{tmp_path}/serve.hatchet"
        server.do("step('late')")
        assert server.end() == (0, "")
    assert names(load(snapshot)) == {"one"}
    assert names(load(tmp_path / "serve.hatchet")) == {"one", "two"}
    assert not list((tmp_path / "run" / "proton").iterdir())


def test_options_of_start(tmp_path, runtime):
    where = dict(cwd=tmp_path, env=runtime)
    (tmp_path / "sub").mkdir()
    with serving(tmp_path, runtime) as server:
        arguments = ["-n", "mine", "-c", "python", "-k", "triton", "-o", "proton"]
        ctl("start", *arguments, cwd=tmp_path / "sub", env=runtime)
        hooks = "[type(h).__name__ for h in proton.hooks.HookManager.active_hooks]"
        assert server.do(hooks) == "['LaunchHook']"
        assert ctl("stop", **where) == f"{tmp_path}/sub/mine.proton"
        assert server.do(hooks) == "[]"
        ctl("start", "-d", "trace", **where)
        assert ctl("stop", **where) == f"{tmp_path}/proton.chrome_trace"
        assert "Unknown context source: wrong" in ctl("start", "-c", "wrong", status=1, **where)
        assert "Unsupported hook: wrong" in ctl("start", "-k", "wrong", status=1, **where)
        assert server.do("flags.flags.profiling_on") == "False"


def test_options_of_the_command_are_the_defaults(tmp_path, runtime):
    where = dict(cwd=tmp_path, env=runtime)
    with serving(tmp_path, runtime, "-d", "trace", "-o", "perfetto", "-k", "triton") as server:
        ctl("start", **where)
        assert "LaunchHook" in server.do("repr(proton.hooks.HookManager.active_hooks)")
        assert ctl("stop", **where) == f"{tmp_path}/proton.pftrace"


def test_a_program_that_calls_listen(tmp_path, runtime):
    where = dict(cwd=tmp_path, env=runtime)
    code = SERVER.replace('print("ready"', 'proton.listen("mine"); print("ready"')
    command = [sys.executable, "serve.py"]
    with serving(tmp_path, runtime, code=code, command=command) as server:
        ctl("mine", "start", **where)
        server.do("step('one')")
        assert server.do("proton.snapshot()") == f"{tmp_path}/mine.snapshot_1.hatchet"
        ctl("mine", "stop", **where)
        server.do("proton.start('own')")
        assert "nothing is recorded that proton ctl" in ctl("stop", status=1, **where)
        assert server.end()[0] == 0
    assert names(load(tmp_path / "mine.snapshot_1.hatchet")) == {"one"}
    assert (tmp_path / "own.hatchet").exists()


def test_a_program_in_which_proton_is_disabled(tmp_path, runtime):
    with serving(tmp_path, {**runtime, "TRITON_PROTON_DISABLE": "1"}) as server:
        text = ctl("start", cwd=tmp_path, env=runtime, status=1)
        assert text.endswith("(proton): TRITON_PROTON_DISABLE is set: nothing is recorded")
        assert server.do("flags.flags.profiling_on") == "False"


def test_a_session_of_some_seconds(tmp_path, runtime):
    code = """
        import time
        import triton_proton as proton
        end = time.monotonic() + 60
        print("ready", flush=True)
        with proton.scope("before"):
            pass
        while not proton.flags.flags.profiling_on and time.monotonic() < end:
            pass
        while proton.flags.flags.profiling_on and time.monotonic() < end:
            with proton.scope("during"):
                pass
        with proton.scope("after"):
            pass
    """
    times = ["--start-after", "0.3", "--for", "1"]
    with serving(tmp_path, runtime, *times, code=code) as server:
        status, errors = server.end()
    assert status == 0
    assert "in 1 context, " in own_lines(errors)[-1]
    assert names(load(tmp_path / "proton.hatchet")) == {"during"}


def test_a_session_from_the_start_that_lasts(tmp_path, runtime):
    with serving(tmp_path, runtime, "--for", "1000") as server:
        assert server.do("flags.flags.profiling_on") == "True"
        server.do("step('one')")
        status, errors = server.end()
    assert status == 0
    assert own_lines(errors)[-1].endswith("view it with: proton-viewer proton.hatchet")
    assert names(load(tmp_path / "proton.hatchet")) == {"one"}


@pytest.mark.parametrize("value", ["0", "-1", "nan", "1x", "1e10", ""])
def test_times_that_are_none(tmp_path, value):
    done = proton("--for", value, "x.py", cwd=tmp_path)
    assert done.returncode == 2
    assert f'--for needs a number of seconds above 0, not "{value}"' in done.stderr


def test_a_program_after_two_dashes(tmp_path, runtime):
    where = dict(cwd=tmp_path, env=runtime)
    command = [executable("proton"), "--wait", "--", "sh", "-c", f"{sys.executable} serve.py; :"]
    with serving(tmp_path, runtime, command=command) as server:
        # The shell does not use the recorder, so only Python listens.
        assert ctl("start", **where).startswith(f"recording to {tmp_path}/proton")
        server.do("step('one')")
        path = ctl("stop", **where)
    assert names(load(path)) == {"one"}


def test_a_session_is_written_when_the_program_ends(tmp_path, runtime):
    with serving(tmp_path, runtime) as server:
        ctl("start", cwd=tmp_path, env=runtime)
        server.do("step('one')")
        status, errors = server.end()
    assert status == 0
    assert own_lines(errors)[-1].endswith("view it with: proton-viewer proton.hatchet")
    assert names(load(tmp_path / "proton.hatchet")) == {"one"}


def test_a_signal_ends_the_session_with_its_profile(tmp_path, runtime):
    with serving(tmp_path, runtime) as server:
        ctl("start", cwd=tmp_path, env=runtime)
        server.do("step('one')")
        server.process.send_signal(signal.SIGTERM)
        assert server.end()[0] == -signal.SIGTERM
    assert names(load(tmp_path / "proton.hatchet")) == {"one"}


def test_the_socket_of_a_killed_program_is_removed(tmp_path, runtime):
    where = dict(cwd=tmp_path, env=runtime)
    sockets = tmp_path / "run" / "proton"
    with serving(tmp_path, runtime, "-n", "victim") as server:
        assert len(list(sockets.iterdir())) == 1
        server.process.kill()
        server.process.wait(timeout=60)
    assert len(list(sockets.iterdir())) == 1
    text = ctl("victim", "status", status=1, **where)
    assert "no program of this user listens as 'victim'; start it with proton --wait" in text
    assert not list(sockets.iterdir())


def test_all_programs_of_a_name(tmp_path, runtime):
    where = dict(cwd=tmp_path, env=runtime)
    rank = functools.partial(serving, tmp_path, runtime, "-n", "rank")
    with rank() as a, rank() as b:
        pids = sorted(str(server.process.pid) for server in (a, b))
        text = ctl("rank", "start", status=1, **where)
        assert "2 programs match; name one by its process id, or use --all" in text
        assert all(pid in text for pid in pids)
        ctl("--all", "rank", "start", **where)
        a.do("step('a')")
        b.do("step('b')")
        lines = ctl("--all", "rank", "stop", **where).splitlines()
        assert sorted(lines) == [f"{p} rank: {tmp_path}/rank.{p}.hatchet" for p in pids]
    assert names(load(tmp_path / f"rank.{a.process.pid}.hatchet")) == {"a"}
    assert names(load(tmp_path / f"rank.{b.process.pid}.hatchet")) == {"b"}


def test_a_busy_interpreter_is_controlled_too(tmp_path, runtime):
    where = dict(cwd=tmp_path, env=runtime)
    code = """
        import triton_proton as proton
        print("ready", flush=True)
        while True:
            with proton.scope("spin"):
                pass
    """
    with serving(tmp_path, runtime, code=code):
        ctl("start", **where)
        ctl("snapshot", **where)
        path = ctl("stop", **where)
    assert at(load(path), "spin")


def test_forked_children_do_not_listen(tmp_path, runtime):
    where = dict(cwd=tmp_path, env=runtime)
    code = """
        import os, sys
        import triton_proton as proton
        pid = os.fork()
        if pid == 0:
            sys.stdin.read()
            os._exit(0)
        print("ready", flush=True)
        sys.stdin.read()
        os.waitpid(pid, 0)  # no limit: the test closes the child's standard input
    """
    with serving(tmp_path, runtime, code=code) as server:
        assert ctl("status", **where).startswith(f"{server.process.pid} ")
        assert len(list((tmp_path / "run" / "proton").iterdir())) == 1
        assert server.end() == (0, "")
    assert not list((tmp_path / "run" / "proton").iterdir())


def test_a_program_that_waits_has_no_cupti(tmp_path):
    (tmp_path / "run").mkdir()
    env = fake_environment(XDG_RUNTIME_DIR=str(tmp_path / "run"))
    where = dict(cwd=tmp_path, env=env)
    with serving(tmp_path, env, "-b", "cupti", "--no-children") as server:
        maps = Path(f"/proc/{server.process.pid}/maps")
        assert "cupti" not in maps.read_text()
        ctl("start", **where)
        assert "cupti" in maps.read_text()
        assert "backend cupti" in ctl("status", **where)
        ctl("stop", **where)


@pytest.mark.parametrize(
    "options, version, subscribed, left",
    [
        (["--wait"], "130000", 1, 1),
        ([], "130000", 1, 0),  # the session's
        (["--wait"], "130500", 0, 0),  # it would exclude the second interface
    ],
)
def test_the_first_subscription_is_made_with_the_driver(
    tmp_path, options, version, subscribed, left
):
    """Later, it could crash threads in calls of the driver (docs/design/other-tools.md)."""
    (tmp_path / "run").mkdir()
    env = fake_environment(XDG_RUNTIME_DIR=str(tmp_path / "run"), FAKE_CUPTI_VERSION=version)
    code = """
        import ctypes, os
        ctypes.CDLL(os.environ["PROTON_CUDA_PATH"]).cuInit(0)
        calls = ctypes.CDLL(os.environ["PROTON_CUPTI_PATH"]).fake_calls
        print(*(calls(name) for name in (b"cuptiSubscribe", b"cuptiUnsubscribe", b"cuptiFinalize")))
    """
    (tmp_path / "serve.py").write_text(textwrap.dedent(code))
    done = proton("-b", "cupti", "-o", "none", *options, "serve.py", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{subscribed} {left} {left}\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> str:
    """A program that initializes CUDA, and launches when its standard input has a byte."""
    if CC is None:
        pytest.skip("no C compiler")
    return build(tmp_path_factory.mktemp("program") / "program", STEPS)


@pytest.mark.parametrize("is_child", [False, True])
def test_a_program_with_cuda_listens_when_it_initializes_the_driver(tmp_path, program, is_child):
    (tmp_path / "run").mkdir()
    env = fake_environment(XDG_RUNTIME_DIR=str(tmp_path / "run"))
    where = dict(cwd=tmp_path, env=env)
    steps = [program, "init", "hold", "launch", "launch", "hold"]
    code = f"import subprocess; subprocess.run({steps}, timeout=60)"
    command = [executable("proton"), "--wait", "-n", "gpu", "--", *steps]
    with serving(tmp_path, env, "-n", "gpu", code=code, command=None if is_child else command) as s:
        lines = ctl("status", **where).splitlines()
        assert len(lines) == 1 + is_child
        pids = [line.split()[0] for line in lines]
        pid = next(pid for pid in pids if not is_child or int(pid) != s.process.pid)
        name = f"gpu.{pid}" if is_child else "gpu"
        assert ctl(pid, "start", **where) == f"recording to {tmp_path}/{name}"
        s.process.stdin.write("\n")
        s.process.stdin.flush()
        assert s.read() == "ready"
        assert ctl(pid, "stop", **where) == f"{tmp_path}/{name}.hatchet"
        assert s.end()[0] == 0
    assert load(tmp_path / f"{name}.hatchet")["children"][0]["metrics"]["count"] == 2


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "name a command: start, stop, snapshot, status or leave"),
        (["x", "reboot"], "unknown command 'reboot'; expected start, stop, snapshot, status or le"),
        (["stop", "-n", "x"], "this option belongs to another command"),
        (["stop", "--memory"], "--memory belongs to start"),
        (["start", "-n", "-"], "standard output belongs to the program"),
        (["start", "--timeout", "x"], "--timeout"),
    ],
)
def test_mistakes_in_the_command(tmp_path, runtime, arguments, message):
    assert message in ctl(*arguments, cwd=tmp_path, env=runtime, status=2)


def test_a_program_that_does_not_answer(tmp_path, runtime):
    where = dict(cwd=tmp_path, env=runtime)
    with serving(tmp_path, runtime, "-n", "still") as server:
        server.process.send_signal(signal.SIGSTOP)
        text = ctl("still", "status", "--timeout", "1", status=1, **where)
        assert "has not answered in time; it may be stopped" in text
        server.process.send_signal(signal.SIGCONT)
        text = "busy"
        for _ in range(600):  # with the command that was not answered
            if "busy" not in text:
                break
            text = ctl("still", "status", **where)
        assert "waiting" in text


def test_another_users_directory_is_refused(tmp_path, runtime):
    run = tmp_path / "run" / "proton"
    run.mkdir(mode=0o755)
    (tmp_path / "serve.py").write_text(textwrap.dedent(SERVER))
    with serving(tmp_path, runtime, "-n", "elsewhere"):
        assert not list(run.iterdir())  # it listens in /tmp
        assert "elsewhere" in ctl("elsewhere", "status", cwd=tmp_path, env=runtime)


def test_a_server_that_lies_is_shown_harmlessly(tmp_path, runtime):
    directory = tmp_path / "run" / "proton"
    directory.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(directory / f"{os.getpid()}.liar"))
        server.listen()
        command = [executable("proton"), "ctl", "liar", "status"]
        with subprocess.Popen(
            command, cwd=tmp_path, env=runtime, stdout=subprocess.PIPE, text=True
        ) as client:
            server.settimeout(60)
            connection, _ = server.accept()
            connection.recv(65536)
            connection.send(b"+\x1b[2Jgone" + b"x" * 100000)
            connection.close()
            output, _ = client.communicate(timeout=60)
    assert client.returncode == 0
    assert "\x1b" not in output
    assert "\\x1b[2Jgone" in output
