"""`roctracer` through the package and the command, with fakes of HIP, roctracer and ROCTX."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

import pytest

from cmd_support import executable, own_lines, proton, run
from fake_driver import CC, hip_environment

pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")

# The program: it loads HIP, and waits until the backend has seen that.
PROGRAM = """
    import ctypes
    import os
    import time

    hip = ctypes.CDLL(os.environ["HIP_LAUNCHER"])
    hip.launch.argtypes = [ctypes.c_char_p, ctypes.c_ulonglong, ctypes.c_uint]

    def load_hip():
        hip.load_hip()

    def wait_for_backend():
        while not hip.is_recorded():
            time.sleep(0.001)
"""
API = """
    load_hip()
    import triton_proton as proton

    session = proton.start("p", backend="roctracer", hook=None)
    with proton.scope("layer"):
        for _ in range(3):
            hip.launch(b"add_kernel.kd", 1000, 1)
    hip.push(b"range")
    hip.launch(b"mul_kernel", 500, 1)
    hip.pop()
    proton.finalize()
"""
SCRIPT = """
    load_hip()
    wait_for_backend()
    import triton_proton as proton

    with proton.scope("layer"):
        hip.launch(b"add_kernel", 1000, 1)
"""
SILENT = """
    load_hip()
    wait_for_backend()
    hip.launch(b"add_kernel", 1000, 0)
    hip.launch(b"add_kernel", 1000, 0)
"""
NEVER = """
    print("no GPU work")
"""
EXPERIMENTAL = 'backend "roctracer" is experimental: it has not yet run on an AMD GPU'


def _write(directory: Path, body: str) -> str:
    (directory / "script.py").write_text(textwrap.dedent(PROGRAM) + textwrap.dedent(body))
    return "script.py"


def _tree(path: Path) -> dict:
    """Frames below the root: names with their metrics and children."""

    def read(node: dict) -> dict:
        children = {child["frame"]["name"]: read(child) for child in node["children"]}
        return {"metrics": node["metrics"], "children": children}

    return read(json.loads(path.read_text())[0])["children"]


def test_a_session_of_the_package(tmp_path: Path) -> None:
    script = _write(tmp_path, API)
    result = run([sys.executable, script], tmp_path, env=hip_environment())
    assert result.returncode == 0, result.stderr
    tree = _tree(tmp_path / "p.hatchet")
    kernel = tree["layer"]["children"]["add_kernel"]["metrics"]
    assert kernel["count"] == 3
    assert kernel["time (ns)"] == 3000
    assert kernel["device_type"] == "HIP"
    assert kernel["device_id"] == "0"
    assert tree["range"]["children"]["mul_kernel"]["metrics"]["time (ns)"] == 500
    assert sum(EXPERIMENTAL in line for line in own_lines(result.stderr)) == 1


def test_a_script_that_loads_hip_after_the_session_has_started(tmp_path: Path) -> None:
    script = _write(tmp_path, SCRIPT)
    result = proton("-b", "roctracer", "-n", "p", script, cwd=tmp_path, env=hip_environment())
    assert result.returncode == 0, result.stderr
    tree = _tree(tmp_path / "p.hatchet")
    assert tree["layer"]["children"]["add_kernel"]["metrics"]["count"] == 1
    shown = run([executable("proton-viewer"), "-m", "time/us", "p.hatchet"], tmp_path)
    assert "add_kernel" in shown.stdout, shown.stderr


def test_it_is_the_default_where_hip_and_roctracer_are_found(tmp_path: Path) -> None:
    script = _write(tmp_path, SCRIPT)
    result = proton("-n", "p", script, cwd=tmp_path, env=hip_environment())
    assert result.returncode == 0, result.stderr
    assert "add_kernel" in _tree(tmp_path / "p.hatchet")["layer"]["children"]
    script = _write(tmp_path, NEVER)
    result = proton("-n", "q", script, cwd=tmp_path, env=hip_environment(TRITON_INTERPRET="1"))
    assert "backend 'host'" in result.stderr


def test_launches_without_any_record_are_an_error_with_its_remedy(tmp_path: Path) -> None:
    script = _write(tmp_path, SILENT)
    result = proton("-b", "roctracer", "-n", "p", script, cwd=tmp_path, env=hip_environment())
    assert result.returncode == 1, result.stderr
    line = own_lines(result.stderr)[-1]
    assert line.startswith("no activity records were received for 2 kernel launches: roctracer")
    assert "start the session after HIP was initialized" in line


def test_a_program_without_hip_ends_as_it_would_alone(tmp_path: Path) -> None:
    script = _write(tmp_path, NEVER)
    result = proton("-b", "roctracer", "-n", "p", script, cwd=tmp_path, env=hip_environment())
    assert result.returncode == 0, result.stderr
    assert result.stdout == "no GPU work\n"
    assert EXPERIMENTAL not in result.stderr
    assert "the program did not load HIP" in own_lines(result.stderr)[-1]


def test_a_missing_library_is_an_error_before_the_script_runs(tmp_path: Path) -> None:
    script = _write(tmp_path, NEVER)
    env = hip_environment(PROTON_ROCTRACER_PATH="/nonexistent/libroctracer64.so")
    result = proton("-b", "roctracer", "-n", "p", script, cwd=tmp_path, env=env)
    assert result.returncode != 0
    assert result.stdout == ""
    assert "libroctracer64" in own_lines(result.stderr)[-1]


def test_versions_and_paths_are_in_the_profile(tmp_path: Path) -> None:
    script = _write(tmp_path, API)
    env = hip_environment()
    assert run([sys.executable, script], tmp_path, env=env).returncode == 0
    written = json.loads((tmp_path / "p.hatchet").read_text())
    (info,) = [part["proton"]["info"] for part in written if "proton" in part]
    assert info["backend"] == "roctracer"
    assert info["roctracer"] == "4.1"
    assert info["roctracer_path"] == env["PROTON_ROCTRACER_PATH"]
    assert info["hip_path"] == env["PROTON_HIP_PATH"]
    assert int(info["overhead_callbacks_ns"]) > 0
