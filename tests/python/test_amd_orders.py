"""AMD: every order of HIP, other tools and Proton, with every rocprofiler-sdk and set of libraries.

Each has all kernels, or a failure and a message with the remedy. None exits with status 0 and an
empty profile. The libraries are fakes, and their behaviors name their sources (tests/fake). If
PROTON_TEST_ROCPROFILER_REGISTER names the directory that tools/rocprofiler_register.py has made, C
programs run with the real librocprofiler-register, too.
"""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from built import BUILD, FAKES
from cmd_support import environment, executable
from fake_driver import CC
from step_program import build
from support import load, walk
from test_rocm_wheels import PACKAGE

LIBPROTON = BUILD / "src" / "libproton.so"
pytestmark = [
    pytest.mark.skipif(not (FAKES / "libtorch_cpu.so").exists(), reason="no fake libraries"),
    pytest.mark.skipif(CC is None, reason="no C compiler"),
    pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="the default is CUDA here"),
    pytest.mark.skipif(os.path.exists("/dev/kfd"), reason="this machine has an AMD GPU"),
]

REAL = os.environ.get("PROTON_TEST_ROCPROFILER_REGISTER")
REGISTER = "librocprofiler-register.so.0"
KERNELS = 3
WAYS = ["API", "C", "proton script", "proton -- program"]
VERSIONS = ["10000", "10201", "10302", "10305"]

# Steps before and after the start of the session; under `proton` all of them are after it.
ORDERS = {
    "ours first": ([], ["hip"]),
    "HIP first": (["hip"], []),
    "HIP first, with a queue": (["queue"], []),
    "a queue, then a client like XLA": (["queue", "xla"], []),
    "Kineto, then a queue": (["torch", "queue"], ["profiler"]),
    "torch, which registers Kineto": (["torch"], ["profiler"]),
    "torch without HIP": (["torch-alone"], ["hip", "profiler"]),
    "torch after ours": ([], ["torch", "profiler"]),
    "a client like XLA": (["xla"], ["hip"]),
}
ALONE = {"HIP alone first": (["hip", "gpu"], []), "HIP alone later": ([], ["hip", "gpu"])}
# The SDK does not see the queue; or it does since 1.3.2, or then it is too late to know that.
OLD_QUEUE = ["HIP first, with a queue", "a queue, then a client like XLA"]
LOCKED = ["torch, which registers Kineto", "Kineto, then a queue", "a client like XLA", *OLD_QUEUE]

# The files of each library, in the order: HIP, SDK, register, roctracer, roctx.
SETS = {
    "torch": (
        "site-packages/torch/lib",
        ["libamdhip64.so", "librocprofiler-sdk.so", "libroctracer64.so", "libroctx64.so"],
    ),
    "TheRock": (
        "site-packages/_rocm_sdk_core/lib",
        ["libamdhip64.so.7", "librocprofiler-sdk.so.1", "libroctracer64.so.4", "libroctx64.so.4"],
    ),
    "/opt/rocm": (
        "rocm/lib",
        ["libamdhip64.so.7", "librocprofiler-sdk.so.1", "libroctracer64.so.4", "libroctx64.so.4"]
        + ["libamdhip64.so", "librocprofiler-sdk.so", "libroctracer64.so", "libroctx64.so"],
    ),
}
FAKE_OF = {"libamdhip64": "hip", "librocprofiler-sdk": "rocprofiler_sdk"}
FAKE_OF |= {"libroctracer64": "roctracer", "libroctx64": "roctx"}

