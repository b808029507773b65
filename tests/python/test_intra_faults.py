"""A kernel that compiles without instrumentation compiles with it, whatever fails or has changed.

If scopes are not recorded, a warning names them or the reason.
"""

import re
import sys

import pytest
from support import run_command

triton = pytest.importorskip("triton")

import intra_kernels as kernels  # noqa: E402
from intra_oracle import Oracle  # noqa: E402

from triton_proton import _canary, _instrument, _libproton, _registers  # noqa: E402
from triton_proton._libproton import cubin_needs  # noqa: E402
from triton_proton._markers import parse_instead  # noqa: E402
from triton_proton._registers import SHARED_KIB  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_cache(own_cache, monkeypatch):
    monkeypatch.delenv("PROTON_QUIET", raising=False)


@pytest.fixture
def without_canary(monkeypatch):
    """For tests that break the compiler: the test kernel would be the first to notice."""
    monkeypatch.setattr(_canary, "failure", lambda *_: None)


def change_stage(monkeypatch, name, change):
    """Replace a stage of Triton's compiler by change(stage)."""

    def hook(backend=None, stages=None, options=None, language=None, capability=None):
        if stages is None:
            return "changed", "changed"
        stages[name] = change(stages[name])
        return None

    monkeypatch.setattr(triton.knobs.runtime, "add_stages_inspection_hook", hook)


def code_of(made):
    """The machine code, or AMD's assembly text: its code object names a temporary file."""
    return made.asm.get("cubin") or made.asm["amdgcn"]


def is_plain(made) -> bool:
    return not hasattr(made.metadata, "proton_layout") and not made.metadata.profile_scratch_size


def layout_of(made) -> str:
    return made.metadata.proton_layout


def scopes_of(made) -> list[str]:
    lines = layout_of(made).splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith("scope ")]


# ------------------------------------------------------------------ stages that fail


def failing(has_records):
    """A stage that fails if has_records(its input)."""

    def change(inner):
        def stage(src, metadata, *more, **named):
            if has_records(str(src)):
                metadata["left"] = "behind"
                raise RuntimeError("no such luck")
            return inner(src, metadata, *more, **named)

        return stage

    return change


@pytest.mark.parametrize(
    "arch, stage, sign",
    [
        ("sm_90", "llir", "// proton."),
        ("sm_90", "ptx", "%proton."),
        ("sm_90", "cubin", "%clock"),
        ("gfx942", "llir", "// proton."),
        ("gfx942", "amdgcn", "%proton."),
        ("gfx942", "hsaco", "s_memtime"),
    ],
)
@pytest.mark.parametrize("mode", ["default", "default:auto=all"])
def test_a_stage_that_fails_with_scopes_gets_the_kernel_without(
    monkeypatch, capfd, without_canary, arch, stage, sign, mode
):
    kernel = kernels.marked_add if mode == "default" else kernels.add
    plain = kernels.compile(kernel, arch)
    change_stage(monkeypatch, stage, failing(lambda text: sign in text))
    _instrument.start(mode)
    made = kernels.compile(kernel, arch)
    assert is_plain(made)
    if stage == "llir":
        assert code_of(made) == code_of(plain)
    elif "cubin" in made.asm:  # made with the markers, which are comments
        assert cubin_needs(made.asm["cubin"]) == cubin_needs(plain.asm["cubin"])
    elif stage == "amdgcn":
        assert "// proton." in made.asm["amdgcn"] and "memtime" not in made.asm["amdgcn"]
    assert made.metadata.shared == 0 and not hasattr(made.metadata, "left")
    expected = f"proton: {kernel.__name__} was not instrumented: no such luck\n"
    assert capfd.readouterr().err.count(expected) == 1


@pytest.mark.parametrize("stage", ["llir", "ptx", "cubin"])
def test_errors_of_the_program_stay(monkeypatch, without_canary, stage):
    change_stage(monkeypatch, stage, failing(lambda text: True))
    _instrument.start("default")
    with pytest.raises(RuntimeError, match="no such luck"):
        kernels.compile(kernels.marked_add, "sm_90")


@pytest.mark.parametrize("function", ["instrument_llvm", "instrument_ttgir", "instrument_take_out"])
def test_passes_that_fail_leave_the_kernel(monkeypatch, capfd, without_canary, function):
    def fail(*_):
        raise ValueError("out of order")

    monkeypatch.setattr(_libproton, function, fail)
    _instrument.start("default:auto=loads")
    made = kernels.compile(kernels.marked_add, "sm_90")
    assert is_plain(made) == (function == "instrument_llvm")
    assert "out of order" in capfd.readouterr().err


