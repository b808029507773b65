"""docs/format.md against src/format/rows.h, and against files that Proton records.

`Reader` is written from docs/format.md alone and shares nothing with the C code: if the page lacks
something that is needed to read a file, it does not work.
"""

import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import run_command

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
HEADER = (ROOT / "src" / "format" / "rows.h").read_text(encoding="utf-8")
TABLES = (ROOT / "src" / "format" / "tables.def").read_text(encoding="utf-8")

Field = tuple[int, int, str]  # offset, bytes, name


def documented_structs() -> dict[str, tuple[int, list[Field]]]:
    """Size and fields of each structure as docs/format.md has them."""
    structs = {}
    for section in re.split(r"^#+ ", PAGE, flags=re.MULTILINE):
        title = re.match(r"`struct (\w+)`, (\d+) bytes\n", section)
        if title is None:
            continue
        rows = re.findall(r"^\| (\d+) \| (\d+) \| [^|]+ \| `([\w.]+)` \|", section, re.MULTILINE)
        structs[title[1]] = (int(title[2]), [(int(o), int(b), name) for o, b, name in rows])
    return structs


def fields_in_header(name: str) -> set[str]:
    """Names of the members of `struct name` in rows.h; those of the union as `as.member`."""
    body = re.search(rf"^struct {name} {{\n(.*?)^}};", HEADER, re.MULTILINE | re.DOTALL)
    assert body is not None
    fields = set()
    for line in body[1].splitlines():
        found = re.match(r"(\t+)(?:struct |union )?\w+ (\w+)(\[\w+\])?;", line)
        if found:
            fields.add(("as." if len(found[1]) == 2 else "") + found[2])
    return fields


def test_every_struct_and_field_is_documented():
    documented = documented_structs()
    assert set(documented) == set(re.findall(r"^struct (\w+) {", HEADER, re.MULTILINE))
    for name, (size, fields) in documented.items():
        assert {field for _, _, field in fields} == fields_in_header(name), name
        end = 0
        for offset, length, field in fields:  # no holes: padding between fields is documented too
            assert offset == end or field.startswith("as."), (name, field)
            end = offset + length
        assert end == size, name


def test_offsets_are_those_of_the_compiler(tmp_path):
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    lines, expected = [], []
    for name, (size, fields) in documented_structs().items():
        lines.append(f'printf("%zu\\n", sizeof(struct {name}));')
        expected.append((name, size))
        for offset, length, field in fields:
            lines.append(f'printf("%zu\\n", offsetof(struct {name}, {field}));')
            lines.append(f'printf("%zu\\n", sizeof(((struct {name} *)0)->{field}));')
            expected += [((name, field, "offset"), offset), ((name, field, "bytes"), length)]
    for name, value in documented_names():
        lines.append(f'printf("%lld\\n", (long long){name});')
        expected.append((name, value))
    source = tmp_path / "offsets.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <libproton/proton.h>\n"
        '#include "format/pack.h"\n#include "format/rows.h"\nint main(void)\n{\n'
        + "\n".join(lines)
        + "\nreturn 0;\n}\n"
    )
    includes = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}"]
    program = str(tmp_path / "offsets")
    subprocess.run(
        [compiler, "-std=gnu11", "-D_GNU_SOURCE", *includes, "-o", program, str(source)],
        check=True, timeout=300,
    )
    printed = run_command([program]).stdout
    actual = [int(line) for line in printed.split()]
    assert list(zip([what for what, _ in expected], actual)) == expected


