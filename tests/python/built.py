"""The programs and libraries of a Meson build that tests use.

PROTON_TEST_BUILD names the build folder if it is not build/.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PROTON_TEST_BUILD") or ROOT / "build").resolve()
FAKES = BUILD / "tests" / "fake"
TOOL = BUILD / "tests" / "tools" / "run_pass"
