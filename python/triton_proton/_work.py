"""Flops and bytes of Triton's kernels from their TTIR, where they have no launch_metadata.

They take the way of launch metadata: Triton's LazyDict has them before the hook "triton" reads it.
Each configuration (grid and integers) of a kernel is counted once, at its first launch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple, Optional

from . import _libproton
from ._imports import Replacements
from ._message import warn

# Configurations of a kernel that are kept. With more, counting would cost more than it tells.
_CONFIGURATIONS_MAX = 256
_TOLERANCE = 0.05

_replaced = Replacements()
_checked: set[str] = set()


class Work(NamedTuple):
    """The work of a configuration. Numbers below 0 are not known."""

    metrics: dict[str, float]
    dot_flops: float
    flops: float


_NOTHING = Work({}, -1, -1)


def follow() -> None:
    """Count from now on."""
    _replaced.watch("compiler.compiler", _wrap)
    _libproton.count_compiled(True)


def stop() -> None:
    _replaced.restore()
    _libproton.count_compiled(False)


def _wrap(module: ModuleType) -> None:
    kernel = getattr(module, "CompiledKernel", None)
    original = getattr(kernel, "launch_metadata", None)
    if original is not None and not isinstance(original, _libproton.WorkCaller):
        # In C, because it runs at every launch.
        _replaced.put(kernel, "launch_metadata", _libproton.WorkCaller(original, _add))


def _add(metadata: Any, kernel: Any, grid: Any, args: tuple[Any, ...]) -> None:
    """Adds the work of a launch to its metadata, where the caller in C does not know it yet."""
    try:
        counter = kernel.__dict__.get("_proton_work") or _counter_of(kernel)
        if not metadata.extras:
            metadata.data.update(counter.work(grid, args).metrics)
        elif not counter.is_checked:
            counter.is_checked = True
            kernel._proton_known = False  # nothing more to do
            _check(metadata, kernel.name, functools.partial(counter.work, grid, args))
    except Exception as error:  # the program is more important than its flops
        kernel._proton_work, kernel._proton_known = _Unknown(), False
        warn(f"kernel '{kernel.name}': flops and bytes are not counted: {error}")


# ------------------------------------------------------------------ counting


class _Unknown:
    """A kernel without TTIR, or with arguments that are not understood."""

    is_checked = True

    def work(self, grid: Any, args: tuple[Any, ...]) -> Work:
        return _NOTHING


class _Counter:
    """The work of one compiled kernel by configuration."""

    is_checked = False

    def __init__(self, ttir: str, signature: list[str]) -> None:
        self._kernel = _libproton.work_read(ttir)
        self._length = len(signature)
        positions = [i for i, kind in enumerate(signature) if kind != "constexpr"]
        types = [signature[i] for i in positions]
        self._types, self._positions = types, positions
        self._numbers = tuple(p for p, kind in zip(positions, types) if kind[0] in "iu")
        self._descriptors = [p for p, kind in zip(positions, types) if _is_descriptor(kind)]
        self._known: dict[Any, Work] = {}

    def known(self) -> Any:
        """As the caller in C reads it, which does not know descriptors."""
        return None if self._descriptors else (self._length, self._numbers, self._known)

    def work(self, grid: Any, args: tuple[Any, ...]) -> Work:
        if len(args) != self._length:
            args = self._spread(args)
        shapes = ((*args[p].shape, *args[p].strides) for p in self._descriptors)
        key = (tuple(grid), *(args[p] for p in self._numbers), *shapes)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _CONFIGURATIONS_MAX:
                return _NOTHING
            given = tuple(self._parameters(args))
            counted = _libproton.work_count(self._kernel, tuple(map(int, grid)), given)
            found = self._known[key] = Work(*counted)
        return found

    def _spread(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments at their positions. PyTorch's compiler may leave out the constants."""
        if len(args) != len(self._positions):
            raise TypeError(f"{len(args)} arguments for {self._length} parameters")
        spread = [None] * self._length
        for position, argument in zip(self._positions, args):
            spread[position] = argument
        return tuple(spread)

    def _parameters(self, args: tuple[Any, ...]) -> Iterator[Optional[int]]:
        for position, kind in zip(self._positions, self._types):
            argument = args[position]
            if _is_descriptor(kind):
                yield None
                yield from map(int, argument.shape)
                yield from map(int, argument.strides)
            else:
                yield argument if isinstance(argument, int) and kind[0] in "iu" else None


def _is_descriptor(kind: str) -> bool:
    return kind.startswith("tensordesc")


def _counter_of(kernel: Any) -> Any:
    """The counter of a kernel, which keeps it."""
    types = list(kernel.src.signature.values())
    ttir = kernel.asm.get("ttir")
    counter: Any = _Unknown()
    kernel._proton_known = False
    if isinstance(ttir, str) and all(isinstance(kind, str) for kind in types):
        counter, kernel._proton_known = _Counter(ttir, types), None
        if getattr(getattr(kernel.src, "fn", None), "launch_metadata", None) is None:
            kernel._proton_known = counter.known()
    kernel._proton_work = counter
    return counter


# ------------------------------------------------------------------ comparing


def _check(metadata: Any, name: str, count: Callable[[], Work]) -> None:
    """Have the kernel's own metadata compared, once it has been computed."""
    function, args = metadata.extras[-1]

    def checked(*given: Any) -> Any:
        result = function(*given)
        try:
            differences = list(_differences(result, count()))
        except Exception:  # the metadata is what the user wants
            differences = []
        if differences and name not in _checked:
            _checked.add(name)
            warn(f"the launch metadata of kernel '{name}' differs from its TTIR: "
                 + "; ".join(differences))
        return result

    metadata.extras[-1] = (checked, args)


def _differences(given: dict[str, Any], work: Work) -> Iterator[str]:
    """Differences from all that was counted under that name. Masks and epilogs may be left out."""
    flops = [v for k, v in given.items() if k.startswith("flops") and isinstance(v, (int, float))]
    counted = [work.dot_flops, work.flops]
    if flops and min(counted) >= 0 and not _is_near(sum(flops), counted):
        yield f"{sum(flops):.4g} flops, not {work.dot_flops or work.flops:.4g}"
    moved = [work.metrics.get(key, -1) for key in ("bytes", "requested_bytes")]
    wanted = given.get("bytes")
    if isinstance(wanted, (int, float)) and min(moved) >= 0 and not _is_near(wanted, moved):
        yield f"{wanted:.4g} bytes, not {moved[0]:.4g}"


def _is_near(number: float, counted: list[float]) -> bool:
    return any(abs(number - one) <= _TOLERANCE * max(number, one) for one in counted)
