"""`proton -- program`: any program, with the recorder loaded into it."""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from cmd_support import environment, executable, own_lines, proton, run, without_own_lines

import triton_proton
from support import run_command

ROOT = Path(__file__).resolve().parents[2]
CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(CC is None, reason="no C compiler")

# Scopes through the C API; the first argument says how to end.
PROGRAM = r"""
    #include <libproton/proton.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>

    extern char **environ;

    int main(int argc, char **argv)
    {
        const struct proton_session_options options = {.size = sizeof(options), .name = "mine"};
        const char *how = argc > 1 ? argv[1] : "";
        struct proton_error err;
        uint64_t scope;
        int session = -1;

        if (strcmp(how, "start") == 0) {
            if (proton_start(&options, &session, &err) != PROTON_OK)
                return 90;
            printf("session %d\n", session);
            if (proton_finalize(session, NULL, &err) != PROTON_OK)
                return 91;
        }
        if (strcmp(how, "environment") == 0)
            for (char **entry = environ; *entry; entry++)
                puts(*entry);
        scope = proton_scope_enter("native");
        proton_kernel_begin(proton_frame("work", 4));
        proton_kernel_end();
        proton_scope_exit(scope, NULL);
        printf("%s %d\n", argv[0], argc);
        for (int i = 0; strcmp(how, "scopes") == 0 && i < 20000; i++) {
            char name[32];

            snprintf(name, sizeof(name), "scope %d", i);
            proton_scope_exit(proton_scope_enter(name), NULL);
        }
        if (strcmp(how, "exit") == 0)
            exit(9);
        if (strcmp(how, "_exit") == 0) {
            fflush(stdout);
            _exit(8);
        }
        if (strcmp(how, "fork") == 0) {
            fflush(stdout);
            if (fork() == 0)
                exit(0);
            sleep(1);
        }
        if (strncmp(how, "signal ", 7) == 0) {
            raise(atoi(how + 7));
            sleep(60);
        }
        if (strcmp(how, "abort") == 0)
            abort();
        return 0;
    }
    """


def libproton() -> Path:
    """The library that the extension of this Python uses."""
    directory = Path(triton_proton.__file__).parent
    sibling = sorted(directory.glob("libproton.so*"))
    if sibling:
        return sibling[0]
    from triton_proton import _libproton

    for line in run_command(["ldd", _libproton.__file__]).stdout.splitlines():
        if "libproton.so" in line:
            return Path(line.split("=>")[1].split()[0])
    raise AssertionError("the extension does not use libproton.so")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("program")
    source = directory / "program.c"
    source.write_text(textwrap.dedent(PROGRAM))
    path = directory / "a.out"
    library = libproton()
    command = [str(CC), "-I", str(ROOT / "include"), "-o", str(path), str(source), str(library)]
    subprocess.run([*command, f"-Wl,-rpath,{library.parent}"], check=True, timeout=300)
    return path


def tree(path: Path) -> dict:
    def names(node: dict) -> dict:
        return {child["frame"]["name"]: names(child) for child in node["children"]}

    return names(json.loads(path.read_text())[0])


