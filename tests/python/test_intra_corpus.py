"""Automatic scopes in kernels of the shapes of bench/corpus.py: their cost and their warnings.

bench/corpus.py itself takes kernels out of packages, which tests do not download; here it is tried
with modules that a test writes.
"""

import json
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")
import intra_corpus  # noqa: E402
import intra_kernels  # noqa: E402
import triton  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402
from triton_proton import _instrument  # noqa: E402
from triton_proton._libproton import cubin_needs  # noqa: E402

BENCH = Path(__file__).resolve().parents[2] / "bench"
ALL = "default:auto=all,reduce,scan,convert,local:budget=off"


@pytest.fixture(autouse=True)
def fresh(own_cache, monkeypatch):
    monkeypatch.delenv("PROTON_QUIET", raising=False)


def compiled(case, arch: str):
    kernel, signature, constants = case
    names = {**signature, **{name: "constexpr" for name in constants}}
    aligned = {
        (i,): [["tt.divisibility", 16]] for i, kind in enumerate(names.values()) if kind[0] == "*"
    }
    source = ASTSource(kernel, names, constexprs=constants, attrs=aligned)
    return intra_kernels.compile_source(source, arch)


def needs_of(made, arch: str) -> tuple[int, int]:
    if arch.startswith("sm_"):
        return cubin_needs(made.asm["cubin"])
    text = made.asm["amdgcn"]
    keys = ("vgpr_count", "private_segment_fixed_size")
    found = [re.search(rf"^\s*\.{key}:\s*(\d+)", text, re.M) for key in keys]
    return int(found[0][1]), int(found[1][1])


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
@pytest.mark.parametrize("case", intra_corpus.CASES, ids=lambda case: case[0].__name__)
def test_shapes_of_the_corpus(case, arch, capfd):
    registers, local = needs_of(compiled(case, arch), arch)
    _instrument.start("default:auto=all:budget=off")
    made = compiled(case, arch)
    more, more_local = needs_of(made, arch)
    printed = capfd.readouterr().err
    assert made.metadata.proton_layout
    assert "was not instrumented" not in printed and "markers ignored" not in printed
    if more_local > local:
        assert "its scopes cost" in printed
    # Without a budget, sums of 20 scopes take 70 registers, and no CTA is lost for them.
    assert more <= max(registers + 72, 64 if arch.startswith("gfx") else 32)
    if more > registers + 48:
        assert "CTAs per multiprocessor" not in printed
    _instrument.stop()
    if arch.startswith("sm_"):  # the default budget
        _instrument.start("default:auto=all")
        some, some_local = needs_of(compiled(case, arch), arch)
        assert some <= max(registers + 32, 32) and some_local <= local
        _instrument.stop()
    _instrument.start(ALL)
    scopes = re.findall(r"^scope (\w+)@", compiled(case, arch).metadata.proton_layout, re.M)
    assert {"load", "store"} & set(scopes)
    assert {"reduce", "scan", "convert", "local_alloc"} & set(scopes)


# ------------------------------------------------------------------ bench/corpus.py

MODULE = '''
import absent.part as absent
from absent import needed
import triton
import triton.language as tl

FAILS = 1 / 0
HALF = absent.something(needed) or 2


@triton.jit
def inner(x):
    return x * 2


@triton.autotune(configs=[triton.Config({"BLOCK": 256}, num_warps=8)], key=["n"])
@triton.jit
def scaled(x_ptr, out, offsets, n, stride, eps, BLOCK: tl.constexpr, USE_EPS: tl.constexpr):
    row = x_ptr + tl.program_id(0) * stride
    at = tl.arange(0, BLOCK)
    value = inner(tl.load(row + at, mask=at < n)) + eps
    tl.store(out + tl.load(offsets + tl.program_id(0)) + at, value, mask=at < n)
'''


@pytest.fixture
def corpus(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.syspath_prepend(str(BENCH))
    names = set(sys.modules)
    yield lambda name: __import__(name)
    for name in set(sys.modules) - names:
        del sys.modules[name]


def test_kernels_are_found_and_their_arguments_guessed(corpus, tmp_path):
    kernels = corpus("corpus_kernels")
    assert kernels.kernels_in(MODULE) == ["scaled"]
    folder = tmp_path / "files"
    (folder / "some_package").mkdir(parents=True)
    (folder / "some_package" / "__init__.py").write_text("import absent\nraise SystemExit(3)\n")
    (folder / "some_package" / "scaling.py").write_text(MODULE)
    kernels.install([str(folder)])
    module = __import__("some_package.scaling").scaling
    assert module.HALF == 2 and not hasattr(module, "FAILS")
    function, configs, _ = kernels.unwrap(module.scaled)
    assert function.fn.__name__ == "scaled" and len(configs) == 1
    signature, constants, options = next(kernels.guesses(module.scaled))
    assert signature == {
        "x_ptr": "*fp16", "out": "*fp16", "offsets": "*i32", "n": "i32", "stride": "i32",
        "eps": "fp32", "BLOCK": "constexpr", "USE_EPS": "constexpr",
    }
    assert constants == {"BLOCK": 256, "USE_EPS": False}
    assert options["num_warps"] == 8
    with pytest.raises(ImportError):  # only modules of the corpus get a replacement
        __import__("absent_too")


def pair(registers: int, **scopes) -> dict:
    plain = {"registers": 40, "local": 0, "ctas": 4, "seconds": 1.0}
    given = {"cost_reported": True, "scopes": 3, "omitted": 0, "local": 0, "ctas": 4}
    return {
        "plain": plain, "scopes": {"registers": registers, "seconds": 1.5, **given, **scopes}
    }


def test_the_distribution_counts_what_scopes_cost(corpus, tmp_path):
    module = corpus("corpus")
    made = module.distribution(
        [pair(40), pair(42, local=16), pair(50, ctas=3, cost_reported=False), pair(41, omitted=2)]
    )
    assert made["pairs"] == 4
    assert made["registers"] == {"median": 1.5, "p90": 10, "p99": 10, "max": 10}
    assert made["more local memory"] == 1 and made["fewer CTAs"] == 1
    assert made["costly without a warning"] == 1
    assert made["scopes omitted"] == 2 and made["compile time"]["median"] == 1.5
    assert module.distribution([])["pairs"] == 0
    module.write({"kernels": 1, "pairs": [pair(40), pair(41)]}, tmp_path / "corpus.json")
    assert len(json.loads((tmp_path / "corpus.json").read_text())["pairs"]) == 2


def test_the_stored_figures_are_of_enough_kernels():
    made = json.loads((BENCH / "results" / "corpus.json").read_text())
    assert made["kernels"] >= 150
    assert made["nvidia"]["registers"]["p99"] <= 32
    assert made["all"]["costly without a warning"] == 0
    assert sum(t["pairs"] for t in made["targets"].values()) == len(made["pairs"])
