"""Modules of PyTorch as scopes: `annotate`, `deannotate`, and `proton --modules`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, Optional, TypeVar

from . import _compiled
from ._compiled import WRAPPED
from ._imports import Sessions, forget, when_imported
from ._libproton import name_module, scope

_Model = TypeVar("_Model")

_PARALLEL = ("DataParallel", "DistributedDataParallel")

_handle: Any = None


def _is_compiling() -> bool:
    return False


def _load(torch: Any) -> None:
    """Use PyTorch's own function, which torch.compile replaces by True."""
    global _is_compiling
    compiler = getattr(torch, "compiler", None)
    for name in ("is_dynamo_compiling", "is_compiling"):
        if hasattr(compiler, name):
            _is_compiling = getattr(compiler, name)
            break
    when_imported("torch._dynamo.eval_frame", _skip_hooks)


class _Enter:
    """The pre-forward hook of a module. Compiled code has no scopes: their calls would split it."""

    __slots__ = ("enter", "scope")

    def __init__(self, name: str) -> None:
        self.scope = scope(name)
        self.enter = self.scope.__enter__

    def __call__(self, module: Any, inputs: Any) -> None:
        if not _is_compiling():
            self.enter()

    def __reduce__(self) -> Any:
        return _Enter, (self.scope.name,)


class _Exit:
    """The forward hook: runs after an exception too."""

    __slots__ = ("enter", "exit")

    def __init__(self, enter: _Enter) -> None:
        self.enter = enter
        self.exit = enter.scope.__exit__

    def __call__(self, module: Any, inputs: Any, output: Any) -> None:
        if not _is_compiling():
            # As for an exception: a scope that was not entered here is not an error.
            self.exit(RuntimeError, None, None)

    def __reduce__(self) -> Any:
        return _Exit, (self.enter,)


def _skip_hooks(dynamo: Any) -> None:
    """Never compile the hooks of modules that are called between compiled graphs: they would
    take themselves for a part of a graph."""
    skip = getattr(dynamo, "skip_code", None)
    if callable(skip):
        for hook in (_Enter, _Exit):
            skip(hook.__call__.__code__)


def _find(module: Any) -> Optional[_Enter]:
    for hook in module._forward_pre_hooks.values():
        if type(hook) is _Enter:
            return hook
    return None


def _class_name(module: Any) -> str:
    """fully_shard and replicate put a class of theirs above that of the user: FSDPModel."""
    cls = type(module)
    if len(cls.__bases__) > 1 and cls.__bases__[0].__module__.startswith("torch.distributed."):
        cls = cls.__bases__[-1]
    return cls.__name__


def _names(model: Any, root: Optional[str]) -> dict[str, Any]:
    """Modules by the names of their scopes; a wrapper stands for the module that it contains."""
    found: dict[str, Any] = {}
    inner = model
    for path, module in model.named_modules():
        parts = path.split(".") if path else []
        if parts and parts[0] == "module" and type(model).__name__ in _PARALLEL:
            del parts[0]
        name = ".".join(part for part in parts if part not in WRAPPED)
        if not name:
            inner = module
        if name not in found:
            found[name] = module
    found[root or _class_name(inner)] = found.pop("")
    return found


def annotate(model: _Model, name: Optional[str] = None) -> _Model:
    """Make each call of the modules in `model` a scope, and return `model`.

    The scopes have the names of `model.named_modules()`, such as "layers.3.mlp.up"; that of `model`
    is `name`, or the name of its class. Wrappers (DistributedDataParallel, FSDP, checkpoints,
    torch.compile) do not appear in the names. Repeating the call changes nothing but the names.

    Kernels of the backward pass appear below the modules too, in a frame "<backward>", in sessions
    started with `backward=True`; those of code that torch.compile generates do, too.

        proton.annotate(model)
        proton.start("train", backward=True)
    """
    torch = sys.modules.get("torch")
    module_type = getattr(getattr(torch, "nn", None), "Module", None)
    if module_type is None or not isinstance(model, module_type):
        raise TypeError(f"annotate takes a torch.nn.Module, not {type(model).__name__}")
    _load(torch)
    _compiled.show_modules()
    deannotate(model)
    scripted = getattr(getattr(torch, "jit", None), "ScriptModule", ())
    names = _names(model, name)
    root = next(reversed(names))
    for path, module in names.items():
        if isinstance(module, scripted):
            continue  # its hooks would have to be compiled
        name_module(path, path == root)
        enter = _Enter(path)
        module.register_forward_pre_hook(enter, prepend=True)
        module.register_forward_hook(_Exit(enter), always_call=True)
    return model


def deannotate(model: _Model) -> _Model:
    """Remove the scopes that `annotate` gave to `model` or its modules; return `model`."""
    for module in model.modules():  # type: ignore[attr-defined]
        for hooks in (module._forward_pre_hooks, module._forward_hooks):
            for key in [key for key, hook in hooks.items() if type(hook) in (_Enter, _Exit)]:
                del hooks[key]
                module._forward_hooks_always_called.pop(key, None)
    return model


# ---------------------------------------------------------------------- proton --modules


def _stop() -> None:
    global _handle
    forget("torch", _watch)
    if _handle is not None:
        _handle.remove()
        _handle = None


_sessions = Sessions(_stop)


def follow(session: int) -> None:
    """Annotate each model when it is first called, until `session` ends."""
    _sessions.add(session)
    _compiled.show_modules()
    when_imported("torch", _watch)


def _watch(torch: ModuleType) -> None:
    global _handle
    modules = sys.modules.get("torch.nn.modules.module")
    register: Optional[Callable[..., Any]] = getattr(
        modules, "register_module_forward_pre_hook", None
    )
    if register is None or _handle is not None:
        return
    _load(torch)
    # torch.compile warns that hooks of all modules run twice for a compiled one; ours may.
    warnings.filterwarnings("ignore", message=".*when there are global hooks on modules.*")
    _handle = register(_on_call)


def _on_call(module: Any, inputs: Any) -> None:
    """The outermost module without scopes is a model."""
    if _is_compiling() or _find(module) is not None:
        return
    annotate(module)
    enter = _find(module)
    if enter is not None:
        enter(module, inputs)  # the call that is running does not see the new hook
