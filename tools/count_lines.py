#!/usr/bin/env python3
"""Print lines of source by component and by feature.

Usage: count_lines.py [REVISION]. With a revision, also the difference to it.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = (".c", ".h", ".py", ".def", ".map", ".js", ".css", ".html", ".sh", ".build", ".pyi")

# The first that matches a path names its feature.
FEATURES = [
    ("AMD", r"amd|roc|hip|sdk"),
    ("PC sampling", r"pcs|pc_sampling|sample"),
    ("inside kernels", r"intra|instrument|warps|ttgir|llvm"),
    ("ranks", r"rank|communicator|merge"),
    ("source lines", r"symbol|line_table|dwarf|disassembl"),
    ("HTML report", r"html"),
    ("NVIDIA", r"cuda|cupti"),
    ("PyTorch", r"torch|autograd|backward|inductor"),
    ("traces", r"trace|perfetto"),
    ("viewer", r"viewer"),
    ("export", r"export"),
    ("recorder", r"record|nvtx"),
    ("files", r"format|model"),
]


def component_of(path):
    """src/backend/cuda, tests/unit, python/ext: two levels below src/backend, else one."""
    depth = 3 if path.startswith("src/backend/") and path.count("/") > 2 else 2
    return "/".join(path.split("/")[:-1][:depth]) or "."


def feature_of(path):
    name = path.split("/", 1)[1] if "/" in path else path
    return next((name_of for name_of, shape in FEATURES if re.search(shape, name)), "other")


def git(*arguments):
    return subprocess.run(
        ["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True
    ).stdout


def count(revision):
    """{path: lines} of the sources in the revision; None: in the working tree."""
    if revision is None:
        paths = [p for p in git("ls-files").splitlines() if p.endswith(SUFFIXES)]
        return {p: (ROOT / p).read_bytes().count(b"\n") for p in paths if (ROOT / p).exists()}
    empty = git("hash-object", "-t", "tree", "/dev/null").strip()
    rows = (line.split("\t") for line in git("diff", "--numstat", empty, revision).splitlines())
    return {path: int(added) for added, _, path in rows if path.endswith(SUFFIXES)}


def sums(lines, key):
    result = Counter()
    for path, number in lines.items():
        result[key(path)] += number
    return result


def top_of(path):
    return "src + python" if path.startswith(("src/", "python/")) else path.split("/")[0]


def show(title, now, before):
    print(f"{title:28}{'lines':>9}{'change':>9}" if before else f"{title:28}{'lines':>9}")
    for name in sorted(now | before, key=lambda name: -now[name]):
        change = f"{now[name] - before[name]:+9}" if before else ""
        print(f"{name:28}{now[name]:9}{change}")
    print()


def main():
    revision = sys.argv[1] if len(sys.argv) > 1 else None
    now, before = count(None), count(revision) if revision else {}
    show("in all", sums(now, top_of), sums(before, top_of))
    show("component", sums(now, component_of), sums(before, component_of))
    code = {path: n for path, n in now.items() if path.startswith(("src/", "python/", "tests/"))}
    old = {path: n for path, n in before.items() if path.startswith(("src/", "python/", "tests/"))}
    show("feature, with its tests", sums(code, feature_of), sums(old, feature_of))


if __name__ == "__main__":
    main()
