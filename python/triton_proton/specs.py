"""Peak rates of GPUs, for comparing what was measured with what is possible.

Sources: NVIDIA's data sheets of the A100 SXM (sm_80), RTX 4090 (sm_89) and H100 PCIe (sm_90), for
sm_100 16384 8-bit operations per clock and SM; AMD's CDNA 2, 3 and 4 data sheets, as 8-bit
operations per clock and compute unit and as memory bandwidth. All are dense rates of the matrix
units; wider numbers are taken to run proportionally slower.
"""

from __future__ import annotations

from collections.abc import Callable

_CUDA_FLOPS8: dict[str, Callable[[float, float], float]] = {
    "80": lambda num_sms, clock_khz: 624e12,
    "89": lambda num_sms, clock_khz: 330.3e12,
    "90": lambda num_sms, clock_khz: num_sms / 114 * clock_khz / (1755 * 1e3) * 1513 * 1e12,
    "100": lambda num_sms, clock_khz: num_sms * 16384 * (clock_khz / 1e3) * 1e6,
}
_HIP_FLOPS8_PER_CLOCK = {"gfx90a": 1024, "gfx942": 4096, "gfx950": 8192}
_HIP_BYTES_PER_S = {"gfx90a": 3.2e12, "gfx942": 5.3e12, "gfx950": 8.0e12}


def max_flops(device_type: str, arch: str, width: int, num_sms: int, clock_rate: float) -> float:
    """The most floating-point operations per second a device can do.

    device_type: "CUDA" or "HIP". arch: compute capability such as "90", or "gfx942". width: bits
    of one operand (8, 16, 32 or 64). num_sms: multiprocessors or compute units. clock_rate: of
    these, in kHz, as the drivers report it. ValueError for a device that is not in the table.
    """
    arch = str(arch)
    if device_type == "CUDA":
        if arch not in _CUDA_FLOPS8:
            raise ValueError(f"Unsupported architecture: {arch}")
        return _CUDA_FLOPS8[arch](num_sms, clock_rate) / (width / 8)
    if device_type == "HIP":
        if arch not in _HIP_FLOPS8_PER_CLOCK:
            raise ValueError(f"Unsupported architecture: {arch}")
        return _HIP_FLOPS8_PER_CLOCK[arch] * num_sms * clock_rate * 1e3 / (width / 8)
    raise ValueError(f"Unsupported device type: {device_type}")


def max_bps(device_type: str, arch: str, bus_width: int, memory_clock_rate: float) -> float:
    """The most bytes per second a device's memory can move.

    bus_width: bits of the memory bus; memory_clock_rate: in kHz. Both are looked at for CUDA only
    (two transfers per clock); for HIP the table knows the bandwidth.
    """
    if device_type == "CUDA":
        return 2 * bus_width * memory_clock_rate * 1e3 / 8
    if device_type == "HIP":
        if str(arch) not in _HIP_BYTES_PER_S:
            raise ValueError(f"Unsupported architecture: {arch}")
        return _HIP_BYTES_PER_S[str(arch)]
    raise ValueError(f"Unsupported device type: {device_type}")
