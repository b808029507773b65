"""`proton` and HIP: programs and children into which ROCm loads the recorder.

With fakes. The program initializes HIP, which registers; librocprofiler-register loads
rocprofiler-sdk, which loads the tools that ROCP_TOOL_LIBRARIES names. For roctracer the program
acts as the HSA runtime: it loads the tools that HSA_TOOLS_LIB names and calls their OnLoad().
"""

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import fake_driver
from cmd_support import executable, own_lines, proton, run
from fake_driver import CC, hip_environment, sdk_library
from step_program import build
from test_cmd_children import children, counts, files

pytestmark = [
    pytest.mark.skipif(CC is None, reason="no C compiler"),
    pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="the default is CUDA here"),
]

SDK_TOOL = "libproton_rocprofiler.so"
HSA_TOOL = "libproton_hsa.so"
MISSING = "/nonexistent/library.so"

STEPS = r"""
    #include "fake/fake_cupti.h"

    static void *tools[8];
    static size_t count;

    static void load_tool(const char *path)
    {
        bool (*on_load)(void *, unsigned long long, unsigned long long, const char *const *);
        void *tool = dlopen(path, RTLD_LAZY);
        void *symbol = tool ? dlsym(tool, "OnLoad") : NULL;

        printf("tool %s %d\n", path, symbol != NULL);
        fflush(stdout);
        if (!symbol)
            return;
        on_load = (bool (*)(void *, unsigned long long, unsigned long long,
                            const char *const *))symbol;
        on_load(NULL, 1, 0, NULL);
        tools[count++] = tool;
    }

    /* A space separates, a backslash escapes. */
    static void load_tools(const char *names)
    {
        char path[4096];
        size_t length = 0;

        for (;; names++) {
            if (*names == '\\' && names[1]) {
                path[length++] = *++names;
            } else if (*names && *names != ' ') {
                path[length++] = *names;
            } else {
                path[length] = '\0';
                if (length)
                    load_tool(path);
                length = 0;
            }
            if (!*names)
                return;
        }
    }

    /* HIP registers, and initializes the HSA runtime, which loads its tools. */
    static void init(void)
    {
        void *hip = dlopen(getenv("PROTON_HIP_PATH"), RTLD_LAZY | RTLD_GLOBAL);

        ((void (*)(void))dlsym(hip, "fake_hip_initialize"))();
        if (getenv("HSA_TOOLS_LIB"))
            load_tools(getenv("HSA_TOOLS_LIB"));
    }

    /* Without tools HIP loads no library that takes launches. */
    static void launch(void)
    {
        struct fake_launch one = {.call = CUPTI_CALL_LAUNCH_KERNEL, .name = "kernel",
                                  .context = &one, .records = 1,
                                  .start_ns = 1000, .end_ns = 2000};
        void *library = dlopen(getenv("FAKE_LAUNCHES"), RTLD_LAZY | RTLD_NOLOAD);

        if (library)
            ((unsigned (*)(const struct fake_launch *))dlsym(library, "fake_launch"))(&one);
    }

    /* Without variables but those of the fakes. */
    static void restart(char **words)
    {
        static const char *const names[] = {"PROTON_HIP_PATH", "PROTON_ROCPROFILER_SDK_PATH",
                                            "FAKE_LAUNCHES"};
        char *few[4] = {NULL};

        for (int i = 0; i < 3; i++)
            asprintf(&few[i], "%s=%s", names[i], getenv(names[i]));
        words[0] = program;
        execve(program, words, few);
    }

    static int do_step(char **words)
    {
        const char *step = words[0];

        if (strcmp(step, "hip") == 0)
            dlopen(getenv("PROTON_HIP_PATH"), RTLD_NOW | RTLD_GLOBAL);
        else if (strcmp(step, "init") == 0)
            init();
        else if (strcmp(step, "shut") == 0)
            while (count)
                dlclose(tools[--count]);
        else if (strcmp(step, "launch") == 0)
            launch();
        else if (strcmp(step, "visible") == 0)
            printf("visible %d %d\n", dlsym(RTLD_DEFAULT, "rocprofiler_configure") != NULL,
                   dlsym(RTLD_DEFAULT, "OnLoad") != NULL);
        else if (strcmp(step, "clean") == 0)
            restart(words);
        return -1;
    }
    """


@functools.lru_cache(maxsize=None)
def program() -> str:
    return build(Path(tempfile.mkdtemp(prefix="proton-steps-")) / "a.out", STEPS)


