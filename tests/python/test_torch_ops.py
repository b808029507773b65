"""Operators of PyTorch as frames between the Python line and the kernel."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import triton_proton as proton
from support import load, walk
from triton_proton import _libproton as lib

torch = pytest.importorskip("torch")

if os.uname().machine != "x86_64":
    pytest.skip("operators are recorded on x86-64 only", allow_module_level=True)


def library():
    """An operator with a kernel, which another operator calls."""
    made = torch.library.Library("proton_test", "FRAGMENT")
    made.define("inner(Tensor x) -> Tensor")
    made.define("outer(Tensor x) -> Tensor")

    def inner(x):
        lib.kernel_begin("k")
        lib.kernel_end()
        return x.clone()

    made.impl("inner", inner, "CPU")
    made.impl("outer", lambda x: torch.ops.proton_test.inner(x), "CPU")
    return made


LIBRARY = library()
OUTER = ("proton_test::outer", "proton_test::inner")


def kernels():
    return {
        tuple(name for name in path if name.startswith(("proton_test::", "scope", "k"))): node[
            "metrics"
        ]["count"]
        for path, node in walk(load("test.hatchet"))
        if path[-1] == "k"
    }


@pytest.mark.parametrize("context", ["shadow", "python"])
def test_operators_are_frames_above_their_kernels(context):
    proton.start("test", context=context, torch_ops=True)
    for _ in range(3):
        torch.ops.proton_test.outer(torch.ones(2))
    torch.ops.proton_test.inner(torch.ones(2))
    lib.kernel_begin("k")
    lib.kernel_end()
    proton.finalize()
    assert kernels() == {(*OUTER, "k"): 3, ("proton_test::inner", "k"): 1, ("k",): 1}
    if context == "python":
        paths = [path for path, _ in walk(load("test.hatchet")) if path[-3:] == (*OUTER, "k")]
        assert len(paths) == 1 and __file__ in paths[0][-4]


def test_operators_are_below_scopes():
    proton.start("test", torch_ops=True)
    with proton.scope("scope"):
        torch.ops.proton_test.outer(torch.ones(2))
    proton.finalize()
    assert kernels() == {("scope", *OUTER, "k"): 1}


def test_they_are_off_by_default_and_after_the_session():
    proton.start("first", torch_ops=True)
    proton.finalize(None, "none")
    proton.start("test")
    torch.ops.proton_test.outer(torch.ones(2))
    proton.finalize()
    assert kernels() == {("k",): 1}


def test_an_operator_that_raises_is_over():
    proton.start("test", torch_ops=True)
    with pytest.raises(RuntimeError):
        torch.ones(2, 3) @ torch.ones(2, 3)
    lib.kernel_begin("k")
    lib.kernel_end()
    proton.finalize()
    assert [path for path, _ in walk(load("test.hatchet")) if path[-1] == "k"] == [("k",)]


def test_threads_have_their_own_operators():
    proton.start("test", torch_ops=True)
    threads = [
        threading.Thread(
            target=lambda: [torch.ops.proton_test.outer(torch.ones(2)) for _ in range(200)]
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    proton.finalize()
    assert kernels() == {(*OUTER, "k"): 800}


def test_temporary_names_are_not_confused():
    """Names of record_function-like ranges are strings that share addresses."""
    functions = []
    for i in range(20):
        functions.append(
            type(
                f"scope{i}",
                (torch.autograd.Function,),
                {
                    "forward": staticmethod(
                        lambda ctx, x: torch.ops.proton_test.inner(x.detach()).clone()
                    ),
                    "backward": staticmethod(lambda ctx, g: g),
                },
            )
        )
    proton.start("test", torch_ops=True)
    for function in functions:
        function.apply(torch.ones(2, requires_grad=True))
    proton.finalize()
    assert kernels() == {(f"scope{i}", "proton_test::inner", "k"): 1 for i in range(20)}


def test_the_command_records_operators():
    Path("program.py").write_text(
        "import torch\n"
        "from triton_proton import _libproton as lib\n"
        "made = torch.library.Library('proton_test', 'FRAGMENT')\n"
        "made.define('inner(Tensor x) -> Tensor')\n"
        "def inner(x):\n"
        "    lib.kernel_begin('k'); lib.kernel_end()\n"
        "    return x.clone()\n"
        "made.impl('inner', inner, 'CPU')\n"
        "torch.ops.proton_test.inner(torch.ones(2))\n",
        encoding="utf-8",
    )
    subprocess.run(
        [sys.executable, "-m", "triton_proton", "--torch-ops", "-n", "test", "program.py"],
        check=True, env={**os.environ, "PROTON_BACKEND": "host"}, timeout=300,
    )
    assert kernels() == {("proton_test::inner", "k"): 1}
