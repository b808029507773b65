"""The backend "rocprofiler" through the package and the command, over a fake rocprofiler-sdk."""

from __future__ import annotations

import pytest

from built import FAKES
from cmd_support import environment, own_lines, proton
from support import at, load, metrics, script

SDK = FAKES / "libfake_rocprofiler_sdk.so"
pytestmark = pytest.mark.skipif(not SDK.exists(), reason="no fake libraries")

ENVIRONMENT = {
    "PROTON_ROCPROFILER_SDK_PATH": str(SDK),
    "PROTON_HIP_PATH": str(FAKES / "libfake_hip.so"),
    "TRITON_INTERPRET": None,
}
LAUNCH = """
import ctypes, os
sdk = ctypes.CDLL(os.environ["PROTON_ROCPROFILER_SDK_PATH"])
def launch(name, ns):
    sdk.fake_sdk_launch_kernel(name.encode(), ctypes.c_uint64(ns))
"""


def test_kernels_are_recorded_below_scopes_and_named_by_launch_hooks():
    script(
        """
import triton_proton as proton
"""
        + LAUNCH
        + """
assert proton.start("test", backend="rocprofiler") == 0
with proton.scope("outer", {"flops": 100.0}):
    for _ in range(10):
        launch("mm", 50)
proton.finalize()
""",
        env=ENVIRONMENT,
    )
    kernel = metrics(load("test.hatchet"), "outer", "mm")
    assert (kernel["count"], kernel["time (ns)"]) == (10, 500)
    assert kernel["device_type"] == "HIP"
    assert metrics(load("test.hatchet"), "outer")["flops"] == 100


def test_it_is_the_default_of_the_command_where_hip_is(tmp_path):
    (tmp_path / "script.py").write_text(LAUNCH + "launch('mm', 50)\n")
    result = proton("script.py", cwd=tmp_path, env=environment(**ENVIRONMENT))
    assert result.returncode == 0, result.stderr
    lines = [line for line in own_lines(result.stderr) if "experimental" in line]
    assert len(lines) == 1 and "has not yet run on an AMD GPU" in lines[0]
    assert at(load(tmp_path / "proton.hatchet"), "mm")["metrics"]["count"] == 1


def test_launches_without_records_end_the_command_with_an_error(tmp_path):
    (tmp_path / "script.py").write_text(
        LAUNCH + "sdk.fake_sdk_queues_exist(True)\nlaunch('mm', 50)\n"
    )
    result = proton(
        "-b", "rocprofiler", "script.py", cwd=tmp_path, env=environment(**ENVIRONMENT)
    )
    assert result.returncode != 0
    assert "no activity records were received for 1 kernel launches" in result.stderr
    assert "import Proton first" in result.stderr


def test_a_library_that_is_too_old_is_refused(tmp_path):
    (tmp_path / "script.py").write_text("print('ran')\n")
    env = environment(**ENVIRONMENT, FAKE_SDK_VERSION="600")
    result = proton("-b", "rocprofiler", "script.py", cwd=tmp_path, env=env)
    assert result.returncode != 0
    assert "is rocprofiler-sdk 0.6.0; 1.0 or later is required" in result.stderr