def test_the_header_of_a_unit_is_that_of_the_compiler(tmp_path):
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    section = PAGE.split("# Records of instrumented kernels\n")[1].split("\n# ")[0]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| `(\w+)` \|", section, re.MULTILINE)
    assert sum(int(size) for _, size, _ in rows) == 64
    checks = [
        f"_Static_assert(offsetof(struct instrument_unit_header, {name}) == {offset} && "
        f'sizeof(((struct instrument_unit_header *)0)->{name}) == {size}, "{name}");'
        for offset, size, name in rows
    ]
    source = tmp_path / "header.c"
    source.write_text('#include "intra/layout.h"\n' + "\n".join(checks) + "\n")
    includes = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}"]
    subprocess.run(
        [compiler, "-std=gnu11", "-D_GNU_SOURCE", *includes, "-fsyntax-only", str(source)],
        check=True, timeout=300,
    )


def documented_names() -> list[tuple[str, int]]:
    """Constants and members of enumerations, from tables and from sentences."""
    names = re.findall(r"^\| `([A-Z][A-Z0-9_]+)` \| (\d+) \|", PAGE, re.MULTILINE)
    names += [(n, v) for v, n in re.findall(r"^\| (\d+) \| `([A-Z]\w+)` \|", PAGE, re.MULTILINE)]
    flags = r"(\d) `((?:METRIC|EPOCH|CONFIG|COLLECTIVE|RANK)_[A-Z]+)`"
    names += [(n, v) for v, n in re.findall(flags, PAGE)]
    assert len(names) > 30
    return [(name, int(value)) for name, value in names]


def test_every_enumerator_is_documented():
    known = {name for name, _ in documented_names()}
    assert {f"TABLE_{name}" for name in re.findall(r"^TABLE\((\w+)", TABLES, re.MULTILINE)} <= known
    for body in re.findall(r"^enum \w+ {\n(.*?)^};", HEADER, re.MULTILINE | re.DOTALL):
        names = set(re.findall(r"^\t([A-Z]\w+)", body, re.MULTILINE)) - {"TABLE_COUNT"}
        assert names <= known


# ------------------------------------------------------------------ a reader made from the page


