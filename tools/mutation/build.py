"""A build of a copy of the sources, with mutants in it; the working tree is only read."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterable, Optional

from mutation.operators import Mutant
from mutation.schemata import make_pages, mutated
from mutation.units import digest

CONDITIONAL = re.compile(r"^\s*# *(?:if|else|elif)", re.M)
ERROR = re.compile(r"^\s*(\S+?):(\d+):\d+: (?:fatal )?error:", re.M)
OWN = Path(__file__).resolve().parent


def files_of(root: Path) -> list[str]:
    """The files that git knows or does not ignore, or all files outside of a repository."""
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z", "."]
    listed = subprocess.run(command, capture_output=True)
    if listed.returncode == 0:
        names = listed.stdout.decode().split("\0")
    else:
        names = [path.relative_to(root).as_posix() for path in root.rglob("*")]
    return [name for name in names if name and (root / name).is_file()]


class Build:
    """The folder with the copy of the sources, its build, and the pages that choose mutants."""

    def __init__(self, root: Path, folder: Path, jobs: int) -> None:
        self.root, self.folder, self.jobs = root, folder, jobs
        self.source, self.build = folder / "source", folder / "build"
        self.pages, self.venv = folder / "pages", folder / "venv"
        self.bin = Path(sys.executable).parent
        self.has_python = (root / "python").is_dir() and (root / "tests" / "python").is_dir()
        folder.mkdir(parents=True, exist_ok=True)
        if not self.pages.exists():
            make_pages(self.pages)
        skipped = f"{folder.relative_to(root)}/" if folder.is_relative_to(root) else "\0"
        self.names = [name for name in files_of(root) if not name.startswith(skipped)]
        folders = ("src/", "python/ext/", "include/")
        c_files = [name for name in self.names if name.startswith(folders)]
        # Verdicts are valid for these contents.
        self.sources = digest(*(name.encode() + (root / name).read_bytes() for name in c_files))

    def copy(self, mutants: dict[int, Mutant]) -> None:
        """Make the copy equal to the root, but for the mutants; equal files keep their time."""
        by_file: dict[str, list[tuple[int, Mutant]]] = {}
        for k, mutant in mutants.items():
            by_file.setdefault(mutant.file, []).append((k, mutant))
        for name in self.names:
            content = (self.root / name).read_bytes()
            if name in by_file:
                content = mutated(content.decode(), by_file[name], self.pages).encode()
            target = self.source / name
            if not target.is_file() or target.read_bytes() != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                shutil.copymode(self.root / name, target)
        kept = set(self.names)
        for path in self.source.rglob("*"):
            if path.is_file() and path.relative_to(self.source).as_posix() not in kept:
                if "__pycache__" not in path.parts:
                    path.unlink()

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A step of building; its output is one text."""
        path = f"{self.bin}:/usr/local/bin:/usr/bin:/bin"
        return subprocess.run(
            ["env", f"PATH={path}", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", cwd=self.source,
        )  # fmt: skip

    def must_run(self, *command: str) -> None:
        """A step without which nothing works."""
        done = self.run(*command)
        if done.returncode != 0:
            step = f"{' '.join(command[:4])} ended with {done.returncode}"
            sys.exit(f"mutate: {step}:\n{done.stdout[-3000:]}")

    def set_up(self) -> list[Path]:
        """Configure the build; the C sources that it compiles."""
        if not (self.build / "build.ninja").exists():
            options = ["-Dpython=disabled"] if self.has_python else []
            self.must_run("meson", "setup", str(self.build), *options)
        commands = json.loads((self.build / "compile_commands.json").read_text())
        compiled = {(self.build / command["file"]).resolve() for command in commands}
        names = [Path(name) for name in self.names if name.endswith(".c")]
        return [
            name
            for name in names
            if (name.parts[0] == "src" and self.source.resolve() / name in compiled)
            or name.parts[:2] == ("python", "ext")
        ]

    def compile(self, mutants: dict[int, Mutant]) -> list[int]:
        """Build with these mutants; the numbers of those that the compiler does not take."""
        self.copy(mutants)
        targets = ["all", "meson-test-prereq"]
        if self.has_python:
            targets.append("test-programs")
        done = self.run("ninja", "-C", str(self.build), "-k", "0", "-j", str(self.jobs), *targets)
        output = done.stdout
        if done.returncode == 0 and self.has_python:
            done = self.install()
            output = done.stdout
        if done.returncode == 0:
            return self.left_out(mutants)
        refused = set()
        for name, line in set(ERROR.findall(output)):
            refused |= self.blamed(name, int(line), mutants)
        if not refused:
            sys.exit(f"mutate: the build failed:\n{output[-3000:]}")
        return sorted(refused)

    def left_out(self, mutants: dict[int, Mutant]) -> list[int]:
        """The numbers of mutants that are in code for other systems or versions of Python."""
        compiled: set[int] = set()
        unsure = {m.file for m in mutants.values()}
        unsure = {name for name in unsure if CONDITIONAL.search((self.root / name).read_text())}
        for folder in (self.build, self.folder / "build-package"):
            database = folder / "compile_commands.json"
            for entry in json.loads(database.read_text()) if database.exists() else []:
                path = (folder / entry["file"]).resolve()
                name = os.path.relpath(path, self.source.resolve())
                if name in unsure:
                    words = shlex.split(entry["command"])
                    del words[words.index("-o") : words.index("-o") + 2]
                    words[words.index("-c")] = "-E"
                    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
                    compiled |= {int(k) for k in re.findall(r"mut_\((\d+)\)", done.stdout)}
        return [k for k, m in mutants.items() if m.file in unsure and k not in compiled]

    def blamed(self, name: str, line: int, mutants: dict[int, Mutant]) -> set[int]:
        """Mutants at a line with an error, or else the last ones before it."""
        file = next((m.file for m in mutants.values() if name.endswith(m.file)), None)
        here = {k: m for k, m in mutants.items() if m.file == file and m.slot_line <= line}
        last = max((m.slot_line for m in here.values()), default=0)
        return {k for k, m in here.items() if m.slot_line == last}

    def install(self) -> subprocess.CompletedProcess[str]:
        """The package in another environment, which finds the other packages in this one."""
        python = self.venv / "bin" / "python"
        if not python.exists():
            self.must_run(sys.executable, "-m", "venv", "--without-pip", str(self.venv))
            site = next((self.venv / "lib").glob("python3*/site-packages"))
            others = [entry for entry in sys.path if entry.endswith("site-packages")]
            (site / "others.pth").write_text("\n".join(others) + "\n")
            (site / "mutation").symlink_to(OWN)
        done = self.run(
            str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "--no-input", "--no-build-isolation", "--no-deps", "--ignore-installed",
            f"-Cbuild-dir={self.folder / 'build-package'}", "-Ccompile-args=-k",
            "-Ccompile-args=0", f"-Ccompile-args=-j{self.jobs}", str(self.source),
        )  # fmt: skip
        for program in self.bin.iterdir():  # of other packages
            if done.returncode == 0 and not (self.venv / "bin" / program.name).exists():
                (self.venv / "bin" / program.name).symlink_to(program)
        return done

    def stamp(self, mutants: Iterable[Mutant]) -> str:
        """A name for the build: a map of reached places is valid for it alone."""
        return digest(self.sources.encode(), *(repr(mutant.key).encode() for mutant in mutants))

    def python(self) -> Optional[Path]:
        """The environment's Python."""
        return self.venv / "bin" / "python" if self.has_python else None
