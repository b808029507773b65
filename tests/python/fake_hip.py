"""Triton's driver of AMD GPUs without torch, for programs beside a fake libamdhip64.

And what a launch of an instrumented kernel leaves in its buffer.
"""

import ctypes
import struct

from triton.backends.amd import driver as amd

STREAM = 7


class Driver(amd.HIPDriver):
    """Answers what the real one asks torch for."""

    def __init__(self):
        self.utils = amd.HIPUtils()
        self.launcher_cls = amd.HIPLauncher

    def get_current_device(self):
        return 0

    def set_current_device(self, device):
        pass

    def get_current_stream(self, device):
        return STREAM


def write_waves(layout, scratch, ctas, wave):
    """Call wave(headers, buffer, cta, unit, codes) for each unit; the first two are addresses."""
    words = [line.split(" ", 1) for line in layout.splitlines()[1:]]
    keys = dict(words)
    codes = [tuple(map(int, value.split())) for key, value in words if key == "code"]
    units = len(keys["units"].split())
    cta, ring, slack = (int(keys[key]) for key in ("cta", "ring", "slack"))
    for number in range(ctas):
        at = scratch + number * cta
        for unit in range(units):
            wave(at, at + units * 64 + unit * (ring + slack), number, unit, codes)


def wave(headers, ring, number, unit, codes):
    """For write_waves(): records of one wave, pairs at their end, starts and ends around them."""
    clock, records = 5000, []
    for code, (_, kind) in enumerate(codes, 1):
        records.append((clock, code << 24 | (100 if kind == 0 else 0)))
        clock += 200 if kind == 0 else 100
    store_wave(headers, ring, unit, unit | (4 + number % 16) << 8 | 1 << 13, records)


def store_wave(headers, ring, unit, place, records):
    """The header and the records, pairs of words, of a unit that ran at `place`.

    100 000 cycles in 5000 ticks of 10 ns: 2 GHz.
    """
    header = struct.pack(
        "<IIIIQQQQII8x", 0x314F5250, place, len(records), 10,
        10**15, 4000, 10**15 + 5000, 104000, 6, 0)  # fmt: skip
    ctypes.memmove(headers + unit * 64, header, 64)
    data = b"".join(struct.pack("<II", *record) for record in records)
    ctypes.memmove(ring, data, len(data))
