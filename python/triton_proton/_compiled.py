"""Modules, source lines and shapes of the kernels that torch.compile generates.

Above each call of a kernel in a generated file, Inductor names the graph's nodes that the kernel
computes. After the last pass over a graph, the names are extended by what the nodes know:

    # ... Source Nodes: [h{@./layers.0/mlp|16|forward|/model.py|f32%5B8x16%5D|}], Original ATen

So modules, lines and shapes are where Inductor's caches keep them, without a change of their keys,
and the extension reads them with the operators (python/ext/generated.c). Only comments differ.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Optional
from urllib.parse import quote

from . import _compiled_work, _libproton
from ._imports import Replacements, Sessions, when_imported
from ._message import warn
from .flags import is_disabled

_MODULE = "torch._inductor.compile_fx"
_NAME = "_recursive_post_grad_passes"  # runs before code is generated
_SAFE = "/._-<>=:@+~ "
_SUM = "Gradient addition node"  # in place of an operator of the program

# Attributes by which wrappers of PyTorch contain the module of the user.
WRAPPED = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in (\S+)')
_DTYPE = re.compile(r"^(bfloat|float|uint|int|complex)")
_SHORT = {"bfloat": "bf", "float": "f", "uint": "u", "int": "i", "complex": "c"}
_ITEM = re.compile(r"""(?:\._modules)?\[['"]?([^\]'"]+)['"]?\]""")

_replaced = Replacements()
_scheduling = Replacements()
_shape_sessions = Sessions(lambda: _libproton.show_shapes(False))


class Source:
    """The first item of a node's "from_node", of which Inductor prints the name."""

    target = pass_name = ""
    graph_id = -1
    node_info = None

    def __init__(self, name: str, known: str) -> None:
        self.text = f"{name}{{@{known}"
        self.work: dict[str, str] = {}  # of kernels that compute the node: _compiled_work.py
        self.action: list[Any] = []
        self.from_node: list[Any] = []

    @property
    def name(self) -> str:
        return f"{self.text}|{';'.join(self.work.values())}}}"

    def __getitem__(self, index: int) -> str:  # a tuple before PyTorch 2.6
        return (self.name, "")[index]

    def to_dict(self) -> dict[str, Any]:
        fields = ("name", "target", "graph_id", "pass_name", "from_node")
        return {**{field: getattr(self, field) for field in fields}, "action": ""}

    def print_readable(self, indent: int = 0) -> str:
        return " " * 4 * indent + self.name + "\n"


def follow() -> None:
    """From the import of Inductor on, unless PROTON_COMPILED=0 or profiling is disabled."""
    if os.environ.get("PROTON_COMPILED", "1") != "0" and not is_disabled():
        when_imported(_MODULE, _watch)
        when_imported("torch._inductor.scheduler", _watch_scheduler)


def show_modules() -> None:
    """In sessions with context "shadow", from the import of Inductor on."""
    when_imported(_MODULE, _show_modules)


def _show_modules(module: ModuleType) -> None:
    _libproton.follow_modules(True)


def show_shapes(session: int) -> None:
    """Show input shapes with the operators of compiled code, until `session` ends."""
    _shape_sessions.add(session)
    _libproton.show_shapes(True)
    show_modules()  # with context "shadow", they are what finds the operators


def report() -> None:
    """Name, once, what a cache that was filled without this package lacks."""
    if _libproton.compiled_without_names():
        warn(
            "compiled code from a cache has no modules and lines, because it was compiled without "
            "Proton; compile it again with another TORCHINDUCTOR_CACHE_DIR"
        )


def _with_names(passes: Callable[..., Any], graph: Any, *arguments: Any, **named: Any) -> Any:
    result = passes(graph, *arguments, **named)
    try:
        _annotate(graph.graph)
    except Exception as error:  # the program's compilation continues
        _warn_unknown(f"{type(error).__name__}: {error}")
    return result


def _watch(module: ModuleType) -> None:
    if _replaced:
        return
    if callable(getattr(module, _NAME, None)):
        _replaced.wrap(module, _NAME, _with_names)
    else:
        _warn_unknown(f"no {_NAME}")


def _watch_scheduler(module: ModuleType) -> None:
    scheduler = getattr(module, "Scheduler", None)
    if _scheduling:
        return
    if callable(getattr(scheduler, "codegen", None)):
        _scheduling.wrap(scheduler, "codegen", _with_work)
    else:
        _warn_unknown("no Scheduler.codegen", "flops and bytes")


