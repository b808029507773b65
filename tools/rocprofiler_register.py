#!/usr/bin/env python3
"""Fetch the real librocprofiler-register, with which a test replaces the fake one.

    tools/rocprofiler_register.py DIRECTORY

Only Debian's experimental suite has it (7.2.4, of ROCm 7.2). It needs a newer libc than stable
releases have: DIRECTORY gets that too, and its loader. apt verifies the packages. It needs Debian
and its keys, and not root.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PACKAGES = (
    "librocprofiler-register-0 libc6 libstdc++6 libgcc-s1 libgoogle-glog0v6t64 libfmt11 "
    "libgflags2.2 libunwind8 liblzma5"
).split()


def apt(directory: Path, *words: str) -> None:
    options = {
        "Dir::Etc::SourceList": directory / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State": directory / "state",
        "Dir::Cache": directory / "cache",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    flags = [f"-o{name}={value}" for name, value in options.items()]
    subprocess.run(["apt-get", "-qq", *flags, *words], check=True, cwd=directory, timeout=300)


def mirror() -> str:
    """The site from which this system gets Debian."""
    text = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    return next(site for site in text.split() if site.rstrip("/").endswith("/debian"))


def fetch(to: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for part in ("state/lists/partial", "cache/archives/partial"):
            (directory / part).mkdir(parents=True)
        lines = [
            f"deb [signed-by={KEYS}] {mirror()} {suite} main\n" for suite in ("sid", "experimental")
        ]
        (directory / "sources.list").write_text("".join(lines))
        apt(directory, "update")
        apt(directory, "download", *PACKAGES)
        for package in directory.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, directory / "root"], check=True, timeout=60)
        to.mkdir(parents=True, exist_ok=True)
        for file in (directory / "root").rglob("*.so*"):
            if file.is_file() and "gconv" not in file.parts and "audit" not in file.parts:
                shutil.copy(file, to / file.name)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    fetch(Path(sys.argv[1]))
