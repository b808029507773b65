"""Device metrics (tensors), with fake tensors and a fake driver."""

from __future__ import annotations

import pytest

import triton_proton as proton
from built import FAKES
from support import at, load, script
from triton_proton import _low_level as lib
from triton_proton.metric import split_metrics, transform_tensor_metrics

needs_fakes = pytest.mark.skipif(
    not (FAKES / "libfake_cuda.so").exists(),
    reason="needs the fake libraries: PROTON_TEST_BUILD names a Meson build",
)

TENSOR = '''
import ctypes

TYPES = {
    "float64": ctypes.c_double, "float32": ctypes.c_float, "int64": ctypes.c_int64,
    "int32": ctypes.c_int32, "bool": ctypes.c_bool, "complex64": ctypes.c_double,
    "float16": ctypes.c_uint16,
}

class Tensor:
    """The interface of a torch.Tensor that Proton uses; its memory is the host's."""

    alive = 0
    is_cuda = True
    device = "cuda:0"

    def __init__(self, dtype, *values, shape_is_odd=False):
        self.dtype = "torch." + dtype
        self.memory = (TYPES[dtype] * len(values))(*values)
        self.shape_is_odd = shape_is_odd
        self.waits = 0
        Tensor.alive += 1

    def __del__(self):
        Tensor.alive -= 1

    def data_ptr(self):
        return ctypes.addressof(self.memory)

    def numel(self):
        return len(self.memory)

    def element_size(self):
        return ctypes.sizeof(self.memory) // max(len(self.memory), 1)

    def is_contiguous(self):
        return not self.shape_is_odd

    def contiguous(self):
        return Tensor(self.dtype[6:], *self.memory)

    def is_floating_point(self):
        return self.dtype.startswith("torch.float")

    def double(self):
        return Tensor("float64", *map(float, self.memory))

    def long(self):
        return Tensor("int64", *map(int, self.memory))

    def tolist(self):
        self.waits += 1
        return list(self.memory) if len(self.memory) != 1 else self.memory[0]
'''
exec(TENSOR)


def test_without_device_memory_a_tensor_is_waited_for():
    tensor = Tensor("float32", 1.5)
    vector = Tensor("int64", 1, 2)
    proton.start("test", backend="host")
    with proton.scope("a", {"x": tensor, "v": vector, "n": 3}):
        pass
    proton.finalize()
    metrics = at(load("test.hatchet"), "a")["metrics"]
    assert (metrics["x"], metrics["v"], metrics["n"]) == (1.5, [1, 2], 3)
    assert tensor.waits == vector.waits == 1


def test_how_a_tensor_is_read():
    odd = Tensor("int32", 1, 2, shape_is_odd=True)
    large = Tensor("float64", *range(8193))
    plain, device = split_metrics(
        {
            "a": Tensor("float32", 1.0),
            "bytes": Tensor("float64", 8.0),
            "flops": Tensor("int64", 1, 2),
            "odd": odd,
            "complex": Tensor("complex64", 2.0),
            "large": large,
            "n": 1,
        }
    )
    assert list(plain) == ["large", "n"] and large.waits == 1
    assert [described[:5] for described in device] == [
        ("a", 12, True, False, 1),
        ("bytes", 13, False, False, 1),
        ("flops", 8, True, True, 2),
        ("odd", 6, False, True, 2),
        ("complex", 13, True, False, 1),
    ]
    for *_, address, stream, tensor in device:
        assert (address, stream) == (tensor.data_ptr(), 0)
    assert device[3][-1] is not odd
    assert split_metrics({"x": Tensor("float32")}) == ({"x": []}, [])


def test_transform_gives_tensor_metrics_that_keep_their_memory():
    plain, tensors = transform_tensor_metrics(
        {"flops": Tensor("int64", 3), "v": Tensor("int32", 1, 2), "n": 1}
    )
    assert plain == {"n": 1}
    assert (tensors["flops"].index, tensors["flops"].size) == (lib.metric_type_double_index, 1)
    assert (tensors["v"].index, tensors["v"].size) == (lib.metric_type_vector_int64_index, 2)
    assert tensors["v"].ptr == tensors["v"].tensor.data_ptr()