# ------------------------------------------------------------------ changes in other versions


def test_with_statements_that_a_table_compiles(monkeypatch, capfd):
    """TLX (fbtriton 3.7.4) looks the class up, and compiles only the body of other statements."""
    from triton.compiler import code_generator

    def visit_with(generator, node):
        call = node.items[0].context_expr
        if compile_it := code_generator.WITH_DISPATCH.get(generator.visit(call.func)):
            return compile_it(generator, node)
        return generator.visit_compound_statement(node.body)

    monkeypatch.setattr(code_generator, "WITH_DISPATCH", {}, raising=False)
    monkeypatch.setattr(code_generator.CodeGenerator, "visit_With", visit_with)
    _instrument.start("default")
    assert "kernel" in scopes_of(kernels.compile(kernels.marked_add, "sm_90"))
    assert capfd.readouterr().err == ""


def rewriting(pattern, replacement):
    """A stage that prints its text in another way."""

    def change(inner):
        def stage(src, metadata, *more, **named):
            text, count = re.subn(pattern, replacement, inner(src, metadata, *more, **named))
            assert count
            return text

        return stage

    return change


@pytest.mark.parametrize(
    "pattern, replacement",
    [
        (r"call i32 asm", "call noundef range(i32 0, 9) i32 asm"),
        (r"tail call i32 asm", "notail call i32 asm"),
        (r'"=r"\(\)', '"=r"() nounwind willreturn'),
        (r'"(// proton\.[^"]*)"', r'"\\09\1\\0A"'),
        (r" ptx_kernel ", " dso_local ptx_kernel "),
        (r"captures\(none\)", "captures(address)"),
    ],
)
def test_other_spellings_keep_scopes(monkeypatch, capfd, pattern, replacement):
    change_stage(monkeypatch, "llir", rewriting(pattern, replacement))
    _instrument.start("default")
    assert scopes_of(kernels.compile(kernels.marked_add)) == ["kernel", "load 1 %", "copy"]
    assert "proton:" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "pattern, replacement, reason",
    [
        (
            r"ptr addrspace\(1\)([^%]* %\d+\) local)", r"ptr addrspace(4)\1",
            "the kernel has no parameter for the profile's buffer",
        ),
        (
            r"(ptr addrspace\(1\)[^%]* %\d+)\) local",
            r"\1, ptr addrspace(1) %more) local",
            "the kernel has 7 parameters instead of 6, so the one for the profile's buffer is "
            "unknown",
        ),
    ],
)
def test_another_parameter_is_not_taken_for_the_buffer(
    monkeypatch, capfd, without_canary, pattern, replacement, reason
):
    change_stage(monkeypatch, "llir", rewriting(pattern, replacement))
    _instrument.start("default")
    assert is_plain(kernels.compile(kernels.marked_add))
    reported = capfd.readouterr().err
    assert f"proton: marked_add was not instrumented: {reason}\n" in reported


def test_memory_that_the_metadata_does_not_count_is_not_overwritten(monkeypatch, capfd):
    def change(inner):
        def stage(src, metadata):
            text = inner(src, metadata)
            if metadata["shared"]:
                metadata["shared"] = 256
            return text

        return stage

    change_stage(monkeypatch, "llir", change)
    _instrument.start("default:auto=all")
    assert is_plain(kernels.compile(kernels.matmul))
    assert re.search(
        r"matmul was not instrumented: the kernel uses shared memory at byte \d+, but has only 256 "
        "bytes in its metadata",
        capfd.readouterr().err,
    )


# ------------------------------------------------------------------ the canary


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "gfx90a", "gfx942", "gfx950"])
def test_the_canary_lives(capfd, arch):
    _instrument.start("default:auto=all:sampling_strategy=selective:sampling_options=7")
    kernels.compile(kernels.marked_add, arch, num_warps=8)
    assert "are not instrumented" not in capfd.readouterr().err


def test_the_canary_is_compiled_once(monkeypatch):
    tried = []

    def failure(target, *more):
        tried.append(target.arch)
        return before(target, *more)

    before = _canary.failure
    monkeypatch.setattr(_canary, "failure", failure)
    _instrument.start("default")
    for arch in ("sm_90", "gfx942", "sm_90"):
        kernels.compile(kernels.add, arch)
        kernels.compile(kernels.marked_add, arch)
    assert tried == [90, "gfx942"]


