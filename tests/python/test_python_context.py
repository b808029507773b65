"""The context "python": where in the program something was recorded."""

import ctypes
import gc
import functools
import inspect
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

import pytest

import triton_proton as proton
from support import at, load, metrics, names, walk
from test_cmd_program import CC, ROOT, needs_compiler
from triton_proton import _libproton as lib

HERE = __file__


@pytest.fixture(autouse=True, params=["own frames", "public interface"])
def way(request):
    """Both ways of finding frames have to pass; a Python with unknown frame layout has one."""
    own = request.param == "own frames"
    if lib.use_own_frames(own) != own:
        pytest.skip("the frames of this Python are not known")
    yield
    lib.use_own_frames(True)


def finish():
    proton.finalize()
    return load("test.hatchet")


def kernel(name="k"):
    lib.kernel_begin(name)
    lib.kernel_end()


def kernel_paths(root, name="k"):
    return {path[:-1]: node["metrics"]["count"] for path, node in walk(root) if path[-1] == name}


def line_of(function, text):
    source, first = inspect.getsourcelines(function)
    return first + next(index for index, line in enumerate(source) if text in line)


def frame(function, text):
    return f"{HERE}:{line_of(function, text)}@{function.__code__.co_name}"


def test_paths_are_files_lines_and_functions_root_first():
    def outer():
        inner()

    def inner():
        kernel()
        kernel()

    proton.start("test", context="python")
    outer()
    paths = kernel_paths(finish())
    first, second = line_of(inner, "kernel()"), line_of(inner, "kernel()") + 1
    below = frame(kernel, "kernel_begin")
    ends = {path[-3:] for path in paths}
    assert ends == {
        (frame(outer, "inner()"), f"{HERE}:{first}@inner", below),
        (frame(outer, "inner()"), f"{HERE}:{second}@inner", below),
    }
    assert all(count == 1 for count in paths.values())
    path = next(iter(paths))
    assert any("@test_paths_are_files_lines_and_functions_root_first" in name for name in path)
    assert "@<module>" in path[0] or "runpy" not in path[0]


def test_a_loop_is_one_path():
    proton.start("test", context="python")
    for _ in range(1000):
        kernel()
    assert list(kernel_paths(finish()).values()) == [1000]


def test_two_calls_on_one_line_are_one_path():
    proton.start("test", context="python")
    kernel(), kernel()  # noqa: B018
    assert list(kernel_paths(finish()).values()) == [2]


def test_frames_of_the_package_do_not_appear():
    proton.start("test", context="python")

    @proton.scope("decorated")
    def function():
        with proton.state("state"):
            kernel()

    def generator():
        yield kernel()

    function()
    list(proton.scope("g")(generator)())
    for path, _ in walk(finish()):
        assert "triton_proton/" not in path[-1], path


def test_the_path_contains_metrics_of_scopes_and_the_state_but_no_scopes():
    proton.start("test", context="python")
    with proton.scope("scope", {"m": 1}):
        with proton.state("state"):
            kernel()
    root = finish()
    paths = kernel_paths(root)
    assert [path[-1] for path in paths] == ["state"]
    assert not any("scope" == name for path in paths for name in path)
    carriers = [path for path, node in walk(root) if node["metrics"].get("m") == 1]
    this = "test_the_path_contains_metrics_of_scopes_and_the_state_but_no_scopes"
    assert len(carriers) == 1 and carriers[0][-1].endswith("@" + this)


def test_shadow_and_python_sessions_side_by_side():
    proton.start("test")
    proton.start("other", context="python")
    with proton.scope("scope"):
        kernel()
    root = finish()
    assert metrics(root, "scope", "k")["count"] == 1
    assert len(kernel_paths(load("other.hatchet"))) == 1


def test_recursion_has_a_level_for_each_call():
    def down(n):
        if n:
            down(n - 1)
        else:
            kernel()

    proton.start("test", context="python")
    down(200)
    ((path, count),) = kernel_paths(finish()).items()
    assert count == 1
    assert path.count(frame(down, "down(n - 1)")) == 200


