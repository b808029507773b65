"""Reading a live session, phases, context.depth."""

import json
from pathlib import Path

import pytest

import triton_proton as proton
from support import at, load, metrics, names, script


def record(name):
    with proton.scope(name, {"m": 1}):
        pass


def test_get_and_get_msgpack_agree():
    msgpack = pytest.importorskip("msgpack")
    session = proton.start("test")
    record("a")
    data = proton.data.get(session)
    assert metrics(data[0], "a") == {"m": 1}
    packed = proton.data.get_msgpack(session)
    assert isinstance(packed, bytes)
    root = msgpack.loads(packed, raw=False, strict_map_key=False)[0]
    assert metrics(root, "a") == metrics(data[0], "a")
    record("a")
    assert metrics(proton.data.get(session)[0], "a") == {"m": 2}


def test_no_session_no_data():
    assert proton.data.get(None) is None
    assert proton.data.get_msgpack(None) is None
    assert proton.data.advance_phase(None) is None
    assert proton.data.is_phase_complete(None) is False
    assert proton.data.clear(None) is None
    assert proton.context.depth(None) is None
    with pytest.raises(IndexError, match="Session has not been initialized"):
        proton.data.get(4711)


def test_phases():
    session = proton.start("test")
    record("a")
    assert not proton.data.is_phase_complete(session, 0)
    assert proton.data.advance_phase(session) == 1
    record("b")
    proton.deactivate(session, flushing=True)
    assert proton.data.is_phase_complete(session, 0)
    assert not proton.data.is_phase_complete(session, 1)
    assert names(proton.data.get(session, 0)[0]) == {"a"}
    assert names(proton.data.get(session, 1)[0]) == {"b"}
    with pytest.raises(IndexError, match="Phase 2 has no data"):
        proton.data.get(session, 2)


def test_a_scope_left_in_a_later_phase_keeps_its_metrics():
    session = proton.start("test")
    with proton.cpu_timed_scope("long"):
        proton.data.advance_phase(session)
        proton.enter_scope("inner")
        proton.exit_scope("inner", metrics={"m": 1})
    root = proton.data.get(session, 1)[0]
    assert metrics(root, "long")["cpu_time (ns)"] > 0
    assert metrics(root, "long", "inner") == {"m": 1}


def test_clear():
    session = proton.start("test")
    record("a")
    proton.data.clear(session, 0)
    assert names(proton.data.get(session, 0)[0]) == set()
    record("b")
    assert names(proton.data.get(session, 0)[0]) == {"b"}
    for _ in range(2):
        proton.data.advance_phase(session)
        record("c")
    proton.data.clear(session, 1, clear_up_to_phase=True)
    for phase in (0, 1):
        with pytest.raises(IndexError, match=f"Phase {phase} has no data"):
            proton.data.get(session, phase)
    assert names(at(proton.data.get(session, 2)[0])) == {"c"}


ENDLESS = """
import triton_proton as proton

def names(tree):
    return {child["frame"]["name"] for child in tree["children"]}

session = proton.start("test", backend="host")
for phase in range(40):
    wanted = {f"request {phase}.{i} {'x' * (i * phase % 50)}" for i in range(45)}
    for name in wanted:
        with proton.scope(name, metrics={"n": 1}):
            pass
    with proton.scope("step"):
        pass
    proton.enter_scope(f"pushed {phase}")
    proton.exit_scope()
    tree = proton.data.get(session, phase)[0]
    assert names(tree) == wanted | {"step", f"pushed {phase}"}, (phase, names(tree))
    assert all(child["metrics"].get("n", 1) == 1 for child in tree["children"])
    proton.data.advance_phase(session)
    proton.data.clear(session, phase, clear_up_to_phase=True)
print("fresh")
"""


def test_names_without_end_are_fresh_in_each_phase():
    done = script(ENDLESS, env={"PROTON_MAX_CHILDREN": "50"})
    assert done.stdout == "fresh\n", done.stderr


PARTS = """
import triton_proton as proton

session = proton.start("test", backend="host", mode="periodic_flushing")
for phase in range(10):
    for i in range(45):
        with proton.scope(f"request {phase}.{i}"):
            pass
    proton.data.advance_phase(session)
proton.finalize()
"""


def test_names_without_end_are_fresh_in_each_part():
    script(PARTS, env={"PROTON_MAX_CHILDREN": "50"})
    for phase in range(10):
        assert names(load(f"test.part_{phase}.hatchet")) == {
            f"request {phase}.{i}" for i in range(45)
        }


def test_each_phase_is_a_file(tmp_path):
    session = proton.start("test")
    record("a")
    proton.data.advance_phase(session)
    record("b")
    proton.finalize(session)
    assert {entry.name for entry in tmp_path.iterdir()} == {
        "test.part_0.hatchet", "test.part_1.hatchet"
    }


def test_depth_of_scopes_and_of_python():
    shadow = proton.start("a")
    python = proton.start("b", context="python")
    frames = proton.context.depth(python)

    def deeper():
        with proton.scope("x"):
            return proton.context.depth(shadow), proton.context.depth(python)

    assert deeper() == (1, frames + 1)
    assert frames > 3


@pytest.mark.parametrize("form", ["hatchet", "hatchet_msgpack"])
def test_periodic_flushing_writes_parts(form):
    session = proton.start("t", backend="host", mode=f"periodic_flushing:format={form}")
    for i in range(100):
        if i and i % 10 == 0:
            proton.data.advance_phase(session)
        with proton.scope(f"s{i}", {"items": 1}):
            pass
    proton.finalize(output_format=form)
    parts = sorted(Path(".").glob(f"*.{form}"), key=lambda path: int(path.stem.split("_")[1]))
    assert [path.name for path in parts] == [f"t.part_{i}.{form}" for i in range(10)]
    for number, path in enumerate(parts):
        data = path.read_bytes()
        if form == "hatchet":
            root = json.loads(data)[0]
        else:
            root = pytest.importorskip("msgpack").unpackb(data, strict_map_key=False)[0]
        found = [child["frame"]["name"] for child in root["children"]]
        assert sorted(found) == sorted(f"s{10 * number + i}" for i in range(10))


@pytest.mark.parametrize("data", ["tree", "trace"])
def test_periodic_flushing_leaves_the_last_part_to_be_read(data):
    """As upstream's guide reads phases: advance, flush, then get and clear what is complete."""
    mode = "periodic_flushing:format=hatchet"
    session = proton.start("t", backend="host", mode=mode, data=data)
    for phase in range(3):
        with proton.scope(f"s{phase}", {"items": phase + 1}):
            pass
        assert proton.data.advance_phase(session) == phase + 1
        proton.deactivate(session, flushing=True)
        assert proton.data.is_phase_complete(session, phase)
        root = proton.data.get(session, phase)[0]
        assert root["children"][0]["frame"]["name"] == f"s{phase}"
        assert root["children"][0]["metrics"] == {"items": phase + 1}
        proton.data.clear(session, phase, clear_up_to_phase=True)
        with pytest.raises(IndexError, match=f"Phase {phase} has no data"):
            proton.data.get(session, phase)
        proton.activate(session)
    proton.finalize(session)
    parts = sorted(path.name for path in Path(".").glob("t*"))
    assert parts == [f"t.part_{number}.hatchet" for number in range(4)]