def test_kernels_are_not_changed_if_the_canary_dies(monkeypatch, capfd):
    backend = triton.backends.backends["nvidia"].compiler
    before = backend.make_llir

    def make_llir(*args):
        return before(*args).replace("// proton.", "// ")

    monkeypatch.setattr(backend, "make_llir", make_llir)
    _instrument.start("default")
    assert is_plain(kernels.compile(kernels.marked_add))
    reported = capfd.readouterr().err.splitlines()
    assert [line for line in reported if line.startswith("proton: ")] == [
        "proton: kernels for sm_90 are not instrumented: proton_canary: Triton's compiler removed "
        "these scopes, which are not recorded: canary"
    ]


def test_automatic_scopes_that_another_triton_would_lose_are_missed(monkeypatch, capfd):
    inner = _libproton.instrument_ttgir

    def renamed(text, *more):
        made, *rest = inner(text.replace("tt.load", "tt.load2"), *more)
        return made and made.replace("tt.load2", "tt.load"), *rest

    monkeypatch.setattr(_libproton, "instrument_ttgir", renamed)
    _instrument.start("default:auto=all")
    for _ in range(2):
        assert "kernel" in scopes_of(kernels.compile(kernels.marked_add))
    reported = capfd.readouterr().err
    assert reported.count("proton: automatic scopes are missing in kernels: this Triton ") == 1


def test_an_architecture_without_support_is_reported_once(capfd):
    _instrument.start("default:auto=all")
    for kernel in (kernels.add, kernels.marked_add):
        assert is_plain(kernels.compile(kernel, "gfx1100", warp_size=32))
    reported = capfd.readouterr().err
    assert reported.count("kernels for gfx1100 are not instrumented: ") == 1
    assert "its cycle counter has only 20 bits" in reported


def test_tools_that_see_each_compile_do_not_see_the_canary(monkeypatch):
    seen = []
    compilation = triton.knobs.compilation
    monkeypatch.setattr(compilation, "listener", lambda *, src, **_: seen.append(src.name))
    _instrument.start("default")
    assert scopes_of(kernels.compile(kernels.marked_add))
    assert seen == ["marked_add"]


# ------------------------------------------------------------------ ring buffers


def test_scopes_that_fit_the_ring_buffer_are_kept(capfd):
    """Two pipelined loops with 34 operations, like the backward pass of attention."""
    _instrument.start("default:auto=all:budget=off")
    made = kernels.compile(kernels.attention_backward, num_stages=3)
    text, _, omitted, *_ = _libproton.instrument_ttgir(
        made.asm["ttgir"], "default:auto=all:budget=off", False, False, 10000
    )
    inserted = set(re.findall(r'// proton\.record start ([^"]+)', text))
    assert not omitted and len(inserted) == len(scopes_of(made)) >= 30
    assert "omitted" not in capfd.readouterr().err


@pytest.mark.parametrize("tree", ["auto", "sums"])
@pytest.mark.parametrize("cost", [(0, 0), (16, 0), (0, 1)])
def test_sums_have_extremes_unless_those_cost_memory_or_occupancy(monkeypatch, tree, cost):
    def costs(fitting, made, metadata):
        has_extremes = "\nextremes " in metadata["proton_layout"]
        return _registers.Costs(*(cost if has_extremes else (0, 0)), 8)

    monkeypatch.setattr(_registers.Fitting, "_costs", costs)
    _instrument.start(f"default:tree={tree}")
    layout = layout_of(kernels.compile(kernels.marked_loop))
    assert "\nsum " in layout
    assert ("\nextremes " in layout) == (not any(cost))
    assert "\nwarning " not in layout


def test_scopes_that_cost_as_much_without_extremes_have_them(monkeypatch, capfd):
    monkeypatch.setattr(
        _registers.Fitting, "_costs", lambda *given: _registers.Costs(stack=16, lost=0, ctas=8)
    )
    _instrument.start("default")
    layout = layout_of(kernels.compile(kernels.marked_loop))
    assert "\nextremes " in layout and "its scopes cost 16 bytes" in layout
    assert capfd.readouterr().err.count("marked_loop: its scopes cost") == 1


def test_partitions_are_counted_alone(capfd):
    _instrument.start("default:auto=all:budget=off")
    words = [scope.partition("@")[0] for scope in scopes_of(kernels.compile(kernels.specialized))]
    assert {"default", "partition0", "dot", "tma_load"} <= set(words)
    assert "omitted" not in capfd.readouterr().err


