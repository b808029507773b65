"""start, activate, deactivate, finalize, profile."""

import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

import triton_proton as proton
from support import at, load, metrics, names, script
from triton_proton import _libproton
from triton_proton.flags import flags
from triton_proton.hooks import Hook, HookManager


def files() -> set[str]:
    return {entry.name for entry in Path(".").iterdir()}


def test_session_writes_hatchet_and_removes_the_working_file():
    session = proton.start("test")
    assert isinstance(session, int)
    assert files() == {"test.proton"}
    proton.activate(session)
    proton.deactivate(session)
    proton.finalize(session)
    assert files() == {"test.hatchet"}


def test_ids_count_up_and_are_never_reused():
    first = proton.start("a")
    second = proton.start("b")
    proton.finalize()
    third = proton.start("c")
    assert (second, third) == (first + 1, first + 2)


def test_all_sessions_at_once():
    proton.start("a")
    proton.start("b")
    proton.deactivate()
    proton.activate()
    proton.finalize()
    assert files() == {"a.hatchet", "b.hatchet"}
    assert not flags.profiling_on


def test_the_number_goes_by_either_name():
    first, second = proton.start("a"), proton.start("b")
    proton.deactivate(session_id=first)
    with proton.scope("once", {"m": 1}):
        pass
    proton.activate(session_id=first)
    proton.finalize(session_id=first)
    assert files() == {"a.hatchet", "b.proton"}
    with pytest.raises(TypeError, match="only one of them"):
        proton.deactivate(first, session_id=second)
    proton.finalize(session_id=second)
    assert names(load("a.hatchet")) == set() and names(load("b.hatchet")) == {"once"}


def test_default_name():
    assert proton.DEFAULT_PROFILE_NAME == "proton"
    proton.start()
    proton.finalize()
    assert files() == {"proton.hatchet"}


def test_path_like_name_in_another_directory(tmp_path):
    (tmp_path / "there").mkdir()
    proton.start(tmp_path / "there" / "test")
    proton.finalize()
    assert (tmp_path / "there" / "test.hatchet").exists()


@pytest.mark.parametrize("output_format", ["hatchet", "HATCHET", "", None])
def test_output_format_hatchet(output_format):
    proton.start("test")
    proton.finalize(None, output_format)
    assert files() == {"test.hatchet"}


def test_output_format_msgpack_agrees_with_hatchet():
    msgpack = pytest.importorskip("msgpack")
    for name in ("a", "b"):
        proton.start(name)
        with proton.scope("outer", {"x": 1, "y": 2.5, "v": [1, 2]}):
            with proton.scope("inner", {"z (exc)": 3}):
                pass
        proton.finalize(None, {"a": "hatchet", "b": "hatchet_msgpack"}[name])
    packed = msgpack.loads(Path("b.hatchet_msgpack").read_bytes(), raw=False, strict_map_key=False)
    root = load("a.hatchet")
    for where in ((), ("outer",), ("outer", "inner")):
        assert at(packed[0], *where)["metrics"] == at(root, *where)["metrics"]


def test_unknown_output_format_ends_nothing():
    session = proton.start("test")
    with pytest.raises(ValueError, match="Unknown output format: nonsense"):
        proton.finalize(session, "nonsense")
    assert flags.profiling_on
    proton.finalize(session)
    assert files() == {"test.hatchet"}


def test_two_sessions_record_the_same():
    proton.start("a")
    proton.start("b")
    with proton.scope("x", {"m": 1}):
        pass
    proton.finalize()
    for name in ("a", "b"):
        assert metrics(load(f"{name}.hatchet"), "x") == {"m": 1}


def test_a_deactivated_session_records_nothing_and_is_written():
    first = proton.start("a")
    proton.start("b")
    proton.deactivate(first)
    with proton.scope("x", {"m": 1}):
        pass
    proton.activate(first)
    with proton.scope("y", {"m": 1}):
        pass
    proton.finalize()
    assert names(load("a.hatchet")) == {"y"}
    assert names(load("b.hatchet")) == {"x", "y"}


