"""Scopes and events inside kernels: `import triton_proton.language as pl`.

Scopes and events are recorded in sessions that instrument kernels
(`start(backend="instrumentation")`). Other sessions compile kernels without them, so they can stay
in the source. They work in kernels of Triton and of Gluon, and in Triton's interpreter.

    with pl.scope("load"):              # a region that every warp runs from its start to its end
        x = tl.load(pointer)

    ready = pl.allocate_event("copy")   # asynchronous work: may end elsewhere, even in another warp
    pl.start_event(ready)
    pl.end_event(ready)
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Optional, TypeVar
from urllib.parse import quote

from ._imports import triton_of
from .flags import flags

_SEMANTICS = ("triton", "gluon")
_F = TypeVar("_F", bound=Callable[..., Any])
_enabled = set(_SEMANTICS)


def _builtin(function: _F) -> _F:
    """A function that Triton's compiler calls instead of compiling it."""
    function.__triton_builtin__ = True  # type: ignore[attr-defined]
    return function


def enable_semantic(semantic_name: str) -> None:
    """Enable scopes in kernels written in "triton" or "gluon"; both are enabled by default."""
    _check_semantic(semantic_name)
    _enabled.add(semantic_name)


def disable_semantic(semantic_name: str) -> None:
    """Disable scopes in kernels written in "triton" or "gluon": they become a TypeError."""
    _check_semantic(semantic_name)
    _enabled.discard(semantic_name)


def _check_semantic(semantic_name: str) -> None:
    if semantic_name not in _SEMANTICS:
        raise ValueError(f"Unknown semantic: {semantic_name}; available: {', '.join(_SEMANTICS)}.")


# ---------------------------------------------------------------------- markers


def _name_of(value: Any) -> str:
    """A scope name given by a kernel: a str, or a constexpr with one."""
    value = getattr(value, "value", value)
    if not isinstance(value, str) or not value:
        shown = "a value of the kernel" if hasattr(value, "handle") else repr(value)
        raise TypeError(f"a scope name must be a non-empty compile-time string, not {shown}")
    return value


def _mark(kind: str, name: Any, semantic: Any) -> None:
    if semantic is None or not flags.instrumentation_on:
        return
    tl = importlib.import_module(f"{triton_of(semantic)}.language")
    language = "gluon" if "gluon" in type(semantic).__module__ else "triton"
    if language not in _enabled:
        raise TypeError(
            f"Unsupported semantic type: {type(semantic)}: scopes are disabled in {language}; "
            f"call enable_semantic({language!r})"
        )
    options = getattr(semantic.builder, "options", None)
    is_amd = getattr(options, "backend_name", "") == "hip"
    # A marker as in src/intra/marker.h.
    encoded = quote(_name_of(name).encode("utf-8", "surrogateescape"), safe=":@/")
    tl.inline_asm_elementwise(
        f"// proton.{kind} {encoded.replace('~', '%7E')}",
        "=v" if is_amd else "=r",
        [],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
        _semantic=semantic,
    )


# ---------------------------------------------------------------------- scopes


def record(is_start: Any, scope_name: Any, semantic: Any) -> None:
    """Start or end a region, for functions that Triton's compiler calls (builtins)."""
    kind = "record start" if getattr(is_start, "value", is_start) else "record end"
    _mark(kind, scope_name, semantic)


@_builtin
def enter_scope(name: Any, _semantic: Any = None) -> None:
    """Start the region `name` of the kernel."""
    _mark("record start", name, _semantic)


@_builtin
def exit_scope(name: Any, _semantic: Any = None) -> None:
    """End the region `name` of the kernel."""
    _mark("record end", name, _semantic)


@_builtin
class scope:
    """A region of the kernel as a block: `with pl.scope("load"): ...`."""

    def __init__(self, name: Any, _semantic: Any = None) -> None:
        self.name = name
        self.semantic = _semantic

    def __enter__(self) -> Optional["scope"]:
        enter_scope(self.name, _semantic=self.semantic)
        return None

    def __exit__(self, *exception: Any) -> None:
        exit_scope(self.name, _semantic=self.semantic)

    @staticmethod
    def compile(generator: Any, node: Any) -> None:
        """Compile the `with` statement `node`, for generators that do not call these methods."""
        call = node.items[0].context_expr
        named = dict(generator.visit(keyword) for keyword in call.keywords)
        region = scope(*map(generator.visit, call.args), **named, _semantic=generator.semantic)
        region.__enter__()
        generator.visit_compound_statement(node.body)
        region.__exit__()


# ---------------------------------------------------------------------- events

_event_classes: dict[str, Any] = {}  # by Triton's package


def _make_event_class(package: str) -> Any:
    """The class of events. It derives from one of Triton's, which only kernels import."""
    core = importlib.import_module(f"{package}.language.core")

    class EventType(core.base_type):
        """An event's type contains its name, so the kernel carries no value for it."""

        def __init__(self, name: str) -> None:
            self.name = name

        def _unflatten_ir(self, handles: Any, cursor: int) -> Any:
            return Event(self.name), cursor

        def _flatten_ir_types(self, builder: Any, out: Any) -> None:
            pass

        def __eq__(self, other: object) -> bool:
            return isinstance(other, EventType) and self.name == other.name

        def __hash__(self) -> int:
            return hash((EventType, self.name))

        def mangle(self) -> str:
            return "PE" + self.name.encode("utf-8", "surrogateescape").hex()

        def __str__(self) -> str:
            return f"proton.event<{self.name}>"

        __repr__ = __str__

    class Event(core.base_value):
        """What `allocate_event` returns; for `start_event` and `end_event`."""

        def __init__(self, name: str) -> None:
            self.name = name
            self.type = EventType(name)

        def _set_name(self, builder: Any, name: str) -> None:
            pass

        def _flatten_ir(self, handles: Any) -> None:
            pass

    return Event


def _event_type(package: str = "triton") -> Any:
    if package not in _event_classes:
        _event_classes[package] = _make_event_class(package)
    return _event_classes[package]


def __getattr__(name: str) -> Any:
    """`Event` needs Triton, which the import of this module does not load."""
    if name == "Event":
        return _event_type()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@_builtin
def allocate_event(name: Any, _semantic: Any = None) -> Any:
    """An event called `name`, which may be passed to other functions and to partitions."""
    if _semantic is None:
        return _name_of(name)
    return _event_type(triton_of(_semantic))(_name_of(name))


def record_event(event: Any, is_start: Any, _semantic: Any = None) -> None:
    """Start or end the asynchronous work of `event`, for functions that Triton's compiler calls."""
    if _semantic is None:
        return
    if not isinstance(event, tuple(_event_classes.values())):
        raise TypeError("expected an event returned by allocate_event")
    kind = "event start" if getattr(is_start, "value", is_start) else "event end"
    _mark(kind, event.name, _semantic)


@_builtin
def start_event(event: Any, _semantic: Any = None) -> None:
    """Mark the start of the asynchronous work of `event`."""
    record_event(event, True, _semantic)


@_builtin
def end_event(event: Any, _semantic: Any = None) -> None:
    """Mark the end of the asynchronous work of `event`, even if another warp started it."""
    record_event(event, False, _semantic)
