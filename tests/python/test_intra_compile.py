"""Instrumentation inside Triton's compiler, without a GPU: the compiled kernels."""

import re

import pytest

triton = pytest.importorskip("triton")

import intra_kernels as kernels  # noqa: E402

import triton_proton.language as pl  # noqa: E402
from triton_proton import _instrument, _libproton, _markers, mode  # noqa: E402
from triton_proton.flags import flags  # noqa: E402


pytestmark = pytest.mark.usefixtures("own_cache")


def layout_of(kernel):
    """The layout in a kernel's metadata: unique keys, and the scopes and codes."""
    lines = kernel.metadata.proton_layout.splitlines()
    assert lines[0] == "proton-instrument 1"
    words = [line.split(" ", 1) for line in lines[1:]]
    scopes = [value for key, value in words if key == "scope"]
    codes = {tuple(map(int, value.split())) for key, value in words if key == "code"}
    named = {(scopes[scope], kind) for scope, kind in codes}
    return dict(words), scopes, named


SCOPE, START, END, EVENT_START, EVENT_END = range(5)


# ------------------------------------------------------------------ scope calls in the source


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_scopes_become_records(target):
    plain = kernels.compile(kernels.marked_add, target)
    assert "proton" not in plain.asm["ttgir"] and "proton" not in plain.asm["llir"]
    assert not hasattr(plain.metadata, "proton_layout")
    _instrument.start("default")
    made = kernels.compile(kernels.marked_add, target)
    keys, scopes, named = layout_of(made)
    assert keys["vendor"] == ("amd" if target.startswith("gfx") else "nvidia")
    assert keys["warps"] == "4" and keys["units"] == "0 1 2 3"
    assert scopes == ["kernel", "load 1 %", "copy"]
    assert {("copy", EVENT_START), ("copy", EVENT_END)} <= named
    assert {("kernel", START), ("kernel", END)} <= named  # around a loop: two blocks
    metadata = made.metadata
    assert metadata.profile_scratch_size == int(keys["cta"]) and metadata.proton_layout
    assert metadata.profile_scratch_align == 128
    assert metadata.shared > plain.metadata.shared


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_noinline_functions_record(target):
    _instrument.start("default:auto=loads")
    _, scopes, named = layout_of(kernels.compile(kernels.calling, target))
    words = {scope.partition("@")[0] for scope in scopes}
    assert words == {"kernel", "sum", "load"}
    # Two records if its load is in a separate block, as in Triton 3.6 for AMD.
    assert ("sum", SCOPE) in named or {("sum", START), ("sum", END)} <= named


def scoped(ttgir: str, scope: str) -> list[list[str]]:
    """The operations inside of each place of a scope, in the order of the text."""
    places: list[list[str]] = []
    is_open = False
    for line in ttgir.splitlines():
        if f'// proton.record start {scope}"' in line:
            places.append([])
            is_open = True
        elif f'// proton.record end {scope}"' in line:
            is_open = False
        elif is_open and (found := re.search(r"\b(?:tt|ttg|ttng|amdg)\.(\w+)", line)):
            places[-1].append(found[1])
    assert not is_open
    return places


@pytest.mark.parametrize("target", ["sm_90", "sm_100", "gfx942"])
def test_scopes_around_loops_stay_around_them(target):
    """Adjacent loops, and a loop in a loop, with no operation between a scope and its loop."""
    _instrument.start("default")
    made = kernels.compile(kernels.loops_in_scopes, target, num_stages=3)
    assert set(layout_of(made)[1]) == {"first", "second", "third", "inner"}
    for scope, loops in (("first", 1), ("second", 1), ("third", 2)):
        parts = made.asm["ttgir"].split(f'// proton.record start {scope}"')
        assert len(parts) == 2, scope
        inside = parts[1].split(f'// proton.record end {scope}"')[0]
        assert inside.count("scf.for") >= loops
        lines = [line.split(" loc(")[0].strip() for line in inside.splitlines()]
        opened = sum(line.endswith("{") for line in lines)
        assert opened == sum(line.startswith("}") for line in lines)