def test_a_scope_entered_while_paused_counts_as_context_later():
    session = proton.start("test")
    proton.deactivate(session)
    with proton.scope("outer"):
        proton.activate(session)
        with proton.scope("inner", {"m": 1}):
            pass
    proton.finalize()
    assert metrics(load("test.hatchet"), "outer", "inner") == {"m": 1}


def test_starting_a_live_path_resumes_it():
    session = proton.start("test")
    proton.deactivate(session)
    assert proton.start("test", context="python") == session
    with proton.scope("x", {"m": 1}):
        pass
    proton.finalize()
    assert metrics(load("test.hatchet"), "x") == {"m": 1}


def test_unknown_sessions():
    for call in (proton.activate, proton.deactivate):
        with pytest.raises(IndexError, match="Session has not been initialized: 4711"):
            call(4711)
        with pytest.raises(IndexError, match="Session has not been initialized: -1"):
            call(-1)
    proton.finalize(4711)
    proton.finalize(-1)


def test_deactivate_and_activate_repeatedly():
    session = proton.start("test")
    for call in (proton.deactivate, proton.deactivate, proton.activate, proton.activate):
        call(session)
    with proton.scope("x", {"m": 1}):
        pass
    proton.finalize(session)
    assert metrics(load("test.hatchet"), "x") == {"m": 1}


class Refusing(Hook):
    def activate(self):
        raise RuntimeError("not today")


@pytest.mark.parametrize(
    "options, error, text",
    [
        ({"context": "nowhere"}, ValueError, "Unknown context source: nowhere"),
        ({"data": "heap"}, ValueError, "Unknown data: heap"),
        ({"backend": "abacus"}, ValueError, "Unknown profiler: abacus"),
        ({"backend": "host", "mode": "fast"}, ValueError, "unsupported mode: fast"),
        ({"hook": "fish"}, ValueError, "Unsupported hook: fish"),
        ({"hook": 3}, ValueError, "Unsupported hook: 3"),
        ({"mode": 3}, ValueError, "Unknown mode: 3"),
        ({"hook": Refusing()}, RuntimeError, "not today"),
    ],
)
def test_a_failed_start_leaves_nothing(options, error, text):
    with pytest.raises(error, match=text):
        proton.start("test", **options)
    assert not flags.profiling_on
    assert not HookManager.active_hooks
    assert files() == set()


def test_a_failed_start_leaves_other_sessions_alone():
    session = proton.start("good")
    with pytest.raises(ValueError):
        proton.start("bad", context="nowhere")
    with pytest.raises(RuntimeError, match="not today"):
        proton.start("bad", hook=Refusing())
    assert flags.profiling_on
    with proton.scope("x", {"m": 1}):
        pass
    proton.finalize(session)
    assert files() == {"good.hatchet"}
    assert metrics(load("good.hatchet"), "x") == {"m": 1}


def test_names_are_compared_without_regard_to_case():
    proton.start("test", context="SHADOW", data="Tree", backend="HOST")
    proton.finalize()
    assert files() == {"test.hatchet"}


def test_an_unwritable_directory_is_one_clear_error():
    with pytest.raises(proton.ProtonError, match="missing") as caught:
        proton.start("missing/test")
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.status < 0
    assert not flags.profiling_on


def test_proton_disable(monkeypatch):
    monkeypatch.setenv("TRITON_PROTON_DISABLE", "1")
    knobs = sys.modules.get("triton.knobs")
    if knobs is not None:
        assert knobs.proton.disable
    assert proton.start("test") is None
    with proton.scope("x"):
        pass
    proton.finalize()
    assert files() == set()
    monkeypatch.setenv("TRITON_PROTON_DISABLE", "0")
    assert proton.start("test") is not None


