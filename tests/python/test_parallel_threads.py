"""Threads that use the package at the same time: nothing is lost, miscounted or mixed up.

With the GIL they take turns; in a free-threaded build they run at once.
"""

import gc
import sys
import sysconfig
import threading

import pytest

import triton_proton as proton
from support import at, load, metrics, names, walk
from triton_proton import _libproton as lib
from triton_proton.hooks import HookManager

THREADS = 8
ROUNDS = 400


@pytest.fixture(autouse=True)
def quick_turns():
    """Threads with a GIL take turns often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def run_at_once(work, count=THREADS):
    """work(number) on `count` threads that start together; their exceptions are the caller's."""
    start = threading.Barrier(count)
    failures = []

    def run(number):
        start.wait(timeout=300)
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def finish():
    proton.finalize()
    return load("test.hatchet")


def kernel(name="k"):
    lib.kernel_begin(name)
    lib.kernel_end()


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this build of Python has a GIL"
)
def test_importing_the_package_leaves_the_gil_disabled():
    assert not sys._is_gil_enabled()


def test_one_scope_object_in_all_threads():
    shared = proton.scope("shared", {"n": 1})

    def work(number):
        for _ in range(ROUNDS):
            with shared:
                with shared:
                    kernel()

    proton.start("test")
    run_at_once(work)
    root = finish()
    assert metrics(root, "shared")["n"] == THREADS * ROUNDS
    assert metrics(root, "shared", "shared")["n"] == THREADS * ROUNDS
    assert metrics(root, "shared", "shared", "k")["count"] == THREADS * ROUNDS


def test_a_scope_object_that_gets_another_name_and_metrics_while_it_is_entered():
    shared = proton.scope("name 0", {"n": 1})

    def work(number):
        for turn in range(ROUNDS):
            if number == 0:
                shared.name = f"name {turn % 3}"
                shared.metrics = {"n": 1, "turn": turn}
            with shared:
                kernel()
            assert repr(shared).startswith("scope('name ")

    proton.start("test")
    run_at_once(work)
    shared.name = "last"
    with shared:
        pass
    root = finish()
    assert names(root) == {"name 0", "name 1", "name 2", "last"}
    parts = [at(root, f"name {index}") for index in range(3)]
    assert sum(part["metrics"]["n"] for part in parts) == THREADS * ROUNDS
    assert sum(metrics(part, "k")["count"] for part in parts) == THREADS * ROUNDS


def test_names_and_metrics_that_threads_share():
    same = [f"name {index}" for index in range(40)]
    own = [[f"{number} of {index}" for index in range(40)] for number in range(THREADS)]

    def work(number):
        for turn in range(ROUNDS):
            with proton.scope(same[turn % 40], {"n": 1, f"metric {turn % 90}": 2}):
                proton.enter_scope(own[number][turn % 40])
                kernel(same[-turn % 40])
                proton.exit_scope(metrics={"n": 1})

    proton.start("test")
    run_at_once(work)
    root = finish()
    assert names(root) == set(same)
    for index, name in enumerate(same):
        assert names(at(root, name)) == {texts[index] for texts in own}
        assert metrics(root, name)["n"] == THREADS * ROUNDS // 40
    counts = [node["metrics"]["count"] for path, node in walk(root) if len(path) == 3]
    assert sum(counts) == THREADS * ROUNDS
    assert sum(value for _, node in walk(root) for key, value in node["metrics"].items()
               if key.startswith("metric ")) == 2 * THREADS * ROUNDS


def test_a_dict_and_a_list_that_change_while_they_are_added():
    values = {"n": 1, "list": [1, 1]}
    stop = threading.Event()

    def change():
        turn = 0
        while not stop.is_set():
            turn += 1
            values[f"more {turn % 50}"] = float(turn)
            values["list"].append(1)
            del values["list"][2:]
            values.pop(f"more {(turn + 25) % 50}", None)

    def work(number):
        for _ in range(ROUNDS):
            try:
                with proton.scope("a", values):
                    pass
            except ValueError as mismatch:  # the list was read while it was longer
                assert "list" in str(mismatch)

    proton.start("test")
    changer = threading.Thread(target=change)
    changer.start()
    try:
        run_at_once(work)
    finally:
        stop.set()
        changer.join()
    found = metrics(finish(), "a")
    assert 0 < found["n"] <= THREADS * ROUNDS


@pytest.mark.parametrize("own", [True, False], ids=["own frames", "public interface"])
def test_paths_of_code_that_threads_share_make_and_drop(own):
    if lib.use_own_frames(own) != own:
        pytest.skip("the frames of this Python are not known")

    def shared(depth):
        if depth:
            shared(depth - 1)
        else:
            kernel("s")

    def work(number):
        for turn in range(ROUNDS // 4):
            shared(turn % 5)
            code = f"def made_{turn}():\n    kernel('m')\n"
            found = {"kernel": kernel}
            exec(compile(code, f"<{number}>", "exec"), found)
            found.pop(f"made_{turn}")()
            if turn % 20 == 0:
                gc.collect(0)

    proton.start("test", context="python")
    try:
        run_at_once(work)
    finally:
        lib.use_own_frames(True)
    kernels = [(path, node["metrics"]["count"]) for path, node in walk(finish())
               if "count" in node["metrics"] and path[-1] in ("s", "m")]
    assert sum(count for path, count in kernels if path[-1] == "s") == THREADS * ROUNDS // 4
    assert {path[-3]: count for path, count in kernels if path[-1] == "m"} == {
        f"<{number}>:2@made_{turn}": 1 for number in range(THREADS) for turn in range(ROUNDS // 4)
    }
    depths = {sum(name.endswith("@shared") for name in path) for path, _ in kernels}
    assert depths == {0, 1, 2, 3, 4, 5}


class LazyDict:
    """Triton's launch metadata."""

    __module__ = "triton.compiler.compiler"

    def __init__(self, name):
        self.data = {"name": name, "function": 0, "stream": 0}
        self.extras = [(lambda: {"flops": 2.0}, ())]


def test_launches_while_hooks_come_and_go():
    stop = threading.Event()

    def launches(number):
        for turn in range(ROUNDS):
            metadata = LazyDict(f"kernel {turn % 7}")
            HookManager.enter(metadata)
            kernel("driver's name")
            HookManager.exit(metadata)

    def sessions():
        turn = 0
        while not stop.is_set():
            turn += 1
            session = proton.start(f"other {turn % 3}", hook="triton")
            lib.launch_filter(None, None)
            proton.deactivate(session)
            proton.activate(session)
            proton.finalize(session, "")

    proton.start("test", hook="triton")
    starter = threading.Thread(target=sessions)
    starter.start()
    try:
        run_at_once(launches)
    finally:
        stop.set()
        starter.join()
    root = finish()
    assert {f"kernel {index}" for index in range(7)} <= names(root)
    total = {"count": 0, "flops": 0.0}
    for index in range(7):
        for key in total:
            total[key] += metrics(root, f"kernel {index}")[key]
    assert total == {"count": THREADS * ROUNDS, "flops": 2.0 * THREADS * ROUNDS}


def test_sessions_of_threads():
    def work(number):
        for turn in range(20):
            name = f"of {number} {turn}"
            session = proton.start(name)
            with proton.scope(name):
                kernel(name)
            proton.finalize(session)
            # Below a scope of the thread that started a session last, if this one was outermost.
            found = [node["metrics"]["count"] for path, node in walk(load(f"{name}.hatchet"))
                     if path[-2:] == (name, name)]
            assert found == [1]

    run_at_once(work, 4)
