"""Launches of code that torch.compile generated, with Inductor on the CPU."""

import re
import shutil
from pathlib import Path

import pytest

from support import load, script, walk

torch = pytest.importorskip("torch")
pytest.importorskip("torch._inductor")
if not shutil.which("c++") and not shutil.which("g++"):
    pytest.skip("Inductor needs a C++ compiler", allow_module_level=True)

BACKWARD = "<backward>"

# Operators that Inductor calls unchanged: on a GPU it would call kernels in their place.
PROGRAM = """
    import torch
    import triton_proton as proton
    from triton_proton import _libproton as lib

    def launch(name):
        def run(x):
            lib.kernel_begin(name)
            lib.kernel_end()
            return x.clone()
        return run

    library = torch.library.Library("proton_compiled", "FRAGMENT")
    for name in ("scale", "scale_backward"):
        library.define(f"{name}(Tensor x) -> Tensor")
        library.impl(name, launch(name), "CPU")
        library.impl(name, lambda x: torch.empty_like(x), "Meta")
    torch.library.register_autograd(
        "proton_compiled::scale",
        lambda ctx, gradient: torch.ops.proton_compiled.scale_backward(gradient),
        setup_context=lambda ctx, inputs, output: None,
    )

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8, bias=False) for _ in range(2))

        def forward(self, x):
            for layer in self.layers:
                x = torch.ops.proton_compiled.scale(layer(x))
            return x

    model = torch.compile(Model())

    def step():
        y = model(torch.ones(2, 8, requires_grad=True))  # line call
        y.sum().backward()

    step()
    proton.start("lines", context="python", backend="host")
    step()
    proton.finalize()
    proton.annotate(model)
    proton.start("modules", backward=True, backend="host")
    step()
    proton.finalize()
    """


@pytest.fixture(scope="module")
def profiles(tmp_path_factory):
    place = tmp_path_factory.mktemp("compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        script(PROGRAM, env={"TORCHINDUCTOR_CACHE_DIR": str(place), "PROTON_QUIET": "1"})
    return place


def kernels(path):
    return {
        names: node["metrics"]["count"]
        for names, node in walk(load(path))
        if "count" in node["metrics"] and not node["children"]
    }


def line_of(name):
    """The file of a source frame and its lines up to the frame's."""
    file, _, number = name.partition("@")[0].rpartition(":")
    return file, Path(file).read_text().split("\n")[: int(number)]


def test_launches_have_the_line_of_the_call_and_that_of_the_generated_code(profiles):
    found = kernels(profiles / "lines.hatchet")
    seen = []
    for path, count in found.items():
        call = next(i for i, name in enumerate(path) if name.endswith("@step"))
        assert line_of(path[call])[1][-1].endswith("# line call")
        (generated,) = (
            i
            for i, name in enumerate(path)
            if name.startswith(str(profiles)) and re.search(r"\.py:\d+@(Runner\.)?call$", name)
        )
        assert BACKWARD not in path[:call] and call < generated
        assert (BACKWARD in path[call:generated]) == (path[-1] == "scale_backward")
        file, lines = line_of(path[generated])
        comments = [line for line in lines if "Original ATen" in line]
        assert f"proton_compiled.{path[-1]}" in comments[-1]
        assert f"ops.proton_compiled.{path[-1]}.default(" in lines[-1]
        assert line_of(path[generated + 1])[1][-1].strip().startswith("x = torch.ops.proton")
        assert re.fullmatch(rf"<.*\bproton_compiled\.{path[-1]}>", path[generated + 2])
        seen.append((path[-1], count))
    assert sorted(seen) == [("scale", 1)] * 2 + [("scale_backward", 1)] * 2


def test_modules_contain_compiled_code(profiles):
    assert kernels(profiles / "modules.hatchet") == {
        ("Model", "scale"): 2, ("Model", BACKWARD, "scale_backward"): 2
    }