@pytest.mark.parametrize("line_info", [True, False])
@pytest.mark.parametrize("target", ["sm_90", "sm_100", "sm_120"])
def test_scopes_follow_their_operations_into_partitions(target, line_info, capfd, monkeypatch):
    """Triton's passes drop their markers for sm_90, and copy them into partitions for sm_100."""
    monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "0" if line_info else "1")
    _instrument.start("default")
    made = kernels.compile(kernels.specialized, target)
    _, scopes, _ = layout_of(made)
    assert sorted(scopes) == ["dot", "load #1", "store"]
    assert "not recorded" not in capfd.readouterr().err
    ttgir = made.asm["ttgir"]
    loads = scoped(ttgir, "load%20%231")
    assert sum(place.count("async_tma_copy_global_to_local") for place in loads) == ttgir.count(
        "ttng.async_tma_copy_global_to_local"
    )
    stores = scoped(ttgir, "store")
    assert all("async_tma_copy_local_to_global" in place for place in stores)
    dots = {"warp_group_dot", "tc_gen5_mma", "dot"}
    assert any(dots & set(place) for place in scoped(ttgir, "dot"))
    assert not any(dots & set(place) for place in loads + stores)


@pytest.mark.parametrize("target", ["sm_90", "sm_100", "gfx90a", "gfx942", "gfx950"])
def test_scope_calls_in_pipelined_loops(target):
    """Before 3.9 Triton's pipeliner stops at them, for AMD and Blackwell."""
    _instrument.start("default")
    made = kernels.compile(kernels.pipelined, target, num_stages=3)
    _, scopes, _ = layout_of(made)
    assert sorted(scopes) == ["dot", "load"]
    assert scoped(made.asm["ttgir"], "load") and scoped(made.asm["ttgir"], "dot")


def test_scopes_that_cannot_follow_are_named(capfd, monkeypatch):
    monkeypatch.delenv("PROTON_QUIET", raising=False)
    _instrument.start("default")
    made = kernels.compile(kernels.without_work, "sm_90")
    assert layout_of(made)[1] == ["dot"]
    reported = capfd.readouterr().err
    assert "without_work: these scopes are not recorded: copy, half, place; where" in reported


@pytest.mark.parametrize("is_fault_of_markers", [True, False])
def test_a_stage_that_fails_is_given_the_kernel_without_markers(is_fault_of_markers):
    """A kernel that compiles without profiling has to compile with it."""
    seen = []

    def failing(stages):
        inner = stages["ttgir"]

        def ttgir(src, metadata):
            seen.append("// proton." in str(src))
            if seen[-1] or not is_fault_of_markers:
                metadata["left"] = "behind"
                raise RuntimeError("PassManager::run failed")
            return inner(src, metadata)

        stages["ttgir"] = ttgir

    knobs = triton.knobs.runtime
    before = knobs.add_stages_inspection_hook

    def hook(backend=None, stages=None, options=None, language=None, capability=None):
        if stages is None:
            return "failing", "failing"
        return failing(stages)

    knobs.add_stages_inspection_hook = hook
    try:
        _instrument.start("default")
        if is_fault_of_markers:
            made = kernels.compile(kernels.marked_add, "sm_90")
            assert "kernel" in layout_of(made)[1] and not hasattr(made.metadata, "left")
        else:
            with pytest.raises(RuntimeError, match="PassManager"):
                kernels.compile(kernels.marked_add, "sm_90")
        assert seen == [True, False]
    finally:
        _instrument.stop()
        knobs.add_stages_inspection_hook = before


def test_the_mode_reaches_the_pass():
    _instrument.start(
        "default:sampling_strategy=selective:sampling_options=3,0:buffer_type=global:"
        "buffer_size=4096:cta=4"
    )
    keys, _, _ = layout_of(kernels.compile(kernels.marked_add, "sm_90"))
    assert (keys["units"], keys["ring"], keys["cta_stride"]) == ("0 3", "2048", "4")