@needs_compiler
def test_program(program: Path, tmp_path: Path) -> None:
    result = proton("-n", "p", "--", str(program), "-n", "x", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{program} 3\n"
    (line,) = own_lines(result.stderr)
    assert line.startswith("recorded 1 kernel launch") and line.endswith("proton-viewer p.hatchet")
    assert tree(tmp_path / "p.hatchet") == {"native": {"work": {}}}


@needs_compiler
def test_memory_reaches_the_session(program: Path, tmp_path: Path) -> None:
    for options, expected in (((), None), (("--memory",), "recorded")):
        assert proton(*options, "--", str(program), cwd=tmp_path).returncode == 0
        root = json.loads((tmp_path / "proton.hatchet").read_text())[0]
        assert root["proton"]["info"].get("memory") == expected


@needs_compiler
def test_program_on_path(program: Path, tmp_path: Path) -> None:
    env = environment(PATH=f"{program.parent}:{os.environ['PATH']}")
    result = proton("-q", "-o", "hatchet_msgpack", "--", "a.out", cwd=tmp_path, env=env)
    assert (result.returncode, result.stdout, result.stderr) == (0, "a.out 1\n", "")
    assert (tmp_path / "proton.hatchet_msgpack").exists()


@needs_compiler
def test_program_with_its_own_session(program: Path, tmp_path: Path) -> None:
    result = proton("--", str(program), "start", cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    assert result.stdout.startswith("session 0\n")
    assert [path.name for path in tmp_path.iterdir()] == ["proton.hatchet"]
    assert tree(tmp_path / "proton.hatchet") == {"native": {"work": {}}}


@needs_compiler
def test_program_without_proton_records_nothing(program: Path, tmp_path: Path) -> None:
    result = run([str(program)], tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert not list(tmp_path.iterdir())


@needs_compiler
@pytest.mark.parametrize(
    "how, status, left",
    [
        ("exit", 9, "proton.hatchet"),
        ("_exit", 8, "proton.proton"),
        ("signal 1", -signal.SIGHUP, "proton.hatchet"),
        ("signal 2", -signal.SIGINT, "proton.hatchet"),
        ("signal 15", -signal.SIGTERM, "proton.hatchet"),
        ("signal 9", -signal.SIGKILL, "proton.proton"),
        ("abort", -signal.SIGABRT, "proton.proton"),
        ("fork", 0, "proton.hatchet"),
    ],
)
def test_program_that_ends(how: str, status: int, left: str, program: Path, tmp_path: Path) -> None:
    result = proton("--", str(program), how, cwd=tmp_path)
    assert result.returncode == status
    assert [path.name for path in tmp_path.iterdir()] == [left]
    # An incomplete file will do: it contains the recorded data.
    shown = run([executable("proton-viewer"), "-m", "time/s", left], tmp_path)
    assert shown.returncode == 0 and "work" in shown.stdout
    assert len(own_lines(result.stderr)) == (1 if left.endswith(".hatchet") else 0)


@needs_compiler
@pytest.mark.parametrize("limit", [1000, 3000])
def test_file_size_limit(limit: int, program: Path, tmp_path: Path) -> None:
    """It acts like a full disk, on the recording (1000) and on the output (both)."""
    command = [executable("proton"), "--", str(program), "scopes"]
    result = run(["bash", "-c", f'ulimit -f {limit}; exec "$@"', "bash", *command], tmp_path)
    assert result.returncode == 1
    assert result.stdout == f"{program} 2\n"
    assert [path.name for path in tmp_path.iterdir()] == ["proton.proton"]
    assert ("cannot extend" in result.stderr) == (limit == 1000)
    assert result.stderr.count("proton.hatchet: File too large") == 1
    shown = run([executable("proton-viewer"), "proton.proton"], tmp_path)
    assert shown.returncode == 0 and "work" in shown.stdout
    assert ("profile storage full" in shown.stderr + shown.stdout) == (limit == 1000)


@needs_compiler
@pytest.mark.parametrize("preload", [None, "", "HELPER"])
def test_environment_is_as_before(preload: str | None, program: Path, tmp_path: Path) -> None:
    if preload == "HELPER":
        source = tmp_path / "library.c"
        source.write_text("int number;\n")
        preload = str(tmp_path / "library.so")
        subprocess.run(
            [str(CC), "-shared", "-fPIC", "-o", preload, str(source)], check=True, timeout=300
        )
    env = environment(LD_PRELOAD=preload, PYTHONPATH="x")
    plain = run([str(program), "environment"], tmp_path, env=env)
    got = proton("--", str(program), "environment", cwd=tmp_path, env=env)
    assert sorted(got.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    assert len(plain.stdout.splitlines()) > 3


def test_shell_script(tmp_path: Path) -> None:
    """bash has its own idea of getenv() and of where its environment is."""
    path = shutil.which("bash")
    if path is None:
        pytest.skip("no bash")
    script = tmp_path / "script"
    script.write_text(f'#!{path}\nenv | grep -E "PROTON_RUN|LD_PRELOAD"\necho "$# $1"\nexit 4\n')
    script.chmod(0o755)
    result = proton("--", "./script", "a b", cwd=tmp_path, env=environment(LD_PRELOAD=None))
    assert result.returncode == 4
    assert result.stdout == "1 a b\n"
    (line,) = own_lines(result.stderr)
    assert "nothing was recorded" in line


def test_python_as_a_program(tmp_path: Path) -> None:
    """The package finds the session that was injected: there is one recorder in the process."""
    (tmp_path / "script.py").write_text(
        textwrap.dedent(
            """
            import triton_proton
            session = triton_proton.start("mine")
            with triton_proton.scope("from Python"):
                pass
            triton_proton.finalize()
            """
        )
    )
    result = proton("-n", "p", "--", sys.executable, "script.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert without_own_lines(result.stderr) == ""
    assert tree(tmp_path / "p.hatchet") == {"from Python": {}}
    assert not list(tmp_path.glob("mine*"))


@needs_compiler
def test_static_program(tmp_path: Path) -> None:
    (tmp_path / "static.c").write_text("int main(void) { return 0; }\n")
    built = subprocess.run(
        [str(CC), "-static", "-o", "static", "static.c"], cwd=tmp_path, capture_output=True,
        timeout=300,
    )
    if built.returncode != 0:
        pytest.skip("this compiler cannot link statically")
    result = proton("--", "./static", cwd=tmp_path)
    assert result.returncode == 2
    assert "it is statically linked" in own_lines(result.stderr)[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file another owner")
def test_privileged_program(tmp_path: Path) -> None:
    path = tmp_path / "privileged"
    shutil.copy(shutil.which("true") or "/bin/true", path)
    os.chown(path, 1, 1)
    path.chmod(0o4755)
    result = proton("--", "./privileged", cwd=tmp_path)
    assert result.returncode == 2
    assert "elevated privileges" in own_lines(result.stderr)[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file another group")
def test_program_of_another_group(tmp_path: Path) -> None:
    path = tmp_path / "privileged"
    shutil.copy(shutil.which("true") or "/bin/true", path)
    os.chown(path, 0, 1)
    path.chmod(0o2755)
    result = proton("--", "./privileged", cwd=tmp_path)
    assert result.returncode == 2
    assert "elevated privileges" in own_lines(result.stderr)[0]
    os.chown(path, 0, os.getegid())
    path.chmod(0o6755)  # its own owner and group
    assert proton("--", "./privileged", cwd=tmp_path).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file capabilities")
def test_program_with_file_capabilities() -> None:
    """The loader ignores LD_PRELOAD in it, except for root, who gains nothing by them."""
    with tempfile.TemporaryDirectory() as folder:
        tmp_path = Path(folder)
        os.chown(folder, 65534, 65534)
        path = tmp_path / "capable"
        shutil.copy(shutil.which("true") or "/bin/true", path)
        path.chmod(0o755)

        def run(user: int) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [executable("proton"), "-n", f"p{user}", "--", "./capable"],
                cwd=tmp_path, env=environment(), user=user, group=user, extra_groups=[],
                capture_output=True, text=True, timeout=300,
            )  # fmt: skip

        try:
            before = run(65534)
        except PermissionError:
            pytest.skip("the command cannot be reached by other users")
        assert before.returncode == 0, before.stderr
        # CAP_NET_RAW, effective, in the second version of the attribute.
        capabilities = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)
        try:
            os.setxattr(path, "security.capability", capabilities)
        except OSError as error:
            pytest.skip(f"no capabilities of files: {error.strerror}")
        refused = run(65534)
        assert refused.returncode == 2
        assert "elevated privileges (setuid" in own_lines(refused.stderr)[0]
        assert run(0).returncode == 0


def test_file_that_is_not_a_program(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("nothing to run\n")
    path.chmod(0o755)
    result = proton("--", "./notes", cwd=tmp_path)
    assert result.returncode == 2
    assert "neither an executable nor a script" in own_lines(result.stderr)[0]


def test_missing_interpreter(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("#!/no/such/shell\n")
    path.chmod(0o755)
    result = proton("--", "./script", cwd=tmp_path)
    assert result.returncode == 2
    assert "/no/such/shell: No such file" in own_lines(result.stderr)[0]


def test_missing_library_is_reported(tmp_path: Path) -> None:
    env = environment(PROTON_INJECT_LIB="/no/such/library.so")
    result = proton("--", "true", cwd=tmp_path, env=env)
    assert result.returncode == 2
    (line,) = own_lines(result.stderr)
    assert line.startswith("cannot use PROTON_INJECT_LIB='/no/such/library.so'")
