"""The budget of automatic scopes in compiled kernels, without a GPU."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("triton")

import intra_kernels as kernels  # noqa: E402

from triton_proton import _instrument, _libproton, mode  # noqa: E402
from triton_proton.flags import flags  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PROTON_QUIET", raising=False)
    yield
    while flags.instrumentation_on:
        _instrument.stop()


def compiled(kernel, text: str, arch: str = "sm_90", **options):
    _instrument.start(text)
    try:
        return kernels.compile(kernel, arch, **options)
    finally:
        _instrument.stop()


def scopes_of(made) -> set[str]:
    return set(re.findall(r"\nscope (.*)", made.metadata.proton_layout))


def words_of(made) -> set[str]:
    return {scope.partition("@")[0] for scope in scopes_of(made)}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_a_budget_omits_scopes_and_the_profile_says_which(arch, capfd):
    every = compiled(kernels.attention_backward, "default:auto=all", arch, num_stages=2)
    assert "budget" not in capfd.readouterr().err
    some = compiled(kernels.attention_backward, "default:auto=all:budget=5", arch, num_stages=2)
    kept = scopes_of(some)
    assert kept and kept < scopes_of(every) and "loop" in words_of(some)
    reported = capfd.readouterr().err
    assert reported.count("the budget is 5 %") == 1
    warning = re.search(r"\nwarning (.*)\n", some.metadata.proton_layout)[1]
    omitted = len(scopes_of(every)) - len(kept)
    assert f"{omitted} of {len(scopes_of(every))} automatic scopes were omitted" in warning
    assert warning.split(";")[0] in reported


def test_a_kernel_with_much_work_between_records_keeps_all(capfd):
    every = compiled(kernels.add, "default:auto=all")
    some = compiled(kernels.add, "default:auto=all:budget=5")
    assert scopes_of(some) == scopes_of(every)
    assert "budget" not in capfd.readouterr().err


def test_scopes_in_the_source_are_not_limited():
    made = compiled(kernels.pipelined, "default:auto=loads:budget=1", num_stages=1)
    assert {"load", "dot"} <= words_of(made)


def test_each_budget_is_another_kernel_in_the_cache():
    keys = {
        _libproton.instrument_mode(str(mode.Default(auto="all", budget=budget)))["key"]
        for budget in (1, 5, "off")
    }
    assert len(keys) == 3
    _instrument.start("default:auto=all:budget=5")
    with pytest.raises(ValueError, match="a live session instruments kernels"):
        _instrument.start("default:auto=all:budget=6")
    _instrument.start("default:auto=all:budget=5")
    _instrument.stop()


def test_the_same_kernel_gets_the_same_scopes_again():
    texts = {compiled(kernels.matmul, "default:auto=all:budget=5").asm["ttgir"] for _ in range(2)}
    layouts = {
        compiled(kernels.matmul, "default:auto=all:budget=5").metadata.proton_layout
        for _ in range(2)
    }
    assert len(texts) == len(layouts) == 1