@pytest.mark.parametrize("warps", [1, 4, 8, 16])
def test_every_granularity(warps):
    """The first warp of each unit records, and a unit is a CTA at most."""
    sizes = {
        "warp": 1, "warp_2": 2, "warp_4": 4, "warp_8": 8, "warp_group": 4,
        "warp_group_2": 8, "warp_group_4": 16, "warp_group_8": 32, "cta": 32,
    }  # fmt: skip
    assert set(sizes) == set(mode.granularities)
    for name, size in sizes.items():
        _instrument.start(f"default:granularity={name}")
        keys, _, _ = layout_of(kernels.compile(kernels.marked_add, "sm_90", num_warps=warps))
        assert keys["units"] == " ".join(map(str, range(0, warps, size))), name
        assert int(keys["warps_per_unit"]) == min(size, warps), name
        _instrument.stop()


@pytest.mark.parametrize(
    "size, ring", [(32, 16), (63, 16), (200, 32), (1000, 128), (1 << 20, 32768)]
)
def test_sizes_of_buffers(size, ring):
    """Rounded down for each of the four warps, to two records at least and what a CTA can have."""
    _instrument.start(f"default:buffer_size={size}")
    keys, _, _ = layout_of(kernels.compile(kernels.marked_add, "sm_90"))
    assert int(keys["ring"]) == ring


@pytest.mark.parametrize(
    "options, printed",
    [
        ("buffer_size=31", "buffer_size 31 is too small for 4 warps; the minimum is 32"),
        ("sampling_strategy=selective:sampling_options=0,4", "sampling_options selects warp 4"),
    ],
)
def test_modes_that_do_not_fit_a_kernel(capfd, monkeypatch, options, printed):
    monkeypatch.delenv("PROTON_QUIET", raising=False)
    _instrument.start(f"default:{options}")
    made = kernels.compile(kernels.marked_add, "sm_90")
    assert not hasattr(made.metadata, "proton_layout")
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("proton: ")]
    assert len(lines) == 1 and f"marked_add was not instrumented: {printed}" in lines[0]


def test_gluon_and_partitions():
    _instrument.start("default")
    made = kernels.compile(kernels.partitions, "sm_90")
    keys, scopes, named = layout_of(made)
    assert keys["warps"] == "8" == str(made.metadata.num_warps)
    assert set(scopes) == {"all", "first", "second", "copy"}
    assert {("copy", EVENT_START), ("copy", EVENT_END)} <= named


def test_semantics_can_be_disabled():
    _instrument.start("default")
    pl.disable_semantic("triton")
    try:
        with pytest.raises(triton.CompilationError, match="scopes are disabled in triton"):
            kernels.compile(kernels.marked_add, "sm_90")
        kernels.compile(kernels.partitions, "sm_90")
    finally:
        pl.enable_semantic("triton")
    kernels.compile(kernels.marked_add, "sm_90")
    with pytest.raises(ValueError, match="Unknown semantic: cuda"):
        pl.enable_semantic("cuda")


def test_bad_scope_calls():
    _instrument.start("default")
    with pytest.raises(triton.CompilationError, match="string, not a value of the kernel"):
        kernels.compile(kernels.unnamed, "sm_90")
    with pytest.raises(triton.CompilationError, match="expected an event"):
        kernels.compile(kernels.not_an_event, "sm_90")


def test_a_kernel_that_cannot_be_instrumented_is_compiled_unchanged(capfd, monkeypatch):
    monkeypatch.delenv("PROTON_QUIET", raising=False)
    _instrument.start("default:sampling_strategy=selective:sampling_options=7")
    made = kernels.compile(kernels.marked_add, "sm_90")
    assert not hasattr(made.metadata, "proton_layout")
    assert made.metadata.profile_scratch_size == 0
    assert "marked_add was not instrumented: sampling_options selects" in capfd.readouterr().err


# ------------------------------------------------------------------ in and out of Triton


