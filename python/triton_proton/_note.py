"""Lines on standard error for what a user can act on."""

from __future__ import annotations

import os
import sys

_said: set[str] = set()


def note(text: str, *, once: bool = False) -> None:
    """Print `proton: TEXT` unless PROTON_QUIET is set; with `once`, a text appears only once."""
    if os.environ.get("PROTON_QUIET", "0") not in ("", "0"):
        return
    if once:
        if text in _said:
            return
        _said.add(text)
    try:
        print(f"proton: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        pass  # a closed or missing standard error is no reason to stop the program
