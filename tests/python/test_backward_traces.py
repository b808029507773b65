"""Arrows from scopes to their backward kernels in traces."""

import json
import threading
from collections import Counter
from pathlib import Path

import pytest

import triton_proton as proton
from protobuf_reader import perfetto_packets
from triton_proton import _libproton as lib

torch = pytest.importorskip("torch")

BACKWARD = "<backward>"


def kernel(name):
    lib.kernel_begin(name)
    lib.kernel_end()


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        kernel("forward")
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        kernel("backward")
        kernel("backward")
        return gradient


def leaf():
    return torch.ones(3, requires_grad=True)


def record(function, **options):
    proton.start("test", data="trace", backward=True, **options)
    function()
    proton.finalize()


def chrome_arrows():
    """(name of the scope, its number, path of the kernel, its number) of each arrow, in time."""
    events = json.loads(Path("test.chrome_trace").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    slices.sort(key=lambda event: event["ts"])
    numbers, seen = {}, Counter()
    for event in slices:
        path = tuple(event["args"].get("call_stack", ()))
        numbers[id(event)] = seen[path]
        seen[path] += 1
    ends = {}
    for event in events:
        if event.get("cat") == "backward":
            assert event["name"] == "forward->backward" and event["bp"] == "e"
            ends.setdefault(event["id"], {})[event["ph"]] = event
    found = []
    for pair in ends.values():
        start, end = (
            next(s for s in slices if (s["tid"], s["ts"]) == (pair[k]["tid"], pair[k]["ts"]))
            for k in ("s", "f")
        )
        assert start["cat"] == "scope" and end["cat"] == "kernel"
        assert start["ts"] <= end["ts"]
        path = tuple(end["args"]["call_stack"])
        found.append((start["name"], numbers[id(start)], path[1:], numbers[id(end)]))
    return found


def test_an_arrow_leads_from_each_run_of_a_scope_to_its_first_backward_kernel():
    def steps():
        for _ in range(2):
            with proton.scope("a"):
                x = Own.apply(leaf())
            with proton.scope("b"):
                x = Own.apply(x)
            x.sum().backward()

    record(steps)
    assert sorted(chrome_arrows()) == [
        ("a", 0, ("a", BACKWARD, "backward"), 0),
        ("a", 1, ("a", BACKWARD, "backward"), 2),
        ("b", 0, ("b", BACKWARD, "backward"), 0),
        ("b", 1, ("b", BACKWARD, "backward"), 2),
    ]


def test_there_is_none_if_the_run_is_not_certain():
    def steps():
        results = []
        for _ in range(2):
            with proton.scope("pipelined"):
                results.append(Own.apply(leaf()))
        for result in reversed(results):
            result.sum().backward()
        with proton.scope("alone"):
            result = Own.apply(leaf())
        result.sum().backward(retain_graph=True)
        result.sum().backward()

    record(steps)
    assert chrome_arrows() == [("alone", 0, ("alone", BACKWARD, "backward"), 0)]


def test_arrows_lead_to_another_thread():
    def step():
        with proton.scope("forward thread"):
            result = Own.apply(leaf()).sum()
        thread = threading.Thread(target=result.backward)
        thread.start()
        thread.join()

    record(step)
    (arrow,) = chrome_arrows()
    assert arrow == ("forward thread", 0, ("forward thread", BACKWARD, "backward"), 0)


def test_traces_without_backward_kernels_have_none():
    def step():
        with proton.scope("a"):
            kernel("forward")

    record(step)
    assert chrome_arrows() == []


def test_perfetto_has_the_same_arrows():
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")

    def steps():
        for _ in range(3):
            with proton.scope("a"):
                x = Own.apply(leaf())
            with proton.scope("b"):
                x = Own.apply(x)
            x.sum().backward()

    proton.start("test", data="trace", backward=True)
    steps()
    proton.finalize(None, "perfetto")
    trace = schema.Trace()
    trace.ParseFromString(perfetto_packets(Path("test.pftrace").read_bytes()))
    names, ends = {}, {}
    for packet in trace.packet:
        for name in packet.interned_data.event_names:
            names[name.iid] = name.name
        event = packet.track_event
        for flow in event.flow_ids:
            ends.setdefault(flow, []).append((packet.timestamp, names[event.name_iid]))
    assert sorted([name for _, name in sorted(end)] for end in ends.values()) == [
        *[["a", "backward"]] * 3, *[["b", "backward"]] * 3
    ]
