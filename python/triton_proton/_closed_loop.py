"""Closed loops on kernel time: launches of a kernel rotate between variants of it.

Variant 0 is the plain kernel, the others have different sets of its automatic scopes. libproton
chooses the sets and the variant of each launch, and measures what they cost
(src/backend/intra/closed_loop.h). Here variants are compiled, in a thread, and take one another's
place in the memory cache of their JIT function. Kernels that no JIT function compiled for its
launches, such as those of torch.compile, keep the scopes that were predicted to be within the
budget.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Optional

from . import _libproton
from ._message import warn

PLAIN, FIRST = 0, 1
_DECISIONS_MAX = 4096  # bytes

# _instrument.set_context(): the context in which this thread compiles a kernel of an
# instrumentation mode with some of its automatic scopes, one per line, and the mode of that; None
# if the mode has no loops.
within: Callable[[str, str], Optional[tuple[AbstractContextManager[None], str]]]


class _Origin(NamedTuple):
    """The arguments with which JITFunction._do_compile made a kernel."""

    function: Any
    key: Any  # in the function's cache for `device`
    device: Any
    options: Any


class _DecisionFile:
    """Which sets of scopes a kernel keeps, for the next process: a file in Proton's cache."""

    def __init__(self, kernel: Any, names: list[str]) -> None:
        gpu = _driver_of(kernel).utils.get_device_properties(kernel.proton_origin.device)
        # The hash is of the source, the compiler, the mode and its budget.
        key = repr((_libproton.version(), kernel.hash, sorted(gpu.items()), names))
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        name = hashlib.sha256(key.encode()).hexdigest()
        self._path = os.path.join(home, "proton", "scopes", name)

    def read(self) -> Optional[str]:
        try:
            with open(self._path) as file:
                return file.read(_DECISIONS_MAX)
        except (OSError, ValueError):
            return None

    def write(self, decisions: str) -> None:
        """Without space or rights there is no file, and no error."""
        own = f"{self._path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self._path), 0o700, exist_ok=True)
            with open(own, "w") as file:
                file.write(decisions)
            os.replace(own, self._path)
        except OSError:
            pass


class _Loop:
    """A kernel of a JIT function, for one specialization and device, with its variants."""

    def __init__(self, kernel: Any, names: list[str]) -> None:
        self.handle: int = kernel.function  # names the loop to libproton
        self.kernels = {FIRST: kernel}
        self._names = names
        self._origin: _Origin = kernel.proton_origin
        self.decided = _DecisionFile(kernel, names)

    def use(self, number: int) -> None:
        """Later launches of the function have this variant."""
        origin, kernel = self._origin, self.kernels.get(number)
        cache = origin.function.device_caches[origin.device][0]
        if kernel is None or cache.get(origin.key) not in self.kernels.values():
            return
        cache[origin.key] = kernel
        (away.discard if number else away.add)(self)

    def is_paused(self) -> bool:
        """True while a session needs a trace, or none instruments kernels in this mode."""
        return within(self._origin.options.instrumentation_mode, "") is None

    def make_wanted(self) -> None:
        """Compile and load the variants that are wanted. Not in a thread that launches."""
        while (wanted := _libproton.instrument_wanted(self.handle)) is not None:
            number, first, end = wanted
            scopes = "\n".join(self._names[first:end])
            try:
                context = within(self._origin.options.instrumentation_mode, scopes)
                if context is None:
                    return
                kernel = self._make(scopes, *context)
                if self.is_paused():
                    return
            except Exception as error:  # profiling must not make a program fail
                warn(f"a kernel was not compiled with other scopes: {error!r}")
                kernel = None
            if kernel is not None:
                kernel.proton_loop = self
                self.kernels[number] = _by_function[kernel.function] = kernel
            _libproton.instrument_made(self.handle, number, kernel.function if kernel else 0)

    def _make(
        self, scopes: str, context: AbstractContextManager[None], mode: str
    ) -> Optional[Any]:
        """A new kernel; None if it needs more of the GPU with these scopes, so it has none."""
        function, _, device, options = self._origin
        old = self.kernels[FIRST]
        with context:
            new = function.compile(
                old.src,
                target=old.metadata.target,
                options={**options.__dict__, "instrumentation_mode": mode},
            )
        if bool(scopes) != bool(_scopes_of(new)):
            return None
        _driver_of(old).set_current_device(device)
        _libproton.instrument_loading(True)
        try:
            new._init_handles()
        finally:
            _libproton.instrument_loading(False)
        return new


