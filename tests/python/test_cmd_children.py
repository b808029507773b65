"""`proton` and CUDA: the program, its children, ways to load the recorder; with a fake driver."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cmd_support import executable, own_lines, proton, run
from fake_driver import CC, fake_environment, libraries
from step_program import build, try_to_build
from support import run_command
from test_cmd_program import libproton

pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")

STEPS = r"""
    #include "fake/fake_cupti.h"
    #ifdef WITH_PROTON
    #include <libproton/proton.h>
    #endif

    static void *find(const char *variable, const char *name)
    {
        void *handle = dlopen(getenv(variable), RTLD_NOW);
        void *symbol = handle ? dlsym(handle, name) : NULL;

        if (!symbol) {
            fprintf(stderr, "%s\n", dlerror());
            exit(99);
        }
        return symbol;
    }

    static void launch(const char *name, unsigned records)
    {
        struct fake_launch one = {.call = CUPTI_CALL_LAUNCH_KERNEL, .name = name,
                                  .context = &one, .records = records,
                                  .start_ns = 1000, .end_ns = 2000};

        ((unsigned (*)(const struct fake_launch *))find("PROTON_CUPTI_PATH", "fake_launch"))(&one);
    }

    static int do_step(char **words)
    {
        const char *step = words[0];

        if (strcmp(step, "init") == 0) {
            ((int (*)(unsigned))find("PROTON_CUDA_PATH", "cuInit"))(0);
        } else if (strcmp(step, "launch") == 0) {
            launch("kernel", 1);
        } else if (strcmp(step, "silent") == 0) {
            launch("kernel", 0);
        } else if (strcmp(step, "exec") == 0) {
            words[0] = program;
            execv(program, words);
        } else if (strcmp(step, "chdir") == 0) {
            if (chdir("/") != 0)
                return 98;
        } else if (strcmp(step, "environment") == 0) {
            system("env | grep -E 'PROTON_RUN|CUDA_INJ|LD_PRE' | sed 's/=.*//' | sort");
        } else if (strcmp(step, "sleep") == 0) {
            usleep(800000);
        } else if (strcmp(step, "hold") == 0) {
            puts("ready");
            fflush(stdout);
            getchar();
        } else if (strcmp(step, "_exit") == 0) {
            _exit(8);
        } else if (strcmp(step, "abort") == 0) {
            abort();
        } else if (strcmp(step, "kill") == 0) {
            kill(getpid(), 9);
        } else if (strcmp(step, "segfault") == 0) {
            *(volatile int *)0 = 0;
    #ifdef WITH_PROTON
        } else if (strcmp(step, "start") == 0) {
            const struct proton_session_options own = {.size = sizeof(own), .name = "own"};
            struct proton_error err;

            if (proton_start(&own, NULL, &err) != PROTON_OK)
                puts(err.text);
        } else if (strcmp(step, "scope") == 0) {
            uint64_t scope = proton_scope_enter("step");

            launch("kernel", 1);
            proton_scope_exit(scope, NULL);
    #endif
        }
        return -1;
    }
    """


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build(tmp_path_factory.mktemp("program") / "a.out", STEPS)


def counts(path: Path) -> dict[str, int]:
    """Executions of each kernel, by its path."""
    found = {}

    def visit(node: dict, above: str) -> None:
        for child in node["children"]:
            name = above + child["frame"]["name"]
            if child["metrics"].get("count"):
                found[name] = child["metrics"]["count"]
            visit(child, name + "/")

    visit(json.loads(path.read_text())[0], "")
    return found


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.suffix != ".py")


def children(stdout: str) -> list[int]:
    return [int(pid) for pid in re.findall(r"^child (\d+) 0$", stdout, re.MULTILINE)]


def go(tmp_path: Path, *words: str, **variables: str | None):
    return proton("-n", "p", *words, cwd=tmp_path, env=fake_environment(**variables))


def test_a_program_is_recorded_once(program: str, tmp_path: Path) -> None:
    """It is entered before main(), and the driver comes with the same library."""
    result = go(tmp_path, "--", program, "init", "launch", "launch", "init")
    assert result.returncode == 0, result.stderr
    assert files(tmp_path) == ["p.hatchet"]
    assert counts(tmp_path / "p.hatchet") == {"kernel": 2}
    (line,) = own_lines(result.stderr)
    assert line.startswith("recorded 2 kernel launches") and line.endswith("p.hatchet")


def test_a_program_that_does_not_use_cuda(program: str, tmp_path: Path) -> None:
    """Nothing of CUPTI is called then: each call that could fail would."""
    result = go(tmp_path, "--", program, FAKE_CUPTI_FAIL="cuptiSubscribe=39")
    assert result.returncode == 0, result.stderr
    assert counts(tmp_path / "p.hatchet") == {}
    (line,) = own_lines(result.stderr)
    assert line.startswith("nothing was recorded: no kernel ran")


@pytest.mark.parametrize("call", ["cuptiSubscribe=39", "cuptiActivityEnable=35"])
def test_a_cupti_that_cannot_be_used(call: str, program: str, tmp_path: Path) -> None:
    """The failure appears when CUDA is initialized: the program runs, but the exit status is 1."""
    result = go(tmp_path, "--", program, "init", "launch", FAKE_CUPTI_FAIL=call)
    assert result.returncode == 1, result.stderr
    first, last = own_lines(result.stderr)
    assert call.split("=")[0] in first
    assert last == f"no GPU activity was recorded: {first}"
    assert files(tmp_path) == ["p.hatchet"]


def test_a_script_that_keeps_the_driver_from_telling(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PYTHON_WITHOUT_INJECTION)
    result = go(tmp_path, "script.py")
    assert "CUDA_INJECTION64_PATH" in "".join(own_lines(result.stderr))


@pytest.mark.parametrize("way", ["spawn", "fork"])
def test_a_child_has_its_own_file(way: str, program: str, tmp_path: Path) -> None:
    first = ["init", "launch"] if way == "spawn" else []
    result = go(tmp_path, "--", program, *first, way, "chdir", "init", "launch", "launch")
    assert result.returncode == 0, result.stderr
    (child,) = children(result.stdout)
    (line,) = own_lines(result.stderr)
    if first:
        assert files(tmp_path) == sorted([f"p.{child}.hatchet", "p.hatchet"])
        assert counts(tmp_path / f"p.{child}.hatchet") == {"kernel": 2}
        assert counts(tmp_path / "p.hatchet") == {"kernel": 1}
        assert line.endswith("; recorded 1 child process too, as p.PID")
    else:  # the first process is a wrapper: the child has the name that was asked for
        assert files(tmp_path) == ["p.hatchet"]
        assert counts(tmp_path / "p.hatchet") == {"kernel": 2}
        assert line.endswith("/p.hatchet")  # the child has changed its directory


def test_a_child_replaces_no_file_of_an_equal_process_id(program: str, tmp_path: Path) -> None:
    """Two containers that share a volume number their processes alike."""
    if subprocess.run(["unshare", "-pf", "true"], capture_output=True, timeout=300).returncode:
        pytest.skip("a name space of process ids needs root")
    words = [program, "init", "launch", "spawn", "init", *["launch"] * 2]
    command = ["unshare", "-pf", executable("proton"), "-n", "p", "--"]
    (child,) = children(run([*command, *words], tmp_path, env=fake_environment()).stdout)
    (again,) = children(run([*command, *words, "launch"], tmp_path, env=fake_environment()).stdout)
    assert child == again
    assert files(tmp_path) == sorted(["p.hatchet", f"p.{child}.hatchet", f"p.{child}.2.hatchet"])
    assert counts(tmp_path / f"p.{child}.hatchet") == {"kernel": 2}
    assert counts(tmp_path / f"p.{child}.2.hatchet") == {"kernel": 3}


def test_children_of_children(program: str, tmp_path: Path) -> None:
    result = go(tmp_path, "--", program, "spawn", "init", "launch", "spawn", "init", "launch")
    found = children(result.stdout)
    assert len(found) == 2
    for child in found:
        assert counts(tmp_path / f"p.{child}.hatchet") == {"kernel": 1}


def test_a_child_that_runs_no_kernel_leaves_no_file(program: str, tmp_path: Path) -> None:
    result = go(tmp_path, "--", program, "init", "launch", "spawn", "init")
    assert files(tmp_path) == ["p.hatchet"]
    assert len(own_lines(result.stderr)) == 1


def test_a_program_that_becomes_another(program: str, tmp_path: Path) -> None:
    """A shell script that ends with exec: the same process, so the same file."""
    result = go(tmp_path, "--", "sh", "-c", f"exec {program} init launch")
    assert result.returncode == 0
    assert counts(tmp_path / "p.hatchet") == {"kernel": 1}


def test_no_children(program: str, tmp_path: Path) -> None:
    result = go(tmp_path, "--no-children", "--", program, "environment", "spawn", "init", "launch")
    assert result.stdout.startswith("child ")
    assert files(tmp_path) == ["p.hatchet"]
    assert counts(tmp_path / "p.hatchet") == {}


def test_the_environment_of_the_program(program: str, tmp_path: Path) -> None:
    result = go(tmp_path, "--", program, "environment", LD_PRELOAD=None)
    names = result.stdout.split()
    assert "CUDA_INJECTION64_PATH" in names and "LD_PRELOAD" not in names
    result = go(tmp_path, "-b", "host", "--", program, "environment", LD_PRELOAD=None)
    assert result.stdout == ""


def test_a_tool_of_the_users_is_left_alone(program: str, tmp_path: Path) -> None:
    result = go(
        tmp_path, "--", program, "init", "launch", "spawn", "init", "launch",
        CUDA_INJECTION64_PATH="/their/tool.so",
    )  # fmt: skip
    assert result.returncode == 0
    assert files(tmp_path) == ["p.hatchet"]
    assert counts(tmp_path / "p.hatchet") == {"kernel": 1}
    assert own_lines(result.stderr)[0] == (
        "CUDA_INJECTION64_PATH is already set to /their/tool.so; child processes will not be "
        "recorded"
    )


@pytest.mark.parametrize(
    "how, status",
    [
        ("_exit", 8),
        ("abort", -signal.SIGABRT),
        ("kill", -signal.SIGKILL),
        ("segfault", -signal.SIGSEGV),
    ],
)
def test_a_program_that_dies_leaves_its_data(
    how: str, status: int, program: str, tmp_path: Path
) -> None:
    result = go(tmp_path, "--", program, "init", "launch", "sleep", how)
    assert result.returncode == status
    assert files(tmp_path) == ["p.proton"]
    shown = run([executable("proton-viewer"), "-m", "time/s", "p.proton"], tmp_path)
    assert shown.returncode == 0 and "kernel" in shown.stdout
    assert "incomplete recording" in shown.stderr


def test_a_child_that_dies_leaves_its_data(program: str, tmp_path: Path) -> None:
    result = go(tmp_path, "--", program, "spawn", "init", "launch", "abort")
    assert result.returncode == 0
    (child,) = re.findall(r"^child (\d+)", result.stdout)
    assert files(tmp_path) == sorted([f"p.{child}.proton", "p.hatchet"])


def test_a_program_that_bears_no_preload(tmp_path: Path) -> None:
    """AddressSanitizer wants to come first; the driver brings the recorder in all the same."""
    if try_to_build(tmp_path / "a.out", STEPS, "-fsanitize=address").returncode != 0:
        pytest.skip("no AddressSanitizer")
    options = "detect_leaks=0"
    # Only a runtime that is a library wants the first place.
    if "libasan" not in run_command(["ldd", tmp_path / "a.out"], status=None).stdout:
        pytest.skip("its runtime is not a library")
    work = tmp_path / "work"
    work.mkdir()
    result = go(
        work, "--", str(tmp_path / "a.out"), "init", "launch", "spawn", "init", "launch",
        ASAN_OPTIONS=options,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "when the program initializes CUDA" in own_lines(result.stderr)[0]
    assert counts(work / "p.hatchet") == {"kernel": 1}
    (child,) = children(result.stdout)
    assert counts(work / f"p.{child}.hatchet") == {"kernel": 1}
    refused = go(work, "-b", "host", "--", str(tmp_path / "a.out"))
    assert refused.returncode == 2
    assert "rules out LD_PRELOAD" in own_lines(refused.stderr)[0]


@pytest.fixture(scope="module")
def linked_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program, linked with Proton."""
    path = tmp_path_factory.mktemp("linked") / "a.out"
    library = libproton()
    built = try_to_build(path, STEPS, "-DWITH_PROTON", str(library), f"-Wl,-rpath,{library.parent}")
    assert built.returncode == 0, built.stderr
    return str(path)


