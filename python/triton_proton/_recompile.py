"""Replaces a kernel if its records took more than the budget of automatic scopes.

libproton measures that (src/backend/intra/record_price.c). The kernel is compiled again in a mode
with a smaller budget, which is another key in Triton's disk cache, and takes the place of the old
one in the memory cache of its JIT function. Kernels that no JIT function compiled for its launches,
such as those of torch.compile, are not replaced.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Optional


class _Origin(NamedTuple):
    """The arguments with which JITFunction._do_compile made a kernel."""

    function: Any
    key: Any  # in the function's cache for `device`
    device: Any
    options: Any


_lock = threading.Lock()  # guards the next one
_kernels: "weakref.WeakSet[Any]" = weakref.WeakSet()


def noting_origins(inner: Callable[..., Any]) -> Callable[..., Any]:
    """JITFunction._do_compile, with the results remembered."""
    names = list(inspect.signature(inner).parameters)

    def _do_compile(*args: Any, **named: Any) -> Any:
        kernel = inner(*args, **named)
        given = {**dict(zip(names, args)), **named}
        # Not the future of a kernel that another thread compiles: it has no attributes yet.
        if "metadata_group" in getattr(kernel, "__dict__", ()):
            kernel.proton_origin = _Origin(
                args[0], given.get("key"), given.get("device"), given.get("options")
            )
            with _lock:
                _kernels.add(kernel)
        return kernel

    return _do_compile


def replace(handle: int, within: Callable[[str], Optional[AbstractContextManager[None]]]) -> bool:
    """Compile the kernel with this handle of its function again.

    `within` returns the context in which kernels of an instrumentation mode get fewer scopes. False
    if there is none, if the kernel is not its function's, or if the new one has the same scopes.
    """
    with _lock:
        kernel = next((each for each in _kernels if each.function == handle), None)
    if kernel is None:
        return False
    function, key, device, options = kernel.proton_origin
    cache = function.device_caches[device][0]
    context = within(getattr(options, "instrumentation_mode", ""))
    if context is None or cache.get(key) is not kernel or "@" not in _scopes_of(kernel):
        return False
    with context:
        new = function.compile(
            kernel.src, target=kernel.metadata.target, options=dict(options.__dict__)
        )
        if _scopes_of(new) in ("", _scopes_of(kernel)):
            return False
        new._init_handles()  # before other threads can launch it
    # Launches and captured graphs may still use the old one, which unloads itself.
    new.proton_replaced = kernel
    cache[key] = new
    return True


def _scopes_of(kernel: Any) -> str:
    """The layout without warnings: it names the scopes and says which CTAs record.

    The names of automatic scopes contain an "@".
    """
    layout = getattr(kernel.metadata, "proton_layout", "")
    return layout.partition("\nwarning ")[0].strip()
