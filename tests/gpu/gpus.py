"""The GPUs of this machine, and which vendor's they are."""

import os
from pathlib import Path

import pytest

NVIDIA = "NVIDIA"
AMD = "AMD"


def take_one() -> None:
    """Each process of `pytest -n COUNT` uses another GPU of NVIDIA. Before CUDA is used."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    directory = Path("/proc/driver/nvidia/gpus")
    if worker and directory.exists():
        every = ",".join(map(str, range(len(list(directory.iterdir())))))
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", every).split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[int(worker[2:]) % len(gpus)]


take_one()

try:
    import triton_proton  # before HIP is used: it registers with rocprofiler-sdk
except ImportError:
    triton_proton = None
try:
    import torch

    VENDOR = (AMD if torch.version.hip else NVIDIA) if torch.cuda.is_available() else None
except ImportError:
    torch = None
    VENDOR = None

# As in profiles.
DEVICE_TYPE = "HIP" if VENDOR == AMD else "CUDA"
BACKEND = "rocprofiler" if VENDOR == AMD else "cupti"


def need(vendor: str | None = None, why: str = "", count: int = 1):
    """Skip the module without GPUs (of this vendor, because of `why`); else return torch."""
    if torch is None:
        pytest.skip("needs torch", allow_module_level=True)
    if VENDOR is None:
        pytest.skip(f"needs {f'a GPU of {vendor}' if vendor else 'a GPU'}", allow_module_level=True)
    if vendor not in (None, VENDOR):
        pytest.skip(f"for GPUs of {vendor} only: {why}", allow_module_level=True)
    if torch.cuda.device_count() < count:
        pytest.skip(f"needs {count} GPUs", allow_module_level=True)
    return torch


def only(vendor: str, why: str):
    """Mark a test that runs on GPUs of this vendor only."""
    return pytest.mark.skipif(VENDOR != vendor, reason=f"for GPUs of {vendor} only: {why}")


def arch() -> str:
    """The architecture of the first GPU, as in profiles."""
    properties = torch.cuda.get_device_properties(0)
    if VENDOR == AMD:
        return properties.gcnArchName.split(":")[0]
    return f"{properties.major}{properties.minor}"
