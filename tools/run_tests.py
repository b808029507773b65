#!/usr/bin/env python3
"""Run the tests of a Meson build, and pytest, at once and add them up.

Usage: run_tests.py BUILD [--suite NAME]... [--pytest PYTHON [--tests PYTEST-ARGUMENT...]]

Both use every processor: C tests that wait leave theirs to Python tests. Ends with a line for each
failed test and a line "N passed, N failed" (", N skipped" and ", N unstable" may follow); the exit
status is 0 only if nothing failed and something passed. A test program that dies counts as failed
even if each of its subtests passed.

Up to 3 failed tests are run once more, alone. One that passes then is unstable: it counts as
passed, and what it printed at first is repeated. A sanitizer's report and a test that ended its
process stay failures.
"""

import argparse
import dataclasses
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
AGAIN_LIMIT = 900
TIMEOUT_MULTIPLIER = 4

JOBS = min(os.cpu_count() or 1, 8)

# Results of `meson test` that are not failures.
GOOD = {"OK", "SKIP", "EXPECTEDFAIL"}

# Characters of a failure's text that are repeated at the end of the output.
FAILURE_TEXT_LIMIT = 1500

# More failures than this are not bad luck.
UNSTABLE_LIMIT = 3

# No second chance: a sanitizer has found a race or a bad access, or a process of pytest has died.
FINAL = re.compile(r"(ERROR|WARNING): \w+Sanitizer|runtime error: |^worker '\w+' crashed", re.M)


@dataclasses.dataclass
class Failure:
    """A test program, or a test of pytest, that failed."""

    name: str
    texts: list[str]  # repeated at the end of the output
    cases: int = 1
    again: list[str] | None = None  # the command that runs it alone
    is_final: bool = False


class Total:
    """Passed, failed and skipped tests."""

    def __init__(self):
        self.passed = self.skipped = 0
        self.failures = []
        self.unstable = []

    def add_failure(self, text):
        """Count a failure that is not one test's."""
        self.failures.append(Failure(text, [text], is_final=True))

    def add_junit(self, path):
        """Add the test cases of a JUnit file; returns (suite, case) of those that failed."""
        failed = []
        for suite in ElementTree.parse(path).getroot().iter("testsuite"):
            for case in suite.iter("testcase"):
                kinds = {child.tag for child in case}
                if kinds & {"failure", "error"}:
                    failed.append((suite, case))
                elif "skipped" in kinds:
                    self.skipped += 1
                else:
                    self.passed += 1
        return failed

    def run_again(self):
        """Run failed tests alone, if they are few; those that pass are unstable."""
        if len(self.failures) > UNSTABLE_LIMIT:
            return
        for failure in [failure for failure in self.failures if not failure.is_final]:
            print(f"\nrun_tests: again: {failure.name}", flush=True)
            try:
                status = subprocess.run(failure.again, timeout=AGAIN_LIMIT).returncode
            except subprocess.TimeoutExpired:
                continue
            if status == 0:
                self.failures.remove(failure)
                self.unstable.append(failure)
                self.passed += failure.cases

    def print(self):
        """Repeat what failed or is unstable, and end with the sum."""
        print()  # the last output of a test program may lack a line break
        for failure in self.unstable:
            print(f"run_tests: unstable: {failure.name}: passed when run alone")
            print("\n".join(failure.texts))
        for failure in self.failures:
            for text in failure.texts:
                print(f"run_tests: failed: {text}")
        print(self)

    def __str__(self):
        text = f"{self.passed} passed, {sum(failure.cases for failure in self.failures)} failed"
        for count, name in ((self.skipped, "skipped"), (len(self.unstable), "unstable")):
            text += f", {count} {name}" if count else ""
        return text


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


def meson_command(build, *arguments):
    """Return a command that runs tests of a build directory."""
    meson = Path(sys.executable).parent / "meson"
    command = [str(meson) if meson.exists() else "meson", "test", "-C", str(build)]
    command += ["--print-errorlogs", "--timeout-multiplier", str(TIMEOUT_MULTIPLIER)]
    return [*command, *arguments]


def start_meson(build, suites, output):
    """Start all tests of a build directory, or those of `suites` if there are any. They print to
    the file `output` if that is not None."""
    command = meson_command(build, "--num-processes", str(JOBS))
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
    before = len(total.failures)
    cases = total.add_junit(junit)
    for test in map(json.loads, log.read_text().splitlines()):
        if test["result"] not in GOOD:
            total.failures.append(describe_program(test, cases, build))
    if status != 0 and len(total.failures) == before:
        total.add_failure(f"meson test ended with status {status}")


def describe_program(test, cases, build):
    """Return the failure of a program of Meson's log; `cases` are those of JUnit that failed."""
    name = test["name"]
    # A program with subtests is a suite called PROJECT.PROGRAM, any other one a case.
    texts = [
        describe_failure(suite, case)
        for suite, case in cases
        if any(f".{at}".endswith(f".{name}") for at in (suite.get("name"), case.get("name")))
    ]
    failure = Failure(name, texts or [f"{name}: {test['result']}"], max(len(texts), 1))
    stdout, stderr = test["stdout"], test.get("stderr", "")
    reason = find_reason(stdout, stderr)
    if reason:
        failure.texts.append(f"{name} printed:\n{reason}")
    failure.is_final = bool(FINAL.search(stdout + stderr))
    # Without its suites. Another base of names keeps the log of all tests.
    again = ("--no-rebuild", "--logbase", "testlog-again", name.rpartition(" - ")[2])
    failure.again = meson_command(build, *again)
    return failure


def build_programs(build):
    """Build all test programs; "meson test" builds only those of C tests."""
    ninja = Path(sys.executable).parent / "ninja"
    command = [str(ninja) if ninja.exists() else "ninja", "--quiet", "-C", str(build)]
    command += ["meson-test-prereq", "test-programs"]
    return subprocess.run(command, timeout=BUILD_LIMIT).returncode == 0


def run_pytest(python, arguments, build, total):
    """tests/python with that Python; some need what was built for tests."""
    os.environ["PROTON_TEST_BUILD"] = str(build.resolve())
    pytest = [python, "-m", "pytest", "-q"]
    with tempfile.TemporaryDirectory() as folder:
        junit = Path(folder) / "pytest.xml"
        # Each process begins with its share of the tests in their order, so what a module shares is
        # made once; a process that is done takes tests from the end of another's.
        command = [*pytest, f"--junitxml={junit}", "-n", str(JOBS), "--dist", "worksteal"]
        command += ["--durations=15"]  # where the time of CI goes
        try:
            status = subprocess.run([*command, *arguments], timeout=PYTEST_LIMIT).returncode
        except subprocess.TimeoutExpired:
            status = f"nothing: it ran longer than {PYTEST_LIMIT} s"
        before = len(total.failures)
        for suite, case in total.add_junit(junit) if junit.exists() else []:
            failure = Failure(case.get("name"), [describe_failure(suite, case)])
            failure.again = [*pytest, find_test(case)]
            failure.is_final = any(FINAL.search(report.text or "") for report in case)
            total.failures.append(failure)
        if status != 0 and len(total.failures) == before:
            total.add_failure(f"pytest ended with status {status}")


def find_test(case):
    """Return the pytest id of a case of JUnit: FILE::NAME, or FILE if that cannot be imported."""
    file = (case.get("classname") or case.get("name")).replace(".", "/") + ".py"
    return f"{file}::{case.get('name')}" if case.get("classname") else file


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
    total.run_again()
    total.print()
    return 1 if total.failures or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
