"""Instrument kernels while Triton compiles them: where the passes in C are put into its pipeline.

Nothing of Triton is changed. Its hook for compiler stages lets us replace the one that makes LLVM
IR by a function that calls it and rewrites its result; what reads files of IR, and the options that
a source brings with it, are wrapped. `start` sets that up, also when Triton is imported later, and
`stop` undoes it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Optional

from . import _libproton
from ._imports import forget, when_imported
from ._marks import carry_marks, marks_of, tell_dropped
from ._mlir import name_of, parse_instead, temporary_file
from ._note import note
from ._registers import Fitting
from .flags import flags

# Goes up with every change of the code that the passes make: part of Triton's cache key.
PASS_VERSION = 13

# Bytes of shared memory that a CTA can have, and that a multiprocessor has. NVIDIA: CUDA C++
# Programming Guide, "Technical Specifications per Compute Capability". AMD: the LDS of a CU, from
# the instruction set manuals. The same for every device of an architecture, as the kernels in
# Triton's cache are. For others the passes take what any device has.
_SHARED_KIB = {
    "sm_80": (163, 164),
    "sm_86": (99, 100),
    "sm_87": (163, 164),
    "sm_89": (99, 100),
    "sm_90": (227, 228),
    "sm_100": (227, 228),
    "sm_103": (227, 228),
    "sm_120": (99, 100),
    "sm_121": (99, 100),
    "gfx90a": (64, 64),
    "gfx942": (64, 64),
    "gfx950": (160, 160),
    "gfx1200": (64, 128),
    "gfx1201": (64, 128),
    "gfx1250": (320, 320),
}


class _Pipeline:
    """Triton's pipeline with the passes of one mode in it."""

    def __init__(self, mode: str) -> None:
        described = _libproton.instrument_mode(mode)
        self.mode = mode
        self.key: str = described["key"]
        self.has_autos = described["autos"] != 0
        self.is_live = True
        self.users = 1
        # Never with a comma, which separates the modes that Triton itself has.
        self.name = f"proton-{PASS_VERSION}-{self.key}"
        self._knobs: Optional[ModuleType] = None
        self._previous_hook: Optional[Callable[..., Any]] = None
        self._previous_mode = ""
        # What we have put into Triton's compiler: (owner, name, what was there, ours).
        self._wrapped: list[tuple[Any, str, Any, Any]] = []
        self._parse: Optional[Callable[..., Any]] = None
        # Of what this thread compiles: .is_amd; .is_keyed, if our key was asked for.
        self._target = threading.local()
        self._stages_hook = self._add_stages  # a bound method is a new one whenever asked for

    # ---- in and out of Triton

    def install(self) -> None:
        when_imported("triton.knobs", self._set_knobs)
        when_imported("triton.compiler.compiler", self._wrap_compiler)

    def remove(self) -> None:
        self.is_live = False  # for those who chained to our hooks and still call them
        forget("triton.knobs", self._set_knobs)
        forget("triton.compiler.compiler", self._wrap_compiler)
        if self._knobs is not None:
            runtime, compilation = self._knobs.runtime, self._knobs.compilation
            if runtime.add_stages_inspection_hook is self._stages_hook:
                runtime.add_stages_inspection_hook = self._previous_hook
            if compilation.instrumentation_mode == self.name:
                compilation.instrumentation_mode = self._previous_mode
        for owner, name, before, ours in self._wrapped:
            if getattr(owner, name) is ours:
                setattr(owner, name, before)

    def _set_knobs(self, knobs: ModuleType) -> None:
        runtime, compilation = knobs.runtime, knobs.compilation
        if not hasattr(runtime, "add_stages_inspection_hook"):
            note("this Triton cannot be instrumented: it has no hook for its stages", once=True)
            return
        self._knobs = knobs
        self._previous_hook = runtime.add_stages_inspection_hook
        self._previous_mode = compilation.instrumentation_mode
        runtime.add_stages_inspection_hook = self._stages_hook
        compilation.instrumentation_mode = self.name

    def _wrap(self, owner: Any, name: str, ours: Any) -> None:
        self._wrapped.append((owner, name, getattr(owner, name), ours))
        setattr(owner, name, ours)

    def _wrap_compiler(self, compiler: ModuleType) -> None:
        files, sources = compiler.IRSource, compiler.ASTSource
        self._parse = compiler.parse
        self._wrap(compiler, "parse", self._parse_override)
        self._wrap(files, "__init__", self._reading_file(files.__init__))
        for kind in (files, sources):
            self._wrap(kind, "parse_options", self._naming_mode(kind.parse_options))

    # ---- called by Triton

    def _add_stages(self, *args: Any, **kwargs: Any) -> Any:
        """Triton's hook: without arguments it asks for (key, digest), else it gives the stages."""
        previous = self._previous_hook
        result = previous(*args, **kwargs) if previous is not None else None
        if not args and not kwargs:
            key, digest = result if result is not None else ("", "")
            if not self.is_live:
                return key, digest
            self._target.is_keyed = True
            mine = hashlib.sha256(self.name.encode()).hexdigest()
            return f"{key}{self.name}", f"{digest}{mine}"
        if self.is_live:
            self._wrap_stages(*args, **kwargs)
        return result

    def _wrap_stages(
        self, backend: Any, stages: dict[str, Any], options: Any, language: Any, capability: Any
    ) -> None:
        self._target.is_amd = backend.target.backend == "hip"
        inner = stages.get("llir")
        if inner is None or not self._is_in_key(options):
            return
        arch = f"sm_{capability}" if capability is not None else str(options.arch)
        fitting = Fitting(stages) if "ptx" in stages and "cubin" in stages else None
        if "ttgir" in stages:
            stages["ttgir"] = carry_marks(stages["ttgir"], arch)

        def llir(src: Any, metadata: dict[str, Any]) -> Any:
            name = name_of(src)
            marks = marks_of(str(src))
            if self.has_autos:
                src = self._insert_automatic(src, name, backend.target.backend == "hip")
            text = inner(src, metadata)
            if not isinstance(text, str):
                return text
            if marks:
                tell_dropped(name, marks, marks_of(text))
            before = dict(metadata)
            made = self._insert_records(text, metadata, name, arch, backend.target.warp_size)
            if fitting is not None and made is not text:
                fitting.records_follow(text, before)
            return made

        stages["llir"] = llir

    def _is_in_key(self, options: Any) -> bool:
        """Is the mode part of the key under which Triton will cache the kernel?

        Else it would be found there by programs that instrument nothing. It is, unless somebody has
        taken it out of Triton's knobs or of the options.
        """
        if getattr(options, "instrumentation_mode", "") == self.name:
            return True
        if getattr(self._target, "is_keyed", False):
            return True
        note(
            "a kernel is not instrumented: another tool has set Triton's instrumentation_mode",
            once=True,
        )
        return False

    def _insert_records(
        self, text: str, metadata: dict[str, Any], name: str, arch: str, warp_size: int
    ) -> str:
        if metadata.get("profile_scratch_size"):
            note(f"{name} is not instrumented: another tool has instrumented it", once=True)
            return text
        limit, per_processor = _SHARED_KIB.get(arch, (0, 0))
        try:
            made = _libproton.instrument_llvm(
                text,
                arch,
                int(metadata["num_warps"]),
                int(warp_size),
                int(metadata.get("shared") or 0),
                limit << 10,
                per_processor << 10,
                self.mode,
            )
        except (_libproton.ProtonError, ValueError, MemoryError) as error:
            note(f"{name} is not instrumented: {error}", once=True)
            return text
        if made is None:
            return text
        if made["ignored"]:
            note(f"{name}: {made['ignored']} marks are left out: {made['reason']}", once=True)
        if "text" not in made:
            return text
        metadata["shared"] = made["shared"]
        size = made["cta_bytes"]
        if arch.startswith("gfx"):
            # Triton's launcher for AMD asks for this times the grid, which leaves out the CTAs
            # that share a cluster; NVIDIA's counts them.
            size *= int(metadata.get("num_ctas") or 1)
        metadata["profile_scratch_size"] = size
        metadata["profile_scratch_align"] = 128
        metadata["proton_layout"] = made["layout"]
        return made["text"]

    def _insert_automatic(self, src: Any, name: str, is_amd: bool) -> Any:
        """Put the mode's automatic scopes into a module of TTGIR; the module to go on with."""
        try:
            text, _, left_out = _libproton.instrument_ttgir(str(src), self.mode, is_amd)
            if left_out:
                note(f"{name}: {left_out}", once=True)
            return src if text is None else parse_instead(text, src)
        except Exception as error:
            note(f"{name} gets no automatic scopes: {error}", once=True)
            return src

    def _parse_override(self, full_name: Any, ext: str, context: Any) -> Any:
        """Triton's parse(), which knows no operation of ours in a file that overrides a stage."""
        assert self._parse is not None
        made = None
        if self.is_live:
            made = _translate(full_name, ext, getattr(self._target, "is_amd", False))
        if made is None:
            return self._parse(full_name, ext, context)
        with temporary_file(made, f".{ext}") as path:
            return self._parse(path, ext, context)

    def _reading_file(self, inner: Callable[..., None]) -> Callable[..., None]:
        """The reading of a file that triton.compile() is given, with operations of ours in it."""

        def init(source: Any, path: Any, context: Any, backend: Any) -> None:
            ext = os.path.splitext(path)[1][1:]
            made = None
            if self.is_live:
                made = _translate(path, ext, backend.target.backend == "hip")
            if made is None:
                inner(source, path, context, backend)
                return
            with temporary_file(made, f".{ext}") as temporary:
                inner(source, temporary, context, backend)
            source.path = path

        return init

    def _naming_mode(self, inner: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """The options that a source has of its own, with our mode among them.

        Launches have it among theirs, from the knobs. Who calls triton.compile() does not, and
        before Triton asked its hook for a key there was no other way into that of the cache.
        """

        def parse_options(source: Any) -> dict[str, Any]:
            options = inner(source)
            knobs = self._knobs
            if self.is_live and knobs and knobs.compilation.instrumentation_mode == self.name:
                options = {**options, "instrumentation_mode": self.name}
            return options

        return parse_options


def _translate(path: Any, ext: str, is_amd: bool) -> Optional[str]:
    """A file of IR in which our operations are what Triton knows; None where it has none."""
    if ext not in ("ttir", "ttgir", "glir"):
        return None
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    try:
        return _libproton.instrument_override(text, is_amd)
    except _libproton.ProtonError as error:
        raise ValueError(f"{path}: {error}") from None


# ---------------------------------------------------------------------- one for the process

_lock = threading.Lock()
_pipeline: Optional[_Pipeline] = None


def start(mode: str) -> None:
    """Instrument the kernels that Triton compiles from now on, as `mode` says.

    May be called again for another session. ValueError for a mode that is unknown, or that would
    make other code than the one in use: a kernel is compiled for one.
    """
    global _pipeline
    with _lock:
        if _pipeline is not None:
            if _libproton.instrument_mode(mode)["key"] != _pipeline.key:
                raise ValueError(
                    f"kernels are being instrumented with the mode {_pipeline.mode}; a session "
                    f"with the mode {mode} has to wait until that one has ended"
                )
            _pipeline.users += 1
            return
        pipeline = _Pipeline(mode)
        pipeline.install()
        _pipeline = pipeline
        flags.instrumentation_on = True


def stop() -> None:
    """Undo one `start`; the last one leaves Triton as it was."""
    global _pipeline
    with _lock:
        if _pipeline is None:
            return
        _pipeline.users -= 1
        if _pipeline.users:
            return
        _pipeline.remove()
        _pipeline = None
        flags.instrumentation_on = False
