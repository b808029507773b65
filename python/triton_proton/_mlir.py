"""MLIR as text: into Triton's modules, and what they are called."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any


def parse_instead(text: str, module: Any) -> Any:
    """The module that `text` says, to go on with instead of another."""
    from triton._C.libtriton import ir

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


@contextlib.contextmanager
def temporary_file(text: str, suffix: str) -> Iterator[str]:
    """A file with `text`, while it is needed: Triton's parser reads nothing else."""
    descriptor, path = tempfile.mkstemp(suffix=suffix, prefix="proton-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)
