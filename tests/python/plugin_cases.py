"""Tests that test_pytest_plugin.py runs. TIME has the times of the one kernel in ns, in turns."""

import ctypes
import itertools
import os
import unittest

import pytest

import triton_proton


TIMES = itertools.cycle(map(int, os.environ["TIME"].split(",")))


def launch():
    time = next(TIMES)
    ctypes.CDLL(os.environ["LAUNCHER"]).launch(b"matmul_kernel", time)
    return time


@pytest.mark.proton(limit="time/ms < 3.0")
def test_value():
    launch()


@pytest.mark.proton(limit=["time/ms <= 100 in matmul", "time <= +20% in matmul"])
def test_change(proton):
    launch()


def test_fixture(proton):
    time = launch()
    assert proton.profile.top()["time/ms"].tolist() == [time / 1e6]


@pytest.mark.proton(backend="host")
def test_host(proton):
    with triton_proton.scope("step", {"samples": 8}):
        pass
    assert proton.profile.metrics("samples")["samples"][0] == 8


class TestUnit(unittest.TestCase):
    @pytest.mark.proton(limit="count > 1")
    def test_method(self):
        launch()