def _with_work(generate: Callable[..., Any], scheduler: Any, *given: Any, **named: Any) -> Any:
    _compiled_work.note(scheduler)
    return generate(scheduler, *given, **named)


def _warn_unknown(why: str, lost: str = "modules and lines") -> None:
    version = getattr(sys.modules.get("torch"), "__version__", "")
    warn(
        f"Inductor of PyTorch {version} is not supported ({why}); kernels of compiled code have no "
        f"{lost}"
    )


# ---------------------------------------------------------------------- a graph


def _annotate(graph: Any) -> None:
    known: dict[Any, str] = {}
    for node in graph.nodes:
        known[node] = _describe(node, known)
        if node.op != "call_function" or not known[node]:
            continue
        sources = node.meta.get("from_node") or []
        name = _name(node, sources)
        source = Source(name, f"{known[node]}|{_shapes(node)}")
        node.meta["from_node"] = [source, *sources]


def _name(node: Any, sources: list[Any]) -> str:
    """As in the program; in a backward graph, that of the forward node and "_backward"."""
    for source in sources[:1]:
        return str(getattr(source, "name", "") or source[0]).partition("{@")[0]
    for name, *_ in reversed(node.meta.get("fwd_source_fn_stack") or []):
        return f"{name}_backward"
    return str(node.name)


def tensors(value: Any) -> Iterator[Any]:
    """The tensors in a node's arguments or results, in order, as the compiler represents them."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))
    elif hasattr(value, "all_input_nodes"):
        yield from tensors(value.meta.get("val"))
    elif hasattr(value, "dtype") and hasattr(value, "shape"):
        yield value


def _shapes(node: Any) -> str:
    """Types and sizes of the input tensors; a size that is not known yet has its symbol."""
    found = []
    for tensor in tensors([node.args, node.kwargs]):
        dtype = _DTYPE.sub(lambda m: _SHORT[m[1]], str(tensor.dtype).rpartition(".")[2])
        found.append(quote(f"{dtype}[{'x'.join(map(str, tensor.shape))}]", _SAFE))
    return ";".join(found)


def _describe(node: Any, known: dict[Any, str]) -> str:
    """MODULES|LINE|FUNCTION|FILE, which a node may have from its newest input."""
    meta = node.meta
    trace = meta.get("stack_trace") or ""
    place = _place(trace)
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    modules = modules_of(stack) if stack or (place and _SUM not in trace) else ""
    if modules and place:
        return f"{modules}|{place}"
    inputs = reversed(list(getattr(node, "all_input_nodes", ())))
    above = next((known[other] for other in inputs if known.get(other)), "")
    above_modules, _, above_place = above.partition("|")
    modules = modules or above_modules
    place = place or above_place
    return f"{modules}|{place}" if modules or place else ""


def _place(trace: str) -> str:
    """LINE|FUNCTION|FILE of the innermost frame outside of PyTorch."""
    torch = os.path.dirname(getattr(sys.modules.get("torch"), "__file__", None) or "/-") + os.sep
    frames = _FRAME.findall(trace)
    if not frames:
        return ""
    file, line, function = next(
        (frame for frame in reversed(frames) if not frame[0].startswith(torch)), frames[-1]
    )
    return f"{line}|{quote(function, _SAFE)}|{quote(file, _SAFE)}"


def _calls(stack: dict[str, Any]) -> Iterator[tuple[list[str], str]]:
    """The path in the program and the class of each module, outermost first."""
    for path, cls in stack.values():
        parts = _ITEM.sub(r".\1", path[1:] if path[:2] in ("L[", "G[") else path).split(".")
        name = getattr(cls, "__name__", None) or str(cls).rpartition(".")[2]
        hidden = ("", *WRAPPED)
        yield [p for p in parts if p not in hidden and not p.startswith("__import_")], name


def modules_of(stack: dict[str, Any]) -> str:
    """The called modules, outermost first, as "./layers.0/mlp/up".

    Each has its name in the one before. The first one is the module, or function, that was given to
    torch.compile. A module that is not part of the one before begins again with "=" and its class.
    """
    found = ["."]
    above: list[str] = []
    for path, cls in _calls(stack):
        above = above or path[:1]
        if path[: len(above)] != above or len(path) == 1:
            found.append("=" + quote(cls, ""))
        elif path != above:
            name = ".".join(path[len(above) :])
            found.append(quote(name, "._-<>:@+~ "))
        above = path
    return "/".join(found)
