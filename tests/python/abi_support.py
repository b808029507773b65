"""Our declarations of vendors' libraries, compared by a C compiler with the vendors' headers."""

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from support import run_command

SRC = Path(__file__).resolve().parent.parent.parent / "src"
PACKAGES = sysconfig.get_paths()["purelib"]


def amd_include(header: str) -> str:
    """The headers of ROCm in Triton's wheel, which has a part of them."""
    include = os.path.join(PACKAGES, "triton", "backends", "amd", "include")
    if not os.path.exists(os.path.join(include, header)):
        pytest.skip(f"no Triton with {header}")
    return include


def run_compiler(options: list[str], text: str, *include: str) -> subprocess.CompletedProcess:
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    return run_command(
        [compiler, "-std=gnu11", "-w", *options, *(f"-I{place}" for place in include), "-xc", "-"],
        stdin=text, status=None,
    )


def compile_errors(text: str, *include: str) -> str:
    done = run_compiler(["-fsyntax-only"], text, *include)
    return done.stderr if done.returncode else ""


def preprocess(text: str, *include: str) -> str:
    """With one space between words."""
    done = run_compiler(["-E", "-P"], text, *include)
    assert done.returncode == 0, done.stderr
    return re.sub(r"\s+", " ", done.stdout)


def assertions(checks: list[str]) -> str:
    assert checks
    return "\n".join(f'_Static_assert({check}, "{check}");' for check in checks) + "\n"


def equal(pairs: dict[str, str]) -> list[str]:
    """Checks of constants, ours: theirs."""
    return [f"(long)({ours}) == (long)({theirs})" for ours, theirs in pairs.items()]


def offsets(ours: str, theirs: str, fields: list[tuple[str, str]]) -> list[str]:
    return [f"offsetof({ours}, {mine}) == offsetof({theirs}, {other})" for mine, other in fields]


def sizes(ours: str, theirs: str, fields: list[tuple[str, str]]) -> list[str]:
    """Ours may be an array of theirs, such as all three of gridX, gridY and gridZ."""
    return [
        f"sizeof((({ours} *)0)->{mine}) % sizeof((({theirs} *)0)->{other}) == 0"
        for mine, other in fields
    ]


def same_fields(ours: str, theirs: str, fields: list[tuple[str, str]]) -> list[str]:
    return offsets(ours, theirs, fields) + sizes(ours, theirs, fields)


Struct = tuple[str, str, list[tuple[str, str]]]


def read_structs(table: str, prefix: str = "") -> list[Struct]:
    """Lines "our_struct their_type: field our_field=their_field", which may be continued.

    Their types have the prefix.
    """
    structs = []
    for line in table.replace("\n    ", " ").strip().splitlines():
        names, fields = line.split(":")
        ours, theirs = names.split()
        pairs = [tuple(field.split("=")) for field in fields.split()]
        both = [(pair[0], pair[-1]) for pair in pairs]
        structs.append((f"struct {ours}", prefix + theirs, both))
    return structs


def same_structs(structs: list[Struct], compare: str = "==") -> list[str]:
    """Checks of sizes, and of offsets and sizes of fields."""
    checks = []
    for ours, theirs, fields in structs:
        checks.append(f"sizeof({ours}) {compare} sizeof({theirs})")
        checks += same_fields(ours, theirs, fields)
    return checks


def read_types(parameters: str, ours_of: dict[str, str]) -> list[str]:
    """Types of parameters, with ours in the place of theirs."""
    types = []
    for one in parameters.split(","):
        one = re.sub(r"\b(enum|struct)\b", "", one)
        for theirs, ours in ours_of.items():
            one = re.sub(rf"\b(?:{theirs})\b", ours, one)
        words = re.findall(r"\w+|\*", one)
        if len(words) > 1 and words[-1] != "*":
            words.pop()  # the name
        types.append("".join(words) or "void")
    return types


def read_memory_calls(amd: Path) -> list[tuple[str, str, str]]:
    """Calls of hip_calls.def that copy or set memory: name, place of the stream, unit."""
    text = (amd / "hip_calls.def").read_text()
    calls = re.findall(r"^M\((hip\w+), \w+, (\w+), (\d)\)$", text, re.MULTILINE)
    for name, stream, unit in re.findall(r"^P\((hip\w+), (\w+), (\d)\)$", text, re.MULTILINE):
        calls += [(name, "NO_STREAM", unit), (f"{name}Async", stream, unit)]
    return calls


def read_layouts(amd: Path) -> dict[str, dict[str, str]]:
    """Rows of hip_layouts: the fields of each kind of arguments."""
    text = (amd / "hip_calls.h").read_text()
    names = re.findall(r"^\t\w+ (\w+);", text.split("struct hip_layout {")[1], re.MULTILINE)
    rows = re.findall(r"\[(ARGUMENTS_\w+)\] = \{([^}]*)\}", text)
    assert len(rows) == 6
    return {kind: dict(zip(names, row.split(", "), strict=True)) for kind, row in rows}