def test_under_the_command_line_the_script_does_not_own_the_session(monkeypatch):
    monkeypatch.setattr(flags, "command_line", True)
    assert proton.start("test") is None
    assert proton.finalize() is None
    text = "Only one session can be activated/deactivated when running from the command line."
    for call in (proton.activate, proton.deactivate):
        with pytest.raises(ValueError, match=text):
            call(1)
    with pytest.raises(ValueError, match="running from the command line"):
        proton.finalize(1)
    assert files() == set()


def test_finalize_inside_a_scope():
    session = proton.start("test")
    with proton.scope("outer", {"m": 1}):
        proton.finalize(session)
        assert proton.context.depth() is None
        next_session = proton.start("next")
        assert proton.context.depth(next_session) == 0
    assert proton.context.depth(next_session) == 0
    proton.finalize()
    assert metrics(load("test.hatchet"), "outer") == {"m": 1}
    assert names(load("next.hatchet")) == set()


def test_two_sessions_of_one_path_one_after_the_other():
    for value in (1, 2):
        proton.start("test")
        with proton.scope(f"x{value}", {"m": value}):
            pass
        proton.finalize()
    assert names(load("test.hatchet")) == {"x2"}


def test_sessions_in_threads_do_not_disturb_each_other():
    def work(index: int) -> None:
        session = proton.start(f"thread{index}")
        with proton.scope(f"scope{index}", {"m": 1}):
            pass
        proton.finalize(session)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index in range(8):
        assert metrics(load(f"thread{index}.hatchet"), f"scope{index}") == {"m": 1}


# ---------------------------------------------------------------------- profile


def test_profile_decorator_with_options():
    @proton.profile(name="test")
    def work(x, *, y):
        with proton.scope("inside", {"m": x}):
            return x + y

    assert work(1, y=2) == 3
    assert work(10, y=2) == 12
    with proton.scope("outside", {"m": 1}):
        pass
    proton.finalize()
    root = load("test.hatchet")
    assert names(root) == {"inside"}
    assert metrics(root, "inside") == {"m": 11}
    assert work.__name__ == "work"


def test_profile_decorator_bare_and_as_a_call():
    @proton.profile
    def bare():
        return "x"

    assert bare() == "x"
    assert proton.profile(lambda: "y", name="called")() == "y"
    proton.finalize()
    assert files() == {"proton.hatchet", "called.hatchet"}


def test_profile_decorator_pauses_after_an_exception():
    @proton.profile(name="test")
    def fails():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails()
    with proton.scope("outside", {"m": 1}):
        pass
    proton.finalize()
    assert names(load("test.hatchet")) == set()


def test_profile_decorator_of_a_recursive_function():
    @proton.profile(name="test")
    def countdown(n):
        if n:
            countdown(n - 1)
        with proton.scope("after", {"n": 1}):
            pass

    countdown(3)
    proton.finalize()
    assert metrics(load("test.hatchet"), "after") == {"n": 4}


def test_profile_decorator_of_a_function_that_finalizes():
    @proton.profile(name="test")
    def work():
        proton.finalize()

    work()
    work()
    assert files() == {"test.hatchet"}


def test_profile_decorator_of_a_coroutine():
    import asyncio

    @proton.profile(name="test")
    async def work():
        await asyncio.sleep(0)
        with proton.scope("inside", {"m": 1}):
            return 5

    assert asyncio.run(work()) == 5
    proton.finalize()
    assert names(load("test.hatchet")) == {"inside"}


def test_profile_decorator_of_generators():
    @proton.profile(name="test")
    def work():
        for _ in range(2):
            with proton.scope("inside", {"m": 1}):
                yield

    assert list(work()) == [None, None]
    with proton.scope("outside", {"m": 1}):
        pass
    with pytest.raises(TypeError, match="asynchronous generator"):

        @proton.profile
        async def refused():
            yield

    proton.finalize()
    root = load("test.hatchet")
    assert names(root) == {"inside"}
    assert metrics(root, "inside") == {"m": 2}


# ---------------------------------------------------------------------- standard output, notes