def test_a_code_object_at_a_reused_address_is_not_taken_for_the_old_one():
    proton.start("test", context="python")
    addresses = set()
    for index in range(500):
        names_of_code = {"kernel": kernel}
        code = compile(f"def made_{index}():\n    kernel()\n", f"<made {index}>", "exec")
        exec(code, names_of_code)
        addresses.add(id(names_of_code[f"made_{index}"].__code__))
        names_of_code[f"made_{index}"]()
        del names_of_code, code
        gc.collect(0)
    if len(addresses) == 500:
        pytest.skip("this allocator uses no address again, so there is nothing to mistake")
    paths = kernel_paths(finish())
    assert {path[-2] for path in paths} == {f"<made {i}>:2@made_{i}" for i in range(500)}
    assert set(paths.values()) == {1}


@pytest.mark.skipif(
    sys.version_info < (3, 14) and bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="free-threaded Python 3.13 itself keeps code objects",
)
def test_code_objects_are_not_kept_alive():
    import weakref

    proton.start("test", context="python")
    names_of_code = {"kernel": kernel}
    exec(compile("def made():\n    kernel()\n", "<made>", "exec"), names_of_code)
    names_of_code["made"]()
    gone = weakref.ref(names_of_code["made"].__code__)
    del names_of_code
    gc.collect()
    assert gone() is None


def test_generators_and_threads_have_their_own_paths():
    def produce():
        while True:
            kernel()
            yield

    def consume(iterator):
        next(iterator)

    proton.start("test", context="python")
    iterator = produce()
    consume(iterator)
    thread = threading.Thread(target=consume, args=(iterator,))
    thread.start()
    thread.join()
    paths = kernel_paths(finish())
    tails = [path[-3:-1] for path in paths]
    step = (frame(consume, "next(iterator)"), frame(produce, "kernel()"))
    assert tails == [step, step]
    assert sum("threading.py" in path[0] for path in paths) == 1


def test_names_that_are_not_utf8():
    names_of_code = {"kernel": kernel}
    exec(compile("def odd():\n    kernel()\n", "bad\udcff.py", "exec"), names_of_code)
    proton.start("test", context="python")
    names_of_code["odd"]()
    ((path, _),) = kernel_paths(finish()).items()
    assert path[-2] == "bad\\udcff.py:2@odd"


def test_exceptions_in_flight_stay():
    proton.start("test", context="python")
    try:
        raise KeyError("mine")
    except KeyError as error:
        kernel()
        assert error.args == ("mine",)
    try:
        try:
            raise ValueError("inner")
        finally:
            kernel()
    except ValueError as error:
        assert error.args == ("inner",)
    assert len(kernel_paths(finish())) == 2


def test_many_different_paths():
    source = "\n".join(f"def f{i}(): g(kernel)" for i in range(3000))
    names_of_code = {"kernel": kernel, "g": lambda run: run()}
    exec(compile(source, "<many>", "exec"), names_of_code)
    proton.start("test", context="python")
    for index in range(3000):
        names_of_code[f"f{index}"]()
    paths = kernel_paths(finish())
    assert len(paths) == 3000
    for path in paths:
        name = path[-3]
        line, _, function = name.removeprefix("<many>:").partition("@")
        assert function == f"f{int(line) - 1}"


