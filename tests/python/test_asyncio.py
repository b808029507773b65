"""Scopes, states and launches of asyncio tasks, which take turns on one thread."""

import asyncio
import ctypes
import sys
import threading

import pytest

from support import load, names, walk
from test_cmd_program import libproton

import triton_proton as proton
from triton_proton import _libproton


@pytest.fixture(autouse=True, params=[True, False], ids=["own frames", "public frames"])
def session(tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    if _libproton.use_own_frames(request.param) != request.param:
        pytest.skip("the frames of this Python are not known")
    session = proton.start("test", backend="host")
    yield session
    proton.finalize()
    _libproton.use_own_frames(True)


def launch(name: str = "kernel") -> None:
    _libproton.kernel_begin(name)
    _libproton.kernel_end()


@pytest.fixture
def launch_without_gil():
    """As launch(), while other threads of Python may run."""
    library = ctypes.CDLL(str(libproton()))
    library.proton_frame.restype = ctypes.c_uint32
    library.proton_frame.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.proton_kernel_begin.argtypes = [ctypes.c_uint32]

    def run(name: str = "kernel") -> None:
        library.proton_kernel_begin(library.proton_frame(name.encode(), len(name)))
        library.proton_kernel_end()

    return run


def paths() -> dict[str, int]:
    """Launches by path."""
    proton.finalize()
    found = {}
    for path, node in walk(load("test.hatchet")):
        if node["metrics"].get("count"):
            found["/".join(path)] = node["metrics"]["count"]
    return found


async def pause() -> None:
    await asyncio.sleep(0)


def test_tasks_that_take_turns():
    async def work(name: str) -> None:
        for _ in range(3):
            with proton.scope(name):
                launch()
                await pause()
                launch()
                with proton.scope("inner"):
                    await pause()
                    launch()
            await pause()
            launch("outside")

    async def main() -> None:
        await asyncio.gather(*(work(name) for name in "abc"))

    asyncio.run(main())
    expected = {f"{name}/kernel": 6 for name in "abc"}
    expected |= {f"{name}/inner/kernel": 3 for name in "abc"}
    assert paths() == expected | {"outside": 9}


def test_a_failed_exit_does_not_keep_its_task_current():
    """A launch asks for the task that runs, not for the one that last called Proton."""
    other = proton.scope("other")

    async def fails() -> None:
        with proton.scope("fails"):
            await pause()
            with pytest.raises(proton.ProtonError, match="a thread that did not enter it"):
                other.__exit__(None, None, None)
            await pause()
            await pause()

    async def launches() -> None:
        with proton.scope("launches"):
            for _ in range(4):
                await pause()
                launch()

    async def main() -> None:
        await asyncio.gather(fails(), launches())

    asyncio.run(main())
    assert paths() == {"launches/kernel": 4}


def test_task_without_scopes():
    async def plain() -> None:
        for _ in range(3):
            launch("plain")
            await pause()

    async def scoped() -> None:
        with proton.scope("scoped"):
            for _ in range(3):
                await pause()
                launch("scoped")

    async def main() -> None:
        await asyncio.gather(scoped(), plain())

    asyncio.run(main())
    assert paths() == {"plain": 3, "scoped/scoped": 3}


def test_task_is_in_the_scopes_it_was_made_in():
    async def child(name: str) -> None:
        await pause()
        launch(name)
        with proton.scope("own"):
            await pause()
            launch(name)

    async def main() -> None:
        launch("main")
        with proton.scope("outer"):
            with proton.scope("maker"):
                first = asyncio.create_task(child("a"))
            second = asyncio.create_task(child("b"))
            launch("main")
        await asyncio.gather(first, second)
        launch("main")

    with proton.scope("sync"):
        asyncio.run(main())
        launch("after")
    launch("after")
    assert paths() == {
        "sync/main": 2,
        "sync/outer/main": 1,
        "sync/outer/maker/a": 1,
        "sync/outer/maker/own/a": 1,
        "sync/outer/b": 1,
        "sync/outer/own/b": 1,
        "sync/after": 1,
        "after": 1,
    }


def test_exits_in_any_order():
    """The scope that is entered first is left first: nothing else is cut."""
    order = []

    async def work(name: str, turns: int) -> None:
        with proton.scope(name):
            for _ in range(turns):
                await pause()
            launch()
        order.append(name)
        await asyncio.sleep(0.01)
        launch("later")

    async def main() -> None:
        await asyncio.gather(work("first", 1), work("second", 5), work("third", 3))

    asyncio.run(main())
    assert order == ["first", "third", "second"]
    assert paths() == {"first/kernel": 1, "second/kernel": 1, "third/kernel": 1, "later": 3}


def test_one_scope_object_in_many_tasks():
    shared = proton.scope("shared")

    async def work(name: str) -> None:
        with proton.scope(name):
            with shared:
                await pause()
                launch()
            await pause()
            launch("after")

    async def main() -> None:
        await asyncio.gather(*(work(name) for name in "ab"))

    asyncio.run(main())
    expected = {f"{name}/shared/kernel": 1 for name in "ab"}
    assert paths() == expected | {f"{name}/after": 1 for name in "ab"}


def test_enter_scope_and_exit_scope():
    async def work(name: str) -> None:
        proton.enter_scope(name)
        await pause()
        launch()
        proton.exit_scope(name)

    async def main() -> None:
        await asyncio.gather(*(work(name) for name in "abc"))
        with pytest.raises(IndexError):
            proton.exit_scope()

    asyncio.run(main())
    assert paths() == {f"{name}/kernel": 1 for name in "abc"}


def test_states():
    async def work(name: str) -> None:
        with proton.state(name):
            await pause()
            launch()
        await pause()
        launch()

    async def main() -> None:
        await asyncio.gather(*(work(name) for name in "ab"))

    asyncio.run(main())
    assert paths() == {"a/kernel": 1, "b/kernel": 1, "kernel": 2}


def test_metrics_and_cpu_time():
    async def work(name: str) -> None:
        with proton.cpu_timed_scope(name, {"m": 1}):
            await pause()
            with proton.scope("inner", {"m": 2}):
                await pause()

    async def main() -> None:
        await asyncio.gather(*(work(name) for name in "ab"))

    asyncio.run(main())
    proton.finalize()
    root = load("test.hatchet")
    assert names(root) == {"a", "b"}
    for child in root["children"]:
        assert child["metrics"]["m"] == 1 and child["metrics"]["cpu_time (ns)"] > 0
        assert names(child) == {"inner"}


def test_asynchronous_context_manager_and_errors():
    class Region:
        def __init__(self, name: str) -> None:
            self.scope = proton.scope(name)

        async def __aenter__(self) -> None:
            await pause()
            self.scope.__enter__()

        async def __aexit__(self, *error: object) -> None:
            await pause()
            self.scope.__exit__(*error)

    async def work(name: str) -> None:
        try:
            async with Region(name):
                await pause()
                launch()
                raise KeyError(name)
        except KeyError:
            launch("handler")

    async def main() -> None:
        await asyncio.gather(*(work(name) for name in "ab"))

    asyncio.run(main())
    assert paths() == {"a/kernel": 1, "b/kernel": 1, "handler": 2}


def test_cancelled_tasks_and_generators_that_the_loop_closes():
    async def numbers():
        with proton.scope("generator"):
            try:
                for i in range(10):
                    launch()
                    yield i
            finally:
                launch("closed")

    async def waits() -> None:
        with proton.scope("waits"):
            await asyncio.sleep(60)

    async def work() -> None:
        async for _ in numbers():
            break  # the loop closes it, in a separate task
        with proton.scope("work"):
            task = asyncio.create_task(waits())
            await pause()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            launch()

    async def main() -> None:
        await asyncio.gather(work(), work())

    asyncio.run(main())
    launch("end")
    found = paths()
    assert found.pop("end") == 1
    assert sum(found.values()) == 6
    assert sum(count for path, count in found.items() if path.startswith("work/")) <= 2 + 2
    assert all("waits" not in path for path in found)


def test_loops_on_several_threads():
    async def work(name: str) -> None:
        for _ in range(20):
            with proton.scope(name):
                await pause()
                launch()

    async def main(prefix: str) -> None:
        await asyncio.gather(*(work(prefix + name) for name in "ab"))

    threads = [threading.Thread(target=lambda n=n: asyncio.run(main(n))) for n in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths() == {f"{x}{y}/kernel": 20 for x in "xyz" for y in "ab"}


def test_session_that_ends_in_a_task():
    async def waits(event: asyncio.Event) -> None:
        with proton.scope("old"):
            await event.wait()
        with proton.scope("new"):
            await pause()
            launch()

    async def main() -> None:
        event = asyncio.Event()
        tasks = [asyncio.create_task(waits(event)) for _ in range(2)]
        await pause()
        proton.finalize()
        proton.start("test", backend="host")
        event.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert paths() == {"new/kernel": 2}


def test_thread_that_a_task_starts_follows_it(session):
    async def main() -> None:
        with proton.scope("task"):
            await asyncio.to_thread(launch)
            assert proton.context.depth(session) == 1

    asyncio.run(main())
    assert paths() == {"task/kernel": 1}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no eager tasks before Python 3.12")
def test_eager_tasks():
    async def work(name: str) -> None:
        with proton.scope(name):
            launch()
            await pause()
            launch()

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        with proton.scope("main"):
            tasks = [asyncio.create_task(work(name)) for name in "ab"]
            launch()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert paths() == {"main/a/kernel": 2, "main/b/kernel": 2, "main/kernel": 1}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no eager tasks before Python 3.12")
def test_eager_tasks_that_launch_without_the_gil(launch_without_gil):
    launch = launch_without_gil

    async def work(name: str) -> None:
        launch("before")
        with proton.scope(name):
            launch(name)
            await pause()
            launch(name)
        launch("after")

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        launch("main")
        with proton.scope("maker"):
            launch("main")
            tasks = [asyncio.create_task(work(name)) for name in "ab"]
            launch("main")
        await asyncio.gather(*tasks)
        launch("main")

    asyncio.run(main())
    assert paths() == {
        "main": 2,
        "maker/main": 2,
        "maker/before": 2,
        "maker/a/a": 2,
        "maker/b/b": 2,
        "maker/after": 2,
    }


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no eager tasks before Python 3.12")
def test_eager_tasks_in_eager_tasks_and_without_await():
    async def inner(name: str) -> None:
        launch(name)
        with proton.scope(name):
            launch(name)

    async def outer(name: str) -> None:
        with proton.scope(name):
            task = asyncio.create_task(inner("inner"))
            launch(name)
            assert task.done()
            await pause()
            launch(name)

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        await asyncio.gather(*(outer(name) for name in "ab"))

    asyncio.run(main())
    expected = {f"{name}/{name}": 2 for name in "ab"}
    expected |= {f"{name}/inner": 1 for name in "ab"}
    assert paths() == expected | {f"{name}/inner/inner": 1 for name in "ab"}


def test_tasks_that_launch_without_the_gil(launch_without_gil):
    async def inside(name: str) -> None:
        await pause()
        launch_without_gil(name)

    async def work(name: str) -> None:
        for _ in range(3):
            launch_without_gil("outside")
            with proton.scope(name):
                await pause()
                launch_without_gil(name)
                await inside(name)
            await pause()

    async def main() -> None:
        await asyncio.gather(*(work(name) for name in "abc"))

    asyncio.run(main())
    assert paths() == {f"{name}/{name}": 6 for name in "abc"} | {"outside": 9}


def test_event_loop_below_a_generator(launch_without_gil):
    """A generator is the outermost frame of all tasks then."""

    async def work(name: str) -> None:
        with proton.scope(name):
            await pause()
            launch_without_gil(name)
            await pause()
        launch_without_gil(name)

    async def main() -> None:
        launch_without_gil("main")
        await asyncio.gather(*(work(name) for name in "ab"))
        launch_without_gil("main")

    def generator():
        yield asyncio.run(main())

    assert list(generator()) == [None]
    assert paths() == {"main": 2, "a/a": 1, "b/b": 1, "a": 1, "b": 1}


def test_launches_on_threads_of_an_executor(launch_without_gil):
    async def main() -> None:
        loop = asyncio.get_running_loop()
        for name in "ab":
            with proton.scope(name):
                await loop.run_in_executor(None, launch_without_gil)
                await asyncio.to_thread(launch_without_gil)
        await loop.run_in_executor(None, launch_without_gil, "outside")

    asyncio.run(main())
    assert paths() == {"a/kernel": 2, "b/kernel": 2, "outside": 1}
