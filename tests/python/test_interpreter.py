"""Kernels of Triton's interpreter, recorded by the host backend."""

import importlib.util
import json
import textwrap
from pathlib import Path

import pytest

from support import at, load, metrics, names, walk
from warm_python import WarmPython

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or importlib.util.find_spec("torch") is None,
    reason="needs triton and torch",
)

KERNELS = """
import threading

import torch
import triton
import triton.language as tl

import triton_proton as proton


def rows_of(grid, metadata, args):
    assert metadata.name == "softmax" and metadata.num_warps == 8
    assert set(args) == {"out", "x", "columns", "BLOCK"}
    rows = grid[0]
    elements = rows * args["columns"]
    return {
        "name": f"softmax_{args['columns']}",
        "flops32": 5.0 * elements,
        "bytes": 2 * 4 * elements,
        "rows": rows,
        "shape": [rows, args["columns"]],
    }


@triton.jit
def exponential(x):  # a function of the device, not a kernel
    return tl.exp(x)


@triton.jit(launch_metadata=rows_of)
def softmax(out, x, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=mask, other=-float("inf"))
    values = exponential(values - tl.max(values, axis=0))
    tl.store(out + row * columns + offsets, values / tl.sum(values, axis=0), mask=mask)


@triton.jit
def add_one(x, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x + offsets, tl.load(x + offsets, mask=mask) + 1, mask=mask)


def run_softmax(rows, columns):
    x = torch.randn(rows, columns)
    out = torch.empty_like(x)
    softmax[(rows,)](out, x, columns, BLOCK=triton.next_power_of_2(columns), num_warps=8)
    assert torch.allclose(out, torch.softmax(x, dim=1))


def run_add_one(count=1):
    x = torch.zeros(10)
    for _ in range(count):
        add_one[lambda meta: (triton.cdiv(10, meta["BLOCK"]),)](x, 10, BLOCK=8)
    assert torch.equal(x, torch.full((10,), float(count)))
"""

INTERPRET = {"TRITON_INTERPRET": "1", "PROTON_QUIET": "1"}


@pytest.fixture(scope="module", autouse=True)
def _python():
    """Importing torch takes most of the time of a script."""
    global script
    with WarmPython("import torch\n") as python:
        script = python.script
        yield


def run(code: str, env={}, **options):
    return script(KERNELS + textwrap.dedent(code), {**INTERPRET, **env}, **options)


def kernel(node, *path):
    """(count, time, the other metrics) of a kernel."""
    values = dict(metrics(node, *path))
    assert values.pop("device_type") == "CPU" and values.pop("device_id") == "0"
    return values.pop("count"), values.pop("time (ns)"), values


def test_counts_times_metadata_scopes_and_states():
    result = run("""
        import time

        session = proton.start("plain")
        hooked = proton.start("hooked", hook="triton")
        start = time.perf_counter_ns()
        with proton.scope("forward", {"batches": 1}):
            for _ in range(3):
                run_softmax(4, 20)
            with proton.scope("inner"):
                run_softmax(2, 5)
                with proton.state("warm-up"):
                    run_add_one(7)
        run_add_one()
        print(time.perf_counter_ns() - start)
        proton.deactivate()
        run_softmax(4, 20)
        proton.activate(hooked)
        run_add_one()
        proton.finalize()
        run_softmax(1, 3)
        """)
    elapsed = int(result.stdout)
    root = load("plain.hatchet")
    # The hook names ops for every session, as it does on a GPU.
    forward = at(root, "forward")
    assert forward["metrics"] == {"batches": 1}
    assert names(root) == {"forward", "add_one"}
    assert names(forward) == {"softmax_20", "inner"}
    count, time_ns, rest = kernel(forward, "softmax_20")
    assert count == 3 and time_ns > 0
    assert rest == {"flops32": 3 * 5.0 * 80, "bytes": 3 * 8 * 80, "rows": 12, "shape": [12, 60]}
    assert kernel(forward, "inner", "softmax_5")[0] == 1
    assert kernel(forward, "inner", "warm-up", "add_one")[0] == 7
    assert kernel(root, "add_one")[0] == 1
    assert kernel(load("hooked.hatchet"), "add_one")[0] == 2
    total = sum(node["metrics"].get("time (ns)", 0) for _, node in walk(root))
    assert 0 < total < elapsed
    assert root["metrics"]["count"] == 0 and root["metrics"]["time (ns)"] == 0
    devices = json.loads(Path("plain.hatchet").read_text())[1]
    assert set(devices) == {"CPU"} and set(devices["CPU"]) == {"0"}


