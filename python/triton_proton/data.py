"""Access to the data of a live session.

Data is divided into phases: `advance_phase` closes one and opens the next, which bounds the memory
use of a long run. These functions do not wait for work in flight: `deactivate(session,
flushing=True)` waits, and `is_phase_complete` reports.
"""

from __future__ import annotations

import json
from typing import Any, Optional

from . import _libproton
from .flags import flags


def _is_given(session: Optional[int]) -> bool:
    """False for None, which functions of the package return where nothing is recorded."""
    if flags.command_line and session not in (None, 0):
        raise ValueError("Only session 0 is available when running from the command line.")
    return session is not None


def get(session: Optional[int] = 0, phase: int = 0) -> Optional[list[Any]]:
    """The profile of one phase, as the list that a `.hatchet` file would contain."""
    if not _is_given(session):
        return None
    return json.loads(_libproton.get_data(session, phase, "hatchet").decode("utf-8", "replace"))


def get_msgpack(session: Optional[int] = 0, phase: int = 0) -> Optional[bytes]:
    """The profile of one phase, as the bytes that a `.hatchet_msgpack` file would contain."""
    is_given = _is_given(session)
    return _libproton.get_data(session, phase, "hatchet_msgpack") if is_given else None


def advance_phase(session: Optional[int] = 0) -> Optional[int]:
    """Close the current phase and open the next; returns its number."""
    return _libproton.advance_data_phase(session) if _is_given(session) else None


def is_phase_complete(session: Optional[int] = 0, phase: int = 0) -> bool:
    """True if all work launched in `phase` has been recorded; never for the current phase."""
    return _is_given(session) and _libproton.is_data_phase_complete(session, phase)


def clear(session: Optional[int] = 0, phase: int = 0, clear_up_to_phase: bool = False) -> None:
    """Drop the data of `phase`, or of all phases up to it; the current phase is emptied."""
    if _is_given(session):
        _libproton.clear_data(session, phase, clear_up_to_phase)
