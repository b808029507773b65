"""Marks that Triton's compiler drops: scopes that a profile would lack without a word."""

from __future__ import annotations

import re
from urllib.parse import unquote

from ._note import note

_MARK = re.compile(r'"// proton\.(?:record|event) (?:start|end) ([^"]+)"')
_NAMES_MAX = 8


def marks_of(text: str) -> set[str]:
    """The scopes and events that a text, MLIR or LLVM IR, has marks of; encoded as they are."""
    return set(_MARK.findall(text)) if "// proton." in text else set()


def tell_lost(kernel: str, before: set[str], after: set[str], is_specializing: bool) -> None:
    """Name the scopes that a stage of the compiler has been given and not given back."""
    lost = sorted(unquote(name) for name in before - after)
    if not lost:
        return
    more = len(lost) - _NAMES_MAX
    names = ", ".join(lost[:_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")
    why = (
        "; it does that in loops with warp_specialize=True for sm_90, where automatic scopes "
        "(auto= in the mode) work"
        if is_specializing
        else ""
    )
    note(f"{kernel}: Triton's compiler has dropped the marks of {names}{why}", once=True)
