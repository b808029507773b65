"""A program that uses HIP on a machine without an AMD GPU: it runs, and Proton says why.

With the real libamdhip64 where it is installed (Debian: libamdhip64-5), and with a fake that
returns the codes which HIP 6.4 and 7.2 return.
"""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cmd_support import environment, own_lines, proton
from fake_driver import CC, sdk_library
from support import load, metrics

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import ctypes, sys
hip = ctypes.CDLL({library!r})
count = ctypes.c_int(-1)
print(hip.hipInit(0), hip.hipGetDeviceCount(ctypes.byref(count)), count.value)
sys.exit(7)
"""
FAKE = """
int hipInit(unsigned flags) { return 100; }
int hipGetDeviceCount(int *count) { *count = 0; return 100; }
const char *hipGetErrorName(int error) { return error == 100 ? "hipErrorNoDevice" : "other"; }
"""
PROGRAM = """
#include <dlfcn.h>
int main(int argc, char **argv)
{
    void *hip = dlopen(argv[1], RTLD_NOW);
    int (*init)(unsigned) = hip ? (int (*)(unsigned))dlsym(hip, "hipInit") : 0;

    return init && init(0) != 0 ? 7 : 1;
}
"""
pytestmark = [
    pytest.mark.skipif(os.path.exists("/dev/kfd"), reason="this machine has an AMD GPU"),
    pytest.mark.skipif(CC is None, reason="no C compiler"),
]


def compile_c(path: Path, source: str, *flags: str) -> str:
    path.with_suffix(".c").write_text(source)
    command = [CC, "-w", "-o", path, path.with_suffix(".c"), *flags, "-ldl"]
    subprocess.run(command, check=True, timeout=300)
    return str(path)


def real_library() -> str | None:
    for version in (7, 6, 5):
        try:
            ctypes.CDLL(f"libamdhip64.so.{version}")
            return f"libamdhip64.so.{version}"
        except OSError:
            pass
    return None


@pytest.fixture(params=["fake", "real"])
def library(request, tmp_path_factory) -> str:
    if request.param == "fake":
        return compile_c(tmp_path_factory.mktemp("hip") / "libamdhip64.so.6", FAKE, "-shared")
    found = real_library()
    if found is None:
        pytest.skip("no libamdhip64 is installed")
    return found


def check(stderr: str) -> None:
    assert own_lines(stderr)[-1].endswith(
        "this process uses HIP, but has no AMD GPU (hipErrorNoDevice): "
        "cannot open /dev/kfd: No such file or directory"
    ), stderr


def test_a_script_runs_and_keeps_its_status(library, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.format(library=library))
    done = proton("script.py", cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    assert re.fullmatch(r"10[01] 100 0\n", done.stdout)
    check(done.stderr)


@pytest.mark.parametrize("words", [("script.py",), ("-b", "rocprofiler", "script.py")])
def test_with_rocprofiler_sdk_the_sentence_is_the_same(words, library, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.format(library=library))
    directory = str(sdk_library().parent)
    env = environment(TRITON_ROCPROFILER_SDK_LIB_PATH=directory, PROTON_BACKEND=None)
    done = proton(*words, cwd=tmp_path, env=env)
    assert done.returncode == 7, done.stderr
    check(done.stderr)


def test_a_program_runs_and_keeps_its_status(library, tmp_path):
    program = compile_c(tmp_path / "program", PROGRAM)
    done = proton("--", program, library, cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    check(done.stderr)


def test_a_session_of_the_python_interface_records_scopes(library, tmp_path):
    (tmp_path / "script.py").write_text(
        "import ctypes\n"
        f"ctypes.CDLL({library!r})\n"
        "import triton_proton as proton\n"
        "proton.start('run')\n"
        "with proton.scope('step', {'items': 3}):\n"
        "    pass\n"
        "proton.finalize()\n"
    )
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, check=True, timeout=300)
    assert metrics(load(tmp_path / "run.hatchet"), "step")["items"] == 3


def test_every_function_of_the_driver_is_in_the_real_library():
    found = real_library()
    if found is None:
        pytest.skip("no libamdhip64 is installed")
    text = (ROOT / "src" / "driver" / "hip_abi.h").read_text()
    needed = text[: text.index("HIP_OPTIONAL_FUNCTIONS")]
    names = set(re.findall(r"^\s*X\((hip\w+),", needed, re.MULTILINE))
    assert len(names) > 20
    library = ctypes.CDLL(found)
    missing = {name for name in names if not hasattr(library, name)}
    # ROCm 6.0 added it.
    assert missing <= ({"hipGetDevicePropertiesR0600"} if found.endswith(".5") else set())
