"""Tests that test_pytest_plugin.py runs. TIME is that of the one kernel, in ns."""

import ctypes
import os
import unittest

import pytest

import triton_proton


def launch():
    ctypes.CDLL(os.environ["LAUNCHER"]).launch(b"matmul_kernel", int(os.environ["TIME"]))


@pytest.mark.proton(limit="time/ms < 3.0")
def test_value():
    launch()


@pytest.mark.proton(limit=["time/ms <= 100 in matmul", "time <= +20% in matmul"])
def test_change(proton):
    launch()


def test_fixture(proton):
    launch()
    assert proton.profile.top()["time/ms"].tolist() == [int(os.environ["TIME"]) / 1e6]


@pytest.mark.proton(backend="host")
def test_host(proton):
    with triton_proton.scope("step", {"samples": 8}):
        pass
    assert proton.profile.metrics("samples")["samples"][0] == 8


class TestUnit(unittest.TestCase):
    @pytest.mark.proton(limit="count > 1")
    def test_method(self):
        launch()
