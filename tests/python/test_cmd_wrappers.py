"""`proton -- WRAPPER program`: the recorder is also loaded into the wrapped program."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cmd_support import environment, executable, own_lines, run
from test_cmd_program import CC, needs_compiler, program, tree  # noqa: F401

RECORDED = {"native": {"work": {}}}

# Each starts $0 with the words after it; all of coreutils, or shells.
WRAPPERS = {
    "env": 'env A=1 "$0" "$@"',
    "env -i": 'env -i "$0" "$@"',
    "nice": 'nice -n 1 "$0" "$@"',
    "nohup": 'nohup "$0" "$@"',
    "timeout": 'timeout 60 "$0" "$@"',
    "stdbuf": 'stdbuf -oL "$0" "$@"',
    "exec in sh": "sh -c 'exec \"$0\" \"$@\"' \"$0\" \"$@\"",
    "sh": "sh -c '\"$0\" \"$@\"; exit $?' \"$0\" \"$@\"",
    "bash": "bash -c '\"$0\" \"$@\"; exit $?' \"$0\" \"$@\"",
    "subshell in the background": "bash -c '(\"$0\" \"$@\") & wait $!' \"$0\" \"$@\"",
    "wrapper of a wrapper": "timeout 60 nice env A=1 sh -c '\"$0\" \"$@\"; exit $?' \"$0\" \"$@\"",
    "Python": f"{sys.executable} -c 'import subprocess as s, sys; "
    "sys.exit(s.run(sys.argv[1:]).returncode)' \"$0\" \"$@\"",
    "Python that becomes it": f"{sys.executable} -c 'import os, sys; "
    "os.execvp(sys.argv[1], sys.argv[1:])' \"$0\" \"$@\"",
    "posix_spawn": f"{sys.executable} -c 'import os, sys; sys.exit(os.waitstatus_to_exitcode("
    "os.waitpid(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)[1]))' \"$0\" \"$@\"",
    "another proton": f"{executable('proton')} -n out -- \"$0\" \"$@\"",
}


def wrapped(wrapper: str, command: list[str], cwd: Path, *options: str):
    """`proton -n out -- WRAPPER command`, with what a shell makes of WRAPPER."""
    line = f'exec "$PROTON" -n out {" ".join(options)} -- {wrapper}'
    env = environment(PROTON=executable("proton"))
    return run(["bash", "-c", line, *command], cwd, env=env)


def files(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@needs_compiler
@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
def test_program_below_a_wrapper_writes_the_name(
    wrapper: str, program: Path, tmp_path: Path  # noqa: F811
) -> None:
    result = wrapped(wrapper, [str(program), "exit"], tmp_path)
    assert result.returncode == 9, result.stderr
    assert files(tmp_path) == ["out.hatchet"]
    assert tree(tmp_path / "out.hatchet") == RECORDED
    (line,) = own_lines(result.stderr)
    assert line.startswith("recorded 1 kernel launch in 2 contexts")
    assert line.endswith("; view it with: proton-viewer out.hatchet")


@needs_compiler
def test_several_children_have_separate_files(
    program: Path, tmp_path: Path  # noqa: F811
) -> None:
    result = wrapped('sh -c \'"$0"; "$0"; "$0"\' "$0"', [str(program)], tmp_path)
    assert result.returncode == 0
    names = files(tmp_path)
    assert len(names) == 3 and all(re.fullmatch(r"out\.\d+\.hatchet", name) for name in names)
    assert all(tree(tmp_path / name) == RECORDED for name in names)
    (line,) = own_lines(result.stderr)
    start = "recorded 3 processes, each as out.PID; view it with: proton-viewer out."
    assert line.startswith(start)
    assert line.split()[-1] in names


@needs_compiler
def test_children_of_a_program_that_records(program: Path, tmp_path: Path) -> None:  # noqa: F811
    script = tmp_path / "script.py"
    script.write_text(
        "import subprocess, sys, triton_proton\n"
        "with triton_proton.scope('parent'):\n"
        f"    subprocess.run([{str(program)!r}], check=True)\n"
    )
    result = wrapped('"$0" "$@"', [sys.executable, str(script)], tmp_path)
    assert result.returncode == 0, result.stderr
    assert tree(tmp_path / "out.hatchet") == {"parent": {}}
    (child,) = tmp_path.glob("out.*.hatchet")
    assert tree(child) == RECORDED
    (line,) = own_lines(result.stderr)
    assert line.endswith("; recorded 1 child process too, as out.PID")


@needs_compiler
def test_data_recorded_before_exec_is_kept(program: Path, tmp_path: Path) -> None:  # noqa: F811
    script = tmp_path / "script.py"
    script.write_text(
        "import os, triton_proton\n"
        "with triton_proton.scope('before'): pass\n"
        f"os.execv({str(program)!r}, ['program'])\n"
    )
    result = wrapped('"$0" "$@"', [sys.executable, str(script)], tmp_path)
    assert result.returncode == 0, result.stderr
    assert tree(tmp_path / "out.hatchet") == {"before": {}}
    (after,) = tmp_path.glob("out.*.hatchet")
    assert tree(after) == RECORDED
    assert [line.split()[-1] for line in own_lines(result.stderr)] == ["out.hatchet", after.name]


@needs_compiler
def test_no_children(program: Path, tmp_path: Path) -> None:  # noqa: F811
    result = wrapped('sh -c \'"$0"; true\' "$0"', [str(program)], tmp_path, "--no-children")
    assert "nothing was recorded" in own_lines(result.stderr)[0]
    assert files(tmp_path) == ["out.hatchet"]
    # A program that takes over the process is not a child.
    result = wrapped('env A=1 "$0"', [str(program)], tmp_path, "--no-children")
    assert tree(tmp_path / "out.hatchet") == RECORDED


@needs_compiler
@pytest.mark.parametrize("wrapper", ['sh -c "env; true"', 'timeout 60 env', "env"])
def test_programs_below_do_not_see_it(wrapper: str, tmp_path: Path) -> None:
    result = wrapped(wrapper, ["x"], tmp_path)
    assert result.returncode == 0
    assert "PROTON_RUN" not in result.stdout and "LD_PRELOAD" not in result.stdout


def test_program_that_cannot_be_run_leaves_the_session(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    (tmp_path / "broken").write_bytes(b"\x7fELF and no more")
    (tmp_path / "broken").chmod(0o755)
    script.write_text(
        "import ctypes, os, triton_proton\n"
        "for name in ('/no/such/program', './broken'):\n"
        "    try: os.execv(name, ['x'])\n"
        "    except OSError: pass\n"
        "libc = ctypes.CDLL(None)\n"
        "for name in (None, b''):\n"
        "    assert libc.execv(name, (ctypes.c_char_p * 2)(b'x')) == -1\n"
        "assert libc.execvp(b'', (ctypes.c_char_p * 2)(b'x')) == -1\n"
        "with triton_proton.scope('after'): pass\n"
    )
    result = wrapped('"$0" "$@"', [sys.executable, str(script)], tmp_path)
    assert result.returncode == 0, result.stderr
    assert tree(tmp_path / "out.hatchet") == {"after": {}}


@needs_compiler
def test_child_that_outlives_the_wrapper_prints_its_own_line(
    program: Path, tmp_path: Path  # noqa: F811
) -> None:
    line = "sh -c '(read x < fifo; exec \"$0\") & true' \"$0\""
    os.mkfifo(tmp_path / "fifo")
    child = subprocess.Popen(
        ["bash", "-c", f'exec "$PROTON" -n out -- {line}', str(program)], cwd=tmp_path,
        env=environment(PROTON=executable("proton")), stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, text=True,
    )
    assert child.wait(60) == 0
    (tmp_path / "fifo").write_text("go\n")
    assert child.stderr is not None
    lines = own_lines(child.stderr.read())
    assert "nothing was recorded" in lines[0] and "see it" not in lines[0]
    name = lines[1].split()[-1]
    assert tree(tmp_path / name) == RECORDED and re.fullmatch(r"out\.\d+\.hatchet", name)
    assert not list(tmp_path.glob("*.children"))


@needs_compiler
def test_timeout_that_strikes(program: Path, tmp_path: Path) -> None:  # noqa: F811
    result = wrapped('timeout 1 "$0" "signal 0"', [str(program)], tmp_path)
    assert result.returncode == 124
    assert files(tmp_path) == ["out.hatchet"]
    assert tree(tmp_path / "out.hatchet") == RECORDED
    (line,) = own_lines(result.stderr)
    assert line.startswith("recorded 1 kernel launch in 2 contexts")


def test_launcher_of_python_workers(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(
        "import sys, triton_proton\nwith triton_proton.scope(sys.argv[1]): pass\n"
    )
    launcher = tmp_path / "launch"
    launcher.write_text(
        f"#!{sys.executable}\nimport subprocess, sys\n"
        "workers = [subprocess.Popen([sys.executable, 'worker.py', f'rank {n}']) for n in (0, 1)]\n"
        "sys.exit(max(worker.wait() for worker in workers))\n"
    )
    launcher.chmod(0o755)
    result = wrapped("./launch", ["x"], tmp_path)
    assert result.returncode == 0, result.stderr
    (line,) = own_lines(result.stderr)
    assert line.startswith("recorded 2 processes")
    trees = [tree(path) for path in tmp_path.glob("out.*.hatchet")]
    assert sorted(map(list, trees)) == [["rank 0"], ["rank 1"]]


@needs_compiler
def test_program_with_an_address_sanitizer_below_a_wrapper_runs(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text("int main(void) { return 0; }\n")
    built = run([str(CC), "-fsanitize=address", "x.c", "-o", "x"], tmp_path)
    if built.returncode != 0:
        pytest.skip("no AddressSanitizer here")
    result = wrapped("sh -c './x; exit $?'", ["x"], tmp_path)
    assert result.returncode == 0 and "ASan" not in result.stderr
