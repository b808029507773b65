"""Descriptors, threads, mappings and memory do not grow with sessions and launches."""

import ctypes
import os
from pathlib import Path

import pytest

import triton_proton as proton
from triton_proton import _libproton as lib


class Usage(ctypes.Structure):
    """struct mallinfo2"""

    _fields_ = [(f"field{index}", ctypes.c_size_t) for index in range(10)]


def heap_bytes() -> int:
    usage = ctypes.CDLL(None).mallinfo2
    usage.restype = Usage
    now = usage()
    return now.field7 + now.field4  # uordblks, hblkhd


def held() -> dict[str, int]:
    """Numbers that do not grow with the number of sessions."""
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "mappings": len(Path("/proc/self/maps").read_text().splitlines()),
    }


def one_session(context: str, data: str) -> None:
    session = proton.start("test", backend="host", context=context, data=data)
    for index in range(20):
        with proton.scope(f"s{index % 5}", {"n": 1}):
            lib.kernel_begin("k")
            lib.kernel_end()
    proton.deactivate(session, flushing=True)
    proton.activate(session)
    proton.finalize(session)


@pytest.mark.parametrize("data", ["tree", "trace"])
@pytest.mark.parametrize("context", ["shadow", "python"])
def test_sessions_return_what_they_used(context, data):
    for _ in range(5):
        one_session(context, data)
    before, bytes_before = held(), heap_bytes()
    for _ in range(50):
        one_session(context, data)
    after = held()
    assert after["descriptors"] == before["descriptors"]
    assert after["threads"] == before["threads"]
    assert after["mappings"] <= before["mappings"] + 8  # arenas of malloc
    assert heap_bytes() - bytes_before < 256 << 10


def test_memory_does_not_grow_with_launches():
    """The table of paths of the context "python" grows with different paths only."""
    proton.start("test", backend="host", context="python")

    def run(count: int) -> None:
        for _ in range(count):
            lib.kernel_begin("one")
            lib.kernel_end()
            lib.kernel_begin("two")
            lib.kernel_end()

    run(100)
    before = heap_bytes()
    run(10_000)
    assert heap_bytes() - before < 64 << 10
