"""Tests of the installed package. Each runs in a directory of its own and leaves no session."""

from __future__ import annotations

import os

import pytest

import triton_proton as proton
from triton_proton.flags import flags
from triton_proton.hooks import HookManager, LaunchHook

# These tests say what holds without a GPU; where there is one, tests/gpu does the rest.
if os.path.exists("/dev/nvidiactl"):
    os.environ["PROTON_BACKEND"] = "host"


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """A test starts and ends with nothing recorded, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROTON_QUIET", "1")
    monkeypatch.delenv("TRITON_PROTON_DISABLE", raising=False)
    assert not flags.profiling_on
    yield
    flags.command_line = False
    proton.finalize(None, "none")
    LaunchHook().configure()
    assert not HookManager.active_hooks