def test_without_the_hook_names_are_the_functions():
    run("""
        proton.start("test")
        run_softmax(4, 20)
        proton.finalize()
        """)
    assert kernel(load("test.hatchet"), "softmax")[2] == {}


def test_triton_imported_after_start_is_restored():
    result = script(
        "import sys\nimport triton_proton as proton\nassert 'triton' not in sys.modules\n"
        "finders = list(sys.meta_path)\n"
        'proton.start("test", hook="triton", backend="host")\n'
        + KERNELS
        + """
from triton.runtime import interpreter
assert interpreter.GridExecutor.__call__.__code__.co_filename != interpreter.__file__
run_softmax(4, 20)
proton.finalize()
for function in (interpreter.GridExecutor.__call__, interpreter.InterpretedFunction.run):
    assert function.__code__.co_filename == interpreter.__file__
hooks = triton.knobs.runtime
for name in ("launch_enter_hook", "launch_exit_hook", "kernel_load_end_hook"):
    assert not getattr(hooks, name).calls, name
ours = [finder for finder in sys.meta_path if type(finder).__module__.startswith("triton_proton")]
print(ours)
""",
        env={**INTERPRET, "PROTON_COMPILED": "0"},
    )
    assert result.stdout.strip() == "[]"
    assert kernel(load("test.hatchet"), "softmax_20")[0] == 1


def test_autotuned_and_heuristic_kernels():
    run("""
        def bench(call, quantiles):
            call()
            return [1.0, 1.0, 1.0]

        @triton.autotune(
            configs=[triton.Config({"BLOCK": size}) for size in (8, 16)], key=["n"], do_bench=bench
        )
        @triton.jit
        def tuned(x, n, BLOCK: tl.constexpr):
            offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(x + offsets, offsets, mask=offsets < n)

        @triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})
        @triton.jit(launch_metadata=lambda grid, metadata, args: {"name": f"h{args['BLOCK']}"})
        def chosen(x, n, BLOCK: tl.constexpr):
            offsets = tl.arange(0, BLOCK)
            tl.store(x + offsets, offsets, mask=offsets < n)

        proton.start("test", hook="triton")
        x = torch.zeros(20)
        for _ in range(2):
            tuned[lambda meta: (triton.cdiv(20, meta["BLOCK"]),)](x, 20)
        chosen[(1,)](x, 20)
        proton.finalize()
        """)
    root = load("test.hatchet")
    assert kernel(root, "tuned")[0] == 4  # two to choose, two to use
    assert kernel(root, "h32")[0] == 1


def test_kernels_launched_by_a_metadata_function():
    run("""
        def metadata(grid, meta, args):
            run_add_one()
            return {"name": "main", "flops": 1}

        @triton.jit(launch_metadata=metadata)
        def raw(x):
            tl.store(x, 1.0)

        proton.start("test", hook="triton")
        with proton.scope("s"):
            raw[(1,)](torch.zeros(1))
        proton.finalize()
        """)
    root = load("test.hatchet")
    assert kernel(root, "s", "main")[0] == 1
    assert kernel(root, "s", "__proton_launch_metadata", "raw", "add_one")[0] == 1
    assert len(names(at(root, "s"))) == 2


def test_a_kernel_that_raises_is_left_and_recorded():
    run("""
        @triton.jit
        def broken(x):
            tl.store(x, 1.0)
            x.no_such_method()

        session = proton.start("test", hook="triton")
        try:
            broken[(1,)](torch.zeros(1))
        except Exception as error:
            assert "no_such_method" in str(error), error
        else:
            raise SystemExit("the error was swallowed")
        run_add_one()
        with proton.scope("after"):
            run_add_one()
        proton.finalize()
        """)
    root = load("test.hatchet")
    assert kernel(root, "add_one")[0] == 1
    assert kernel(root, "after", "add_one")[0] == 1
    assert kernel(root, "broken")[0] == 1


def test_failing_metadata_does_not_stop_the_kernel():
    result = run(
        """
        @triton.jit(launch_metadata=lambda grid, metadata, args: {"name": metadata.no_such_field})
        def raw(x):
            tl.store(x, 1.0)

        proton.start("test", hook="triton")
        x = torch.zeros(1)
        raw[(1,)](x)
        raw[(1,)](x)
        assert x.item() == 1
        proton.finalize()
        """,
        env={"PROTON_QUIET": None},
    )
    assert result.stderr.count("the launch metadata of kernel 'raw' is not recorded") == 1
    assert kernel(load("test.hatchet"), "raw")[0] == 2


