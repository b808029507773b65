"""Hook, HookManager and LaunchHook, without Triton and with something that looks like its knobs."""

import sys
import threading
import types

import pytest

import triton_proton as proton
from support import at, load, metrics, names, walk
from triton_proton import _libproton as lib
from triton_proton.hooks import Hook, HookManager, LaunchHook


class Launch:
    """Launch metadata of a shape that the extension does not know."""

    def __init__(self, name, compute=None):
        self.data = {"name": name, "function": 0, "stream": 0}
        self.compute = compute

    def get(self):
        if self.compute:
            self.data = self.data | self.compute()
        return self.data


class LazyDict:
    """Triton's own, which the extension reads without its get()."""

    __module__ = "triton.compiler.compiler"

    def __init__(self, name, compute=None, *more):
        self.data = {"name": name, "function": 0, "stream": 0}
        self.extras = [(function, ()) for function in (compute, *more) if function]

    def get(self):
        pytest.fail("the extension does not know the shape")


shape = Launch


@pytest.fixture(params=[Launch, LazyDict])
def shapes(request, monkeypatch):
    """The test runs with each shape of launch metadata."""
    monkeypatch.setattr(sys.modules[__name__], "shape", request.param)


def launch(name, compute=None):
    """A kernel launch as a backend and Triton see it."""
    metadata = shape(name, compute)
    HookManager.enter(metadata)
    lib.kernel_begin(name)
    lib.kernel_end()
    HookManager.exit(metadata)


class Counting(Hook):
    def __init__(self, priority=0):
        self.priority = priority
        self.log = []

    def enter(self, metadata):
        self.log.append("enter")

    def exit(self, metadata):
        self.log.append("exit")

    def activate(self):
        self.log.append("activate")

    def deactivate(self):
        self.log.append("deactivate")


# ---------------------------------------------------------------------- HookManager


def test_activation_follows_the_session():
    hook = Counting()
    session = proton.start("test", hook=hook)
    assert HookManager.active_hooks == [hook]
    assert HookManager.session_hooks[session][hook] is True
    proton.activate(session)
    proton.activate(session)
    assert HookManager.active_hooks == [hook]
    proton.deactivate(session)
    assert HookManager.active_hooks == []
    assert HookManager.session_hooks[session][hook] is False
    proton.deactivate(session)
    proton.activate()
    assert HookManager.active_hooks == [hook]
    proton.finalize()
    assert HookManager.active_hooks == []
    assert session not in HookManager.session_hooks
    assert hook.log == ["activate", "deactivate", "activate", "deactivate"]


def test_a_hook_of_two_sessions_stays_until_the_last_is_paused():
    hook = Counting()
    first, second = proton.start("a", hook=hook), proton.start("b", hook=hook)
    assert HookManager.active_hooks == [hook]
    proton.deactivate(first)
    assert HookManager.active_hooks == [hook]
    proton.finalize(second)
    assert HookManager.active_hooks == []
    proton.activate(first)
    assert HookManager.active_hooks == [hook]
    proton.finalize()
    assert hook.log == ["activate", "deactivate", "activate", "deactivate"]


def test_hooks_run_by_priority_and_leave_in_reverse():
    order = []

    class Named(Hook):
        def __init__(self, name, priority):
            self.name, self.priority = name, priority

        def enter(self, metadata):
            order.append(f"+{self.name}")

        def exit(self, metadata):
            order.append(f"-{self.name}")

    proton.start("a", hook=Named("low", 1))
    proton.start("b", hook=Named("high", 200))
    proton.start("c", hook="triton")
    assert [type(hook).__name__ for hook in HookManager.active_hooks] == [
        "Named", "LaunchHook", "Named",
    ]
    launch("k")
    assert order == ["+high", "+low", "-low", "-high"]


def test_launch_hook_is_one_per_process():
    assert LaunchHook() is LaunchHook()
    proton.start("a", hook="triton")
    proton.start("b", hook="triton")
    assert HookManager.active_hooks == [LaunchHook()]
    HookManager.unregister()
    assert HookManager.active_hooks == [] and not HookManager.session_hooks


class Chain:
    """Triton's HookChain."""

    def __init__(self):
        self.calls = []

    def add(self, call):
        if call not in self.calls:
            self.calls.append(call)

    def remove(self, call):
        if call in self.calls:
            self.calls.remove(call)


CHAINS = ("kernel_load_end_hook", "kernel_unload_hook", "launch_enter_hook", "launch_exit_hook")


