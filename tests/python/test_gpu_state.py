"""Clocks and power of GPUs: NVML's functions against its header, and what a profile has."""

import glob
import json
import os
import re

import pytest
from abi_support import PACKAGES, SRC, assertions, compile_errors, equal, preprocess, read_types
from built import FAKES
from fake_driver import launcher, run_program

TYPES = {
    r"nvmlDevice_t": "void *",
    r"nvml(ClockType|TemperatureSensors)_t": "int",
    r"nvmlProcessInfo_t": "void",
    r"unsigned int": "unsigned",
    r"const": "",
}
CONSTANTS = {
    "NVML_CLOCK_MEMORY": "NVML_CLOCK_MEM",
    "NVML_REASON_IDLE": "nvmlClocksThrottleReasonGpuIdle",
    "NVML_REASON_APPLICATION_CLOCKS": "nvmlClocksThrottleReasonApplicationsClocksSetting",
    "NVML_REASON_SOFTWARE_POWER": "nvmlClocksThrottleReasonSwPowerCap",
    "NVML_REASON_HARDWARE_SLOWDOWN": "nvmlClocksThrottleReasonHwSlowdown",
    "NVML_REASON_SYNC_BOOST": "nvmlClocksThrottleReasonSyncBoost",
    "NVML_REASON_SOFTWARE_THERMAL": "nvmlClocksThrottleReasonSwThermalSlowdown",
    "NVML_REASON_HARDWARE_THERMAL": "nvmlClocksThrottleReasonHwThermalSlowdown",
    "NVML_REASON_POWER_BRAKE": "nvmlClocksThrottleReasonHwPowerBrakeSlowdown",
    "NVML_REASON_DISPLAY_CLOCKS": "nvmlClocksThrottleReasonDisplayClockSetting",
}


@pytest.fixture
def include() -> str:
    """The directory of nvml.h, which PROTON_TEST_NVML names, or a package or toolkit has."""
    named = os.environ.get("PROTON_TEST_NVML", os.devnull)
    places = [named, os.path.join(PACKAGES, "nvidia", "*", "include"), "/usr/local/cuda*/include"]
    found = [path for place in places for path in glob.glob(os.path.join(place, "nvml.h"))]
    if not found:
        pytest.skip("needs nvml.h (pip install nvidia-nvml-dev-cu12)")
    return os.path.dirname(found[0])


def test_functions_of_nvml_are_declared_as_in_its_header(include):
    text = preprocess("#define NVML_NO_UNVERSIONED_FUNC_DEFS\n#include <nvml.h>", include)
    functions = (SRC / "driver" / "nvml_functions.def").read_text()
    ours = re.findall(r"^X\((\w+), (\w*), [01],\s*\(([^()]*)\)", functions, re.MULTILINE)
    assert len(ours) == 9
    for name, version, arguments in ours:
        theirs = re.search(rf"nvmlReturn_t {name}{version}\(([^()]*)\)", text)
        assert theirs, f"no {name}{version}"
        assert read_types(theirs[1], TYPES) == read_types(arguments, TYPES), name


def test_constants_of_nvml_are_those_of_its_header(include):
    # Both have names that begin with NVML_: ours are compared as numbers.
    header = (SRC / "driver" / "gpu_state.h").read_text()
    ours = dict(re.findall(r"^#define (NVML_\w+) (\w+)$", header, re.MULTILINE))
    assert CONSTANTS.keys() <= ours.keys() and len(ours) == len(CONSTANTS) + 3
    checks = [
        check
        for name, number in ours.items()
        for check in equal({number: CONSTANTS.get(name, name)})
    ]
    assert not compile_errors("#include <nvml.h>\n" + assertions(checks), include)


PROGRAM = f"""
import ctypes, os, time
import triton_proton as proton

nvml = os.environ["PROTON_NVML_PATH"]
session = proton.start("run")
ctypes.CDLL({launcher()!r}).launch(b"kernel", 1000)
proton.deactivate(session, flushing=True)
proton.activate(session)
if os.path.exists(nvml):  # the thread of the recorder samples
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not ctypes.CDLL(nvml).fake_nvml_samples():
        time.sleep(0.01)
proton.finalize()
"""


def info(tmp_path, **changes: str | None) -> dict[str, str]:
    """The information of a profile of one kernel on the fake GPU, about the GPU's state."""
    run_program(tmp_path, PROGRAM, **changes)
    text = (tmp_path / "run.hatchet").read_text()
    rows = json.loads(re.search(r'"info":(\{[^{}]*\})', text)[1])
    assert rows["backend"] == "cupti"
    return {key: value for key, value in rows.items() if re.match(r"gpu\d", key)}


def test_a_profile_has_the_clocks_of_the_gpus_that_were_used(tmp_path):
    path = str(FAKES / "libfake_nvml.so")
    rows = info(tmp_path, PROTON_NVML_PATH=path, FAKE_NVML="sm=1755,limit=350000,reasons=4")
    assert {key: value for key, value in rows.items() if key[5:] not in ("uuid", "pci")} == {
        "gpu0_sm_clock_mhz": "1755 1755 1755",
        "gpu0_power_limit_w": "350 350 350",
        "gpu0_throttle_reasons": "power cap",
    }


def test_a_machine_without_nvml_has_no_clocks(tmp_path):
    rows = info(tmp_path, PROTON_NVML_PATH="/nowhere/libnvidia-ml.so.1")
    assert sorted(rows) == ["gpu0_pci", "gpu0_uuid"]
