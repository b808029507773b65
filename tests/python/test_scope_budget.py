"""The budget of automatic scopes in compiled kernels, without a GPU."""

import re

import pytest

pytest.importorskip("triton")

import intra_kernels as kernels  # noqa: E402

from triton_proton import _instrument, _libproton, _registers, mode  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(own_cache, monkeypatch):
    monkeypatch.delenv("PROTON_QUIET", raising=False)


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
def test_a_budget_omits_scopes_and_the_profile_says_which(arch, capfd, monkeypatch):
    costs_of(monkeypatch, lambda layout: (0, 0))
    every = compiled(kernels.attention_backward, "default:auto=all:budget=off", arch, num_stages=2)
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
    every = compiled(kernels.add, "default:auto=all:budget=off")
    some = compiled(kernels.add, "default:auto=all:budget=5")
    assert scopes_of(some) == scopes_of(every)
    assert "omitted" not in capfd.readouterr().err


def stride_of(made) -> int:
    return int(re.search(r"\ncta_stride (\d+)\n", made.metadata.proton_layout)[1])


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_some_ctas_of_a_short_kernel_record(arch):
    assert stride_of(compiled(kernels.add, "default:auto=all:budget=off", arch)) == 1
    made = compiled(kernels.add, "default:auto=all:budget=5", arch)
    stride = stride_of(made)
    assert stride in (2, 4, 8, 16)
    expected = f"one of {stride} CTAs records, because the ends of all were predicted"
    assert expected in made.metadata.proton_layout
    # The user's choice stays, and a mode with 1 means the default.
    assert stride_of(compiled(kernels.add, "default:auto=all:cta=3:budget=5", arch)) == 3
    assert stride_of(compiled(kernels.add, "default:cta=1:auto=all:budget=5", arch)) == stride
    assert stride_of(compiled(kernels.add, "default:auto=all:budget=100", arch)) == 1


@pytest.mark.parametrize("text", ["default:auto=all", "default:auto=loads"])
def test_automatic_scopes_have_a_budget_of_5_percent_by_default(text):
    made = compiled(kernels.attention_backward, text, num_stages=2)
    same = compiled(kernels.attention_backward, text + ":budget=5", num_stages=2)
    assert made.metadata.proton_layout == same.metadata.proton_layout
    assert "the budget is 5 %" in made.metadata.proton_layout


def test_scopes_in_the_source_are_not_limited():
    made = compiled(kernels.pipelined, "default:auto=loads:budget=1", num_stages=1)
    assert {"load", "dot"} <= words_of(made)


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_scopes_in_the_source_alone_have_no_budget(monkeypatch, capfd, arch):
    """However much they cost, all of them are kept, and every CTA records."""
    costs_of(monkeypatch, lambda layout: (64, 2))
    for text in ("default", "default:cta=1", ""):
        made = compiled(kernels.pipelined, text, arch, num_stages=1)
        assert scopes_of(made) == {"load", "dot"} and stride_of(made) == 1
        assert "omitted" not in made.metadata.proton_layout
    assert "its scopes cost 64 bytes" in capfd.readouterr().err
    # With automatic scopes, which are limited, they stay complete.
    made = compiled(kernels.pipelined, "default:auto=all", arch, num_stages=1)
    assert {"load", "dot"} <= scopes_of(made)


def test_upstreams_mode_for_dots_has_no_budget(monkeypatch):
    costs_of(monkeypatch, lambda layout: (64, 2))
    every = compiled(kernels.attention_backward, "default:auto=dots:budget=off", num_stages=2)
    assert len(scopes_of(every)) > 3
    made = compiled(kernels.attention_backward, "mma", num_stages=2)
    assert scopes_of(made) == scopes_of(every) and stride_of(made) == 1


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


# ---------------------------------------------------------------------- registers and memory


def costs_of(monkeypatch, cost) -> None:
    """Instead of ptxas, `cost` says what the scopes of a kernel with this layout cost."""

    def costs(fitting, made, metadata):
        return _registers.Costs(*cost(metadata["proton_layout"]), 8)

    monkeypatch.setattr(_registers.Fitting, "_costs", costs)


def test_scopes_in_loops_are_omitted_where_they_need_local_memory(monkeypatch, capfd):
    costs_of(monkeypatch, lambda layout: (64, 2) if "scope dot@" in layout else (0, 0))
    made = compiled(kernels.matmul, "default:auto=loads,dots,stores,waits,loops:budget=100")
    assert words_of(made) == {"loop"}
    reported = capfd.readouterr().err
    assert re.search(
        r"matmul: 8 of 9 automatic scopes were omitted, because with more its scopes would cost "
        r"64 bytes of local memory per thread and 2 of 8 CTAs per multiprocessor: .*dot@.*"
        r"; for more, set budget=off\n",
        reported,
    )
    assert "its scopes cost" not in reported and "would cost 64" in made.metadata.proton_layout
    assert made.asm["ptx"].count("// proton") == 0 and made.metadata.profile_scratch_size > 0
    # The same without a budget: a warning.
    made = compiled(kernels.matmul, "default:auto=loads,dots,stores,waits,loops:budget=off")
    assert "dot" in words_of(made)
    assert "\nwarning its scopes cost 64 bytes" in made.metadata.proton_layout