def test_triton_is_restored():
    knobs, compiler = triton.knobs, triton.compiler.compiler
    before = (
        knobs.runtime.add_stages_inspection_hook, knobs.compilation.instrumentation_mode,
        compiler.parse, compiler.IRSource.__init__, compiler.IRSource.parse_options,
        compiler.ASTSource.parse_options,
    )
    _instrument.start("default")
    assert flags.instrumentation_on
    mode = knobs.compilation.instrumentation_mode
    assert mode.startswith("proton-") and "," not in mode
    _instrument.start("default:launches=all")  # makes the same code
    with pytest.raises(ValueError, match="finalize it first"):
        _instrument.start("default:buffer_type=global")
    _instrument.stop()
    assert flags.instrumentation_on
    _instrument.stop()
    assert not flags.instrumentation_on
    assert before == (
        knobs.runtime.add_stages_inspection_hook, knobs.compilation.instrumentation_mode,
        compiler.parse, compiler.IRSource.__init__, compiler.IRSource.parse_options,
        compiler.ASTSource.parse_options,
    )
    _instrument.stop()  # once too often
    with pytest.raises(ValueError, match="unknown key"):
        _instrument.start("default:speed=1")
    assert not flags.instrumentation_on


def test_another_hook_is_called_too():
    seen = []

    def other(*args):
        seen.append(len(args))
        return ("other", "digest") if not args else None

    knobs = triton.knobs.runtime
    before = knobs.add_stages_inspection_hook
    knobs.add_stages_inspection_hook = other
    try:
        _instrument.start("default")
        key, digest = knobs.add_stages_inspection_hook()
        assert key.startswith("other") and len(key) > 5
        assert digest.startswith("digest") and len(digest) > 6
        made = kernels.compile(kernels.marked_add, "sm_90")
        assert made.metadata.proton_layout and 5 in seen
        mine = knobs.add_stages_inspection_hook
        _instrument.stop()
        assert knobs.add_stages_inspection_hook is other
        # A tool that chained to Proton's hook and still calls it gets the other hook's results.
        assert mine() == ("other", "digest")
    finally:
        knobs.add_stages_inspection_hook = before


def test_no_instrumented_kernel_is_cached_as_a_plain_one(capfd, monkeypatch):
    """A Triton that does not ask for keys, as 3.6, and a kernel compiled without our mode."""
    monkeypatch.delenv("PROTON_QUIET", raising=False)
    _instrument.start("default")
    mine = triton.knobs.runtime.add_stages_inspection_hook
    monkeypatch.setattr(
        triton.knobs.runtime, "add_stages_inspection_hook",
        lambda *args: mine(*args) if args else ("", ""),
    )
    assert layout_of(kernels.compile(kernels.marked_add, "sm_90"))
    mode = triton.knobs.compilation.instrumentation_mode
    monkeypatch.setattr(triton.knobs.compilation, "instrumentation_mode", "")
    made = kernels.compile(kernels.marked_add, "sm_90", num_warps=8)
    assert not hasattr(made.metadata, "proton_layout")
    reported = capfd.readouterr().err
    assert "another tool changed triton.knobs.compilation.instrumentation_mode" in reported
    monkeypatch.setattr(triton.knobs.compilation, "instrumentation_mode", mode)


# ------------------------------------------------------------------ another Triton


@pytest.fixture
def rewrite_llvm(monkeypatch):
    """Sets a hook that rewrites the LLVM IR of kernels, as another LLVM would print it."""

    def set_hook(rewrite):
        def hook(backend=None, stages=None, *_):
            if stages is None:
                return "rewritten", "rewritten"
            inner = stages["llir"]
            stages["llir"] = lambda src, metadata: rewrite(inner(src, metadata))
            return None

        monkeypatch.setattr(triton.knobs.runtime, "add_stages_inspection_hook", hook)

    monkeypatch.delenv("PROTON_QUIET", raising=False)
    return set_hook


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
@pytest.mark.parametrize("spelling", ["notail call noundef i32", "call range(i32 0, 9) i32"])
def test_markers_may_be_printed_with_attributes(rewrite_llvm, capfd, target, spelling):
    rewrite_llvm(lambda text: re.sub(r"\w+ call i32(?= asm)", spelling, text))
    _instrument.start("default")
    made = kernels.compile(kernels.marked_add, target)
    assert layout_of(made)[1] == ["kernel", "load 1 %", "copy"]
    assert "proton: " not in capfd.readouterr().err