def test_python_context():
    run("""
        def step():
            run_add_one(3)

        proton.start("test", context="python")
        step()
        with proton.state("state"):
            step()
        proton.finalize()
        """)
    paths = {path: node for path, node in walk(load("test.hatchet")) if path[-1] == "add_one"}
    assert len(paths) == 2
    for path, node in paths.items():
        assert node["metrics"]["count"] == 3
        functions = [name.rpartition("@")[2] for name in path]
        assert functions[1:4] == ["<module>", "step", "run_add_one"]  # after that of WarmPython
        assert not any("triton_proton" in name for name in path)
    assert sum(path[-2] == "state" for path in paths) == 1


def test_threads_and_backward():
    run("""
        class Doubled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                with proton.scope("forward"):
                    run_add_one()
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                with proton.scope("backward"):
                    run_add_one()
                return grad * 2

        proton.start("test")
        for name in ("first", "second"):
            with proton.scope(name):
                x = torch.ones(3, requires_grad=True)
                y = Doubled.apply(x).sum()
                # If the engine has its own threads, backward runs on one; here on any.
                thread = threading.Thread(target=y.backward)
                thread.start()
                thread.join()
                assert torch.equal(x.grad, torch.full((3,), 2.0))
        proton.finalize()
        """)
    root = load("test.hatchet")
    assert names(root) == {"first", "second"}
    for name in ("first", "second"):
        assert names(at(root, name)) == {"forward", "backward"}
        for pass_name in ("forward", "backward"):
            assert kernel(root, name, pass_name, "add_one")[0] == 1


def test_triton_s_name_for_the_profiler():
    run("""
        proton.install_as_triton_profiler()
        import triton.profiler
        import triton.profiler.language as pl
        from triton.profiler import viewer
        from triton.profiler.hooks import LaunchHook

        assert triton.profiler is proton and triton.profiler.scope is proton.scope
        assert viewer.__name__ == "triton_proton.viewer"
        pl.enable_semantic("triton")

        @triton.jit
        def marked(x):
            pl.enter_scope("whole")
            with pl.scope("store"):
                tl.store(x, 1.0)
            pl.exit_scope("whole")

        triton.profiler.start("test")
        x = torch.zeros(1)
        marked[(1,)](x)
        assert x.item() == 1
        triton.profiler.finalize()
        """)
    assert kernel(load("test.hatchet"), "marked")[0] == 1


def test_scope_calls_compile_to_nothing_for_a_gpu():
    result = script(
        """
        import triton, triton.language as tl
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
        import triton_proton.language as pl

        @triton.jit
        def marked(x):
            pl.enter_scope("whole")
            with pl.scope("store"):
                tl.store(x, 1.0)
            pl.exit_scope("whole")

        compiled = triton.compile(
            ASTSource(marked, {"x": "*fp32"}, {}), target=GPUTarget("cuda", 80, 32)
        )
        print("st.global" in compiled.asm["ptx"], "whole" in compiled.asm["ttir"])
        """,
        env={"TRITON_INTERPRET": None, "TRITON_CACHE_DIR": str(Path("cache").resolve())},
    )
    assert result.stdout.split() == ["True", "False"]


def test_an_interpreter_with_other_insides_is_left_alone():
    result = run(
        """
        from triton.runtime import interpreter
        call = interpreter.GridExecutor.__call__
        del interpreter.GridExecutor.__call__
        interpreter.GridExecutor.__call__ = type("Callable", (), {"__call__": lambda *a, **k: 0})()
        proton.start("test", backend="host")
        proton.start("again", backend="host")
        proton.finalize()
        assert not isinstance(interpreter.GridExecutor.__call__, type(call))
        """,
        env={"PROTON_QUIET": None},
    )
    lines = [line for line in result.stderr.splitlines() if line.startswith("proton: ")]
    assert lines == [
        "proton: this version of Triton's interpreter is not supported; "
        "interpreted kernels are not recorded"
    ]


def test_proton_disable_by_triton_s_knob():
    run(
        """
        triton.knobs.proton.disable = True
        assert proton.start("test") is None
        run_add_one()
        proton.finalize()
        triton.knobs.proton.disable = False
        assert proton.start("other") is not None
        """,
    )
    assert {path.name for path in Path(".").glob("*.hatchet")} == {"other.hatchet"}
