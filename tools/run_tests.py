#!/usr/bin/env python3
"""Run the tests of a Meson build, and pytest, and add them up.

Usage: run_tests.py BUILD [--suite NAME]... [--pytest PYTHON [--tests PYTEST-ARGUMENT...]]

Ends with a line for each failed test and a line "N passed, N failed" (", N skipped" may follow);
the exit status is 0 only if nothing failed and something passed. A test program that dies counts
as failed even if each of its subtests passed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

# A test that hangs must not hang the whole run: its stack is printed after the first time, and
# the run is ended after the second. Seconds; a full run takes about 900 on two processors.
STUCK_AFTER = 240
PYTEST_LIMIT = 2400

# Results of `meson test` that are not failures.
GOOD = {"OK", "SKIP", "EXPECTEDFAIL"}

# Characters of a failure's text that are repeated at the end of the output.
FAILURE_TEXT_LIMIT = 1500


class Total:
    """Passed, failed and skipped tests."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []

    def add_failure(self, what):
        """Count a failure, with the text that the end of the output repeats."""
        self.failed += 1
        self.failures.append(what)

    def add_output(self, name, text):
        """Repeat at the end what a program with failures printed; counts nothing."""
        if text:
            self.failures.append(f"{name} printed:\n{text}")

    def add_junit(self, path):
        """Add the test cases of a JUnit file; returns the names of suites and cases that failed."""
        blamed = set()
        for suite in ElementTree.parse(path).getroot().iter("testsuite"):
            for case in suite.iter("testcase"):
                kinds = {child.tag for child in case}
                if kinds & {"failure", "error"}:
                    self.add_failure(describe_failure(suite, case))
                    blamed |= {suite.get("name", ""), case.get("name", "")}
                elif "skipped" in kinds:
                    self.skipped += 1
                else:
                    self.passed += 1
        return blamed

    def __str__(self):
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def describe_failure(suite, case):
    """Return the name of a failed JUnit test case and the end of its report."""
    name = f"{case.get('classname') or suite.get('name', '')}: {case.get('name', '')}"
    reports = [child for child in case if child.tag in ("failure", "error")]
    texts = [(report.text or report.get("message", "")).strip() for report in reports]
    return "\n".join([name, *(text[-FAILURE_TEXT_LIMIT:] for text in texts if text)])


def find_reason(stdout, stderr):
    """Return the lines that say why a test program failed: TAP's notes, a sanitizer's report."""
    lines = [line for line in stdout.splitlines() if line.startswith("#")]
    report = re.search(r"^[^\n]*(ERROR|WARNING|runtime error): .*", stderr, re.M | re.S)
    if report:
        lines.append(report[0])
    return "\n".join(lines)[:FAILURE_TEXT_LIMIT]


def run_meson(build, suites, total):
    """All tests of a build directory; those of `suites` if there are any."""
    meson = Path(sys.executable).parent / "meson"
    command = [str(meson) if meson.exists() else "meson", "test", "-C", str(build)]
    command += ["--print-errorlogs", "--num-processes", str(min(os.cpu_count() or 1, 8))]
    for suite in suites:
        command += ["--suite", suite]
    logs = build / "meson-logs"
    for old in logs.glob("testlog*"):
        old.unlink()
    status = subprocess.run(command, timeout=300).returncode
    junit, log = logs / "testlog.junit.xml", logs / "testlog.json"
    if not junit.exists() or not log.exists():
        total.add_failure("meson test wrote no results")
        return
    before = total.failed
    blamed = total.add_junit(junit)
    for test in map(json.loads, log.read_text().splitlines()):
        # A program with subtests is a suite called PROJECT.PROGRAM, any other one a case.
        is_counted = any(f".{name}".endswith(f".{test['name']}") for name in blamed)
        if test["result"] in GOOD:
            continue
        if not is_counted:
            total.add_failure(f"{test['name']}: {test['result']}")
        total.add_output(test["name"], find_reason(test["stdout"], test.get("stderr", "")))
    if status != 0 and total.failed == before:
        total.add_failure(f"meson test ended with status {status}")


def build_programs(build):
    """Builds the programs that Python tests run; "meson test" builds only those of C tests."""
    ninja = Path(sys.executable).parent / "ninja"
    command = [str(ninja) if ninja.exists() else "ninja", "--quiet", "-C", str(build)]
    return subprocess.run([*command, "test-programs"], timeout=300).returncode == 0


def run_pytest(python, arguments, build, total):
    """tests/python with that Python; some need what was built for tests."""
    environment = {**os.environ, "PROTON_TEST_BUILD": str(build.resolve())}
    with tempfile.TemporaryDirectory() as folder:
        junit = Path(folder) / "pytest.xml"
        command = [python, "-m", "pytest", "-q", f"--junitxml={junit}"]
        command += ["-o", f"faulthandler_timeout={STUCK_AFTER}", *arguments]
        try:
            status = subprocess.run(command, timeout=PYTEST_LIMIT, env=environment).returncode
        except subprocess.TimeoutExpired:
            status = f"nothing: it ran longer than {PYTEST_LIMIT} s"
        before = total.failed
        if junit.exists():
            total.add_junit(junit)
        if status != 0 and total.failed == before:
            total.add_failure(f"pytest ended with status {status}")


def main():
    """Run what was asked for and print the sum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--pytest", metavar="PYTHON")
    parser.add_argument("--tests", nargs="+", default=[], metavar="TEST")
    options = parser.parse_args()
    total = Total()
    run_meson(options.build, options.suite, total)
    if options.pytest and not build_programs(options.build):
        total.add_failure("the programs of the Python tests cannot be built")
    if options.pytest:
        run_pytest(options.pytest, options.tests, options.build, total)
    # After a line break: the last output of a test program may lack one.
    for failure in ["", *total.failures]:
        print(f"run_tests: failed: {failure}" if failure else "")
    print(total)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
