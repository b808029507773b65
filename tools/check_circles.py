#!/usr/bin/env python3
"""Check that files of the C sources do not need one another in a circle.

That includes the extension, in a build with -Dpython=enabled.

A file needs another if its object file uses a symbol that the other defines. In a circle no file
can be understood, tested or changed alone. KNOWN names the existing circles, as sets of files.
A new one is an error, and so is one that is gone: the list can only become shorter.

Usage: check_circles.py BUILD
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

# Data that is a table of functions: who names it needs the interface, not the file.
TABLES = re.compile(r"_backend$")
# src/cli defines functions of libc, which other files call.
REPLACES_LIBC = re.compile(r"^cli_inject")

KNOWN = [
    # A grammar that contains itself.
    {"symbol_demangle_parse", "symbol_demangle_type"},
    # Not untangled yet.
    {
        "record_session_live_data",
        "record_session_periodic_flush",
    },
    {
        "record_names_context_tree",
        "record_names_frames",
        "record_names_reused_names",
    },
    {
        "record_names_communicators",
        "record_sets_registry",
        "record_sets_session",
        "record_store_store",
        "record_store_store_add",
        "record_store_store_collectives",
        "record_store_store_config",
        "record_store_store_counters",
        "record_store_store_event",
        "record_store_store_event_rows",
        "record_store_store_lists",
        "record_store_store_metric",
        "record_store_store_phase",
        "record_store_store_samples",
        "record_thread_task",
        "record_thread_thread",
        "record_thread_thread_context",
        "record_thread_thread_trace",
    },
]


def read_symbols(build):
    """{file: symbols it defines}, {file: symbols it uses}, of all object files of the product."""
    defined, used = defaultdict(set), defaultdict(set)
    objects = sorted(o for top in ("src", "python") for o in (build / top).rglob("*.c.o"))
    if not objects:
        sys.exit(f"check_circles.py: {build} has no object files; run make first")
    lines = subprocess.run(
        ["nm", "--print-file-name", *objects], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for line in lines:
        place, symbol = line.split(":", 1)
        *_, kind, name = symbol.split()
        file = Path(place).name.removesuffix(".c.o")
        if kind == "U":
            used[file].add(name)
        elif kind in "TDBRVWC":
            defined[file].add(name)
    return defined, used


def needs_of(defined, used):
    """{file: files that it needs}."""
    home = defaultdict(set)
    for file, names in defined.items():
        for name in names:
            if not TABLES.search(name) and not REPLACES_LIBC.match(file):
                home[name].add(file)
    # The table of backends names them all, which is what it is for.
    return {
        file: {other for name in names for other in home[name] if other != file}
        for file, names in used.items()
        if file != "record_backend"
    }


def circles_of(needs):
    """The largest sets of files that all need one another (Tarjan's algorithm)."""
    index, low, stack, found = {}, {}, [], []

    def visit(file):
        index[file] = low[file] = len(index)
        stack.append(file)
        for other in sorted(needs.get(file, ())):
            if other not in index:
                visit(other)
            if other in stack:
                low[file] = min(low[file], low[other])
        if low[file] == index[file]:
            at = stack.index(file)
            if len(stack) - at > 1:
                found.append(set(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(10000)
    for file in sorted(needs):
        if file not in index:
            visit(file)
    return found


def main():
    """Prints problems; the status is 1 if there are any."""
    found = circles_of(needs_of(*read_symbols(Path(sys.argv[1]))))
    problems = [
        f"{len(circle)} files need one another: {' '.join(sorted(circle))}"
        for circle in found
        if circle not in KNOWN
    ]
    problems += [
        f"this circle is gone; remove it from KNOWN: {' '.join(sorted(circle))}"
        for circle in KNOWN
        if circle not in found
    ]
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
