"""Context "python+scopes": each scope is below the Python frame that entered it."""

import re
import sys
from pathlib import Path

import pytest

import triton_proton as proton
from support import load, run_command, script, walk

LAUNCH = """
    import triton_proton as proton
    from triton_proton import _libproton as lib

    def launch(name):
        lib.kernel_begin(name)
        lib.kernel_end()
"""


def paths(name="test"):
    """{kernel: paths}; a frame is the text of its line in the script, others are left out, as is
    the function that launches."""
    lines = Path("script.py").read_text(encoding="utf-8").split("\n")
    found = {}
    for path, node in walk(load(f"{name}.hatchet")):
        if node["children"] or "count" not in node["metrics"]:
            continue
        shown = []
        for frame in path[:-1]:
            source = re.fullmatch(r"(.*):(\d+)@(.*)", frame)
            if not source:
                shown.append(frame)
            elif source[1].endswith("script.py") and source[3] != "launch":
                shown.append(lines[int(source[2]) - 1].strip())
        found.setdefault(path[-1], []).append(shown)
    return {kernel: sorted(all_) for kernel, all_ in found.items()}


def record(code, env=None):
    script(LAUNCH + code, env={"PROTON_QUIET": "1", **(env or {})})
    return paths()


@pytest.fixture(autouse=True)
def _here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_a_scope_is_below_the_frame_that_entered_it():
    found = record(
        """
    def inner():
        launch("first")
        with proton.scope("inner"), proton.scope("innermost"):
            launch("second")

    @proton.scope("decorated")
    def decorated():
        inner()

    def recurse(depth):
        with proton.scope(f"level {depth}"):
            recurse(depth - 1) if depth else launch("third")

    def outer():
        with proton.scope("outer"):
            decorated()
        launch("fourth")

    proton.start("test", context="python+scopes", backend="host")
    outer()
    recurse(1)
    proton.finalize()
    """
    )
    above = ["outer()", "decorated()", "outer", "decorated", "inner()"]
    recurse = 'recurse(depth - 1) if depth else launch("third")'
    assert found == {
        "first": [[*above, 'launch("first")']],
        "second": [[*above, 'launch("second")', "inner", "innermost"]],
        "third": [["recurse(1)", recurse, "level 1", recurse, "level 0"]],
        "fourth": [["outer()", 'launch("fourth")']],
    }


def test_a_scope_of_a_frame_that_has_ended_is_below_its_caller():
    found = record(
        """
    import contextlib

    @contextlib.contextmanager
    def managed():
        with proton.scope("managed"):
            yield

    def enter(scope):
        scope.__enter__()

    def inner():
        launch("kernel")

    def outer():
        scope = proton.scope("manual")
        with managed():
            enter(scope)
            inner()
            scope.__exit__(None, None, None)

    proton.start("test", context="python+scopes", backend="host")
    outer()
    proton.finalize()
    """
    )
    assert found == {"kernel": [["outer()", "inner()", "managed", "manual", 'launch("kernel")']]}


def test_threads_and_tasks_have_their_own_scopes():
    found = record(
        """
    import asyncio
    import threading

    async def child(name):
        with proton.scope(name):
            launch("before")
            await asyncio.sleep(0)
            launch("after")

    async def main():
        with proton.scope("request"):
            await asyncio.gather(child("a"), child("b"))

    def work():
        with proton.scope("work"):
            launch("thread")

    proton.start("test", context="python+scopes", backend="host")
    with proton.scope("serve"):
        asyncio.run(main())
    with proton.scope("main"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    proton.finalize()
    """
    )
    serve = ["asyncio.run(main())", "serve", "request"]
    assert found == {
        "before": [[*serve, 'launch("before")', name] for name in "ab"],
        "after": [[*serve, 'launch("after")', name] for name in "ab"],
        "thread": [['launch("thread")', "work"]],
    }


def test_metrics_and_states_are_at_the_scope():
    record(
        """
    def step():
        with proton.scope("step", {"items": 3}), proton.cpu_timed_scope("timed"):
            with proton.state("warm"):
                launch("kernel")

    proton.start("test", context="python+scopes", backend="host")
    step()
    proton.finalize()
    """
    )
    nodes = [(path[2:], node["metrics"]) for path, node in walk(load("test.hatchet"))]
    assert [metrics for path, metrics in nodes if "items" in metrics] == [
        metrics for path, metrics in nodes if path == ("step",) and metrics.get("items") == 3
    ]
    (timed,) = (path for path, metrics in nodes if "cpu_time (ns)" in metrics)
    assert timed == ("step", "timed")
    (kernel,) = (path for path, metrics in nodes if "count" in metrics and path[-1] == "kernel")
    assert [name for name in kernel if "@" not in name] == ["step", "timed", "warm", "kernel"]


TORCH = """
    import torch

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            launch("scale")
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            with proton.scope("inside"):
                launch("scale_backward")
            return gradient * 2

    class Layer(torch.nn.Module):
        def forward(self, x):
            return Scale.apply(x)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([Layer(), Layer()])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    def step(model):
        y = model(torch.ones(2, requires_grad=True))
        with proton.scope("caller"):
            y.sum().backward()

    model = Model()
    """
MODULES = [
    ["step(model)", "y = model(torch.ones(2, requires_grad=True))", "Model", "x = layer(x)",
     f"layers.{i}", "return Scale.apply(x)"]
    for i in range(2)
]  # fmt: skip


def has_modules(found):
    assert found["scale"] == [[*path, 'launch("scale")'] for path in MODULES]
    backward = ["<backward>", 'launch("scale_backward")', "inside"]
    assert found["scale_backward"] == [[*path, *backward] for path in MODULES]


def test_modules_and_their_backward_kernels_are_between_the_lines_of_the_model():
    pytest.importorskip("torch")
    start = 'proton.start("test", context="python+scopes", modules=True, backend="host")'
    has_modules(record(TORCH + f"\n    {start}\n    step(model)\n    proton.finalize()\n"))


def test_the_command_records_modules_in_python_scopes():
    pytest.importorskip("torch")
    script(LAUNCH + TORCH + "\n    step(model)\n", "unused", env={"PROTON_QUIET": "1"})
    command = [Path(sys.executable).parent / "proton", "-c", "python+scopes", "--modules"]
    run_command([*command, "-b", "host", "-n", "test", "script.py"])
    has_modules(paths())


def test_shadow_records_at_the_same_time():
    record(
        """
    proton.start("test", context="python+scopes", backend="host")
    with proton.scope("before"):
        proton.start("shadow", context="shadow", backend="host")
        launch("kernel")
    proton.finalize()
    """
    )
    assert paths() == {"kernel": [['launch("kernel")', "before"]]}
    assert paths("shadow") == {"kernel": [["before"]]}


def test_python_with_and_without_scopes_exclude_each_other():
    session = proton.start("a", context="python", backend="host")
    with pytest.raises(proton.ProtonError, match="contexts python and python[+]scopes cannot"):
        proton.start("b", context="python+scopes", backend="host")
    proton.finalize(session)
    proton.finalize(proton.start("b", context="python+scopes", backend="host"))
    assert load("b.hatchet")


def test_modules_need_a_context_with_scopes():
    with pytest.raises(ValueError, match='use "python[+]scopes"'):
        proton.start("a", context="python", modules=True, backend="host")
    Path("x.py").touch()
    command = [Path(sys.executable).parent / "proton", "-c", "python", "--modules", "x.py"]
    assert "use -c python+scopes" in run_command(command, status=2).stderr
