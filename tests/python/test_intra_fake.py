"""Examples of intra-kernel scopes, run as a user runs them, with a fake GPU.

Their `torch` is fake_torch.py, with empty tensors.
"""

import json
import shutil
import sys
from pathlib import Path

import pytest
from fake_driver import hip_library, run_python

pytest.importorskip("triton.backends.amd.driver")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "intra"
CTAS, WARPS = 97, 4  # the vector additions: 98432 elements, 1024 each


@pytest.fixture
def run(tmp_path):
    """Runs Python with these words; its standard error."""
    shutil.copy(Path(__file__).with_name("fake_torch.py"), tmp_path / "torch.py")

    def go(*words: str, **variables: str) -> str:
        changes = {
            "TRITON_LIBHIP_PATH": str(hip_library()),
            "PROTON_CUDA_PATH": "/nonexistent/libcuda.so.1",
            "PROTON_HIP_PATH": str(hip_library()),
            "PYTHONWARNINGS": "ignore",
        }
        return run_python(tmp_path, *words, **changes, **variables).stderr

    return go


def scopes_of(path: Path) -> dict[str, dict]:
    """The metrics of each scope of a profile."""
    found = {}

    def visit(node):
        if "cycles" in node["metrics"]:
            found[node["frame"]["name"]] = node["metrics"]
        for child in node["children"]:
            visit(child)

    visit(json.loads(path.read_text())[0])
    return found


DSL = {"kernel", "load_and_add", "load_x", "load_y", "store"}


@pytest.mark.parametrize(
    "options, warps",
    [
        ([], WARPS),
        (["--warp-sampling", "--warp-ids", "0,1,2,3"], WARPS),
        (["--warp-sampling", "--warp-ids", "0,2"], 2),
        (["--gmem_buffer"], WARPS),
    ],
)
def test_cycles_of_the_dsl(run, tmp_path, options, warps):
    assert not run(str(EXAMPLES / "example_dsl.py"), "--op-measure", *options)
    scopes = scopes_of(tmp_path / "vector-add-dsl.hatchet")
    assert set(scopes) == DSL
    for metrics in scopes.values():
        assert metrics["executions"] == CTAS * warps
    assert scopes["load_x"]["cycles"] == 100 * CTAS * warps
    assert scopes["load_x"]["normalized_cycles"] == 100


def test_increased_accuracy(run, tmp_path):
    words = [str(EXAMPLES / "example_dsl.py"), "--op-measure", "--increase-accuracy"]
    assert not run(*words, PROTON_INSTRUMENT_COST="10,20")
    assert scopes_of(tmp_path / "vector-add-dsl.hatchet")["load_x"]["normalized_cycles"] == 90


def test_a_timeline_of_the_dsl(run, tmp_path):
    assert not run(str(EXAMPLES / "example_dsl.py"))
    events = json.loads((tmp_path / "vector-add-dsl.chrome_trace").read_text())["traceEvents"]
    drawn = [event["name"] for event in events if event["ph"] == "X"]
    assert set(drawn) == DSL
    assert drawn.count("load_x") == CTAS * WARPS
    times = {"Init Time (ns)", "Finalization Time (ns)", "Post Final Time (ns)"}
    for event in events:
        assert event["args"]["Frequency (MHz)"] == 2000 and times < set(event["args"])
        assert event["cat"] == event["args"]["call_stack"][-1] == "add"


def test_a_kernel_without_edits(run, tmp_path):
    assert not run(str(EXAMPLES / "example_auto.py"), "--op-measure")
    words = {name.partition("@")[0] for name in scopes_of(tmp_path / "matmul-auto.hatchet")}
    assert words == {"load", "local_store", "local_load", "dot", "loop", "store"}


def test_overriding_ttgir_as_the_tutorial_does(run, tmp_path):
    example = str(EXAMPLES / "example_override.py")
    intra = ["-m", "triton_proton.intra"]
    printed = run(*intra, "dump", "ttgir_dump", sys.executable, example, "--increase-accuracy")
    assert printed == "proton: 1 kernel in ttgir_dump\n"
    scopes = ["--scope", "kernel", "--scope", "load=load"]
    assert not run(*intra, "insert", "ttgir_dump", *scopes)
    variables = {
        "TRITON_ALWAYS_COMPILE": "1",
        "TRITON_KERNEL_OVERRIDE": "1",
        "TRITON_OVERRIDE_DIR": "ttgir_dump",
        "PROTON_INSTRUMENT_COST": "10,20",
    }
    assert not run(example, "--op-measure", "--increase-accuracy", **variables)
    assert set(scopes_of(tmp_path / "vector-add.hatchet")) == {"kernel", "load"}
    assert not run(*intra, "run", "ttgir_dump", example, "--op-measure")
    assert set(scopes_of(tmp_path / "vector-add.hatchet")) == {"kernel", "load"}


PLAIN = """
import example_override, torch, triton

x = torch.rand(98432, device="cuda")
example_override.add[(triton.cdiv(x.numel(), 1024),)](x, x, x, x.numel(), BLOCK=1024)
"""


def test_a_dump_of_a_program_that_does_not_profile(run, tmp_path):
    shutil.copy(EXAMPLES / "example_override.py", tmp_path)
    shutil.copy(EXAMPLES / "common.py", tmp_path)
    (tmp_path / "program.py").write_text(PLAIN)
    intra = ["-m", "triton_proton.intra"]
    run(*intra, "dump", "ttgir_dump", "program.py")
    run(*intra, "insert", "ttgir_dump", "--scope", "load=load")
    command = [sys.executable, "-m", "triton_proton.proton", "-n", "named", "-b", "instrumentation"]
    run(*intra, "run", "ttgir_dump", *command, "program.py")
    assert set(scopes_of(tmp_path / "named.hatchet")) == {"load"}


def test_an_example_for_another_gpu_reports_the_gpu_it_needs(run):
    with pytest.raises(AssertionError, match=r"needs a Hopper GPU \(compute capability 9.0\)"):
        run(str(EXAMPLES / "example_warps.py"))
