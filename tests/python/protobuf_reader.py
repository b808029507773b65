"""Reading protocol buffers without their schema."""

from __future__ import annotations

from typing import Any


def protobuf_fields(data: bytes) -> list[tuple[int, Any]]:
    """The fields of a message: (number, integer or bytes); a fixed64 is eight bytes."""
    found, at = [], 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        value: Any
        if tag & 7 == 0:
            value = varint()
        else:
            assert tag & 7 in (1, 2), "a wire type that Proton does not use"
            length = 8 if tag & 7 == 1 else varint()
            value, at = data[at : at + length], at + length
            assert len(value) == length
        found.append((tag >> 3, value))
    return found
