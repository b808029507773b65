"""Messages on standard error."""

from __future__ import annotations

import os
import re
import sys

# Control characters, line separators, bidirectional marks and invalid UTF-8, as in
# src/base/printable.h.
_OBEYED = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_printed: set[str] = set()


def printable(text: str) -> str:
    """`text` with non-printable characters as \\xNN, byte by byte."""

    def escape(match: re.Match[str]) -> str:
        is_byte = "\udc80" <= match[0] <= "\udcff"
        octets = match[0].encode("utf-8", "surrogateescape" if is_byte else "surrogatepass")
        return "".join(f"\\x{octet:02x}" for octet in octets)

    return _OBEYED.sub(escape, text)


def shown(text: str) -> str:
    """`text` with escapes as in Python, if it has characters that are not printable."""
    return text if text.isprintable() else repr(text)[1:-1]


def print_line(text: str) -> None:
    """Print a line on standard error, if there is one."""
    if sys.stderr is None:
        return  # print() would fall back to standard output
    try:
        print(printable(text), file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        pass  # a closed standard error must not stop the program


def message(text: str) -> None:
    """Print `proton: TEXT` on standard error."""
    print_line(f"proton: {text}")


def warn(text: str, *, repeats: bool = False) -> None:
    """Print a message unless PROTON_QUIET is set; without `repeats`, each text only once."""
    if os.environ.get("PROTON_QUIET", "0") not in ("", "0") or (not repeats and text in _printed):
        return
    _printed.add(text)
    message(text)