@pytest.mark.parametrize("name", ["", "-"])
def test_standard_output(name):
    result = script(f"""
        import triton_proton as proton
        proton.start({name!r}, backend="host")
        with proton.scope("x", {{"m": 1}}):
            pass
        proton.finalize()
        """)
    Path("out.hatchet").write_text(result.stdout)
    assert metrics(load("out.hatchet"), "x") == {"m": 1}
    assert files() == {"script.py", "out.hatchet"}


def test_the_default_backend_is_reported_once_and_not_at_all_if_quiet():
    code = """
        import triton_proton as proton
        proton.start("a")
        proton.start("b")
        """
    default = {"TRITON_INTERPRET": "1", "PROTON_BACKEND": None}
    printed = script(code, env=default).stderr
    assert printed.count("proton: TRITON_INTERPRET is set") == 1
    assert script(code, env={**default, "PROTON_QUIET": "1"}).stderr == ""
    named = 'import triton_proton as proton\nproton.start("a", backend="host")\n'
    assert script(named).stderr == ""
    assert script(code, env={"TRITON_INTERPRET": "1", "PROTON_BACKEND": "host"}).stderr == ""


def test_the_environment_names_the_backend_where_the_program_does_not(monkeypatch):
    monkeypatch.setenv("PROTON_BACKEND", "abacus")
    with pytest.raises(ValueError, match="Unknown profiler: abacus"):
        proton.start("test")
    assert proton.start("test", backend="host") is not None


def test_importing_the_package_loads_neither_triton_nor_torch():
    result = script("""
        import sys
        import triton_proton
        import triton_proton.hooks, triton_proton.language, triton_proton._runner
        triton_proton.install_as_triton_profiler()
        triton_proton.start("test", hook="triton", backend="host")
        with triton_proton.scope("x", {"flops": 1}):
            pass
        triton_proton.finalize()
        print([name for name in ("triton", "torch", "numpy") if name in sys.modules])
        """)
    assert result.stdout.strip() == "[]"


def test_version_is_the_library_s():
    assert proton.__version__ == _libproton.version() == _libproton.__version__


def test_profile_of_a_session_in_a_directory_that_goes_away(tmp_path):
    directory = tmp_path / "gone"
    directory.mkdir()
    session = proton.start(directory / "test")
    for entry in directory.iterdir():
        entry.unlink()
    os.rmdir(directory)
    with pytest.raises(proton.ProtonError, match="gone"):
        proton.finalize(session)
    assert not flags.profiling_on


def test_memory_is_an_option_of_the_session():
    for wanted in (False, True):
        proton.finalize(proton.start("test", memory=wanted, backend="host"), "hatchet")
        info = load("test.hatchet")["proton"]["info"]
        assert info.get("memory") == ("recorded" if wanted else None)


def test_the_decorator_passes_memory_on():
    proton.profile(lambda: None, name="test", memory=True, backend="host")()
    proton.finalize()
    assert load("test.hatchet")["proton"]["info"]["memory"] == "recorded"


def test_a_trace_is_written_in_chromes_format(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = proton.start("t", data="trace", backend="host")
    with proton.scope("outer", {"loss": 0.5}):
        with proton.scope("inner"):
            pass
    proton.enter_scope("open")
    proton.finalize(session)
    proton.exit_scope("open")
    trace = json.loads(Path("t.chrome_trace").read_text())
    found = {e["name"].partition(":")[0]: e for e in trace["traceEvents"] if e["ph"] == "X"}
    assert set(found) == {"outer", "inner", "open"}
    assert found["inner"]["args"]["call_stack"] == ["ROOT", "outer", "inner"]
    assert found["outer"]["name"] == "outer: <loss, 0.500000>"
    assert found["outer"]["args"]["metrics"] == {"loss": "0.500000"}
    assert found["open"]["args"]["unfinished"] is True
    assert abs(trace["baseTimeNanoseconds"] / 1e9 - time.time()) < 600


def test_the_formats_of_traces_are_refused_for_trees(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = proton.start("t", backend="host")
    with pytest.raises(ValueError, match='needs a session with data="trace"'):
        proton.finalize(session, "perfetto")
    proton.finalize(session, "none")
