"""The calling context of the current thread."""

from __future__ import annotations

from typing import Optional

from . import _libproton
from .flags import flags


def depth(session: Optional[int] = 0) -> Optional[int]:
    """Depth of this thread's context: open scopes, or Python frames for context "python".

    None while nothing is being profiled or when `session` is None.
    """
    if session is None or not flags.profiling_on:
        return None
    return _libproton.get_context_depth(session)
