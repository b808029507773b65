"""`proton` and HIP: programs and children into which rocprofiler-sdk loads the recorder.

With fakes: the program initializes HIP, which registers; librocprofiler-register loads
rocprofiler-sdk, which loads the tools that ROCP_TOOL_LIBRARIES names.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from cmd_support import environment, own_lines, proton
from fake_driver import CC, hip_library, sdk_library
from step_program import build
from test_cmd_children import children, counts, files

pytestmark = [
    pytest.mark.skipif(CC is None, reason="no C compiler"),
    pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="the default is CUDA here"),
]

TOOL = "libproton_rocprofiler.so"

STEPS = r"""
    #include "fake/fake_sdk.h"

    static void *sdk;

    /* Without tools HIP loads no rocprofiler-sdk. */
    static void init(void)
    {
        void *hip = dlopen(getenv("PROTON_HIP_PATH"), RTLD_LAZY);

        ((void (*)(void))dlsym(hip, "fake_hip_initialize"))();
        sdk = dlopen(getenv("PROTON_ROCPROFILER_SDK_PATH"), RTLD_LAZY | RTLD_NOLOAD);
    }

    static void launch(void)
    {
        struct fake_launch one = {.call = CUPTI_CALL_LAUNCH_KERNEL, .name = "kernel",
                                  .context = &one, .records = 1,
                                  .start_ns = 1000, .end_ns = 2000};

        if (sdk)
            ((unsigned (*)(const struct fake_launch *))dlsym(sdk, "fake_launch"))(&one);
    }

    static int do_step(char **words)
    {
        const char *step = words[0];

        if (strcmp(step, "init") == 0) {
            init();
        } else if (strcmp(step, "launch") == 0) {
            launch();
        } else if (strcmp(step, "visible") == 0) {
            printf("visible %d\n", dlsym(RTLD_DEFAULT, "rocprofiler_configure") != NULL);
        } else if (strcmp(step, "clean") == 0) { /* without variables but those of the fake */
            char *few[3] = {NULL};

            asprintf(&few[0], "PROTON_HIP_PATH=%s", getenv("PROTON_HIP_PATH"));
            asprintf(&few[1], "PROTON_ROCPROFILER_SDK_PATH=%s",
                     getenv("PROTON_ROCPROFILER_SDK_PATH"));
            words[0] = program;
            execve(program, words, few);
        }
        return -1;
    }
    """


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build(tmp_path_factory.mktemp("program") / "a.out", STEPS)


def _build_tool(tmp_path: Path) -> str:
    source = tmp_path / "tool.c"
    source.write_text(
        "#include <stdio.h>\n"
        "void *rocprofiler_configure(void) { puts(\"other tool\"); fflush(stdout); return 0; }\n"
    )
    path = str(tmp_path / "libtool.so")
    subprocess.run([CC, "-w", "-shared", "-fPIC", "-o", path, source], check=True, timeout=60)
    return path


def variables(**changes: str | None) -> dict[str, str]:
    """A machine with the fake ROCm."""
    changes.setdefault("PROTON_HIP_PATH", str(hip_library()))
    changes.setdefault("PROTON_ROCPROFILER_SDK_PATH", str(sdk_library()))
    for name in ("PROTON_BACKEND", "ROCP_TOOL_LIBRARIES", "ROCPROFILER_REGISTER_LIBRARY"):
        changes.setdefault(name, None)
    return environment(**changes)


def go(tmp_path: Path, *words: str, **changes: str | None):
    return proton("-n", "p", *words, cwd=tmp_path, env=variables(**changes))


def seen(tmp_path: Path, *options: str, **changes: str | None) -> dict[str, str]:
    """Variables of the target that concern ROCm's tools."""
    script = "import json, os, sys; json.dump(dict(os.environ), open('env.json', 'w'))"
    (tmp_path / "script.py").write_text(script)
    done = go(tmp_path, *options, "script.py", **changes)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "env.json").read_text())
    return {name: value for name, value in found.items() if name.startswith("ROC")}


def test_the_tool_is_named_with_the_library_that_will_load_it(tmp_path):
    found = seen(tmp_path)
    assert found["ROCP_TOOL_LIBRARIES"].endswith("/" + TOOL)
    assert found["ROCPROFILER_REGISTER_LIBRARY"] == str(sdk_library())


def test_tools_of_the_user_are_kept(tmp_path):
    found = seen(
        tmp_path, ROCP_TOOL_LIBRARIES="/opt/mine.so:b.so", ROCPROFILER_REGISTER_LIBRARY="/opt/r.so"
    )
    first, second, ours, rest = found["ROCP_TOOL_LIBRARIES"].split(":")
    assert (first, second, rest) == ("/opt/mine.so", "b.so", "") and ours.endswith(TOOL)
    assert found["ROCPROFILER_REGISTER_LIBRARY"] == "/opt/r.so"


@pytest.mark.parametrize(
    "options, changes",
    [
        ([], {"PROTON_ROCPROFILER_SDK_PATH": "/nonexistent/librocprofiler-sdk.so"}),
        ([], {"PROTON_HIP_PATH": None}),
        (["-b", "host"], {}),
        (["--no-children"], {}),
    ],
    ids=["no SDK", "no HIP", "another backend", "no children"],
)
def test_nothing_is_set_where_hip_must_not_load_the_tool(options, changes, tmp_path):
    """ROCm aborts a program with a tool and without rocprofiler-sdk."""
    if changes.get("PROTON_HIP_PATH", "") is None and os.path.exists("/dev/kfd"):
        pytest.skip("this machine has an AMD GPU")
    assert seen(tmp_path, *options, **changes) == {}


