"""Peak rates of GPUs, for comparing what was measured with what is possible.

They are libproton's, the ones behind the viewer's `util`; the source of each stands beside it in
`src/model/peaks.c`. All are dense rates of the matrix units, or of the vector units where these are
faster or alone.
"""

from __future__ import annotations

from . import _libproton


def max_flops(device_type: str, arch: str, width: int, num_sms: int, clock_rate: float) -> float:
    """The most floating-point operations per second a device can do.

    device_type: "CUDA" or "HIP". arch: compute capability such as "90", or "gfx942". width: bits
    of one operand (4, 8, 16, 32 or 64). num_sms: multiprocessors or compute units. clock_rate: of
    these, in kHz, as the drivers report it. ValueError for a device that is not in the table, or
    another width.
    """
    return _libproton.peak_flops(device_type, str(arch), width, num_sms, clock_rate)


def max_bps(device_type: str, arch: str, bus_width: int, memory_clock_rate: float) -> float:
    """The most bytes per second a device's memory can move.

    bus_width: bits of the memory bus; memory_clock_rate: in kHz. Both are looked at for CUDA only
    (two transfers per clock, whatever the architecture); for HIP the table knows the bandwidth.
    ValueError for a device that is not in the table.
    """
    return _libproton.peak_bytes(device_type, str(arch), bus_width, memory_clock_rate)
