"""Operators that Inductor names in a generated file, above the calls of its kernels, as frames."""

import random
from pathlib import Path

import pytest

import triton_proton as proton
from support import load, walk
from triton_proton import _libproton as lib

NAME = "cab" + "d3f7" * 12 + ".py"

# In the form in which Inductor writes for a GPU.
TEXT = """\
# AOT ID: ['0_inference']
async_compile = None

def call(args):
    arg0_1, arg1_1 = args
    args.clear()
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        buf0 = empty_strided_cuda((8, 16), (16, 1), torch.float32)
        # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.t, aten.addmm]
        extern_kernels.addmm(arg0_1, arg1_1, out=buf0)
        del arg1_1
        buf1 = buf0; del buf0  # reuse
        # Topologically Sorted Source Nodes: [h, out], Original ATen: [aten.gelu, aten.mul]
        # [Provenance debug handles] triton_poi_fused_gelu_mul_0:2
        stream0 = get_raw_stream(0)
        triton_poi_fused_gelu_mul_0.run(buf1, 128, stream=stream0)
        buf2 = empty_strided_cuda((8, 16), (16, 1), torch.float32)
        unnamed.run(buf1, buf2, 128, stream=stream0)
        # Unsorted Source Nodes: [], Original ATen: [aten.sort]
        buf3 = torch.ops.aten.sort.default(buf2)
        # Topologically Sorted Source Nodes: [NAMES], Original ATen: []
        many.run(buf2, 128, stream=stream0)
        buf4 = extern_kernels.other(buf2)
    return (buf4, )
"""
MANY = [f"node_{i}" for i in range(100)]


class Anything:
    """Stands for all that the generated file uses; a call launches a kernel with its name."""

    def __init__(self, name=""):
        self.name = name

    def __getattr__(self, name):
        return Anything(f"{self.name}.{name}")

    def __call__(self, *args, **options):
        if self.name.endswith((".run", ".addmm", ".other", ".sort.default")):
            lib.kernel_begin(self.name)
            lib.kernel_end()
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def record(path, nodes=", ".join(MANY), lines=False):
    """{kernel: frames between the line of the file and kernel}; all frames at `path`."""
    path.parent.mkdir(parents=True)
    path.write_text(TEXT.replace("NAMES", nodes), encoding="utf-8")
    names = (
        "torch empty_strided_cuda extern_kernels get_raw_stream triton_poi_fused_gelu_mul_0 "
        "unnamed many"
    )
    place = {name: Anything(name) for name in names.split()}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), place)
    proton.start("generated", context="python", backend="host")
    place["call"]([1, 2])
    proton.finalize()
    found = {}
    for frames, node in walk(load("generated.hatchet")):
        if "count" not in node["metrics"] or node["children"]:
            continue
        (line,) = (i for i, name in enumerate(frames) if name.startswith(f"{path}:"))
        found[frames[-1]] = [
            name
            for name in frames[line + 1 : -1]
            if "@" not in name or (lines and not name.startswith(str(Path(__file__))))
        ]
    return found


def test_a_kernel_is_below_the_operators_that_its_comment_names(tmp_path):
    found = record(tmp_path / "ab" / NAME)
    (many,) = found.pop("many.run")
    assert found == {
        "extern_kernels.addmm": ["<linear: aten.t, aten.addmm>"],
        "triton_poi_fused_gelu_mul_0.run": ["<h, out: aten.gelu, aten.mul>"],
        "unnamed.run": [],
        "torch.ops.aten.sort.default": ["<aten.sort>"],
        "extern_kernels.other": [],
    }
    shown = many.removeprefix("<").removesuffix(", ...>").split(", ")
    assert shown == MANY[: len(shown)] and 10 < len(shown) < 20


@pytest.mark.parametrize("place", ["ac/" + NAME, "ab/dab" + NAME[3:], "ab/call.py"])
def test_other_files_are_not_read(tmp_path, place):
    assert not any(record(tmp_path / place).values())


def test_a_file_that_has_vanished_names_nothing(tmp_path, monkeypatch):
    path = tmp_path / "ab" / NAME
    start = proton.start

    def vanish(*args, **options):
        path.unlink(missing_ok=True)  # a fixture starts another session at the end
        return start(*args, **options)

    monkeypatch.setattr(proton, "start", vanish)
    found = record(path)
    assert len(found) == 6 and not any(found.values())


def test_damaged_comments_name_something_or_nothing(tmp_path):
    pieces = "h {@ ./ a / = | 12 |f| /x.py } , %2 %2C %00".split(" ")
    random_ = random.Random(7)
    for i in range(150):
        nodes = "".join(random_.choices(pieces, k=random_.randrange(1, 60)))
        path = tmp_path / str(i) / "ab" / NAME
        found = record(path, nodes)
        assert len(found) == 6 and all(len(names) <= 2 for names in found.values())


def test_line_and_operators_of_a_coded_node(tmp_path):
    nodes = "h{@./layers.0/mlp|16|forward|/x/a%2Cb.py}, y{@./layers.0/norm|17|forward|/x/a%2Cb.py}"
    found = record(tmp_path / "ab" / NAME, nodes, lines=True)
    assert found["many.run"] == ["/x/a,b.py:17@forward", "<h, y>"]