def libproton():
    """The library itself, by ctypes, which gives the GIL away around each call."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/libproton.so" in line:
            return ctypes.CDLL(line.split(maxsplit=5)[5])
    raise AssertionError("libproton is not loaded")


def test_a_caller_without_the_gil_gets_its_thread_s_path():
    library = libproton()
    frame_number = library.proton_frame(b"k", 1)

    def calls():
        library.proton_kernel_begin(frame_number)
        library.proton_kernel_end()

    proton.start("test", context="python")
    stop = threading.Event()
    busy = threading.Thread(target=lambda: [None for _ in iter(stop.is_set, True)])
    busy.start()
    threads = [threading.Thread(target=lambda: [calls() for _ in range(100)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    busy.join()
    ((path, count),) = kernel_paths(finish()).items()
    assert count == 400
    assert path[-1] == frame(calls, "proton_kernel_begin")


def test_a_thread_that_python_has_never_seen_has_no_path():
    library = libproton()
    frame_number = library.proton_frame(b"native", 6)
    thread = ctypes.c_ulong()
    proton.start("test", context="python")
    libc = ctypes.CDLL(None)
    # The kernel begins on a separate thread and never ends; only the lookup of its context matters.
    create = libc.pthread_create
    create.argtypes = [ctypes.c_void_p] * 4
    begin = ctypes.cast(library.proton_kernel_begin, ctypes.c_void_p)
    assert create(ctypes.byref(thread), None, begin, frame_number) == 0
    assert libc.pthread_join(thread, None) == 0
    kernel()
    assert list(kernel_paths(finish()).values()) == [1]


@needs_compiler
def test_a_thread_that_python_has_never_seen_has_no_depth(tmp_path):
    source = tmp_path / "depth.c"
    source.write_text("""
        #include <libproton/proton.h>
        #include <pthread.h>
        static void *run(void *session)
        {
            size_t depth = 99;
            return (void *)(proton_context_depth(*(int *)session, &depth, NULL) ? 98 : depth);
        }
        long depth_on_a_thread(int session)
        {
            pthread_t thread;
            void *depth = (void *)97;
            if (pthread_create(&thread, NULL, run, &session) == 0)
                pthread_join(thread, &depth);
            return (long)depth;
        }
    """)
    command = [CC, "-shared", "-fPIC", "-I", ROOT / "include", "-o", tmp_path / "depth.so", source]
    subprocess.run([*command, libproton()._name, "-pthread"], check=True, timeout=300)
    session = proton.start("test", context="python")
    assert lib.get_context_depth(session) > 0
    assert ctypes.CDLL(str(tmp_path / "depth.so")).depth_on_a_thread(session) == 0


def test_the_number_of_a_path_is_the_same_each_time():
    numbers = {lib.source_context() for _ in range(10)}
    assert len(numbers) == 1
    assert lib.source_context() not in numbers


def test_root_has_no_kernels():
    proton.start("test", context="python")
    kernel()
    root = finish()
    assert "k" not in names(root)
    assert at(root)["metrics"]["count"] == 0


def test_a_thread_does_not_mistake_code_that_another_made_and_dropped():
    proton.start("test", context="python")
    turn, done = threading.Semaphore(0), threading.Semaphore(0)
    work = []

    def run():
        for _ in range(300):
            turn.acquire()
            work.pop()()
            done.release()

    thread = threading.Thread(target=run)
    thread.start()
    addresses = set()
    for index in range(300):
        names_of_code = {"kernel": kernel}
        exec(compile(f"def made_{index}():\n    kernel()\n", f"<{index}>", "exec"), names_of_code)
        work.append(names_of_code.pop(f"made_{index}"))
        addresses.add(id(work[0].__code__))
        turn.release()
        done.acquire()
        del names_of_code
        gc.collect(0)
    thread.join()
    if len(addresses) == 300:
        pytest.skip("this allocator uses no address again, so there is nothing to mistake")
    paths = kernel_paths(finish())
    assert {path[-2] for path in paths} == {f"<{i}>:2@made_{i}" for i in range(300)}


def test_the_same_code_below_different_callers():
    def inner():
        kernel()

    def left():
        inner()

    def right():
        inner()

    proton.start("test", context="python")
    for _ in range(10):
        left()
        right()
        inner()
    paths = kernel_paths(finish())
    assert sorted(paths.values()) == [10, 10, 10]
    assert {path[-3].partition("@")[2] for path in paths} == {
        "left", "right", "test_the_same_code_below_different_callers"
    }


# ---------------------------------------------------------------------- both ways find the same


def numbers():
    """The caller's path by both ways, seen for the first time and again."""
    found = []
    for own in (False, True, True, False):
        lib.use_own_frames(own)
        found.append(lib.source_context())
    return found


