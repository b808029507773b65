"""The backends for AMD GPUs through the package and the command, with fakes of ROCm's libraries.

test_gpu_backends.py has what all backends do.
"""

import json
import sys
import textwrap
from pathlib import Path

import pytest

import fake_driver
from cmd_support import executable, own_lines, proton, run
from support import at, load

pytestmark = pytest.mark.skipif(fake_driver.CC is None, reason="no C compiler")

# A backend is found when HIP is loaded; roctracer's, which may start earlier, after a while.
PROGRAM = """
    import ctypes, os, time
    launcher = ctypes.CDLL(os.environ["TEST_LAUNCHER"])

    def use_hip():
        launcher.load()
        while "roctracer" in os.environ["FAKE_LAUNCHES"] and not launcher.is_found():
            time.sleep(0.001)

    def launch(name):
        launcher.launch(name, ctypes.c_ulonglong(1000))
"""
API = """
    launcher.load()
    import triton_proton as proton

    roctx = ctypes.CDLL(os.environ["PROTON_ROCTX_PATH"])
    session = proton.start("p", backend="roctracer", hook=None)
    with proton.scope("layer"):
        for _ in range(3):
            launch(b"add_kernel.kd")
    roctx.roctxRangePushA(b"range")
    launch(b"mul_kernel")
    roctx.roctxRangePop()
    proton.finalize()
"""
SCRIPT = """
    use_hip()
    import triton_proton as proton

    with proton.scope("layer"):
        launch(b"add_kernel")
"""
SILENT = """
    use_hip()
    fake = ctypes.CDLL(os.environ["FAKE_LAUNCHES"])
    if hasattr(fake, "fake_sdk_queues_exist"):
        fake.fake_sdk_queues_exist(True)
    launch(b"add_kernel")
    launch(b"add_kernel")
    if hasattr(fake, "fake_lose"):
        fake.fake_lose(ctypes.c_size_t(2))
"""
NEVER = """
    print("no GPU work")
"""
BACKENDS = pytest.mark.parametrize("backend", ["rocprofiler", "roctracer"])


def machine(backend: str, **changes: str | None) -> dict[str, str]:
    changes.setdefault("TRITON_INTERPRET", None)
    return fake_driver.machine(backend, TEST_LAUNCHER=fake_driver.launcher(), **changes)


def write(directory: Path, body: str) -> str:
    (directory / "script.py").write_text(textwrap.dedent(PROGRAM) + textwrap.dedent(body))
    return "script.py"


def reports_experimental(stderr: str, backend: str) -> bool:
    """Once."""
    wanted = f'backend "{backend}" is experimental: it has not yet run on an AMD GPU'
    return [wanted in line for line in own_lines(stderr) if "experimental" in line] == [True]


def test_a_session_of_the_package(tmp_path):
    env = machine("roctracer")
    done = run([sys.executable, write(tmp_path, API)], tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert reports_experimental(done.stderr, "roctracer")
    root = load(tmp_path / "p.hatchet")
    kernel = at(root, "layer", "add_kernel")["metrics"]
    assert (kernel["count"], kernel["time (ns)"]) == (3, 3000)
    assert (kernel["device_type"], kernel["device_id"]) == ("HIP", "0")
    assert at(root, "range", "mul_kernel")["metrics"]["time (ns)"] == 1000
    written = json.loads((tmp_path / "p.hatchet").read_text())
    (info,) = [part["proton"]["info"] for part in written if "proton" in part]
    assert (info["backend"], info["roctracer"]) == ("roctracer", "4.1")
    assert info["roctracer_path"] == env["PROTON_ROCTRACER_PATH"]
    assert info["hip_path"] == env["PROTON_HIP_PATH"]
    assert int(info["overhead_callbacks_ns"]) > 0


@BACKENDS
@pytest.mark.parametrize("is_named", [True, False])
def test_it_is_the_default_of_the_command_where_hip_and_its_library_are(
    is_named, backend, tmp_path
):
    options = ["-b", backend] if is_named else []
    script = write(tmp_path, SCRIPT)
    done = proton(*options, "-n", "p", script, cwd=tmp_path, env=machine(backend))
    assert done.returncode == 0, done.stderr
    assert reports_experimental(done.stderr, backend)
    assert at(load(tmp_path / "p.hatchet"), "layer", "add_kernel")["metrics"]["count"] == 1
    shown = run([executable("proton-viewer"), "-m", "time/us", "p.hatchet"], tmp_path)
    assert "add_kernel" in shown.stdout, shown.stderr


def test_it_is_not_the_default_where_triton_interprets(tmp_path):
    env = machine("roctracer", TRITON_INTERPRET="1")
    done = proton("-n", "q", write(tmp_path, NEVER), cwd=tmp_path, env=env)
    assert "backend 'host'" in done.stderr


@pytest.mark.parametrize(
    "backend, text, remedy",
    [
        (
            "rocprofiler", "rocprofiler-sdk does not see the queue of 2 kernels, ",
            "import Proton before the first use",
        ),
        (
            "roctracer", "no activity records were received for 2 kernel launches: ",
            "start the session after HIP was initialized",
        ),
    ],
)
def test_launches_without_any_record_are_an_error_with_its_remedy(backend, text, remedy, tmp_path):
    script = write(tmp_path, SILENT)
    done = proton("-b", backend, "-n", "p", script, cwd=tmp_path, env=machine(backend))
    assert done.returncode == 1, done.stderr
    line = own_lines(done.stderr)[-1]
    assert line.startswith(text)
    assert remedy in line


def test_a_program_without_hip_ends_as_it_would_alone(tmp_path):
    script = write(tmp_path, NEVER)
    done = proton("-b", "roctracer", "-n", "p", script, cwd=tmp_path, env=machine("roctracer"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "no GPU work\n"
    assert "experimental" not in done.stderr
    assert "the program did not load HIP" in own_lines(done.stderr)[-1]


@pytest.mark.parametrize(
    "backend, changes, text",
    [
        (
            "rocprofiler",
            {"FAKE_SDK_VERSION": "600"},
            "is rocprofiler-sdk 0.6.0; 1.0 or later is required",
        ),
        ("roctracer", {"PROTON_ROCTRACER_PATH": "/none/libroctracer64.so"}, "libroctracer64"),
    ],
)
def test_a_missing_or_old_library_is_an_error_before_the_script_runs(
    backend, changes, text, tmp_path
):
    script = write(tmp_path, NEVER)
    done = proton("-b", backend, "-n", "p", script, cwd=tmp_path, env=machine(backend, **changes))
    assert done.returncode != 0
    assert done.stdout == ""
    assert text in own_lines(done.stderr)[-1]
