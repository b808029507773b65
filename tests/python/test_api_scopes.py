"""scope, cpu_timed_scope, enter_scope, exit_scope, state."""

import asyncio
import copy
import gc
import pickle
import threading
import time
import weakref

import pytest

import triton_proton as proton
from support import at, load, metrics, names, script


def finish():
    proton.finalize()
    return load("test.hatchet")


def test_scopes_do_nothing_without_a_session():
    with proton.scope("a", {"m": 1}) as entered:
        assert isinstance(entered, proton.scope)

    @proton.scope("b")
    def function():
        return 7

    assert function() == 7
    assert proton.enter_scope("c") is None
    assert proton.exit_scope() is None
    assert proton.exit_scope("never entered") is None


def test_context_manager_decorator_and_functions():
    proton.start("test")
    with proton.scope("test0", {"a": 1.0}):
        pass

    @proton.scope("test1", {"a": 1.0})
    def function():
        pass

    function()
    first = proton.enter_scope("test2", metrics={"a": 1.0})
    assert proton.exit_scope() == first
    second = proton.enter_scope("test3")
    assert second == first + 1
    assert proton.exit_scope("test3", metrics={"a": 1.0}) == second
    root = finish()
    assert names(root) == {"test0", "test1", "test2", "test3"}
    for name in names(root):
        assert metrics(root, name) == {"a": 1.0}


def test_scopes_nest_and_depth_follows():
    session = proton.start("test")
    depths = [proton.context.depth(session)]
    with proton.scope("a"):
        depths.append(proton.context.depth(session))
        with proton.scope("b"):
            depths.append(proton.context.depth(session))
        depths.append(proton.context.depth(session))
    depths.append(proton.context.depth(session))
    assert depths == [0, 1, 2, 1, 0]
    assert names(at(finish(), "a")) == {"b"}
    assert proton.context.depth() is None


def test_entering_again_adds_up():
    proton.start("test")
    for _ in range(3):
        with proton.scope("a", {"m": 1.0, "n": 2}):
            pass
    assert metrics(finish(), "a") == {"m": 3.0, "n": 6}


def test_nothing_is_recorded_while_deactivated():
    session = proton.start("test")
    proton.deactivate(session)
    with proton.scope("a", {"m": 1.0}):
        pass
    assert names(finish()) == set()


def test_exit_scope_of_another_name_changes_nothing():
    proton.start("test")
    number = proton.enter_scope("a")
    with pytest.raises(ValueError, match="Scope name mismatch: b != a"):
        proton.exit_scope("b")
    assert proton.exit_scope("a", metrics={"m": 1}) == number
    assert metrics(finish(), "a") == {"m": 1}


def test_exit_scope_without_enter_scope():
    proton.start("test")
    with pytest.raises(IndexError, match="no scope is open"):
        proton.exit_scope()


def test_enter_scope_before_and_exit_scope_after_start():
    assert proton.enter_scope("early") is None
    proton.start("test")
    proton.exit_scope("early")
    with proton.scope("a", {"m": 1}):
        pass
    assert names(finish()) == {"a"}


def test_enter_scope_before_and_exit_scope_after_finalize():
    proton.start("first")
    proton.enter_scope("a")
    proton.finalize()
    assert proton.exit_scope("a") is not None
    proton.start("test")
    assert proton.context.depth(proton.start("test")) == 0


def test_a_mismatch_of_blocks_and_functions_does_not_wedge():
    proton.start("test")
    with proton.scope("a"):
        proton.enter_scope("b")
    assert proton.context.depth(proton.start("test")) == 0
    with proton.scope("c", {"m": 1}):
        pass
    proton.exit_scope("b")  # the end of the block has ended it too
    assert names(finish()) == {"a", "c"}


def test_one_object_entered_again_before_it_is_left():
    session = proton.start("test")
    again = proton.scope("a", {"m": 1})
    with again:
        with again:
            with again:
                assert proton.context.depth(session) == 3
        assert proton.context.depth(session) == 1
    assert proton.context.depth(session) == 0
    root = finish()
    assert metrics(root, "a") == {"m": 1}
    assert metrics(root, "a", "a", "a") == {"m": 1}


