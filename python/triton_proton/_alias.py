"""Import alias: `import triton.profiler` gives this package.

Scripts written for Triton's own profiler then run unchanged. An import hook answers imports of its
modules; modules that are already imported are replaced in sys.modules and in Triton.
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
_EXTENSION = "triton._C.libproton"  # a package with one module, `proton`


def _ours(fullname: str) -> Optional[str]:
    """This package's module in place of Triton's `fullname`, or None."""
    if fullname in (_EXTENSION, _EXTENSION + ".proton"):
        return _PACKAGE + "._low_level"
    if fullname == _NAME or fullname.startswith(_NAME + "."):
        return _PACKAGE + fullname[len(_NAME) :]
    return None


class _AliasLoader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(_ours(spec.name) or spec.name)
        # The import system sets these attributes of the module itself.
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
        spec = importlib.util.find_spec(_ours(fullname) or fullname)
        get_code = getattr(spec and spec.loader, "get_code", None)
        return get_code(spec.name) if spec and get_code else None


class _AliasFinder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        ours = _ours(fullname)
        found = importlib.util.find_spec(ours) if ours else None
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None or fullname == _EXTENSION
        return importlib.machinery.ModuleSpec(fullname, _AliasLoader(), is_package=is_package)


_finder = _AliasFinder()


def install_as_triton_profiler() -> None:
    """Make `import triton.profiler` (and its submodules) give this package in this process.

    Call it before the code that imports `triton.profiler`; earlier imports are not changed. The
    `proton` command does this itself. Calling it again has no effect.
    """
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    package = sys.modules[_PACKAGE]
    if sys.modules.get(_NAME, package) is not package:  # Triton's own is already imported
        for name in [name for name in sys.modules if name == _NAME or name.startswith(_NAME + ".")]:
            del sys.modules[name]
        sys.modules[_NAME] = package
    if sys.modules.get("triton") is not None:
        setattr(sys.modules["triton"], "profiler", package)
    if _EXTENSION in sys.modules:
        low_level = importlib.import_module(_PACKAGE + "._low_level")
        sys.modules[_EXTENSION] = sys.modules[_EXTENSION + ".proton"] = low_level
        setattr(sys.modules["triton._C"], "libproton", low_level)
    # The import of a module that is missing in sys.modules would bind it as an attribute of the
    # package: `import triton.profiler.scope` must not replace the class `scope` by the module.
    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGE + "."):
            sys.modules[_NAME + name[len(_PACKAGE) :]] = module