class Machine:
    """A machine with the fake ROCm 7, or 6, and a directory for `proton` there."""

    def __init__(self, backend: str, directory: Path) -> None:
        self.backend = backend
        self.has_sdk = backend == "rocprofiler"
        self.directory = directory
        self.options = [] if self.has_sdk else ["-b", "roctracer"]  # of `proton`
        self.program = program()

    def environment(self, **changes: str | None) -> dict[str, str]:
        for name in ("HSA_TOOLS_LIB", "ROCP_TOOL_LIBRARIES", "ROCPROFILER_REGISTER_LIBRARY"):
            changes.setdefault(name, None)
        if not self.has_sdk:
            changes.setdefault("PROTON_ROCPROFILER_SDK_PATH", MISSING)
        return fake_driver.machine(self.backend, **changes)

    def go(self, *words: str, **changes: str | None):
        return proton("-n", "p", *words, cwd=self.directory, env=self.environment(**changes))

    def run_steps(self, *steps: str, **changes: str | None):
        return self.go(*self.options, "--", self.program, *steps, **changes)

    def counts(self, name: str = "p.hatchet") -> dict[str, int]:
        return counts(self.directory / name)

    def seen(self, *options: str, **changes: str | None) -> dict[str, str]:
        """Variables of the target that concern ROCm's tools."""
        script = "import json, os, sys; json.dump(dict(os.environ), open('env.json', 'w'))"
        (self.directory / "script.py").write_text(script)
        done = self.go(*options, "script.py", **changes)
        assert done.returncode == 0, done.stderr
        found = json.loads((self.directory / "env.json").read_text())
        return {name: value for name, value in found.items() if name.startswith(("ROC", "HSA"))}

    def write_parent(self) -> str:
        """A script with a child that launches."""
        command = [self.program, "init", "launch"]
        (self.directory / "script.py").write_text(
            f"import subprocess\nsubprocess.run({command!r}, check=True)\n"
        )
        return "script.py"


@pytest.fixture(params=["rocprofiler", "roctracer"])
def machine(request, tmp_path: Path) -> Machine:
    return Machine(request.param, tmp_path)


@pytest.fixture
def sdk(tmp_path: Path) -> Machine:
    return Machine("rocprofiler", tmp_path)


@pytest.fixture
def hsa(tmp_path: Path) -> Machine:
    return Machine("roctracer", tmp_path)


@pytest.mark.parametrize(
    "backend, options, changes",
    [
        ("rocprofiler", [], {"PROTON_ROCPROFILER_SDK_PATH": MISSING}),
        ("rocprofiler", [], {"PROTON_HIP_PATH": None}),
        ("rocprofiler", ["-b", "host"], {}),
        ("rocprofiler", ["--no-children"], {}),
        ("roctracer", ["-b", "roctracer", "--no-children"], {}),
        ("roctracer", ["-b", "host"], {}),
        ("roctracer", [], {"PROTON_ROCTRACER_PATH": MISSING}),
        ("roctracer", [], {"TRITON_PROTON_DISABLE": "1"}),
    ],
)
def test_nothing_is_set_where_hip_must_not_load_the_tool(backend, options, changes, tmp_path):
    """ROCm aborts a program with a tool and without rocprofiler-sdk."""
    if changes.get("PROTON_HIP_PATH", "") is None and os.path.exists("/dev/kfd"):
        pytest.skip("this machine has an AMD GPU")
    assert Machine(backend, tmp_path).seen(*options, **changes) == {}


def test_variables_of_an_outer_proton_do_not_pile_up(machine):
    script = (
        "import subprocess, sys\n"
        "sys.exit(subprocess.run([sys.argv[1], '-n', 'inner', '--', *sys.argv[2:]]).returncode)\n"
    )
    (machine.directory / "outer.py").write_text(script)
    words = ["outer.py", executable("proton"), machine.program, "init", "launch", "status"]
    done = machine.go(*machine.options, *words)
    assert done.returncode == 5, done.stderr
    assert done.stdout.count("tool ") == (0 if machine.has_sdk else 1)
    assert machine.counts("inner.hatchet") == {"kernel": 1}


def test_a_program_is_recorded_and_keeps_its_status(machine):
    done = machine.run_steps("init", "launch", "launch", "status")
    assert done.returncode == 5, done.stderr
    assert done.stdout.count("tool ") == (0 if machine.has_sdk else 1)
    assert files(machine.directory) == ["p.hatchet"]
    assert machine.counts() == {"kernel": 2}
    assert own_lines(done.stderr)[-1].startswith("recorded 2 kernel launches")


def test_a_program_that_does_not_use_hip_loads_nothing(machine):
    done = machine.run_steps("visible", "status")
    assert done.returncode == 5, done.stderr
    assert done.stdout == "visible 0 0\n"
    assert machine.counts() == {}


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_a_child_is_recorded_with_its_own_file(way, is_named, machine):
    machine.options = machine.options if is_named else []
    done = machine.run_steps(way, "init", "launch", "launch", "launch")
    assert done.returncode == 0, done.stderr
    (child,) = children(done.stdout)
    # The only process with kernels gets the name.
    assert files(machine.directory) == ["p.hatchet"]
    assert machine.counts() == {"kernel": 3}


