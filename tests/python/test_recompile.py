"""Kernels are compiled again if their records cost more than the budget: with a fake libamdhip64.

Triton compiles them for gfx942 and launches them through its JIT functions. The fake leaves records
of 100 cycles in warps of 100 000 cycles; PROTON_INSTRUMENT_COST says what a record costs.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_driver import hip_library, run_program

pytest.importorskip("triton.backends.amd.driver")

SUPPORT = r"""
import ctypes, os, sys, threading
import triton, triton_proton as proton
import triton.language as tl
from triton import knobs
from triton.runtime.jit import MockTensor
import intra_kernels as kernels
from fake_hip import STREAM, Driver, wave, write_waves

CTAS = 16
KINDS = "loads,dots,stores,waits,loops,partitions"
MODE = f"default:auto={KINDS}:budget=%s:tree=records:optimizations=time_shift"

triton.runtime.driver.set_active(Driver())
library = ctypes.CDLL(os.environ["TRITON_LIBHIP_PATH"])
compiled = []  # "KERNEL BLOCK", or "cached KERNEL BLOCK"
layouts = {}  # by function
launching = threading.local()


def listener(src, metadata, metadata_group, times, cache_hit):
    is_new = "" if not cache_hit else "cached "
    block = [value for value in src.constants.values() if isinstance(value, int)]
    compiled.append(f"{is_new}{src.name} {block[-1]}")


knobs.compilation.listener = listener
init_handles = triton.compiler.CompiledKernel._init_handles


def remember(kernel):
    init_handles(kernel)
    layouts[kernel.function] = getattr(kernel.metadata, "proton_layout", "")


triton.compiler.CompiledKernel._init_handles = remember


def enter(metadata):
    launching.layout = layouts[metadata.data["function"]]


@ctypes.CFUNCTYPE(
    None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p))
def launched(ctas, threads, stream, parameters):
    scratch = ctypes.cast(parameters[5], ctypes.POINTER(ctypes.c_uint64))[0]
    if scratch and launching.layout:
        write_waves(launching.layout, scratch, 1, wave)


library.fake_set_kernel(launched)


def start(budget, name="a", **more):
    session = proton.start(name, backend="instrumentation", mode=MODE % budget, **more)
    if enter not in knobs.runtime.launch_enter_hook.calls:
        knobs.runtime.launch_enter_hook.add(enter)
    return session


def launch(kernel=kernels.matmul, block=64):
    tensor = MockTensor(tl.float16)
    kernel[(CTAS,)](tensor, tensor, tensor, 64, BLOCK=block)
    return launching.layout


def launches(session, count=4, **which):
    # The number of scopes in each. All records of earlier launches have been read.
    counts = []
    for _ in range(count):
        counts.append(launch(**which).count("\nscope "))
        proton.deactivate(session, flushing=True)
        proton.activate(session)
    return counts
"""


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run(tmp_path, compiled_once):
    """The lines that a program prints on its standard output, and its standard error."""

    def go(text: str, cost: int = 9000, cache: Path = compiled_once) -> tuple[list[str], str]:
        done = run_program(
            tmp_path,
            SUPPORT + text,
            TRITON_CACHE_DIR=str(cache),
            TRITON_LIBHIP_PATH=str(hip_library()),
            PROTON_CUDA_PATH="/nonexistent/libcuda.so.1",
            PROTON_HIP_PATH=str(hip_library()),
            PROTON_INSTRUMENT_COST=f"0,{cost}",
            PROTON_QUIET=None,
            PYTHONWARNINGS="ignore",
        )
        return done.stdout.splitlines(), done.stderr

    return go


def scopes_of(path: Path) -> tuple[str, dict[str, int]]:
    """The warning about the only kernel of a profile, and how often each scope was executed."""
    (kernel,) = json.loads(path.read_text())[0]["children"]
    found = {}

    def visit(node):
        for child in node["children"]:
            found[child["frame"]["name"].partition("@")[0]] = child["metrics"]["executions"]
            visit(child)

    visit(kernel)
    return kernel["metrics"].get("scopes_warning", ""), found


AGAIN = (
    "proton: matmul: its records took 117.4 % of its time, more than the budget of 50 %; it was "
    "compiled again with budget=20\n"
)


def test_a_kernel_that_costs_more_than_the_budget_is_compiled_again_once(run, tmp_path):
    text = """