def test_markers_in_an_unknown_form_are_reported(rewrite_llvm, capfd):
    rewrite_llvm(lambda text: re.sub(
        r'i32 (asm sideeffect "// proton.record \w+ load[^"]*", )"=r"', r'i64 \1"=l"', text))
    _instrument.start("default")
    assert layout_of(kernels.compile(kernels.marked_add, "sm_90"))[1] == ["kernel", "copy"]
    assert re.search(
        r"marked_add: 2 scope markers ignored, so these scopes are lost: cannot parse the marker "
        r"in line \d+ of the kernel's LLVM IR\n", capfd.readouterr().err)


@pytest.mark.parametrize("mode", ["default", "default:auto=loads"])
def test_markers_that_llvm_removes_are_reported(rewrite_llvm, capfd, mode):
    rewrite_llvm(lambda text: text.replace("// proton.", "// "))
    _instrument.start(mode)
    kernel = kernels.add if "auto" in mode else kernels.marked_add
    assert not hasattr(kernels.compile(kernel, "sm_90").metadata, "proton_layout")
    lost = "load@intra_kernels.py:" if "auto" in mode else "copy, kernel, load 1 %"
    assert (
        f"{kernel.__name__}: Triton's compiler removed these scopes, which are not recorded: {lost}"
        in capfd.readouterr().err
    )


MARKS = """
  proton "// proton.record start outer"
  proton "// proton.record start a"
  proton "// proton.record end a"
  proton "// proton.record start b"
  %1 = tt.load %0
  proton "// proton.record end b"
  proton "// proton.record end outer"
  proton "// proton.event start copy"
  proton "// proton.record start a"
  proton "// proton.record end a"
  proton "// proton.record start b"
  proton "// proton.record end b"
  proton "// proton.record start open"
"""


def test_empty_scopes_are_found():
    assert _markers.empty_scopes(MARKS) == {"a"}
    assert _markers.empty_scopes(MARKS + '  %2 = tt.load %0\n"// proton.record end open"') == {"a"}
    assert _markers.empty_scopes(MARKS.replace("  %1 = tt.load %0\n", "")) == {"a", "b", "outer"}
    assert _markers.empty_scopes("") == set()


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_no_scope_of_a_flattened_loop_is_empty(target, capfd):
    _instrument.start("default")
    made = kernels.compile(kernels.flattened, target, num_stages=3, num_warps=8)
    assert set(layout_of(made)[1]) == {"tile", "load", "dot", "store"}
    text = made.asm["ttgir"]
    assert _markers.markers_of(text) == {"tile", "load", "dot", "store"}
    assert _markers.empty_scopes(text) == set()
    assert "moved all operations" not in capfd.readouterr().err


def test_scopes_that_remain_empty_are_reported(monkeypatch, capfd):
    monkeypatch.delenv("PROTON_QUIET", raising=False)
    monkeypatch.setattr(_libproton, "instrument_relocate", lambda *_: None)
    _instrument.start("default")
    made = kernels.compile(kernels.flattened, "sm_100", num_stages=3, num_warps=8)
    assert set(layout_of(made)[1]) == {"tile", "load", "dot", "store"}
    assert (
        "flattened: Triton's compiler moved all operations out of these scopes, which measure "
        "nothing: dot, load\n" in capfd.readouterr().err
    )


def test_a_hook_may_get_more_arguments(monkeypatch):
    seen = []

    def before(*args, **named):
        seen.append((len(args), named))
        return ("before", "before") if len(args) < 2 else None

    runtime = triton.knobs.runtime
    monkeypatch.setattr(runtime, "add_stages_inspection_hook", before)
    _instrument.start("default")
    mine = runtime.add_stages_inspection_hook
    monkeypatch.setattr(
        runtime, "add_stages_inspection_hook",
        lambda *args: mine(*args, "another", target="sm_90") if args else mine(target=None),
    )
    assert layout_of(kernels.compile(kernels.marked_add, "sm_90"))[1]
    assert (6, {"target": "sm_90"}) in seen and (0, {"target": None}) in seen
    runtime.add_stages_inspection_hook = mine


