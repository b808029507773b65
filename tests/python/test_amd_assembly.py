"""Instructions of AMD code objects (src/symbol/sass.c): llvm-objdump's, its search and cache."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cmd_support import environment
from nvidia_tools import CODE_OBJECT_TOOL, code_object_tool
from support import run_command

triton = pytest.importorskip("triton")

from test_amd_lines import KERNELS, compile_kernel  # noqa: E402
from test_rocprofiler_samples import run as record_samples  # noqa: E402

ADDRESSES = range(0, 1 << 14, 4)


@pytest.fixture(scope="module")
def code(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("code") / "k.hsaco"
    path.write_bytes(compile_kernel(KERNELS[0], "gfx90a")["hsaco"])
    return path


def assembly(code: Path, **variables: object) -> subprocess.CompletedProcess:
    """The tool with only these environment variables."""
    if not CODE_OBJECT_TOOL.exists():
        pytest.skip("ninja -C build test-programs")
    return run_command(
        [CODE_OBJECT_TOOL, "--sass", code],
        env={name: str(value) for name, value in variables.items()}, status=None,
    )


def fake(directory: Path, text: str = "s_fake", end: str = "") -> Path:
    """A llvm-objdump that prints `text` at every address; it gets no PATH."""
    directory.mkdir(parents=True, exist_ok=True)
    lines = [f"\t{text}_{at:x}    // {at:012X}: BF800000\n" for at in ADDRESSES]
    (directory / "lines").write_text("".join(["\n0000000000000000 <k>:\n", *lines]))
    program = directory / "llvm-objdump"
    program.write_text(
        "#!/bin/sh\nread -r start < $2 2>/dev/null || :\n"
        f"while IFS= read -r line; do echo \"$line\"; done < '{directory}/lines'\n{end}\n"
    )
    program.chmod(0o755)
    return program


def first(done: subprocess.CompletedProcess) -> str:
    """The first instruction, without the address in it."""
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[0].rsplit("\t", 1)[1].rsplit("_", 1)[0]


def installed_rocm() -> list[Path]:
    return [*Path("/opt").glob("rocm*/llvm/bin/llvm-objdump")]


def test_instructions_are_those_of_llvm(code):
    program = shutil.which("llvm-objdump")
    if program is None:
        pytest.skip("no llvm-objdump")
    output = run_command([program, "-d", code], status=None)
    if output.returncode:
        pytest.skip("this llvm-objdump has no AMD target")
    expected: dict[str, dict[int, str]] = {}
    for line in output.stdout.splitlines():
        if found := re.match(r"([0-9a-f]+) <(.*)>:$", line):
            start, function = int(found[1], 16), expected.setdefault(found[2], {})
        elif found := re.match(r"\t(.*?)\s*// ([0-9A-F]+):", line):
            function[int(found[2], 16) - start] = found[1]
    done = assembly(code, PROTON_LLVM_OBJDUMP_PATH=program)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[int, str]] = {}
    for line in done.stdout.splitlines():
        _, name, offset, text = line.split("\t")
        found.setdefault(name, {})[int(offset)] = text
    rows = code_object_tool(code)
    sizes = {name: int(rest[1]) for kind, name, *rest in rows if kind == "function"}
    assert set(found) == set(sizes)
    for name, size in sizes.items():
        assert found[name] == {pc: text for pc, text in expected[name].items() if pc < size}
        assert len(found[name]) > 20


def test_places_are_searched_in_order(code, tmp_path):
    """ROCm's is first: it knows the GPUs of that ROCm."""
    variables: dict[str, object] = {}
    wheel = "lib/python3.11/site-packages/_rocm_sdk_core/lib/llvm/bin"
    places = [
        ("PATH", tmp_path / "path", ""),
        ("VIRTUAL_ENV", tmp_path / "env[1]*", wheel),
        ("ROCM_PATH", tmp_path / "rocm", "llvm/bin"),
        ("PROTON_LLVM_OBJDUMP_PATH", tmp_path / "named", ""),
    ]
    for name, directory, below in places:
        fake(directory / below, name)
        variables[name] = directory if name != "PATH" else f"relative::{tmp_path}:{directory}"
        if name in ("PATH", "VIRTUAL_ENV") and installed_rocm():
            continue
        assert first(assembly(code, **variables)) == name


