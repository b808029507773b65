#!/usr/bin/env python3
"""Check one's own change in about a minute: static checks, and tests of the components it touches.

Usage: check_fast.py BUILD [BASE]

The change is what differs from the commit BASE (default: HEAD, so what is not committed), and files
that git does not know yet. Left out are tests that take long and tests over a second fake of the
same backend, unless their own file changed; `make test` has all. Ends with the status of failures.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOBS = str(min(os.cpu_count() or 1, 8))
LIMIT = 600  # seconds, of one command

# Folders, the folders of tests/unit with their tests, and what is tested in Python. The first row
# that matches a changed file counts.
PARTS = [
    ("src/base/", ["base"], []),
    ("src/format/", ["format"], ["format_doc", "perfetto_schema"]),
    ("src/model/", ["model"], ["rank_sums"]),
    ("src/symbol/", ["symbol"], ["demangle", "line_table"]),
    ("src/intra/", ["intra"], ["instrument_nesting", "instrument_records", "hoisting"]),
    ("src/export/", ["export"], ["exports", "trace_values"]),
    ("src/record/", ["record"], ["api_sessions", "api_scopes"]),
    ("src/driver/", ["driver"], ["gpu_backends"]),
    ("src/backend/cuda/", ["cuda"], ["cupti_abi"]),
    ("src/backend/amd/", ["amd"], ["amd_backends"]),
    ("src/backend/gpu/", ["gpu", "cuda"], ["tensor_metrics"]),
    ("src/backend/intra/", ["intra"], ["intra_fake"]),
    ("src/backend/", ["gpu", "record"], []),
    ("src/viewer/ranks/", ["viewer", "model"], ["merge", "rank_views", "rank_questions"]),
    ("src/viewer/", ["viewer"], ["viewer_output", "viewer_numbers", "hostile_names"]),
    ("src/cli/", [], ["cmd_targets", "cmd_signals", "process"]),
    ("include/", ["record"], ["lib", "docs"]),
    ("python/ext/", [], ["api_scopes", "api_hooks", "python_context", "lib"]),
    ("python/", [], ["api_scopes", "api_sessions", "api_data", "mode_specs", "modules"]),
    ("tests/fake/", ["cuda", "amd"], []),
    ("docs/", [], ["docs", "docs_commands", "format_doc"]),
    ("bench/", [], ["bench", "bench_turns"]),
]
# The golden files of what the commands print, and of what the passes make of kernels.
GOLDEN = {
    "golden_viewer": ("src/viewer/", "src/export/", "src/model/", "tests/golden/"),
    "golden_passes": ("src/intra/", "tests/golden/", "tests/tools/"),
}

# Programs of more than 3 seconds of processor time.
LONG = {"test_allocation", "test_cuda_faults", "test_cuda_traps", "test_many_threads"}
LONG |= {"test_no_memory", "test_reader_threads", "test_reuse", "test_threads"}
VARIANTS = ("_rocprofiler", "_roctracer")


def changed_files(base):
    """Paths that differ from `base`, and new ones."""
    command = ["git", "-C", str(ROOT), "diff", "--name-only", "--diff-filter=d", base]
    known = subprocess.run(command, capture_output=True, check=True, text=True, timeout=LIMIT)
    command = ["git", "-C", str(ROOT), "ls-files", "--others", "--exclude-standard"]
    new = subprocess.run(command, capture_output=True, check=True, text=True, timeout=LIMIT)
    return sorted({*known.stdout.split("\n"), *new.stdout.split("\n")} - {""})


def chosen_parts(files):
    """The folders of C tests and the names of Python tests for changed files."""
    folders, names = set(), set()
    for file in files:
        path = Path(file)
        if path.name.startswith("test_") and path.suffix == ".py":
            names.add(path.stem[len("test_") :])
        for begin, c_tests, python_tests in PARTS:
            if file.startswith(begin):
                folders.update(c_tests)
                names.update(python_tests)
                break
    return folders, names


def chosen_programs(build, files, folders):
    """The names of Meson's tests to run, and the targets that they need."""
    command = [sys.executable, "-m", "mesonbuild.mesonmain", "introspect", "--tests", str(build)]
    listed = json.loads(
        subprocess.run(command, capture_output=True, check=True, timeout=LIMIT).stdout
    )
    folder_of = {p.stem: p.parent.name for p in (ROOT / "tests" / "unit").glob("*/test_*.c")}
    own = {Path(file).stem for file in files}
    names = []
    for test in listed:
        name, program = test["name"], Path(test["cmd"][0]).stem
        is_variant = name.endswith(VARIANTS) or name.startswith("test_second_")
        if program in own and program.startswith("test_"):
            names.append(name)
        elif folder_of.get(program) in folders and not is_variant and program not in LONG:
            names.append(name)
        elif any(file.startswith(GOLDEN.get(name, ())) for file in files):
            names.append(name)
        elif name.startswith("replay_") and name.replace("replay", "fuzz") in own:
            names.append(name)
    return names


class Checks:
    """Runs commands one after the other, and keeps the failed ones."""

    def __init__(self):
        self.failed = []

    def run(self, *command, **variables):
        """One command; True if it succeeded."""
        words = [str(word) for word in command]
        start = time.monotonic()
        done = subprocess.run(
            words, cwd=ROOT, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
            timeout=LIMIT,
        )  # fmt: skip
        shown = " ".join(words)
        print(f"---- {shown[:80]}: {time.monotonic() - start:.0f} s", flush=True)
        if done.returncode != 0:
            self.failed.append(shown)
        return done.returncode == 0


def main():
    """Print what runs; the exit status is the presence of failures."""
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    build = Path(sys.argv[1]).resolve()
    files = changed_files(sys.argv[2] if len(sys.argv) > 2 else "HEAD")
    if not files:
        sys.exit("check_fast: nothing has changed; BASE=main checks a whole branch")
    folders, names = chosen_parts(files)
    programs = chosen_programs(build, files, folders)
    tests = [f"tests/python/test_{name}.py" for name in sorted(names)]
    tests = [test for test in tests if (ROOT / test).exists()]
    print(f"check_fast: {len(files)} files, {len(programs)} C programs, {len(tests)} Python files")
    checks = Checks()
    for name in ("includes", "sources", "waits", "prose"):
        checks.run(sys.executable, f"tools/check_{name}.py")
    sources = [file for file in files if file.endswith((".c", ".h", ".def"))]
    if sources:
        checks.run("clang-format", "--dry-run", "--Werror", *sources)
    meson = [sys.executable, "-m", "mesonbuild.mesonmain", "test", "-C", build]
    if programs:
        checks.run(*meson, "--quiet", "--print-errorlogs", "--num-processes", JOBS, *programs)
    if tests:
        is_installed = checks.run("make", "--quiet", "install")
        is_built = checks.run("ninja", "--quiet", "-C", build, "test-programs")
        if is_installed and is_built:
            pytest = [sys.executable, "-m", "pytest", "-q", "-n", JOBS, "--dist", "worksteal"]
            checks.run(*pytest, *tests, PROTON_TEST_BUILD=str(build))
    for command in checks.failed:
        print(f"check_fast: failed: {command[:200]}")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
