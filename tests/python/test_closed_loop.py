"""Launches rotate between variants of a kernel, and prices are measured: with a fake libamdhip64.

Triton compiles the kernels for gfx942 and launches them through its JIT functions. Each launch
takes a planted time: 1 ms, and for each of its scopes a share of that.
"""

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
from triton_proton import _closed_loop
import intra_kernels as kernels
from fake_hip import STREAM, Driver, wave, write_waves

CTAS = 16
KINDS = "loads,dots,stores,waits,loops,partitions"
MODE = f"default:auto={KINDS}:budget=%s:tree=records"

triton.runtime.driver.set_active(Driver())
library = ctypes.CDLL(os.environ["TRITON_LIBHIP_PATH"])
compiled = []  # "KERNEL BLOCK", or "cached KERNEL BLOCK"
layouts = {}  # by function
prices = {}  # percent, by the word of a scope
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


def scopes_of(layout):
    lines = [line[6:] for line in layout.splitlines() if line.startswith("scope ")]
    return [line.partition("@")[0] for line in lines]


@ctypes.CFUNCTYPE(
    None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p))
def launched(ctas, threads, stream, parameters):
    percent = sum(prices.get(word, 0) for word in scopes_of(launching.layout))
    library.fake_take_time(ctypes.c_uint64(1000000 + 10000 * percent))
    scratch = ctypes.cast(parameters[5], ctypes.POINTER(ctypes.c_uint64))[0]
    if scratch and launching.layout:
        write_waves(launching.layout, scratch, 1, wave)


library.fake_set_kernel(launched)


def start(budget=5, name="a", **more):
    session = proton.start(name, backend="instrumentation", mode=MODE % budget, **more)
    if enter not in knobs.runtime.launch_enter_hook.calls:
        knobs.runtime.launch_enter_hook.add(enter)
    return session


def launch(kernel=kernels.matmul, block=64):
    tensor = MockTensor(tl.float16)
    kernel[(CTAS,)](tensor, tensor, tensor, 64, BLOCK=block)
    return launching.layout


def join():
    worker = _closed_loop._worker
    if worker is not None:
        worker.join(300)


def launches(count, **which):
    # The number of scopes in each launch. Wanted variants are compiled before the next one.
    counts = []
    for _ in range(count):
        counts.append(len(scopes_of(launch(**which))))
        join()
    return counts
"""


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run(tmp_path, compiled_once):
    """The lines that a program prints on its standard output, and its standard error."""

    def go(text: str, cache: Path = compiled_once) -> tuple[list[str], str]:
        done = run_program(
            tmp_path, SUPPORT + text, TRITON_CACHE_DIR=str(cache), XDG_CACHE_HOME=str(tmp_path),
            TRITON_LIBHIP_PATH=str(hip_library()), PROTON_CUDA_PATH="/nonexistent/libcuda.so.1",
            PROTON_HIP_PATH=str(hip_library()), PROTON_QUIET=None, PYTHONWARNINGS="ignore",
        )
        return done.stdout.splitlines(), done.stderr

    return go


def kernel_of(path: Path) -> tuple[dict, dict[str, int]]:
    """The metrics of the only kernel of a profile, and how often each scope was executed."""
    (kernel,) = json.loads(path.read_text())[0]["children"]
    found = {}

    def visit(node):
        for child in node["children"]:
            found[child["frame"]["name"].partition("@")[0]] = child["metrics"].get("executions", 0)
            visit(child)

    visit(kernel)
    return kernel["metrics"], found


def test_all_scopes_are_reported_though_no_launch_has_them_all(run, tmp_path):
    (counts,), errors = run(
        """
prices.update(load=1, dot=1, store=1, loop=1)
start()
print(launches(16))
proton.finalize()
"""
    )
    assert sorted(set(json.loads(counts))) == [0, 2, 3]
    metrics, executions = kernel_of(tmp_path / "a.hatchet")
    assert metrics["scopes_price"].startswith("measured 2.5 % (2.5 to 2.5 %) in ")
    assert metrics["scopes_price"].endswith(" launches, with 5 scopes in 2 sets")
    assert metrics["scopes_ratio"] == pytest.approx(1.025, abs=1e-4)
    # Of four warps each; launches stand for those without these scopes, but for a rotation, and the
    # second set was compiled during the first launches.
    assert executions["loop"] == executions["store"] == pytest.approx(16 * 4, abs=2 * 4)
    assert executions["load"] == executions["dot"] == pytest.approx(12 * 4, abs=4 * 4)
    assert "measured" not in errors


def test_scopes_over_the_budget_are_omitted_and_the_budget_holds(run, tmp_path):
    (counts, later), errors = run(
        """
prices.update(load=1, dot=30, store=1, loop=1)
start()
print(launches(48))
print([scopes_of(launch()).count("dot") for _ in range(20)])
proton.finalize()
"""
    )
    assert json.loads(later) == [0] * 20
    metrics, executions = kernel_of(tmp_path / "a.hatchet")
    assert " launches, with 4 scopes in " in metrics["scopes_price"]
    assert metrics["scopes_price"].endswith(": dot@intra_kernels.py:80")
    assert 1 <= metrics["scopes_ratio"] < 1.05
    assert "dot" in executions  # it was tried
    assert errors.count("proton: matmul: price of its automatic scopes: measured ") == 1


def test_a_kernel_whose_every_scope_costs_too_much_becomes_plain(run, tmp_path):
    (counts,), errors = run(
        """
