"""`proton.schedule` and `proton.step`."""

import pytest

import triton_proton as proton
from cmd_support import proton as run_proton
from support import load, names


@pytest.fixture(autouse=True)
def in_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    proton.schedule(active=1, backend="host").end()
    proton.finalize()


def run_steps(first: int, last: int) -> None:
    for number in range(first, last):
        with proton.scope(f"step {number}"):
            pass
        proton.step()


def test_cycles_record_their_active_steps(in_directory):
    ended = []
    proton.schedule("t", wait=2, warmup=1, active=2, repeat=2, backend="host", on_end=ended.append)
    run_steps(0, 13)
    assert ended == ["t.cycle_1", "t.cycle_2"]
    assert names(load("t.cycle_1.hatchet")) == {"step 3", "step 4"}
    assert names(load("t.cycle_2.hatchet")) == {"step 8", "step 9"}
    assert sorted(path.name for path in in_directory.iterdir()) == [
        "t.cycle_1.hatchet", "t.cycle_2.hatchet"
    ]


def test_one_cycle_has_the_plain_name():
    proton.schedule("t", active=1, repeat=1, backend="host")
    run_steps(0, 3)
    assert names(load("t.hatchet")) == {"step 0"}


def test_the_session_is_live_but_paused_while_warming_up():
    proton.schedule("t", wait=1, warmup=1, active=1, backend="host")
    live = []
    for _ in range(4):
        live.append(proton.flags.flags.profiling_on)
        proton.step()
    assert live == [False, True, True, False]


def test_without_repeat_cycles_continue_and_the_end_writes_the_last():
    schedule = proton.schedule("t", active=2, backend="host")
    run_steps(0, 5)
    schedule.end()
    run_steps(5, 7)
    assert names(load("t.cycle_1.hatchet")) == {"step 0", "step 1"}
    assert names(load("t.cycle_3.hatchet")) == {"step 4"}


def test_a_new_schedule_ends_the_old_one():
    proton.schedule("a", active=9, backend="host")
    run_steps(0, 1)
    proton.schedule("b", active=1, repeat=1, backend="host")
    run_steps(1, 2)
    assert names(load("a.cycle_1.hatchet")) == {"step 0"}
    assert names(load("b.hatchet")) == {"step 1"}


def test_step_without_a_schedule_does_nothing(in_directory):
    proton.step()
    assert list(in_directory.iterdir()) == []


@pytest.mark.parametrize("wrong", [{"active": 0}, {"active": 1, "wait": -1}])
def test_impossible_numbers_of_steps(wrong):
    with pytest.raises(ValueError, match="active at least 1"):
        proton.schedule("t", **wrong)


def test_the_session_of_the_command_is_paused_between(in_directory):
    script = """
import triton_proton as proton
proton.schedule("ignored", wait=1, active=1, repeat=2)
for number in range(6):
    with proton.scope("step", {"n": 1}):
        proton.enter_scope(f"step {number}", metrics={"n": 1})
        proton.exit_scope()
    proton.step()
"""
    (in_directory / "script.py").write_text(script)
    done = run_proton("-b", "host", "script.py", cwd=in_directory)
    assert done.returncode == 0, done.stderr
    step = load("proton.hatchet")["children"][0]
    with_metric = {c["frame"]["name"] for c in step["children"] if c["metrics"].get("n")}
    assert with_metric == {"step 1", "step 3"}
