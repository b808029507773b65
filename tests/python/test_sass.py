"""Instruction text of src/symbol/sass.c: nvdisasm's, its search and its cache."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from nvidia_tools import CODE_OBJECT_TOOL, assemble, code_object_tool, find, run
from support import run_command
from test_cubin import PTX


@pytest.fixture
def cubin(tmp_path) -> Path:
    path = tmp_path / "k.cubin"
    assemble(PTX, "sm_80", path)
    return path


def sass(cubin: Path, **variables: object) -> subprocess.CompletedProcess:
    """The tool with only these environment variables."""
    if not CODE_OBJECT_TOOL.exists():
        pytest.skip("ninja -C build test-programs")
    return run_command(
        [CODE_OBJECT_TOOL, "--sass", cubin],
        env={name: str(value) for name, value in variables.items()}, status=None,
    )


def fake(directory: Path, script: str) -> Path:
    """A disassembler; only built-in commands of the shell, because it gets no PATH."""
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / "nvdisasm"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def saying(text: str) -> str:
    return f"printf '\\t.section .text.one,\"ax\"\\n   /*0010*/   {text} ;\\n'"


def test_instructions_are_those_of_nvdisasm(cubin):
    expected: dict[str, dict[int, str]] = {}
    for line in run("nvdisasm", "-c", cubin).splitlines():
        if found := re.match(r"\s*\.section\s+\.text\.([^,]+),", line):
            section = expected.setdefault(found[1], {})
        elif found := re.match(r"\s+/\*([0-9a-f]+)\*/\s+(.*?)\s*;$", line):
            section[int(found[1], 16)] = found[2]
    done = sass(cubin, PROTON_NVDISASM_PATH=find("nvdisasm"))
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[int, str]] = {}
    for line in done.stdout.splitlines():
        _, name, offset, text = line.split("\t")
        found.setdefault(name, {})[int(offset)] = text
    start = min(pc for pc in expected["one"] if expected["one"][pc] == found["$one$square"][0])
    after = {pc - start: text for pc, text in expected["one"].items() if pc >= start}
    assert found == {**expected, "$one$square": after}
    rows = code_object_tool(cubin)
    sizes = {name: int(rest[1]) for kind, name, *rest in rows if kind == "function"}
    assert {name: len(lines) * 16 for name, lines in found.items()} == sizes


def test_output_is_kept_where_a_cache_is_named(cubin, tmp_path):
    cache, home = tmp_path / "cache", tmp_path / "home"
    home.mkdir()
    works = fake(tmp_path / "works", saying("FADD R1, R2, R3"))
    fails = fake(tmp_path / "fails", "exit 3")
    before = sorted(tmp_path.rglob("*"))
    done = sass(cubin, HOME=home, PROTON_NVDISASM_PATH=works)
    assert done.stdout == "sass\tone\t16\tFADD R1, R2, R3\n"
    assert sorted(tmp_path.rglob("*")) == before

    assert sass(cubin, XDG_CACHE_HOME=cache, PROTON_NVDISASM_PATH=works).stdout == done.stdout
    files = [path for path in cache.rglob("*") if path.is_file()]
    assert [path.parent for path in files] == [cache / "proton" / "sass"]
    assert sass(cubin, XDG_CACHE_HOME=cache, PROTON_NVDISASM_PATH=fails).stdout == done.stdout
    # Another cubin, or a file that was damaged, needs the disassembler.
    other = tmp_path / "other.cubin"
    other.write_bytes(cubin.read_bytes() + b"\0")
    failed = sass(other, XDG_CACHE_HOME=cache, PROTON_NVDISASM_PATH=fails)
    assert failed.stderr == f"code_object: {fails} failed with exit status 3\n"
    silent = fake(tmp_path / "silent", "echo what is this")
    failed = sass(other, XDG_CACHE_HOME=cache, PROTON_NVDISASM_PATH=silent)
    assert failed.stderr == f"code_object: {silent} printed no instructions\n"
    files[0].write_text("something else")
    assert sass(cubin, XDG_CACHE_HOME=cache, PROTON_NVDISASM_PATH=works).stdout == done.stdout
    assert "FADD" in files[0].read_text()
    assert len([path for path in cache.rglob("*") if path.is_file()]) == 1


def test_a_relative_cache_directory_is_ignored(cubin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    works = fake(tmp_path / "works", saying("NOP"))
    assert sass(cubin, XDG_CACHE_HOME="cache", PROTON_NVDISASM_PATH=works).stdout
    assert not (tmp_path / "cache").exists()


def test_places_are_searched_in_order(cubin, tmp_path):
    variables: dict[str, object] = {}
    wheel = "lib/python3.11/site-packages/triton/backends/nvidia/bin"
    places = [
        ("VIRTUAL_ENV", tmp_path / "env[1]*", wheel),
        ("CUDA_HOME", tmp_path / "cuda", "bin"),
        ("PATH", tmp_path / "path", ""),
        ("PROTON_NVDISASM_PATH", tmp_path / "named", ""),
    ]
    for name, directory, below in places:
        fake(directory / below, saying(name))
        variables[name] = directory if name != "PATH" else f"relative::{tmp_path}:{directory}"
        if name == "VIRTUAL_ENV" and list(Path("/usr/local").glob("cuda*/bin/nvdisasm")):
            continue
        assert sass(cubin, **variables).stdout == f"sass\tone\t16\t{name}\n"
    # A directory of that name, or a file that cannot be executed, is not a program.
    os.chmod(tmp_path / "path" / "nvdisasm", 0o644)
    del variables["PROTON_NVDISASM_PATH"]
    assert sass(cubin, **variables).stdout == "sass\tone\t16\tCUDA_HOME\n"


def test_the_newest_toolkit_and_python_are_taken(cubin, tmp_path):
    for version in ("3.9", "3.10"):
        packages = tmp_path / f"lib/python{version}/site-packages"
        fake(packages / "triton/backends/nvidia/bin", saying(version))
    if list(Path("/usr/local").glob("cuda*/bin/nvdisasm")):
        pytest.skip("a toolkit is installed")
    assert sass(cubin, VIRTUAL_ENV=tmp_path).stdout == "sass\tone\t16\t3.10\n"


def test_without_a_disassembler_the_message_says_what_to_do(cubin, tmp_path):
    done = sass(cubin, PROTON_NVDISASM_PATH=tmp_path / "none")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == (
        f'code_object: PROTON_NVDISASM_PATH is "{tmp_path}/none", which is not and does not '
        "contain an executable nvdisasm\n"
    )
    if not list(Path("/usr/local").glob("cuda*/bin/nvdisasm")):
        assert sass(cubin).stderr == (
            "code_object: cannot find the disassembler nvdisasm; install Triton or a CUDA "
            "toolkit, or set PROTON_NVDISASM_PATH to its directory\n"
        )