_lock = threading.Lock()  # guards the next three
_kernels: "weakref.WeakSet[Any]" = weakref.WeakSet()
_wanted: "deque[_Loop]" = deque()
_worker: Optional[threading.Thread] = None
_by_function: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()
_loops: "weakref.WeakSet[_Loop]" = weakref.WeakSet()
away: "weakref.WeakSet[_Loop]" = weakref.WeakSet()  # loops of which the plain kernel is next


def note_origin(inner: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """JITFunction._do_compile, with the results remembered."""
    kernel = inner(*args, **named)
    given = {**dict(zip(inspect.signature(inner).parameters, args)), **named}
    # Not the future of a kernel that another thread compiles: it has no attributes yet.
    if "metadata_group" in getattr(kernel, "__dict__", ()):
        kernel.proton_origin = _Origin(
            args[0], given.get("key"), given.get("device"), given.get("options")
        )
        with _lock:
            _kernels.add(kernel)
    return kernel


def serve(function: int) -> None:
    """After a launch of the kernel with this handle: does what libproton wants for its loop."""
    try:
        loop = _loop_of(function)
        if loop is not None:
            is_usual = loop.is_paused()
            loop.use(_libproton.instrument_choice(loop.handle, is_usual))
            if not is_usual:
                _compile_for(loop)
            decisions = _libproton.instrument_decisions(loop.handle)
            if decisions is not None:
                loop.decided.write(decisions)
    except Exception as error:  # profiling must not make a program fail
        warn(f"the price of automatic scopes is not measured: {error!r}")


def _loop_of(function: int) -> Optional[_Loop]:
    kernel = _by_function.get(function)
    if kernel is None:
        with _lock:
            kernel = next((each for each in _kernels if each.function == function), None)
    if kernel is None or hasattr(kernel, "proton_loop"):
        return getattr(kernel, "proton_loop", None)
    kept = _scopes_of(kernel)
    found = getattr(kernel.metadata, "proton_scopes", "").splitlines()
    # Scopes in the source are in all launches, and the plain kernel has none.
    if not kept or not set(kept) <= set(found):
        return None
    if within(getattr(kernel.proton_origin.options, "instrumentation_mode", ""), "") is None:
        return None
    names = kept + [name for name in found if name not in kept]
    loop = kernel.proton_loop = _Loop(kernel, names)
    _libproton.instrument_loop(function, "\n".join(names), len(kept), loop.decided.read())
    _by_function[function] = kernel
    _loops.add(loop)
    return loop


def _compile_for(loop: _Loop) -> None:
    global _worker
    with _lock:
        if loop not in _wanted:
            _wanted.append(loop)
        if _worker is None:
            # Not a daemon: Python must not end while Triton compiles.
            _worker = threading.Thread(target=_work, name="proton-compile")
            _worker.start()


def _work() -> None:
    global _worker
    while True:
        with _lock:
            # The main thread is not alive any more while Python waits for the others.
            if not _wanted or not threading.main_thread().is_alive():
                _worker = None
                return
            loop = _wanted.popleft()
        loop.make_wanted()


def settle() -> None:
    """Launches have each kernel's usual variant: they are not measured from now on."""
    for loop in list(_loops):
        loop.use(_libproton.instrument_choice(loop.handle, True))


def settle_captured(package: str) -> None:
    """The same if the next launch is captured: graphs must not get plain kernels."""
    active = _driver(package)
    stream = active.get_current_stream(active.get_current_device())
    if _libproton.instrument_is_capturing(stream):
        settle()


def _driver(package: str) -> Any:
    return sys.modules[f"{package}.runtime.driver"].driver.active


def _driver_of(kernel: Any) -> Any:
    return _driver(type(kernel).__module__.partition(".")[0])


def _scopes_of(kernel: Any) -> list[str]:
    lines = getattr(kernel.metadata, "proton_layout", "").splitlines()
    return [line[len("scope ") :] for line in lines if line.startswith("scope ")]


def _reset_in_child() -> None:
    global _lock, _worker
    _lock, _worker = threading.Lock(), None
    _wanted.clear()


os.register_at_fork(after_in_child=_reset_in_child)