def varint(coded: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = coded[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def unpack_strings(coded: bytes) -> bytes:
    result, before, at = b"", b"", 0
    while at < len(coded):
        common = coded[at]
        length, at = varint(coded, at + 1)
        before = before[:common] + coded[at : at + length]
        at += length
        entry = struct.pack("<I", len(before)) + before + b"\0"
        result += entry + b"\0" * (-len(entry) % 8)
    return result


def unpack(coded: bytes, rows: int, size: int, columns: int) -> bytes:
    """The rows of a table of a packed file."""
    if columns == 0:
        return coded
    if columns == 2**64 - 1:
        return unpack_strings(coded)
    widths = [4 * (columns >> 4 * i & 15) for i in range(16) if columns >> 4 * i & 15]
    table: list[list[int]] = []
    at, count = 0, rows * size // sum(widths)
    while len(table) < count:
        first = len(table)
        group = [[0] * len(widths) for _ in range(min(1024, count - first))]
        table += group
        for c, width in enumerate(widths):
            transform, at = coded[at], at + 1
            numbers: list[int] = []
            while len(numbers) < len(group):
                run, at = coded[at], at + 1
                for _ in range(run + 1 if run < 128 else run - 127):
                    number, at = varint(coded, at) if run >= 128 else (0, at)
                    numbers.append(number)
            for i, n in enumerate(numbers, first):
                s = ~(n >> 1) if n & 1 else n >> 1
                last = table[i - 1][c] if i else 0
                swapped = int.from_bytes(n.to_bytes(8, "little")[:width], "big")
                x = [n, last + s, last + s + 1, i - s, table[i][c - 1] + s, swapped][transform]
                table[i][c] = x % (1 << 8 * width)
    layout = "<" + "".join("I" if width == 4 else "Q" for width in widths)
    return b"".join(struct.pack(layout, *row) for row in table)


class Reader:
    """The tables of a profile file: lists of tuples, in the order of the fields on the page."""

    ROWS = {1: "4I", 2: "6I", 3: "I2H", 5: "4I4Q", 6: "64I", 8: "4I4Q", 9: "2I", 10: "2IQ"}
    ROWS[11] = "2I2Q"
    AS = {1: "q", 2: "d", 3: "Q", 5: "Q", 6: "Q"}

    def __init__(self, data: bytes) -> None:
        head = struct.unpack_from("<8sHHIIIQQII", data)
        assert head[0] == b"\x89PROTON\n" and head[1] in (1, 2)
        self.state, self.pid, self.start_ns, self.end_ns = head[4:8]
        assert self.state in (1, 2)
        self.raw: dict[int, tuple[bytes, int, int]] = {}
        if head[1] == 2:
            assert self.state == 2 and head[3] == 48 + 40 * head[8]
            for i in range(head[8]):
                table, size, *rest = struct.unpack_from("<IIQQQQ", data, 48 + 40 * i)
                rows, columns, offset, length = rest
                coded = data[offset : offset + length]
                self.raw[table] = (unpack(coded, rows, size, columns), size, rows)
            return
        assert head[3] == 65536
        extents = [struct.unpack_from("<IIQQ", data, 560 + 24 * i) for i in range(head[9])]
        for i in range(head[8]):
            table, row_bytes, rows = struct.unpack_from("<IIQ", data, 48 + 16 * i)
            whole = b"".join(data[at : at + n] for owner, _, at, n in extents if owner == table)
            assert len(whole) >= rows * row_bytes
            self.raw[table] = (whole, row_bytes, rows)

    def rows(self, table: int) -> list[tuple]:
        data, size, count = self.raw.get(table, (b"", 0, 0))
        return [struct.unpack_from("<" + self.ROWS[table], data, i * size) for i in range(count)]

    def text(self, string: int) -> str:
        data, size, count = self.raw[0]
        (length,) = struct.unpack_from("<I", data, string * 8)
        assert size == 8 and string * 8 + 4 + length < count * 8
        assert data[string * 8 + 4 + length] == 0
        return data[string * 8 + 4 : string * 8 + 4 + length].decode()

    def name(self, frame: tuple) -> str:
        kind, name, file, line = frame
        if kind == 0:
            return "ROOT"
        return f"{self.text(file)}:{line}@{self.text(name)}" if kind == 2 else self.text(name)

    def value(self, metric_type: int, raw: bytes) -> Any:
        (value,) = struct.unpack("<" + self.AS[metric_type], raw)
        if metric_type == 3:
            return self.text(value)
        if metric_type in (5, 6):
            words = self.raw[7][0]
            (length,) = struct.unpack_from("<Q", words, value * 8)
            letter = "q" if metric_type == 5 else "d"
            return list(struct.unpack_from(f"<{length}{letter}", words, value * 8 + 8))
        return value

    def tree(self, phase: int | None = None) -> dict[tuple[str, ...], dict[str, Any]]:
        """Path -> what the node has itself, of one phase or of all."""
        epochs = self.rows(11)
        wanted = {i for i, e in enumerate(epochs) if not e[1] & 2 and phase in (None, e[0])}
        frames, metrics, kernels = self.rows(1), self.rows(3), self.rows(5)
        data, size, _ = self.raw[4]
        paths: list[tuple[str, ...]] = []
        result: dict[tuple[str, ...], dict[str, Any]] = {}
        for number, (parent, frame, first, last, value, kernel) in enumerate(self.rows(2)):
            assert parent < number or number == 0
            paths.append(paths[parent] + (self.name(frames[frame]),) if number else ("ROOT",))
            entered, node = {first, last}, {}
            while value:
                value, metric, epoch, _, raw = struct.unpack_from("<4I8s", data, value * size)
                entered.add(epoch)
                if metric != 4294967295 and epoch in wanted:
                    name, metric_type, _ = metrics[metric]
                    node[self.text(name)] = self.value(metric_type, raw)
            while kernel:
                kernel, _, epoch, histogram, count, total, minimum, maximum = kernels[kernel]
                entered.add(epoch)
                if count and epoch in wanted:
                    node.update(count=count, total=total, minimum=minimum, maximum=maximum)
                    node["histogram"] = self.rows(6)[histogram] if histogram else None
            if entered & wanted:
                result[paths[number]] = node
        return result


PROGRAM = """
import os, signal, sys
import triton_proton as proton
from triton_proton import _libproton

session = proton.start(sys.argv[1], backend="host")
for step in range(3):
    with proton.scope("outer", {"items": 2, "share (exc)": 0.5, "width (pty)": step}):
        with proton.scope("inner", {"sizes": [1, 2], "name": f"step {step}"}):
            _libproton.kernel_begin("work")
            _libproton.kernel_end()
    if step == 1:
        proton.data.advance_phase(session)
with proton.scope("\\u00e4\\u6f22"):
    pass
if sys.argv[2] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
proton.finalize(session, "proton")
"""


def record(tmp_path: Path, how: str) -> Reader:
    """The file that PROGRAM leaves when it ends, or when it is killed."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    done = run_command([sys.executable, str(script), "profile", how], cwd=tmp_path, status=None)
    assert done.returncode == (-signal.SIGKILL if how == "kill" else 0), done.stderr
    return Reader((tmp_path / "profile.proton").read_bytes())


@pytest.mark.parametrize("how", ["finish", "kill"])
def test_a_reader_made_from_the_page_finds_the_recorded_data(tmp_path, how):
    profile = record(tmp_path, how)
    assert profile.state == (1 if how == "kill" else 2)
    assert (profile.end_ns == 0) == (how == "kill")
    info = {profile.text(key): profile.text(value) for key, value in profile.rows(9)}
    assert info["context"] == "shadow" and info["backend"] == "host"
    assert "program.py profile" in info["command"]
    counters = {profile.text(name): (value, loss) for name, loss, value in profile.rows(10)}
    assert counters["kernels"] == (3, 0)
    assert not any(value for value, loss in counters.values() if loss)
    assert profile.text(profile.rows(8)[0][0]) == "CPU"

    tree = profile.tree(phase=0)
    outer, inner = tree["ROOT", "outer"], tree["ROOT", "outer", "inner"]
    work = tree["ROOT", "outer", "inner", "work"]
    assert outer == {"items": 4, "share": 1.0, "width": 1}
    assert inner == {"sizes": [2, 4], "name": "step 1"}
    assert work["count"] == 2 and work["minimum"] <= work["maximum"]
    assert work["total"] == work["minimum"] + work["maximum"]
    assert sum(work["histogram"]) == 2
    assert ("ROOT", "\u00e4\u6f22") not in tree
    tree = profile.tree(phase=1)
    assert tree["ROOT", "outer"] == {"items": 2, "share": 0.5, "width": 2}
    work = tree["ROOT", "outer", "inner", "work"]
    assert work["count"] == 1 and work["minimum"] == work["maximum"] == work["total"]
    assert tree["ROOT", "\u00e4\u6f22"] == {}
    flags = {name: flag for name, _, flag in profile.rows(3)}
    assert {profile.text(name): flag for name, flag in flags.items()} == {
        "items": 0, "share": 1, "width": 2, "sizes": 0, "name": 0
    }


@pytest.mark.parametrize(
    "duration, bucket", [(0, 0), (31, 0), (47, 0), (48, 1), (64, 2), (10**9, 49), (2**60, 63)]
)
def test_the_formula_of_the_buckets(duration, bucket):
    starts = [
        2 ** (5 + i // 2) if i % 2 == 0 else 2 ** (5 + (i - 1) // 2) * 3 // 2 for i in range(64)
    ]
    assert starts[63] == 103_079_215_104
    assert max([i for i, start in enumerate(starts) if start <= duration], default=0) == bucket
    if duration >= 32:
        k = duration.bit_length() - 1
        assert min(63, 2 * (k - 5) + (duration >> (k - 1) & 1)) == bucket