STEPS = r"""
    #include <fcntl.h>
    #include <stdint.h>
    #include <sys/mman.h>
    #include "fake/fake_sdk.h"

    static int has_queue;
    static int is_old; /* it precedes the SDK */

    static void *call(void *library, const char *name)
    {
        void *(*function)(void) = (void *(*)(void))dlsym(library, name);

        return function ? function() : NULL;
    }

    static void *named(const char *variable, int flags)
    {
        void *library = dlopen(getenv(variable), RTLD_LAZY | flags);

        if (!library && !(flags & RTLD_NOLOAD)) {
            fprintf(stderr, "%s\n", dlerror());
            abort();
        }
        return library;
    }

    static void use_hip(void)
    {
        call(named("PROTON_HIP_PATH", 0), "fake_hip_initialize");
    }

    static int open_device(void)
    {
        return open(getenv("PROTON_KFD_DEVICE"), O_RDWR);
    }

    /* The HSA runtime maps the page of doorbells with a GPU's first queue (libhsakmt, queues.c). */
    static void use_queue(void)
    {
        void *sdk = named("FAKE_SDK_PATH", RTLD_NOLOAD);
        int device = open_device();

        use_hip();
        if (has_queue)
            return;
        if (mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, device,
                 (off_t)(3ull << 62)) == MAP_FAILED)
            abort();
        close(device);
        has_queue = 1;
        is_old = !sdk || (uint32_t)(uintptr_t)call(sdk, "fake_sdk_started") == 0;
    }

    /* HIP tells each tool of a launch. */
    static void launch_in(void *library)
    {
        struct fake_launch one = {.call = CUPTI_CALL_LAUNCH_KERNEL, .name = "k",
                                  .context = &is_old, .records = 1,
                                  .start_ns = 1000, .end_ns = 2000};

        if (library)
            ((unsigned (*)(const struct fake_launch *))dlsym(library, "fake_launch"))(&one);
    }

    /* HIP's initialization takes longer than the backend needs to find it. */
    static void await_roctracer(void *library)
    {
        uint32_t (*calls)(const char *) = (uint32_t (*)(const char *))dlsym(library, "fake_calls");

        for (int i = 0; i < 500 && !calls("roctracer_enable_op_activity_expl"); i++)
            usleep(1000);
    }

    static void launch(void)
    {
        void *sdk = named("FAKE_SDK_PATH", RTLD_NOLOAD);
        void *tracer = named("FAKE_TRACER_PATH", RTLD_NOLOAD);

        use_hip();
        if (tracer)
            await_roctracer(tracer);
        if (sdk && is_old)
            ((void (*)(bool))dlsym(sdk, "fake_sdk_queues_exist"))(true);
        launch_in(sdk);
        launch_in(tracer);
    }

    static int do_hip_step(const char *step)
    {
        if (strcmp(step, "hip") == 0) {
            use_hip();
        } else if (strcmp(step, "queue") == 0) {
            use_queue();
        } else if (strncmp(step, "torch", 5) == 0) { /* its library needs that of the SDK */
            named("FAKE_SDK_PATH", RTLD_GLOBAL);
            named("FAKE_TORCH_PATH", RTLD_GLOBAL);
            if (!step[5])
                use_hip();
        } else if (strcmp(step, "profiler") == 0) {
            call(named("FAKE_TORCH_PATH", 0), "fake_kineto_start");
            printf("Kineto %d\n", (bool)((uintptr_t)call(named("FAKE_TORCH_PATH", 0),
                                         "fake_kineto_is_registered") & 0xff));
            fflush(stdout);
        } else if (strcmp(step, "gpu") == 0) { /* the HSA runtime opens it */
            open_device();
        } else if (strcmp(step, "xla") == 0) {
            call(named("FAKE_OTHER_PATH", 0), "fake_kineto_start");
        } else if (strcmp(step, "site") == 0) {
            dlopen(getenv("FAKE_SITE_PATH"), RTLD_LAZY);
        } else {
            launch();
        }
        return -1;
    }

    #ifdef IS_LIBRARY
    static int do_step(char **words)
    {
        return do_hip_step(words[0]);
    }

    __attribute__((visibility("default"))) void step(const char *name)
    {
        do_hip_step(name);
    }
    #else
    #include <libproton/proton.h>

    static int check(int status, const struct proton_error *err)
    {
        if (status != PROTON_OK)
            fprintf(stderr, "%s\n", err->text);
        return status == PROTON_OK ? -1 : 1;
    }

    static int do_step(char **words)
    {
        struct proton_session_options options = {.size = sizeof(options), .name = "p"};
        static int session;
        struct proton_error err;

        if (strcmp(words[0], "start") == 0)
            return check(proton_start(&options, &session, &err), &err);
        if (strcmp(words[0], "profiler") == 0)
            proton_prepare();
        if (strcmp(words[0], "finish") == 0)
            return check(proton_finalize(session, NULL, &err), &err);
        return do_hip_step(words[0]);
    }
    #endif
    """
