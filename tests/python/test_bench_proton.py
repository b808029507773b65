"""`triton.testing.do_bench_proton` and its variant for graphs, with the fake driver.

They import `triton.profiler`, for which this package was installed.
"""

import json
from pathlib import Path

import pytest
from fake_driver import launcher, run_program

testing = pytest.importorskip("triton.testing")
if not hasattr(testing, "do_bench_proton"):
    pytest.skip("this Triton has no do_bench_proton", allow_module_level=True)

SUPPORT = """
import contextlib, ctypes, json, os, sys, types

import triton_proton

triton_proton.install_as_triton_profiler()
import triton.testing as testing
from triton import runtime

launcher = ctypes.CDLL(os.environ["FAKE_LAUNCHER"])
cupti = ctypes.CDLL(os.environ["PROTON_CUPTI_PATH"])
cupti.fake_graph_launch.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_bool]
graphs = []  # that are being captured

class Event:
    def __init__(self, enable_timing): pass
    def record(self): pass
    def elapsed_time(self, other): return 50.0  # five calls

class Graph:
    exec = 0
    def replay(self):
        self.exec = self.exec or cupti.fake_graph_instantiate(self.number)
        cupti.fake_graph_launch(self.exec, b"node", False)

class Cuda:
    Event = Event
    Stream = CUDAGraph = staticmethod(Graph)
    synchronize = staticmethod(lambda: None)
    stream = staticmethod(lambda stream: contextlib.nullcontext())

class Driver:
    get_device_interface = staticmethod(lambda: Cuda)
    get_empty_cache_for_benchmark = staticmethod(lambda: None)
    get_current_target = staticmethod(lambda: types.SimpleNamespace(backend="cuda"))
    @staticmethod
    def clear_cache(cache):
        if not graphs:
            launcher.launch(b"clear", ctypes.c_ulonglong(77))

@contextlib.contextmanager
def capture(graph):
    graph.number = cupti.fake_graph_create()
    graphs.append(graph)
    yield
    graphs.pop()

runtime.driver.set_active(Driver)
testing.cuda_graph_without_gc = capture
sys.modules["torch"] = types.SimpleNamespace(cuda=Cuda)
calls = 0

def function():
    global calls
    calls += 1
    if graphs:
        cupti.fake_graph_capture_kernel(graphs[-1].number, b"node")
        return
    launcher.launch(b"first", ctypes.c_ulonglong(1000000))
    launcher.launch(b"second", ctypes.c_ulonglong(1000000 * (calls % 2)))

def bench(name, **options):
    print(json.dumps(getattr(testing, name)(function, return_mode="all", **options)))
"""


def bench(tmp_path: Path, call: str) -> list[float]:
    done = run_program(tmp_path, SUPPORT + call, FAKE_LAUNCHER=launcher(), TRITON_INTERPRET=None)
    return json.loads(done.stdout.splitlines()[-1])


def test_times_are_those_of_the_kernels_of_each_call(tmp_path):
    times = bench(tmp_path, "bench('do_bench_proton', warmup=10, rep=100)")
    assert sorted(times) == pytest.approx([1.0] * 5 + [2.0] * 5)


def test_times_in_a_graph(tmp_path):
    """Each replay has a kernel in each scope of the capture."""
    times = bench(tmp_path, "bench('do_bench_cudagraph_proton', rep=100)")
    assert len(times) == 10
    assert min(times) == max(times) > 0
