"""Where the program tests/tools/instrument is: Meson builds it; PROTON_BUILD names the build."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("PROTON_BUILD", ROOT / "build")).resolve() / "tests/tools/instrument"
