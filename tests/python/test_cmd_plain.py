"""`proton x.py` does to x.py what `python x.py` does: the same output, errors and exit status.

Every program of the table runs both ways and the results are compared whole.
"""

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cmd_support import environment, executable, own_lines, run, without_own_lines

# Each is a script; its output must be the same with and without proton.
SCRIPTS = {
    "arguments": """
        import sys
        print(sys.argv, sys.orig_argv[1:], sys.executable, sys.flags)
        """,
    "main_module": """
        import sys
        module = sys.modules["__main__"]
        print(sorted(vars(module)))
        print(module.__file__, module.__name__, module.__spec__, module.__builtins__)
        print(module.__doc__, module.__package__, type(module.__loader__), __annotations__)
        """,
    "path": """
        import sys
        print(sys.path, "sitecustomize" in sys.modules, sys.path[0] in sys.path_importer_cache)
        import sibling
        print(sibling.__file__)
        """,
    "environment": """
        import os, subprocess, sys
        print(sorted(os.environ.items()))
        code = "import os, sys; print(sorted(os.environ.items()), sys.path)"
        subprocess.run([sys.executable, "-c", code], check=True)
        """,
    "exception": """
        def inner():
            raise ValueError("bad value")
        inner()
        """,
    "chained": """
        def inner():
            return {}["missing"]
        def outer():
            try:
                inner()
            except KeyError as error:
                raise RuntimeError("outer") from error
        try:
            outer()
        except RuntimeError:
            raise OSError(2, "while handling")
        """,
    "exception_with_notes": """
        import traceback
        class Odd(Exception):
            def __str__(self):
                raise TypeError("no text")
        try:
            raise Odd
        except Odd:
            traceback.print_exc()
        raise Odd
        """,
    "syntax_error": """
        print("never"
        x = = 1
        """,
    "syntax_error_in_import": """
        import broken
        """,
    "recursion": """
        import sys
        sys.setrecursionlimit(120)
        def down(n):
            try:
                return down(n + 1)
            except RecursionError:
                return n
        print(down(0))
        """,
    "exit_none": "import sys; print('x'); sys.exit()",
    "exit_number": "import sys; sys.exit(3)",
    "exit_large_number": "import sys; sys.exit(259)",
    "exit_false": "raise SystemExit(False)",
    "exit_text": "import sys; sys.exit('sorry')",
    "exit_object": "raise SystemExit(('a', 2))",
    "keyboard_interrupt": "print('x'); raise KeyboardInterrupt",
    "keyboard_interrupt_signal": """
        import os, signal, time
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
        """,
    "hard_exit": "import os, sys; print('lost or not'); sys.stdout.flush(); os._exit(7)",
    "abort": "import os; os.abort()",
    "kill": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "terminate": "import os, signal, time; os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)",
    "hang_up": "import os, signal, time; os.kill(os.getpid(), signal.SIGHUP); time.sleep(60)",
    "own_handler": """
        import os, signal, sys, time
        print(signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP))
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number + 40))
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
        """,
    "excepthook": """
        import sys, traceback
        print(sys.excepthook is sys.__excepthook__)
        def hook(kind, value, tb):
            print("hook", kind, value, [f.name for f in traceback.extract_tb(tb)])
        sys.excepthook = hook
        raise ValueError("seen by the hook")
        """,
    "excepthook_that_fails": """
        import sys
        def hook(kind, value, tb):
            raise TypeError("in the hook")
        sys.excepthook = hook
        raise ValueError("original")
        """,
    "exit_functions": """
        import atexit
        atexit.register(print, "registered first")
        atexit.register(lambda: 1 / 0)
        print("body")
        """,
    "threads": """
        import threading, time
        def work():
            time.sleep(0.2)
            print("non-daemon thread done")
        threading.Thread(target=work).start()
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        print("body", threading.current_thread(), threading.main_thread())
        """,
    "exception_in_thread": """
        import threading
        thread = threading.Thread(target=lambda: 1 / 0, name="worker")
        thread.start()
        thread.join()
        """,
    "stack": """
        import inspect, sys, traceback, warnings
        traceback.print_stack(file=sys.stdout)
        print(len(inspect.stack()), sys._getframe().f_back)
        warnings.warn("points past the script", stacklevel=3)
        """,
    "spawn": """
        import multiprocessing, os
        def work(n):
            return n * n, __name__, sorted(k for k in os.environ if k.startswith("P"))
        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            with context.Pool(1) as pool:
                print(pool.map(work, [1, 2, 3]))
        """,
    "fork": """
        import os, sys
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            print("child")
            sys.exit(5)
        print("status", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
    "teardown": """
        class Last:
            def __del__(self):
                print("collected at the end")
        keep = Last()
        """,
    "unraisable": """
        class Bad:
            def __del__(self):
                raise ValueError("in __del__")
        Bad()
        print("on")
        """,
    "closed_output": """
        import os, sys
        print("into a closed descriptor")
        os.close(1)
        """,
    "input": """
        import sys
        print(sys.stdin.read().upper())
        """,
    "unicode": """
        print("\\u00e4\\u4e16", ascii("\\udcff"))
        """,
    "asyncio": """
        import asyncio
        async def main():
            await asyncio.sleep(0)
            raise ExceptionGroup("two", [ValueError(1), TypeError(2)])
        asyncio.run(main())
        """
    if sys.version_info >= (3, 11)
    else "import asyncio; asyncio.run(asyncio.sleep(0))",
}


def write_scripts(directory: Path, name: str) -> Path:
    (directory / "sibling.py").write_text("")
    (directory / "broken.py").write_text("def f(:\n    pass\n")
    script = directory / f"{name}.py"
    script.write_text(textwrap.dedent(SCRIPTS[name]))
    return script


def without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]{6,}|started (daemon )?\d+", "#", text)


def without_fork_warning(stderr: str) -> str:
    """Python 3.12 warns of fork() in a process with threads; the one that waits for signals is."""
    return re.sub(r".*DeprecationWarning: This process .* is multi-threaded.*\n.*\n", "", stderr)


def compare(plain: list[str], profiled: list[str], cwd: Path, **keywords) -> None:
    """Both commands give the same result but for the lines that start with "proton: "."""
    expected = run(plain, cwd, **keywords)
    got = run(profiled, cwd, **keywords)
    assert without_addresses(got.stdout) == without_addresses(expected.stdout)
    errors = without_fork_warning(without_own_lines(got.stderr))
    assert without_addresses(errors) == without_addresses(expected.stderr)
    assert got.returncode == expected.returncode


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name: str, tmp_path: Path) -> None:
    script = write_scripts(tmp_path, name)
    out = tmp_path / "out"
    out.mkdir()
    words = [str(script), "-n", "--help", "a b", ""]
    compare(
        [sys.executable, *words], [executable("proton"), "-n", str(out / "p"), *words], tmp_path,
        stdin="text\n",
    )


@pytest.mark.parametrize("name", ["arguments", "main_module", "path", "exception", "stack"])
def test_relative_script(name: str, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    write_scripts(inside, name)
    compare(
        [sys.executable, f"inside/{name}.py"], [executable("proton"), f"inside/{name}.py"], tmp_path
    )


@pytest.mark.parametrize(
    "name", ["arguments", "path", "exception", "chained", "keyboard_interrupt", "spawn", "stack"]
)
def test_module(name: str, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    write_scripts(package, name)
    write_scripts(tmp_path, name)
    for module in (name, f"package.{name}"):
        words = [module, "-x", "--module"]
        compare(
            [sys.executable, "-m", *words], [executable("proton"), "--module", *words], tmp_path
        )


def test_module_main(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("print('package', __name__)")
    (package / "__main__.py").write_text("print(__name__, __package__, __spec__)")
    plain = [sys.executable, "-m", "package"]
    compare(plain, [executable("proton"), "--module", "package"], tmp_path)
    # A directory with a __main__.py is a script too.
    plain = [sys.executable, "package", "1"]
    compare(plain, [executable("proton"), "package", "1"], tmp_path)


def test_script_on_standard_input(tmp_path: Path) -> None:
    compare(
        [sys.executable, "-", "a"], [executable("proton"), "-", "a"], tmp_path,
        stdin="import sys\nprint(sys.argv, __name__)\nraise ValueError('x')\n",
    )


def test_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text("def test_good(): pass\ndef test_bad(): assert 1 == 2\n")
    words = ["pytest", "-q", "-p", "no:cacheprovider", "-k", "bad", "--durations=0", "-W", "error"]
    # pytest-benchmark, where it is installed, warns of xdist.
    env = environment(PYTEST_XDIST_WORKER=None)
    plain = run([sys.executable, "-m", *words], tmp_path, env=env)
    profiled = run([executable("proton"), *words], tmp_path, env=env)
    assert (plain.returncode, profiled.returncode) == (1, 1), plain.stdout + plain.stderr

    def without_times(text: str) -> list[str]:
        # Those below 5 ms are counted in an extra line, below an empty one.
        timed = re.compile(r" in \d|^\d+\.\d\ds (setup|call|teardown) |^\(\d+ durations < |^$")
        return [line for line in text.splitlines() if not timed.search(line)]

    assert without_times(profiled.stdout) == without_times(plain.stdout)
    assert "1 failed, 1 deselected" in profiled.stdout
    assert without_own_lines(profiled.stderr) == plain.stderr


@pytest.mark.parametrize("before", [None, "", "extra", "extra:"])
def test_python_path_is_as_before(before: str | None, tmp_path: Path) -> None:
    (tmp_path / "extra").mkdir()
    script = write_scripts(tmp_path, "environment")
    inherited = os.environ.get("PYTHONPATH")
    if before is not None and inherited:
        before = f"{before}:{inherited}"
    compare(
        [sys.executable, str(script)], [executable("proton"), str(script)], tmp_path,
        env=environment(PYTHONPATH=before if before is not None else inherited),
    )


@pytest.mark.parametrize(
    "text", ["print('mine', __name__, __file__)", "raise ValueError('mine')", "import nothing_here"]
)
def test_own_sitecustomize_still_runs(text: str, tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "sitecustomize.py").write_text(text)
    script = tmp_path / "script.py"
    script.write_text("import sys; print(sys.modules.get('sitecustomize'), sys.path)")
    inherited = os.environ.get("PYTHONPATH")
    path = f"{extra}:{inherited}" if inherited else str(extra)
    compare(
        [sys.executable, str(script)], [executable("proton"), str(script)], tmp_path,
        env=environment(PYTHONPATH=path),
    )


def test_process_is_the_targets_own(tmp_path: Path) -> None:
    """The process id is that of the target: the caller of proton can signal it."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\n"
        "print(os.getpid(), os.getppid(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [executable("proton"), str(script)], cwd=tmp_path, env=environment(), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == f"{child.pid} {os.getpid()}\n"
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=300)
    assert child.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in stderr
    assert len(own_lines(stderr)) == 1
