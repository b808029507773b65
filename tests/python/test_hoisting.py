"""Vectorized additions move back to their loads where that saves CTAs, without a GPU."""

import pytest

triton = pytest.importorskip("triton")

import intra_kernels as kernels  # noqa: E402

from triton_proton import _instrument, _libproton, _registers  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(own_cache, monkeypatch):
    monkeypatch.delenv("PROTON_QUIET", raising=False)


def compiled(kernel, arch: str = "sm_90", text: str = "default"):
    _instrument.start(text)
    try:
        return kernels.compile(kernel, arch)
    finally:
        _instrument.stop()


def needs_of(made, arch: str) -> tuple[int, int]:
    registers, stack = _libproton.cubin_needs(made.asm["cubin"])
    assert stack == 0
    return registers, _registers.ctas_of(arch, registers, made.metadata._asdict())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("mode", ["default", "default:tree=sums", "default:auto=loads"])
def test_scopes_of_an_unrolled_sum_cost_little(arch, mode, capfd):
    plain, plain_ctas = needs_of(kernels.compile(kernels.row_sum, arch), arch)
    made = compiled(kernels.row_sum, arch, mode)
    registers, ctas = needs_of(made, arch)
    assert made.metadata.proton_layout.count("scope add") == 1
    # Without hoisting, on most architectures 31 to 46 more, and 9 of 16 CTAs fewer: each loaded
    # value stays in a register.
    assert registers <= max(plain, 32) + 6 and ctas >= plain_ctas * 3 / 4
    is_silent = "its scopes cost" not in capfd.readouterr().err
    assert is_silent == (ctas == plain_ctas)


def texts_of(monkeypatch, costs) -> list[str]:
    """A kernel's LLVM IR if its versions cost this much, the hoisted one last."""
    left = list(costs)
    tried = []

    def cost(fitting, made, metadata):
        is_canary = fitting._kernel != "row_sum"
        return _registers.Costs(*(left.pop(0) if left and not is_canary else (0, 0)), 16)

    inner = _registers.Fitting.try_out

    def try_out(fitting, text, metadata):
        tried.append(text)
        return inner(fitting, text, metadata)

    monkeypatch.setattr(_registers.Fitting, "_costs", cost)
    monkeypatch.setattr(_registers.Fitting, "try_out", try_out)
    made = compiled(kernels.row_sum)
    return [*tried, made.asm["llir"]]


@pytest.mark.parametrize(
    "costs, tried, taken",
    [
        ([(0, 0)], 1, 0),
        ([(0, 9), (0, 0)], 2, 1),
        ([(0, 9), (0, 8)], 2, 1),
        ([(64, 0), (0, 0)], 2, 1),
        ([(0, 9), (0, 9)], 2, 0),
        ([(0, 9), (64, 0)], 2, 0),
        ([(64, 1), (64, 2)], 2, 0),
    ],
)
def test_the_step_is_taken_where_it_saves_memory_or_ctas(monkeypatch, costs, tried, taken):
    texts = texts_of(monkeypatch, costs)
    assert len(texts) == tried + 1 and len(set(texts[:-1])) == tried
    assert texts[-1] == texts[taken]


def test_a_hoisted_text_that_cannot_be_assembled_is_not_taken(monkeypatch):
    costs = [(0, 9)]

    def fails(fitting, made, metadata):
        if not costs:
            raise ValueError("no machine code")
        return _registers.Costs(*costs.pop(0), 16)

    monkeypatch.setattr(_registers.Fitting, "_costs", fails)
    made = compiled(kernels.row_sum)
    assert "scope add" in made.metadata.proton_layout


def test_the_order_of_a_kernel_without_vectors_stays(monkeypatch):
    monkeypatch.setattr(
        _registers.Fitting, "try_out", lambda *_: pytest.fail("nothing can be hoisted")
    )
    made = compiled(kernels.marked_loop, text="default:tree=records")
    assert "scope turn" in made.metadata.proton_layout
