"""`proton -- program` on an NVIDIA GPU: a C program, its children, and how it ends.

    python -m pytest tests/gpu

Needs a C compiler, the driver and the installed package; no CUDA toolkit: the program uses the
driver's API and brings its kernel as PTX.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

CC = shutil.which(os.environ.get("CC", "cc"))
if not CC or not (os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")):
    pytest.skip("for NVIDIA GPUs only: the program has PTX", allow_module_level=True)

PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry spin(.param .u64 out)\n"
    "{\n"
    "    .reg .pred %p<2>;\n"
    "    .reg .b32 %r<3>;\n"
    "    .reg .b64 %rd<3>;\n"
    "    ld.param.u64 %rd1, [out];\n"
    "    cvta.to.global.u64 %rd2, %rd1;\n"
    "    mov.u32 %r1, 0;\n"
    "again:\n"
    "    add.s32 %r1, %r1, 1;\n"
    "    st.volatile.global.u32 [%rd2], %r1;\n"
    "    setp.lt.s32 %p1, %r1, 1000;\n"
    "    @%p1 bra again;\n"
    "    ret;\n"
    "}\n";

static void *driver;

#define CALL(name, types, ...)                                                    \
    do {                                                                          \
        int (*entry) types = (int (*) types)dlsym(driver, #name);                 \
        int result = entry ? entry(__VA_ARGS__) : -1;                             \
                                                                                  \
        if (result != 0) {                                                        \
            fprintf(stderr, #name ": %d\n", result);                              \
            exit(97);                                                             \
        }                                                                         \
    } while (0)

static void *function;
static unsigned long long memory;

static void prepare(void)
{
    void *context;
    void *module;
    int device;

    CALL(cuInit, (unsigned), 0);
    CALL(cuDeviceGet, (int *, int), &device, 0);
    CALL(cuDevicePrimaryCtxRetain, (void **, int), &context, device);
    CALL(cuCtxSetCurrent, (void *), context);
    CALL(cuModuleLoadData, (void **, const void *), &module, ptx);
    CALL(cuModuleGetFunction, (void **, void *, const char *), &function, module, "spin");
    CALL(cuMemAlloc_v2, (unsigned long long *, size_t), &memory, 4);
}

static void launch(int times)
{
    void *arguments[] = {&memory};

    for (int i = 0; i < times; i++)
        CALL(cuLaunchKernel,
             (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
              void **, void **),
             function, 2, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL);
}

int main(int argc, char **argv)
{
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    for (int i = 1; i < argc; i++) {
        const char *step = argv[i];

        if (strcmp(step, "init") == 0) {
            prepare();
        } else if (strncmp(step, "launch=", 7) == 0) {
            launch(atoi(step + 7));
        } else if (strcmp(step, "wait") == 0) {
            CALL(cuCtxSynchronize, (void));
        } else if (strcmp(step, "sleep") == 0) {
            sleep(2);
        } else if (strcmp(step, "fork") == 0 || strcmp(step, "spawn") == 0) {
            pid_t child = fork();
            int status;

            if (child) {
                waitpid(child, &status, 0);
                printf("child %d %d\n", (int)child, status);
                return 0;
            }
            argv[i] = argv[0];
            if (strcmp(step, "spawn") == 0)
                execv(argv[0], argv + i);
        } else if (strcmp(step, "_exit") == 0) {
            _exit(8);
        } else if (strcmp(step, "abort") == 0) {
            abort();
        } else if (strcmp(step, "kill") == 0) {
            kill(getpid(), 9);
        }
    }
    return 0;
}
"""


def command(name: str) -> str:
    place = os.environ.get("PROTON_TEST_BIN") or os.path.dirname(sys.executable)
    return shutil.which(name, path=place) or name


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> str:
    directory = tmp_path_factory.mktemp("program")
    source = directory / "program.c"
    source.write_text(PROGRAM)
    path = str(directory / "a.out")
    subprocess.run(
        [CC, "-D_GNU_SOURCE", "-w", "-o", path, str(source), "-ldl"], check=True, timeout=300
    )
    return path


@pytest.fixture
def go(program, tmp_path):
    """Runs `proton OPTIONS -- program STEPS` in the test's directory."""

    def run(*steps: str, options: tuple[str, ...] = (), status: int = 0, target=None):
        environment = dict(os.environ, PROTON_PYTHON=sys.executable)
        environment.pop("PROTON_BACKEND", None)
        environment.pop("PROTON_QUIET", None)
        result = subprocess.run(
            [command("proton"), "-n", "p", *options, "--", *(target or [program]), *steps],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
        )
        assert result.returncode == status, f"{result.returncode}\n{result.stderr}"
        return result

    return run