@pytest.fixture
def knobs(monkeypatch):
    module = types.ModuleType("triton.knobs")
    module.runtime = types.SimpleNamespace(**{name: Chain() for name in CHAINS})
    monkeypatch.setitem(sys.modules, "triton.knobs", module)
    return module


def test_registered_in_triton_while_a_hook_is_active(knobs):
    other = object()
    knobs.runtime.launch_enter_hook.add(other)
    session = proton.start("test", hook="triton")
    again = proton.start("again", hook=Counting())
    for name in CHAINS:
        calls = [call for call in getattr(knobs.runtime, name).calls if call is not other]
        assert len(calls) == 1, name
    proton.deactivate(session)
    assert len(knobs.runtime.launch_exit_hook.calls) == 1
    proton.finalize(again)
    for name in CHAINS:
        expected = [other] if name == "launch_enter_hook" else []
        assert getattr(knobs.runtime, name).calls == expected
    proton.activate(session)
    assert len(knobs.runtime.launch_exit_hook.calls) == 1


def test_loading_and_unloading_a_kernel_reaches_the_hooks(knobs):
    """Triton calls kernel_load_end_hook and kernel_unload_hook with these arguments, or more."""
    seen = []

    class Named(Hook):
        def __init__(self, priority):
            self.priority = priority

        def init_handle(self, module, function, name, metadata_group, hash):
            seen.append(("load", self.priority, function, name, metadata_group, hash))

        def destroy_handle(self, module, function, name, metadata_group, hash):
            seen.append(("unload", self.priority, function, name, metadata_group, hash))

    proton.start("a", hook=Named(1))
    proton.start("b", hook=Named(2))
    kernel = (7, "add", {"add.ttir": "path"}, "abc")
    (load_end,) = knobs.runtime.kernel_load_end_hook.calls
    load_end(None, *kernel, stream=3)  # an argument of a later Triton
    (unload,) = knobs.runtime.kernel_unload_hook.calls
    unload(None, *kernel, 3)
    order = [("load", 2), ("load", 1), ("unload", 1), ("unload", 2)]
    assert seen == [(*one, *kernel) for one in order]


def test_hooks_of_launches_may_get_more_arguments():
    seen = []

    class Noting(Hook):
        def enter(self, metadata):
            seen.append(("enter", metadata))

        def exit(self, metadata):
            seen.append(("exit", metadata))

    session = proton.start("test", hook=Noting())
    HookManager.enter("metadata", stream=3)
    HookManager.exit("metadata", 3)
    assert seen == [("enter", "metadata"), ("exit", "metadata")]
    with pytest.raises(TypeError, match="metadata"):
        HookManager.enter()
    proton.finalize(session)


def test_registered_in_a_triton_without_chains(knobs):
    for name in CHAINS:
        setattr(knobs.runtime, name, None)
    proton.start("test", hook="triton")
    assert knobs.runtime.launch_enter_hook is HookManager.enter
    proton.finalize()
    assert knobs.runtime.launch_enter_hook is None


def test_the_chain_s_own_frame_is_not_in_a_launch_s_path(knobs, tmp_path):
    file = tmp_path / "knobs.py"
    file.write_text(
        "class Calling(Chain):\n"
        "    def __call__(self, *args):\n"
        "        for call in self.calls:\n"
        "            call(*args)\n"
    )
    names_of_file = {"Chain": Chain}
    exec(compile(file.read_text(), str(file), "exec"), names_of_file)
    knobs.__file__ = str(file)
    knobs.runtime = types.SimpleNamespace(**{name: names_of_file["Calling"]() for name in CHAINS})
    proton.start("test", context="python", hook="triton")
    metadata = LazyDict("symbol", lambda: {"name": "named"})
    knobs.runtime.launch_enter_hook(metadata)
    lib.kernel_begin("symbol")
    lib.kernel_end()
    knobs.runtime.launch_exit_hook(metadata)
    proton.finalize()
    (path,) = [path for path, _ in walk(load("test.hatchet")) if path[-1] == "named"]
    assert path[-2].endswith("@test_the_chain_s_own_frame_is_not_in_a_launch_s_path")


# ---------------------------------------------------------------------- LaunchHook


