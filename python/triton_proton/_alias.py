"""`import triton.profiler` gives this package.

Scripts written for Triton's own profiler then run unchanged. Modules that are not imported yet are
answered by an import hook, those that are get replaced in sys.modules and in Triton.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any, Optional

_NAME = "triton.profiler"
_PACKAGE = __name__.rpartition(".")[0]


class _AliasLoader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(_PACKAGE + spec.name[len(_NAME) :])
        # The import system is about to write its own idea of these into the module.
        spec.loader_state = {
            name: getattr(module, name)
            for name in ("__spec__", "__loader__", "__package__")
            if hasattr(module, name)
        }
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        for name, value in ((spec and spec.loader_state) or {}).items():
            setattr(module, name, value)

    def get_code(self, fullname: str) -> Any:
        """For `python -m triton.profiler.proton`, which runs the code instead of importing it."""
        spec = importlib.util.find_spec(_PACKAGE + fullname[len(_NAME) :])
        get_code = getattr(spec and spec.loader, "get_code", None)
        return get_code(spec.name) if spec and get_code else None


class _AliasFinder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname != _NAME and not fullname.startswith(_NAME + "."):
            return None
        ours = _PACKAGE + fullname[len(_NAME) :]
        found = importlib.util.find_spec(ours)
        if found is None:
            return None
        return importlib.machinery.ModuleSpec(
            fullname, _AliasLoader(), is_package=found.submodule_search_locations is not None
        )


_finder = _AliasFinder()


def install_as_triton_profiler() -> None:
    """Make `import triton.profiler` (and its sub-modules) give this package in this process.

    Call it before the code that imports `triton.profiler`; what has been imported before keeps
    what it got. The `proton` command does this by itself. Calling it again changes nothing.
    """
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    package = sys.modules[_PACKAGE]
    if sys.modules.get(_NAME, package) is not package:
        _replace_imported(package)
    elif sys.modules.get("triton") is not None:
        setattr(sys.modules["triton"], "profiler", package)
    # The import of a module that sys.modules lacks would bind it as an attribute of the package:
    # `import triton.profiler.scope` must not replace the class `scope` by the module.
    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGE + "."):
            sys.modules[_NAME + name[len(_PACKAGE) :]] = module


def _replace_imported(package: ModuleType) -> None:
    """Triton's own profiler is imported already: put ours where it stands."""
    names = [name for name in sys.modules if name == _NAME or name.startswith(_NAME + ".")]
    for name in names:
        del sys.modules[name]
    sys.modules[_NAME] = package
    setattr(sys.modules["triton"], "profiler", package)