SCRIPT = """
import ctypes, os, sys
library = ctypes.CDLL(os.environ["FAKE_STEPS"])
for step in sys.argv[1:]:
    if step == "start":
        import triton_proton
        triton_proton.start("p")
    elif step == "finish":
        triton_proton.finalize()
    else:
        if step == "profiler":  # as _kineto.py does
            import triton_proton
            triton_proton._libproton.prepare()
        library.step(step.encode())
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    """Steps as a program, as a library, and as a script; and another tool."""
    directory = tmp_path_factory.mktemp("steps")
    build(directory / "a.out", STEPS, f"-L{LIBPROTON.parent}", "-lproton")
    build(directory / "libsteps.so", STEPS, "-DIS_LIBRARY", "-shared", "-fPIC")
    (directory / "script.py").write_text(SCRIPT)
    return directory


def link(path: Path, to: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)


def install(
    root: Path, kind: str, has_roctracer: bool = True, register: Path = FAKES / REGISTER
) -> dict[str, str]:
    """A machine with these libraries: variables."""
    directory, names = SETS[kind]
    files: dict[str, Path] = {}
    for name in names:
        stem = name.split(".")[0]
        if stem != "libroctracer64" or has_roctracer:
            link(root / directory / name, FAKES / f"libfake_{FAKE_OF[stem]}.so")
        files.setdefault(stem, root / directory / name)
    link(root / directory / REGISTER, register)
    link(root / "site-packages/torch/lib/libtorch_cpu.so", FAKES / "libtorch_cpu.so")
    # A copy: another tool with the same code.
    other = root / "site-packages" / "xla" / "libxla.so"
    other.parent.mkdir()
    other.write_bytes((FAKES / "libtorch_cpu.so").read_bytes())
    link(root / "site-packages" / "numpy" / "libnumpy.so", FAKES / "libfake_roctx.so")
    found = {
        "PROTON_HIP_PATH": str(files["libamdhip64"]),
        "FAKE_SDK_PATH": str(files["librocprofiler-sdk"]),
        "FAKE_TRACER_PATH": str(files["libroctracer64"]),
        "FAKE_TORCH_PATH": str(root / "site-packages/torch/lib/libtorch_cpu.so"),
        "FAKE_OTHER_PATH": str(other),
        "FAKE_SITE_PATH": str(root / "site-packages" / "numpy" / "libnumpy.so"),
        "ROCM_PATH": str(root / "rocm"),
        "PROTON_KFD_DEVICE": "/dev/zero",
    }
    if kind == "TheRock":
        package = root / "site-packages" / "rocm_sdk"
        package.mkdir()
        (package / "__init__.py").write_text(PACKAGE)
        (package / "lib").symlink_to(root / directory)
        found["PYTHONPATH"] = str(root / "site-packages")
    return found


def command(way: str, programs: Path, order: str) -> list[str]:
    before, after = (ORDERS | ALONE).get(order, ([], []))
    steps = ["site", *before, "start", *after, *["launch"] * KERNELS, "finish"]
    if not before + after:  # no session
        steps = [order]
    of_target = [step for step in steps if step not in ("start", "finish")]
    if way == "API":
        return [sys.executable, str(programs / "script.py"), *steps]
    if way == "C":
        return [str(programs / "a.out"), *steps]
    if way == "C with the real library":  # which needs the libc of its distribution
        loader = [f"{REAL}/ld-linux-x86-64.so.2", "--library-path", f"{REAL}:{LIBPROTON.parent}"]
        return [*loader, str(programs / "a.out"), *steps]
    target = ["script.py"] if way == "proton script" else ["--", "a.out"]
    target[-1] = str(programs / target[-1])
    return [executable("proton"), "-n", "p", *target, *of_target]


def go(way: str, programs: Path, order: str, root: Path, variables: dict[str, str], **changes):
    directory = root / order.replace(" ", "-")
    directory.mkdir(exist_ok=True)
    changes.setdefault("ROCPROFILER_REGISTER_LIBRARY", None)
    env = environment(
        **variables, **changes, PROTON_BACKEND=None, ROCP_TOOL_LIBRARIES=None,
        TRITON_INTERPRET=None, FAKE_STEPS=str(programs / "libsteps.so"),
        LD_LIBRARY_PATH=str(LIBPROTON.parent),
    )
    if way.startswith("proton"):
        # The command looks next to itself for wheels; it is not in these site-packages.
        env["TRITON_ROCPROFILER_SDK_LIBRARY"] = variables["FAKE_SDK_PATH"]
    return subprocess.run(
        command(way, programs, order), cwd=directory, env=env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120,
    )


def kernels(directory: Path) -> int:
    paths = list(directory.glob("*.hatchet"))
    return sum(
        node["metrics"].get("count", 0)
        for path in paths
        for names, node in walk(load(path))
        if names[-1] == "k"
    )


def names_roctracer(done) -> bool:
    return "recording with roctracer" in done.stderr


def judge(way: str, order: str, version: str, done, count: int) -> str | None:
    """The complaint; None if all is well."""
    is_command = way.startswith("proton")
    if done.returncode < 0:
        return f"signal {-done.returncode}"
    if order == OLD_QUEUE[1] and not is_command and version >= "10302":
        # The start cannot know that this tool was late, too: the end is an error.
        has_remedy = "import Proton before the first use of the GPU" in done.stderr
        return None if has_remedy and done.returncode == 1 else "an old queue: no remedy"
    if (done.returncode, count) != (0, KERNELS):
        return f"status {done.returncode}, {count} kernels"
    is_late = not is_command and order in (LOCKED if version < "10302" else OLD_QUEUE)
    if names_roctracer(done) != is_late:
        return "no roctracer" if is_late else "roctracer"
    if "profiler" in sum(ORDERS[order], []):
        is_deaf = version < "10302" and order == "torch after ours" and not is_command
        if ("Kineto 1" in done.stdout) == is_deaf:
            return "Kineto"
    return None


def expect_all(way: str, programs: Path, root: Path, variables: dict[str, str], version: str):
    def run(order: str):
        done = go(way, programs, order, root, variables, FAKE_SDK_VERSION=version)
        count = kernels(root / order.replace(" ", "-"))
        complaint = judge(way, order, version, done, count)
        return complaint and f"{order}: {complaint}\n{done.stdout}{done.stderr}"

    with ThreadPoolExecutor(2) as pool:
        complaints = [complaint for complaint in pool.map(run, ORDERS) if complaint]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_order_has_all_kernels_or_a_message(version, kind, way, programs, tmp_path):
    expect_all(way, programs, tmp_path, install(tmp_path, kind), version)


@pytest.mark.skipif(not REAL, reason="PROTON_TEST_ROCPROFILER_REGISTER is not set")
@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_real_librocprofiler_register_does_as_the_fake(version, kind, programs, tmp_path):
    variables = install(tmp_path, kind, register=Path(str(REAL)) / REGISTER)
    expect_all("C with the real library", programs, tmp_path, variables, version)


@pytest.mark.parametrize("register", [FAKES / REGISTER, *([Path(REAL) / REGISTER] if REAL else [])])
def test_only_a_child_that_is_not_given_the_librarys_name_is_aborted(register, programs, tmp_path):
    """The registration sets the first variable; wheels have only versioned names."""
    way = "C" if register.parent == FAKES else "C with the real library"
    variables = install(tmp_path, "TheRock", register=register)
    forced = {"ROCPROFILER_REGISTER_FORCE_LOAD": "1"}
    done = go(way, programs, "hip", tmp_path, variables, **forced)
    assert done.returncode == -signal.SIGABRT
    assert "rocprofiler_set_api_table" in done.stderr
    named = {"ROCPROFILER_REGISTER_LIBRARY": variables["FAKE_SDK_PATH"]}
    done = go(way, programs, "hip", tmp_path, variables, **forced, **named)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ALONE)
def test_a_hip_that_gives_its_functions_to_no_tool_is_named(order, way, programs, tmp_path):
    """As Debian builds it. Nothing is recorded, and that is a failure."""
    variables = install(tmp_path, "/opt/rocm", has_roctracer=False)
    done = go(way, programs, order, tmp_path, variables, FAKE_HIP_ALONE="1")
    assert done.returncode == 1, done.stderr
    assert "librocprofiler-register" in done.stderr


@pytest.mark.parametrize("way", ["API", "C"])
@pytest.mark.parametrize("order", ["a client like XLA", OLD_QUEUE[0]])
def test_without_roctracer_a_registration_that_came_too_late_is_an_error(
    order, way, programs, tmp_path
):
    variables = install(tmp_path, "TheRock", has_roctracer=False)
    done = go(way, programs, order, tmp_path, variables, FAKE_SDK_VERSION="10201")
    assert done.returncode == 1
    assert "run the program with the command `proton`" in done.stderr
    assert not list(tmp_path.glob("*/*.hatchet"))