RUN = "import subprocess, sys\nsubprocess.run(sys.argv[1:], check=True, timeout=60)\n"


def test_a_child_that_profiles_itself_is_left_alone(linked_program: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(RUN)
    go(tmp_path, "script.py", linked_program, "start", "init", "launch")
    assert files(tmp_path) == ["own.hatchet", "p.hatchet"]
    assert counts(tmp_path / "own.hatchet") == {"kernel": 1}
    (tmp_path / "own.hatchet").unlink()
    # The other way round, or after `--`, the session is the command's.
    go(tmp_path, "script.py", linked_program, "init", "start", "launch")
    names = [re.sub(r"\d+", "PID", name) for name in files(tmp_path)]
    assert names == ["p.PID.hatchet", "p.hatchet"]
    go(tmp_path, "--", linked_program, "init", "launch", "spawn", "start", "init", "launch")
    assert "own.hatchet" not in files(tmp_path)


def test_a_child_records_its_own_range(linked_program: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(RUN)
    steps = ["init", "launch", "scope", "launch", "scope"]
    result = go(tmp_path, "--range", "step", "script.py", linked_program, *steps)
    assert result.returncode == 0, result.stderr
    (name,) = files(tmp_path)
    assert re.fullmatch(r"p\.\d+\.hatchet", name)
    assert counts(tmp_path / name) == {"step/kernel": 1}


PYTHON = """
import ctypes, multiprocessing, os, subprocess, sys
cuda = ctypes.CDLL(os.environ["PROTON_CUDA_PATH"])
program = os.environ["PROGRAM"]

def child():
    cuda.cuInit(0)
    from triton_proton import scope
    with scope("in the child"):
        pass
    print("child", os.getpid(), 0, flush=True)

if __name__ == "__main__":
    cuda.cuInit(0)
    if sys.argv[1] == "spawn":
        process = multiprocessing.get_context("spawn").Process(target=child)
        process.start()
        process.join()
    else:
        subprocess.run([program, "spawn", "init", "launch"], check=True)
    print(sorted(n for n in os.environ if n.startswith(("PROTON_RUN", "CUDA_INJ"))))
"""


PYTHON_WITHOUT_INJECTION = """
import ctypes, os
del os.environ["CUDA_INJECTION64_PATH"]
ctypes.CDLL(os.environ["PROTON_CUDA_PATH"]).cuInit(0)
"""

PYTHON_FORK = """
import ctypes, multiprocessing, os, sys
cuda = ctypes.CDLL(os.environ["PROTON_CUDA_PATH"])

def child():
    assert cuda.cuInit(0) == 0
    from triton_proton import scope
    with scope("in the child", {"mark": 1}):
        pass
    print("child", os.getpid(), 0, flush=True)

if __name__ == "__main__":
    if sys.argv[1] == "fork":
        if os.fork() == 0:
            child()
            sys.exit()
        assert os.wait()[1] == 0
    else:
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join()
        assert process.exitcode == 0
    assert cuda.cuInit(0) == 0
"""


@pytest.mark.parametrize("way", ["fork", "multiprocessing"])
def test_a_script_that_forks_before_it_uses_cuda(way: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PYTHON_FORK)
    result = go(tmp_path, "script.py", way)
    assert result.returncode == 0, result.stderr
    (pid,) = children(result.stdout)
    # Workers of multiprocessing leave by os._exit(): their data stays in the working file.
    suffix = "hatchet" if way == "fork" else "proton"
    assert files(tmp_path) == sorted(["p.hatchet", f"p.{pid}.{suffix}"])
    shown = run([executable("proton-viewer"), "-m", "mark", f"p.{pid}.{suffix}"], tmp_path)
    assert "in the child" in shown.stdout, shown.stderr


@pytest.mark.parametrize("way", ["spawn", "program"])
def test_children_of_a_script(way: str, program: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PYTHON)
    result = go(tmp_path, "script.py", way, PROGRAM=program)
    assert result.returncode == 0, result.stderr
    (pid,) = children(result.stdout)
    assert f"p.{pid}.hatchet" in files(tmp_path)
    root = json.loads((tmp_path / f"p.{pid}.hatchet").read_text())[0]
    expected = "in the child" if way == "spawn" else "kernel"
    assert [child["frame"]["name"] for child in root["children"]] == [expected]
    assert "p.hatchet" in files(tmp_path)


def test_children_of_a_script_that_wants_none(program: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PYTHON)
    result = go(tmp_path, "--no-children", "script.py", "program", PROGRAM=program)
    assert files(tmp_path) == ["p.hatchet"]
    assert result.stdout.endswith("[]\n")
    result = go(tmp_path, "script.py", "program", PROGRAM=program, TRITON_PROTON_DISABLE="1")
    assert result.stdout.endswith("[]\n")


def test_launches_without_any_record_are_an_error(program: str, tmp_path: Path) -> None:
    result = go(tmp_path, "--", program, "init", "silent", "silent")
    assert result.returncode == 1, result.stderr
    line = own_lines(result.stderr)[-1]
    assert line.startswith("no activity records were received for 2 kernel launches")
    assert "NVreg_RestrictProfilingToAdminUsers" in line
    assert files(tmp_path) == ["p.hatchet"]  # scopes and metrics are in it
    # A program that fails reports that itself.
    assert go(tmp_path, "--", program, "init", "silent", "_exit").returncode == 8
