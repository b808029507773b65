"""How a process ends, forks and is torn down while it records."""

from pathlib import Path

import pytest

from cmd_support import executable
from support import load, metrics, names, run_command, script

START = """
import os, sys
import triton_proton as proton
session = proton.start("test", backend="host")
with proton.scope("before", {"m": 1}):
    pass
"""


def files() -> set[str]:
    return {entry.name for entry in Path(".").iterdir()} - {"script.py"}


@pytest.mark.parametrize(
    "ending, status",
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("sys.exit('a sentence')", 1),
        ("raise RuntimeError('unhandled')", 1),
        ("raise KeyboardInterrupt", None),
        ("with proton.scope('open'):\n    raise SystemExit(4)", 4),
        ("import threading\nthreading.Thread(target=lambda: 1 / 0).start()", 0),
    ],
)
def test_the_profile_is_written_however_the_interpreter_exits(ending, status):
    result = script(START + ending, status=status)
    assert files() == {"test.hatchet"}
    assert metrics(load("test.hatchet"), "before") == {"m": 1}
    if "RuntimeError" in ending:
        assert result.stderr.rstrip().endswith("RuntimeError: unhandled")
    assert result.stdout == ""


def test_work_of_later_registered_exit_functions_is_recorded():
    script(
        START + "import atexit\n"
        "def last():\n"
        "    with proton.scope('at exit', {'m': 1}):\n"
        "        pass\n"
        "atexit.register(last)\n"
    )
    assert names(load("test.hatchet")) == {"before", "at exit"}


def test_a_profile_that_cannot_be_written_at_exit_is_one_line():
    result = script(
        "import os\nos.mkdir('d')\n"
        "import triton_proton as proton\nproton.start('d/test', backend='host')\n"
        "for name in os.listdir('d'): os.unlink('d/' + name)\nos.rmdir('d')\n"
    )
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("proton: ") and "d/test" in lines[0]


def test_os_exit_leaves_a_readable_working_file():
    script(START + "os._exit(5)", status=5)
    assert files() == {"test.proton"}
    assert Path("test.proton").stat().st_size > 0
    viewer = executable("proton-viewer")
    shown = run_command([viewer, "-m", "m", "test.proton"])
    assert "before" in shown.stdout


def test_a_fork_s_child_records_nothing_and_the_parent_everything():
    result = script(
        START + "scope = proton.scope('around', {'m': 1})\n"
        "proton.enter_scope('named')\n"
        "with scope:\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        from triton_proton.flags import flags\n"
        "        from triton_proton.hooks import HookManager\n"
        "        assert not flags.profiling_on and not HookManager.active_hooks\n"
        "        with proton.scope('child', {'m': 1}):\n"
        "            pass\n"
        "        proton.exit_scope('named')\n"
        "        proton.finalize()\n"
        "    else:\n"
        "        assert os.waitpid(pid, 0)[1] == 0\n"
        "        with proton.scope('parent', {'m': 1}):\n"
        "            pass\n"
        "        proton.exit_scope('named')\n"
        "print('end', pid == 0)\n"
    )
    assert sorted(result.stdout.split()) == ["False", "True", "end", "end"]
    assert files() == {"test.hatchet"}
    root = load("test.hatchet")
    assert names(root) == {"before", "named"}
    assert metrics(root, "named", "around", "parent") == {"m": 1}


def test_a_fork_s_child_may_have_its_own_session():
    script(
        START + "pid = os.fork()\n"
        "name = 'child' if pid == 0 else 'parent'\n"
        "if pid == 0:\n"
        "    proton.start('own', backend='host', hook='triton')\n"
        "else:\n"
        "    os.waitpid(pid, 0)\n"
        "with proton.scope(name, {'m': 1}):\n"
        "    pass\n"
    )
    assert names(load("own.hatchet")) == {"child"}
    assert names(load("test.hatchet")) == {"before", "parent"}


def test_multiprocessing_children_are_inert():
    script(
        START + "import multiprocessing\n"
        "def work(n):\n"
        "    with proton.scope('child', {'m': 1}):\n"
        "        return n * n\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    assert pool.map(work, range(4)) == [0, 1, 4, 9]\n"
    )
    assert names(load("test.hatchet")) == {"before"}


def test_daemon_threads_in_scopes_do_not_hinder_the_end():
    for _ in range(3):
        script(
            START + "import threading\n"
            "def forever():\n"
            "    while True:\n"
            "        with proton.scope('daemon', {'n': 1}):\n"
            "            pass\n"
            "for _ in range(4):\n"
            "    threading.Thread(target=forever, daemon=True).start()\n"
            "import time; time.sleep(0.05)\n",
        )
        assert metrics(load("test.hatchet"), "before") == {"m": 1}


def test_python_paths_while_the_interpreter_is_torn_down():
    script("""
        import triton_proton as proton
        from triton_proton import _libproton
        proton.start("test", context="python", backend="host")
        class Late:
            def __del__(self, lib=_libproton):
                lib.kernel_begin("late"); lib.kernel_end()
                with lib.scope("late"):
                    pass
                lib.source_context()
        keep = Late()
        keep.itself = keep
        """)
    assert names(load("test.hatchet")) == set()


def test_the_extension_refuses_a_second_interpreter():
    result = script("""
        import sys
        import triton_proton
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        made = interpreters.create()
        code = (
            f"import sys; sys.path[:] = {sys.path!r}\\n"
            "try:\\n"
            "    import triton_proton\\n"
            "except ImportError as error:\\n"
            "    print(error)\\n"
            "else:\\n"
            "    print('imported')\\n"
        )
        print(interpreters.run_string(made, code) or "", end="")
        """)
    assert "interpreter" in result.stdout and "imported" not in result.stdout


def test_the_extension_may_be_imported_again():
    script("""
        import gc, sys
        import triton_proton
        first = triton_proton.scope
        for name in [name for name in sys.modules if name.startswith("triton_proton")]:
            del sys.modules[name]
        import triton_proton as again
        assert again.scope is not first
        del triton_proton
        gc.collect()
        again.start("test", context="python", backend="host")
        with first("old"), again.scope("new", {"m": 1}):
            again._libproton.kernel_begin("k"); again._libproton.kernel_end()
        again.finalize()
        """)
    lines = names(load("test.hatchet"))
    assert len(lines) == 2 and all(line.endswith("@<module>") for line in lines)
