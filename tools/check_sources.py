#!/usr/bin/env python3
"""Small hygiene that no formatter looks after. Usage: check_sources.py [ROOT]

Looks at the files git knows (or all files, outside a repository): every source begins with a
comment that says what it is, no source has more than 900 lines or stray white space, no TODO
without an issue, nothing that holds on one machine only, no two C files of one name (except
examples), no two tests of one name, no function that does not fit a screen, and below
NAMED_FOR_FILE no function between files that is not named for its file. Few functions have a short
name, which says nothing in a backtrace. C code reads environment variables with environment_get()
only. No line of a document is longer than those of sources, except tables and examples.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

MAX_LINES = 900
MAX_COLUMNS = 100
MAX_FUNCTION_LINES = 60
TAB_COLUMNS = 8

# Kinds of files: suffixes, how the first line must begin, indentation that must not occur.
KINDS = [
    ((".c", ".h", ".def"), r"/\*", r"^\t*( {8,}(?! *\\$)| +\t)"),
    ((".py",), r'(#!|"""|# )', r"^ *\t"),
    ((".sh",), r"(#!|# )", r"^( +\t|\t+ )"),
    (("meson.build",), r"(# |[a-z_]+ = |[a-z_]+\()", r"^ *\t"),
]
# Data and documents: only the rules about machines and TODO.
SKIPPED = re.compile(r"^(tests/(data|fuzz/corpus|golden/.*(data|expected|files))/|build|\.venv)")
BINARY = re.compile(rb"\0")

# Where functions between files begin with their file's name, and other beginnings: the C interface,
# the recorder's interface for backends, and an entry point of NVTX.
NAMED_FOR_FILE = ("src/record/", "src/driver/", "src/backend/cuda/", "src/backend/gpu/")
OTHER_BEGINNINGS = ("proton_", "record_", "InitializeInjection")
FUNCTION = re.compile(r"^(?!static\b)(?!.*\bstatic\b)\w[^\n;={}()]*?\b(\w+)\([^;{}]*\)\n\{", re.M)

# Any function, by the line that begins it.
ANY_FUNCTION = re.compile(r"^[a-z][\w *]*[ *](\w+)\([^;]*$", re.M)
SHORT_NAME = 6
MAX_SHORT_PERCENT = 2.0

# A privileged process must not follow them; environment_get() ensures that.
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
GETENV_FILE = "src/base/environment.h"