def test_decorated_recursion():
    session = proton.start("test")

    @proton.scope("f", {"calls": 1})
    def function(n):
        assert proton.context.depth(session) == 4 - n
        return 1 if n == 0 else n * function(n - 1)

    assert function(3) == 6
    assert proton.context.depth(session) == 0
    assert metrics(finish(), "f", "f", "f", "f") == {"calls": 1}


def test_one_object_in_many_threads():
    proton.start("test")
    shared = proton.scope("shared", {"m": 1})
    barrier = threading.Barrier(16)

    def work(index):
        barrier.wait(timeout=300)
        for _ in range(200):
            with shared:
                with proton.scope(f"t{index}", {"n": 1}):
                    with shared:
                        pass

    threads = [threading.Thread(target=work, args=(index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    root = finish()
    assert metrics(root, "shared") == {"m": 16 * 200}
    for index in range(16):
        assert metrics(root, "shared", f"t{index}") == {"n": 200}
        assert metrics(root, "shared", f"t{index}", "shared") == {"m": 200}


def test_64_threads_with_separate_scopes():
    proton.start("test")

    def work(index):
        for repetition in range(50):
            with proton.scope(f"thread {index}"):
                proton.enter_scope(f"inner {repetition % 5}", metrics={"m": 1})
                proton.exit_scope(f"inner {repetition % 5}")

    threads = [threading.Thread(target=work, args=(index,)) for index in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    root = finish()
    assert len(names(root)) == 64
    for index in range(64):
        for inner in range(5):
            assert metrics(root, f"thread {index}", f"inner {inner}") == {"m": 10}


def test_a_thread_without_scopes_belongs_to_the_current_scopes_of_the_main_thread():
    proton.start("test")
    for name in ("first", "second"):
        with proton.scope(name):
            thread = threading.Thread(target=lambda: proton.scope("back", {"m": 1}).__enter__())
            thread.start()
            thread.join()
    root = finish()
    assert metrics(root, "first", "back") == {"m": 1}
    assert metrics(root, "second", "back") == {"m": 1}


def test_leaving_on_another_thread_is_refused():
    proton.start("test")
    entered = proton.scope("a")
    entered.__enter__()
    caught = []

    def work():
        try:
            entered.__exit__(None, None, None)
        except proton.ProtonError as error:
            caught.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert caught == ["scope 'a' is exited on a thread that did not enter it"]
    entered.__exit__(None, None, None)


def test_an_exception_passes_through_and_the_scope_is_left():
    session = proton.start("test")
    with pytest.raises(ZeroDivisionError):
        with proton.scope("a"):
            with proton.scope("b"):
                1 / 0  # noqa: B018
    assert proton.context.depth(session) == 0

    @proton.scope("c")
    def fails():
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert proton.context.depth(session) == 0


def test_bad_metrics_leave_no_scope_open():
    session = proton.start("test")
    with pytest.raises(TypeError, match="metric 'm': a object is neither"):
        with proton.scope("a", {"m": object()}):
            pytest.fail("the block must not run")
    assert proton.context.depth(session) == 0
    with pytest.raises(TypeError):
        proton.enter_scope("a", metrics={"m": object()})
    assert proton.context.depth(session) == 0
    proton.enter_scope("b")
    with pytest.raises(TypeError):
        proton.exit_scope("b", metrics={"m": object()})
    assert proton.context.depth(session) == 0


@pytest.mark.parametrize("make", [proton.scope, proton.cpu_timed_scope])
def test_wrong_arguments(make):
    with pytest.raises(TypeError):
        make()
    with pytest.raises(TypeError, match="name of a scope must be a str"):
        make(3)
    with pytest.raises(TypeError, match="metrics must be a dict"):
        make("a", 3)
    with pytest.raises(TypeError):
        make("a", {}, None)
    with pytest.raises(TypeError):
        make("a", name="b")
    with pytest.raises(TypeError, match="decorates functions"):
        make("a")(3)


def test_attributes_keywords_and_subclasses():
    scope = proton.scope(metrics={"m": 1}, name="a")
    assert (scope.name, scope.metrics) == ("a", {"m": 1})
    assert proton.scope("b").metrics is None
    assert repr(proton.cpu_timed_scope("c")) == "cpu_timed_scope('c')"
    assert issubclass(proton.cpu_timed_scope, proton.scope)

    class Mine(proton.scope):
        def __init__(self, name, metrics=None):
            self.extra = 1

    class MineTimed(proton.cpu_timed_scope):
        pass

    proton.start("test")
    with Mine("mine", {"m": 1}) as mine, MineTimed("timed"):
        assert mine.extra == 1
    root = finish()
    assert metrics(root, "mine") == {"m": 1}
    assert metrics(root, "mine", "timed")["cpu_time (ns)"] > 0


def test_a_subclass_gives_the_name_in_its_own_init():
    class Layer(proton.scope):
        def __init__(self, number, *, tokens):
            super().__init__(f"layer {number}", {"tokens": tokens})

    class Step(proton.cpu_timed_scope):
        def __init__(self):
            super().__init__(name="step")

    proton.start("test")
    with Step(), Layer(3, tokens=7) as layer:
        pass
    root = finish()
    assert (layer.name, layer.metrics) == ("layer 3", {"tokens": 7})
    assert metrics(root, "step", "layer 3") == {"tokens": 7}
    assert metrics(root, "step")["cpu_time (ns)"] > 0
    with pytest.raises(TypeError, match="unexpected keyword"):
        Layer(3, words=7)


def test_name_and_metrics_of_a_scope_can_be_set():
    scope = proton.scope("a", {"m": 1})
    proton.start("test")
    with scope:
        pass
    scope.name, scope.metrics = "b", {"m": 2}
    with scope:
        pass
    scope.metrics = None
    with scope:
        pass
    root = finish()
    assert (metrics(root, "a"), metrics(root, "b")) == ({"m": 1}, {"m": 2})
    with pytest.raises(TypeError, match="name of a scope must be a str"):
        scope.name = 3
    with pytest.raises(TypeError, match="metrics must be a dict"):
        scope.metrics = 3
    with pytest.raises(ValueError, match="'cpu_time' is reserved"):
        proton.cpu_timed_scope("c").metrics = {"cpu_time": 1}
    with pytest.raises(AttributeError, match="cannot delete"):
        del scope.name


class Named(proton.cpu_timed_scope):
    def __init__(self, number):
        super().__init__(f"number {number}", {"m": [number]})
        self.number = number


def unpickle(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, unpickle])
def test_scopes_are_copied_and_pickled(make):
    outer = proton.scope("outer")
    proton.start("test")
    with outer:  # the copy of an open one is not open
        copied = make(outer)
        named = make(Named(3))
    assert (named.number, named.name, named.metrics) == (3, "number 3", {"m": [3]})
    with make(proton.scope("a", {"m": 1})), named, copied:
        pass
    root = finish()
    assert names(root) == {"outer", "a"}
    assert metrics(root, "a", "number 3")["cpu_time (ns)"] > 0
    assert names(at(root, "a", "number 3")) == {"outer"}


def test_scopes_in_cycles_are_collected():
    class Key(str):
        pass

    key = Key("m")
    held = {key: 1}
    scope = proton.scope("a", held)
    key.scope = scope
    key.itself = key
    gone = weakref.ref(key)
    del key, held, scope
    gc.collect()
    assert gone() is None


def test_any_text_is_a_name():
    proton.start("test")
    odd = [" ", "a/b:c@d", "Größe 大小", "line\nbreak", 'quo"te', "x" * 5000]
    for name in odd:
        with proton.scope(name, {"m": 1}):
            pass
    with proton.scope("lone \udc80", {"m": 1}), proton.scope("", {"m": 1}):
        pass
    root = finish()
    assert names(root) == {*odd, "lone \\udc80"}
    assert names(at(root, "lone \\udc80")) == {"<unnamed>"}


# ---------------------------------------------------------------------- cpu_timed_scope


def test_cpu_time_is_wall_time_and_adds_up():
    proton.start("test")
    start = time.perf_counter_ns()
    for _ in range(2):
        with proton.cpu_timed_scope("a", {"m": 1}):
            time.sleep(0.02)
    elapsed = time.perf_counter_ns() - start
    values = metrics(finish(), "a")
    assert values["m"] == 2
    assert 40e6 <= values["cpu_time (ns)"] <= elapsed


def test_cpu_time_is_exclusive():
    proton.start("test")
    with proton.cpu_timed_scope("outer"):
        with proton.cpu_timed_scope("inner"):
            time.sleep(0.01)
    root = finish()
    assert "cpu_time (ns)" not in root["metrics"]
    outer = metrics(root, "outer")["cpu_time (ns)"]
    inner = metrics(root, "outer", "inner")["cpu_time (ns)"]
    assert outer >= inner >= 10e6


def test_cpu_time_of_a_decorated_function():
    proton.start("test")

    @proton.cpu_timed_scope("f")
    def function():
        time.sleep(0.005)

    function()
    function()
    assert metrics(finish(), "f")["cpu_time (ns)"] >= 10e6


def test_the_name_cpu_time_is_taken():
    with pytest.raises(ValueError, match="cpu_time"):
        proton.cpu_timed_scope("a", {"cpu_time": 1})


# ---------------------------------------------------------------------- generators, coroutines


def test_a_decorated_generator_is_in_its_scope_only_while_it_runs():
    session = proton.start("test")

    @proton.scope("generator", {"calls": 1})
    def numbers(n):
        for i in range(n):
            with proton.scope("step", {"steps": 1}):
                received = yield i
                assert received in (None, "hello")
        return "done"

    iterator = numbers(3)
    with proton.scope("consumer"):
        assert next(iterator) == 0
        with proton.scope("between", {"m": 1}):
            pass
        assert iterator.send("hello") == 1
    assert proton.context.depth(session) == 0
    assert list(iterator) == [2]
    root = finish()
    assert metrics(root, "consumer", "generator") == {"calls": 1}
    assert names(at(root, "consumer")) == {"generator", "between"}


def test_decorated_generators_keep_their_protocol():
    import inspect

    log = []

    @proton.scope("g")
    def generator():
        try:
            try:
                yield 1
            except KeyError:
                yield "caught"
        finally:
            log.append("closed")
        return 5

    assert inspect.isgeneratorfunction(generator)
    iterator = generator()
    next(iterator)
    assert iterator.throw(KeyError()) == "caught"
    iterator.close()
    assert log == ["closed"]

    def outer():
        return (yield from generator())

    iterator = outer()
    assert next(iterator) == 1
    with pytest.raises(StopIteration) as stop:
        next(iterator)
    assert stop.value.value == 5


def test_decorated_coroutines_that_take_turns_are_attributed_each_to_its_own_scope():
    proton.start("test")

    def make(name):
        @proton.scope(name, {"calls": 1})
        async def work():
            for _ in range(5):
                with proton.scope("part", {"m": 1}):
                    pass
                await asyncio.sleep(0)
            return name

        return work

    async def main():
        return await asyncio.gather(*(make(name)() for name in ("a", "b", "c")))

    assert asyncio.run(main()) == ["a", "b", "c"]
    root = finish()
    assert names(root) == {"a", "b", "c"}
    for name in ("a", "b", "c"):
        assert metrics(root, name) == {"calls": 1}
        assert metrics(root, name, "part") == {"m": 5}
        assert names(at(root, name)) == {"part"}


def test_decorated_coroutines_propagate_errors_and_cancellation():
    import inspect

    session = proton.start("test")

    @proton.scope("a")
    async def fails():
        await asyncio.sleep(0)
        raise KeyError("inside")

    @proton.scope("b")
    async def waits():
        await asyncio.sleep(60)

    assert inspect.iscoroutinefunction(fails)

    async def main():
        with pytest.raises(KeyError, match="inside"):
            await fails()
        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert proton.context.depth(session) == 0


def test_decorated_asynchronous_generators():
    import inspect

    session = proton.start("test")
    log = []

    @proton.scope("g", {"calls": 1})
    async def numbers():
        try:
            for i in range(10):
                await asyncio.sleep(0)
                with proton.scope("step", {"m": 1}):
                    pass
                try:
                    received = yield i
                except KeyError:
                    received = yield "caught"
                log.append(received)
        finally:
            log.append("closed")

    assert inspect.isasyncgenfunction(numbers)

    async def main():
        generator = numbers()
        assert await generator.__anext__() == 0
        assert proton.context.depth(session) == 0
        assert await generator.asend("sent") == 1
        assert await generator.athrow(KeyError()) == "caught"
        await generator.aclose()
        return [value async for value in numbers()]

    assert asyncio.run(main()) == list(range(10))
    assert log[:2] == ["sent", "closed"]
    root = finish()
    assert metrics(root, "g") == {"calls": 2}
    assert metrics(root, "g", "step") == {"m": 12}


def test_cpu_time_of_a_coroutine_leaves_out_its_waiting():
    proton.start("test")

    @proton.cpu_timed_scope("a")
    async def work():
        time.sleep(0.01)
        await asyncio.sleep(0.2)

    asyncio.run(work())
    assert 10e6 <= metrics(finish(), "a")["cpu_time (ns)"] < 150e6


# ---------------------------------------------------------------------- states


def test_a_state_is_the_last_level():
    proton.start("test")
    with proton.scope("test0"):
        with proton.state("state"):
            with proton.scope("test1", {"m": 1}):
                pass
    assert metrics(finish(), "test0", "test1", "state") == {"m": 1}


def test_an_inner_state_hides_the_outer_until_it_is_left():
    proton.start("test")
    with proton.state("outer"):
        with proton.state("inner"):
            with proton.scope("a", {"m": 1}):
                pass
        with proton.scope("b", {"m": 1}):
            pass
    with proton.scope("c", {"m": 1}):
        pass
    root = finish()
    assert metrics(root, "a", "inner") == {"m": 1}
    assert metrics(root, "b", "outer") == {"m": 1}
    assert metrics(root, "c") == {"m": 1}
    assert names(at(root, "c")) == set()


def test_states_by_function_and_decorator_and_exceptions():
    proton.start("test")
    proton.enter_state("s")
    with proton.scope("a", {"m": 1}):
        pass
    proton.exit_state()

    @proton.state("d")
    def fails():
        with proton.scope("b", {"m": 1}):
            pass
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    with proton.scope("c", {"m": 1}):
        pass
    root = finish()
    assert metrics(root, "a", "s") == {"m": 1}
    assert metrics(root, "b", "d") == {"m": 1}
    assert metrics(root, "c") == {"m": 1}


def test_states_are_per_thread():
    proton.start("test")

    def work():
        with proton.scope("other", {"m": 1}):
            pass

    with proton.state("s"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert metrics(finish(), "other") == {"m": 1}


def test_metadata_state_has_two_levels():
    from triton_proton.state import get_metadata_state_name

    assert get_metadata_state_name() == "__proton_launch_metadata"
    assert get_metadata_state_name("k") == "__proton_launch_metadata:k"
    proton.start("test")
    with proton.metadata_state("k"):
        with proton.scope("a", {"m": 1}):
            pass
    with proton.metadata_state():
        with proton.scope("b", {"m": 1}):
            pass
    root = finish()
    assert metrics(root, "a", "__proton_launch_metadata", "k") == {"m": 1}
    assert metrics(root, "b", "__proton_launch_metadata") == {"m": 1}


def test_states_without_a_session():
    proton.exit_state()
    with proton.state("s"):
        proton.enter_state("t")
        proton.exit_state()


def test_names_without_end_go_into_other(tmp_path):
    script(
        """
        import triton_proton as proton

        @proton.scope("known later", {"n": 1})
        def function():
            pass

        proton.start("test", backend="host")
        for i in range(30):
            with proton.scope(f"request {i}", {"n": 1}):
                pass
        function()
        with proton.scope("request 0", {"n": 1}):
            function()
        for i in range(30):
            proton.enter_scope(f"step {i}", metrics={"n": 1})
            proton.exit_scope()
        proton.finalize()
        """,
        env={"PROTON_MAX_CHILDREN": "10"},
    )
    root = load(tmp_path / "test.hatchet")
    assert root["proton"]["losses"] == {"lost: name beyond the limits, in (other)": 51}
    assert metrics(root, "request 9") == {"n": 1}
    assert metrics(root, "(other)") == {"n": 20 + 1 + 30}
    # A decorator that was folded once gets its own node where there is space.
    assert metrics(root, "request 0", "known later") == {"n": 1}
