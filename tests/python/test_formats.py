"""Reading Proton's files with real readers: json, msgpack and llnl-hatchet, over random profiles.

The profiles come from tests/tools/make_profile, which Meson builds; built.py knows where.
"""

import copy
import json
import math
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from built import BUILD, ROOT

msgpack = pytest.importorskip("msgpack")
hatchet = pytest.importorskip("hatchet")

TOOL = BUILD / "tests" / "tools" / "make_profile"
SAMPLES = sorted((ROOT / "tests/data/viewer").glob("up_*.hatchet"))
SOURCES = [f"seed:{seed}" for seed in range(40)] + [str(path.relative_to(ROOT)) for path in SAMPLES]

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="make_profile is not built")


def make(source: str, form: str) -> bytes:
    result = subprocess.run(
        [TOOL, source, form], cwd=ROOT, capture_output=True, check=True, timeout=300
    )
    assert result.stderr == b""
    return result.stdout


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dictionary; a key given twice is a mistake of the writer."""
    assert len({key for key, _ in pairs}) == len(pairs), [key for key, _ in pairs]
    return dict(pairs)


def load_json(text: bytes) -> list[Any]:
    return json.loads(text, object_pairs_hook=distinct)


def typed(value: Any) -> Any:
    """The value with the types of its numbers, for 1 == 1.0 and 0.0 == -0.0 in Python."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return (type(value).__name__, repr(value))


def walk(node: dict[str, Any]):
    """Every node, root first, as our loader numbers them."""
    yield node
    for child in node["children"]:
        yield from walk(child)


def without_extras(node: dict[str, Any]) -> dict[str, Any]:
    node = copy.deepcopy(node)
    for each in walk(node):
        each.pop("proton", None)
    return node


@pytest.mark.parametrize("source", SOURCES)
def test_json_and_msgpack_say_the_same(source):
    pretty = load_json(make(source, "hatchet"))
    compact = load_json(make(source, "compact"))
    packed = msgpack.unpackb(make(source, "msgpack"), object_pairs_hook=distinct)
    assert typed(pretty) == typed(packed)
    assert typed(pretty) == typed(compact)


@pytest.mark.parametrize("source", SOURCES)
def test_the_schema_is_upstreams(source):
    root, devices = load_json(make(source, "hatchet"))
    assert "device_id" not in root["metrics"]
    for node in walk(root):
        assert list(node)[:3] == ["children", "frame", "metrics"]
        assert set(node) <= {"children", "frame", "metrics", "proton"}
        assert list(node["frame"]) == ["name", "type"]
        assert node["frame"]["type"] == "function"
        assert list(node["metrics"]) == sorted(node["metrics"])
        # ("device_id" alone is a metric that make_profile invents.)
        if "device_type" in node["metrics"]:
            assert isinstance(node["metrics"]["device_id"], str)
            assert isinstance(node["metrics"]["device_type"], str)
    for of_type in devices.values():
        for device in of_type.values():
            assert list(device) == [
                "arch", "bus_width", "clock_rate", "memory_clock_rate", "num_sms",
            ]


def test_the_text_is_laid_out_like_upstreams():
    for source in (str(path) for path in SAMPLES):
        text = make(source, "hatchet").decode()
        expected = json.dumps(json.loads(text), indent=4, sort_keys=True, ensure_ascii=False)
        assert text == f"\n{expected}\n"


def test_upstreams_files_come_out_as_they_went_in():
    for path in SAMPLES:
        before = json.loads(path.read_text())
        after = json.loads(make(str(path), "hatchet"))
        zeros = {name for name, value in before[0]["metrics"].items() if value == 0}
        assert set(after[0]["metrics"]) == zeros
        assert [node["metrics"] for node in walk(after[0])][1:] == [
            node["metrics"] for node in walk(before[0])
        ][1:]
        assert after[1] == before[1]


@pytest.mark.parametrize("source", SOURCES)
def test_loading_and_writing_again_changes_nothing(source, tmp_path):
    """Once: a first file may lack what no file can say (that a metric is a property)."""
    first = {}
    for form in ("hatchet", "msgpack"):
        path = tmp_path / form
        path.write_bytes(make(source, form))
        first[form] = make(str(path), "hatchet")
    assert first["hatchet"] == first["msgpack"]
    path = tmp_path / "again.hatchet"
    path.write_bytes(first["hatchet"])
    assert make(str(path), "hatchet") == first["hatchet"]