class Backend:
    class target:
        backend, warp_size = "cuda", 32


class Options:
    instrumentation_mode = property(lambda _: triton.knobs.compilation.instrumentation_mode)


def test_unknown_stages_do_not_end_a_compile(monkeypatch, capfd):
    monkeypatch.delenv("PROTON_QUIET", raising=False)
    _instrument.start("default")
    hook = triton.knobs.runtime.add_stages_inspection_hook
    assert hook(Backend, {}, Options(), None, 90) is None
    assert hook(backend=None, stages={"llir": print}) is None
    stages = {"llir": lambda src, metadata, level: (src, level)}
    hook(Backend, stages, Options(), None, 90)
    marker = '"// proton.record start a"'
    assert stages["llir"]("module", {}, level=3) == ("module", 3)
    assert stages["llir"](marker, {}, level=3) == (marker, 3)
    reported = capfd.readouterr().err
    assert "a kernel was not instrumented: unknown compiler stages: KeyError('llir')" in reported
    assert "a kernel was not instrumented: unknown compiler stages: TypeError(" in reported
    assert "a kernel was not instrumented: its LLVM IR is not text" in reported
    stages = {"llir": lambda src, metadata: '%1 = call i32 asm "// proton.record start a", "=r"()'}
    hook(Backend, stages, Options(), None, 90)
    assert stages["llir"](marker, {}).startswith("%1")
    assert "a kernel was not instrumented: 'num_warps'" in capfd.readouterr().err


# ------------------------------------------------------------------ automatic scopes


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_automatic_scopes_of_a_matmul(target):
    _instrument.start("default:auto=all:budget=off")
    made = kernels.compile(kernels.matmul, target, num_stages=3, num_warps=4)
    _, scopes, named = layout_of(made)
    words = {scope.partition("@")[0] for scope in scopes}
    assert {"loop", "dot", "store"} <= words and words & {"load", "async_copy"}
    line = kernels.matmul.raw_src.index("    for _ in range(0, n, BLOCK):\n")
    line += kernels.matmul.starting_line_number
    assert f"loop@intra_kernels.py:{line}" in scopes
    assert "elementwise_inline_asm" not in made.asm["ttgir"]  # the kept text is unchanged


TARGETS = ["sm_80", "sm_90", "sm_100", "sm_120", "gfx90a", "gfx942", "gfx950"]


def words_of(made) -> set[str]:
    return {scope.partition("@")[0] for scope in layout_of(made)[1]}


@pytest.mark.parametrize("target", TARGETS)
def test_every_kind_compiles(target):
    of_target = {"tmem_load"} if target == "sm_100" else set()
    if not target.startswith("gfx") or target == "gfx942":
        of_target |= {"local_alloc"}  # the others load operands in the layout of the dot
    if target.startswith("gfx"):
        of_target |= {"local_load"}
    _instrument.start("default:auto=all,reduce,scan,convert,local,tmem,atomic,call:budget=off")
    words = words_of(kernels.compile(kernels.kinds, target))
    expected = {"reduce", "histogram", "scan", "convert", "atomic", "atomic_cas", "call"}
    expected |= {"load", "dot", "loop"} | of_target
    assert expected <= words, expected - words


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
@pytest.mark.parametrize(
    "kind, words",
    [
        ("reduce", {"reduce", "histogram"}),
        ("scan", {"scan"}),
        ("convert", {"convert"}),
        ("atomic", {"atomic", "atomic_cas"}),
        ("call", {"call"}),
    ],
)
def test_a_kind_by_its_name(target, kind, words):
    _instrument.start(f"default:auto={kind}:budget=off")
    assert words_of(kernels.compile(kernels.kinds, target)) == words


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_each_call_of_an_inlined_function_has_its_scope(target):
    _instrument.start("default:auto=reduce:budget=off")
    _, scopes, _ = layout_of(kernels.compile(kernels.kinds, target))
    line = kernels.largest.starting_line_number + 2
    names = [scope for scope in scopes if scope.startswith(f"reduce@intra_kernels.py:{line} ")]
    first = kernels.kinds.starting_line_number
    lines = kernels.kinds.raw_src
    calls = [first + i for i, text in enumerate(lines) if "largest(" in text]
    expected = [f"reduce@intra_kernels.py:{line} from intra_kernels.py:{call}" for call in calls]
    assert sorted(names) == sorted(expected) and len(names) == 2


