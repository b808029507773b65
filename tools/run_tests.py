#!/usr/bin/env python3
"""Run the tests of a Meson build, and pytest, at once and add them up.

Usage: run_tests.py BUILD [--suite NAME]... [--pytest PYTHON [--tests PYTEST-ARGUMENT...]]

Both use every processor: C tests that wait leave theirs to Python tests. Ends with a line for each
failed test and a line "N passed, N failed" (", N skipped" may follow); the exit status is 0 only if
nothing failed and something passed. A test program that dies counts as failed even if each of its
subtests passed.
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

# Limits in seconds; a full run takes about 600 on two processors. Each test has its own limit: the
# limits of Meson are multiplied for machines that do other work too; pyproject.toml has pytest's.
BUILD_LIMIT = MESON_LIMIT = PYTEST_LIMIT = 3600
TIMEOUT_MULTIPLIER = 4

JOBS = min(os.cpu_count() or 1, 8)

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


def start_meson(build, suites, output):
    """Start all tests of a build directory, or those of `suites` if there are any. They print to
    the file `output` if that is not None."""
    meson = Path(sys.executable).parent / "meson"
    command = [str(meson) if meson.exists() else "meson", "test", "-C", str(build)]
    command += ["--print-errorlogs", "--num-processes", str(JOBS)]
    command += ["--timeout-multiplier", str(TIMEOUT_MULTIPLIER)]
    if output:
        command += ["--no-rebuild"]
    for suite in suites:
        command += ["--suite", suite]
    for old in (build / "meson-logs").glob("testlog*"):
        old.unlink()
    return subprocess.Popen(command, stdout=output, stderr=output)


def end_meson(process, build, total):
    """Wait for start_meson()'s process and add its results."""
    logs = build / "meson-logs"
    try:
        status = process.wait(MESON_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        status = f"nothing: it ran longer than {MESON_LIMIT} s"
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
    """Build all test programs; "meson test" builds only those of C tests."""
    ninja = Path(sys.executable).parent / "ninja"
    command = [str(ninja) if ninja.exists() else "ninja", "--quiet", "-C", str(build)]
    command += ["meson-test-prereq", "test-programs"]
    return subprocess.run(command, timeout=BUILD_LIMIT).returncode == 0


def run_pytest(python, arguments, build, total):
    """tests/python with that Python; some need what was built for tests."""
    environment = {**os.environ, "PROTON_TEST_BUILD": str(build.resolve())}
    with tempfile.TemporaryDirectory() as folder:
        junit = Path(folder) / "pytest.xml"
        # Each process begins with its share of the tests in their order, so what a module shares is
        # made once; a process that is done takes tests from the end of another's.
        command = [python, "-m", "pytest", "-q", f"--junitxml={junit}"]
        command += ["-n", str(JOBS), "--dist", "worksteal", *arguments]
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
    if not options.pytest:
        end_meson(start_meson(options.build, options.suite, None), options.build, total)
    elif build_programs(options.build):
        with tempfile.TemporaryFile("w+", errors="replace") as printed:
            process = start_meson(options.build, options.suite, printed)
            run_pytest(options.pytest, options.tests, options.build, total)
            end_meson(process, options.build, total)
            printed.seek(0)
            print(printed.read())
    else:
        total.add_failure("the test programs cannot be built")
    # After a line break: the last output of a test program may lack one.
    for failure in ["", *total.failures]:
        print(f"run_tests: failed: {failure}" if failure else "")
    print(total)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