@pytest.mark.parametrize("fewer", [(64, 0), (33, 0), (0, 1)])
def test_no_scope_is_left_where_each_costs_memory_or_ctas(monkeypatch, capfd, fewer):
    """Then the kernel is exactly the plain one."""
    costs_of(monkeypatch, lambda layout: (64, 0) if "scope dot@" in layout else fewer)
    made = compiled(kernels.matmul, "default:auto=all:budget=100")
    plain = kernels.compile(kernels.matmul)
    assert made.asm["cubin"] == plain.asm["cubin"] and not hasattr(made.metadata, "proton_layout")
    assert made.metadata.shared == plain.metadata.shared
    assert not getattr(made.metadata, "profile_scratch_size", 0)
    assert re.search(
        r"proton: matmul: (\d+) of \1 automatic scopes were omitted, because with any its scopes "
        r"would cost 64 bytes of local memory per thread; to have them nevertheless, set budget=off"
        "\n",
        capfd.readouterr().err,
    )


def test_the_innermost_loop_loses_its_scope_first(monkeypatch):
    def cost(layout):
        return (64 * layout.count("scope "), 0) if layout.count("scope loop@") > 1 else (0, 0)

    costs_of(monkeypatch, cost)
    made = compiled(kernels.tiles, "default:auto=all:budget=100")
    (kept,) = scopes_of(made)
    start = kernels.tiles.fn.__code__.co_firstlineno
    assert kept == f"loop@intra_kernels.py:{start + 4}"
    assert " automatic scopes were omitted, because with more " in made.metadata.proton_layout


def test_scopes_in_the_source_stay_with_fewer_automatic_ones(monkeypatch):
    costs_of(monkeypatch, lambda layout: (64, 0) if "scope load@" in layout else (8, 0))
    made = compiled(kernels.pipelined, "default:auto=loops,loads:budget=100", num_stages=1)
    assert words_of(made) == {"loop", "load", "dot"}
    assert "\nscope load\n" in made.metadata.proton_layout and "load@" not in "".join(
        scope for scope in scopes_of(made)
    )


def test_nothing_is_assembled_twice(monkeypatch):
    from triton.backends.nvidia.compiler import CUDABackend

    texts = []
    inner = CUDABackend.make_cubin

    def make_cubin(self, src, *args, **named):
        texts.append(src)
        return inner(self, src, *args, **named)

    monkeypatch.setattr(CUDABackend, "make_cubin", make_cubin)
    for text in ("default:auto=all:budget=off", "default:auto=all:budget=100"):
        texts.clear()
        made = compiled(kernels.attention_backward, text, num_stages=2)
        assert len(texts) == len(set(texts)) > 1
        assert made.asm["ptx"] in texts


def test_a_kernel_that_cannot_be_tried_out_is_compiled(monkeypatch):
    def fails(fitting, made, metadata):
        raise ValueError("no machine code")

    monkeypatch.setattr(_registers.Fitting, "_costs", fails)
    assert "loop" in words_of(compiled(kernels.matmul, "default:auto=all:budget=100"))


def needs_of(made, arch: str) -> tuple[int, int, int]:
    registers, stack = _libproton.cubin_needs(made.asm["cubin"])
    return registers, stack, _registers.ctas_of(arch, registers, made.metadata._asdict())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_scopes_of_large_tensors_are_omitted_where_they_cost_registers(arch, capfd):
    plain = needs_of(kernels.compile(kernels.row_products, arch), arch)
    every = compiled(kernels.row_products, "default:auto=loads,stores:budget=off", arch)
    assert needs_of(every, arch)[0] > plain[0] + 32 and words_of(every) == {"load", "store"}
    assert "its scopes cost" in capfd.readouterr().err
    some = compiled(kernels.row_products, "default:auto=loads,stores:budget=100", arch)
    registers, stack, ctas = needs_of(some, arch)
    assert stack == plain[1] and ctas >= plain[2] and registers <= plain[0] + 32
    assert words_of(some) == {"store"}
    warning = re.search(r"\nwarning (.*)\n", some.metadata.proton_layout)[1]
    assert re.fullmatch(
        r"2 of 3 automatic scopes were omitted, because with more its scopes would cost \d+ of \d+ "
        r"CTAs per multiprocessor: load@[^;]*, load@[^;]*; for more, set budget=off",
        warning,
    )
    assert f"row_products: {warning}\n" in capfd.readouterr().err


def test_many_registers_are_a_price_though_no_cta_is_lost(monkeypatch, capfd):
    def costs(fitting, made, metadata):
        more = 40 if "scope dot@" in metadata["proton_layout"] else 0
        return _registers.Costs(0, 0, 8, more, 32)

    monkeypatch.setattr(_registers.Fitting, "_costs", costs)
    made = compiled(kernels.matmul, "default:auto=all:budget=100")
    assert "dot" not in words_of(made) and "loop" in words_of(made)
    assert "would cost 40 more registers per thread: " in made.metadata.proton_layout
    # Without a budget there is no warning: no CTA is lost.
    capfd.readouterr()
    assert "dot" in words_of(compiled(kernels.matmul, "default:auto=all:budget=off"))
    assert capfd.readouterr().err == ""


def test_other_words_are_tried_where_a_loop_itself_costs_much(monkeypatch):
    costs_of(monkeypatch, lambda layout: (64, 0) if "scope loop@" in layout else (0, 0))
    made = compiled(kernels.matmul, "default:auto=all:budget=100")
    assert words_of(made) and "loop" not in words_of(made)
    assert "loop@intra_kernels.py" in made.metadata.proton_layout.partition("\nwarning ")[2]