def test_automatic_scopes_of_partitions():
    _instrument.start("default:auto=partitions,stores:budget=off")
    _, scopes, _ = layout_of(kernels.compile(kernels.partitions, "sm_90"))
    words = [scope.partition("@")[0] for scope in scopes]
    assert {"default", "partition0", "store"} <= set(words)


def test_the_innermost_are_left_out(capfd, monkeypatch):
    monkeypatch.delenv("PROTON_QUIET", raising=False)
    _instrument.start("default:auto=all:budget=off:buffer_size=128")
    _, scopes, _ = layout_of(kernels.compile(kernels.matmul, "sm_90", num_stages=1))
    assert any(scope.startswith("loop@") for scope in scopes)
    assert not any(scope.startswith("dot@") for scope in scopes)
    printed = capfd.readouterr().err
    assert "matmul: " in printed
    assert "automatic scopes were omitted, details and innermost loops first" in printed


# ------------------------------------------------------------------ overriding files


def override(monkeypatch, tmp_path, kernel, target, edit):
    """Dump the TTGIR of a kernel, edit its lines, and compile the kernel with that instead."""
    with monkeypatch.context() as patch:
        patch.setenv("TRITON_KERNEL_DUMP", "1")
        patch.setenv("TRITON_DUMP_DIR", str(tmp_path / "dump"))
        patch.setenv("TRITON_ALWAYS_COMPILE", "1")
        kernels.compile(kernel, target)
    (file,) = (tmp_path / "dump").rglob("*.ttgir")
    lines = file.read_text().splitlines()
    file.write_text("\n".join(edit(lines)))
    monkeypatch.setenv("TRITON_KERNEL_OVERRIDE", "1")
    monkeypatch.setenv("TRITON_OVERRIDE_DIR", str(tmp_path / "dump"))
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    return kernels.compile(kernel, target)


def around(lines, operation, before, after):
    """Put lines around the lines that hold an operation."""
    for line in lines:
        if operation in line:
            yield from (*before, line, *after)
        else:
            yield line


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_an_overriding_file_may_hold_records(monkeypatch, tmp_path, target):
    def edit(lines):
        lines = around(lines, "get_program_id", ['    proton.record start "kernel"'], [])
        lines = around(lines, "tt.return", ['    proton.record end "kernel"'], [])
        lines = list(around(lines, "tt.return", ['    %ev = proton.allocate_event "e" : i32'], []))
        return around(lines, "tt.return", ["    proton.event start %ev : i32"], [])

    _instrument.start("default")
    made = override(monkeypatch, tmp_path, kernels.add, target, edit)
    _, scopes, named = layout_of(made)
    assert set(scopes) == {"kernel", "e"}
    assert ("e", EVENT_START) in named


def test_a_file_with_a_mistake_is_rejected_with_a_message(monkeypatch, tmp_path):
    _instrument.start("default")
    with pytest.raises(ValueError, match=r"add\.ttgir: line \d+: not of the form: proton.record"):
        override(
            monkeypatch, tmp_path, kernels.add, "sm_90",
            lambda lines: around(lines, "tt.return", ["    proton.record begin"], []),
        )


# ------------------------------------------------------------------ ways to the compiler


def source_of(kernel):
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    return kernels.ASTSource(kernel, signature, constexprs={"BLOCK": 1024})


