"""Kernels of packages from PyPI: loading their modules, and guessing arguments.

A module is loaded without what it needs: each statement at its top level may fail, and a package
that is not installed is replaced by an object that accepts everything. The types of a kernel's
parameters follow from their names and from how the source uses them. `guesses` yields several sets
of arguments; the first that Triton compiles is used.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from typing import Any, Optional

# ------------------------------------------------------------------ modules


class Anything:
    """Stands for everything in a package that is not installed."""

    def __init__(self, *args: Any, **named: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args: Any, **named: Any) -> Any:
        # As a decorator it returns the function.
        return args[0] if len(args) == 1 and callable(args[0]) and not named else Anything()

    def __or__(self, other: Any) -> Any:
        return Anything()

    __ror__ = __add__ = __radd__ = __mul__ = __sub__ = __or__

    def __mro_entries__(self, bases: Any) -> Any:
        return (object,)

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Any:
        return iter(())

    def __getitem__(self, key: Any) -> Any:
        return Anything()


class MissingModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("triton", "tl"):  # packages import them from a module that checks for Triton
            import triton.language

            return triton if name == "triton" else triton.language
        return Anything()


class MissingLoader(importlib.abc.Loader):
    def create_module(self, spec: Any) -> Any:
        module = MissingModule(spec.name)
        module.__path__ = list(spec.submodule_search_locations or ())
        return module

    def exec_module(self, module: Any) -> None:
        pass


class StatementLoader(importlib.machinery.SourceFileLoader):
    """Runs a module statement by statement; those that fail are left out."""

    def exec_module(self, module: Any) -> None:
        with open(self.path, encoding="utf-8", errors="replace") as file:
            tree = ast.parse(file.read(), self.path)
        for statement in tree.body:
            code = compile(ast.Module([statement], []), self.path, "exec")
            try:
                exec(code, module.__dict__)
            except (Exception, SystemExit):
                continue


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules below `folders`, and runs those with kernels."""

    def __init__(self, folders: list[str]) -> None:
        self.folders = folders

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if path is None and name in sys.stdlib_module_names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path or self.folders)
        inside = getattr(spec, "submodule_search_locations", None) or ()
        places = [getattr(spec, "origin", None), *inside]
        if spec is None or not any(str(p).startswith(tuple(self.folders)) for p in places):
            return None
        spec.loader = MissingLoader()
        # A package is only its modules, and modules without kernels are replaced too.
        if spec.submodule_search_locations is None and str(spec.origin).endswith(".py"):
            with open(spec.origin, encoding="utf-8", errors="replace") as file:
                if "triton" in file.read():
                    spec.loader = StatementLoader(name, spec.origin)
        return spec


class MissingFinder(importlib.abc.MetaPathFinder):
    """Replaces the modules that are not installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not _is_asked_by_ours() or name.startswith(("triton", "torch.")):
            return None
        return importlib.machinery.ModuleSpec(name, MissingLoader(), is_package=True)


def _is_asked_by_ours() -> bool:
    """True if a module that was loaded statement by statement imports: others handle errors."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if "importlib" not in file and file != __file__:
            return isinstance(frame.f_globals.get("__loader__"), StatementLoader)
        frame = frame.f_back
    return False


def install(folders: list[str]) -> None:
    sys.meta_path.insert(0, Finder(folders))
    sys.meta_path.append(MissingFinder())


def kernels_in(source: str) -> list[str]:
    """Names of the functions with @triton.jit that store something, in the order of the text."""
    found = []
    for node in ast.parse(source).body:
        if not isinstance(node, ast.FunctionDef) or not node.args.args:
            continue
        decorators = {ast.unparse(d).split("(")[0] for d in node.decorator_list}
        if not decorators & {"triton.jit", "jit", "gluon.jit"}:
            continue
        called = {
            ast.unparse(call.func).split(".")[-1]
            for call in ast.walk(node)
            if isinstance(call, ast.Call)
        }
        returns = [n for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None]
        if called & {"store", "atomic_add", "atomic_max", "atomic_xchg"} and not returns:
            found.append(node.name)
    return found


def unwrap(kernel: Any) -> tuple[Any, list[Any], list[str]]:
    """The JITFunction, the configurations of its autotuner, and the names of its heuristics."""
    from triton.runtime.jit import JITFunction

    configs: list[Any] = []
    heuristics: list[str] = []
    for _ in range(8):
        if isinstance(kernel, JITFunction):
            return kernel, configs, heuristics
        configs += [c for c in getattr(kernel, "configs", None) or [] if hasattr(c, "kwargs")]
        heuristics += list(getattr(kernel, "values", None) or {})
        kernel = getattr(kernel, "fn", None)
    raise TypeError("not a kernel")


# ------------------------------------------------------------------ arguments