session = start(50)
print(launches(session, 8), compiled)
proton.finalize()
"""
    (printed,), errors = run(text, cache=tmp_path / "cache")
    assert printed == "[5, 5, 5, 5, 3, 3, 3, 3] ['matmul 64', 'matmul 64']"
    assert errors.count(AGAIN) == 1
    # The new one is reported if it is over the budget too; the old one is not again.
    left = [line for line in errors.splitlines() if "more than the budget" in line]
    assert left[1:] == [
        "proton: matmul: its records took 56.2 % of its time, more than the budget of 50 %; set "
        "budget=40 or select fewer kinds in auto="
    ]
    warning, executions = scopes_of(tmp_path / "a.hatchet")
    assert "it was compiled again with a smaller budget, because its records" in warning
    assert "and the budget is 20 %" in warning
    assert executions == {"loop": 8 * 4, "dot": 8 * 4, "store": 8 * 4, "load": 4 * 4}  # warps
    # Another process finds both in Triton's cache.
    (printed,), errors = run(text, cache=tmp_path / "cache")
    assert printed == "[5, 5, 5, 5, 3, 3, 3, 3] ['cached matmul 64', 'cached matmul 64']"
    assert AGAIN in errors and "omitted" not in errors


def test_a_kernel_within_the_budget_is_not_compiled_again(run):
    printed, errors = run(
        """
session = start(50)
print(launches(session, 5), len(compiled))
print(launches(session, 5, kernel=kernels.row_products), len(compiled))
proton.finalize()
""",
        cost=2000,
    )
    assert printed == ["[5, 5, 5, 5, 5] 1", "[3, 3, 3, 3, 3] 2"]
    assert "more than" not in errors


def test_each_kernel_of_a_function_is_measured(run):
    """Specializations, configurations and heuristics; another function is not touched."""
    printed, errors = run(
        """
tuned = triton.autotune([triton.Config({"BLOCK": 64}, num_warps=8)], key=[])(kernels.matmul)
chosen = triton.heuristics({"BLOCK": lambda arguments: 64})(kernels.matmul)

def launch_wrapped(kernel):
    tensor = MockTensor(tl.float16)
    kernel[(CTAS,)](tensor, tensor, tensor, 64)
    proton.deactivate(session, flushing=True)
    proton.activate(session)
    return launching.layout.count("\\nscope ")

session = start(50)
print(launches(session, 4, kernel=kernels.row_products))
print([launch_wrapped(chosen) for _ in range(5)], compiled[1:])
print([launch_wrapped(tuned) for _ in range(5)], compiled[3:])
print(launches(session, 4, kernel=kernels.row_products), launches(session, 2), len(compiled))
proton.finalize()
"""
    )
    assert [line.replace("cached ", "") for line in printed] == [
        "[3, 3, 3, 3]",
        "[5, 5, 5, 5, 3] ['matmul 64', 'matmul 64']",
        "[5, 5, 5, 5, 3] ['matmul 64', 'matmul 64']",
        "[3, 3, 3, 3] [3, 3] 5",
    ]
    assert errors.count("it was compiled again with budget=") == 2


TUNED = """
timed = []

def bench(call, quantiles):
    call()
    timed.append(launching.layout.count("\\nscope "))
    return [1.0 if sum(timed) else 2.0 - len(timed) / 8] * 3

def launch_tuned(**more):
    configs = [triton.Config({"BLOCK": 64}, num_warps=warps) for warps in (4, 8)]
    tuned = triton.autotune(configs, key=[], do_bench=bench, **more)(kernels.matmul)
    tensor = MockTensor(tl.float16)
    tuned[(CTAS,)](tensor, tensor, tensor, 64)
    return tuned.best_config.num_warps, launching.layout.count("\\nscope ")
"""


def test_configurations_are_timed_without_scopes_and_the_winner_has_them(run):
    printed, errors = run(
        TUNED
        + """
