"""`proton -b roctracer` and HIP: programs and children that the HSA runtime lets it enter.

With fakes: the program does what the HSA runtime does when HIP initializes it. It loads the tools
that HSA_TOOLS_LIB names and calls their OnLoad().
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from cmd_support import executable, own_lines, proton, run
from fake_driver import CC, hip_environment, sdk_library
from step_program import build
from test_cmd_children import children, counts, files

pytestmark = [
    pytest.mark.skipif(CC is None, reason="no C compiler"),
    pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="the default is CUDA here"),
]

TOOL = "libproton_hsa.so"

STEPS = r"""
    #include "fake/fake_roctracer.h"

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

    static void launch(void)
    {
        struct fake_hip_launch one = {.call = "hipModuleLaunchKernel", .name = "kernel",
                                      .node = 1, .records = 1};
        void *roctracer = dlopen(getenv("PROTON_ROCTRACER_PATH"), RTLD_NOW);

        one.start_ns = ((uint64_t (*)(void))dlsym(roctracer, "fake_now"))();
        one.end_ns = one.start_ns + 1000;
        ((uint64_t (*)(const struct fake_hip_launch *))dlsym(roctracer, "fake_hip_call"))(&one);
    }

    static int do_step(char **words)
    {
        const char *step = words[0];

        if (strcmp(step, "hip") == 0) {
            dlopen(getenv("PROTON_HIP_PATH"), RTLD_NOW | RTLD_GLOBAL);
        } else if (strcmp(step, "init") == 0) {
            if (getenv("HSA_TOOLS_LIB"))
                load_tools(getenv("HSA_TOOLS_LIB"));
        } else if (strcmp(step, "shut") == 0) {
            while (count)
                dlclose(tools[--count]);
        } else if (strcmp(step, "launch") == 0) {
            launch();
        } else if (strcmp(step, "visible") == 0) {
            printf("visible %d\n", dlsym(RTLD_DEFAULT, "OnLoad") != NULL);
        }
        return -1;
    }
    """


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build(tmp_path_factory.mktemp("program") / "a.out", STEPS)


def go(tmp_path: Path, *words: str, **changes: str | None):
    """A machine with ROCm 6."""
    for name in ("HSA_TOOLS_LIB", "ROCP_TOOL_LIBRARIES", "ROCPROFILER_REGISTER_LIBRARY"):
        changes.setdefault(name, None)
    changes.setdefault("PROTON_ROCPROFILER_SDK_PATH", "/nonexistent/librocprofiler-sdk.so")
    return proton("-n", "p", *words, cwd=tmp_path, env=hip_environment(**changes))


def seen(tmp_path: Path, *options: str, **changes: str | None) -> dict[str, str]:
    """Variables of the target that concern ROCm's tools."""
    script = "import json, os, sys; json.dump(dict(os.environ), open('env.json', 'w'))"
    (tmp_path / "script.py").write_text(script)
    done = go(tmp_path, *options, "script.py", **changes)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "env.json").read_text())
    return {name: value for name, value in found.items() if name.startswith(("ROC", "HSA"))}


@pytest.mark.parametrize("options", [("-b", "roctracer"), ()], ids=["named", "default"])
def test_the_tool_is_named(options, tmp_path):
    found = seen(tmp_path, *options)
    assert list(found) == ["HSA_TOOLS_LIB"]
    assert found["HSA_TOOLS_LIB"].endswith("/" + TOOL)


def test_tools_of_the_user_are_kept(tmp_path):
    mine = r"/opt/my\ tools/a.so b.so"
    found = seen(tmp_path, HSA_TOOLS_LIB=mine)["HSA_TOOLS_LIB"]
    assert found.startswith(mine + " /") and found.endswith("/" + TOOL)


@pytest.mark.parametrize(
    "options, changes",
    [
        (["-b", "roctracer", "--no-children"], {}),
        (["-b", "host"], {}),
        ([], {"PROTON_ROCTRACER_PATH": "/nonexistent/libroctracer64.so"}),
        ([], {"TRITON_PROTON_DISABLE": "1"}),
    ],
    ids=["no children", "another backend", "no roctracer", "disabled"],
)
def test_nothing_is_set_where_it_is_of_no_use(options, changes, tmp_path):
    assert seen(tmp_path, *options, **changes) == {}


def test_tools_of_the_user_stay_where_nothing_is_recorded(tmp_path):
    mine = r"/opt/my\ tools/a.so b.so"
    found = seen(tmp_path, HSA_TOOLS_LIB=mine, TRITON_PROTON_DISABLE="1")
    assert found == {"HSA_TOOLS_LIB": mine}


def test_rocprofiler_sdk_comes_first(tmp_path):
    found = seen(tmp_path, PROTON_ROCPROFILER_SDK_PATH=str(sdk_library()))
    assert "HSA_TOOLS_LIB" not in found and "ROCP_TOOL_LIBRARIES" in found
    found = seen(tmp_path, "-b", "roctracer", PROTON_ROCPROFILER_SDK_PATH=str(sdk_library()))
    assert list(found) == ["HSA_TOOLS_LIB"]


def test_a_program_that_loads_hip_late_is_recorded_from_its_first_launch(program, tmp_path):
    done = go(tmp_path, "-b", "roctracer", "--", program, "hip", "init", "launch", "status")
    assert done.returncode == 5, done.stderr
    assert done.stdout.count("tool ") == 1
    assert files(tmp_path) == ["p.hatchet"]
    assert counts(tmp_path / "p.hatchet") == {"kernel": 1}


def test_a_program_that_does_not_use_hip_loads_nothing(program, tmp_path):
    done = go(tmp_path, "-b", "roctracer", "--", program, "visible", "status")
    assert done.returncode == 5, done.stderr
    assert done.stdout == "visible 0\n"
    assert counts(tmp_path / "p.hatchet") == {}