def test_scopes_are_limited_by_the_ring_buffer_that_remains(monkeypatch, capfd):
    """The kernel leaves 2 to 3 KiB of shared memory for the records of four warps."""
    shared = kernels.compile(kernels.attention_backward, num_stages=3).metadata.shared
    limit = (shared + 1023 >> 10) + 2
    monkeypatch.setitem(SHARED_KIB, "sm_90", (limit, limit + 1))
    _instrument.start("default:tree=records:auto=all:budget=off")
    made = kernels.compile(kernels.attention_backward, num_stages=3)
    records = records_of(made)
    assert len(scopes_of(made)) <= records <= 32
    reported = capfd.readouterr().err
    assert f"because a warp can hold {records} records" in reported
    assert reported.count("automatic scopes were omitted") == 1
    assert re.search(r"\nwarning \d+ of \d+ automatic scopes were omitted, .*\n$", layout_of(made))
    assert shared < made.metadata.shared <= limit << 10


def records_of(made) -> int:
    """The size of a warp's ring buffer."""
    return int(re.search(r"\nring (\d+)\n", layout_of(made))[1]) // 8


# ------------------------------------------------------------------ registers


def test_a_kernel_to_which_ptxas_gives_few_registers_gets_its_own_number(monkeypatch, capfd):
    """With records ptxas estimates so many registers that it takes 32 and kilobytes of memory."""
    tried = []

    def fit(ptx, cubin, plain, assemble):
        def remember(text):
            made = assemble(text)
            tried.append(cubin_needs(made))
            return made

        tried.extend([cubin_needs(plain()), cubin_needs(cubin)])
        return before(ptx, cubin, plain, remember)

    before = _registers.fit
    monkeypatch.setattr(_registers, "fit", fit)
    monkeypatch.setattr(_canary, "failure", lambda *_: None)
    _instrument.start("default:tree=records:auto=all:budget=off")
    made = kernels.compile(kernels.products_of_vectors)
    needs = cubin_needs(made.asm["cubin"])
    (_, stack), *others = tried
    assert needs in others and needs[1] == min(memory for _, memory in others)
    assert len(others) > 1 and needs[0] <= 255
    if others[0][0] == 32:  # not with ptxas of Triton 3.6
        assert needs[0] > 200 and needs[1] < others[0][1] / 2
    cost = f"its scopes cost {needs[1] - stack} bytes of local memory per thread"
    assert f"products_of_vectors: {cost}; use fewer scopes" in capfd.readouterr().err
    assert layout_of(made).endswith(f"\nwarning {cost}\n")


# ------------------------------------------------------------------ launches


def test_other_arguments_at_launches_do_not_end_them(tmp_path):
    """Printed once, so in another process."""
    program = """
from triton_proton import _libproton
assert _libproton.instrument_allocate(256, 128) == 0
assert _libproton.instrument_allocate("many", 128, 0) == 0
assert _libproton.instrument_launched(object()) is None
assert _libproton.instrument_launched(type("", (), {"data": {"function": "f"}})) is None
"""
    done = run_command([sys.executable, "-c", program])
    assert done.stderr == (
        "proton: launches of instrumented kernels are not recorded: the allocator is called "
        "without a size, an alignment and a stream\n"
    )


# ------------------------------------------------------------------ Triton's own profiler


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_passes_of_tritons_profiler_may_be_registered_too(capfd, arch):
    """A point of Triton's pipeline has one callback, which is left to them."""
    _instrument.start("default")
    with Oracle(arch):
        made = kernels.compile(kernels.marked_add, arch)
        assert scopes_of(made) == ["kernel", "load 1 %", "copy"]
    _instrument.stop()
    with Oracle(arch):
        _instrument.start("default:auto=loads:budget=off")
        assert [s.partition("@")[0] for s in scopes_of(kernels.compile(kernels.add, arch))] == [
            "load"
        ] * 2
    assert "proton:" not in capfd.readouterr().err


def test_a_kernel_that_tritons_profiler_has_instrumented_is_left_to_it(monkeypatch, capfd):
    def change(inner):
        def stage(src, metadata):
            text = str(src)
            start = text.index("    %", text.index("tt.func"))
            end = text.index("    tt.return")
            text = (
                f'{text[:start]}    proton.record start "theirs"\n{text[start:end]}'
                f'    proton.record end "theirs"\n{text[end:]}'
            )
            oracle.proton.load_dialects(src.context)
            return inner(parse_instead(text, src), metadata)

        return stage

    change_stage(monkeypatch, "llir", change)
    with Oracle("sm_90") as oracle:
        _instrument.start("default:auto=loads:budget=off")
        made = kernels.compile(kernels.add)
    assert made.metadata.profile_scratch_size and not hasattr(made.metadata, "proton_layout")
    expected = "add was not instrumented: another tool has already instrumented it\n"
    assert expected in capfd.readouterr().err
