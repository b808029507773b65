"""Reading protocol buffers without their schema, and Perfetto's compressed packets."""

import zlib
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


def perfetto_packets(data: bytes) -> bytes:
    """A Perfetto file as if its packets were not compressed."""
    parts = []
    for number, packet in protobuf_fields(data):
        ((field, stream),) = protobuf_fields(packet)
        assert (number, field) == (1, 50)
        parts.append(zlib.decompress(stream))
    return b"".join(parts)
