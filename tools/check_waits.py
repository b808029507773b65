#!/usr/bin/env python3
"""No test waits without a limit: find children and loops of tests that may never end.

Usage: check_waits.py [ROOT]

In the Python files of the tests, and in tools/run_tests.py, these need a limit: a child
(subprocess.run() and similar functions without `timeout`), a wait for a process, a barrier or an
event, and a loop that asks again and again and reads no clock. In Meson's files no test may turn
its time limit off.

Everything else has the limit of one test: TAP_TIMEOUT_S in tests/unit/tap.h for C, and for Python
`faulthandler_timeout` in pyproject.toml, where threads and reads of pipes end with the process.

A comment `# no limit: REASON` on one of the lines of a call, or on the line above it, allows it.
"""

import ast
import re
import sys
from pathlib import Path

from check_sources import files_of

LOOKED_AT = re.compile(r"^(tests/.*\.py|tools/run_tests\.py)$")

# Functions that start a child and wait for it.
RUNS = {"run", "call", "check_call", "check_output"}
# Functions with which a loop passes time, and functions that read a clock.
PAUSES = {"sleep", "sched_yield", "poll", "is_alive"}
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time"}

ALLOWED = re.compile(r"# no limit: \S")
UNLIMITED_MESON = re.compile(r"\btimeout: *(0|-\d+)\b")


def called(node):
    """The name of a called function, and the text before its dot."""
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr, ast.unparse(function.value)
    return (function.id, "") if isinstance(function, ast.Name) else ("", "")


def is_given(node, *names):
    """True if a call has one of these keywords, or ** that may have it."""
    return any(keyword.arg in (None, *names) for keyword in node.keywords)


def problem_of_call(node):
    """The problem of a call, or None."""
    name, owner = called(node)
    if owner == "subprocess" and name in RUNS and not is_given(node, "timeout"):
        return f"subprocess.{name}() without a timeout"
    if owner == "os" and name in ("wait", "waitpid", "wait4", "waitid"):
        return None if "WNOHANG" in ast.unparse(node) else f"os.{name}() waits without a limit"
    if name == "communicate" and not is_given(node, "timeout") and len(node.args) < 2:
        return "communicate() without a timeout"
    if owner and name == "wait" and not node.args and not is_given(node, "timeout"):
        return "wait() without a timeout"
    return None


def problem_of_loop(node):
    """The problem of a `while` loop, or None."""
    names = {called(call)[0] for call in ast.walk(node) if isinstance(call, ast.Call)}
    is_empty = all(isinstance(part, ast.Pass) for part in node.body)
    if (is_empty or names & PAUSES) and not names & CLOCKS:
        return "a loop that waits and looks at no clock"
    return None


def problems_of_python(text):
    """(first line, last line, text) of each wait without a limit."""
    tree = ast.parse(text)
    awaited = {node.value for node in ast.walk(tree) if isinstance(node, ast.Await)}
    for node in ast.walk(tree):
        if node in awaited:
            continue  # in an event loop, which ends with the process
        if isinstance(node, ast.Call) and (what := problem_of_call(node)):
            yield node.lineno, node.end_lineno, what
        elif isinstance(node, ast.While) and (what := problem_of_loop(node)):
            yield node.lineno, node.lineno, what


def check_file(name, text):
    """All problems of one file as (line, text)."""
    lines = text.split("\n")
    if name.endswith("meson.build"):
        for number, line in enumerate(lines, 1):
            if UNLIMITED_MESON.search(line):
                yield number, "a test of Meson without a time limit"
        return
    for first, last, what in problems_of_python(text):
        if not any(ALLOWED.search(line) for line in lines[max(first - 2, 0) : last]):
            yield first, what


def is_looked_at(name):
    """True for the Python files and Meson files of the tests."""
    return LOOKED_AT.match(name) or name.startswith("tests/") and name.endswith("meson.build")


def main():
    """Print the problems; the exit status is their presence."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    failed = False
    for name in filter(is_looked_at, files_of(root)):
        path = root / name
        if not path.is_file():
            continue  # deleted, but not yet for git
        for number, what in check_file(name, path.read_text(encoding="utf-8")):
            print(f"{name}:{number}: {what}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
