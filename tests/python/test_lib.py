"""The low-level module under upstream's names."""

import pytest

from support import at, load, metrics, names
from triton_proton import _libproton
from triton_proton import _low_level as lib


def start(name="test", context="shadow"):
    return lib.start(name, context, "tree", "host")


def test_recorded_ids_increment():
    first = lib.record_scope()
    assert lib.record_scope() == first + 1


def test_everything_is_harmless_without_a_session():
    number = lib.record_scope()
    lib.enter_scope(number, "zero")
    lib.exit_scope(number, "zero")
    lib.exit_scope(number, "zero")
    lib.enter_op(number, "zero")
    lib.exit_op(number, "zero")
    lib.enter_state("zero")
    lib.exit_state()
    lib.add_metrics(number, {"a": 1})
    lib.kernel_begin("k")
    lib.kernel_end()
    assert lib.finalize_all() is None


@pytest.mark.parametrize("context", ["shadow", "python"])
def test_context_depth(context):
    session = start(context=context)
    depth = lib.get_context_depth(session)
    assert depth > 3 if context == "python" else depth == 0
    number = lib.record_scope()
    lib.enter_scope(number, "a")
    assert lib.get_context_depth(session) == depth + (context == "shadow")
    lib.exit_scope(number, "a")
    lib.finalize(session, "hatchet")
    load("test.hatchet")


def test_sessions():
    session = start()
    lib.deactivate(session, False)
    lib.activate(session)
    lib.deactivate(session, True)
    lib.finalize(session, "")
    start("other")
    lib.deactivate_all(True)
    lib.activate_all()
    lib.finalize_all("hatchet")
    load("test.hatchet"), load("other.hatchet")


def test_metrics_of_scopes_by_number():
    start()
    outer, inner = lib.record_scope(), lib.record_scope()
    lib.enter_scope(outer, "one")
    lib.enter_scope(inner, "two")
    lib.add_metrics(outer, {"a": 1.0, "b": [1.0, 2.0]})
    lib.add_metrics(inner, {"a": 2.0, "c": [1, 2]})
    lib.exit_scope(inner, "two")
    lib.exit_scope(outer, "one")
    with pytest.raises(ValueError, match="is not open"):
        lib.add_metrics(outer, {"a": 1.0})
    with pytest.raises(lib.ProtonError, match="is not open"):
        lib.exit_scope(outer, "one")
    lib.finalize_all()
    root = load("test.hatchet")
    assert metrics(root, "one") == {"a": 1.0, "b": [1.0, 2.0]}
    assert metrics(root, "one", "two") == {"a": 2.0, "c": [1, 2]}


def test_an_op_names_the_kernels_inside_and_takes_metrics():
    start()
    number = lib.record_scope()
    scope = lib.record_scope()
    lib.enter_scope(scope, "s")
    lib.enter_op(number, "op")
    lib.add_metrics(number, {"flops": 5})
    lib.kernel_begin("symbol")
    lib.kernel_end()
    lib.exit_op(number, "op")
    lib.kernel_begin("symbol")
    lib.kernel_end()
    lib.exit_scope(scope, "s")
    lib.finalize_all()
    root = load("test.hatchet")
    assert names(at(root, "s")) == {"op", "symbol"}
    op = metrics(root, "s", "op")
    assert (op["count"], op["flops"]) == (1, 5.0)
    assert metrics(root, "s", "symbol")["count"] == 1
    assert op["device_type"] == "CPU"


def test_metrics_in_device_memory_are_refused():
    start()
    number = lib.record_scope()
    lib.enter_scope(number, "a")
    with pytest.raises(lib.ProtonError, match="GPU backend"):
        lib.add_metrics(number, {}, {"x": lib.TensorMetric(1, lib.metric_type_double_index)})
    lib.add_metrics(number, {"y": 1}, {})
    lib.exit_scope(number, "a")


def test_tensor_metric():
    metric = lib.TensorMetric(123, lib.metric_type_double_index)
    assert (metric.ptr, metric.index, metric.size) == (123, 2, 1)
    assert lib.TensorMetric(ptr=2**64 - 1, index=5, size=7).size == 7
    with pytest.raises(AttributeError):
        metric.ptr = 1
    with pytest.raises(ValueError):
        lib.TensorMetric(1, -1)

    class Mine(lib.TensorMetric):
        def __new__(cls, value):
            return super().__new__(cls, value, lib.metric_type_int64_index)

    assert Mine(5).index == 1
    assert lib.metric_type_vector_int64_index == 5
    assert lib.metric_type_vector_double_index == 6


def test_backends():
    assert "host" in lib.get_available_profilers()
    assert lib.select_profiler_from_triton_backend("cuda") == "cupti"
    assert lib.select_profiler_from_triton_backend("hip") == "rocprofiler"
    with pytest.raises(ValueError, match="No profiler registered for triton backend abacus"):
        lib.select_profiler_from_triton_backend("abacus")
    session = start()
    assert lib.session_backend(session) == "host"
    assert lib.session_backend(session + 1) is None
    assert lib.session_backend(-1) is None


def test_statistics_and_summary():
    session = start()
    lib.kernel_begin("k")
    lib.kernel_end()
    counters = {name: value for name, value, is_loss in lib.statistics(session) if not is_loss}
    assert counters["kernels"] == 1
    losses = [value for _, value, is_loss in lib.statistics(session) if is_loss]
    assert losses and not any(losses)
    lib.finalize_all()
    assert "test.hatchet" in lib.last_summary()
    with pytest.raises(IndexError):
        lib.statistics(session)


def test_scopes_by_number_may_be_left_in_any_order():
    session = start()
    a, b, c = (lib.record_scope() for _ in range(3))
    for number, name in ((a, "a"), (b, "b"), (c, "c")):
        lib.enter_scope(number, name)
    lib.exit_scope(a, "a")
    assert lib.get_context_depth(session) == 0
    lib.exit_scope(c, "c")
    lib.exit_scope(b, "b")
    assert lib.get_context_depth(session) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: lib.start(3), lambda: lib.start("a", 3), lambda: lib.start("a\0b"),
        lambda: lib.start("a", "b\0c"), lambda: lib.activate("x"), lambda: lib.enter_state(3),
        lambda: lib.kernel_begin(3), lambda: lib.push_scope(3, None), lambda: lib.push_scope("a"),
        lambda: lib.enter_scope(1, 2), lambda: lib.hide_frames(3), lambda: lib.hide_frames([3]),
    ],
)
def test_wrong_arguments(call):
    with pytest.raises((TypeError, ValueError)):
        call()


def test_the_type_stub_names_everything_that_exists():
    import ast
    from pathlib import Path

    stub = Path(_libproton.__file__).parent / "_libproton.pyi"
    described = set()
    for statement in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            described.add(statement.name)
        elif isinstance(statement, ast.AnnAssign):
            described.add(statement.target.id)
    described = {name for name in described if not name.startswith("_")}
    assert described == {name for name in dir(_libproton) if not name.startswith("_")}
