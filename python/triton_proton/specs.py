"""Peak rates of GPUs.

They are libproton's, which the viewer uses for `util`; `src/model/peaks.c` names the source of
each. All are dense rates of the matrix units, or of the vector units where these are faster or the
only ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import _libproton


def max_flops(device_type: str, arch: str, width: int, num_sms: int, clock_rate: float) -> float:
    """The peak floating-point operations per second of a device.

    device_type: "CUDA" or "HIP". arch: compute capability such as "90", or "gfx942". width: bits of
    one operand (4, 8, 16, 32 or 64). num_sms: multiprocessors or compute units. clock_rate: their
    clock in kHz, as drivers report it. ValueError for an unknown device or width.
    """
    return _libproton.peak_flops(device_type, str(arch), width, num_sms, clock_rate)


def max_bps(device_type: str, arch: str, bus_width: int, memory_clock_rate: float) -> float:
    """The peak memory bandwidth of a device in bytes per second.

    bus_width: bits of the memory bus; memory_clock_rate: in kHz. Both are used for CUDA only (two
    transfers per clock, whatever the architecture); for HIP the table has the bandwidth. ValueError
    for an unknown device.
    """
    return _libproton.peak_bytes(device_type, str(arch), bus_width, memory_clock_rate)


def _cuda_flops(arch: str) -> Callable[..., float]:
    def flops(width: int, num_sms: int = 0, clock_rate: float = 0.0, **_: Any) -> float:
        return max_flops("CUDA", arch, width, num_sms, clock_rate)

    return flops


# The same rates as tables: peak rate as a function of width, num_sms and clock_rate (kHz); bytes
# per second; operations of 8 bits per clock and compute unit.
flops_by_device: dict[str, Mapping[str, Callable[..., float]]] = {
    "CUDA": {arch: _cuda_flops(arch) for arch in _libproton.peak_arches("CUDA")}
}
_AMD = _libproton.peak_arches("HIP")
amd_bps_by_arch: Mapping[str, float] = {arch: max_bps("HIP", arch, 0, 0) for arch in _AMD}
amd_fp8_flops_by_arch: Mapping[str, float] = {
    arch: max_flops("HIP", arch, 8, 1, 1e-3) for arch in _AMD
}