@pytest.mark.parametrize("source", SOURCES)
def test_hatchet_sees_no_extra_column(source):
    root, _ = load_json(make(source, "hatchet"))
    ours = hatchet.GraphFrame.from_literal([root])
    plain = hatchet.GraphFrame.from_literal([without_extras(root)])
    assert list(ours.dataframe.columns) == list(plain.dataframe.columns)
    assert ours.exc_metrics == plain.exc_metrics and ours.inc_metrics == plain.inc_metrics
    assert len(ours.dataframe) == sum(1 for _ in walk(root))
    ours.update_inclusive_columns()
    if ours.inc_metrics:
        assert ours.graph.roots[0].frame["name"] in ours.tree(metric_column=ours.inc_metrics[0])


def our_sums(path: Path) -> dict[str, dict[int, float]]:
    """Inclusive sums by metric and node, of metrics that are inclusive."""
    sums: dict[str, dict[int, float]] = defaultdict(dict)
    for line in make(str(path), "sums").decode().splitlines():
        name, is_inclusive, node, value = line.split("\t")[:4]
        if is_inclusive == "1":
            sums[name][int(node)] = float(value)
    return sums


def numbered(gf: Any, root: dict[str, Any]) -> list[Any]:
    """hatchet's nodes in the order of the file."""
    found: list[Any] = []

    def visit(node: Any, literal: dict[str, Any]) -> None:
        found.append(node)
        children = list(node.children)
        assert len(children) == len(literal["children"])
        # hatchet sorts children; take each by its name, those of one name in order.
        for child in literal["children"]:
            match = next(c for c in children if c.frame["name"] == child["frame"]["name"])
            children.remove(match)
            visit(match, child)

    visit(gf.graph.roots[0], root)
    return found


@pytest.mark.parametrize("source", ["nodes:300", "chain:50"] + SOURCES[40:])
def test_hatchets_sums_equal_protons(source, tmp_path):
    path = tmp_path / "a.hatchet"
    path.write_bytes(make(source, "hatchet"))
    root, _ = load_json(path.read_bytes())
    gf = hatchet.GraphFrame.from_literal([copy.deepcopy(root)])
    gf.update_inclusive_columns()
    sums = our_sums(path)
    assert set(sums) == {name.removesuffix(" (inc)") for name in gf.inc_metrics}
    nodes = numbered(gf, root)
    for name, by_node in sums.items():
        column = gf.dataframe[f"{name} (inc)"]
        for index, node in enumerate(nodes):
            theirs = column.loc[node]
            theirs = 0.0 if math.isnan(theirs) else float(theirs)
            assert math.isclose(theirs, by_node[index], rel_tol=1e-12), (name, index)


def test_sums_are_exact_where_doubles_are_not(tmp_path):
    def node(name: str, children: list[Any], **metrics: Any) -> dict[str, Any]:
        frame = {"name": name, "type": "function"}
        return {"children": children, "frame": frame, "metrics": metrics}

    big = 2**53 + 1
    tree = node("ROOT", [node("a", [node("b", [], flops=big)], flops=2)], flops=0)
    path = tmp_path / "a.hatchet"
    path.write_text(json.dumps([tree, {}]))
    lines = [line.split("\t") for line in make(str(path), "sums").decode().splitlines()]
    exact = {line[2]: int(line[4]) for line in lines if line[0] == "flops"}
    assert exact == {"0": big + 2, "1": big + 2, "2": big}


def test_a_deep_chain_survives(tmp_path):
    """Deeper than Python's own readers go: 10^5 levels, through both formats."""
    sizes = []
    for form in ("hatchet", "msgpack"):
        path = tmp_path / form
        path.write_bytes(make("chain:100000", form))
        sizes.append(path.stat().st_size)
        assert make(str(path), "compact").count(b'"deep.py:') == 99999
    assert max(sizes) < 300_000_000


def test_truncated_files_give_the_part_before(tmp_path):
    whole = make("seed:7", "hatchet")
    path = tmp_path / "cut.hatchet"
    seen = 0
    for cut in range(len(whole) // 4, len(whole) - 2, len(whole) // 7):
        path.write_bytes(whole[:cut])
        root, _ = load_json(make(str(path), "hatchet"))
        assert root["proton"]["damaged"] is True
        count = sum(1 for _ in walk(root))
        assert count >= seen
        seen = count
    assert seen > 1