def test_a_child_of_a_script_is_recorded(machine):
    done = machine.go(*machine.options, machine.write_parent())
    assert done.returncode == 0, done.stderr
    (profile,) = [path for path in machine.directory.glob("p.*.hatchet")]
    assert counts(profile) == {"kernel": 1}


def test_children_are_left_alone_on_request(machine):
    done = machine.go(*machine.options, "--no-children", machine.write_parent())
    assert done.returncode == 0, done.stderr
    assert files(machine.directory) == ["p.hatchet"]


# ------------------------------------------------------------------ rocprofiler


def _build_tool(tmp_path: Path) -> str:
    source = tmp_path / "tool.c"
    source.write_text(
        "#include <stdio.h>\n"
        "void *rocprofiler_configure(void) { puts(\"other tool\"); fflush(stdout); return 0; }\n"
    )
    path = str(tmp_path / "libtool.so")
    subprocess.run([CC, "-w", "-shared", "-fPIC", "-o", path, source], check=True, timeout=60)
    return path


def test_the_tool_is_named_with_the_library_that_will_load_it(sdk):
    found = sdk.seen()
    assert found["ROCP_TOOL_LIBRARIES"].endswith("/" + SDK_TOOL)
    assert found["ROCPROFILER_REGISTER_LIBRARY"] == str(sdk_library())


def test_tools_of_the_user_are_kept(sdk):
    found = sdk.seen(
        ROCP_TOOL_LIBRARIES="/opt/mine.so:b.so", ROCPROFILER_REGISTER_LIBRARY="/opt/r.so"
    )
    first, second, ours, rest = found["ROCP_TOOL_LIBRARIES"].split(":")
    assert (first, second, rest) == ("/opt/mine.so", "b.so", "") and ours.endswith(SDK_TOOL)
    assert found["ROCPROFILER_REGISTER_LIBRARY"] == "/opt/r.so"


def test_a_program_is_recorded_beside_the_tool_of_the_user(sdk):
    """rocprofiler-sdk does not load the last of several tools unless a colon follows."""
    other = _build_tool(sdk.directory)
    done = sdk.run_steps("init", "launch", ROCP_TOOL_LIBRARIES=other)
    assert done.returncode == 0, done.stderr
    assert sdk.counts() == {"kernel": 1}
    assert done.stdout == "other tool\n"


def test_the_list_of_the_user_comes_back_where_children_are_left_alone(sdk):
    other = _build_tool(sdk.directory)
    assert sdk.seen("--no-children", ROCP_TOOL_LIBRARIES=f"{other}:{other}:") == {
        "ROCP_TOOL_LIBRARIES": f"{other}:{other}:"
    }


def test_kernels_in_the_buffers_at_the_end_of_a_child_are_recorded(sdk):
    """The library throws its buffers away at its end, unless the tool flushes them."""
    done = sdk.run_steps("fork", "init", *["launch"] * 10)
    assert done.returncode == 0, done.stderr
    assert sdk.counts() == {"kernel": 10}


@pytest.mark.parametrize("call", ["create_context=1", "create_buffer=1", "start_context=1"])
@pytest.mark.parametrize("way", [(), ("fork",)], ids=["program", "child"])
def test_a_registration_that_fails_is_reported(call, way, sdk):
    """The program runs, and its own status stays if it is not 0."""
    done = sdk.run_steps(*way, "init", "launch", "status", FAKE_CUPTI_FAIL=call)
    assert done.returncode == (0 if way else 5), done.stderr
    name = "rocprofiler_" + call.split("=")[0]
    assert [line for line in own_lines(done.stderr) if line.startswith(name)], done.stderr
    done = sdk.run_steps("init", "launch", FAKE_CUPTI_FAIL=call)
    assert done.returncode == 1
    assert own_lines(done.stderr)[-1].startswith("no GPU activity was recorded: " + name)


def test_an_old_library_leaves_the_program_alone(sdk):
    done = sdk.run_steps("init", "launch", "status", FAKE_SDK_VERSION="600")
    assert done.returncode == 5, done.stderr
    (line,) = own_lines(done.stderr)
    assert line.startswith("nothing was recorded: this process uses HIP, but has no AMD GPU")


def test_a_program_with_an_empty_environment_is_recorded(sdk):
    done = sdk.run_steps("clean", "init", "launch")
    assert done.returncode == 0, done.stderr
    assert sdk.counts() == {"kernel": 1}


# ------------------------------------------------------------------ roctracer