session = start("off")
print(launch_tuned(), timed, knobs.compilation.instrumentation_mode[:7])
print(launch().count("\\nscope "))
proton.finalize()
print(launch_tuned(), timed, knobs.compilation.instrumentation_mode == "")
"""
    )
    assert printed == ["(8, 5) [0, 0] proton-", "5", "(8, 0) [0, 0, 0, 0] True"]


def test_a_stored_choice_is_that_of_plain_runs(run, tmp_path):
    """It was timed without scopes, so it may be shared."""
    text = TUNED + """
session = start("off")
print(launch_tuned(cache_results=True), timed)
proton.finalize()
"""
    cache = tmp_path / "cache"
    assert run(text, cache=cache)[0] == ["(8, 5) [0, 0]"]
    assert run(text, cache=cache)[0] == ["(8, 5) []"]


def test_sessions(run):
    """Afterwards Triton is as before; a later session with the mode begins with the new kernel."""
    printed, errors = run(
        """
before = triton.JITFunction._do_compile
session = start(50)
print(launches(session, 5), len(compiled))
proton.finalize()
print(triton.JITFunction._do_compile is before, launch().count("scope "), len(compiled))
session = start(50, "b")
print(launches(session, 5), len(compiled))
proton.finalize()
session = start("off", "c")
print(launches(session, 5), len(compiled))
proton.finalize()
session = start(40, "d", data="trace")
print(launches(session, 5), len(compiled))
proton.finalize()
"""
    )
    assert printed == [
        "[5, 5, 5, 5, 3] 2",
        "True 0 3",
        "[3, 3, 3, 3, 3] 3",
        "[5, 5, 5, 5, 5] 4",
        "[4, 4, 4, 4, 3] 6",
    ]
    assert errors.count("it was compiled again with budget=") == 2


def test_captured_launches_do_not_compile(run):
    printed, _ = run(
        """
session = start(50)
print(launches(session, 3))
library.fake_set_capture(ctypes.c_uint64(STREAM), 1)
print([launch().count("\\nscope ") for _ in range(3)], len(compiled))
library.fake_set_capture(ctypes.c_uint64(STREAM), 0)
print(launches(session, 2), len(compiled))
proton.finalize()
"""
    )
    assert printed == ["[5, 5, 5]", "[5, 5, 5] 1", "[5, 3] 2"]


def test_fewer_scopes_are_the_condition(run):
    """A kernel with one automatic scope, and one with scopes in its source only."""
    printed, errors = run(
        """
MODE = "default:auto=loops:cta=2:budget=%s:tree=records:optimizations=time_shift"
session = start(2)
print(launches(session, 6), launches(session, 6, kernel=kernels.pipelined), len(compiled))
proton.finalize()
MODE = "default:auto=loops:cta=2:budget=%s:tree=records:optimizations=time_shift"
session = start(2)
print(launches(session, 6, kernel=kernels.marked_add, block=1024), compiled[-1])
proton.finalize()
"""
    )
    assert printed[0].startswith("[1, 1, 1, 1, 1, 1] ")
    assert "it was compiled again" not in errors
    assert "matmul: its records took" in errors and "marked_add: its records took" in errors


def test_a_new_kernel_that_cannot_be_loaded_is_not_used(run):
    printed, errors = run(
        """
def fails(kernel):
    if kernel.module is None and layouts:
        raise triton.runtime.errors.OutOfResources(1, 0, "shared memory")
    remember(kernel)

triton.compiler.CompiledKernel._init_handles = fails
session = start(50)
print(launches(session, 6), len(compiled))
proton.finalize()
"""
    )
    assert printed == ["[5, 5, 5, 5, 5, 5] 2"]
    assert errors.count("a kernel was not compiled again with budget=20: OutOfResources(") == 1
    assert "matmul: its records took 117.4 % of its time, more than the budget" in errors


def test_threads_that_launch_one_kernel(run):
    printed, errors = run(
        """
session = start(50)
launches(session, 3)
barrier = threading.Barrier(4)
counts = []

def go():
    barrier.wait()
    counts.append([launch().count("\\nscope ") for _ in range(50)])

threads = [threading.Thread(target=go) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(launch().count("\\nscope "), {sorted(count, reverse=True) == count for count in counts})
print(len(compiled))
proton.finalize()
"""
    )
    assert printed == ["3 {True}", "2"]
    assert errors.count("it was compiled again with budget=") == 1
