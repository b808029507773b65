"""Instrumentation of kernels during compilation: inserts the passes (in C) into Triton's pipeline.

Triton itself is not changed. Its compiler stage hook allows replacing the stage that makes LLVM IR
by a function that calls it and rewrites its result. The functions that read IR files and the
options of a source are wrapped. `start` sets this up, even if Triton is imported later, and `stop`
undoes it.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Optional

from . import _closed_loop, _libproton
from ._imports import Replacements
from ._message import warn
from ._markers import temporary_file
from ._stages import KernelStages, Passes, with_records
from .flags import flags
from .language import scope

# Increment with every change of the code that the passes generate: part of Triton's cache key.
PASS_VERSION = 24

# By whether the mode of the session has automatic scopes.
_CANARY = {
    False: Passes("default:tree=records", has_autos=False),
    True: Passes("default:tree=records:auto=all:budget=off", has_autos=True),
}

# The positional arguments of Triton's compiler stage hook. Later versions may pass more.
_HOOK_ARGUMENTS = ("backend", "stages", "options", "language", "capability")


def _passes(mode: str) -> Passes:
    described = _libproton.instrument_mode(mode)
    name = f"proton-{PASS_VERSION}-{described['key']}"
    return Passes(mode, described["autos"] != 0, described["budget"] != 0, name)


def _variants(mode: str) -> tuple[Passes, Passes]:
    """The variants of a mode: the usual one, and that while a session needs a trace."""
    return _passes(mode), _passes(with_records(mode))


class _Compilation(threading.local):
    """The current compilation of a thread."""

    is_amd = False
    keyed: Optional[Passes] = None  # that the hook for keys returned
    canary: Optional[list[str]] = None  # reports about the test kernel while it compiles
    chosen: Optional[Passes] = None  # while it compiles a kernel with certain scopes
    is_timing = False  # an autotuner times configurations


def _register_scope(generator: ModuleType) -> None:
    """TLX finds the `with` statements that it compiles in a table, and ignores others."""
    table = getattr(generator, "WITH_DISPATCH", None)
    if isinstance(table, dict):
        table.setdefault(scope, scope.compile)


class _Triton:
    """A Triton, under any name, with the hook of a pipeline."""

    def __init__(self, knobs: ModuleType, add_stages: Callable[..., Any]) -> None:
        self.knobs = knobs
        self.package = knobs.__name__.partition(".")[0]
        self.previous_hook = knobs.runtime.add_stages_inspection_hook
        self.previous_mode = knobs.compilation.instrumentation_mode
        self.hook = functools.partial(add_stages, self)


def _canary_of(package: str) -> ModuleType:
    """_canary.py with the kernel compiled by this Triton."""
    name = f"{__package__}._canary"
    if package == "triton":
        return importlib.import_module(name)
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.package = package  # type: ignore[attr-defined]
    spec.loader.exec_module(module)
    return module


class _Pipeline:
    """Triton's pipeline with the passes of one mode.

    With tree=auto, kernels with sums and kernels with records are different kernels. The latter are
    compiled while a session needs a trace.
    """

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._usual, self._recording = _variants(mode)
        self.is_live = True
        self.users = 0
        self.traces = 0  # users that need records
        self._timing_threads = 0
        self._lock = threading.Lock()  # guards the last one
        self._tritons: list[_Triton] = []
        self._replaced = Replacements()
        self._target = _Compilation()
        # By the Triton's package and the target: True if its canary got its records.
        self._canaries: dict[tuple[str, str], bool] = {}

    @property
    def name(self) -> str:
        return self._of_sessions().name

    def _of_sessions(self) -> Passes:
        return self._recording if self.traces else self._usual

    def _wanted(self) -> Passes:
        return self._target.chosen or self._of_sessions()

    def makes_same(self, mode: str) -> bool:
        """True if `mode` generates the same kernels."""
        usual, recording = _variants(mode)
        return (usual.name, recording.name) == (self._usual.name, self._recording.name)

    def count(self, users: int, traces: int) -> None:
        """So many more users, and more of them that need records."""
        before = self.name
        self.users += users
        self.traces += traces
        if traces > 0:
            _closed_loop.settle()
        for compilation in (triton.knobs.compilation for triton in self._tritons):
            if compilation.instrumentation_mode == before:
                compilation.instrumentation_mode = self.name

    # ---- installation and removal

    def install(self) -> None:
        self._replaced.watch("knobs", self._set_knobs)
        self._replaced.watch("compiler.code_generator", _register_scope)
        self._replaced.watch("compiler.compiler", self._wrap_compiler)
        self._replaced.watch("runtime.jit", self._wrap_functions)
        self._replaced.watch("runtime.autotuner", self._wrap_autotuner)

    def remove(self) -> None:
        _closed_loop.settle()
        self.is_live = False  # for code that saved the hooks and still calls them
        for triton in self._tritons:
            runtime, compilation = triton.knobs.runtime, triton.knobs.compilation
            if runtime.add_stages_inspection_hook is triton.hook:
                runtime.add_stages_inspection_hook = triton.previous_hook
            if compilation.instrumentation_mode == self.name:
                compilation.instrumentation_mode = triton.previous_mode
        self._replaced.restore()

    def _set_knobs(self, knobs: ModuleType) -> None:
        if not hasattr(knobs.runtime, "add_stages_inspection_hook"):
            warn("this Triton version cannot be instrumented: it has no compiler stage hook; "
                "use Triton 3.6 or later")
            return
        triton = _Triton(knobs, self._add_stages)
        self._tritons.append(triton)
        knobs.runtime.add_stages_inspection_hook = triton.hook
        knobs.compilation.instrumentation_mode = self.name

    def _wrap_compiler(self, compiler: ModuleType) -> None:
        files, sources = compiler.IRSource, compiler.ASTSource
        self._replaced.wrap(compiler, "parse", self._parse)
        self._replaced.wrap(files, "__init__", self._read_file)
        self._replaced.wrap(sources, "hash", _hash_without_hook)
        for kind in (files, sources):
            self._replaced.wrap(kind, "parse_options", self._parse_options)

    def _wrap_functions(self, jit: ModuleType) -> None:
        function = jit.JITFunction
        if hasattr(function, "_do_compile") and self._usual.has_budget:
            self._replaced.wrap(function, "_do_compile", _closed_loop.note_origin)

    # ---- autotuning

    def _wrap_autotuner(self, autotuner: ModuleType) -> None:
        tuner = getattr(autotuner, "Autotuner", None)
        if hasattr(tuner, "_bench"):
            self._replaced.wrap(tuner, "_bench", self._time_plain)

    def _time_plain(self, inner: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Autotuner._bench, which times a configuration, of the kernel without scopes.

        Otherwise the choice could be another one than in plain runs, with which Triton shares it
        (`cache_results`).
        """
        self._count_timing(1)
        self._target.is_timing = True
        try:
            return inner(*args, **named)
        finally:
            self._target.is_timing = False
            self._count_timing(-1)

    def _count_timing(self, more: int) -> None:
        """Launches take the mode from Triton's knobs, which all threads share."""
        with self._lock:
            self._timing_threads += more
            for triton in self._tritons if self.is_live else ():
                before, after = self.name, triton.previous_mode
                if not self._timing_threads:
                    before, after = after, before
                if triton.knobs.compilation.instrumentation_mode == before:
                    triton.knobs.compilation.instrumentation_mode = after

    # ---- closed loops

    def set_context(
        self, mode: str, scopes: str
    ) -> Optional[tuple[contextlib.AbstractContextManager[None], str]]:
        """The context in which this thread compiles a kernel of the mode with some scopes."""
        if mode != self._usual.name or self.traces or not self.is_live:
            return None
        digest = hashlib.sha256(scopes.encode()).hexdigest()[:16] if scopes else "plain"
        variant = self._usual._replace(only=scopes, name=f"{self._usual.name}-{digest}")
        return self._compiling_set(variant), variant.name

    @contextlib.contextmanager
    def _compiling_set(self, variant: Passes) -> Iterator[None]:
        self._target.chosen = variant
        try:
            yield
        finally:
            self._target.chosen = self._target.keyed = None

    # ---- called by Triton

    def _add_stages(self, triton: _Triton, *args: Any, **kwargs: Any) -> Any:
        """Triton's hook: without stages it returns (key, digest), else it changes the stages."""
        previous = None if self._is_canary() else triton.previous_hook
        result = previous(*args, **kwargs) if previous is not None else None
        given = {**dict(zip(_HOOK_ARGUMENTS, args)), **kwargs}
        is_used = self.is_live and not self._target.is_timing
        if given.get("stages") is None:
            key, digest = result if result is not None else ("", "")
            if not is_used:
                return key, digest
            if _closed_loop.away:
                _closed_loop.settle_captured(triton.package)
            self._target.keyed = wanted = self._wanted()
            mine = hashlib.sha256(wanted.name.encode()).hexdigest()
            return f"{key}{wanted.name}", f"{digest}{mine}"
        if is_used:
            try:
                self._wrap_stages(triton, **given)
            except Exception as error:  # profiling must not make a program fail
                warn(f"a kernel was not instrumented: unknown compiler stages: {error!r}")
        return result

    def _wrap_stages(
        self,
        triton: _Triton,
        backend: Any,
        stages: dict[str, Any],
        options: Any,
        capability: Any = None,
        **_: Any,
    ) -> None:
        self._target.is_amd = is_amd = backend.target.backend == "hip"
        passes, report = self._in_key(options), warn
        if passes is None:
            return
        arch = f"sm_{capability}" if capability is not None else str(options.arch)
        if passes.only is not None:
            report = lambda text: None  # the loop of the kernel says what is omitted
        if self._is_canary():
            passes, report = _CANARY[passes.has_autos], self._target.canary.append
        elif not self._has_live_canary(triton, backend.target, arch):
            return
        KernelStages(stages, passes, arch, is_amd, int(backend.target.warp_size), report)

    def _is_canary(self) -> bool:
        return self._target.canary is not None

    def _has_live_canary(self, triton: _Triton, target: Any, arch: str) -> bool:
        """True unless this Triton loses the scope of a test kernel for `target`."""
        compilation = triton.knobs.compilation
        name = (triton.package, repr(target))
        if name not in self._canaries:
            # A listener, or a directory of dumps, would get another kernel.
            if any(getattr(compilation, key, None) for key in ("listener", "dump_ir", "override")):
                return True
            self._canaries[name] = self._try_canary(triton, target, arch)
        return self._canaries[name]

    def _try_canary(self, triton: _Triton, target: Any, arch: str) -> bool:
        self._target.canary = notes = []
        try:
            canary = _canary_of(triton.package)
            reason = canary.failure(target, notes, self._usual.has_autos)
        finally:
            self._target.canary = None
        if reason:
            warn(f"kernels for {arch} are not instrumented: {reason}")
        return not reason

    def _in_key(self, options: Any) -> Optional[Passes]:
        """The variant that is part of the key under which Triton will cache the kernel.

        Otherwise programs without instrumentation would find the kernel in the cache. It is part of
        the key unless it was removed from Triton's knobs or from the options. A trace that starts
        in another thread does not change it.
        """
        for variant in (self._usual, self._recording, self._target.chosen):
            if variant and getattr(options, "instrumentation_mode", "") == variant.name:
                return variant
        if self._target.keyed is not None:
            return self._target.keyed
        warn(
            "a kernel was not instrumented: another tool changed "
                "triton.knobs.compilation.instrumentation_mode"
        )
        return None

    def _parse(
        self, inner: Callable[..., Any], full_name: Any, ext: str, *more: Any, **named: Any
    ) -> Any:
        """Triton's parse(), extended to proton operations in a file that overrides a stage."""
        made = None
        if self.is_live:
            made = _translate(full_name, ext, self._target.is_amd)
        if made is None:
            return inner(full_name, ext, *more, **named)
        with temporary_file(made, f".{ext}") as path:
            return inner(path, ext, *more, **named)

    def _read_file(
        self, inner: Callable[..., None], source: Any, path: Any, context: Any, *more: Any,
        **named: Any
    ) -> None:
        """The file reader of triton.compile(), extended to proton operations."""
        made, ext = None, os.path.splitext(str(path))[1][1:]
        if self.is_live:
            backend = more[0] if more else named.get("backend")
            target = getattr(backend, "target", None)
            made = _translate(path, ext, getattr(target, "backend", "") == "hip")
        if made is None:
            inner(source, path, context, *more, **named)
            return
        with temporary_file(made, f".{ext}") as temporary:
            inner(source, temporary, context, *more, **named)
        source.path = path

    def _parse_options(self, inner: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """The options of a source, with the instrumentation mode added.

        Launches get the mode from the knobs. Direct calls of triton.compile() do not, and before
        Triton called its hook for a key there was no other way to make it part of the cache key.
        """
        options = inner(*args, **named)
        if not self.is_live or not isinstance(options, dict):
            return options
        if any(t.knobs.compilation.instrumentation_mode == self.name for t in self._tritons):
            options = {**options, "instrumentation_mode": self._wanted().name}
        return options


def _hash_without_hook(inner: Callable[..., Any], source: Any, *more: Any, **rest: Any) -> Any:
    """ASTSource.hash, with the hashes that sources have without a hook.

    Override files are in a directory named after the hash of a kernel's source, which a dump
    created. Since Triton 3.7 a compiler stage hook adds itself to the specialization of a launch,
    and thereby to the source as an attribute of a nonexistent parameter. The directory of an
    instrumented run would therefore differ from that of a dump without a hook.
    """
    try:
        parameters = len(source.signature)
        attrs = {path: value for path, value in source.attrs.items() if path[0] < parameters}
        if len(attrs) < len(source.attrs):
            source = copy.copy(source)
            source.attrs = attrs
    except (AttributeError, TypeError):  # attributes of a later version
        pass
    return inner(source, *more, **rest)


def _translate(path: Any, ext: str, is_amd: bool) -> Optional[str]:
    """The IR file with proton operations translated for Triton; None if it has none."""
    if ext not in ("ttir", "ttgir", "glir"):
        return None
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    try:
        return _libproton.instrument_override(text, is_amd)
    except _libproton.ProtonError as error:
        raise ValueError(f"{path}: {error}") from None


# ---------------------------------------------------------------------- process-wide state

_lock = threading.Lock()
_pipeline: Optional[_Pipeline] = None


def start(mode: str, is_trace: bool = False) -> None:
    """Instrument the kernels that Triton compiles from now on, as `mode` specifies.

    `is_trace`: they need records. May be called again for another session. Raises ValueError for
    an unknown mode, or one that would generate different code than the mode in use: a kernel is
    compiled for one mode.
    """
    global _pipeline
    with _lock:
        if _pipeline is not None:
            if not _pipeline.makes_same(mode):
                raise ValueError(
                    f"cannot use mode {mode}: a live session instruments kernels with mode "
                    f"{_pipeline.mode}; finalize it first"
                )
            _pipeline.count(1, is_trace)
            return
        pipeline = _Pipeline(mode)
        pipeline.count(1, is_trace)
        pipeline.install()
        _pipeline = pipeline
        flags.instrumentation_on = True


def stop(is_trace: bool = False) -> None:
    """Undo one `start`; the last one restores Triton."""
    global _pipeline
    with _lock:
        if _pipeline is None:
            return
        if _pipeline.users > 1:
            _pipeline.count(-1, -is_trace)
            return
        _pipeline.remove()
        _pipeline = None
        flags.instrumentation_on = False


def set_context(
    mode: str, scopes: str
) -> Optional[tuple[contextlib.AbstractContextManager[None], str]]:
    """None unless trees of sessions have kernels of this mode."""
    pipeline = _pipeline
    return None if pipeline is None else pipeline.set_context(mode, scopes)


_closed_loop.within = set_context
