"""No input takes more memory than 64 times its size and a constant, in any command and mode."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import packed_files as files
import pytest
from cmd_support import executable

MEGABYTE = 1 << 20

# Linux counts the memory of a program's parent as the program's: so a small parent starts it.
MEASURE = """
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_AS, (6 << 30,) * 2)
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def measure(program: str, *arguments: object) -> tuple[int, str, int]:
    """Runs a command: its status, its messages, and its largest resident set in bytes."""
    command = [executable(program), *map(str, arguments)]
    done = subprocess.run(
        [sys.executable, "-S", "-c", MEASURE, *command], capture_output=True, text=True, check=True
    )
    status, peak = map(int, done.stdout.split())
    return status, done.stderr, peak


def check(program: str, *arguments: object) -> tuple[int, str]:
    """Runs it with these arguments, and compares its memory with the size of its input files."""
    inputs = [path for path in arguments if isinstance(path, Path) and path.exists()]
    status, text, peak = measure(program, *arguments)
    size = sum(path.stat().st_size for path in inputs)
    limit = 64 * size + 64 * MEGABYTE
    shown = f"{program} {' '.join(map(str, arguments))}: {text}"
    assert status in (0, 2), shown
    assert peak <= limit, f"{peak / MEGABYTE:.0f} MB, {peak / size:.0f} x {size}; {shown}"
    return status, text


# ---------------------------------------------------------------------- waiting in collectives


def far_durations(path: Path, count: int, first: int = 0) -> Path:
    """`count` collectives of which only occurrences far from the first are known."""
    names, ids = files.strings([b"CUDA", b"90", *(b"s%d" % i for i in range(count))])
    rows = {
        "frames": bytes(16) + b"".join(struct.pack("<4I", 3, i, 0, 0) for i in ids[3:]),
        "nodes": bytes(24)
        + b"".join(struct.pack("<6I", 0, i, 0, 0, 0, i) for i in range(1, count + 1)),
        "kernels": bytes(48) + struct.pack("<4I4Q", 0, 0, 0, 0, 2, 1000, 400, 600) * count,
        "durations": bytes(128)
        + b"".join(
            struct.pack("<7I50H", i, 0, 0, 1, 1, 0, first or 16382, 500 + i % 7, *[0] * 49)
            for i in range(1, count + 1)
        ),
    }
    layouts = {"kernels": "44448888"}
    tables = {name: files.packed(name, row, layouts.get(name, "4")) for name, row in rows.items()}
    tables["strings"] = names
    tables["devices"] = files.raw("devices", struct.pack("<4I4Q", ids[1], 0, ids[2], 0, 1, 1, 1, 1))
    tables["epochs"] = files.raw("epochs", struct.pack("<IIQQ", 0, 1, 1, 2))
    path.write_bytes(files.assemble(tables))
    return path


@pytest.mark.parametrize("count", [2000, 10000])
def test_collectives_far_from_the_first_take_no_memory_for_those_before(tmp_path, count):
    paths = [far_durations(tmp_path / f"rank{i}.proton", count) for i in range(2)]
    output = tmp_path / "out.proton"
    status, text = check("proton-merge", "--allow-partial", "-o", str(output), *paths)
    assert status == 0 and "merged 2 ranks" in text
    status, text = check("proton-viewer", "--ranks", *paths)
    assert status == 0, text
    check("proton-viewer", "--ranks", "--json", output)