@pytest.mark.usefixtures("shapes")
def test_metadata_names_the_kernel_and_gives_its_metrics():
    proton.start("test", hook="triton")
    with proton.scope("s"):
        for _ in range(2):
            launch(
                "symbol",
                lambda: {
                    "name": "kernel<64>",
                    "flops16": 10,
                    "bytes": 4.0,
                    "any number": 0.5,
                    "list": [1, 2],
                    "ignored": None,
                    "text": "not a metric",
                    "empty": [],
                    5: 6,
                },
            )
    proton.finalize()
    root = load("test.hatchet")
    assert names(at(root, "s")) == {"kernel<64>"}
    values = metrics(root, "s", "kernel<64>")
    kernel_values = ("count", "time (ns)", "device_id", "device_type")
    assert values["count"] == 2
    assert {key: value for key, value in values.items() if key not in kernel_values} == {
        "flops16": 20.0, "bytes": 8, "any number": 1.0, "list": [2, 4]
    }


@pytest.mark.usefixtures("shapes")
def test_without_metadata_a_kernel_has_its_own_name():
    proton.start("test", hook="triton")
    launch("symbol")
    launch("symbol", lambda: {"name": 5})
    proton.finalize()
    assert metrics(load("test.hatchet"), "symbol")["count"] == 2


def test_without_the_hook_metadata_is_not_computed():
    proton.start("test")
    launch("symbol", lambda: pytest.fail("must not be called"))


@pytest.mark.usefixtures("shapes")
def test_kernels_launched_for_the_metadata_belong_to_the_metadata_state():
    def compute():
        launch("inner", lambda: pytest.fail("metadata of an inner launch is not computed"))
        return {"name": "kernel", "flops": 1}

    proton.start("test", hook="triton")
    with proton.scope("s"):
        launch("symbol", compute)
    proton.finalize()
    root = load("test.hatchet")
    assert metrics(root, "s", "kernel")["count"] == 1
    found = at(root, "s", "__proton_launch_metadata", "symbol")
    assert metrics(found, "inner")["count"] == 1


@pytest.mark.parametrize("version, path", [
    ("3.6.0", ()), ("3.7.1+git1", ()), ("3.8.0", ("symbol",)), ("3.10.0", ("symbol",)),
])  # fmt: skip
def test_the_metadata_state_has_the_levels_of_the_installed_triton(monkeypatch, version, path):
    triton = pytest.importorskip("triton")
    pytest.importorskip("triton.knobs")
    monkeypatch.setattr(triton, "__version__", version)

    def compute():
        launch("inner")
        return {"name": "kernel"}

    proton.start("test", hook="triton")
    launch("symbol", compute)
    proton.finalize()
    root = load("test.hatchet")
    assert metrics(root, "__proton_launch_metadata", *path, "inner")["count"] == 1


@pytest.mark.usefixtures("shapes")
def test_a_failing_metadata_function_is_reported_once_and_not_fatal(monkeypatch, capsys):
    monkeypatch.delenv("PROTON_QUIET")
    proton.start("test", hook="triton", backend="host")
    unlucky = f"unlucky {shape.__name__}"
    for _ in range(3):
        launch(unlucky, lambda: 1 / 0)
    launch("next", lambda: {"name": "renamed"})
    proton.finalize()
    root = load("test.hatchet")
    assert metrics(root, unlucky)["count"] == 3
    assert metrics(root, "renamed")["count"] == 1
    printed = capsys.readouterr().err.splitlines()
    assert printed == [
        f"proton: the launch metadata of kernel '{unlucky}' is not recorded: "
        "ZeroDivisionError: division by zero"
    ]


@pytest.mark.usefixtures("shapes")
def test_a_metric_that_changes_its_type_does_not_stop_the_program(monkeypatch, capsys):
    monkeypatch.delenv("PROTON_QUIET")
    proton.start("test", hook="triton", backend="host")
    kernel = f"k {shape.__name__}"
    launch(kernel, lambda: {"m": 1})
    launch(kernel, lambda: {"m": 0.5, "n": 1})
    proton.finalize()
    values = metrics(load("test.hatchet"), kernel)
    assert (values["count"], values["m"], values["n"]) == (2, 1, 1)
    assert "Metric value type mismatch" in capsys.readouterr().err


@pytest.mark.usefixtures("shapes")
def test_a_launch_that_fails_between_enter_and_exit_does_not_wedge():
    proton.start("test", hook="triton")
    HookManager.enter(shape("lost", lambda: {"name": "lost op"}))
    launch("k", lambda: {"name": "found"})
    launch("plain")
    proton.finalize()
    assert names(load("test.hatchet")) >= {"found", "plain"}
    assert "lost op" not in {
        name
        for name in names(load("test.hatchet"))
        if metrics(load("test.hatchet"), name).get("count")
    }


