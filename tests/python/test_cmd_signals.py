"""Signals that end `proton -- WRAPPER program`: the program, its wrapper, or both."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from cmd_support import environment, executable, own_lines
from test_cmd_program import CC, ROOT, libproton, needs_compiler, tree

pytestmark = needs_compiler

RECORDED = {"native": {"work": {}}}

# Records, prints its process id, and stays until a signal ends it or a line comes on `fifo`.
PROGRAM = r"""
    #define _GNU_SOURCE
    #include <libproton/proton.h>
    #include <fcntl.h>
    #include <signal.h>
    #include <stdio.h>
    #include <string.h>
    #include <unistd.h>

    static void report(int number)
    {
        (void)!write(STDOUT_FILENO, "0\n", 2 * (number >= 0));
    }

    static int is_slow;

    /* The profile gets its name by this. */
    int rename(const char *from, const char *to)
    {
        if (is_slow) {
            report(0);
            close(open("fifo", O_RDONLY));
        }
        return renameat(AT_FDCWD, from, AT_FDCWD, to);
    }

    int main(int argc, char **argv)
    {
        const char *how = argc > 1 ? argv[1] : "";
        struct sigaction action = {.sa_handler = report, .sa_flags = SA_RESTART};
        uint64_t scope = proton_scope_enter("native");

        proton_kernel_begin(proton_frame("work", 4));
        proton_kernel_end();
        proton_scope_exit(scope, NULL);
        if (strcmp(how, "handles") == 0)
            sigaction(SIGTERM, &action, NULL);
        if (strcmp(how, "ignores") == 0)
            signal(SIGINT, SIG_IGN);
        is_slow = strcmp(how, "slow") == 0;
        printf("%d\n", (int)getpid());
        fflush(stdout);
        if (strcmp(how, "once") == 0)
            return 0;
        if (strcmp(how, "default again") == 0) {
            signal(SIGTERM, SIG_IGN);
            signal(SIGTERM, SIG_DFL);
            raise(SIGTERM);
        }
        if (!is_slow && access("fifo", F_OK) == 0)
            return open("fifo", O_RDONLY) < 0;
        for (;;)
            pause();
    }
    """


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("program")
    (directory / "x.c").write_text(textwrap.dedent(PROGRAM))
    library = libproton()
    command = [str(CC), "-I", str(ROOT / "include"), "-o", "x", "x.c", str(library)]
    subprocess.run(
        [*command, f"-Wl,-rpath,{library.parent}"], check=True, cwd=directory, timeout=300
    )
    return directory / "x"


def start(line: str, *words: object, cwd: Path) -> subprocess.Popen[str]:
    """`proton -n out -- LINE`, as the first process of a group; its words are $0, $1 and so on."""
    return subprocess.Popen(
        ["bash", "-c", f'exec "$PROTON" -n out -- {line}', *map(str, words)], cwd=cwd,
        env=environment(PROTON=executable("proton")), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )


def stat(process: int) -> list[str]:
    """State, parent and more."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def read_number(process: subprocess.Popen[str]) -> int:
    """The number that the program prints: its process id when it has recorded, or 0."""
    assert process.stdout is not None
    line = b""
    # communicate() would not return what readline() has read too far.
    while not line.endswith(b"\n"):
        byte = os.read(process.stdout.fileno(), 1)
        assert byte, process.communicate(timeout=300)
        line += byte
    return int(line)


