#!/usr/bin/env python3
"""Check what libproton.so exports and needs.

Its dynamic symbols must be exactly the PROTON_API functions of the public headers, under the
version of the version script; it may need no library but libc and its parts.
Usage: check_symbols.py LIBRARY [INCLUDE-DIRECTORY]
"""

import re
import subprocess
import sys
from pathlib import Path

VERSION = "LIBPROTON_0.1"
SONAME = "libproton.so.0"
MAY_NEED = r"(libc|libpthread|libdl|libm|librt|ld-linux[\w-]*|ld-musl[\w-]*)\.so(\.\d+)*$"

# Entry points that others look for by name: no part of the API.
FOUND_BY_NAME = {"InitializeInjectionNvtx2", "InitializeInjectionNvtxExtension"}

PROTOTYPE = re.compile(r"\bPROTON_API\b[^;{}]*?\b(\w+)\s*\(", re.S)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#.*$", re.M)


def declared(include):
    """Names of the functions that the headers promise, and where."""
    names = {}
    for header in sorted((include / "libproton").glob("*.h")):
        text = DIRECTIVE.sub("", COMMENT.sub("", header.read_text(encoding="utf-8")))
        for match in PROTOTYPE.finditer(text):
            names[match.group(1)] = header.name
    return names


def readelf(library, *options):
    """Lines of readelf's answer."""
    command = ["readelf", "-W", *options, str(library)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def exported(library):
    """Symbol to version of what the library defines."""
    symbols = {}
    for line in readelf(library, "--dyn-syms"):
        fields = line.split()
        if len(fields) < 8 or not fields[0][:-1].isdigit() or fields[6] == "UND":
            continue
        name, _, version = fields[7].partition("@")
        if fields[6] == "ABS" and name.startswith("LIBPROTON_"):
            continue  # the version's own symbol
        symbols[name] = version.lstrip("@")
    return symbols


def check(library, include):
    """All problems, as lines to print."""
    promised = declared(include)
    offered = exported(library)
    for name in sorted(promised.keys() - offered.keys()):
        yield f"{promised[name]} declares {name}(), which {library.name} does not export"
    for name in sorted(offered.keys() - promised.keys() - FOUND_BY_NAME):
        yield f"{library.name} exports {name}, which no public header declares with PROTON_API"
    for name, version in sorted(offered.items()):
        if version != VERSION:
            yield f"{library.name} exports {name} under version '{version}', not {VERSION}"
    if not promised:
        yield f"no PROTON_API function found below {include}"
    dynamic = "\n".join(readelf(library, "-d"))
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not re.match(MAY_NEED, needed):
            yield f"{library.name} needs {needed}; it may need libc and its parts only"
    if f"[{SONAME}]" not in dynamic:
        yield f"{library.name} is not called {SONAME}"
    if "(TEXTREL)" in dynamic:
        yield f"{library.name} has text relocations"
    if not re.search(r"BIND_NOW|\bNOW\b", dynamic):
        yield f"{library.name} is not linked with -z now"


def main():
    """Print the problems; the exit status is their presence."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    root = Path(__file__).resolve().parent.parent
    include = Path(sys.argv[2]) if len(sys.argv) > 2 else root / "include"
    problems = list(check(Path(sys.argv[1]), include))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
