"""The columns of the report's tree, read as html/tree.js does: the numbers of the CSV export."""

import base64
import csv
import gzip
import json
import math
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from built import BUILD, ROOT
from report_support import viewer

TOOL = BUILD / "tests" / "tools" / "make_profile"
SAMPLES = sorted((ROOT / "tests/data/viewer").glob("*.hatchet"))
pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="make_profile is not built")


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]


def read_column(reader: Reader, column: dict[str, Any], parents: list[int]) -> list[float]:
    count = len(parents)
    if column["as"] == "doubles":
        planes = [reader.take(count) for _ in range(8)]
        values = bytes(plane[i] for i in range(count) for plane in planes)
        return list(struct.unpack(f"<{count}d", values))
    codes = [reader.number() for _ in range(count)]
    raw = [(-code // 2 if code % 2 == 0 else (code - 1) // 2) if code else 0 for code in codes]
    raw = [value * column["times"] for value in raw]
    if column["sums"]:
        for i in range(count - 1, 0, -1):
            raw[parents[i]] += raw[i]
    return [value / column["per"] if code else math.nan for value, code in zip(raw, codes)]


def read(page: str) -> tuple[list[str], dict[str, list[float]]]:
    """The names of all frames, depth first, and the values of each metric."""
    text = re.search(r'<script type="application/json" id="profile">(.*)</script>', page, re.DOTALL)
    profile = json.loads(text.group(1).partition("</script>")[0])["now"]
    reader = Reader(gzip.decompress(base64.b64decode(profile["tree"], validate=True)))
    names = json.loads(reader.take(reader.number()))
    count = reader.number()
    parents, path, level = [0], [0], 0
    for i in range(1, count):
        level += 1 - reader.number()
        del path[level:]
        parents.append(path[level - 1])
        path.append(i)
    assert level + 1 == reader.number()
    frames = [reader.number() for _ in range(count)]
    found: dict[int, list[float]] = {}
    for index, metric in enumerate(profile["metrics"]):
        if metric["column"]["as"] != "ratio":
            found[index] = read_column(reader, metric["column"], parents)
        if "own" in metric:
            read_column(reader, metric["own"], parents)
    assert reader.at == len(reader.data)
    for index, metric in enumerate(profile["metrics"]):
        column = metric["column"]
        if column["as"] != "ratio":
            continue
        per = [profile["metrics"][column[key]]["column"]["per"] for key in ("part", "whole")]
        parts, wholes = found[column["part"]], found[column["whole"]]
        whole_per = per[1] / column["scale"]
        raw = [(part * per[0], whole * whole_per) for part, whole in zip(parts, wholes)]
        found[index] = [p / w / column["unit"] if w else math.nan for p, w in raw]
    metrics = [metric["name"] for metric in profile["metrics"]]
    return [names[frame] for frame in frames], {metrics[i]: found[i] for i in found}


def compare(path: Path, *options: str) -> int:
    """Compares all numbers of a profile; returns how many there were."""
    names, values = read(viewer("--export", "html", *options, path))
    rows = list(csv.DictReader(viewer("--export", "csv", *options, path).splitlines(keepends=True)))
    assert len(rows) == len(names)
    compared = 0
    for name, column in values.items():
        key = f"{name} (inc)" if f"{name} (inc)" in rows[0] else name
        if key not in rows[0]:
            continue
        for row, value in zip(rows, column):
            expected = float(row[key]) if row[key] else math.nan
            same = math.isnan(value) if math.isnan(expected) else value == expected
            assert same or value == pytest.approx(expected, rel=1e-15), (name, row["path"])
            compared += 1
    return compared


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_samples_have_the_numbers_of_csv(sample):
    for depth in ("1", "3", "99"):
        compare(sample, "--allow-partial", "-d", depth)


def test_random_profiles_have_the_numbers_of_csv(tmp_path):
    compared = 0
    for seed in range(40):
        path = tmp_path / f"{seed}.hatchet"
        with path.open("wb") as out:
            subprocess.run([TOOL, f"seed:{seed}", "hatchet"], stdout=out, check=True, timeout=60)
        compared += compare(path)
    assert compared > 3000


def test_rates_are_divided_on_the_page(tmp_path):
    page = viewer("--export", "html", ROOT / "tests/data/viewer/cuda.hatchet")
    kinds = dict(re.findall(r'"name":"([^"]*)","unit"[^\n]*"column":\{"as":"(\w+)"', page))
    assert kinds["time/ms"] == "integers"
    assert kinds["avg_time/us"] == kinds["gbyte/s"] == "ratio"