def wait_ready(process: subprocess.Popen[str]) -> int:
    """The number that the program prints, when the wrapper waits for the program."""
    number = read_number(process)
    end = time.monotonic() + 60
    while (now := stat(process.pid)[0]) != "S":
        assert now != "Z", process.communicate(timeout=300)
        assert time.monotonic() < end, now
        os.sched_yield()
    return number


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Status and streams, when all processes that write to the streams have ended."""
    stdout, stderr = process.communicate(timeout=300)
    return process.returncode, stdout, stderr


def files(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if path.name != "fifo")


WRAPPERS = {
    "sh": "sh -c '\"$0\" \"$@\"; echo next' \"$0\" \"$@\"",
    "bash": "bash -c '\"$0\" \"$@\"; echo next' \"$0\" \"$@\"",
    "sh that waits": "sh -c '\"$0\" \"$@\" & wait; echo next' \"$0\" \"$@\"",
    "sh in timeout": "timeout 60 sh -c '\"$0\" \"$@\"; echo next' \"$0\" \"$@\"",
    "timeout": 'timeout 60 "$0" "$@"',
    "timeout in sh": "sh -c 'timeout 60 \"$0\" \"$@\"; echo next' \"$0\" \"$@\"",
    "Python": f"{sys.executable} -c 'import subprocess as s, sys; s.run(sys.argv[1:]); "
    'print("next")\' "$0" "$@"',
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_signal_for_wrapper_and_program(
    wrapper: str, number: signal.Signals, program: Path, tmp_path: Path
) -> None:
    if wrapper == "sh that waits" and number == signal.SIGINT:
        pytest.skip("a shell starts background jobs with SIGINT ignored")
    process = start(WRAPPERS[wrapper], program, cwd=tmp_path)
    child = wait_ready(process)
    os.killpg(process.pid, number)
    if wrapper == "timeout in sh":  # a separate group: Ctrl-C reaches sh alone
        os.kill(child, number)
    status, stdout, stderr = finish(process)
    assert status == -number, stderr
    assert stdout == ""
    assert files(tmp_path) == ["out.hatchet"], stderr
    assert tree(tmp_path / "out.hatchet") == RECORDED
    (line,) = own_lines(stderr)
    assert line.startswith("recorded 1 kernel launch")
    assert line.endswith("; view it with: proton-viewer out.hatchet")


def test_program_that_outlasts_its_timeout(program: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    process = start('timeout 600 "$0" handles', program, cwd=tmp_path)
    child = wait_ready(process)
    os.kill(int(stat(child)[1]), signal.SIGALRM)  # the signal of the timer of timeout
    assert wait_ready(process) == 0  # timeout has struck, and waits for the program
    (tmp_path / "fifo").write_text("")
    status, _, stderr = finish(process)
    assert status == 124, stderr
    assert files(tmp_path) == ["out.hatchet"]
    assert tree(tmp_path / "out.hatchet") == RECORDED
    assert len(own_lines(stderr)) == 1


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_wrapper_waits_for_a_profile_that_is_being_written(
    shell: str, program: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    process = start(f"{shell} -c '\"$0\" slow; echo next' \"$0\"", program, cwd=tmp_path)
    wait_ready(process)
    os.killpg(process.pid, signal.SIGTERM)
    assert wait_ready(process) == 0
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)  # twice what a program gets that may not end
    (tmp_path / "fifo").write_text("")
    status, stdout, stderr = finish(process)
    assert status == -signal.SIGTERM and stdout == "", stderr
    assert files(tmp_path) == ["out.hatchet"]
    assert tree(tmp_path / "out.hatchet") == RECORDED


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_signal_for_the_wrapper_alone(shell: str, program: Path, tmp_path: Path) -> None:
    process = start(f"{shell} -c '\"$0\"; echo next' \"$0\"", program, cwd=tmp_path)
    child = wait_ready(process)
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM
    os.kill(child, signal.SIGTERM)  # it still runs
    _, stdout, stderr = finish(process)
    assert stdout == ""
    assert files(tmp_path) == [f"out.{child}.hatchet", "out.hatchet"]
    assert tree(tmp_path / f"out.{child}.hatchet") == RECORDED
    assert tree(tmp_path / "out.hatchet") == {}
    first, second = own_lines(stderr)
    assert first.startswith("nothing was recorded")
    assert second.endswith(f"proton-viewer out.{child}.hatchet")


@pytest.mark.parametrize(("shell", "expected"), [("sh", -signal.SIGINT), ("bash", 5)])
def test_program_that_ignores_the_signal_of_its_wrapper(
    shell: str, expected: int, program: Path, tmp_path: Path
) -> None:
    """Shells wait for it; bash then continues, because the program did not end by SIGINT."""
    os.mkfifo(tmp_path / "fifo")
    process = start(f"{shell} -c '\"$0\" ignores; exit 5' \"$0\"", program, cwd=tmp_path)
    wait_ready(process)
    os.killpg(process.pid, signal.SIGINT)
    (tmp_path / "fifo").write_text("")
    status, _, stderr = finish(process)
    assert status == expected, stderr
    assert files(tmp_path) == ["out.hatchet"]
    assert tree(tmp_path / "out.hatchet") == RECORDED


def test_wrapper_with_a_trap(program: Path, tmp_path: Path) -> None:
    line = "bash -c 'trap \"echo trapped\" TERM; \"$0\"; exit 5' \"$0\""
    process = start(line, program, cwd=tmp_path)
    wait_ready(process)
    os.killpg(process.pid, signal.SIGTERM)
    status, stdout, stderr = finish(process)
    assert status == 5 and stdout == "trapped\n", stderr
    assert files(tmp_path) == ["out.hatchet"]
    assert tree(tmp_path / "out.hatchet") == RECORDED


def test_wrapper_that_is_killed(program: Path, tmp_path: Path) -> None:
    line = "sh -c '\"$0\" once; \"$0\"; true' \"$0\""
    process = start(line, program, cwd=tmp_path)
    first = wait_ready(process)
    second = wait_ready(process)
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    os.kill(second, signal.SIGTERM)
    _, _, stderr = finish(process)
    # The first has reported to its wrapper, which prints nothing any more.
    expected = [f"out.{first}.hatchet", f"out.{second}.hatchet", "out.proton"]
    assert files(tmp_path) == sorted(expected)
    assert all(tree(tmp_path / name) == RECORDED for name in expected[:2])
    (line,) = own_lines(stderr)
    assert line.endswith(f"proton-viewer out.{second}.hatchet")


def test_program_that_is_killed(program: Path, tmp_path: Path) -> None:
    process = start("sh -c '\"$0\"; \"$0\" once; exit 5' \"$0\"", program, cwd=tmp_path)
    first = wait_ready(process)
    os.kill(first, signal.SIGKILL)
    read_number(process)  # the wrapper may end at once
    status, _, stderr = finish(process)
    assert status == 5
    assert files(tmp_path) == [f"out.{first}.proton", "out.hatchet"], stderr
    assert tree(tmp_path / "out.hatchet") == RECORDED


def test_several_programs_that_a_signal_ends(program: Path, tmp_path: Path) -> None:
    process = start("bash -c '\"$0\" & \"$0\" & \"$0\" & wait' \"$0\"", program, cwd=tmp_path)
    children = [wait_ready(process) for _ in range(3)]
    os.killpg(process.pid, signal.SIGTERM)
    status, _, stderr = finish(process)
    assert status == -signal.SIGTERM
    assert files(tmp_path) == sorted(f"out.{child}.hatchet" for child in children)
    (line,) = own_lines(stderr)
    assert line.startswith("recorded 3 processes, each as out.PID; view it with: ")


def test_program_that_restores_the_default_action(program: Path, tmp_path: Path) -> None:
    process = start('"$0" "default again"', program, cwd=tmp_path)
    status, _, stderr = finish(process)
    assert status == -signal.SIGTERM, stderr
    assert files(tmp_path) == ["out.hatchet"]
    assert tree(tmp_path / "out.hatchet") == RECORDED


INTERRUPTED = """
    import os, signal, sys, time, triton_proton
    with triton_proton.scope("before"): pass
    numbers = signal.SIGTERM, signal.SIGHUP
    assert all(signal.getsignal(number) is signal.SIG_DFL for number in numbers)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.signal(signal.SIGTERM, signal.SIG_IGN) is signal.SIG_DFL
    assert signal.signal(signal.SIGTERM, signal.SIG_DFL) is signal.SIG_IGN
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    except KeyboardInterrupt:
        with triton_proton.scope("interrupted"): pass
        if len(sys.argv) > 1: raise
    """


@pytest.mark.parametrize("words", [[], ["raise"]])
def test_program_sees_its_own_dispositions(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(textwrap.dedent(INTERRUPTED))
    process = start('"$0" "$@"', sys.executable, "x.py", *words, cwd=tmp_path)
    status, _, stderr = finish(process)
    assert status == (-signal.SIGINT if words else 0), stderr
    assert ("KeyboardInterrupt" in stderr) == bool(words)
    assert tree(tmp_path / "out.hatchet") == {"before": {}, "interrupted": {}}
    assert len(own_lines(stderr)) == 1


def test_descriptors_of_a_wrapper_are_its_own(program: Path, tmp_path: Path) -> None:
    """The program closes descriptors shared with the wrapper; each then prints a separate line."""
    line = "bash -c 'for fd in /proc/$$/fd/*; do n=${fd##*/}; ((n > 9)) && eval \"exec $n>&-\"; " \
        "done; exec 3> file; echo 3 >&3; \"$0\" once; cat file' \"$0\""
    process = start(line, program, cwd=tmp_path)
    child = read_number(process)  # the wrapper may end at once
    status, stdout, stderr = finish(process)
    assert status == 0 and stdout == "3\n", stderr
    assert tree(tmp_path / f"out.{child}.hatchet") == RECORDED
    assert any(re.search(rf"out\.{child}\.hatchet", line) for line in own_lines(stderr))
