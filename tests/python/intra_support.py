"""Compiles kernels without a GPU: to LLVM IR, through the pass, and on to machine code."""

import re
import subprocess
import tempfile
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import triton
from built import TOOL
from intra_shapes import Case
from triton import knobs
from triton._C.libtriton import llvm
from triton.backends.compiler import GPUTarget, Language
from triton.compiler import ASTSource, make_backend
from triton.experimental.gluon._runtime import GluonASTSource
from triton_proton._libproton import cubin_needs
from triton_proton._markers import arguments_of, carry_markers, name_of
from triton_proton._registers import Costs, ctas_of, fit, quietly

NVIDIA_TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"

# Shared memory that a CTA may have, and that a multiprocessor has, in bytes.
SHARED = {
    "sm_80": (166912, 167936),
    "sm_90": (232448, 233472),
    "sm_100": (232448, 233472),
    "sm_120": (101376, 102400),
    "gfx90a": (65536, 65536),
    "gfx942": (65536, 65536),
    "gfx950": (163840, 163840),
}
# Waves of 32, and another way to read the clock. Not for all that the others are tried with.
NEWER = {"gfx1201": (65536, 131072), "gfx1250": (327680, 327680)}
MARKER = re.compile(
    r'^  (%\d+) = (?:tail )?call i32 asm sideeffect "// proton\.\w+ (start|end) ([^"]+)".*', re.M
)


@dataclass
class Compiled:
    """A kernel's LLVM IR, and the stages that make machine code of it."""

    text: str
    metadata: dict
    stages: dict
    arch: str
    arguments: int = -1  # of the kernel in TTGIR; -1: unknown
    ttgir: str = ""  # with markers
    before: dict = field(default_factory=dict)  # the metadata before LLVM IR
    known: dict = field(default_factory=dict, repr=False)  # results by what they were made of

    def once(self, make: Callable, *what: Hashable) -> Any:
        """The result of make(), which depends on the kernel and `what` alone."""
        key = (make.__qualname__, self.arch, hash(self.text), *map(hash, what))
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]

    @property
    def is_amd(self) -> bool:
        return self.arch.startswith("gfx")

    def assemble(self, text: str, shared: int) -> dict[str, int]:
        """Machine code of `text`, and the registers and memory that it uses."""

        def assembled() -> dict[str, int]:
            metadata = {**self.metadata, "shared": shared}
            if self.is_amd:
                return assemble_amd(self, text, metadata)
            return needs_of_cubin(self.cubin(self.stages["ptx"](text, metadata), metadata))

        return self.once(assembled, text, shared)

    def assemble_records(self, text: str, shared: int) -> dict[str, int]:
        """The same for the kernel with records, as sessions assemble it."""
        if self.is_amd:
            return self.assemble(text, shared)

        def assembled() -> dict[str, int]:
            metadata = {**self.metadata, "shared": shared}
            ptx = self.stages["ptx"](text, metadata)

            def limited(ptx: str) -> bytes:
                return quietly(self.stages["cubin"], ptx, metadata)

            return needs_of_cubin(fit(ptx, self.cubin(ptx, metadata), self.plain, limited))

        return self.once(assembled, text, shared)

    def plain(self) -> bytes:
        """Machine code of the kernel without records."""

        def assembled() -> bytes:
            metadata = dict(self.metadata)
            return self.cubin(self.stages["ptx"](self.text, metadata), metadata)

        return self.once(assembled)

    def cubin(self, ptx: str, metadata: dict) -> bytes:
        return self.stages["cubin"](ptx, metadata)


COMPILED: dict[tuple[str, str], Compiled] = {}


class Stop(Exception):
    """Carries LLVM IR out of Triton's compiler."""


def lanes_of(arch: str) -> int:
    """Threads of a warp, or a wave."""
    return 64 if arch.startswith("gfx9") else 32


def target_of(arch: str) -> GPUTarget:
    if arch.startswith("gfx"):
        return GPUTarget("hip", arch, lanes_of(arch))
    return GPUTarget("cuda", int(arch[3:]), 32)


def is_for(case: Case, arch: str) -> bool:
    wanted = case.targets.split()
    return "all" in wanted or arch in wanted or ("nvidia" in wanted and arch.startswith("sm_"))


def stages_of(case: Case, arch: str) -> dict:
    """The compiler stages of Triton after LLVM IR, given an already compiled kernel."""
    llvm.init_targets()
    backend = make_backend(target_of(arch))
    stages: dict = {}
    options = backend.parse_options(case.options)
    backend.add_stages(stages, options, Language.GLUON if case.fn.is_gluon() else Language.TRITON)
    return stages


def is_old_pipeliner(arch: str) -> bool:
    """Does this Triton pipeline without markers for `arch`? Scopes then follow operations."""
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    return version < (3, 9) and arch not in ("sm_80", "sm_90")


def compile_to_llvm(case: Case, arch: str) -> Compiled:
    """The LLVM IR that Triton makes of `case` for `arch`; compiled once."""
    key = (case.name, arch)
    if key not in COMPILED:
        COMPILED[key] = compile_now(case, arch)
    return COMPILED[key]


