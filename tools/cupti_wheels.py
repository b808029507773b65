"""Downloads NVIDIA's wheels of CUPTI, to compare Proton's declarations with their headers.

    tools/cupti_wheels.py DIRECTORY [VERSION]...

Unpacks headers and libraries of each version (default: the newest of each minor version from 12.4
on, 13 wheels of 9 to 14 MB) to DIRECTORY/VERSION. Versions that are there are not downloaded again.
tests/python/test_cupti_abi.py reads them if PROTON_TEST_CUPTI_WHEELS names the directory. The exit
status is 1 if a wheel could not be had.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

VERSIONS = (
    "12.4.127",
    "12.5.82",
    "12.6.80",
    "12.8.90",
    "12.9.79",
    "13.0.48",
    "13.0.85",
    "13.1.115",
    "13.2.86",
    "13.3.35",
    "13.3.75",
    "13.4.92",
    "13.5.25",
)


def fetch(version: str, directory: Path) -> bool:
    """Whether the wheel of `version` is unpacked in `directory`."""
    if directory.is_dir():
        return True
    package = "nvidia-cuda-cupti-cu12" if version.startswith("12.") else "nvidia-cuda-cupti"
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--only-binary", ":all:", "-d", scratch]
        if subprocess.run([*command, f"{package}=={version}"], check=False).returncode != 0:
            return False
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            wanted = [
                name
                for name in archive.namelist()
                if name.endswith(".h") or "/libcupti.so" in name or "/libnvperf" in name
            ]
            archive.extractall(Path(scratch, "wheel"), wanted)
        directory.parent.mkdir(parents=True, exist_ok=True)
        # Moved as a whole: an interrupted run leaves no half of a wheel.
        subprocess.run(["mv", Path(scratch, "wheel"), directory], check=True)
    return True


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 2
    directory = Path(sys.argv[1])
    missing = [v for v in sys.argv[2:] or VERSIONS if not fetch(v, directory / v)]
    for version in missing:
        print(f"cupti_wheels: {version} could not be downloaded", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
