"""tools/check_waits.py finds waits without a limit in tests, and few other things."""

import subprocess
import sys
from pathlib import Path

import pytest

from built import ROOT

TOOL = ROOT / "tools" / "check_waits.py"

UNLIMITED = {
    "child": "subprocess.run(['x'], check=True)",
    "output": "subprocess.check_output(['x'])",
    "communicate": "process.communicate(b'x')",
    "process": "process.wait()",
    "waitpid": "os.waitpid(child, 0)",
    "loop": "while not path.exists():\n    time.sleep(0.1)",
    "empty loop": "while not path.exists():\n    pass",
    "yielding loop": "while state() != 'S':\n    os.sched_yield()",
    "reason without text": "subprocess.run(['x'])  # no limit:",
}
LIMITED = {
    "child": "subprocess.run(['x'], timeout=60)",
    "options": "subprocess.run(['x'], **options)",
    "communicate": "process.communicate(timeout=60)",
    "process": "process.wait(60)",
    "waitpid": "os.waitpid(child, os.WNOHANG)",
    "loop": "while not path.exists():\n    time.sleep(0.1)\n    assert time.monotonic() < end",
    "loop over data": "while rest:\n    rest = rest[1:]",
    "reason": "subprocess.run(\n    ['x'],\n)  # no limit: it prints one line",
    "reason above": "# no limit: it has ended\nprocess.wait()",
    "event loop": "async def f():\n    await event.wait()",
}


def check(root: Path, code: str, name: str = "test_it.py") -> list[str]:
    (root / "tests").mkdir()
    (root / "tests" / name).write_text(code + "\n")
    command = [sys.executable, "-S", str(TOOL), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert done.returncode == bool(lines), done.stderr
    return lines


@pytest.mark.parametrize("name", UNLIMITED)
def test_wait_without_a_limit_is_found(name: str, tmp_path: Path) -> None:
    (line,) = check(tmp_path, UNLIMITED[name])
    assert line.startswith("tests/test_it.py:1: ")


@pytest.mark.parametrize("name", LIMITED)
def test_wait_with_a_limit_is_allowed(name: str, tmp_path: Path) -> None:
    assert check(tmp_path, LIMITED[name]) == []


def test_test_of_meson_needs_a_limit(tmp_path: Path) -> None:
    (line,) = check(tmp_path, "test('x', x, timeout: 60)\ntest('y', y, timeout: 0)", "meson.build")
    assert line == "tests/meson.build:2: a test of Meson without a time limit"
