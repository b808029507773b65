"""Tests of the installed package. Each runs in its own directory and leaves no session."""

import os
import signal

import pytest

import triton_proton as proton
from triton_proton.flags import flags
from triton_proton.hooks import HookManager, LaunchHook

# These tests say what holds without a GPU; where there is one, tests/gpu does the rest.
if os.path.exists("/dev/nvidiactl"):
    os.environ["PROTON_BACKEND"] = "host"

# Python ignores these itself, and restores them in the programs that it starts.
OF_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}


def have_default_signals() -> None:
    """
    Programs that tests start have the default for signals that our caller ignores or blocks, as
    nohup does: an ignored signal stays ignored across exec(), a handled one does not.
    """
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN and number not in OF_PYTHON:
            signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide how a child ended
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


have_default_signals()


def assert_no_scope_is_open(name: str) -> None:
    """An open scope would be part of what the next test records."""
    session = proton.start(name, backend="host")
    if session is None:
        return  # the test has turned profiling off
    depth = proton.context.depth(session)
    with pytest.raises(IndexError, match="no scope is open"):
        proton.exit_scope()
    proton.finalize(session, "none")
    assert depth == 0


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """A test starts and ends with nothing recorded and no open scope, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROTON_QUIET", "1")
    monkeypatch.delenv("TRITON_PROTON_DISABLE", raising=False)
    # What other tests have printed is printed again.
    monkeypatch.setattr("triton_proton._message._printed", set())
    assert not flags.profiling_on
    yield
    flags.command_line = False
    proton.finalize(None, "none")
    LaunchHook().configure()
    assert not HookManager.active_hooks
    assert_no_scope_is_open(str(tmp_path / "open"))


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    """Triton compiles into a cache of the test, and instrumentation ends with the test."""
    from triton_proton import _instrument

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    yield
    while flags.instrumentation_on:
        _instrument.stop()