def test_variables_of_an_outer_proton_do_not_pile_up(program, tmp_path):
    script = (
        "import subprocess, sys\n"
        "sys.exit(subprocess.run([sys.argv[1], '-n', 'inner', '--', *sys.argv[2:]]).returncode)\n"
    )
    (tmp_path / "outer.py").write_text(script)
    from cmd_support import executable

    done = go(tmp_path, "outer.py", executable("proton"), program, "init", "launch", "status")
    assert done.returncode == 5, done.stderr
    assert counts(tmp_path / "inner.hatchet") == {"kernel": 1}


def test_a_program_is_recorded_and_keeps_its_status(program, tmp_path):
    done = go(tmp_path, "--", program, "init", "launch", "launch", "status")
    assert done.returncode == 5, done.stderr
    assert files(tmp_path) == ["p.hatchet"]
    assert counts(tmp_path / "p.hatchet") == {"kernel": 2}
    assert own_lines(done.stderr)[-1].startswith("recorded 2 kernel launches")


def test_a_program_is_recorded_beside_the_tool_of_the_user(program, tmp_path):
    """rocprofiler-sdk does not load the last of several tools unless a colon follows."""
    other = _build_tool(tmp_path)
    done = go(tmp_path, "--", program, "init", "launch", ROCP_TOOL_LIBRARIES=other)
    assert done.returncode == 0, done.stderr
    assert counts(tmp_path / "p.hatchet") == {"kernel": 1}
    assert done.stdout == "other tool\n"


def test_the_list_of_the_user_comes_back_where_children_are_left_alone(tmp_path):
    other = _build_tool(tmp_path)
    assert seen(tmp_path, "--no-children", ROCP_TOOL_LIBRARIES=f"{other}:{other}:") == {
        "ROCP_TOOL_LIBRARIES": f"{other}:{other}:"
    }


def test_kernels_in_the_buffers_at_the_end_of_a_child_are_recorded(program, tmp_path):
    """The library throws its buffers away at its end, unless the tool flushes them."""
    done = go(tmp_path, "--", program, "fork", "init", *["launch"] * 10)
    assert done.returncode == 0, done.stderr
    assert counts(tmp_path / "p.hatchet") == {"kernel": 10}


def test_a_program_that_does_not_use_hip_loads_nothing(program, tmp_path):
    done = go(tmp_path, "--", program, "visible", "status")
    assert done.returncode == 5, done.stderr
    assert done.stdout == "visible 0\n"
    assert counts(tmp_path / "p.hatchet") == {}


@pytest.mark.parametrize("call", ["create_context=1", "create_buffer=1", "start_context=1"])
@pytest.mark.parametrize("way", [(), ("fork",)], ids=["program", "child"])
def test_a_registration_that_fails_is_reported(call, way, program, tmp_path):
    """The program runs, and its own status stays if it is not 0."""
    done = go(tmp_path, "--", program, *way, "init", "launch", "status", FAKE_CUPTI_FAIL=call)
    assert done.returncode == (0 if way else 5), done.stderr
    name = "rocprofiler_" + call.split("=")[0]
    assert [line for line in own_lines(done.stderr) if line.startswith(name)], done.stderr
    done = go(tmp_path, "--", program, "init", "launch", FAKE_CUPTI_FAIL=call)
    assert done.returncode == 1
    assert own_lines(done.stderr)[-1].startswith("no GPU activity was recorded: " + name)


def test_an_old_library_leaves_the_program_alone(program, tmp_path):
    done = go(tmp_path, "--", program, "init", "launch", "status", FAKE_SDK_VERSION="600")
    assert done.returncode == 5, done.stderr
    (line,) = own_lines(done.stderr)
    assert line.startswith("nothing was recorded: this process uses HIP, but has no AMD GPU")


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_a_child_is_recorded_with_its_own_file(way, program, tmp_path):
    done = go(tmp_path, "--", program, way, "init", "launch", "launch", "launch")
    assert done.returncode == 0, done.stderr
    (child,) = children(done.stdout)
    # The only process with kernels gets the name.
    assert files(tmp_path) == ["p.hatchet"]
    assert counts(tmp_path / "p.hatchet") == {"kernel": 3}


def test_a_program_with_an_empty_environment_is_recorded(program, tmp_path):
    done = go(tmp_path, "--", program, "clean", "init", "launch")
    assert done.returncode == 0, done.stderr
    assert counts(tmp_path / "p.hatchet") == {"kernel": 1}


def test_a_child_of_a_script_is_recorded(program, tmp_path):
    (tmp_path / "script.py").write_text(
        f"import subprocess\nsubprocess.run([{program!r}, 'init', 'launch'], check=True)\n"
    )
    done = go(tmp_path, "script.py")
    assert done.returncode == 0, done.stderr
    (profile,) = [path for path in tmp_path.glob("p.*.hatchet")]
    assert counts(profile) == {"kernel": 1}


def test_children_are_left_alone_on_request(program, tmp_path):
    (tmp_path / "script.py").write_text(
        f"import subprocess\nsubprocess.run([{program!r}, 'init', 'launch'], check=True)\n"
    )
    done = go(tmp_path, "--no-children", "script.py")
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == ["p.hatchet"]
