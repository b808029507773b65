"""Operations of other Tritons: new kinds, and new names, which must not lose scopes silently."""

import re

import pytest

pytest.importorskip("triton")

import intra_kernels as kernels  # noqa: E402

from triton_proton import _libproton  # noqa: E402

MODE = "default:auto=all:budget=off"


@pytest.fixture(autouse=True)
def fresh(own_cache):
    pass


def inserted(text: str, mode: str = MODE) -> tuple[set[str], str]:
    """The words of the scopes that a module gets, and the note about it."""
    made, _, note, *_ = _libproton.instrument_ttgir(text, mode, False)
    return set(re.findall(r"// proton\.record start (\w+)@", made or "")), note or ""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "gfx942"])
@pytest.mark.parametrize("name", ["matmul", "attention_backward", "kinds", "specialized"])
def test_all_operations_of_this_triton_are_known(name, arch):
    text = kernels.compile(getattr(kernels, name), arch).asm["ttgir"]
    words, note = inserted(text)
    assert words and "not recognized" not in note


RENAMED = "{} operations were not recognized and have no automatic scopes, the first is {}; " \
    "report it, with Triton's version"


@pytest.mark.parametrize(
    "old, new, first",
    [
        (" tt.load ", " tt.load2 ", "tt.load2"),
        (" ttg.local_store ", " ttg.local_write_store ", "ttg.local_write_store"),
        (" ttng.warp_group_dot ", " nvg.warp_group_dot ", "nvg.warp_group_dot"),
        (" tt.store ", " tt.masked.store ", "tt.masked.store"),
    ],
)
def test_operations_with_other_names_are_reported(old, new, first):
    text = kernels.compile(kernels.matmul, num_stages=1).asm["ttgir"]
    text = text.replace(" ttg.local_alloc ", " ttg.local_store ") if "local_store" in old else text
    count = text.count(old)
    assert count
    _, note = inserted(text.replace(old, new))
    assert note == RENAMED.format(count, first)
    # Also where the budget has something to say.
    assert inserted(text.replace(old, new), "default:auto=all:budget=1")[1].endswith(note)


def test_a_function_with_another_name_is_reported():
    text = kernels.compile(kernels.matmul).asm["ttgir"].replace("tt.func ", "func.func ")
    assert inserted(text) == (
        set(),
        "none of its operations has an automatic scope, because its function was not recognized; "
        "report it, with Triton's version",
    )


MODULE = """module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @k(%x: tensor<64xf32>) {
    OPERATION
    tt.return
  } loc("k.py":1:0)
} loc("k.py":1:0)
"""


@pytest.mark.parametrize(
    "operation, kind, word",
    [
        ("%a = tt.gather %x[%x] {axis = 0 : i32} : (tensor<64xf32>) -> tensor<64xf32>",
         "convert", "gather"),
        ('%a = tt.elementwise_inline_asm "ex2 $0, $1;" {pure = true} %x : tensor<64xf32> -> '
         "tensor<64xf32>", "asm", "asm"),
        ('%a = tt.extern_elementwise %x {libname = "", symbol = "__nv_erff"} : (tensor<64xf32>) -> '
         "tensor<64xf32>", "asm", "extern"),
        ("ttng.fence_async_shared {bCluster = false}", "local", "fence"),
    ],
)
def test_kinds(operation, kind, word):
    text = MODULE.replace("OPERATION", operation + ' loc("k.py":2:0)')
    for mode, expected in ((kind, {word}), ("all", {word}), ("loads,stores", set())):
        assert inserted(text, f"default:auto={mode}:budget=off") == (expected, "")


FLASH = MODULE.replace(
    "OPERATION",
    """scf.for %i = %a to %b step %c : i32 {
      %d = tt.dot %x, %x, %x : tensor<64x64xf16> * tensor<64x64xf16> -> TENSOR loc("k.py":3:0)
      %e = arith.addi %x, %x : tensor<64x64xi32> loc("k.py":4:0)
      %f = arith.mulf %d, %d : tensor<64x64xf32> loc("k.py":5:0)
      %g = arith.addi %x, %x : tensor<64x64xi32> loc("k.py":6:0)
      %h = math.exp2 %f : tensor<64x64xf32> loc("k.py":7:0)
      %j = arith.addf %u, %u : f32 loc("k.py":8:0)
      %k = tt.dot %h, %x, %x : tensor<64x64xf16> * tensor<64x64xf16> -> TENSOR loc("k.py":9:0)
      %l = arith.subf %k, %d : tensor<64x64xf32> loc("k.py":10:0)
      scf.if %m {
        %n = math.exp2 %k : tensor<64x64xf32> loc("k.py":11:0)
      } loc("k.py":11:0)
    } loc("k.py":2:0)
    %o = arith.divf %x, %x : tensor<64x64xf32> loc("k.py":12:0)""",
).replace("TENSOR", "tensor<64x64xf32>")


def test_arithmetic_between_dots():
    made, _, note, *_ = _libproton.instrument_ttgir(FLASH, "default:auto=math:budget=off", False)
    lines = [line.strip() for line in made.splitlines()]
    marks = [i for i, line in enumerate(lines) if "// proton.record" in line]
    around = [
        (re.search(r'record (\w+ [^\s"]+)', lines[i])[1], lines[i + 1][:2], lines[i - 1][:2])
        for i in marks
    ]
    assert note is None and around == [
        ("start math@k.py:5", "%f", "%e"),
        ("end math@k.py:5", "%j", "%h"),
        ("start math@k.py:10", "%l", "%k"),
        ("end math@k.py:10", "sc", "%l"),
    ]
    assert inserted(FLASH)[0] == {"dot", "loop"}  # `all` is without it


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "gfx942"])
def test_arithmetic_of_a_compiled_kernel(arch):
    text = kernels.compile(kernels.attention_backward, arch, num_stages=1).asm["ttgir"]
    assert inserted(text, "default:auto=math:budget=off") == ({"math"}, "")


def test_markers_in_the_source_are_not_assembly():
    marker = '%a = tt.elementwise_inline_asm "// proton.record start load" {pure = false} : i32'
    assert inserted(MODULE.replace("OPERATION", marker + ' loc("k.py":2:0)'))[0] == set()