def test_output_is_kept_where_a_cache_is_named(code, tmp_path):
    cache = tmp_path / "cache"
    works, fails = fake(tmp_path / "works"), fake(tmp_path / "fails", end="exit 1")
    done = assembly(code, XDG_CACHE_HOME=cache, PROTON_LLVM_OBJDUMP_PATH=works)
    assert first(done) == "s_fake"
    (kept,) = [path for path in cache.rglob("*") if path.is_file()]
    assert kept.parent == cache / "proton" / "sass"
    again = assembly(code, XDG_CACHE_HOME=cache, PROTON_LLVM_OBJDUMP_PATH=fails)
    assert again.stdout == done.stdout


def test_a_failure_says_that_the_program_may_be_too_old(code, tmp_path):
    """LLVM 14 fails for gfx942 after a part of its output."""
    fails = fake(tmp_path / "fails", end="exit 1")
    done = assembly(code, PROTON_LLVM_OBJDUMP_PATH=fails)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == (
        f"code_object: {fails} failed with exit status 1; its LLVM may be too old for this GPU\n"
    )
    silent = fake(tmp_path / "silent")
    (tmp_path / "silent" / "lines").write_text("k.hsaco: file format elf64-amdgpu\n")
    done = assembly(code, PROTON_LLVM_OBJDUMP_PATH=silent)
    assert done.stderr == f"code_object: {silent} printed no instructions\n"


def test_without_a_disassembler_the_message_says_what_to_do(code, tmp_path):
    done = assembly(code, PROTON_LLVM_OBJDUMP_PATH=tmp_path / "none")
    assert done.stderr == (
        f'code_object: PROTON_LLVM_OBJDUMP_PATH is "{tmp_path}/none", which is not and does not '
        "contain an executable llvm-objdump\n"
    )
    if not installed_rocm() and not list(Path("/usr/lib").glob("llvm-*/bin/llvm-objdump")):
        assert assembly(code).stderr == (
            "code_object: cannot find the disassembler llvm-objdump; install ROCm or LLVM, or "
            "set PROTON_LLVM_OBJDUMP_PATH to its directory\n"
        )


def view(directory: Path, *options: str, **variables: str) -> subprocess.CompletedProcess:
    command = ["-m", "triton_proton.viewer", "--source", "add", "--sass", *options, "test.proton"]
    return run_command(
        [sys.executable, *command], cwd=directory,
        env=environment(XDG_CACHE_HOME=None, **variables), status=None,
    )


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_viewer_prints_the_instructions_of_each_line(tmp_path):
    record_samples(tmp_path, "proton")
    works = str(fake(tmp_path / "works"))
    done = view(tmp_path, "--json", PROTON_LLVM_OBJDUMP_PATH=works)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    found: list[tuple[int, int]] = []

    def collect(value: object) -> None:
        if isinstance(value, dict) and "sass" in value:
            found.append((value["offset"], int(value["sass"].rsplit("_", 1)[1], 16)))
        for part in value.values() if isinstance(value, dict) else value:
            if isinstance(part, (dict, list)):
                collect(part)

    collect(json.loads(done.stdout))
    # Each has its own text: all addresses are as far from the offsets.
    assert len(found) > 20 and len({address - offset for offset, address in found}) == 1
    done = view(tmp_path, PROTON_LLVM_OBJDUMP_PATH=str(tmp_path / "none"))
    assert done.returncode == 0
    assert done.stderr.endswith("llvm-objdump; only offsets of instructions are printed\n")
