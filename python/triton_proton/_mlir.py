"""MLIR modules as text: parsing into Triton's modules, and the kernel's name."""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

from ._imports import triton_of


def parse_instead(text: str, module: Any) -> Any:
    """The module parsed from `text`, in place of `module`."""
    ir = importlib.import_module(f"{triton_of(module)}._C.libtriton").ir
    with temporary_file(text, ".mlir") as path:
        made = ir.parse_mlir_module(path, module.context)
    made.context = module.context
    return made


def name_of(module: Any) -> str:
    """The name of the kernel in a module, for messages."""
    try:
        return str(module.get_entry_func_name())
    except Exception:
        return "a kernel"


def arguments_of(module: Any, name: str) -> int:
    """The number of arguments of the kernel `name` in a module; -1 if unknown."""
    try:
        return int(module.get_function(name).get_num_args())
    except Exception:
        return -1


@contextlib.contextmanager
def temporary_file(text: str, suffix: str) -> Iterator[str]:
    """A temporary file with `text`, because Triton's parser reads only files."""
    descriptor, path = tempfile.mkstemp(suffix=suffix, prefix="proton-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)
