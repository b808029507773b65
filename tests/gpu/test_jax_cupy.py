"""Programs of JAX and CuPy under `proton`: kernels, their scopes and names, on a GPU.

    python -m pytest tests/gpu

Needs the installed package; skipped without a GPU, and each test without its library. torch is
used to look for a GPU. -rA prints the trees.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gpus
import pytest

gpus.need(gpus.NVIDIA, "the programs use CUDA")

JAX = """
import jax
import jax.numpy as jnp
import triton_proton as proton

def loss(w, x):
    with jax.named_scope("encoder"):
        h = jnp.tanh(x @ w)
    with jax.named_scope("decoder"):
        return jnp.square(jnp.sin(h @ w.T) - x).sum()

step = jax.jit(jax.grad(loss))
w = jax.random.normal(jax.random.key(0), (256, 256))
x = jax.random.normal(jax.random.key(1), (64, 256))
step(w, x).block_until_ready()  # compiles
with proton.scope("loop"):
    for _ in range(5):
        w = step(w, x)  # line step
    w.block_until_ready()
"""

CUPY = """
import cupy
from cupyx.profiler import time_range
import triton_proton as proton

raw = cupy.RawKernel(
    'extern "C" __global__ void raw_scale(float *x, float f)'
    '{ x[blockIdx.x * blockDim.x + threadIdx.x] *= f; }',
    "raw_scale",
)
x = cupy.ones(1 << 16, dtype=cupy.float32)

def scale():
    for _ in range(3):
        raw((256,), (256,), (x, cupy.float32(2)))  # line raw

with time_range("range"):
    scale()
    with proton.scope("mine"):
        cupy.sqrt(x, out=x)  # line sqrt
scale()
cupy.cuda.Device().synchronize()
"""


def run(code: str, library: str, tmp_path: Path, *options: str, **variables: str) -> dict:
    """The kernels of a program: {path: count}."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"needs {library}")
    script = tmp_path / "program.py"
    script.write_text(code)
    place = os.environ.get("PROTON_TEST_BIN") or os.path.dirname(sys.executable)
    environment = {k: v for k, v in os.environ.items() if k != "PROTON_BACKEND"}
    # JAX takes most of the memory, which other tests need, too.
    environment.update({"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **variables})
    done = subprocess.run(
        [shutil.which("proton", path=place) or "proton", "-n", "test", *options, str(script)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = dict(kernels(json.loads((tmp_path / "test.hatchet").read_text())[0]))
    print(done.stderr, *(f"{count}  {' > '.join(path)}" for path, count in found.items()), sep="\n")
    assert found, "no kernels"
    return found


def kernels(node: dict, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    for child in node["children"]:
        path = (*above, child["frame"]["name"])
        if child["metrics"].get("count"):
            yield path, child["metrics"]["count"]
        yield from kernels(child, path)


def marks(path: tuple[str, ...], code: str) -> list[str]:
    """The comments `line ...` of a path."""
    lines = code.split("\n")
    found = []
    for name in path:
        file, _, number = name.partition("@")[0].rpartition(":")
        if file.endswith("program.py"):
            found.append(lines[int(number) - 1].rpartition("# line ")[2])
    return found


def test_jax_kernels_are_in_the_scopes_of_the_program(tmp_path):
    found = run(JAX, "jax", tmp_path)
    assert sum(count for path, count in found.items() if path[0] == "loop") >= 5 * 3


def test_jax_names_its_kernels_with_ranges(tmp_path):
    """named_scope is in the NVTX ranges of XLA, outside of CUDA graphs."""
    found = run(JAX, "jax", tmp_path, XLA_FLAGS="--xla_gpu_enable_command_buffer=")
    loop = {path: count for path, count in found.items() if path[0] == "loop"}
    assert sum(loop.values()) >= 5 * 3
    for name in ("encoder", "decoder"):
        assert any(name in part for path in loop for part in path), name


def test_jax_kernels_have_lines(tmp_path):
    found = run(JAX, "jax", tmp_path, "-c", "python")
    named = sum(count for path, count in found.items() if "step" in marks(path, JAX))
    assert named >= 5 * 3


def test_cupy_kernels_are_in_its_ranges(tmp_path):
    found = run(CUPY, "cupy", tmp_path)
    assert found["range", "raw_scale"] == 3
    assert found["raw_scale",] == 3
    assert sum(count for path, count in found.items() if path[:2] == ("range", "mine")) == 1


def test_cupy_kernels_have_lines(tmp_path):
    found = run(CUPY, "cupy", tmp_path, "-c", "python")
    raw = sum(count for path, count in found.items() if marks(path, CUPY)[-1:] == ["raw"])
    root = sum(count for path, count in found.items() if marks(path, CUPY)[-1:] == ["sqrt"])
    assert (raw, root) == (6, 1)