@pytest.mark.parametrize(
    "filters, recorded",
    [
        ({"include": "mat"}, {"raw_1", "raw_2", "third"}),
        ({"include": "r"}, {"raw_1", "renamed", "third"}),
        ({"exclude": "mat"}, {"raw_1", "renamed", "named third"}),
        ({"exclude": "raw_1"}, {"raw_1", "renamed", "named third"}),
        ({"include": ".*", "exclude": "named"}, {"matmul_big", "renamed", "third"}),
        ({"include": "atmul"}, {"raw_1", "raw_2", "third"}),
        ({}, {"matmul_big", "renamed", "named third"}),
    ],
)
@pytest.mark.usefixtures("shapes")
def test_filters(filters, recorded):
    LaunchHook().configure(**filters)
    proton.start("test", hook="triton")
    for raw, name in (("raw_1", "matmul_big"), ("raw_2", "renamed"), ("third", "named third")):
        launch(raw, lambda: {"name": name})
    proton.finalize()
    assert names(load("test.hatchet")) == recorded


@pytest.mark.usefixtures("shapes")
def test_metadata_of_a_kernel_with_the_wrong_name_is_not_computed():
    computed = []

    def compute():
        computed.append("wanted_1")
        return {"name": "wanted_name", "bytes": 8}

    LaunchHook().configure(include="wanted", exclude=".*_2")
    proton.start("test", hook="triton")
    launch("other", lambda: pytest.fail("metadata of a kernel that include leaves out"))
    launch("wanted_2", lambda: pytest.fail("metadata of a kernel that exclude leaves out"))
    launch("wanted_1", compute)
    proton.finalize()
    assert computed == ["wanted_1"]
    assert names(load("test.hatchet")) == {"other", "wanted_2", "wanted_name"}


@pytest.mark.usefixtures("shapes")
def test_each_recorded_launch_of_a_thread_has_an_id():
    from triton_proton.hooks.launch import id as launch_id

    seen = []

    def work():
        assert launch_id.get() is None
        for _ in range(100):
            launch("k")
            seen.append(launch_id.get())

    proton.start("test", hook="triton")
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    proton.finalize()
    assert len(set(seen)) == 400


def test_a_bad_filter_changes_nothing():
    import re

    LaunchHook().configure(include="k|named")
    with pytest.raises(re.error):
        LaunchHook().configure(include="x", exclude="(")
    proton.start("test", hook="triton")
    launch("k", lambda: {"name": "named"})
    proton.finalize()
    assert names(load("test.hatchet")) == {"named"}


def test_a_filter_ends_with_its_last_session():
    LaunchHook().configure(exclude="k")
    proton.start("a", hook="triton")
    proton.start("b", hook="triton")
    proton.finalize(proton.start("a"))
    launch("k", lambda: {"name": "named"})
    proton.finalize()
    assert names(load("b.hatchet")) == {"k"}
    proton.start("c", hook="triton")
    launch("k", lambda: {"name": "named"})
    proton.finalize()
    assert names(load("c.hatchet")) == {"named"}


@pytest.mark.usefixtures("shapes")
def test_launches_in_threads_keep_apart():
    proton.start("test", hook="triton")
    barrier = threading.Barrier(8)

    def work(index):
        barrier.wait(timeout=300)
        with proton.scope(f"thread {index}"):
            for _ in range(50):
                launch("k", lambda: {"name": f"k{index}", "flops": 1})

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    proton.finalize()
    root = load("test.hatchet")
    for index in range(8):
        values = metrics(root, f"thread {index}", f"k{index}")
        assert (values["count"], values["flops"]) == (50, 50.0)


def one_launch(metadata, name="symbol"):
    HookManager.enter(metadata)
    lib.kernel_begin(name)
    lib.kernel_end()
    HookManager.exit(metadata)


def test_lazy_metadata_is_evaluated_once_and_left_as_get_leaves_it():
    calls = []
    proton.start("test", hook="triton")
    metadata = LazyDict(
        "symbol", lambda: calls.append(1) or {"name": "first", "flops": 1},
        lambda: calls.append(2) or {"name": "second", "bytes": 2},
    )
    before = metadata.data
    one_launch(metadata)
    assert calls == [1, 2] and metadata.extras == []
    assert metadata.data == before | {"name": "second", "flops": 1, "bytes": 2}
    assert before == {"name": "symbol", "function": 0, "stream": 0}, "a dict that others use"
    one_launch(metadata)
    assert calls == [1, 2]
    proton.finalize()
    values = metrics(load("test.hatchet"), "second")
    assert (values["count"], values["flops"], values["bytes"]) == (2, 2.0, 4)


