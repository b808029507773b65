"""Packed profile files made from docs/format.md: small files with as many rows as they can have."""

import struct
from collections.abc import Iterable

ROW_BYTES = {
    "strings": 8, "frames": 16, "nodes": 24, "metrics": 8, "values": 24, "kernels": 48,
    "histograms": 256, "vectors": 8, "devices": 48, "info": 8, "counters": 16, "epochs": 24,
    "lanes": 24, "events": 40, "samples": 16, "launches": 40, "configs": 64, "code_objects": 24,
    "functions": 16, "pcs": 40, "runs": 24, "blobs": 8, "sources": 32, "ranks": 80, "spreads": 272,
    "value_spreads": 280, "columns": 8, "cells": 8, "durations": 128, "waits": 224,
    "occurrences": 24,
}  # fmt: skip
IDS = {name: number for number, name in enumerate(ROW_BYTES)}
GROUP = 1024
RUN = 128
PLAIN, DELTA, NEXT, DISTANCE = range(4)
RAW, STRINGS = 0, 2**64 - 1

Row = tuple[int, ...]


def varint(value: int) -> bytes:
    text = bytearray()
    while value >= 128:
        text.append(value & 127 | 128)
        value >>= 7
    return bytes([*text, value])


def zigzag(value: int) -> int:
    return (value << 1) ^ (value >> 63)


def numbers(values: Iterable[int]) -> bytes:
    """Runs of these numbers: of zeros, and of others."""
    text, rest = bytearray(), list(values)
    at = 0
    while at < len(rest):
        end = at
        while end < len(rest) and end - at < RUN and (not rest[end]) == (not rest[at]):
            end += 1
        text.append(end - at - 1 + (RUN if rest[at] else 0))
        if rest[at]:
            text += b"".join(map(varint, rest[at:end]))
        at = end
    return bytes(text)


class Column:
    """A column that has one number in nearly all rows after a transform, mostly 0."""

    def __init__(self, transform: int = PLAIN, first: int = 0, each: int = 0) -> None:
        self.transform, self.first, self.each = transform, first, each

    def group(self, start: int, end: int) -> bytes:
        rows = [zigzag(self.each) if self.transform else self.each] * (end - start)
        if not start and self.first:
            rows[0] = zigzag(self.first) if self.transform else self.first
        return bytes([self.transform]) + numbers(rows)


ZERO = Column()
SAME = DISTANCE  # as the row's own number


def constant(value: int) -> Column:
    """The same value in each row."""
    return Column(DELTA, value)


class Table:
    """A table of the file: its rows, and how they are coded."""

    def __init__(self, rows: int, columns: int, content: bytes) -> None:
        self.rows, self.columns, self.content = rows, columns, content


def widths_of(layout: str) -> int:
    return sum((1 if one == "4" else 2) << (4 * i) for i, one in enumerate(layout))


def columns(name: str, rows: int, layout: str, parts: list[Column]) -> Table:
    """Rows of which each column is a Column. The layout may be a fraction of a row."""
    count = rows * ROW_BYTES[name] // sum(map(int, layout))
    content = bytearray()
    for start in range(0, count, GROUP):
        for part in parts:
            content += part.group(start, min(count, start + GROUP))
    return Table(rows, widths_of(layout), bytes(content))


def packed(name: str, rows: bytes, layout: str = "4") -> Table:
    """Any rows, packed without a transform."""
    widths = [int(one) for one in layout]
    row = struct.Struct("<" + "".join("I" if one == 4 else "Q" for one in widths))
    all_rows = list(row.iter_unpack(rows))
    content = bytearray()
    for start in range(0, len(all_rows), GROUP):
        for column in zip(*all_rows[start : start + GROUP], strict=True):
            content += bytes([PLAIN]) + numbers(column)
    return Table(len(rows) // ROW_BYTES[name], widths_of(layout), bytes(content))


def raw(name: str, rows: bytes) -> Table:
    return Table(len(rows) // ROW_BYTES[name], RAW, rows)


def strings(texts: Iterable[bytes]) -> tuple[Table, list[int]]:
    """The table and the ids of the texts; text 0 is the empty string."""
    content, ids, at, before = bytearray(), [], 0, b""
    for text in [b"", *texts]:
        common = 0
        while common < min(len(text), len(before), 255) and text[common] == before[common]:
            common += 1
        content += bytes([common]) + varint(len(text) - common) + text[common:]
        ids.append(at)
        at += (len(text) + 12) // 8
        before = text
    return Table(at, STRINGS, bytes(content)), ids


def assemble(tables: dict[str, Table]) -> bytes:
    head, body = bytearray(), bytearray()
    size = 48 + 40 * len(tables)
    for name in sorted(tables, key=IDS.__getitem__):
        table = tables[name]
        if table.columns == RAW:
            body += bytes(-(size + len(body)) % 8)
        head += struct.pack(
            "<IIQQQQ", IDS[name], ROW_BYTES[name], table.rows, table.columns, size + len(body),
            len(table.content),
        )  # fmt: skip
        body += table.content
    start = struct.pack(
        "<8sHHIIIQQII", b"\x89PROTON\n", 2, 3, size, 2, 4242, 1, 2 * 10**9, len(tables), 0
    )
    return bytes(start + head + body)
