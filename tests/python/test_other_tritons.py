"""Tritons under other names than "triton", such as tokenspeed_triton."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from triton_proton import _imports

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "proton-tritons"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A function that makes a package with modules; each has the attributes of its text."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def make(name: str, **modules: str) -> None:
        for path, text in modules.items():
            file = tmp_path / name / (path.replace("_in_", "/") + ".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            (file.parent / "__init__.py").touch()
            file.write_text(text)
        (tmp_path / name / "__init__.py").write_text("")

    yield make
    for name in set(sys.modules) - before:
        del sys.modules[name]
    _imports._tritons[:] = ["triton"]


IS_ONE = "class runtime:\n    add_stages_inspection_hook = None\n"


def test_modules_of_another_triton_arrive_before_and_after(package):
    package("earlyton", knobs=IS_ONE, runtime_in_jit="")
    package("lateton", knobs=IS_ONE, runtime_in_jit="")
    package("notriton", knobs="runtime = None\n", runtime_in_jit="")
    import earlyton.knobs
    import earlyton.runtime.jit

    seen = []

    def note(module):
        seen.append(module.__name__)

    _imports.when_triton_has("runtime.jit", note)
    try:
        assert seen == ["earlyton.runtime.jit"] or seen == [
            "triton.runtime.jit", "earlyton.runtime.jit"
        ]
        seen.clear()
        import lateton.knobs
        import lateton.runtime.jit
        import notriton.knobs
        import notriton.runtime.jit  # noqa: F401

        assert seen == ["lateton.runtime.jit"]
        assert lateton.knobs in _imports.modules_of_tritons("knobs")
        assert notriton.knobs not in _imports.modules_of_tritons("knobs")
        assert earlyton.knobs in _imports.modules_of_tritons("knobs")
    finally:
        _imports.forget_triton("runtime.jit", note)
    assert not _imports._everywhere.get("runtime.jit")


PROGRAM = """
import os, sys
os.environ["TRITON_CACHE_DIR"] = sys.argv[1]
from triton_proton import _instrument
import triton_proton.language as pl
if sys.argv[2] == "both":
    import triton as stock
_instrument.start("default:auto=all:budget=off")
import tokenspeed_triton as triton
import tokenspeed_triton.language as tl
from tokenspeed_triton.compiler import ASTSource
from tokenspeed_triton.backends.compiler import GPUTarget

@triton.jit
def kernel(x, y, n):
    at = tl.arange(0, 1024)
    with pl.scope("mine"):
        value = tl.load(x + at, mask=at < n)
    event = pl.allocate_event("copy")
    pl.start_event(event)
    tl.store(y + at, value * 2, mask=at < n)
    pl.end_event(event)

def scopes(target):
    source = ASTSource(kernel, {"x": "*fp32", "y": "*fp32", "n": "i32"}, {})
    made = triton.compile(source, target=target)
    layout = getattr(made.metadata, "proton_layout", "")
    lines = [line.split()[1] for line in layout.splitlines() if line.startswith("scope ")]
    return sorted(name.partition("@")[0] for name in lines)

for target in (GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64)):
    print(scopes(target))
if sys.argv[2] == "both":
    assert stock.knobs.compilation.instrumentation_mode.startswith("proton-")
_instrument.stop()
print(scopes(GPUTarget("cuda", 90, 32)), triton.knobs.compilation.instrumentation_mode == "")
print("triton" in sys.modules)
"""


@pytest.mark.parametrize("loaded", ["alone", "both"])
def test_kernels_of_tokenspeed_triton_get_scopes(tmp_path, loaded):
    if not (CACHE / "tokenspeed_triton").is_dir():
        pytest.skip(f"tokenspeed_triton is not in {CACHE}; .ci/run downloads it")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = os.pathsep.join([str(CACHE), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "cache"), loaded],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, timeout=500, text=True,
    )
    assert done.stdout.splitlines() == [
        "['copy', 'load', 'mine', 'store']", "['copy', 'load', 'mine', 'store']", "[] True",
        str(loaded == "both"),
    ], done.stderr
