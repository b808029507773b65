"""Metric dictionaries: which values are taken, what becomes of them, and how they add up."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import triton_proton as proton
from support import load, metrics
from triton_proton.metric import plain_metrics, transform_tensor_metrics


def record(*dicts):
    """The metrics that the file has for one scope entered once with each of `dicts`."""
    proton.start("test")
    try:
        for values in dicts:
            with proton.scope("a", values):
                pass
    finally:
        proton.finalize()
    return metrics(load("test.hatchet"), "a")


def test_types_are_kept():
    recorded = record({"i": 3, "f": 3.0, "b": True, "s": "text", "iv": [1, 2], "fv": (1.5, 2)})
    assert recorded == {"i": 3, "f": 3.0, "b": 1, "s": "text", "iv": [1, 2], "fv": [1.5, 2.0]}
    assert isinstance(recorded["i"], int) and isinstance(recorded["f"], float)
    assert [type(item) for item in recorded["fv"]] == [float, float]


def test_flops_of_each_width_are_floating_point_and_similar_names_stay_integers():
    floating = ["flops", "flops8", "flops16", "flops32", "flops64"]
    integers = ["flops128", "flops6", "flop", "bytes", "bytes8"]
    recorded = record(dict.fromkeys([*floating, *integers], 2))
    assert recorded == dict.fromkeys([*floating, *integers], 2)
    assert {name: type(value) for name, value in recorded.items()} == {
        **dict.fromkeys(floating, float), **dict.fromkeys(integers, int)
    }


def test_values_add_up_and_strings_are_replaced():
    recorded = record(
        {"i": 1, "f": 0.5, "v": [1, 2], "s": "first"},
        {"i": 2, "f": 0.25, "v": [10, 20], "s": "last"},
    )
    assert recorded == {"i": 3, "f": 0.75, "v": [11, 22], "s": "last"}


def test_properties_keep_the_last_value():
    recorded = record({"p (pty)": 1.0, "q(pty)": 1}, {"p (pty)": 2.0, "q(pty)": 5})
    assert recorded == {"p": 2.0, "q": 5}


def test_exclusive_metrics_are_not_on_root():
    proton.start("test")
    with proton.scope("outer", {"x (exc)": 1.0, "y": 1.0, "z (inc)": 1.0}):
        with proton.scope("inner", {"x (exc)": 2.0}):
            pass
    proton.finalize()
    root = load("test.hatchet")
    assert root["metrics"] == {"y": 0, "z": 0}
    assert metrics(root, "outer") == {"x": 1.0, "y": 1.0, "z": 1.0}
    assert metrics(root, "outer", "inner") == {"x": 2.0}


def test_only_exclusive_metrics_leave_root_empty():
    proton.start("test")
    with proton.scope("a", {"x (exc)": 1.0}):
        pass
    proton.finalize()
    assert load("test.hatchet")["metrics"] == {}


def test_roofline_metrics_have_one_type():
    recorded = record({"flops": 2, "flops8": 2, "flops64": [1, 2], "bytes": 3.9, "other": 2})
    assert recorded == {"flops": 2.0, "flops8": 2.0, "flops64": [1.0, 2.0], "bytes": 3, "other": 2}
    assert isinstance(recorded["flops"], float)
    assert isinstance(recorded["bytes"], int)
    assert isinstance(recorded["other"], int)
    assert record({"bytes": [1.0, 2.0]}) == {"bytes": [1, 2]}


def test_an_integer_of_more_than_64_bits_becomes_a_double():
    large = {"flops": 2**70, "x": 2**63, "v": [1, -(2**63) - 1]}
    recorded = record(large)
    assert recorded == {"flops": float(2**70), "x": float(2**63), "v": [1.0, -float(2**63)]}
    assert isinstance(recorded["x"], float) and isinstance(recorded["v"][0], float)
    for refused in ({"bytes": 2**63}, {"bytes": [2**63]}, {"x": 2**2000}):
        with pytest.raises(ValueError, match="the integer (does not fit|is too large)"):
            record(refused)
    assert record({"x": -(2**63), "y": 2**63 - 1}) == {"x": -(2**63), "y": 2**63 - 1}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e30])
def test_bytes_must_be_a_number_of_bytes(value):
    with pytest.raises(ValueError, match="metric 'bytes'"):
        record({"bytes": value})


def test_the_type_of_a_metric_does_not_change():
    text = "Metric value type mismatch for a: an integer after a float in the same context; use"
    with pytest.raises(ValueError, match=text):
        record({"a": 1.0}, {"a": 1})


def test_a_metric_may_have_another_type_in_another_scope():
    given = {"a": 1, "b": 0.5, "c": "text", "d": [1, 2], "e": [0.5, 0.25], "f": 3}
    proton.start("types")
    for name, value in given.items():
        with proton.scope(name, {"n": value}):
            pass
    with proton.scope("b", {"n": 0.25}):
        pass
    proton.finalize()
    root = load("types.hatchet")
    assert {name: metrics(root, name)["n"] for name in given} == {**given, "b": 0.75}


@pytest.mark.parametrize("first, second", [("1", 1.0), (1.0, "1"), (2, 1.5)])
def test_a_property_is_text_in_one_scope_and_a_number_in_another(first, second):
    proton.start("property")
    for name, value in (("a", first), ("b", second), ("b", second)):
        with proton.scope(name, {"p (pty)": value}):
            pass
    proton.finalize()
    root = load("property.hatchet")
    assert (metrics(root, "a")["p"], metrics(root, "b")["p"]) == (first, second)
    assert not metrics(root)


def test_a_trace_has_values_of_both_number_types():
    proton.start("numbers", data="trace")
    for name, value in (("a", 1), ("b", 0.5)):
        with proton.scope(name, {"n": value}):
            pass
    proton.finalize()
    events = json.loads(Path("numbers.chrome_trace").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] != "M"]
    assert [event["args"]["values"] for event in slices] == [{"n": 1}, {"n": 0.5}]


def test_the_length_of_a_vector_does_not_change():
    text = r"Vector metric size mismatch for valueId 0 \(v\): current=2, new=3"
    with pytest.raises(ValueError, match=text):
        record({"v": [1, 2]}, {"v": [1, 2, 3]})


@pytest.mark.parametrize("empty", [[], ()])
def test_an_empty_list_is_an_empty_vector(empty):
    assert record({"x": empty, "flops": empty, "n": 1}) == {"x": [], "flops": [], "n": 1}


def test_invalid_metrics_are_rejected():
    for value in (object(), None, {}, [object()], [[1]], [None], b"x", 1j):
        with pytest.raises(TypeError, match="metric 'x'"):
            record({"x": value})
    with pytest.raises(TypeError, match="name of a metric must be a str"):
        record({3: 1})
    for name, reason in (("", "a metric needs a name"), ("a\0b", "contains a NUL")):
        with pytest.raises(ValueError, match=reason):
            record({name: 1})
    with pytest.raises(ValueError, match="NUL"):
        record({"x": "a\0b"})


def test_many_metrics_in_one_dict():
    values = {f"m{index}": index for index in range(300)}
    assert record(values) == values


def test_numbers_of_other_kinds():
    from decimal import Decimal
    from fractions import Fraction

    class Index:
        def __index__(self):
            return 7

    assert record({"f": Fraction(1, 2), "d": Decimal("0.25"), "i": Index()}) == {
        "f": 0.5, "d": 0.25, "i": 7
    }


def test_a_failing_number_is_the_caller_s_error():
    class Bad:
        def __float__(self):
            raise RuntimeError("broken number")

    with pytest.raises(RuntimeError, match="broken number"):
        record({"x": Bad()})


def test_numpy():
    numpy = pytest.importorskip("numpy")
    recorded = record(
        {
            "i": numpy.int32(3),
            "f": numpy.float32(0.5),
            "d": numpy.float64(0.25),
            "v": numpy.arange(3),
            "m": numpy.ones((2, 2)),
            "one": numpy.array([5]),
            "list": [numpy.int64(1), numpy.int64(2)],
            "bytes": numpy.float32(8.0),
        }
    )
    assert recorded == {
        "i": 3, "f": 0.5, "d": 0.25, "v": [0, 1, 2], "m": [1.0] * 4, "one": 5, "list": [1, 2],
        "bytes": 8,
    }  # fmt: skip
    assert record({"x": numpy.array([])}) == {"x": []}


def test_torch():
    torch = pytest.importorskip("torch")
    values = {
        "i": torch.tensor(3),
        "f": torch.tensor(0.5, requires_grad=True),
        "half": torch.tensor([1.5, 2.5], dtype=torch.float16),
        "flops": torch.tensor([1, 2]),
        "bytes": torch.tensor(3.0),
    }
    expected = {"i": 3, "f": 0.5, "half": [1.5, 2.5], "flops": [1.0, 2.0], "bytes": 3}
    assert record(values) == expected
    plain, tensors = transform_tensor_metrics(values)
    assert plain == expected and tensors == {}
    assert isinstance(plain["bytes"], int) and isinstance(plain["flops"][0], float)


def test_transform_leaves_other_metrics_untouched():
    plain, tensors = transform_tensor_metrics({"custom": 3, "flops32": 1, "bytes": 2.0})
    assert plain == {"custom": 3, "flops32": 1.0, "bytes": 2} and tensors == {}
    assert isinstance(plain["custom"], int) and isinstance(plain["flops32"], float)


# ---------------------------------------------------------------------- any dict at all

SUFFIXES = ("(exc)", "(pty)", "(inc)")
# Names with a fixed type, and names that readers of the file use for something else.
OTHERWISE = ("flops", "bytes", "count", "device_id", "device_type", "name", "node", "_hatchet_nid")
# Text that survives JSON and is not a suffix; NUL is rejected, which is tested above.
NAMES = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="\0()"), min_size=1
).filter(lambda name: name.strip() == name and name not in OTHERWISE)
INTEGERS = st.integers(-(2**62), 2**62)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=64)
VALUES = st.one_of(
    INTEGERS, FLOATS, st.lists(INTEGERS, min_size=1, max_size=5),
    st.lists(FLOATS, min_size=1, max_size=5),
    st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0")),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=12))
def test_values_recorded_once_are_read_back(values):
    assert record(values) == values


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=20), st.sampled_from(SUFFIXES))
def test_sums_and_last_values(numbers, suffix):
    recorded = record(*({f"m {suffix}": number} for number in numbers))
    assert recorded == {"m": numbers[-1] if suffix == "(pty)" else sum(numbers)}


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=3),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()),
            lambda inner: st.lists(inner, max_size=3), max_leaves=5,
        ),
        max_size=4,
    )
)
def test_any_dict_is_accepted_or_rejected_with_a_message(values):
    proton.start("-", backend="host")
    try:
        with proton.scope("a", values):
            pass
    except (TypeError, ValueError) as error:
        assert str(error)
    finally:
        proton.finalize(None, "none")


def test_plain_metrics_of_plain_metrics_is_the_same():
    values = {"a": 1, "b": [1.5], "c": "x"}
    assert plain_metrics(values) == values


def test_errors_show_names_that_a_terminal_must_not_obey():
    proton.start("test")
    with pytest.raises(ValueError) as raised, proton.scope("s", {"\x1b]0;x\x07\u202e": 2**2000}):
        pass
    assert str(raised.value).isprintable() and "\\x1b]0;x" in str(raised.value)
    proton.enter_scope("a\x1b[2J")
    with pytest.raises(ValueError) as raised:
        proton.exit_scope("b\u202e")
    assert str(raised.value) == r"Scope name mismatch: b\u202e != a\x1b[2J"
    proton.exit_scope()