def compile_now(case: Case, arch: str) -> Compiled:
    constants = dict(case.constants)
    if "T" in constants:
        constants["T"] = lanes_of(arch)

    def hook(backend=None, stages=None, options=None, language=None, capability=None):
        if stages is None:
            return "intra tests", "intra tests"
        inner = stages["llir"]
        later = dict(stages)
        # As sessions do: no version of Triton keeps all markers through all passes.
        stages["ttgir"] = carry_markers(stages["ttgir"], arch)

        def llir(source, metadata):
            arguments = arguments_of(source, name_of(source))
            ttgir, before = str(source), dict(metadata)
            text = str(inner(source, metadata))
            raise Stop(Compiled(text, metadata, later, arch, arguments, ttgir, before))

        stages["llir"] = llir
        return None

    source = GluonASTSource if case.fn.is_gluon() else ASTSource
    attrs = {
        (i,): [["tt.divisibility", 16]]
        for i, kind in enumerate(case.signature.values())
        if kind.startswith("*") or (kind == "i32" and "matmul" in case.name)
    }
    before = knobs.runtime.add_stages_inspection_hook
    knobs.runtime.add_stages_inspection_hook = hook
    try:
        with knobs.compilation.scope():
            knobs.compilation.always_compile = True
            triton.compile(
                source(case.fn, case.signature, constants, attrs), target=target_of(arch),
                options=case.options,
            )
    except Stop as stop:
        return stop.args[0]
    except RuntimeError as error:
        if not is_old_pipeliner(arch):
            raise
        # "pipeliner doesn't know how to predicate this op": without markers that is a call.
        pytest.skip(f"this Triton cannot pipeline the kernel: {error}")
    finally:
        knobs.runtime.add_stages_inspection_hook = before
    raise AssertionError("Triton's compiler went past LLVM IR")


@dataclass
class Instrumented:
    text: str
    layout: dict[str, list[str]]  # key to its values, in order
    shared: int
    records: int
    ignored: int
    buffer: str
    can_hoist: bool


def instrument(compiled: Compiled, **options: object) -> Instrumented:
    """The pass over `compiled`, or over any text with `compiled.text`; options as the tool's."""

    def instrumented() -> Instrumented:
        return instrument_now(compiled, **options)

    return compiled.once(instrumented, *sorted(options.items()))


def instrument_now(compiled: Compiled, **options: object) -> Instrumented:
    limit, per_sm = (SHARED | NEWER).get(compiled.arch, (0, 0))
    words = {
        "threads": lanes_of(compiled.arch),
        "warps": compiled.metadata["num_warps"],
        "shared": compiled.metadata["shared"],
        "parameters": compiled.arguments + 2 if compiled.arguments >= 0 else 0,
        "limit": limit,
        "per_sm": per_sm,
        **options,
    }
    done = subprocess.run(
        [str(TOOL), "llvm", compiled.arch, *(f"{k}={v}" for k, v in words.items())],
        input=compiled.text.encode(), capture_output=True, timeout=300,
    )
    printed = done.stderr.decode()
    assert done.returncode == 0, printed
    layout: dict[str, list[str]] = {}
    for line in printed.splitlines():
        key, _, value = line.partition(" ")
        layout.setdefault(key, []).append(value)
    return Instrumented(
        done.stdout.decode(), layout, int(layout["#shared"][0]), int(layout["#records"][0]),
        int(layout["#ignored"][0]), layout["#buffer"][0], layout["#can_hoist"] == ["1"],
    )


def instrument_as_sessions(compiled: Compiled) -> tuple[Instrumented, dict[str, int]]:
    """The version that sessions take, and what it needs."""
    result = instrument(compiled)
    needs = compiled.assemble_records(result.text, result.shared)
    if not result.can_hoist:
        return result, needs
    hoisted = instrument(compiled, hoist=1)
    fewer = compiled.assemble_records(hoisted.text, hoisted.shared)
    if costs_of(compiled, result, fewer).is_less_than(costs_of(compiled, result, needs)):
        return hoisted, fewer
    return result, needs


def costs_of(compiled: Compiled, result: Instrumented, needs: dict[str, int]) -> Costs:
    """Compared with a kernel of few registers."""
    metadata = {**compiled.metadata, "shared": result.shared}
    ctas = [ctas_of(compiled.arch, registers, metadata) for registers in (32, needs["registers"])]
    return Costs(needs["stack"] + needs["local"], ctas[0] - ctas[1], ctas[0])


def without_markers(text: str) -> str:
    """The same without records, for comparison with the kernel."""
    return MARKER.sub(r"  \1 = add i32 0, 0", text)


def needs_of_cubin(cubin: bytes) -> dict[str, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [str(NVIDIA_TOOLS / "cuobjdump"), "-res-usage", file.name], capture_output=True,
            timeout=300,
        )
    found = re.findall(r"\b(REG|STACK|LOCAL):(\d+)", done.stdout.decode())
    words = {key: sum(int(n) for name, n in found if name == key) for key in ("STACK", "LOCAL")}
    registers = max(int(n) for name, n in found if name == "REG")
    if registers != cubin_needs(cubin)[0]:
        raise AssertionError(f"{registers} registers, but read as {cubin_needs(cubin)}")
    return {"registers": registers, "stack": words["STACK"], "local": words["LOCAL"]}


def assemble_amd(compiled: Compiled, text: str, metadata: dict) -> dict[str, int]:
    assembly = compiled.stages["amdgcn"](text, metadata)
    assert compiled.stages["hsaco"](assembly, metadata)

    def number(key: str) -> int:
        found = re.search(rf"^\s*\.{key}:\s*(\d+)", assembly, re.M)
        assert found, key
        return int(found[1])

    return {
        "registers": number("vgpr_count"),
        "scalars": number("sgpr_count"),
        "local": number("private_segment_fixed_size"),
        "spills": number("vgpr_spill_count"),
        "scalar spills": number("sgpr_spill_count"),
    }