def test_a_tensor_metric_needs_a_backend_with_device_memory():
    proton.start("test", backend="host")
    number = lib.record_scope()
    lib.enter_scope(number, "a")
    with pytest.raises(lib.ProtonError, match="metric x: .* only with a GPU backend"):
        lib.add_metrics(number, {}, {"x": lib.TensorMetric(8, lib.metric_type_double_index)})
    with pytest.raises(TypeError, match="TensorMetric"):
        lib.add_metrics(number, {}, {"x": 3})
    lib.exit_scope(number, "a")


def run_with_fakes(code: str) -> None:
    """Runs a script with a fake driver; `cuda` and `cupti` are the fake libraries."""
    environment = {
        "PROTON_CUPTI_PATH": str(FAKES / "libfake_cupti.so"),
        "PROTON_CUDA_PATH": str(FAKES / "libfake_cuda.so"),
        "PROTON_BACKEND": "cupti",
        "TRITON_INTERPRET": None,
    }
    begin = f"""
import os
import triton_proton as proton
from triton_proton import _low_level as lib
cuda = ctypes.CDLL(os.environ["PROTON_CUDA_PATH"])
cupti = ctypes.CDLL(os.environ["PROTON_CUPTI_PATH"])
assert proton.start("test") == 0
"""
    script(TENSOR + begin + code, env=environment)


@needs_fakes
def test_a_tensor_is_read_by_the_stream_and_held_until_then():
    run_with_fakes("""
cuda.fake_set_queueing(True)
loss = Tensor("float32", 0.0)
with proton.scope("a", {"loss": loss, "n": 1}):
    pass
memory = loss.memory
assert loss.waits == 0
del loss
assert Tensor.alive == 1
memory[0] = 2.5
cuda.fake_run_queued()
proton.deactivate(0, flushing=True)
assert Tensor.alive == 0
proton.activate(0)
with proton.scope("b", {"v (pty)": Tensor("bool", True, False), "flops": Tensor("int32", 7),
                        "half": Tensor("float16", 0x3E00)}):
    cuda.fake_run_queued()
proton.finalize()
""")
    root = load("test.hatchet")
    assert at(root, "a")["metrics"]["loss"] == 2.5
    assert at(root, "a")["metrics"]["n"] == 1
    assert at(root, "b")["metrics"]["v"] == [1, 0]
    assert at(root, "b")["metrics"]["flops"] == 7.0
    assert at(root, "b")["metrics"]["half"] == 1.5


@needs_fakes
def test_each_replay_of_a_graph_adds_its_value():
    run_with_fakes("""
graph = cupti.fake_graph_create()

@ctypes.CFUNCTYPE(None, ctypes.c_bool, ctypes.c_uint32)
def on_launch(is_captured, node):
    assert is_captured
    cupti.fake_graph_add_kernel(graph)

cuda.fake_set_on_launch(on_launch)
cuda.fake_set_capture(ctypes.c_uint64(0), 1)
loss, counts = Tensor("float64", 0.0), Tensor("int64", 0, 1)
with proton.scope("captured", {"loss": loss, "counts": counts}):
    pass
cuda.fake_set_capture(ctypes.c_uint64(0), 0)
executable = cupti.fake_graph_instantiate(graph)
for i in range(1, 11):
    loss.memory[0], counts.memory[0] = i, i
    with proton.scope("replay"):
        cuda.fake_run_node(0)
        cuda.fake_run_node(1)
        cupti.fake_graph_launch(executable, b"proton_append_metric", False)
assert loss.waits == counts.waits == 0
proton.finalize()
del loss, counts
assert Tensor.alive == 0
""")
    captured = at(load("test.hatchet"), "replay", "<captured_at>", "captured")
    assert captured["metrics"] == {"loss": 55.0, "counts": [55, 10]}
    assert not captured["children"]