# Invented paths in tests are below /home/user.
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:home/(?!user\b)|root/|work/|Users/)(?=\w)")
TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\((#?\d+|issue)[^)]*\))")


def files_of(root):
    """Paths relative to root."""
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout.decode()
        names = [name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = [p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()]
    return [name for name in sorted(set(names)) if not SKIPPED.match(name)]


def check_kind(name, lines, begin, indent):
    """Rules for one kind of source."""
    if not lines or not re.match(begin, lines[0]):
        yield 1, "the first line must be a comment that says what this file is"
    if len(lines) > MAX_LINES:
        yield len(lines), f"more than {MAX_LINES} lines: two ideas in one file"
    for number, line in enumerate(lines, 1):
        if re.match(indent, line):
            yield number, "indentation mixes or misuses tabs and spaces"
        if line != line.rstrip():
            yield number, "white space at the end of the line"
        if not name.endswith("meson.build") and len(line.expandtabs(TAB_COLUMNS)) > MAX_COLUMNS:
            yield number, f"more than {MAX_COLUMNS} columns"


def functions_of(name, lines):
    """(line, number of lines of the body) of each function of a C or Python file."""
    if name.endswith((".c", ".h")):
        begin = 0
        for number, line in enumerate(lines, 1):
            if line == "{":
                begin = number
            elif line == "}" and begin:
                yield begin - 1, number - begin - 1
                begin = 0
    elif name.endswith(".py"):
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node.lineno, node.end_lineno - node.body[0].lineno + 1


def misnamed(name, text):
    """(line, text) of each function that is not named for its file."""
    if not name.startswith(NAMED_FOR_FILE) or not name.endswith(".c"):
        return
    for match in FUNCTION.finditer(text):
        if not f"{match[1]}_".startswith((Path(name).stem + "_", *OTHER_BEGINNINGS)):
            yield text.count("\n", 0, match.start()) + 1, f"{match[1]}(): not named for its file"


def check_document(lines):
    """Long lines of a Markdown file."""
    is_example = False
    for number, line in enumerate(lines, 1):
        is_example ^= line.lstrip().startswith("```")
        is_table = line.lstrip().startswith(("|", "!["))
        if len(line) > MAX_COLUMNS and not is_example and not is_table:
            yield number, f"more than {MAX_COLUMNS} columns"


def count_short(root, names):
    """An error text if too many functions of the C sources have a short name, else None."""
    found = []
    for name in names:
        if name.startswith(("src/", "python/ext/")) and name.endswith((".c", ".h")):
            text = (root / name).read_text(encoding="utf-8", errors="replace")
            found += [match[1] for match in ANY_FUNCTION.finditer(text)]
    short = [name for name in found if len(name) <= SHORT_NAME]
    if len(short) * 100 <= MAX_SHORT_PERCENT * len(found):
        return None
    return (
        f"{len(short)} of {len(found)} functions have a name of {SHORT_NAME} letters or fewer, "
        f"such as {', '.join(sorted(set(short))[:5])}: at most {MAX_SHORT_PERCENT} %; name what "
        f"they work on, as in find_kernel_row()"
    )


def reads_environment(name, text):
    """(line, text) of each plain getenv() of the product."""
    if not name.startswith(("src/", "python/ext/")) or name == GETENV_FILE:
        return
    code = COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    for match in GETENV.finditer(code) if name.endswith((".c", ".h")) else ():
        yield code.count("\n", 0, match.start()) + 1, f"{match[0]}): use environment_get()"


def check_file(root, name):
    """All problems of one file as (line, text)."""
    path = root / name
    if path.is_symlink() or not path.is_file():
        return
    raw = path.read_bytes()
    if BINARY.search(raw[:4096]):
        return
    text = raw.decode("utf-8", errors="replace")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    elif name.endswith((".c", ".h", ".py", ".build", ".def")):
        yield len(lines), "no newline at the end of the file"
    for suffixes, begin, indent in KINDS:
        if name.endswith(suffixes) and (raw or not name.endswith("__init__.py")):
            yield from check_kind(name, lines, begin, indent)
    for number, length in functions_of(name, lines):
        if length > MAX_FUNCTION_LINES:
            yield number, f"a function of {length} lines: at most {MAX_FUNCTION_LINES}"
    if name.endswith(".md"):
        yield from check_document(lines)
    yield from misnamed(name, text)
    yield from reads_environment(name, text)
    for number, line in enumerate(lines, 1):
        if MACHINE_PATH.search(line):
            yield number, "a path that exists on one machine only"
        if TODO.search(line) and not name.endswith((".md", "check_sources.py")):
            yield number, "a TODO names its issue: TODO(#12)"


def names_twice(names):
    """C files but examples, and tests, with another one's name: a name leads to one file."""
    seen = {}
    for name in names:
        base = Path(name).name
        if (base.endswith((".c", ".h", ".js")) and not name.startswith("examples/")) or (
            base.startswith("test_") and base.endswith(".py")
        ):
            other = seen.setdefault(base, name)
            if other != name:
                yield name, f"has the name of {other}"


def main():
    """Print the problems; the exit status is their presence."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    failed = False
    names = files_of(root)
    for name, what in names_twice(names):
        print(f"{name}: {what}")
        failed = True
    too_short = count_short(root, names)
    if too_short:
        print(too_short)
        failed = True
    for name in names:
        for number, what in check_file(root, name):
            print(f"{name}:{number}: {what}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
