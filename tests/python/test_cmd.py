"""The `proton` command: its options, its outputs, what it says, and how it ends."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from cmd_support import environment, executable, own_lines, proton, run, without_own_lines
from protobuf_reader import perfetto_packets

# Scopes only: none of these tests needs Triton.
SCOPES = """
    import sys
    import triton.profiler as proton
    with proton.scope("outer", {"size": 3}):
        with proton.cpu_timed_scope("inner"):
            pass
    print("ran", sys.argv[1:])
    """


@pytest.fixture
def scopes(tmp_path: Path) -> Path:
    script = tmp_path / "scopes.py"
    script.write_text(textwrap.dedent(SCOPES))
    return script


def names(node: dict) -> dict:
    """A hatchet tree as nested dicts of names."""
    return {child["frame"]["name"]: names(child) for child in node["children"]}


def tree(path: Path) -> dict:
    return names(json.loads(path.read_text())[0])


def viewer(*arguments: str, cwd: Path) -> str:
    result = run([executable("proton-viewer"), *arguments], cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout


# --------------------------------------------------------------------------------- what it prints


def test_help_fits_80_columns(tmp_path: Path) -> None:
    for option in ("-h", "--help"):
        result = proton(option, cwd=tmp_path)
        assert result.returncode == 0 and result.stderr == ""
        lines = result.stdout.splitlines()
        assert max(map(len, lines)) <= 80
    words = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", result.stdout))
    assert words >= {"-n", "-b", "-c", "-m", "-d", "-k", "-o", "-q", "-h", "--module", "--version"}
    assert "proton -n" in result.stdout


def test_version(tmp_path: Path) -> None:
    result = proton("--version", cwd=tmp_path)
    assert re.fullmatch(r"proton \d+\.\d+\.\d+\n", result.stdout)
    assert result.returncode == 0


def test_one_line_at_the_end(scopes: Path, tmp_path: Path) -> None:
    result = proton("scopes.py", "a", cwd=tmp_path)
    assert result.returncode == 0
    assert result.stdout == "ran ['a']\n"
    assert without_own_lines(result.stderr) == ""
    (line,) = own_lines(result.stderr)
    assert line.endswith("proton-viewer proton.hatchet")
    assert "recorded" in line and "2 contexts" in line
    # The command it names works.
    assert "outer" in viewer("-m", "size", "proton.hatchet", cwd=tmp_path)


def test_line_comes_after_the_scripts_output(scopes: Path, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        subprocess.run(
            [executable("proton"), "scopes.py"], cwd=tmp_path, env=environment(), stdout=log,
            stderr=log, check=True, timeout=300,
        )
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[-2] == "ran []" and lines[-1].startswith("proton: recorded")


def test_an_empty_recording_is_reported(tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text("pass")
    result = proton("idle.py", cwd=tmp_path)
    assert result.returncode == 0
    (line,) = own_lines(result.stderr)
    assert "nothing was recorded" in line
    assert tree(tmp_path / "proton.hatchet") == {}


def test_memory_reaches_the_session(scopes: Path, tmp_path: Path) -> None:
    for options, expected in (((), None), (("--memory",), "recorded")):
        assert proton(*options, "-b", "host", "scopes.py", cwd=tmp_path).returncode == 0
        root = json.loads((tmp_path / "proton.hatchet").read_text())[0]
        assert root["proton"]["info"].get("memory") == expected


def test_quiet(scopes: Path, tmp_path: Path) -> None:
    for option in ("-q", "--quiet"):
        result = proton(option, "scopes.py", cwd=tmp_path)
        assert (result.returncode, result.stderr) == (0, "")
        (tmp_path / "proton.hatchet").unlink()


# --------------------------------------------------------------------------------- targets


def test_exec_script(scopes: Path, tmp_path: Path) -> None:
    result = proton("-n", "named", str(scopes), "-n", "other", cwd=tmp_path)
    assert result.stdout == "ran ['-n', 'other']\n"
    assert tree(tmp_path / "named.hatchet") == {"outer": {"inner": {}}}
    assert not (tmp_path / "named.proton").exists()
    assert not (tmp_path / "other.hatchet").exists()


def test_exec_module(scopes: Path, tmp_path: Path) -> None:
    result = proton("-nnamed", "--module", "scopes", "-c", "x", cwd=tmp_path)
    assert result.stdout == "ran ['-c', 'x']\n"
    assert tree(tmp_path / "named.hatchet") == {"outer": {"inner": {}}}


def test_exec_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import triton.profiler as proton\n"
        "def test_one():\n    with proton.scope('one'): pass\n"
        "def test_two():\n    with proton.scope('two'): pass\n"
    )
    words = ["-q", "-p", "no:cacheprovider", "test_it.py", "-k", "one"]
    result = proton("--name=tests", "pytest", *words, cwd=tmp_path)
    assert result.returncode == 0 and "1 passed, 1 deselected" in result.stdout
    assert tree(tmp_path / "tests.hatchet") == {"one": {}}


def test_start_and_finalize_in_the_script_do_nothing(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        textwrap.dedent(
            """
            import triton.profiler as proton
            import triton_proton
            assert proton is triton_proton, proton
            with proton.scope("before"):
                pass
            assert proton.start("mine", context="python") is None
            with proton.scope("between"):
                pass
            proton.finalize()
            with proton.scope("after"):
                pass
            proton.deactivate(0)
            with proton.scope("paused"):
                pass
            proton.activate(0)
            for call in (proton.activate, proton.deactivate):
                try:
                    call(1)
                except ValueError as error:
                    print(error)
            """
        )
    )
    result = proton("script.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("Only one session can be") == 2
    assert set(tree(tmp_path / "proton.hatchet")) >= {"before", "between", "after"}
    assert not list(tmp_path.glob("mine*"))


def test_exit_functions_and_threads_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        textwrap.dedent(
            """
            import atexit, threading, time
            import triton.profiler as proton
            def late(name):
                time.sleep(0.1)
                with proton.scope(name):
                    pass
            atexit.register(late, "exit")
            threading.Thread(target=late, args=("thread",)).start()
            """
        )
    )
    assert proton("script.py", cwd=tmp_path).returncode == 0
    assert set(tree(tmp_path / "proton.hatchet")) == {"exit", "thread"}


# --------------------------------------------------------------------------------- output


@pytest.mark.parametrize("form", ["hatchet", "hatchet_msgpack", "HATCHET", "proton"])
def test_output_formats(form: str, scopes: Path, tmp_path: Path) -> None:
    result = proton("-o", form, "-n", "p", "scopes.py", cwd=tmp_path)
    assert result.returncode == 0
    file = f"p.{form.lower()}"
    assert own_lines(result.stderr)[0].endswith(f"proton-viewer {file}")
    assert [path.name for path in tmp_path.glob("p.*")] == [file]
    shown = viewer("-m", "size", file, cwd=tmp_path)
    assert "outer" in shown and "inner" in shown


def test_output_format_none(scopes: Path, tmp_path: Path) -> None:
    result = proton("-o", "none", "-n", "p", "scopes.py", cwd=tmp_path)
    assert result.returncode == 0
    assert "recorded" in own_lines(result.stderr)[0]
    assert not list(tmp_path.glob("p.*"))


def test_name_with_directory(scopes: Path, tmp_path: Path) -> None:
    (tmp_path / "a dir").mkdir()
    name = "a dir/p\u00e9 1"
    result = proton("-n", name, "scopes.py", cwd=tmp_path)
    assert result.returncode == 0
    assert f"{name}.hatchet" in own_lines(result.stderr)[0]
    assert tree(tmp_path / f"{name}.hatchet") == {"outer": {"inner": {}}}


def test_script_that_changes_directory(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "script.py").write_text("import os; os.chdir('below')\n" + textwrap.dedent(SCOPES))
    result = proton("-n", "p", "script.py", cwd=tmp_path)
    assert (tmp_path / "p.hatchet").exists()
    assert str(tmp_path / "p.hatchet") in own_lines(result.stderr)[0]


def test_name_of_bytes_that_are_not_text(scopes: Path, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/p\xff"
    subprocess.run(
        [executable("proton"), "-n", name, "scopes.py"], cwd=tmp_path, env=environment(),
        check=True, timeout=300,
    )
    assert os.path.exists(name + b".hatchet")


def test_output_on_standard_output(scopes: Path, tmp_path: Path) -> None:
    result = proton("-n", "-", "scopes.py", cwd=tmp_path)
    first, rest = result.stdout.split("\n", 1)
    assert first == "ran []"
    assert names(json.loads(rest)[0]) == {"outer": {"inner": {}}}


def test_profile_that_cannot_be_written(tmp_path: Path) -> None:
    """The script did well, the profile is lost: that is proton's to report, in its status too."""
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "script.py").write_text("import shutil; print('x'); shutil.rmtree('out')")
    result = proton("-n", "out/p", "script.py", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stdout == "x\n"
    (line,) = own_lines(result.stderr)
    assert "out/p.hatchet" in line


# --------------------------------------------------------------------------------- bad input

BAD = {
    "no target": ([], "nothing to run"),
    "unknown option": (["--nope", "scopes.py"], "unknown option --nope"),
    "unknown letter": (["-qz", "scopes.py"], "unknown option -z"),
    "option without value": (["-n"], "-n needs a value"),
    "long option without value": (["--name"], "--name needs a value"),
    "value for a flag": (["--quiet=1", "scopes.py"], "--quiet takes no value"),
    "missing script": (["nowhere.py"], "'nowhere.py': No such file"),
    "empty script name": ([""], "empty"),
    "directory": (["directory"], "__main__.py"),
    "a program as script": ([shutil.which("env") or "/usr/bin/env"], "use proton -- "),
    "missing module": (["--module", "nowhere_at_all"], "no module named 'nowhere_at_all'"),
    "module without name": (["--module"], "--module needs a value"),
    "unknown context": (
        ["-c", "native", "scopes.py"],
        "--context must be shadow, python or python+scopes, not",
    ),
    "unknown data": (["-d", "graph", "scopes.py"], '--data must be tree or trace, not "graph"'),
    "unknown hook": (["-k", "torch", "scopes.py"], '--hook must be triton, not "torch"'),
    "unknown format": (["-o", "xml", "scopes.py"], "chrome_trace, perfetto or none"),
    "unknown backend": (["-b", "abacus", "scopes.py"], "abacus"),
    "unknown mode": (["-b", "host", "-m", "abacus", "scopes.py"], "abacus"),
    "output directory missing": (["-n", "no/p", "scopes.py"], "'no': No such file"),
    "output below a file": (["-n", "scopes.py/p", "scopes.py"], "not a directory"),
    "output is a directory": (["-n", "directory/", "scopes.py"], "is a directory"),
    "output unwritable": (["-n", "/proc/p", "scopes.py"], "/proc"),
    "missing program": (["--", "no_such_program"], "program not found"),
    "missing program path": (["--", "./no_such_program"], "program not found"),
    "program without x": (["--", "./scopes.py"], "not an executable file"),
    "no program": (["--"], "nothing to run"),
    "hook for a program": (["-k", "triton", "--", "true"], "only with Python scripts"),
    "python context for a program": (["-c", "python", "--", "true"], "only with Python scripts"),
    "unknown backend for a program": (["-b", "abacus", "--", "true"], "abacus"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str, scopes: Path, tmp_path: Path) -> None:
    words, expected = BAD[case]
    (tmp_path / "directory").mkdir()
    before = sorted(tmp_path.rglob("*"))
    result = proton(*words, cwd=tmp_path)
    assert result.returncode == 2, result
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("proton: ") and expected in line
    after = [path for path in tmp_path.rglob("*") if "__pycache__" not in str(path)]
    assert sorted(after) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write and read everything")
def test_bad_permissions(scopes: Path, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    result = proton("-n", "closed/p", "scopes.py", cwd=tmp_path)
    assert (result.returncode, own_lines(result.stderr)) == (
        2,
        ["cannot write to directory 'closed': Permission denied"],
    )
    scopes.chmod(0)
    result = proton("scopes.py", cwd=tmp_path)
    assert (result.returncode, own_lines(result.stderr)) == (
        2,
        ["cannot run 'scopes.py': Permission denied"],
    )


def test_python_without_the_package(scopes: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=300
    )
    python = str(bare / "bin" / "python3")
    result = proton(
        "scopes.py", cwd=tmp_path, env=environment(PROTON_PYTHON=python, PYTHONPATH=None)
    )
    assert result.returncode == 2
    (line,) = own_lines(result.stderr)
    assert line.startswith(f"triton_proton is not installed for {python}; ")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("#!/bin/sh\nexit 3\n", "is not a working Python interpreter"),
        (f'#!/bin/sh\nexec "{sys.executable}" -I "$@"\n', "ignores PYTHONPATH"),
        (None, "program not found"),
    ],
)
def test_python_that_is_none(text: str | None, expected: str, scopes: Path, tmp_path: Path) -> None:
    python = tmp_path / "my_python"
    if text is not None:
        python.write_text(text)
        python.chmod(0o755)
    env = environment(PROTON_PYTHON=str(python))
    if text and "-I" in text and env.get("PYTHONPATH"):
        pytest.skip("this package is found through PYTHONPATH, which -I ignores")
    result = proton("scopes.py", cwd=tmp_path, env=env)
    assert result.returncode == 2
    (line,) = own_lines(result.stderr)
    assert expected in line and str(python) in line


def test_python_is_a_wrapper(scopes: Path, tmp_path: Path) -> None:
    """A wrapper around Python, even one written in Python, does not get the session."""
    shell = tmp_path / "shell_python"
    shell.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    nested = tmp_path / "nested_python"
    nested.write_text(
        f"#!{os.path.realpath(sys.executable)}\n"
        f"import os, sys\nos.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]])\n"
    )
    for wrapper in (shell, nested):
        wrapper.chmod(0o755)
        name = wrapper.name
        env = environment(PROTON_PYTHON=str(wrapper))
        result = proton("-n", name, "scopes.py", cwd=tmp_path, env=env)
        assert result.returncode == 0, result.stderr
        assert tree(tmp_path / f"{name}.hatchet") == {"outer": {"inner": {}}}


def test_python_on_path(scopes: Path, tmp_path: Path) -> None:
    """Without PROTON_PYTHON: beside the command or on PATH, whichever has the package."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    result = proton("scopes.py", cwd=tmp_path, env=environment(PROTON_PYTHON=None, PATH=path))
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "proton.hatchet").exists()


# --------------------------------------------------------------------------------- how it ends

WAITING = """
    import sys, time
    import triton.profiler as proton
    with proton.scope("done", {"size": 5}):
        pass
    scope = proton.scope("open")
    scope.__enter__()
    print("ready", flush=True)
    time.sleep(60)
    """


def start_waiting(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    (tmp_path / "waiting.py").write_text(textwrap.dedent(WAITING))
    child = subprocess.Popen(
        [executable("proton"), *options, "waiting.py"], cwd=tmp_path, env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    return child


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("form", ["hatchet", "hatchet_msgpack"])
def test_signal_writes_the_profile(number: signal.Signals, form: str, tmp_path: Path) -> None:
    child = start_waiting(tmp_path, "-o", form)
    child.send_signal(number)
    _, stderr = child.communicate(timeout=300)
    assert child.returncode == -number
    (line,) = own_lines(stderr)
    assert line.endswith(f"proton-viewer proton.{form}")
    shown = run([executable("proton-viewer"), "-m", "size", f"proton.{form}"], tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "") and "done" in shown.stdout
    assert not (tmp_path / "proton.proton").exists()


def test_signal_quietly(tmp_path: Path) -> None:
    child = start_waiting(tmp_path, "-q")
    child.terminate()
    _, stderr = child.communicate(timeout=300)
    assert (child.returncode, stderr) == (-signal.SIGTERM, "")
    assert "done" in tree(tmp_path / "proton.hatchet")


def test_signal_while_the_profile_is_being_written(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        textwrap.dedent(
            """
            import atexit
            import triton.profiler as proton
            atexit.register(print, "ending", flush=True)
            for number in range(60_000):
                with proton.scope(f"scope_{number}"):
                    pass
            """
        )
    )
    child = subprocess.Popen(
        [executable("proton"), "script.py"], cwd=tmp_path, env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    assert child.stdout is not None and child.stdout.readline() == "ending\n"
    time.sleep(0.02)
    child.terminate()
    child.communicate(timeout=300)
    assert child.returncode == -signal.SIGTERM
    assert [path.name for path in tmp_path.glob("*proton*")] == ["proton.hatchet"]
    assert len(tree(tmp_path / "proton.hatchet")) == 60_000


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "import os; os.kill(os.getpid(), 1)"])
def test_signal_just_before_the_script_ends(end: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        textwrap.dedent(
            """
            import os, signal
            import triton.profiler as proton
            for number in range(50_000):
                with proton.scope(f"scope_{number}"):
                    pass
            os.kill(os.getpid(), signal.SIGTERM)
            """
        )
        + end
    )
    result = proton("script.py", cwd=tmp_path)
    assert result.returncode == -signal.SIGTERM
    assert len(own_lines(result.stderr)) == 1
    assert [path.name for path in tmp_path.glob("*proton*")] == ["proton.hatchet"]
    assert len(tree(tmp_path / "proton.hatchet")) == 50_000


def test_kill_leaves_a_readable_file(tmp_path: Path) -> None:
    child = start_waiting(tmp_path)
    child.kill()
    _, stderr = child.communicate(timeout=300)
    assert child.returncode == -signal.SIGKILL
    assert not (tmp_path / "proton.hatchet").exists()
    result = run([executable("proton-viewer"), "-m", "size", "proton.proton"], tmp_path)
    assert result.returncode == 0 and "done" in result.stdout
    assert "incomplete recording" in result.stderr


@pytest.mark.parametrize(
    "ending, status",
    [
        ("raise SystemExit(7)", 7),
        ("raise ValueError('x')", 1),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import os; os._exit(3)", 3),
    ],
)
def test_profile_of_a_script_that_fails(ending: str, status: int, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        f"import triton.profiler as proton\nwith proton.scope('seen'):\n    {ending}\n"
    )
    result = proton("script.py", cwd=tmp_path)
    assert result.returncode == status
    left = [path.name for path in tmp_path.glob("proton.*")]
    # A program that ends without exit functions leaves the working file, which can still be read.
    expected = "proton.proton" if "os." in ending else "proton.hatchet"
    assert left == [expected]
    if expected.endswith(".hatchet"):
        assert tree(tmp_path / expected) == {"seen": {}}


def test_children_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        textwrap.dedent(
            """
            import multiprocessing, os, subprocess, sys
            import triton.profiler as proton
            def work(n):
                with proton.scope("child"):
                    return n
            if __name__ == "__main__":
                with proton.scope("parent"):
                    subprocess.run([sys.executable, "-c", "print('sub', flush=True)"], check=True)
                    for method in ("spawn", "fork"):
                        with multiprocessing.get_context(method).Pool(2) as pool:
                            print(pool.map(work, range(3)), flush=True)
                    if os.fork() == 0:
                        sys.exit(0)
                    os.wait()
            """
        )
    )
    result = proton("script.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["sub", "[0, 1, 2]", "[0, 1, 2]"]
    assert len(own_lines(result.stderr)) == 1
    assert tree(tmp_path / "proton.hatchet") == {"parent": {}}
    assert not list(tmp_path.glob("*.proton"))


def test_two_at_once_under_one_name(tmp_path: Path) -> None:
    first = start_waiting(tmp_path)
    second = start_waiting(tmp_path)
    for child in (first, second):
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=300)
    profiles = list(tmp_path.glob("proton*.hatchet"))
    assert len(profiles) == 2
    assert all("done" in tree(path) for path in profiles)


@pytest.mark.parametrize("form", ["chrome_trace", "perfetto"])
def test_traces_from_the_command_line(form, tmp_path):
    (tmp_path / "s.py").write_text(
        "import triton_proton as proton\nwith proton.scope('step'):\n    pass\n"
    )
    result = proton("-d", "trace", "-o", form, "-b", "host", "s.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    file = tmp_path / {"chrome_trace": "proton.chrome_trace", "perfetto": "proton.pftrace"}[form]
    data = file.read_bytes()
    assert b"step" in (data if form == "chrome_trace" else perfetto_packets(data))


@pytest.mark.parametrize("slow", ["sitecustomize.py", "triton_proton/__init__.py"])
def test_interrupt_while_it_starts(slow: str, tmp_path: Path) -> None:
    """Ctrl-C ends it as it ends any program: no traceback from Proton."""
    import triton_proton

    path = tmp_path / "slow" / slow
    if "/" in slow:
        shutil.copytree(Path(triton_proton.__file__).parent, path.parent)
    path.parent.mkdir(exist_ok=True, parents=True)
    # Not in the interpreter that proton asks first.
    path.write_text(
        "import sys, time\nif sys.orig_argv[1] != '-c':\n"
        "    print('importing', flush=True)\n    time.sleep(60)\n"
    )
    (tmp_path / "script.py").write_text("print('ran')\n")
    child = subprocess.Popen(
        [executable("proton"), "-b", "host", "script.py"], cwd=tmp_path,
        env=environment(PYTHONPATH=str(tmp_path / "slow")), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )
    assert child.stdout is not None and child.stdout.readline() == "importing\n"
    child.send_signal(signal.SIGINT)
    stdout, stderr = child.communicate(timeout=300)
    assert (child.returncode, stdout) == (-signal.SIGINT, "")
    assert "Traceback" not in stderr and "KeyboardInterrupt" not in stderr


def test_kernel_times_are_software_or_hardware(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os; print(os.environ['PROTON_KERNEL_TIMES'])\n")
    result = proton("-q", "-b", "host", "--kernel-times", "hardware", "a.py", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "hardware\n"), result.stderr
    result = proton("--kernel-times", "fast", "a.py", cwd=tmp_path)
    assert result.returncode != 0
    assert 'proton: --kernel-times must be software or hardware, not "fast"' in result.stderr