@pytest.mark.parametrize("options", [("-b", "roctracer"), ()], ids=["named", "default"])
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_a_child_is_recorded_with_its_own_file(way, options, program, tmp_path):
    steps = [way, "hip", "init", "launch", "launch", "launch"]
    done = go(tmp_path, *options, "--", program, *steps)
    assert done.returncode == 0, done.stderr
    (child,) = children(done.stdout)
    # The only process with kernels gets the name.
    assert files(tmp_path) == ["p.hatchet"]
    assert counts(tmp_path / "p.hatchet") == {"kernel": 3}


def test_a_child_forked_after_hip_was_loaded_is_recorded_beside_its_parent(program, tmp_path):
    """As with `multiprocessing`: the runtime is initialized in each process that uses the GPU."""
    steps = ["hip", "both", "init", "launch", "launch"]
    done = go(tmp_path, "-b", "roctracer", "--", program, *steps)
    assert done.returncode == 0, done.stderr
    (child,) = children(done.stdout)
    assert files(tmp_path) == [f"p.{child}.hatchet", "p.hatchet"]
    assert counts(tmp_path / "p.hatchet") == {"kernel": 2}
    assert counts(tmp_path / f"p.{child}.hatchet") == {"kernel": 2}


def test_the_runtime_may_close_the_tool(program, tmp_path):
    steps = ["spawn", "hip", "init", "launch", "shut", "launch"]
    done = go(tmp_path, "-b", "roctracer", "--", program, *steps)
    assert done.returncode == 0, done.stderr
    assert counts(tmp_path / "p.hatchet") == {"kernel": 2}


def test_a_child_of_a_script_is_recorded(program, tmp_path):
    (tmp_path / "script.py").write_text(
        f"import subprocess\nsubprocess.run([{program!r}, 'hip', 'init', 'launch'], check=True)\n"
    )
    done = go(tmp_path, "-b", "roctracer", "script.py")
    assert done.returncode == 0, done.stderr
    (profile,) = [path for path in tmp_path.glob("p.*.hatchet")]
    assert counts(profile) == {"kernel": 1}


def test_children_are_left_alone_on_request(program, tmp_path):
    (tmp_path / "script.py").write_text(
        f"import subprocess\nsubprocess.run([{program!r}, 'hip', 'init', 'launch'], check=True)\n"
    )
    done = go(tmp_path, "-b", "roctracer", "--no-children", "script.py")
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == ["p.hatchet"]


def test_variables_of_an_outer_proton_do_not_pile_up(program, tmp_path):
    script = (
        "import subprocess, sys\n"
        "sys.exit(subprocess.run([sys.argv[1], '-n', 'inner', '--', *sys.argv[2:]]).returncode)\n"
    )
    (tmp_path / "outer.py").write_text(script)
    words = ["outer.py", executable("proton"), program, "hip", "init", "launch", "status"]
    done = go(tmp_path, "-b", "roctracer", *words)
    assert done.returncode == 5, done.stderr
    assert done.stdout.count("tool ") == 1
    assert counts(tmp_path / "inner.hatchet") == {"kernel": 1}


def test_a_path_with_a_space_is_one_tool(program, tmp_path):
    """As in an environment below a directory of such a name."""
    import triton_proton

    package = Path(triton_proton.__file__).parent
    there = tmp_path / "my tools"
    there.mkdir()
    for name in ("libproton_inject.so", TOOL, "libproton.so.0"):
        shutil.copy(package / name, there / name)
    (tmp_path / "script.py").write_text(
        f"import subprocess\nsubprocess.run([{program!r}, 'hip', 'init', 'launch'], check=True)\n"
    )
    library = str(there / "libproton_inject.so")
    done = go(tmp_path, "-b", "roctracer", "script.py", PROTON_INJECT_LIB=library)
    assert done.returncode == 0, done.stderr
    assert f"tool {there / TOOL} 1" in done.stdout.splitlines()
    (profile,) = [path for path in tmp_path.glob("p.*.hatchet")]
    assert counts(profile) == {"kernel": 1}


def test_a_failure_in_a_child_is_reported_and_the_child_runs(program, tmp_path):
    steps = ["spawn", "hip", "init", "launch", "status"]
    done = go(tmp_path, "-b", "roctracer", "--", program, *steps, FAKE_ROCTRACER_MAJOR="3")
    assert done.returncode == 2, done.stdout  # the session of the program itself cannot start
    (tmp_path / "script.py").write_text(
        "import os, subprocess\nos.environ['FAKE_ROCTRACER_MAJOR'] = '3'\n"
        f"print(subprocess.run([{program!r}, 'hip', 'init', 'launch', 'status']).returncode)\n"
    )
    done = go(tmp_path, "-b", "roctracer", "script.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("5\n")
    assert [line for line in own_lines(done.stderr) if "is roctracer 3.1" in line], done.stderr


def test_roctracer_is_used_where_the_sdk_is_too_old(tmp_path):
    """ROCm 6.2 to 6.4 has rocprofiler-sdk 0.x: the session takes roctracer."""
    (tmp_path / "script.py").write_text(
        "import triton_proton as proton\nproton.start('q', hook=None)\nproton.finalize()\n"
    )
    env = hip_environment(
        PROTON_ROCPROFILER_SDK_PATH=str(sdk_library()), FAKE_SDK_VERSION="600", PROTON_QUIET=None
    )
    done = run([sys.executable, "script.py"], tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "q.hatchet").read_text())
    (info,) = [part["proton"]["info"] for part in written if "proton" in part]
    assert info["backend"] == "roctracer"
