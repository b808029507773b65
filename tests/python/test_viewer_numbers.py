"""The viewer's numbers against llnl-hatchet and the formulas of Proton's metrics, written again.

hatchet adds up the trees; pandas applies the formulas to its columns; proton-viewer --csv has to
agree to the last digits, on files that Proton wrote and on trees made up here. What hatchet's
queries keep is what -i, -e and -t have to show.
"""

import copy
import csv
import io
import json
import math
import random
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cmd_support import executable

hatchet = pytest.importorskip("hatchet", reason="needs llnl-hatchet")
if not hasattr(hatchet.GraphFrame, "from_literal"):
    pytest.skip("this hatchet is not llnl-hatchet", allow_module_level=True)

DATA = Path(__file__).resolve().parent.parent / "data" / "viewer"
TIME_UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
RATE_UNITS = {"": 1, "g": 1e9, "t": 1e12}
WIDTHS = (8, 16, 32, 64)
METADATA = "__proton_launch_metadata"

Path_ = tuple[str, ...]


def viewer(path: Path, *arguments: str) -> str:
    # Bytes, because text mode would change the line ends inside names.
    command = [executable("proton-viewer"), "--frames", "all", *arguments, str(path)]
    done = subprocess.run(command, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def read_csv(text: str) -> tuple[list[str], dict[Path_, list[str]]]:
    """The columns' names, and each frame's values under its path from the root."""
    lines = csv.reader(io.StringIO(text, newline=""))
    header = next(lines)
    assert header[:4] == ["node", "parent", "depth", "frame"]
    paths: list[Path_] = []
    rows: dict[Path_, list[str]] = {}
    for number, (node, parent, depth, frame, *values) in enumerate(lines):
        assert int(node) == number
        paths.append((*(paths[int(parent)] if parent else ()), frame))
        assert len(paths[-1]) == int(depth) + 1
        assert paths[-1] not in rows, "the test needs siblings with different names"
        rows[paths[-1]] = values
    return header[4:], rows


# ---------------------------------------------------------------- what hatchet and pandas say


def prune(node: dict) -> dict | None:
    """Without launch metadata and without contexts in which nothing was measured."""
    name = node["frame"]["name"]
    if name == METADATA or name.startswith(METADATA + ":"):
        return None
    children = [kept for child in node["children"] if (kept := prune(child))]
    if not children and not node["metrics"] and name != "ROOT":
        return None
    return {**node, "children": children}


class Expected:
    """A profile as hatchet and the formulas see it; columns are Series by path."""

    def __init__(self, path: Path):
        root, *devices = json.loads(path.read_text())
        root = prune(root)
        assert root is not None
        self.devices = devices[0] if devices else {}
        self.inclusive = set(root["metrics"])
        self.frame = hatchet.GraphFrame.from_literal([copy.deepcopy(root)])
        if self.inclusive:
            self.frame.update_inclusive_columns()
        table = self.frame.dataframe
        paths = [tuple(node.frame["name"] for node in index.path()) for index in table.index]
        self.table = table.set_axis(pd.Index(paths, tupleize_cols=False), axis=0)

    def raw(self, name: str) -> pd.Series:
        if name in self.inclusive:
            return self.table[f"{name} (inc)"].fillna(0).astype(float)
        return self.own(name)

    def own(self, name: str) -> pd.Series:
        if name not in self.table:
            return pd.Series(np.nan, index=self.table.index)
        return self.table[name].astype(float)

    def seconds(self) -> pd.Series:
        return self.raw("time (ns)") * 1e-9

    def util(self) -> pd.Series:
        min_flop_time = sum(
            self.own(f"flops{width}").fillna(0) / self.peaks(lambda d, w=width: max_flops(d, w))
            for width in WIDTHS
        )
        min_byte_time = self.own("bytes").fillna(0) / self.peaks(max_bytes)
        ran = self.own("time (ns)") * 1e-9
        return np.maximum(min_flop_time, min_byte_time) / ran

    def peaks(self, peak) -> pd.Series:
        def of_row(row) -> float:
            if not isinstance(row.get("device_id"), str):
                return np.nan
            device = self.devices[row["device_type"]][row["device_id"]]
            return peak({**device, "type": row["device_type"]})

        return self.table.apply(of_row, axis=1)

    def share(self, name: str) -> pd.Series:
        values = self.raw(name)
        if name in self.inclusive:
            return 100 * values / values.iloc[0]
        if name not in ("cycles", "normalized_cycles"):
            return 100 * values / values.sum()
        # A scope of a kernel holds the scopes inside it.
        known = values.dropna()
        outermost = [
            value
            for path, value in known.items()
            if not any(path[:length] in known.index for length in range(1, len(path)))
        ]
        return 100 * values / sum(outermost)

    def columns(self) -> dict[str, pd.Series]:
        """Every metric that this profile has."""
        numbers = {
            name
            for name in self.table.columns
            if not name.endswith("(inc)") and pd.api.types.is_numeric_dtype(self.table[name])
        }
        result = {name: self.raw(name) for name in numbers}
        result |= {f"{name.split(' (')[0]}/%": self.share(name) for name in numbers}
        if "time (ns)" in numbers:
            seconds, count = self.seconds(), self.raw("count")
            for unit, factor in TIME_UNITS.items():
                result[f"time/{unit}"] = seconds / factor
                result[f"avg_time/{unit}"] = seconds / count / factor
                if "cpu_time (ns)" in numbers:
                    cpu_seconds = self.raw("cpu_time (ns)") * 1e-9
                    result[f"cpu_time/{unit}"] = cpu_seconds / factor
                    result[f"avg_cpu_time/{unit}"] = cpu_seconds / count / factor
            for prefix, factor in RATE_UNITS.items():
                for width in ("", *WIDTHS):
                    if f"flops{width}" in numbers:
                        rate = self.raw(f"flops{width}") / seconds / factor
                        result[f"{prefix}flop{width}/s"] = rate
                if "bytes" in numbers:
                    result[f"{prefix}byte/s"] = self.raw("bytes") / seconds / factor
            if numbers & {"bytes", *(f"flops{width}" for width in WIDTHS)}:
                result["util"] = self.util()
        return result


def max_flops(device: dict, width: int) -> float:
    """Peak operations per second on operands of `width` bits; NaN for what is in no table."""
    arch, sms, clock_khz = device["arch"], device["num_sms"], device["clock_rate"]
    if device["type"] == "HIP":
        per_clock = {"gfx90a": 1024, "gfx942": 4096, "gfx950": 8192}.get(arch[:6])
        return per_clock * sms * clock_khz * 1e3 / (width / 8) if per_clock else np.nan
    if arch == "80":
        peak = 624e12
    elif arch == "89":
        peak = 330.3e12
    elif arch == "90":
        peak = sms / 114 * clock_khz / (1755 * 1e3) * 1513 * 1e12
    elif arch == "100":
        peak = sms * 16384 * (clock_khz / 1e3) * 1e6
    else:
        return np.nan
    return peak / (width / 8)


def max_bytes(device: dict) -> float:
    if device["type"] == "HIP":
        return {"gfx90a": 3.2e12, "gfx942": 5.3e12, "gfx950": 8.0e12}[device["arch"][:6]]
    return 2 * device["bus_width"] * device["memory_clock_rate"] * 1e3 / 8


def compare(path: Path) -> int:
    """Compares every column of a file; returns how many numbers were compared."""
    expected = Expected(path)
    columns = expected.columns()
    _, rows = read_csv(viewer(path, "--csv", "-d", "1000", "-m", ",".join(columns)))
    assert set(rows) == set(expected.table.index)
    compared = 0
    for place, (name, series) in enumerate(columns.items()):
        for frame, number in series.items():
            shown = rows[frame][place]
            if not math.isfinite(number):
                assert shown == "", f"{name} of {frame}"
            else:
                assert float(shown) == pytest.approx(number, rel=1e-12, abs=1e-300), name
                compared += 1
    return compared


# Rates of counters.hatchet are of given operations where a kernel has some, else of counted ones.
SAMPLES = sorted(
    path.name for path in DATA.glob("*.hatchet") if path.stem not in {"counters", "empty", "losses"}
)


@pytest.mark.parametrize("name", SAMPLES)
def test_files_have_the_numbers_of_hatchet_and_the_formulas(name):
    assert compare(DATA / name) > 0


# ---------------------------------------------------------------- trees made up here

def make_device(arch: str, bus_width: int, clock: int, memory_clock: int, sms: int) -> dict:
    return {
        "arch": arch,
        "bus_width": bus_width,
        "clock_rate": clock,
        "memory_clock_rate": memory_clock,
        "num_sms": sms,
    }


DEVICES = {
    "CUDA": {
        "0": make_device("90", 6144, 1980000, 2619000, 132),
        "1": make_device("80", 5120, 1410000, 1215000, 108),
        "2": make_device("72", 256, 1377000, 1377000, 8),
    },
    "HIP": {"0": make_device("gfx942", 8192, 2100000, 1300000, 304)},
}
INCLUSIVE = ("flops", "flops8", "flops16", "flops32", "flops64", "bytes", "loss", "steps (x)")


def make_metrics(random_: random.Random, is_leaf: bool) -> dict:
    metrics: dict = {}
    if is_leaf or random_.random() < 0.1:
        kind = random_.choice(list(DEVICES))
        metrics["device_type"] = kind
        metrics["device_id"] = random_.choice(list(DEVICES[kind]))
        metrics["count"] = random_.randint(1, 1000)
        metrics["time (ns)"] = random_.randint(1, 10**10)
    for name in INCLUSIVE:
        if random_.random() < 0.3:
            # Whole numbers and fractions, small and large, in one column.
            metrics[name] = random_.choice(
                [random_.randint(0, 10**12), random_.uniform(0, 1e3), random_.uniform(0, 1e15)]
            )
    if random_.random() < 0.2:
        metrics["cpu_time (ns)"] = random_.randint(1, 10**9)
    return metrics


def make_tree(random_: random.Random, depth: int, name: str) -> dict:
    width = random_.randint(0, 4) if depth else 0
    children = [make_tree(random_, depth - 1, f'frame {i}, "{name[-1]}"') for i in range(width)]
    return {
        "children": children,
        "frame": {"name": name, "type": "function"},
        "metrics": make_metrics(random_, not children),
    }


@pytest.mark.parametrize("seed", range(12))
def test_made_up_trees_have_the_numbers_of_hatchet_and_the_formulas(seed, tmp_path):
    random_ = random.Random(seed)
    root = make_tree(random_, 5, "ROOT")
    root["children"] += [make_tree(random_, 2, "at least one")]
    root["metrics"] = {name: 0 for name in ("time (ns)", "count", *INCLUSIVE)}
    path = tmp_path / "tree.hatchet"
    path.write_text(json.dumps([root, DEVICES]))
    assert compare(path) > 0


# ---------------------------------------------------------------- filters


def shown(path: Path, *arguments: str) -> set[Path_]:
    return set(read_csv(viewer(path, "--csv", "-d", "1000", "-m", "time/us", *arguments))[1])


def kept(frame, query) -> set[Path_]:
    """The paths a query of hatchet keeps; squash=False leaves the tree's shape alone."""
    try:
        table = frame.filter(query, squash=False).dataframe
    except hatchet.graphframe.EmptyFilter:
        return set()
    return {tuple(node.frame["name"] for node in index.path()) for index in table.index}


@pytest.mark.parametrize("name", ["up_tree.hatchet", "up_graph.hatchet", "up_python.hatchet"])
@pytest.mark.parametrize("pattern", [".*mm.*", "outer|cap", "inner", ".*samples.py:3[0-9]@work"])
def test_include_and_exclude_keep_the_same_as_hatchet(name, pattern):
    path = DATA / name
    frame = Expected(path).frame
    where = f'WHERE p."name" =~ "{pattern}"'
    included = kept(frame, f'MATCH ("*")->(".", p)->("*") {where}')
    excluded = kept(frame, f'MATCH (".", p)->("*") {where}')
    anchored = f"^({pattern})"  # hatchet's =~ matches from the beginning
    assert shown(path, "-i", anchored) == (included or {("ROOT",)})
    assert shown(path, "-e", anchored) == shown(path) - excluded


@pytest.mark.parametrize("name", ["up_tree.hatchet", "up_graph.hatchet", "sort.hatchet"])
@pytest.mark.parametrize("minimum", [0, 1.5, 5, 1e9])
def test_threshold_keeps_the_same_as_hatchet(name, minimum):
    path = DATA / name
    expected = Expected(path)
    above = {p for p, t in (expected.seconds() * 1e6).items() if t >= minimum}
    with_ancestors = {p[: i + 1] for p in above for i in range(len(p))} | {("ROOT",)}
    assert shown(path, "-t", str(minimum)) == with_ancestors


def test_every_row_comes_after_its_parent_and_siblings_fall(tmp_path):
    random_ = random.Random(99)
    root = make_tree(random_, 6, "ROOT")
    root["metrics"] = {"time (ns)": 0, "count": 0}
    path = tmp_path / "tree.hatchet"
    path.write_text(json.dumps([root, DEVICES]))
    latest: dict[Path_, float] = {}
    for frame, (value,) in read_csv(viewer(path, "--csv", "-m", "time"))[1].items():
        assert latest.get(frame[:-1], math.inf) >= float(value)
        latest[frame[:-1]] = float(value)


# ---------------------------------------------------------------- differences and groups


def read_flat(text: str) -> tuple[list[str], dict[str, list[str]]]:
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header[0] == "frame"
    return header[1:], {frame: values for frame, *values in rows}


@pytest.mark.parametrize("seed", range(4))
def test_differences_are_those_of_hatchets_values(seed, tmp_path):
    sides = []
    for name in ("before", "after"):
        random_ = random.Random(f"{seed} {name}")
        root = make_tree(random_, 4, "ROOT")
        root["children"] += [make_tree(random_, 2, "at least one")]
        root["metrics"] = {name: 0 for name in ("time (ns)", "count", *INCLUSIVE)}
        path = tmp_path / f"{name}.hatchet"
        path.write_text(json.dumps([root, DEVICES]))
        sides.append((path, Expected(path)))
    (before, old), (after, new) = sides
    names = ["time/us", "flops16"]
    text = viewer(after, "-diff", str(before), "--csv", "-d", "1000", "-m", ",".join(names))
    header, rows = read_csv(text)
    assert header[:4] == [f"time/us {what}" for what in ("before", "after", "change", "change/%")]
    assert set(rows) == set(old.table.index) | set(new.table.index)
    for place, name in enumerate(names):
        was, now = (side.columns()[name] for side in (old, new))
        for frame, values in rows.items():
            first = was.get(frame, 0.0)
            last = now.get(frame, 0.0)
            shown_before, shown_after, change, percent = values[4 * place : 4 * place + 4]
            assert float(shown_before) == pytest.approx(first, rel=1e-12)
            assert float(shown_after) == pytest.approx(last, rel=1e-12)
            assert float(change) == pytest.approx(last - first, rel=1e-9, abs=1e-6)
            if first == 0 and last != 0:
                assert percent == ""
            else:
                expected = 100 * (last - first) / abs(first) if first else 0
                assert float(percent) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    for frame, values in rows.items():
        standing = {(True, True): "", (True, False): "gone", (False, True): "new"}
        assert values[-1] == standing[frame in old.table.index, frame in new.table.index]


@pytest.mark.parametrize("name", ["up_tree.hatchet", "up_graph.hatchet", "sort.hatchet"])
def test_the_flat_table_is_a_group_by_of_the_tree(name):
    expected = Expected(DATA / name)
    table = expected.table
    ran = table[table["count"].fillna(0) > 0]
    frames = [frame[-1] for frame in ran.index]
    sums = ran[["time (ns)", "count"]].astype(float).groupby(frames).sum()
    header, rows = read_flat(
        viewer(DATA / name, "--top", "--csv", "-m", "time/ns,count,avg_time/us,time/%,cum/%")
    )
    assert header == ["time/ns", "count", "avg_time/us", "time/%", "cum/%"]
    assert set(rows) == set(sums.index)
    total = sums["time (ns)"].sum()
    running = 0.0
    for frame, values in rows.items():
        time_ns, count = sums.loc[frame]
        running += time_ns
        numbers = [time_ns, count, time_ns / count / 1e3, 100 * time_ns / total]
        assert [float(value) for value in values[:4]] == pytest.approx(numbers, rel=1e-12)
        assert float(values[4]) == pytest.approx(100 * running / total, rel=1e-9)