def test_a_dict_without_other_references_is_completed_in_place():
    proton.start("test", hook="triton")
    metadata = LazyDict("symbol", lambda: {"flops": 1}, lambda: {"bytes": 2})
    address = id(metadata.data)
    one_launch(metadata)
    assert id(metadata.data) == address and metadata.data["bytes"] == 2


def test_metadata_that_fails_half_way_stays_lazy():
    proton.start("test", hook="triton")
    metadata = LazyDict("symbol", lambda: {"flops": 1}, lambda: 1 / 0)
    one_launch(metadata)
    assert len(metadata.extras) == 2 and metadata.data["flops"] == 1
    proton.finalize()
    assert "flops" not in metrics(load("test.hatchet"), "symbol")


@pytest.mark.parametrize("bad", [None, 5, [1], "text"])
def test_metadata_that_is_not_a_dict_does_not_stop_the_program(bad, monkeypatch, capsys):
    monkeypatch.delenv("PROTON_QUIET")
    proton.start("test", hook="triton", backend="host")
    one_launch(LazyDict(f"lazy {bad}", lambda: bad), "lazy")
    other = Launch(f"other {bad}")
    other.get = lambda: bad
    one_launch(other, "other")
    proton.finalize()
    assert names(load("test.hatchet")) == {"lazy", "other"}
    printed = capsys.readouterr().err
    assert f"'lazy {bad}' is not recorded: TypeError" in printed
    assert f"'other {bad}' is not recorded: TypeError" in printed


@pytest.mark.usefixtures("shapes")
def test_metric_values_of_other_libraries():
    numpy = pytest.importorskip("numpy")

    class Odd:
        def __float__(self):
            launch("inner", lambda: pytest.fail("metadata of an inner launch is not computed"))
            return 2.5

    proton.start("test", hook="triton")
    launch(
        "symbol",
        lambda: {
            "array": numpy.array([1, 2]),
            "flops": numpy.float32(3),
            "odd": Odd(),
            "object": object(),
            "plain": 1,
            "list": [1, None],
        },
    )
    proton.finalize()
    root = load("test.hatchet")
    values = metrics(root, "symbol")
    assert (values["array"], values["flops"], values["odd"], values["plain"]) == ([1, 2], 3, 2.5, 1)
    assert "object" not in values and "list" not in values
    assert values["count"] == 1
    found = at(root, "__proton_launch_metadata", "symbol")
    assert metrics(found, "inner")["count"] == 1


@pytest.mark.usefixtures("shapes")
def test_more_metrics_than_fit_and_names_that_are_made_each_time():
    proton.start("test", hook="triton")
    for turn in range(3):
        launch(f"symbol {turn}", lambda: {f"metric {index}": index for index in range(100)})
    proton.finalize()
    root = load("test.hatchet")
    for turn in range(3):
        values = metrics(root, f"symbol {turn}")
        assert all(values[f"metric {index}"] == index for index in range(100))


@pytest.mark.usefixtures("shapes")
def test_an_interrupt_is_not_swallowed():
    def interrupted():
        raise KeyboardInterrupt

    proton.start("test", hook="triton")
    with pytest.raises(KeyboardInterrupt):
        launch("symbol", interrupted)
    launch("next", lambda: {"name": "named"})
    proton.finalize()
    assert names(load("test.hatchet")) == {"named"}


def test_an_error_in_a_hook_of_ones_own_is_raised():
    class Failing(Hook):
        def enter(self, metadata):
            raise LookupError("mine")

    proton.start("test", hook=Failing())
    with pytest.raises(LookupError, match="mine"):
        launch("symbol")


def test_a_hook_may_end_the_session_that_uses_it():
    class Last(Counting):
        def enter(self, metadata):
            super().enter(metadata)
            proton.finalize()

    hook = Last()
    proton.start("a", hook=hook)
    proton.start("b", hook="triton")
    HookManager.enter(Launch("symbol"))
    HookManager.exit(Launch("symbol"))
    assert hook.log == ["activate", "enter", "deactivate"]


def test_triton_s_lazy_metadata_has_the_expected_layout():
    compiler = pytest.importorskip("triton.compiler.compiler")
    proton.start("test", hook="triton")
    metadata = compiler.LazyDict({"name": "symbol", "function": 1, "stream": 2})
    metadata.add(lambda flops: {"name": "named", "flops": flops}, (4,))
    metadata.get = lambda: pytest.fail("read without get()")
    one_launch(metadata)
    proton.finalize()
    assert metrics(load("test.hatchet"), "named")["flops"] == 4.0
