"""Libraries of ROCm's wheels: found with their package rocm_sdk, here a fake one."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from fake_driver import CC, hip_library, sdk_library
from support import run_command

pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")

PACKAGE = """
import pathlib

def find_libraries(*names):
    root = pathlib.Path(__file__).parent / "lib"
    found = [next(root.glob(f"lib{name}.so*"), None) for name in names]
    if None in found:
        raise FileNotFoundError(names)
    return found
"""
SCRIPT = """
import ctypes, json, os, sys
for path in sys.argv[1:]:
    ctypes.CDLL(path)
import triton_proton
print(json.dumps({k: v for k, v in os.environ.items() if k.startswith("TRITON_")}))
"""


@pytest.fixture
def wheel(tmp_path) -> Path:
    """The directory of the wheels' libraries: HIP, rocprofiler-sdk, no roctracer."""
    lib = tmp_path / "wheels" / "rocm_sdk" / "lib"
    lib.mkdir(parents=True)
    (lib.parent / "__init__.py").write_text(PACKAGE)
    shutil.copy(hip_library(), lib / "libamdhip64.so.7")
    shutil.copy(sdk_library(), lib / "librocprofiler-sdk.so.1")
    shutil.copy(hip_library(), lib / "libroctx64.so.4")
    return lib


def triton_variables(wheel: Path, *loaded: str, **changes: str) -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TRITON_", "ROC"))}
    environment |= {"PYTHONPATH": str(wheel.parents[1]), "PROTON_HIP_PATH": str(hip_library())}
    done = run_command([sys.executable, "-c", SCRIPT, *loaded], env=environment | changes)
    return json.loads(done.stdout)


def test_variables_name_what_the_wheels_have(wheel):
    assert triton_variables(wheel) == {
        "TRITON_LIBHIP_PATH": str(wheel / "libamdhip64.so.7"),
        "TRITON_ROCPROFILER_SDK_LIB_PATH": str(wheel),
        "TRITON_ROCPROFILER_SDK_LIBRARY": "librocprofiler-sdk.so.1",
        "TRITON_ROCTX_LIB_PATH": str(wheel),
        "TRITON_ROCTX_LIBRARY": "libroctx64.so.4",
    }


def test_variables_of_the_user_stay(wheel):
    own = {"TRITON_ROCPROFILER_SDK_LIB_PATH": "/mine", "TRITON_LIBHIP_PATH": "/mine/libamdhip64.so"}
    found = triton_variables(wheel, **own)
    assert own.items() <= found.items()
    assert "TRITON_ROCPROFILER_SDK_LIBRARY" not in found
    assert found["TRITON_ROCTX_LIBRARY"] == "libroctx64.so.4"


def test_another_hip_in_the_process_keeps_its_own_rocm(wheel):
    assert triton_variables(wheel, str(hip_library())) == {}
    assert len(triton_variables(wheel, str(wheel / "libamdhip64.so.7"))) == 5


@pytest.mark.skipif(os.path.exists("/dev/kfd"), reason="this machine has an AMD GPU")
def test_without_rocm_nothing_is_looked_for(wheel):
    assert triton_variables(wheel, PROTON_HIP_PATH="") == {}


@pytest.mark.parametrize("error", ["ImportError", "RuntimeError"])
def test_a_package_that_fails_is_harmless(error, wheel):
    (wheel.parent / "__init__.py").write_text(f"raise {error}('broken')\n")
    assert triton_variables(wheel) == {}