def count(path) -> int:
    """Executions of `spin`, which are all there may be."""

    def visit(node: dict) -> int:
        own = node["metrics"].get("count", 0)  # 0 at the root
        assert not own or node["frame"]["name"] == "spin", node["frame"]
        return own + sum(visit(c) for c in node["children"])

    with open(path, encoding="utf-8") as file:
        return visit(json.load(file)[0])


def names(tmp_path) -> list[str]:
    return sorted(os.listdir(tmp_path))


def test_every_kernel_of_a_program(go, tmp_path):
    result = go("init", "launch=1000")
    assert names(tmp_path) == ["p.hatchet"], result.stderr
    assert count(tmp_path / "p.hatchet") == 1000
    node = json.loads((tmp_path / "p.hatchet").read_text())[0]["children"][0]
    assert node["metrics"]["device_type"] == "CUDA"
    assert node["metrics"]["time (ns)"] > 1000 * 1000


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_children(way, go, tmp_path):
    first = ["init", "launch=3"] if way == "spawn" else []
    result = go(*first, way, "init", "launch=5")
    ((child, status),) = re.findall(r"^child (\d+) (\d+)", result.stdout, re.MULTILINE)
    assert status == "0", result.stderr
    if not first:  # a program that records nothing itself is taken for a wrapper
        assert names(tmp_path) == ["p.hatchet"], result.stderr
        assert count(tmp_path / "p.hatchet") == 5
        return
    assert names(tmp_path) == sorted(["p.hatchet", f"p.{child}.hatchet"]), result.stderr
    assert count(tmp_path / f"p.{child}.hatchet") == 5
    assert count(tmp_path / "p.hatchet") == 3


def test_a_program_that_bears_no_preload(go, tmp_path, tmp_path_factory):
    """The driver alone brings the recorder in."""
    path = tmp_path_factory.mktemp("asan") / "a.out"
    source = path.with_suffix(".c")
    source.write_text(PROGRAM)
    built = subprocess.run(
        [CC, "-D_GNU_SOURCE", "-w", "-fsanitize=address", "-o", path, source, "-ldl"],
        capture_output=True, timeout=300,
    )
    if built.returncode != 0:
        pytest.skip("no AddressSanitizer")
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0:protect_shadow_gap=0"
    try:
        go("init", "launch=7", target=[str(path)])
    finally:
        del os.environ["ASAN_OPTIONS"]
    assert count(tmp_path / "p.hatchet") == 7


def test_a_shell_that_becomes_the_program(go, program, tmp_path):
    go(target=["sh", "-c", f"exec {program} init launch=4"])
    assert count(tmp_path / "p.hatchet") == 4


@pytest.mark.parametrize(
    "how, status", [("_exit", 8), ("abort", -signal.SIGABRT), ("kill", -signal.SIGKILL)]
)
def test_a_program_that_dies_leaves_its_data(how, status, go, tmp_path):
    go("init", "launch=50", "wait", "sleep", how, status=status)
    assert names(tmp_path) == ["p.proton"]
    result = subprocess.run(
        [command("proton-viewer"), "-m", "count", "p.proton"], cwd=tmp_path, capture_output=True,
        text=True, check=True, timeout=300,
    )
    assert re.search(r"^\s*50 .*spin", result.stdout, re.MULTILINE), result.stdout
    assert "incomplete recording" in result.stderr


@pytest.mark.parametrize("way", ["spawn", "fork"])
def test_workers_of_a_script(way, tmp_path):
    """Python's own children, and PyTorch in them. Forked ones leave by os._exit()."""
    pytest.importorskip("torch")
    (tmp_path / "script.py").write_text(
        "import multiprocessing, os, torch\n"
        "def work(n):\n"
        "    x = torch.ones(1000, device='cuda')\n"
        "    for _ in range(n):\n"
        "        x.add_(1)\n"
        "    torch.cuda.synchronize()\n"
        "    print('child', os.getpid(), flush=True)\n"
        "if __name__ == '__main__':\n"
        f"    context = multiprocessing.get_context('{way}')\n"
        "    workers = [context.Process(target=work, args=(10,)) for _ in range(2)]\n"
        "    [w.start() for w in workers]\n"
        "    [w.join() for w in workers]\n"
    )
    environment = dict(os.environ, PROTON_PYTHON=sys.executable)
    environment.pop("PROTON_BACKEND", None)
    result = subprocess.run(
        [command("proton"), "-n", "p", "script.py"], cwd=tmp_path, env=environment,
        capture_output=True, text=True, check=True, timeout=300,
    )
    children = re.findall(r"^child (\d+)", result.stdout, re.MULTILINE)
    assert len(children) == 2, result.stderr
    for child in children:
        path = tmp_path / f"p.{child}.{'hatchet' if way == 'spawn' else 'proton'}"
        assert path.exists(), f"{names(tmp_path)}\n{result.stderr}"
        if way == "fork":
            continue
        text = path.read_text()
        assert "elementwise" in text