def in_generators():
    def inner():
        yield numbers()

    def outer():
        yield from inner()

    yield from outer()


def in_a_generator_advanced_elsewhere():
    generator = in_generators()

    def elsewhere():
        return next(generator)

    yield elsewhere()


def in_comprehensions():
    yield from [numbers() for _ in range(1)]
    yield from {0: numbers() for _ in range(1)}.values()
    yield from (numbers() for _ in range(1))


def in_coroutines():
    async def inner():
        return numbers()

    async def outer():
        return await inner()

    try:
        outer().send(None)
    except StopIteration as result:
        yield result.value


def in_calls_from_c():
    yield from map(lambda _: numbers(), [0])
    yield functools.reduce(lambda _, __: numbers(), [0, 0])
    found = []
    sorted([1], key=lambda _: found.append(numbers()))
    callback = ctypes.CFUNCTYPE(None)(lambda: found.append(numbers()))
    callback()
    ctypes.PYFUNCTYPE(None)(lambda: found.append(numbers()))()
    yield from found


def in_classes():
    found = []

    class Meta(type):
        def __call__(cls):
            found.append(numbers())
            return super().__call__()

    class Made(metaclass=Meta):
        found.append(numbers())

        def __init__(self):
            found.append(numbers())

        def __del__(self):
            found.append(numbers())

        def __getattr__(self, name):
            found.append(numbers())

        def __lt__(self, other):
            found.append(numbers())
            return True

    class Plain:
        def __init__(self):
            found.append(numbers())

    for _ in range(50):  # calls of classes get a specialised instruction
        Plain()
    made = Made()
    made.missing
    made < made
    del made
    yield from found


def in_code_made_at_run_time():
    yield eval("numbers()")
    found = {}
    exec("found = numbers()", globals(), found)
    yield found["found"]


def in_handlers():
    try:
        raise ValueError
    except ValueError:
        yield numbers()
    finally:
        yield numbers()


def in_trace_functions():
    found = []

    def trace(frame, event, arg):
        sys.settrace(None)
        found.append(numbers())

    before = sys.gettrace()
    sys.settrace(trace)
    (lambda: None)()
    sys.settrace(before)
    yield from found


def in_deep_recursion():
    def down(n):
        return down(n - 1) if n else numbers()

    for depth in (3, 30, 700, 63, 64, 65):
        yield down(depth)


def in_threads():
    found = []
    threads = [threading.Thread(target=lambda: found.append(numbers())) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    yield from found


def in_greenlets():
    greenlet = pytest.importorskip("greenlet")
    found = []

    def run(other=None):
        found.append(numbers())
        greenlet.getcurrent().parent.switch()
        found.append(numbers())
        if other:
            other.switch()

    second = greenlet.greenlet(run)
    first = greenlet.greenlet(run)
    second.switch()
    found.append(numbers())
    first.switch(second)
    found.append(numbers())
    first.switch()
    yield from found


SITUATIONS = [value for name, value in list(globals().items()) if name.startswith("in_")]


@pytest.mark.parametrize("situation", SITUATIONS)
def test_both_ways_find_the_same_frames(situation):
    proton.start("test", context="python")
    found = list(situation())
    assert found
    for each in found:
        assert len(set(each)) == 1 and each[0] != 0, each


def test_frames_are_known_in_the_pythons_that_were_looked_at():
    if (3, 11) <= sys.version_info[:2] <= (3, 15) and sys.version_info.releaselevel == "final":
        assert lib.use_own_frames(True)
    else:
        assert not lib.use_own_frames(True)