_INTEGERS = re.compile(
    r"idx|index|indices|(?<![a-z])ids?(?![a-z])|offset|cu_|lens?(?![a-z])|table|slot|mapping|token"
    r"|expert|sorted|count|(?<![a-z])num|batch|seq|pos|lock|start|map|label|target|block|chunk",
    re.I,
)
_SINGLE = re.compile(
    r"lse|delta|mean|rstd|scale|(?<![a-z])(m|l|g|dg|h0|ht|dh|dh0)(?![a-z])|loss", re.I
)
_REAL = re.compile(
    r"eps|scale|alpha|dropout|softcap|cap|(?<![a-z])(p|lr|theta|temperature|gamma|beta\d?|rate"
    r"|weight_decay|momentum|smoothing|clamp|limit)(?![a-z])|prob|ratio", re.I
)
_ACCESS = re.compile(r"\.(load|store|atomic_\w+|make_block_ptr|make_tensor_descriptor)$")
_FLAG = re.compile(r"^(is|has|use|do|enable|with|apply|return|save|store|even|need|output|causal|"
    r"allow|compute|add|skip|norm|reverse|transpose|store|mask|fuse|inplace|masked)", re.I)


def _leftmost(node: ast.expr, assigned: dict[str, ast.expr], depth: int = 0) -> Optional[str]:
    """The name at the left of a pointer's expression: of x in x + rows * stride."""
    while depth < 20:
        depth += 1
        if isinstance(node, ast.BinOp):
            node = node.left
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            node = node.args[0] if owner in ("tl", "gl") and node.args else node.func.value
        elif isinstance(node, (ast.Subscript, ast.Attribute)):
            node = node.value
        elif isinstance(node, ast.Name):
            value = assigned.get(node.id)
            if value is None:
                return node.id
            node = value
        else:
            return None
    return None


def pointers_of(function: Any) -> set[str]:
    """The parameters that the source uses as pointers."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    names = {arg.arg for node in tree.body if isinstance(node, ast.FunctionDef)
             for arg in node.args.args}
    assigned: dict[str, ast.expr] = {}
    uses: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id not in names:
                assigned.setdefault(node.targets[0].id, node.value)
        if isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func)
            if _ACCESS.search(called):
                uses.append(node.args[0])
    found = {_leftmost(use, assigned) for use in uses}
    return {name for name in names if name in found or re.search(r"ptr|pointer", name, re.I)}


def _size(name: str, value: int) -> int:
    """A size for a constant: small for what is unrolled, `value` for the edge of a block."""
    if re.search(r"group|num_|^n_|iters|split|^NUM|stages|topk|^K_WIDTH|rank|^G$|^HQ?$|heads|ratio",
                 name, re.I):
        return 8 if re.search("group", name, re.I) else 2 if "stage" in name.lower() else 4
    return value


def _constant(param: Any, value: int, flag: bool, dtype: Any) -> Any:
    name = param.name
    if param.has_default and param.default is not inspect.Parameter.empty:
        return getattr(param.default, "value", param.default)
    if "dtype" in name.lower() or name.endswith("_type"):
        return dtype
    annotated = str(getattr(param, "annotation", ""))
    if "bool" in annotated or _FLAG.match(name):
        return flag
    if _REAL.search(name):
        return 1.0
    return _size(name, value)


def guesses(kernel: Any) -> Iterator[tuple[dict[str, str], dict[str, Any], dict[str, Any]]]:
    """Signatures, constants and options to try."""
    import triton.language as tl

    function, configs, heuristics = unwrap(kernel)
    pointers = pointers_of(function.fn)
    names = [param.name for param in function.params]
    chosen = [{}] if not configs else [configs[len(configs) // 2], configs[0]]
    for config in chosen:
        given = dict(getattr(config, "kwargs", {}))
        options = {
            key: getattr(config, key)
            for key in ("num_warps", "num_stages")
            if getattr(config, key, None)
        }
        # Options of other back ends are not parameters.
        given = {name: value for name, value in given.items() if name in names}
        for kind, dtype in (("fp16", tl.float16), ("fp32", tl.float32), ("bf16", tl.bfloat16)):
            for value, flag in ((64, False), (32, True), (128, False), (16, False)):
                signature: dict[str, str] = {}
                constants: dict[str, Any] = {}
                for param in function.params:
                    name = param.name
                    if param.is_constexpr or name in given or name in heuristics:
                        signature[name] = "constexpr"
                        constants[name] = (
                            given[name] if name in given else
                            False if name in heuristics and not _size_like(name) else
                            _constant(param, value, flag, dtype)
                        )
                    elif name in pointers:
                        signature[name] = "*" + (
                            "i32" if _INTEGERS.search(name) else
                            "fp32" if _SINGLE.search(name) else kind
                        )
                    elif param.has_default and param.default is None:
                        signature[name], constants[name] = "constexpr", None
                    else:
                        signature[name] = "fp32" if _REAL.search(name) else "i32"
                yield signature, constants, options


def _size_like(name: str) -> bool:
    return bool(re.match(r"B[A-Z]*$|BLOCK|.*_SIZE|BT|NUM_|num_", name))
