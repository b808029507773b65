"""The work of kernels: what TTIR says is what Triton's interpreter does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

triton = pytest.importorskip("triton")
pytest.importorskip("torch")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402
from work_kernels import CASES  # noqa: E402

from triton_proton import _libproton  # noqa: E402

_HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def interpreted():
    done = subprocess.run(
        [sys.executable, str(_HERE / "work_kernels.py")],
        env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", CASES)
def test_counted_work_is_that_of_the_interpreter(name, interpreted):
    case = CASES[name]
    types = {key: f"*{value[1]}" if isinstance(value, tuple) else "i32"
             for key, value in case.arguments.items()}
    types.update(dict.fromkeys(case.constants, "constexpr"))
    kernel = triton.compile(ASTSource(case.kernel, types, constexprs=case.constants),
                            target=GPUTarget("cuda", 90, 32))
    given = tuple(None if isinstance(v, tuple) else v for v in case.arguments.values())
    metrics, dots, flops = _libproton.work_count(
        _libproton.work_read(kernel.asm["ttir"]), case.grid, given
    )
    expected = interpreted[name]
    assert dots == expected["dots"]
    assert flops - dots == expected["others"]
    assert metrics["requested_bytes"] == sum(expected["requested"])
    assert metrics["bytes"] == sum(expected["once"])