prices.update(load=20, dot=20, store=20, loop=20)
start()
print(launches(60)[-10:])
proton.finalize()
"""
    )
    assert json.loads(counts) == [0] * 10
    metrics, _ = kernel_of(tmp_path / "a.hatchet")
    assert metrics["scopes_price"].startswith("measured: no scope is within the budget; omitted")
    assert metrics["scopes_ratio"] == 1


def test_variants_are_found_in_tritons_cache(run, tmp_path):
    text = """
start()
launches(16)
print(sorted(compiled))
proton.finalize()
"""
    assert run(text, cache=tmp_path / "cache")[0] == [str(["matmul 64"] * 3)]
    assert run(text, cache=tmp_path / "cache")[0] == [str(["cached matmul 64"] * 3)]


def test_the_next_process_begins_with_the_decisions(run, tmp_path):
    text = """
prices.update(load=1, dot=30, store=1, loop=1)
start()
seen = [word for _ in range(48) for word in (scopes_of(launch()), join())[0]]
print("dot" in seen, len(compiled), len(set(seen)))
proton.finalize()
"""
    (first,), _ = run(text)
    (decisions,) = (tmp_path / "proton" / "scopes").iterdir()
    assert "dropped" in decisions.read_text()
    (second,), _ = run(text)
    assert first.startswith("True ") and first.endswith(" 4")
    assert second.startswith("False ") and second.endswith(" 3")
    assert int(second.split()[1]) < int(first.split()[1])
    metrics, _ = kernel_of(tmp_path / "a.hatchet")
    assert metrics["scopes_price"].endswith(": dot@intra_kernels.py:80")
    decisions.write_bytes(b"kept \xff\n")
    (third,), _ = run(text)
    assert third == first


def test_without_a_directory_for_decisions_there_is_no_message(run, tmp_path):
    (tmp_path / "proton").write_text("")
    printed, errors = run("start(); print(len(launches(16))); proton.finalize()")
    assert printed == ["16"] and "scopes" not in errors


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
    """Afterwards Triton is as before; a later session continues with the measured sets."""
    printed, errors = run(
        """
before = triton.JITFunction._do_compile
prices.update(load=1, dot=30, store=1, loop=1)
start()
launches(48)
proton.finalize()
print(triton.JITFunction._do_compile is before, launch().count("scope "), len(compiled))
count = len(compiled)
start(name="b")
print("dot" in [word for _ in range(10) for word in scopes_of(launch())], len(compiled) - count)
proton.finalize()
"""
    )
    assert printed[0].startswith("True 0 ")
    assert printed[1] == "False 0"


def test_a_trace_has_every_launch_with_its_scopes(run):
    """Launches do not rotate while a session needs a trace, even if it begins later."""
    printed, errors = run(
        """
start(data="trace")
print(launches(8))
proton.finalize()
start(name="b")
launches(9)
start(name="c", data="trace")
print(launches(8))
proton.finalize()
"""
    )
    assert printed == [str([2] * 8)] * 2


def test_captured_launches_have_scopes_and_do_not_rotate(run):
    printed, _ = run(
        """
start()
launches(6)
for _ in range(20):  # whatever the rotation has next
    launches(1)
    library.fake_set_capture(ctypes.c_uint64(STREAM), 1)
    print(all(len(scopes_of(launch())) for _ in range(3)))
    library.fake_set_capture(ctypes.c_uint64(STREAM), 0)
proton.finalize()
"""
    )
    assert printed == ["True"] * 20


def test_scopes_in_the_source_are_in_every_launch(run, tmp_path):
    printed, errors = run(
        """
start()
print(set(launches(12, kernel=kernels.marked_add, block=1024)) & {0})
proton.finalize()
"""
    )
    assert printed == ["set()"]
    metrics, _ = kernel_of(tmp_path / "a.hatchet")
    assert "scopes_ratio" not in metrics


def test_a_variant_that_cannot_be_loaded_is_not_used(run):
    printed, errors = run(
        """
def fails(kernel):
    if kernel.module is None and layouts:
        raise triton.runtime.errors.OutOfResources(1, 0, "shared memory")
    remember(kernel)

triton.compiler.CompiledKernel._init_handles = fails
start()
print(launches(10))
proton.finalize()
"""
    )
    assert printed == [str([2] * 10)]
    assert errors.count("a kernel was not compiled with other scopes: OutOfResources(") == 1


def test_threads_that_launch_one_kernel(run):
    printed, errors = run(
        """
prices.update(load=1, dot=1, store=1, loop=1)
start()
launches(3)
barrier = threading.Barrier(4)
counts = []

def go():
    barrier.wait()
    counts.extend([len(scopes_of(launch())) for _ in range(50)])

threads = [threading.Thread(target=go) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
join()
print(set(counts) <= {0, 2, 3}, len(compiled))
proton.finalize()
"""
    )
    assert printed == ["True 3"]


def test_an_end_during_a_compilation(run, tmp_path):
    """Python waits for the variant that is compiled; the profile is complete."""
    printed, errors = run(
        """
start()
for _ in range(4):
    launch()
proton.finalize()
print("end")
""",
        cache=tmp_path / "cache",
    )
    assert printed == ["end"] and "Traceback" not in errors
    assert kernel_of(tmp_path / "a.hatchet")[1]["loop"] >= 4
