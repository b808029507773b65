#!/usr/bin/env python3
"""Compile each public header alone, as C99, C11, C17 and C++11, with all warnings as errors.

Usage: check_headers.py [--cc CC] [--cxx CXX] [INCLUDE-DIRECTORY]. Prints TAP. A C++ compiler that
is not there is a skipped test.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

STANDARDS = [("c", "c99"), ("c", "c11"), ("c", "c17"), ("c++", "c++11"), ("c++", "c++17")]
WARNINGS = "-pedantic -Wall -Wextra -Wconversion -Werror".split()


def compile_alone(compiler, language, standard, include, header):
    """The compiler's messages, or None if it has none."""
    # Twice: this also finds a missing include guard.
    source = f"#include <libproton/{header}>\n" * 2
    command = [compiler, "-x", language, f"-std={standard}", *WARNINGS, "-I", str(include)]
    command += ["-fsyntax-only", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr


def main():
    """Run every header through every standard."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("include", nargs="?", type=Path, default=root / "include")
    options = parser.parse_args()
    number = failed = 0
    for header in sorted(path.name for path in (options.include / "libproton").glob("*.h")):
        for language, standard in STANDARDS:
            number += 1
            compiler = options.cc if language == "c" else options.cxx
            name = f"{number} - {header} compiles alone as {standard}"
            if not shutil.which(compiler):
                print(f"ok {name} # SKIP no {compiler} here")
                continue
            messages = compile_alone(compiler, language, standard, options.include, header)
            print(f"{'not ok' if messages else 'ok'} {name}")
            if messages:
                failed += 1
                print("".join(f"# {line}\n" for line in messages.splitlines()), end="")
    print(f"1..{number}")
    return 1 if failed or not number else 0


if __name__ == "__main__":
    sys.exit(main())