def test_a_source_is_compiled_without_options():
    """As torch.compile does, which knows nothing of modes; the cache keeps the two apart."""
    target = kernels.target_of("sm_90")
    plain = triton.compile(source_of(kernels.add), target=target)
    assert not hasattr(plain.metadata, "proton_layout")
    _instrument.start("default:auto=loads")
    made = triton.compile(source_of(kernels.add), target=target)
    _, scopes, _ = layout_of(made)
    assert scopes[0].startswith("load@intra_kernels.py:")
    _instrument.stop()
    again = triton.compile(source_of(kernels.add), target=target)
    assert not hasattr(again.metadata, "proton_layout")


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_a_file_is_compiled(tmp_path, target):
    """triton.compile("kernel.ttgir"), with records in it or without."""
    where = kernels.target_of(target)
    plain = tmp_path / "plain.ttgir"
    plain.write_text(kernels.compile(kernels.add, target).asm["ttgir"])
    marked = tmp_path / "marked.ttgir"
    lines = plain.read_text().splitlines()
    lines = around(lines, "get_program_id", ['    proton.record start "kernel"'], [])
    lines = around(lines, "tt.return", ['    proton.record end "kernel"'], [])
    marked.write_text("\n".join(lines))
    _instrument.start("default")
    made = triton.compile(str(marked), target=where)
    assert layout_of(made)[1] == ["kernel"]
    assert not hasattr(triton.compile(str(plain), target=where).metadata, "proton_layout")
    _instrument.stop()
    _instrument.start("default:auto=stores")
    made = triton.compile(str(plain), target=where)
    assert layout_of(made)[1][0].startswith("store@intra_kernels.py:")
    assert set(layout_of(triton.compile(str(marked), target=where))[1]) > {"kernel"}
    _instrument.stop()
    assert not hasattr(triton.compile(str(plain), target=where).metadata, "proton_layout")
    with pytest.raises(Exception):  # Triton's own parser knows no proton.record
        triton.compile(str(marked), target=where)


def test_a_named_file_with_a_mistake_is_rejected_with_a_message(tmp_path):
    path = tmp_path / "wrong.ttgir"
    path.write_text("module {\n  proton.record begin\n}\n")
    _instrument.start("default")
    with pytest.raises(ValueError, match=r"wrong\.ttgir: line 2: not of the form: proton.record"):
        triton.compile(str(path), target=kernels.target_of("sm_90"))


class Driver:
    """As much of a driver as a JIT function needs to be compiled, not launched."""

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        return kernels.target_of("sm_90")


@pytest.fixture
def jit(monkeypatch):
    """Compiles a kernel as a launch does."""
    monkeypatch.setattr(type(triton.runtime.driver), "active", Driver())

    def compile(kernel):
        kernel.device_caches.clear()
        tensor = triton.runtime.jit.MockTensor("float32")
        return kernel.warmup(tensor, tensor, tensor, 100, BLOCK=1024, grid=(1,))

    yield compile
    kernels.marked_add.device_caches.clear()


def test_launches_compile_with_scopes(jit):
    _instrument.start("default")
    assert layout_of(jit(kernels.marked_add))[1] == ["kernel", "load 1 %", "copy"]


def test_threads_compile_with_scopes(jit):
    """Triton's mode that compiles what is launched on other threads."""
    from concurrent.futures import ThreadPoolExecutor

    _instrument.start("default")
    with ThreadPoolExecutor(2) as executor, triton.AsyncCompileMode(executor):
        made = jit(kernels.marked_add)
    assert layout_of(made.result())[1] == ["kernel", "load 1 %", "copy"]


WORKER = """
import sys
sys.path.insert(0, {tests!r})
import triton
triton.knobs.compilation.instrumentation_mode = {mode!r}
import intra_kernels
intra_kernels.compile(intra_kernels.marked_add, "sm_90")
"""


@pytest.mark.skipif(
    tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9),
    reason="processes that compile for another with its mode came with Triton 3.9",
)
def test_a_process_that_warms_the_cache_leaves_no_plain_kernel_under_our_name():
    """Triton's pool of processes that compile ahead: they have our mode and not our passes."""
    import subprocess
    import sys
    from pathlib import Path

    _instrument.start("default")
    mode = triton.knobs.compilation.instrumentation_mode
    program = WORKER.format(tests=str(Path(__file__).parent), mode=mode)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
    assert layout_of(kernels.compile(kernels.marked_add, "sm_90"))[1]
