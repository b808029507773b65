"""Flops and bytes of kernels from their TTIR, on kernels that are compiled without a GPU."""

import json
from pathlib import Path

import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

import triton_proton as proton  # noqa: E402
from triton_proton import _libproton, _work  # noqa: E402
from triton_proton.hooks import HookManager, LaunchHook  # noqa: E402


def wrong(grid, metadata, args):
    return {"name": "named", "flops32": 5.0 * args["n"], "bytes": 12 * args["n"]}


def right(grid, metadata, args):
    return {"flops32": float(args["n"]), "bytes": 12 * args["n"]}


def add_source(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(out + at, total, mask=inside)


def matmul_source(x, y, out, n, depth, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, depth, BLOCK):
        a = tl.load(x + row[:, None] * depth + (start + k)[None, :])
        b = tl.load(y + (start + k)[:, None] * n + column[None, :])
        total = tl.dot(a, b, total)
    tl.store(out + row[:, None] * n + column[None, :], total)


def descriptor_source(x, out, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK
    out.store([row, 0], x.load([row, 0]) + 1.0)


def by_data_source(x, out, BLOCK: tl.constexpr):
    count = tl.load(x)
    for i in range(count):
        tl.store(out + i * BLOCK + tl.arange(0, BLOCK), 1.0)


def compiled(source, signature, launch_metadata=None, **constants):
    function = triton.jit(source, launch_metadata=launch_metadata)
    types = {**signature, **dict.fromkeys(constants, "constexpr")}
    kernel = triton.compile(
        ASTSource(function, types, constexprs=constants), target=GPUTarget("cuda", 90, 32)
    )
    kernel._init_handles = lambda: None
    kernel.function = 0
    return kernel


@pytest.fixture(scope="module")
def add():
    types = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}

    def compile_with(launch_metadata=None):
        return compiled(add_source, types, launch_metadata, BLOCK=1024)

    return compile_with


def launch(kernel, grid, *args):
    """A launch without a GPU: the kernel is one of the host backend."""
    metadata = kernel.launch_metadata(grid, 0, *args)
    if metadata is not None:
        HookManager.enter(metadata)
    _libproton.kernel_begin(kernel.name)
    _libproton.kernel_end()
    if metadata is not None:
        HookManager.exit(metadata)
    return metadata


@pytest.fixture
def messages(monkeypatch, capfd):
    """Returns all that was printed."""
    monkeypatch.delenv("PROTON_QUIET")
    _work._checked.clear()
    return lambda: capfd.readouterr().err


@pytest.fixture
def record(tmp_path: Path):
    def run(*launches, hook="triton"):
        session = proton.start(str(tmp_path / "profile"), backend="host", hook=hook)
        for one in launches:
            launch(*one)
        proton.finalize(session)
        tree = json.loads((tmp_path / "profile.hatchet").read_text())
        return {node["frame"]["name"]: node["metrics"] for node in tree[0]["children"]}

    yield run
    LaunchHook().configure()


def test_kernels_without_metadata_have_flops_and_bytes(add, record):
    kernel = add()
    found = record(*[(kernel, (97, 1, 1), None, None, None, 98432, 1024)] * 3)
    metrics = found["add_source"]
    assert metrics["flops32"] == 3 * 97 * 1024
    assert metrics["bytes"] == metrics["requested_bytes"] == 3 * 12 * 98432


def test_each_configuration_is_counted_once(add, record, monkeypatch):
    counted = []
    original = _libproton.work_count

    def count(*args):
        counted.append(args[1:])
        return original(*args)

    monkeypatch.setattr(_libproton, "work_count", count)
    kernel = add()
    launches = [(kernel, (n // 1024,), 1, 2, 3, n, 1024) for n in (1024, 2048, 1024, 2048, 2048)]
    assert record(*launches)["add_source"]["flops32"] == 8 * 1024
    assert counted == [((1,), (None, None, None, 1024)), ((2,), (None, None, None, 2048))]


def test_known_launches_do_not_leave_c(add, record, monkeypatch):
    kernel, slow = add(), []
    original = _work._add
    monkeypatch.setattr(_work, "_add", lambda *args: (slow.append(args[2]), original(*args)))
    grids = [(1,), (2,), (1,), [2], (2,)]
    found = record(*[(kernel, grid, None, None, None, 1024, 1024) for grid in grids])
    assert found["add_source"]["bytes"] == 5 * 12 * 1024
    assert slow == [(1,), (2,), [2]]  # a list is not a key


def test_the_launchs_arguments_without_constants_are_enough(add, record):
    found = record((add(), (2, 1, 1), None, None, None, 2048))
    assert found["add_source"]["bytes"] == 12 * 2048


def test_a_matmul_has_its_operations(record):
    types = {"x": "*fp16", "y": "*fp16", "out": "*fp32", "n": "i32", "depth": "i32"}
    kernel = compiled(matmul_source, types, BLOCK=64)
    metrics = record((kernel, (4, 8), None, None, None, 512, 1024, 64))["matmul_source"]
    assert metrics["flops16"] == 2 * 256 * 512 * 1024
    assert metrics["bytes"] == 2 * (256 * 1024 + 1024 * 512) + 4 * 256 * 512
    assert metrics["requested_bytes"] == 32 * 16 * 2 * 2 * 64 * 64 + 4 * 256 * 512


def test_descriptors_have_their_shapes(record):
    class Descriptor:
        def __init__(self, rows):
            self.shape, self.strides = [rows, 64], [64, 1]

    types = {"x": "tensordesc<fp32[32,64]>", "out": "tensordesc<fp32[32,64]>"}
    kernel = compiled(descriptor_source, types, BLOCK=32)
    metrics = record((kernel, (4,), Descriptor(100), Descriptor(128), 32))["descriptor_source"]
    assert metrics["bytes"] == 4 * 64 * (100 + 128)
    assert metrics["flops32"] == 128 * 64


def test_unknown_work_is_not_guessed(record):
    kernel = compiled(by_data_source, {"x": "*i32", "out": "*fp32"}, BLOCK=32)
    metrics = record((kernel, (4,), None, None, 32))["by_data_source"]
    assert not {"bytes", "requested_bytes", "flops32"} & metrics.keys()


def test_metadata_of_the_user_stays_and_is_compared(add, record, messages):
    at = ((2,), None, None, None, 2048, 1024)
    kernel = add(wrong)
    metrics = record((kernel, *at), (kernel, *at), (add(wrong), *at))["named"]
    assert metrics["flops32"] == 3 * 5 * 2048
    assert "requested_bytes" not in metrics
    lines = [line for line in messages().splitlines() if "TTIR" in line]
    assert lines == [
        "proton: the launch metadata of kernel 'add_source' differs from its TTIR: "
        "1.024e+04 flops, not 2048"
    ]


def test_metadata_that_agrees_is_not_mentioned(add, record, messages):
    record((add(right), (2,), None, None, None, 2048, 1024))
    assert "TTIR" not in messages()


def test_work_can_be_left_out(add, record):
    LaunchHook().configure(work="none")
    at = ((2,), None, None, None, 2048, 1024)
    assert "bytes" not in record((add(), *at))["add_source"]
    with pytest.raises(ValueError, match="work is 'compiler' or 'none', not 'counters'"):
        LaunchHook().configure(work="counters")


def test_triton_is_as_before_after_the_session(add, record):
    kernel_type = type(add())
    before = kernel_type.launch_metadata
    record((add(), (2,), None, None, None, 2048, 1024))
    assert kernel_type.launch_metadata is before
    without = record((add(), (2,), None, None, None, 2048, 1024), hook=None)
    assert "bytes" not in without["add_source"]


def test_a_failure_costs_one_line(add, record, messages):
    kernel = add()
    metrics = record(*[(kernel, (2,), None, None)] * 2)["add_source"]
    assert "bytes" not in metrics
    assert messages().count("flops and bytes are not counted") == 1
