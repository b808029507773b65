"""The tests that mutants meet: subtests of C programs, other programs, and tests of pytest.

A unit is what can be run alone. Its key changes with the program or file that it is from.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Iterable, Optional

SKIPPED_STATUS = 77
PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Unit:
    """A test, and once it has run without a mutant, what it reached and how long it took."""

    kind: str  # c or python
    name: str
    key: str
    command: list[str] = field(default_factory=list)
    folder: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    seconds: float = 0
    reached: list[int] = field(default_factory=list)
    good: bool = True

    def to_json(self) -> dict:
        return asdict(self)


def digest(*parts: bytes) -> str:
    """A short name for contents."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


@dataclass
class Outcome:
    """How a program ended; status None if it ran too long."""

    status: Optional[int]
    output: str


def descendants() -> list[int]:
    """Children of this process: its own, and as a subreaper also those that lost their parent."""
    task = f"/proc/self/task/{os.getpid()}/children"
    return [int(pid) for pid in Path(task).read_text().split()]


def end_leftovers() -> None:
    """Kill and await everything that a test left."""
    for _ in range(100):
        left = descendants()
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass


def become_subreaper() -> None:
    """Orphans of tests become children of this process."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def prepare() -> None:
    """In a child: default signals, and the first to go where memory ends."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    try:
        Path("/proc/self/oom_score_adj").write_text("900")
    except OSError:
        pass


def execute(command: list[str], folder: Path, environment: dict[str, str], limit: float) -> Outcome:
    """Run a program and everything that it starts, at most `limit` seconds."""
    log = Path(environment["TMPDIR"]).with_suffix(".log")
    with log.open("w+b") as output:
        child = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=prepare,
        )  # fmt: skip
        try:
            status: Optional[int] = child.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:  # also where this run is ended
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
            end_leftovers()
    shutil.rmtree(environment["TMPDIR"], ignore_errors=True)
    os.makedirs(environment["TMPDIR"])
    return Outcome(status, log.read_text(errors="replace"))


class Suite:
    """The tests of one build."""

    def __init__(self, source: Path, build: Path, python: Optional[Path], pages: Path) -> None:
        self.source, self.build, self.python, self.pages = source, build, python, pages
        self.limit = 20.0  # seconds that any test may take, however quick it was
        self.bin = Path(sys.executable).parent

    def environment(self, temporary: Path, **more: str) -> dict[str, str]:
        """The variables that a test gets."""
        temporary.mkdir(parents=True, exist_ok=True)
        first = self.python.parent if self.python else self.bin
        result = {
            **os.environ,
            "PATH": f"{first}:{self.bin}:{os.environ['PATH']}",
            "PROTON_TEST_BUILD": str(self.build),
            "TMPDIR": str(temporary),
            **more,
        }
        for name in ("VIRTUAL_ENV", "PYTHONPATH", "PYTEST_CURRENT_TEST"):
            result.pop(name, None)
        return result

    def c_units(self) -> list[Unit]:
        """The C tests but the static checks, each subtest alone where the program can."""
        command = [str(self.bin / "meson"), "introspect", "--tests", str(self.build)]
        listed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return [unit for test in listed for unit in self.program_units(test)]

    def program_units(self, test: dict) -> list[Unit]:
        """The units of one program."""
        if "static" in "".join(test["suite"]):
            return []
        command, folder = test["cmd"], test["workdir"] or str(self.build)
        contents = b"".join(Path(word).read_bytes() for word in command if Path(word).is_file())
        environment = {**test["env"]}
        key = digest(contents, json.dumps([command, environment]).encode())
        if len(command) > 1 or b"--no-fork" not in contents:
            return [Unit("c", test["name"], key, command, folder, environment)]
        listed = subprocess.run(
            [*command, "--list"], capture_output=True, text=True, env={**os.environ, **environment}
        )
        return [
            Unit("c", f"{test['name']} {name}", key, [*command, name], folder, environment)
            for name in listed.stdout.split()
        ]

    def python_files(self) -> list[Path]:
        """The files of pytest's tests."""
        if not self.python:
            return []
        return sorted((self.source / "tests" / "python").glob("test_*.py"))

    def file_key(self, path: Path) -> str:
        """The key of a file's tests, which use the package and the modules beside it."""
        shared = [p for p in sorted(path.parent.glob("*.py")) if not p.name.startswith("test_")]
        return digest(path.name.encode(), *(p.read_bytes() for p in [path, *shared]))

    def run_c(self, unit: Unit, temporary: Path, limit: float) -> Outcome:
        """One C unit."""
        environment = self.environment(temporary, **unit.environment)
        return execute(unit.command, Path(unit.folder), environment, limit)

    def run_pytest(
        self, names: Iterable[str], temporary: Path, limit: float, reach: str = ""
    ) -> Outcome:
        """Tests of pytest in one process up to the first failure, or with `reach`, a file, all."""
        command = [str(self.python), "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
        more = {}
        if reach:
            command += ["-p", "mutation.reach_plugin"]
            more = {"MUTATE_REACH": reach, "MUTATE_PAGES": str(self.pages)}
        else:
            command += ["-x"]
        environment = self.environment(temporary, **more)
        return execute([*command, *names], self.source, environment, limit)


def failure_of(outcome: Outcome) -> str:
    """The failure that a program's output names, "" if there was none."""
    if outcome.status in (0, SKIPPED_STATUS):
        return ""
    if outcome.status is None:
        return "time limit"
    named = re.search(r"^\s*not ok.*|^(?:FAILED|ERROR) .*", outcome.output, re.M)
    return named[0].strip()[:200] if named else f"status {outcome.status}"