@pytest.mark.parametrize("options", [("-b", "roctracer"), ()], ids=["named", "default"])
def test_the_tool_of_the_hsa_runtime_is_named(options, hsa):
    found = hsa.seen(*options)
    assert list(found) == ["HSA_TOOLS_LIB"]
    assert found["HSA_TOOLS_LIB"].endswith("/" + HSA_TOOL)


def test_tools_of_the_hsa_runtime_are_kept(hsa):
    mine = r"/opt/my\ tools/a.so b.so"
    found = hsa.seen(HSA_TOOLS_LIB=mine)["HSA_TOOLS_LIB"]
    assert found.startswith(mine + " /") and found.endswith("/" + HSA_TOOL)


def test_tools_of_the_user_stay_where_nothing_is_recorded(hsa):
    mine = r"/opt/my\ tools/a.so b.so"
    found = hsa.seen(HSA_TOOLS_LIB=mine, TRITON_PROTON_DISABLE="1")
    assert found == {"HSA_TOOLS_LIB": mine}


def test_rocprofiler_sdk_comes_first(hsa):
    found = hsa.seen(PROTON_ROCPROFILER_SDK_PATH=str(sdk_library()))
    assert "HSA_TOOLS_LIB" not in found and "ROCP_TOOL_LIBRARIES" in found
    found = hsa.seen("-b", "roctracer", PROTON_ROCPROFILER_SDK_PATH=str(sdk_library()))
    assert list(found) == ["HSA_TOOLS_LIB"]


def test_a_child_forked_after_hip_was_loaded_is_recorded_beside_its_parent(hsa):
    """As with `multiprocessing`: the runtime is initialized in each process that uses the GPU."""
    done = hsa.run_steps("hip", "both", "init", "launch", "launch")
    assert done.returncode == 0, done.stderr
    (child,) = children(done.stdout)
    assert files(hsa.directory) == [f"p.{child}.hatchet", "p.hatchet"]
    assert hsa.counts() == {"kernel": 2}
    assert hsa.counts(f"p.{child}.hatchet") == {"kernel": 2}


def test_the_runtime_may_close_the_tool(hsa):
    done = hsa.run_steps("spawn", "init", "launch", "shut", "launch")
    assert done.returncode == 0, done.stderr
    assert hsa.counts() == {"kernel": 2}


def test_a_path_with_a_space_is_one_tool(hsa):
    """As in an environment below a directory of such a name."""
    import triton_proton

    package = Path(triton_proton.__file__).parent
    there = hsa.directory / "my tools"
    there.mkdir()
    for name in ("libproton_inject.so", HSA_TOOL, "libproton.so.0"):
        shutil.copy(package / name, there / name)
    library = str(there / "libproton_inject.so")
    done = hsa.go("-b", "roctracer", hsa.write_parent(), PROTON_INJECT_LIB=library)
    assert done.returncode == 0, done.stderr
    assert f"tool {there / HSA_TOOL} 1" in done.stdout.splitlines()
    (profile,) = [path for path in hsa.directory.glob("p.*.hatchet")]
    assert counts(profile) == {"kernel": 1}


def test_a_failure_in_a_child_is_reported_and_the_child_runs(hsa):
    steps = ["spawn", "init", "launch", "status"]
    done = hsa.run_steps(*steps, FAKE_ROCTRACER_MAJOR="3")
    assert done.returncode == 2, done.stdout  # the session of the program itself cannot start
    (hsa.directory / "script.py").write_text(
        "import os, subprocess\nos.environ['FAKE_ROCTRACER_MAJOR'] = '3'\n"
        f"print(subprocess.run([{hsa.program!r}, 'init', 'launch', 'status']).returncode)\n"
    )
    done = hsa.go("-b", "roctracer", "script.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("5\n")
    assert [line for line in own_lines(done.stderr) if "is roctracer 3.1" in line], done.stderr


def test_roctracer_is_used_where_the_sdk_is_too_old(hsa):
    """ROCm 6.2 to 6.4 has rocprofiler-sdk 0.x: the session takes roctracer."""
    (hsa.directory / "script.py").write_text(
        "import triton_proton as proton\nproton.start('q', hook=None)\nproton.finalize()\n"
    )
    env = hip_environment(
        PROTON_ROCPROFILER_SDK_PATH=str(sdk_library()), FAKE_SDK_VERSION="600", PROTON_QUIET=None
    )
    done = run([sys.executable, "script.py"], hsa.directory, env=env)
    assert done.returncode == 0, done.stderr
    written = json.loads((hsa.directory / "q.hatchet").read_text())
    (info,) = [part["proton"]["info"] for part in written if "proton" in part]
    assert info["backend"] == "roctracer"