@needs_fakes
def test_the_low_level_interface_takes_tensor_metrics():
    run_with_fakes("""
lib.set_metric_kernels(1, 2, 0)
value, vector = Tensor("float64", 2.0), Tensor("int64", 1, 2)
number = lib.record_scope()
lib.enter_scope(number, "a")
lib.add_metrics(number, {"n": 1}, {
    "x": lib.TensorMetric(value.data_ptr(), lib.metric_type_double_index),
    "v": lib.TensorMetric(vector.data_ptr(), lib.metric_type_vector_int64_index, 2),
})
lib.exit_scope(number, "a")
proton.finalize()
""")
    assert at(load("test.hatchet"), "a")["metrics"] == {"x": 2.0, "v": [1, 2], "n": 1}


@needs_fakes
def test_values_that_the_driver_rejects_are_waited_for():
    run_with_fakes("""
ctypes.CDLL(None).setenv(b"FAKE_CUDA_FAIL", b"cuLaunchKernel=2", 1)
loss = Tensor("float64", 4.0)
with proton.scope("a", {"n": 3, "loss": loss, "counts": Tensor("int64", 1, 2)}):
    assert loss.waits == 1
del loss
assert Tensor.alive == 0
proton.finalize()
""")
    metrics = at(load("test.hatchet"), "a")["metrics"]
    assert metrics == {"n": 3, "loss": 4.0, "counts": [1, 2]}


@needs_fakes
def test_launch_metadata_with_a_tensor():
    run_with_fakes("""
from triton_proton.hooks import LaunchHook

class Metadata:
    data = {"name": "raw"}
    def get(self):
        return {"name": "kernel", "flops": Tensor("int64", 100), "bytes": 8}

hook = LaunchHook()
for _ in range(3):
    hook.enter(Metadata())
    proton._libproton.kernel_begin("raw")
    proton._libproton.kernel_end()
    hook.exit(Metadata())
proton.finalize()
assert Tensor.alive == 0
""")
    metrics = at(load("test.hatchet"), "kernel")["metrics"]
    assert (metrics["flops"], metrics["bytes"], metrics["count"]) == (300.0, 24, 3)


@needs_fakes
def test_values_are_read_on_the_current_stream_of_torch():
    run_with_fakes("""
import sys
import types
from triton_proton.hooks import LaunchHook

STREAM = 0x7700
sys.modules["torch"] = types.SimpleNamespace(cuda=types.SimpleNamespace(
    is_initialized=lambda: True,
    is_current_stream_capturing=lambda: False,
    current_stream=lambda device=None: types.SimpleNamespace(cuda_stream=STREAM),
))

class Metadata:
    data = {"name": "raw"}
    def get(self):
        return {"name": "kernel", "flops": Tensor("int64", 100)}

value = Tensor("float64", 2.0)
hook = LaunchHook()

def launch_metadata():
    hook.enter(Metadata())
    lib.kernel_begin("raw")
    lib.kernel_end()
    hook.exit(Metadata())

def low_level():
    metric = lib.TensorMetric(value.data_ptr(), lib.metric_type_double_index)
    number = lib.record_scope()
    lib.enter_scope(number, "low")
    lib.add_metrics(number, {}, {"x": metric})
    lib.exit_scope(number, "low")

def scope_metrics():
    with proton.scope("high", {"x": Tensor("float64", 3.0)}):
        pass

captured = []
graph = cupti.fake_graph_create()

@ctypes.CFUNCTYPE(None, ctypes.c_bool, ctypes.c_uint32)
def on_launch(is_captured, node):
    captured.append(is_captured)
    if is_captured:
        cupti.fake_graph_add_kernel(graph)

cuda.fake_set_on_launch(on_launch)
for add in (launch_metadata, low_level, scope_metrics):
    for stream in (0, STREAM):
        cuda.fake_set_capture(ctypes.c_uint64(stream), 1)
        add()
        cuda.fake_set_capture(ctypes.c_uint64(stream), 0)
assert captured == [False, True] * 3, captured
proton.finalize()
""")
    root = load("test.hatchet")
    assert at(root, "kernel")["metrics"]["flops"] == 100.0
    assert at(root, "low")["metrics"]["x"] == 2.0
    assert at(root, "high")["metrics"]["x"] == 3.0
